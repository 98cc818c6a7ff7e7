from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import field
from policies import options, reading
from policies.document import (
    API_VERSION,
    EXCEPTION,
    KINDS,
    NAMESPACED_POLICY,
    POLICY,
    Bounds,
    ExceptionTarget,
    Expression,
    Images,
    Key,
    Limit,
    Match,
    Named,
    Offer,
    Params,
    Policy,
    PolicyException,
    Requirement,
    RuntimeMatch,
    Selector,
    Stage,
    Subjects,
    Validation,
)
from policies.reading import bounds
from tests.policies.documents import Json, changed, complete, exception, namespaced_policy, policy

MISTAKES = {
    case["name"]: case
    for case in yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text("utf-8"))
}
SPEC = field.Path("spec")


@pytest.fixture(autouse=True)
def no_options(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, str]]:
    """How options are read is theirs (tests/policies/options); here only that they are asked, and with what."""
    asked: list[tuple[str, Any, str]] = []

    def read(
        mode: str, raw: Any, path: field.Path
    ) -> tuple[tuple[options.Option, ...], list[field.FieldError]]:
        asked.append((mode, raw, str(path)))
        return (), []

    monkeypatch.setattr(options, "read", read)
    return asked


def sound(raw: Json) -> Policy | PolicyException:
    found = reading.read(raw)
    assert [str(error) for error in found.errors] == []
    assert found.document is not None
    return found.document


def errors(raw: Any) -> list[str]:
    return [str(error) for error in reading.read(raw).errors]


def test_all_that_a_policy_can_say() -> None:
    raw = policy()
    raw["metadata"] |= {"uid": "0-1", "generation": 7}

    limits = SPEC.child("limits")
    validations = SPEC.child("validations")
    assert sound(raw) == Policy(
        key=Key(POLICY, "", "vision-gpu-rules"),
        uid="0-1",
        generation=7,
        priority=500,
        failure_policy="Ignore",
        match=Match(
            namespace_selector=Selector(
                match_labels=(("tier", "research"),),
                match_expressions=(
                    Requirement(key="ring", operator="In", values=frozenset({"canary", ""})),
                    Requirement(key="old", operator="DoesNotExist"),
                ),
            ),
            object_selector=Selector(match_labels=(("example.com/team", "vision"),)),
            operations=frozenset({"CREATE"}),
            runtimes=(
                RuntimeMatch(kind="ClusterTrainingRuntime", name="torch-*"),
                RuntimeMatch(kind=None, name="mpi"),
            ),
            subjects=Subjects(
                users=("system:serviceaccount:*",),
                groups=("a",),
                exclude_users=("bob",),
                exclude_groups=("platform-admins",),
            ),
        ),
        match_conditions=(
            Named(
                "example.com/uses-gpu",
                Expression(
                    "totals.requests[?'nvidia.com/gpu'].orValue(0) > 0",
                    SPEC.child("matchConditions").index(0).child("expression"),
                ),
            ),
        ),
        params=Params(
            name="gpu-rules",
            not_found="Allow",
            default={"maxNodes": 8, "deep": {"list": [1, None]}},
        ),
        variables=(
            Named(
                "team",
                Expression(
                    "object.metadata.?labels.?team.orValue('none')",
                    SPEC.child("variables").index(0).child("expression"),
                ),
            ),
        ),
        limits=(
            Limit(
                name="gpus",
                path=limits.index(0),
                resource="nvidia.com/gpu",
                total=Bounds(min=1, max=64),
                per_node=Bounds(min="500m", max="8"),
                fix="use fewer",
                actions=("Warn",),
            ),
            Limit(
                name="nodes",
                path=limits.index(1),
                nodes=Bounds(
                    min=1,
                    max=Expression(
                        "params.maxNodes", limits.index(1).child("nodes", "max", "expression")
                    ),
                ),
            ),
            Limit(name="pods", path=limits.index(2), pods=Bounds(min=1, max=100)),
            Limit(
                name="images",
                path=limits.index(3),
                images=Images(
                    allow=("registry.example.com/**",), deny=("**:latest",), require_digest=True
                ),
            ),
            Limit(name="team", path=limits.index(4), require_labels=("team", "example.com/cost")),
            Limit(name="notes", path=limits.index(5), require_annotations=("Example.com/Note",)),
            Limit(name="runtimes", path=limits.index(6), runtimes=("torch-*",)),
        ),
        validations=(
            Validation(
                name="no-host-network",
                path=validations.index(0),
                expression=Expression(
                    "podSets.all(p, !p.spec.?hostNetwork.orValue(false))",
                    validations.index(0).child("expression"),
                ),
                message="no host network",
                message_expression=Expression(
                    "'host network is not allowed for team ' + variables.team",
                    validations.index(0).child("messageExpression"),
                ),
                fix="remove hostNetwork from the runtime",
                reason="Invalid",
                actions=("Deny", "Audit"),
            ),
            Validation(
                name="plain",
                path=validations.index(1),
                expression=Expression("true", validations.index(1).child("expression")),
            ),
        ),
        actions=("Warn", "Audit"),
        mutate="Warn",
        rollout=(
            Stage(
                namespace_selector=Selector(match_labels=(("ring", "canary"),)),
                actions=("Deny",),
                mutate="Apply",
            ),
            Stage(percent=10, actions=("Deny",)),
        ),
        exceptions=Offer(rules=frozenset({"gpus", "plain"}), longest=timedelta(days=30)),
        audit_annotations=(
            Named(
                "gpus",
                Expression(
                    "string(totals.requests['nvidia.com/gpu'])",
                    SPEC.child("auditAnnotations").index(0).child("valueExpression"),
                ),
            ),
        ),
    )


def test_all_that_an_exception_can_say() -> None:
    raw = exception()
    raw["metadata"]["creationTimestamp"] = "2027-01-01T00:00:00Z"

    grant = SPEC.child("grant")
    assert sound(raw) == PolicyException(
        key=Key(EXCEPTION, "team-vision", "llama-70b-run"),
        policies=(
            ExceptionTarget(name="vision-gpu-rules", rules=frozenset({"gpus", "images"})),
            ExceptionTarget(name="mine", kind=NAMESPACED_POLICY, rules=frozenset({"nodes"})),
        ),
        names=("llama-70b-*",),
        requested_by=("nightly-runs@example.com",),
        object_selector=Selector(match_labels=(("team", "vision"),)),
        grant={
            "gpus": Limit(
                name="gpus",
                path=grant.key("gpus"),
                total=Bounds(max=128),
                per_node=Bounds(max=16),
            ),
            "images": Limit(
                name="images",
                path=grant.key("images"),
                images=Images(allow=("registry.example.com/**", "mirror.example.com/**")),
            ),
            "nodes": Limit(name="nodes", path=grant.key("nodes"), nodes=Bounds(max=32)),
        },
        owner="team-vision",
        reason="quarterly run",
        created_at=datetime(2027, 1, 1, tzinfo=UTC),
        expires_at=datetime(2027, 3, 31, 10, 0, 0, 500_000, tzinfo=UTC),
    )


def test_what_a_policy_is_that_says_nothing() -> None:
    assert sound(policy({})) == Policy(key=Key(POLICY, "", "vision-gpu-rules"))


def test_null_is_absent_as_the_api_server_has_it() -> None:
    spec = dict.fromkeys(policy()["spec"])

    assert sound(policy(spec)) == sound(policy({}))


def test_a_whole_number_may_have_a_point() -> None:
    document = sound(policy({"priority": 5.0, "limits": [{"name": "a", "nodes": {"max": 8.0}}]}))

    assert isinstance(document, Policy)
    assert document.priority == 5
    assert document.limits[0].nodes == Bounds(max=8)


def test_params_may_be_a_value_or_another_namespaces() -> None:
    value = sound(policy({"params": {"value": {"maxNodes": 8}}}))
    named = sound(policy({"params": {"configMapRef": {"name": "a", "namespace": "platform"}}}))

    assert isinstance(value, Policy)
    assert value.params == Params(value={"maxNodes": 8})
    assert isinstance(named, Policy)
    assert named.params == Params(name="a", namespace="platform")


def test_options_are_read_by_the_options(no_options: list[tuple[str, Any, str]]) -> None:
    spec = {"defaults": {"labels": {"a": "b"}, "suspend": True}, "overrides": {"suspend": True}}

    assert errors(policy(spec)) != []
    assert no_options == [
        ("defaults", {"labels": {"a": "b"}}, "spec.defaults"),
        ("overrides", {"suspend": True}, "spec.overrides"),
    ]


def test_what_the_options_find_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = field.forbidden(SPEC.child("defaults", "label"), "unknown field")
    monkeypatch.setattr(options, "read", lambda *_: ((), [wrong]))

    assert errors(policy({"defaults": {"label": {}}})) == [
        "spec.defaults.label: Forbidden: unknown field"
    ]


def test_a_namespaced_policys_overrides_are_not_even_read(
    no_options: list[tuple[str, Any, str]],
) -> None:
    assert len(errors(namespaced_policy({"overrides": {"suspend": True}}))) == 1
    assert no_options == []


@pytest.mark.parametrize("case", MISTAKES)
def test_each_mistake_is_told_by_its_path(case: str) -> None:
    found = MISTAKES[case]
    raw = found.get("document")
    if raw is None and "spec" in found:
        raw = {
            "apiVersion": API_VERSION,
            "kind": found["kind"],
            "metadata": {"name": "p"},
            "spec": found["spec"],
        }

    read = reading.read(raw)

    assert [str(error) for error in read.errors] == found["errors"]
    assert read.document is None


BOUNDS: dict[str, tuple[Json, str]] = {
    "conditions": (
        policy({"matchConditions": [{"name": f"c{i}", "expression": "true"} for i in range(65)]}),
        "spec.matchConditions: Too many: 65: must have at most 64 items",
    ),
    "variables": (
        policy({"variables": [{"name": f"v{i}", "expression": "1"} for i in range(65)]}),
        "spec.variables: Too many: 65: must have at most 64 items",
    ),
    "limits": (
        policy({"limits": [{"name": f"l{i}", "nodes": {"max": 1}} for i in range(65)]}),
        "spec.limits: Too many: 65: must have at most 64 items",
    ),
    "validations": (
        policy({"validations": [{"name": f"v{i}", "expression": "true"} for i in range(65)]}),
        "spec.validations: Too many: 65: must have at most 64 items",
    ),
    "audit annotations": (
        policy(
            {"auditAnnotations": [{"key": f"a{i}", "valueExpression": "'a'"} for i in range(21)]}
        ),
        "spec.auditAnnotations: Too many: 21: must have at most 20 items",
    ),
    "stages": (
        policy({"rollout": [{"percent": 1, "mutate": "Warn"}] * 17}),
        "spec.rollout: Too many: 17: must have at most 16 items",
    ),
    "runtimes": (
        policy({"match": {"runtimes": [{"name": "a"}] * 65}}),
        "spec.match.runtimes: Too many: 65: must have at most 64 items",
    ),
    "users": (
        policy({"match": {"subjects": {"users": [f"u{i}" for i in range(65)]}}}),
        "spec.match.subjects.users: Too many: 65: must have at most 64 items",
    ),
    "labels of a selector": (
        policy({"match": {"objectSelector": {"matchLabels": {f"k{i}": "v" for i in range(33)}}}}),
        "spec.match.objectSelector.matchLabels: Too many: 33: must have at most 32 items",
    ),
    "an expression": (
        policy({"variables": [{"name": "a", "expression": "1" * 4097}]}),
        "spec.variables[0].expression: Too long: may not be more than 4096 bytes",
    ),
    "a message, in bytes": (
        policy({"validations": [{"name": "a", "expression": "true", "message": "é" * 513}]}),
        "spec.validations[0].message: Too long: may not be more than 1024 bytes",
    ),
    "the name of a rule": (
        policy({"validations": [{"name": "a" * 64, "expression": "true"}]}),
        f'spec.validations[0].name: Invalid value: "{"a" * 64}": must be no more than 63 bytes',
    ),
    "params": (
        policy({"params": {"value": {"a": "x" * bounds.MOST_PARAMS_BYTES}}}),
        "spec.params.value: Too long: may not be more than 32768 bytes",
    ),
    "numbers of params": (
        policy({"params": {"value": {"a": 2**70}}}),
        "spec.params.value: Invalid value: (dict): must hold only numbers within 64 bits, and Unicode",
    ),
    "policies of an exception": (
        exception({"policies": [{"name": f"p{i}"} for i in range(17)], "expiresAt": "x"}),
        "spec.policies: Too many: 17: must have at most 16 items",
    ),
    "grants": (
        exception({"policies": [{"name": "p"}], "grant": {f"a{i}": {} for i in range(129)}}),
        "spec.grant: Too many: 129: must have at most 128 items",
    ),
}


@pytest.mark.parametrize("case", BOUNDS)
def test_everything_is_bounded(case: str) -> None:
    raw, wanted = BOUNDS[case]

    assert errors(raw)[0] == wanted


def test_mistakes_are_bounded_too() -> None:
    spec: Json = {"match": {f"field{i}": i for i in range(100_000)}}

    assert len(errors(policy(spec))) == bounds.MOST_ERRORS


WARNINGS: dict[str, tuple[Json, list[str]]] = {
    "a policy that does nothing": (
        policy({"limits": []}),
        [
            "spec: does nothing: it has none of defaults, overrides, limits, validations, auditAnnotations"
        ],
    ),
    "a stage behind one that matches everything": (
        policy(
            {
                "limits": [{"name": "a", "nodes": {"max": 1}}],
                "rollout": [
                    {"percent": 50, "mutate": "Warn"},
                    {"namespaceSelector": {}, "mutate": "Warn"},
                    {"percent": 10, "mutate": "Apply"},
                ],
            }
        ),
        ["spec.rollout[2]: is never reached: spec.rollout[1] matches everything"],
    ),
    "all percents are everything": (
        policy(
            {
                "limits": [{"name": "a", "nodes": {"max": 1}}],
                "rollout": [
                    {"percent": 100, "mutate": "Warn"},
                    {"percent": 10, "mutate": "Apply"},
                ],
            }
        ),
        ["spec.rollout[1]: is never reached: spec.rollout[0] matches everything"],
    ),
    "exceptions without end": (
        policy(
            {"limits": [{"name": "a", "nodes": {"max": 1}}], "exceptions": {"rules": ["a"]}},
        ),
        ["spec.exceptions.longest: is not set: an exception may last as long as it says itself"],
    ),
    "a namespaced policy that selects namespaces": (
        namespaced_policy(
            {
                "limits": [{"name": "a", "nodes": {"max": 1}}],
                "match": {"namespaceSelector": {"matchLabels": {"a": "b"}}},
            }
        ),
        [
            "spec.match.namespaceSelector: a NamespacedTrainJobPolicy is for the jobs of its own namespace;"
            " the selector can only tell whether it is in force there"
        ],
    ),
    "an exception of nobody's, for everything": (
        exception({"policies": [{"name": "p"}], "expiresAt": "2027-03-31T00:00:00Z"}),
        [
            "spec.match: is not set: all TrainJobs of the namespace are meant",
            "spec.owner: is not set: who asks for an exception, and why, is worth knowing",
            "spec.reason: is not set: who asks for an exception, and why, is worth knowing",
        ],
    ),
}


@pytest.mark.parametrize("case", WARNINGS)
def test_what_is_seldom_meant_is_told(case: str) -> None:
    raw, wanted = WARNINGS[case]
    read = reading.read(raw)

    assert read.document is not None
    assert read.warnings == wanted


def test_a_namespace_of_a_cluster_scoped_policy_is_ignored_and_told() -> None:
    raw = policy()
    raw["metadata"]["namespace"] = "team-vision"
    read = reading.read(raw)

    assert read.key == Key(POLICY, "", "vision-gpu-rules")
    assert read.warnings == [
        "metadata.namespace: is ignored: a TrainJobPolicy is for all namespaces"
    ]


@pytest.mark.parametrize("raw", complete(), ids=KINDS)
def test_a_complete_document_has_no_warnings_but_what_is_meant(raw: Json) -> None:
    wanted = 1 if raw["kind"] == NAMESPACED_POLICY else 0

    assert len(reading.read(raw).warnings) == wanted


def test_a_file_without_a_namespace_is_in_the_default_one() -> None:
    raw = exception()
    del raw["metadata"]["namespace"]

    assert reading.read(raw).key == Key(EXCEPTION, "default", "llama-70b-run")
    assert reading.read(raw, namespace="a").key == Key(EXCEPTION, "a", "llama-70b-run")


def test_a_new_policy_may_still_wait_for_its_name() -> None:
    raw = policy()
    raw["metadata"] = {"generateName": "rules-"}

    assert reading.read(raw).key == Key(POLICY, "", "rules-")


def test_of_an_unsound_policy_it_is_known_what_it_concerns() -> None:
    read = reading.read(policy({**policy()["spec"], "mutate": "No"}))

    assert read.document is None
    assert read.key == Key(POLICY, "", "vision-gpu-rules")
    assert read.failure_policy == "Ignore"
    assert read.match == sound(policy()).match  # type: ignore[union-attr]  # a Policy


def test_of_an_unsound_policy_with_an_unsound_match_everything_is_concerned() -> None:
    read = reading.read(policy({"failurePolicy": 5, "match": {"operations": []}}))

    assert read.failure_policy == "Fail"
    assert read.match is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below),
    max_leaves=20,
)
SHAPED = st.fixed_dictionaries(
    {
        "apiVersion": st.just(API_VERSION),
        "kind": st.sampled_from(KINDS),
        "metadata": JSON | st.just({"name": "p"}),
        "spec": st.dictionaries(
            st.sampled_from((*policy()["spec"], *exception()["spec"])), JSON, max_size=8
        ),
    }
)


@given(raw=JSON | SHAPED)
def test_any_json_is_read(raw: Any) -> None:
    read = reading.read(raw)

    assert (read.document is None) == bool(read.errors)
    for error in read.errors:
        assert str(error).isprintable()


def test_a_document_with_a_small_change_is_read() -> None:
    dice = Random(6)
    for _ in range(2000):
        read = reading.read(changed(dice))
        assert (read.document is None) == bool(read.errors)
        assert all(str(error).isprintable() for error in read.errors)
