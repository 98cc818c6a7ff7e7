"""The chart and the kustomization are two ways to the same objects."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
import yaml

from tests.deploy import tools
from tests.deploy.conftest import OVERLAYS, Rendered
from tests.deploy.tools import CHART, Object
from webhook.kube.arming import ANNOTATION

HELMS_OWN = (
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
    "helm.sh/resource-policy",
)


def without(named: dict[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in named.items() if name not in names}


def comparable(rendered: Rendered) -> dict[tuple[str, str], Object]:
    """By kind and name, without helm's own labels and annotation; helm makes the namespace by a flag."""
    found: dict[tuple[str, str], Object] = {}
    for obj in rendered:
        metadata: dict[str, Any] = obj["metadata"]
        kept = {**metadata, "labels": without(metadata["labels"], HELMS_OWN)}
        if annotations := without(metadata.get("annotations", {}), HELMS_OWN):
            kept["annotations"] = annotations
        else:
            kept.pop("annotations", None)
        name = obj["kind"], metadata["name"]
        found[name] = {**obj, "metadata": kept}
    return {name: obj for name, obj in found.items() if name[0] != "Namespace"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_by_default_both_are_the_same(kubectl: str, helm: str, overlay: str) -> None:
    by_helm = comparable(tools.templated(helm, f"certificates={overlay}"))
    by_kustomize = comparable(tools.kustomized(kubectl, overlay))

    assert set(by_helm) == set(by_kustomize)
    for name, obj in by_kustomize.items():
        assert by_helm[name] == obj, name


def test_the_default_is_self_managed(helm: str) -> None:
    assert tools.templated(helm) == tools.templated(helm, "certificates=self-managed")


def test_helm_finds_nothing_wrong(helm: str) -> None:
    tools.called([helm, "lint", "--strict", str(CHART), "--kube-version", tools.KUBERNETES])


@pytest.mark.parametrize(
    "setting",
    [
        "replicas=0",
        "webhooks.failurePolicy=fail",
        "webhooks.timeoutSeconds=31",
        "webhooks.failWithReplicas=-1",
        "webhooks.failWithReplicas=two",
        "webhooks.excludedNamespaces={Team_A}",
        "webhooks.kueueUser=admin' || true || '",
        "certificates=none",
        "certificats=self-managed",
        "logLevel=trace",
        "image.repository=",
        "podGroups.enabled=maybe",
        "crds.keep=maybe",
        "events.enabled=maybe",
    ],
)
def test_values_that_cannot_be_meant_are_refused(helm: str, setting: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        tools.templated(helm, setting)

    assert "values don't meet the specifications" in refused.value.stderr


def test_namespaces_are_excluded_everywhere_and_ours_stay_excluded(helm: str) -> None:
    rendered = tools.templated(helm, "webhooks.excludedNamespaces={team-a,team-b}")

    selectors = [
        webhook["namespaceSelector"]["matchExpressions"][0]["values"]
        for obj in rendered
        if "webhooks" in obj
        for webhook in obj["webhooks"]
    ]
    assert len(selectors) == 5
    for values in selectors:
        assert values == [
            *("kube-system", "kube-public", "kube-node-lease", tools.NAMESPACE),
            *("team-a", "team-b"),
        ]


@pytest.mark.parametrize(
    ("setting", "wanted"), [("crds.keep=true", "keep"), ("crds.keep=false", None)]
)
def test_an_uninstall_leaves_the_kinds_and_so_the_policies(
    helm: str, setting: str, wanted: str | None
) -> None:
    kinds = [
        obj for obj in tools.templated(helm, setting) if obj["kind"] == "CustomResourceDefinition"
    ]

    assert len(kinds) == 3
    for obj in kinds:
        assert obj["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == wanted


def test_ignore_is_for_all(helm: str) -> None:
    rendered = tools.templated(helm, "webhooks.failurePolicy=Ignore")

    policies = {
        w["failurePolicy"] for obj in rendered if "webhooks" in obj for w in obj["webhooks"]
    }
    assert policies == {"Ignore"}
    assert ANNOTATION not in json.dumps(rendered)


def test_how_many_replicas_it_takes_to_fail_closed_can_be_said(helm: str) -> None:
    rendered = tools.templated(helm, "replicas=1", "webhooks.failWithReplicas=1")

    said = [obj["metadata"]["annotations"] for obj in rendered if "webhooks" in obj]
    assert said == [{ANNOTATION: "1"}, {ANNOTATION: "1"}]


@pytest.mark.parametrize(
    "settings", [("webhooks.failWithReplicas=0",), ("certificates=cert-manager",)]
)
def test_where_nothing_is_armed_fail_is_said_from_the_start(
    helm: str, settings: tuple[str, ...]
) -> None:
    rendered = tools.templated(helm, *settings)

    said = [w["failurePolicy"] for obj in rendered if "webhooks" in obj for w in obj["webhooks"]]
    assert sorted(said) == ["Fail", "Fail", "Ignore", "Ignore", "Ignore"]
    assert ANNOTATION not in json.dumps(rendered)


def test_every_value_is_in_the_schema_and_the_other_way_round() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())

    assert set(schema["properties"]) - {"global"} == set(values)
    for name in ("image", "webhooks", "events", "podGroups", "crds"):
        assert set(schema["properties"][name]["properties"]) == set(values[name])


def test_the_charts_version_is_the_projects() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (CHART.parent.parent.parent / "pyproject.toml").read_text()

    assert chart["version"] == chart["appVersion"]
    assert f'version = "{chart["version"]}"' in project
