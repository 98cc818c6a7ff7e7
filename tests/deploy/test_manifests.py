"""``stationmaster manifests`` prints what kustomize applies and helm installs."""

from __future__ import annotations

from typing import Any, Final

import pytest
import yaml

from tests.deploy import tools
from tests.deploy.conftest import OVERLAYS
from tests.deploy.test_helm import comparable
from webhook import yamlio
from webhook.cli import main
from webhook.cli import manifests as command
from webhook.install.settings import Settings, manifests

SETTINGS: Final[dict[str, tuple[Settings, tuple[str, ...]]]] = {
    "nothing said": (Settings(), ()),
    "cert-manager": (Settings(certificates="cert-manager"), ("certificates=cert-manager",)),
    "replicas": (Settings(replicas=5), ("replicas=5",)),
    "an image with a tag": (
        Settings(image="registry.example:5000/team/sm:v1"),
        ("image.repository=registry.example:5000/team/sm", "image.tag=v1"),
    ),
    "an image without a tag has the version's": (
        Settings(image="registry.example:5000/sm"),
        ("image.repository=registry.example:5000/sm",),
    ),
    "log level": (Settings(log_level="debug"), ("logLevel=debug",)),
    "excluded namespaces": (
        Settings(excluded_namespaces=("team-a", "team-b")),
        ("webhooks.excludedNamespaces={team-a,team-b}",),
    ),
    "Kueue under another name": (
        Settings(kueue_user="system:serviceaccount:queues:kueue"),
        ("webhooks.kueueUser=system:serviceaccount:queues:kueue",),
    ),
    "never to fail closed": (
        Settings(failure_policy="Ignore"),
        ("webhooks.failurePolicy=Ignore",),
    ),
    "never to fail closed, with cert-manager": (
        Settings(failure_policy="Ignore", certificates="cert-manager"),
        ("webhooks.failurePolicy=Ignore", "certificates=cert-manager"),
    ),
    "to fail closed with one replica": (
        Settings(replicas=1, fail_with_replicas=1),
        ("replicas=1", "webhooks.failWithReplicas=1"),
    ),
    "to fail closed from the start": (
        Settings(fail_with_replicas=0),
        ("webhooks.failWithReplicas=0",),
    ),
    "to fail closed from the start, with cert-manager": (
        Settings(fail_with_replicas=0, certificates="cert-manager"),
        ("webhooks.failWithReplicas=0", "certificates=cert-manager"),
    ),
    "a timeout": (
        Settings(timeout_seconds=10, podgroups=True),
        ("webhooks.timeoutSeconds=10", "podGroups.enabled=true"),
    ),
    "secrets to pull the image with": (
        Settings(image_pull_secrets=("a", "b.c")),
        ("imagePullSecrets[0].name=a", "imagePullSecrets[1].name=b.c"),
    ),
    "a priority class": (
        Settings(priority_class="system-cluster-critical"),
        ("priorityClassName=system-cluster-critical",),
    ),
    "PodGroups": (Settings(podgroups=True), ("podGroups.enabled=true",)),
    "PodGroups with cert-manager": (
        Settings(podgroups=True, certificates="cert-manager"),
        ("podGroups.enabled=true", "certificates=cert-manager"),
    ),
    "no kinds": (Settings(crds=False), ("crds.enabled=false",)),
    "no Events": (Settings(events=False), ("events.enabled=false",)),
    "no Events, and PodGroups with cert-manager": (
        Settings(events=False, podgroups=True, certificates="cert-manager"),
        ("events.enabled=false", "podGroups.enabled=true", "certificates=cert-manager"),
    ),
    "no network policy": (Settings(network_policy=False), ("networkPolicy=false",)),
}

OPTIONS: Final = {
    "image.repository": "image",
    "image.tag": "image",
    "imagePullSecrets": "image_pull_secrets",
    "replicas": "replicas",
    "logLevel": "log_level",
    "certificates": "certificates",
    "webhooks.failurePolicy": "failure_policy",
    "webhooks.failWithReplicas": "fail_with_replicas",
    "webhooks.timeoutSeconds": "timeout_seconds",
    "webhooks.excludedNamespaces": "excluded",
    "webhooks.kueueUser": "kueue_user",
    "podGroups.enabled": "podgroups",
    "events.enabled": "no_events",
    "crds.enabled": "no_crds",
    "networkPolicy": "no_network_policy",
    "priorityClassName": "priority_class",
}
"""By which option of ours to say what a value of the chart says."""

BY_A_KUSTOMIZATION: Final = {
    *("image.pullPolicy", "resources.requests", "resources.limits"),
    *("nodeSelector", "tolerations", "affinity", "podAnnotations", "crds.keep"),
}
"""What is left to a kustomization of one's own: whole pieces of a pod, which no option could spell."""


def values_of_the_chart() -> set[str]:
    values = yaml.safe_load((tools.CHART / "values.yaml").read_text())
    return {
        f"{name}.{inner}" if inner else name
        for name, value in values.items()
        for inner in (value if isinstance(value, dict) and value else ("",))
    }


def test_each_value_of_the_chart_has_its_option_or_is_left_to_a_kustomization() -> None:
    assert set(OPTIONS) | BY_A_KUSTOMIZATION == values_of_the_chart()
    assert not set(OPTIONS) & BY_A_KUSTOMIZATION

    options = {param.name for param in command.command.params}
    # Helm is told the namespace by a flag of its own.
    assert options == {*OPTIONS.values(), "namespace", "output"}


def named(rendered: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in rendered}
    assert len(found) == len(rendered)
    return found


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_it_prints_what_kustomize_applies(
    kubectl: str, overlay: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["manifests", "--certificates", overlay]) == 0

    printed = [document.obj for document in yamlio.read(capsys.readouterr().out, "stdout")]
    assert named(printed) == named(tools.kustomized(kubectl, overlay))


@pytest.mark.parametrize("case", SETTINGS)
def test_a_setting_does_what_the_charts_value_does(helm: str, case: str) -> None:
    settings, values = SETTINGS[case]

    assert comparable(manifests(settings)) == comparable(tools.templated(helm, *values))


@pytest.mark.parametrize("certificates", OVERLAYS)
def test_another_namespace_is_another_everywhere(helm: str, certificates: Any) -> None:
    moved = manifests(Settings(certificates=certificates, namespace="elsewhere"))

    by_helm = tools.templated(helm, f"certificates={certificates}", namespace="elsewhere")
    assert comparable(moved) == comparable(by_helm)
    (namespace,) = [obj for obj in moved if obj["kind"] == "Namespace"]
    assert namespace["metadata"]["name"] == "elsewhere"
