"""``stationmaster manifests``: what installs it into a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli import options
from webhook.cli import output as out
from webhook.cli.command import Examples
from webhook.cli.report import Report

if TYPE_CHECKING:
    from webhook.install.settings import Certificates, FailurePolicy


@click.command(
    cls=Examples,
    examples={
        "Install into the cluster of the current context": "manifests | kubectl apply -f -",
        "See what that would change": "manifests | kubectl diff -f -",
        "With the image where your registry has it": (
            "manifests --image registry.example/stationmaster | kubectl apply -f -"
        ),
        "With certificates of cert-manager, which must be installed": (
            "manifests --certificates cert-manager | kubectl apply -f -"
        ),
        "Without ever refusing a TrainJob because nobody answers": (
            "manifests --failure-policy Ignore | kubectl apply -f -"
        ),
        "Uninstall, and keep the kinds of policies, and with them all policies": (
            "manifests --no-crds | kubectl delete -f -"
        ),
        "Uninstall": "manifests | kubectl delete -f -",
    },
)
@click.option(
    "--certificates",
    type=click.Choice(("self-managed", "cert-manager")),
    default="self-managed",
    show_default=True,
    help="Who makes them: Stationmaster itself, or cert-manager.",
)
@click.option(
    "--namespace",
    metavar="NAME",
    default="stationmaster-system",
    show_default=True,
    help="The namespace to install into.",
)
@click.option(
    "--image", metavar="IMAGE", default="", help="The image; without a tag, that of this version."
)
@click.option("--replicas", type=click.IntRange(min=1), help="How many; two without it.")
@click.option(
    "--exclude-namespace",
    "excluded",
    metavar="NAME",
    multiple=True,
    help="Do nothing in this namespace, as in ours and kube-*. May be repeated.",
)
@click.option(
    "--kueue-user",
    metavar="USER",
    default="system:serviceaccount:kueue-system:kueue-controller-manager",
    show_default=True,
    help="Kueue's controller, whose updates are never judged.",
)
@click.option(
    "--failure-policy",
    type=click.Choice(("Fail", "Ignore")),
    default="Fail",
    show_default=True,
    help="Whether new and changed TrainJobs are refused while nobody answers. All else passes.",
)
@click.option(
    "--fail-with-replicas",
    metavar="N",
    type=click.IntRange(min=0),
    help="Arm Fail once N replicas are Ready; two without it. With 0 it is said from the start, as it"
    " always is with cert-manager.",
)
@click.option(
    "--timeout-seconds",
    metavar="SECONDS",
    type=click.IntRange(1, 30),
    help="How long the API server waits for an answer; 5 without it. Deletions wait for 2.",
)
@click.option(
    "--image-pull-secret",
    "image_pull_secrets",
    metavar="NAME",
    multiple=True,
    help="A Secret of the namespace, to pull the image with. May be repeated.",
)
@click.option("--priority-class", metavar="NAME", default="", help="Of the pods.")
@options.log_level
@click.option("--no-network-policy", is_flag=True, help="Leave the NetworkPolicy out.")
@click.option("--no-crds", is_flag=True, help="Leave the kinds of policies out.")
@click.option("--no-events", is_flag=True, help="Write no Events on TrainJobs.")
@click.option("--podgroups", is_flag=True, help="Correct the Trainer's PodGroups, too.")
@options.output(("yaml", "json"))
def command(  # noqa: PLR0913  # one argument an option
    *,
    certificates: Certificates,
    namespace: str,
    image: str,
    replicas: int | None,
    excluded: tuple[str, ...],
    kueue_user: str,
    failure_policy: FailurePolicy,
    fail_with_replicas: int | None,
    timeout_seconds: int | None,
    image_pull_secrets: tuple[str, ...],
    priority_class: str,
    log_level: str,
    no_network_policy: bool,
    no_crds: bool,
    no_events: bool,
    podgroups: bool,
    output: str,
) -> int:
    """Print the manifests that install Stationmaster, for kubectl apply -f -.

    They are those of deploy/kustomize, of the version that prints them. To change more than the
    options do, use them as the base of a kustomization of your own, or the Helm chart.
    """
    from webhook.install import settings as install  # noqa: PLC0415  # not for `--help`

    settings = install.Settings(
        certificates=certificates,
        namespace=namespace,
        image=image,
        replicas=replicas,
        log_level=log_level,
        excluded_namespaces=excluded,
        kueue_user=kueue_user,
        failure_policy=failure_policy,
        fail_with_replicas=fail_with_replicas,
        timeout_seconds=timeout_seconds,
        image_pull_secrets=image_pull_secrets,
        priority_class=priority_class,
        network_policy=not no_network_policy,
        crds=not no_crds,
        events=not no_events,
        podgroups=podgroups,
    )
    objects = install.manifests(settings)
    report = Report.on_stderr()
    for caution in install.cautions(objects):
        report.warning(caution)
    out.write_objects(output, objects, as_list=True)
    return report.code
