"""The kinds of policies in a real API server: their schemas, their CEL rules and what kubectl shows of them.

On a control plane of its own, without a Stationmaster: who is asked here is the API server alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from policies import reading
from policies.document import KINDS
from scripts import crds
from tests.e2e.controlplane import ControlPlane
from tests.e2e.controlplane.client import ApiError
from tests.policies.documents import (
    Json,
    changed,
    complete,
    exception,
    namespaced_policy,
    policy,
)

NAMESPACE = "team-vision"
EXPIRES = "2027-03-31T00:00:00Z"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("policy-kinds")) as plane:
        for crd in crds.definitions():
            plane.admin.apply(crd)
        plane.admin.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        plane.wait_for(lambda: all(is_served(plane, raw) for raw in complete()), "our kinds")
        yield plane


def is_served(plane: ControlPlane, raw: Json) -> bool:
    try:
        plane.admin.create(raw, dry_run=True)
    except ApiError:
        return False
    return True


def refusal(plane: ControlPlane, raw: Json) -> str:
    try:
        plane.admin.create(raw, dry_run=True)
    except ApiError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("raw", complete(), ids=KINDS)
def test_what_says_all_is_stored_and_reads_the_same(plane: ControlPlane, raw: Json) -> None:
    stored = plane.admin.create(raw, dry_run=True)

    for name in ("uid", "creationTimestamp", "generation", "managedFields"):
        stored["metadata"].pop(name, None)
    assert reading.read(stored).document == reading.read(raw).document


RULES: dict[str, tuple[Json, str]] = {
    "a limit and a validation of one name": (
        policy(
            {
                "limits": [{"name": "a", "nodes": {"max": 1}}],
                "validations": [{"name": "a", "expression": "true"}],
            }
        ),
        "a limit and a validation may not have the same name",
    ),
    "exceptions for what is not there": (
        policy(
            {"limits": [{"name": "a", "nodes": {"max": 1}}], "exceptions": {"rules": ["b"]}},
        ),
        "exceptions.rules must be names of limits and validations of this policy",
    ),
    "a limit about nothing": (policy({"limits": [{"name": "a"}]}), "must have exactly one of"),
    "a limit about two things": (
        policy({"limits": [{"name": "a", "nodes": {"max": 1}, "pods": {"max": 1}}]}),
        "must have exactly one of",
    ),
    "a total of nothing": (
        policy({"limits": [{"name": "a", "nodes": {"max": 1}, "total": {"max": 1}}]}),
        "resource must have total or perNode",
    ),
    "Deny and Warn": (policy({"actions": ["Deny", "Warn"]}), "must not contain both Deny and Warn"),
    "params of two places": (
        policy({"params": {"value": {}, "configMapRef": {"name": "a"}}}),
        "must have either value or configMapRef",
    ),
    "params of no place": (policy({"params": {}}), "must have either value or configMapRef"),
    "a default beside a value": (
        policy({"params": {"value": {}, "default": {}}}),
        "may not be set beside value",
    ),
    "a selector without values": (
        policy(
            {"match": {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}
        ),
        "values must be specified",
    ),
    "a stage for nobody": (
        policy({"rollout": [{"mutate": "Warn"}]}),
        "must have namespaceSelector or percent",
    ),
    "a stage without effect": (
        policy({"rollout": [{"percent": 5}]}),
        "must have actions or mutate",
    ),
    "by without percent": (
        policy({"rollout": [{"namespaceSelector": {}, "by": "namespace", "mutate": "Warn"}]}),
        "by may only be set beside percent",
    ),
    "overrides of a namespaced policy": (
        namespaced_policy({"overrides": {"suspend": True}}),
        "a NamespacedTrainJobPolicy has no overrides",
    ),
    "params of another namespace": (
        namespaced_policy({"params": {"configMapRef": {"name": "a", "namespace": "other"}}}),
        "has params from its own namespace only",
    ),
    "a grant for a rule that is not named": (
        exception(
            {
                "policies": [{"name": "p", "rules": ["a"]}],
                "grant": {"b": {"nodes": {"max": 1}}},
                "expiresAt": EXPIRES,
            }
        ),
        "grant must be for rules of spec.policies",
    ),
    "an exception without end": (exception({"policies": [{"name": "p"}]}), "spec.expiresAt"),
    "an exception for nothing": (
        exception({"policies": [], "expiresAt": EXPIRES}),
        "spec.policies",
    ),
}


@pytest.mark.parametrize("case", RULES)
def test_rules_refuse_with_their_message_and_reading_refuses_too(
    plane: ControlPlane, case: str
) -> None:
    raw, wanted = RULES[case]

    assert wanted in refusal(plane, raw)
    assert reading.read(raw).errors != []


def test_what_reading_accepts_the_api_server_accepts(plane: ControlPlane) -> None:
    dice = Random(8)
    accepted = 0
    while accepted < 200:
        raw = changed(dice)
        if reading.read(raw).document is not None:
            accepted += 1
            assert refusal(plane, raw) == "", raw


def test_a_grant_may_be_for_any_rule_where_none_is_named(plane: ControlPlane) -> None:
    raw = exception(
        {
            "policies": [{"name": "p"}],
            "grant": {"b": {"nodes": {"max": 1}}},
            "expiresAt": EXPIRES,
        }
    )

    assert refusal(plane, raw) == ""


def table(plane: ControlPlane, *arguments: str) -> list[list[str]]:
    shown = plane.kubectl("get", *arguments).stdout
    return [line.split() for line in shown.splitlines()]


def test_kubectl_shows_what_matters(plane: ControlPlane) -> None:
    shown = policy()
    shown["metadata"]["name"] = "shown"
    plane.admin.create(shown)
    two = exception()
    two["metadata"]["name"] = "two"
    plane.admin.create(two)

    header, row = table(plane, "tjp", "shown")
    assert header == ["NAME", "PRIORITY", "ACTIONS", "READY", "AGE"]
    assert row[:3] == ["shown", "500", '["Warn","Audit"]']
    header, row = table(plane, "tjpx", "two", "--namespace", NAMESPACE)
    assert header == ["NAME", "POLICY", "EXPIRES", "OWNER", "READY", "AGE"]
    assert row[:4] == ["two", "vision-gpu-rules", "2027-03-31T12:00:00.5+02:00", "team-vision"]


def test_the_status_is_written_apart_and_changes_no_generation(plane: ControlPlane) -> None:
    stored = plane.admin.create(policy({"limits": []}, name="with-status"))
    status: dict[str, Any] = {
        "observedGeneration": 1,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Compiled",
                "message": "",
                "lastTransitionTime": "2027-01-01T00:00:00Z",
            }
        ],
        "counts": {"matched": 3},
    }

    written = plane.admin.merge(stored, {"status": status}, subresource="status")

    assert written["status"] == status
    assert written["metadata"]["generation"] == 1
    assert table(plane, "tjp", "with-status")[1][3] == "True"
