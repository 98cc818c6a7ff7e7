"""The component that has PodGroups corrected: what it adds to an overlay, and that it can stop nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy import tools
from tests.deploy.conftest import OVERLAYS, One, Rendered
from tests.deploy.test_helm import comparable
from tests.deploy.test_rbac import granted
from tests.deploy.tools import NAMESPACE, Object
from webhook import podgroups
from webhook.app import PATHS

COMPONENT = "podgroups"
ENTRY = "podgroups.stationmaster.dev"


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def added(kubectl: str, overlay: str, tmp_path: Path) -> Rendered:
    """An overlay with the component."""
    return tools.with_components(kubectl, tmp_path, overlay, COMPONENT)


def entries(rendered: Rendered, one: One) -> dict[str, Object]:
    """The mutating entries, by name."""
    webhooks: list[Object] = one(rendered, "MutatingWebhookConfiguration")["webhooks"]
    return {each["name"]: each for each in webhooks}


def test_helm_adds_the_same(helm: str, overlay: str, added: Rendered) -> None:
    by_helm = comparable(tools.templated(helm, f"certificates={overlay}", "podGroups.enabled=true"))
    by_kustomize = comparable(added)
    assert set(by_helm) == set(by_kustomize)
    for name, obj in by_kustomize.items():
        assert by_helm[name] == obj, name


def test_it_adds_an_entry_a_flag_and_one_right(
    kubectl: str, overlay: str, added: Rendered, one: One
) -> None:
    before = comparable(tools.kustomized(kubectl, overlay))
    after = comparable(added)
    roles = {(kind, "stationmaster-podgroups") for kind in ("ClusterRole", "ClusterRoleBinding")}
    assert set(after) - set(before) == roles
    assert {name for name in before if after[name] != before[name]} == {
        ("Deployment", "stationmaster"),
        ("MutatingWebhookConfiguration", "00-stationmaster"),
    }
    rights = set(granted(added, "ClusterRole")) - set(granted(list(before.values()), "ClusterRole"))
    assert rights == {("trainer.kubeflow.org/trainjobs", "get", ())}
    (container,) = one(added, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "--podgroups"
    assert set(entries(added, one)) == {"trainjobs.stationmaster.dev", ENTRY}


def test_it_fails_open_and_matches_podgroups_only(added: Rendered, one: One) -> None:
    found = entries(added, one)
    entry, other = found[ENTRY], found["trainjobs.stationmaster.dev"]
    assert entry["failurePolicy"] == "Ignore"
    for rule in entry["rules"]:
        assert rule["resources"] == [podgroups.RESOURCE], "and no subresource"
        assert rule["operations"] == ["CREATE", "UPDATE"]
    groups = {group for rule in entry["rules"] for group in rule["apiGroups"]}
    assert groups == podgroups.GROUPS
    path = entry["clientConfig"]["service"].pop("path")
    assert PATHS[path] == "mutate-podgroups"
    assert entry["clientConfig"]["service"].items() < other["clientConfig"]["service"].items()
    for key in ("namespaceSelector", "matchPolicy", "reinvocationPolicy"):
        assert entry[key] == other[key], key
    assert NAMESPACE in str(entry["namespaceSelector"])


def test_only_what_concerns_us_is_sent(added: Rendered, one: One) -> None:
    """That the API server takes these texts, and what they let through, is for the tests against one."""
    conditions = {
        each["name"]: each["expression"] for each in entries(added, one)[ENTRY]["matchConditions"]
    }
    assert set(conditions) == {"of-a-trainjob", "not-being-deleted", "what-is-asked-for"}
    assert f"== '{podgroups.FIELD_MANAGER}'" in conditions["what-is-asked-for"]
