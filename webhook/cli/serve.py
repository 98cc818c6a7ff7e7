"""``stationmaster serve``: the webhook itself, from a folder of YAML or for a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli import options
from webhook.cli.command import Examples

if TYPE_CHECKING:
    from pathlib import Path

    from webhook.config import Address, LogFormat, LogLevel, StalePolicy


@click.command(
    cls=Examples,
    examples={
        "Answer on this machine, and write the CA certificate beside": "serve --from cluster/",
        "With policies beside the folder": "serve --from cluster/ -p policies/",
        "Answer on all addresses": "serve --from cluster/ --listen :9443 --health-listen :8081",
        "Answer for a cluster, from outside of it": "serve --kubeconfig ~/.kube/config",
        "Choose the plugins": "serve --from cluster/ --profile profile.yaml",
    },
)
@options.folder(required=False)
@options.policies
@options.path(
    "--kubeconfig", about="The cluster that this kubeconfig names, followed by list and watch."
)
@click.option(
    "--context", metavar="NAME", help="The context of the kubeconfig; else its current one."
)
@click.option(
    "--in-cluster",
    is_flag=True,
    help="The cluster that this pod runs in, as its service account.",
)
@click.option(
    "--namespace",
    metavar="NAME",
    envvar="POD_NAMESPACE",
    default="stationmaster-system",
    show_default=True,
    help="Our own namespace, where the ConfigMap stationmaster-mode is; the manifests set POD_NAMESPACE.",
)
@click.option(
    "--stale",
    type=click.Choice(("serve", "fail")),
    default="serve",
    show_default=True,
    help="Cut off from the API server for too long: serve new TrainJobs with a warning, or refuse them.",
)
@click.option(
    "--stale-seconds",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="How long is too long.",
)
@click.option(
    "--listen",
    type=options.Address(),
    default="127.0.0.1:9443",
    show_default=True,
    help="Where AdmissionReviews arrive, over TLS: /mutate, /mutate-podgroups, /validate.",
)
@click.option(
    "--health-listen",
    type=options.Address(),
    default="127.0.0.1:8081",
    show_default=True,
    help="Where probes and metrics are asked for: /healthz, /readyz, /metrics.",
)
@options.profile
@options.pod_groups
@click.option(
    "--no-events",
    is_flag=True,
    help="With --in-cluster: write no Events about what the Trainer and JobSet fail at.",
)
@options.trainer_version
@options.path(
    "--cert-dir",
    what="DIR",
    about="Where to leave the CA certificate; without it, a folder of this user for running programs.",
)
@options.path(
    "--cert-files",
    what="DIR",
    about="Serve tls.crt and tls.key of this folder, and follow them: somebody else renews them.",
)
@click.option(
    "--log-format",
    type=click.Choice(("json", "text")),
    default="json",
    show_default=True,
    help="How to write the log.",
)
@options.log_level
def command(  # noqa: PLR0913  # one argument an option
    *,
    directory: Path | None,
    policies: tuple[Path, ...],
    kubeconfig: Path | None,
    context: str | None,
    in_cluster: bool,
    namespace: str,
    stale: StalePolicy,
    stale_seconds: float,
    listen: Address,
    health_listen: Address,
    profile: Path | None,
    pod_groups: bool,
    no_events: bool,
    trainer_version: str | None,
    cert_dir: Path | None,
    cert_files: Path | None,
    log_format: LogFormat,
    log_level: LogLevel,
) -> int:
    """Answer AdmissionReviews over TLS, from a folder of YAML or for a cluster.

    DIR is followed: a change is taken over as a whole, and the last good state is kept while a file
    is broken. A cluster is followed by list and watch; until all is read, /readyz says what is missing.
    The certificate is made at start, and its CA written where the log says; with --in-cluster it is the
    one that all replicas share by a Secret, and with --cert-files whatever is there.
    """
    if sum((directory is not None, kubeconfig is not None, in_cluster)) != 1:
        raise click.UsageError("give one of --from DIR, --kubeconfig FILE and --in-cluster")
    if policies and directory is None:
        raise click.UsageError("--policies goes with --from; a cluster has its policies itself")
    if context is not None and kubeconfig is None:
        raise click.UsageError("--context goes with --kubeconfig")
    if cert_dir is not None and (in_cluster or cert_files is not None):
        raise click.UsageError("--cert-dir goes with a certificate that is made at start")
    from webhook import wiring  # noqa: PLC0415  # not for `--help`
    from webhook.config import ServeOptions  # noqa: PLC0415

    return wiring.run(
        ServeOptions(
            directory=directory,
            policies=policies,
            kubeconfig=kubeconfig,
            context=context,
            in_cluster=in_cluster,
            namespace=namespace,
            stale=stale,
            stale_seconds=stale_seconds,
            listen=listen,
            health_listen=health_listen,
            profile=profile,
            pod_groups=pod_groups,
            events=not no_events,
            trainer_version=trainer_version,
            cert_dir=cert_dir,
            cert_files=cert_files,
            log_format=log_format,
            log_level=log_level,
        )
    )
