"""What the registration may match: a webhook that fails closed locks whatever it matches when we are down."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.deploy.conftest import One, Rendered
from tests.deploy.tools import NAMESPACE, Object, kustomized
from webhook.kube.arming import ANNOTATION
from webhook.kube.shared import WEBHOOK

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
SYSTEM = ("kube-system", "kube-public", "kube-node-lease", NAMESPACE)

FIRST_OF_OTHERS = "defaulter.trainer.kubeflow.org"
"""Kueue's (kueue-mutating-webhook-configuration) comes after it; both names are theirs."""


def webhooks(rendered: Rendered) -> Iterator[Object]:
    for obj in rendered:
        if obj["kind"] in KINDS:
            yield from obj["webhooks"]


def closed(rendered: Rendered) -> list[Object]:
    """Those that fail closed, from the start or once they are armed."""
    return [
        webhook
        for obj in rendered
        if obj["kind"] in KINDS
        for webhook in obj["webhooks"]
        if webhook["failurePolicy"] == "Fail"
        or (webhook["name"] == WEBHOOK and ANNOTATION in obj["metadata"].get("annotations", {}))
    ]


def matches(webhook: Object, resource: str, namespace: str, operation: str) -> bool:
    """As the API server decides, without matchConditions; ``resource`` is ``group/plural``."""
    group, plural = resource.split("/", 1)
    is_matched = any(
        _in(group, rule["apiGroups"])
        and _in(plural, rule["resources"])
        and _in(operation, rule["operations"])
        for rule in webhook["rules"]
    )
    return is_matched and _selects(webhook["namespaceSelector"], namespace)


def _in(value: str, allowed: Sequence[str]) -> bool:
    return value in allowed or "*" in allowed or "*/*" in allowed


def _selects(selector: Mapping[str, Any], namespace: str) -> bool:
    labels = {"kubernetes.io/metadata.name": namespace}
    assert set(selector) == {"matchExpressions"}
    for each in selector["matchExpressions"]:
        assert each["operator"] == "NotIn"
        if labels.get(each["key"]) in each["values"]:
            return False
    return True


@pytest.mark.parametrize(
    ("resource", "namespace"),
    [
        ("/pods", NAMESPACE),
        ("/pods", "kube-system"),
        ("/pods", "team-a"),
        ("/secrets", NAMESPACE),
        ("coordination.k8s.io/leases", NAMESPACE),
        ("coordination.k8s.io/leases", "kube-node-lease"),
        ("apps/deployments", NAMESPACE),
        ("/namespaces", ""),
        ("/nodes", ""),
        ("apiextensions.k8s.io/customresourcedefinitions", ""),
        ("admissionregistration.k8s.io/mutatingwebhookconfigurations", ""),
        ("trainer.kubeflow.org/trainjobs/status", "team-a"),
        ("trainer.kubeflow.org/trainjobs/scale", "team-a"),
        ("jobset.x-k8s.io/jobsets", "team-a"),
        *[("trainer.kubeflow.org/trainjobs", name) for name in SYSTEM],
    ],
)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "CONNECT"])
def test_b148_what_the_cluster_needs_to_start_is_matched_by_none(
    manifests: Rendered, resource: str, namespace: str, operation: str
) -> None:
    for webhook in webhooks(manifests):
        assert not matches(webhook, resource, namespace, operation)


def test_b149_only_what_is_ours_is_matched_and_nothing_by_a_star(manifests: Rendered) -> None:
    kinds = {
        "trainer.kubeflow.org": {"trainjobs", "trainingruntimes", "clustertrainingruntimes"},
        "stationmaster.dev": {"trainjobpolicies", "namespacedtrainjobpolicies", "policyexceptions"},
    }
    cluster_wide = (["clustertrainingruntimes"], ["trainjobpolicies"])
    for webhook in webhooks(manifests):
        for rule in webhook["rules"]:
            [group] = rule["apiGroups"]
            assert set(rule["resources"]) <= kinds[group]
            assert "*" not in json.dumps(rule)
            scope = "Cluster" if rule["resources"] in cluster_wide else "Namespaced"
            assert rule["scope"] == scope


def test_our_own_kinds_can_be_changed_while_nobody_answers(manifests: Rendered) -> None:
    """Who has to switch a policy off at three in the morning must not need us for it."""
    [entry] = [w for w in webhooks(manifests) if w["name"] == "policies.stationmaster.dev"]
    assert entry["failurePolicy"] == "Ignore"
    operations = {operation for rule in entry["rules"] for operation in rule["operations"]}
    assert operations == {"CREATE", "UPDATE"}
    subresources = [name for rule in entry["rules"] for name in rule["resources"] if "/" in name]
    assert not subresources, "the status is ours"


def test_b149_only_new_and_changed_trainjobs_fail_closed(manifests: Rendered) -> None:
    assert len(closed(manifests)) == 2  # one mutates, one validates
    for webhook in closed(manifests):
        (rule,) = webhook["rules"]
        assert rule["resources"] == ["trainjobs"]
        assert rule["operations"] == ["CREATE", "UPDATE"]


def test_nothing_fails_closed_before_two_replicas_can_be_asked(self_managed: Rendered) -> None:
    """An installation whose image cannot be pulled stops no TrainJob."""
    assert {each["failurePolicy"] for each in webhooks(self_managed)} == {"Ignore"}
    for obj in self_managed:
        if obj["kind"] in KINDS:
            assert obj["metadata"]["annotations"] == {ANNOTATION: "2"}


def test_where_nobody_may_arm_it_fails_closed_from_the_start(kubectl: str) -> None:
    rendered = kustomized(kubectl, "cert-manager")

    assert [each["name"] for each in webhooks(rendered) if each["failurePolicy"] == "Fail"] == [
        WEBHOOK,
        WEBHOOK,
    ]
    assert ANNOTATION not in json.dumps(rendered)


def test_deletions_are_an_entry_of_their_own_that_fails_open(manifests: Rendered) -> None:
    for webhook in webhooks(manifests):
        operations = {each for rule in webhook["rules"] for each in rule["operations"]}
        if "DELETE" in operations:
            assert operations == {"DELETE"}
            assert webhook["failurePolicy"] == "Ignore"
            assert webhook["name"].startswith("deletions.")


def test_a_deletion_is_never_patched(manifests: Rendered, one: One) -> None:
    mutating = one(manifests, KINDS[0])

    operations = {o for w in mutating["webhooks"] for r in w["rules"] for o in r["operations"]}
    assert operations == {"CREATE", "UPDATE"}


def test_what_fails_closed_skips_deletions_finalizers_and_controllers(manifests: Rendered) -> None:
    conditions = [
        {each["name"]: each["expression"] for each in webhook["matchConditions"]}
        for webhook in closed(manifests)
    ]

    assert conditions[0] == conditions[1]
    assert set(conditions[0]) == {
        "not-being-deleted",
        "something-of-ours-changed",
        "not-by-kueue",
    }
    # `object` is null on DELETE: without its first half this would make TrainJobs undeletable.
    assert conditions[0]["not-being-deleted"].startswith("request.operation == 'DELETE' || ")
    for annotation in ("stationmaster.dev/applied", "stationmaster.dev/podgroup-totals"):
        assert conditions[0]["something-of-ours-changed"].count(annotation) == 2


def test_b151_our_namespace_can_be_deleted_while_the_server_is_dead(manifests: Rendered) -> None:
    for webhook in webhooks(manifests):
        assert not matches(webhook, "trainer.kubeflow.org/trainjobs", NAMESPACE, "DELETE")
        assert not matches(webhook, "/namespaces", "", "DELETE")


def test_b152_nobody_opts_out_by_a_label(manifests: Rendered) -> None:
    """Labels are whoever's who may edit the object; ``kubernetes.io/metadata.name`` is nobody's."""
    for webhook in webhooks(manifests):
        assert webhook.get("objectSelector", {}) == {}
        (expression,) = webhook["namespaceSelector"]["matchExpressions"]
        assert expression["key"] == "kubernetes.io/metadata.name"
        assert tuple(expression["values"]) == SYSTEM


def test_b155_no_sidecar_stands_before_the_webhook(manifests: Rendered, one: One) -> None:
    template = one(manifests, "Deployment")["spec"]["template"]["metadata"]

    assert template["labels"]["sidecar.istio.io/inject"] == "false"
    assert template["annotations"]["linkerd.io/inject"] == "disabled"
    assert template["annotations"]["traffic.sidecar.istio.io/excludeInboundPorts"] == "9443"


def test_ours_run_before_the_trainers_and_kueues(manifests: Rendered, one: One) -> None:
    mutating = one(manifests, KINDS[0])

    assert mutating["metadata"]["name"] < FIRST_OF_OTHERS
    assert all(each["reinvocationPolicy"] == "IfNeeded" for each in mutating["webhooks"])


def test_all_are_registered_alike(manifests: Rendered) -> None:
    for webhook in webhooks(manifests):
        assert webhook["matchPolicy"] == "Equivalent"
        assert webhook["sideEffects"] == "None"
        assert webhook["admissionReviewVersions"] == ["v1"]
        assert 1 <= webhook["timeoutSeconds"] <= 10
        assert "caBundle" not in webhook["clientConfig"]


def test_the_service_leads_to_the_port_that_is_listened_on(manifests: Rendered, one: One) -> None:
    service = one(manifests, "Service")
    ports = {each["name"]: each["port"] for each in service["spec"]["ports"]}
    (container,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    open_ports = {each["name"]: each["containerPort"] for each in container["ports"]}

    assert f"--listen=:{open_ports['webhook']}" in container["args"]
    assert f"--health-listen=:{open_ports['health']}" in container["args"]
    for webhook in webhooks(manifests):
        called = webhook["clientConfig"]["service"]
        assert called["name"] == service["metadata"]["name"]
        assert called["namespace"] == service["metadata"]["namespace"]
        assert called["port"] == ports["webhook"]
        assert called["path"] in {"/mutate", "/validate"}
