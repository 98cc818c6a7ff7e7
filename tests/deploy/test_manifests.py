"""``stationmaster manifests`` prints what kustomize applies and helm installs."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.deploy import tools
from tests.deploy.conftest import OVERLAYS
from tests.deploy.test_helm import comparable
from webhook import yamlio
from webhook.cli import main
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
