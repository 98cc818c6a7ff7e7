"""What is wrong with policies beside one another, and what lint says of single ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from plugins.framework import lines
from plugins.framework.runtime import CompiledRuntime
from policies import claims
from policies.compile import PolicySet
from policies.document import API_VERSION, Policy
from policies.linting import Finding, World, lint
from policies.reading import read
from tests.builders import Json, make_runtime

Spec = dict[str, Any]
NOW = datetime(2027, 1, 1, tzinfo=UTC)


def policy(name: str, spec: Spec, kind: str = "TrainJobPolicy", **metadata: str) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def exception(spec: Spec) -> Json:
    around = {"match": {"names": ["a*"]}, "owner": "o", "reason": "r"}
    given = {**around, "expiresAt": "2027-06-01T00:00:00Z", **spec}
    return policy("e", given, "PolicyException", namespace="team")


def said(documents: list[Json], rule: str, **world: Any) -> list[tuple[int, str, str]]:
    found = lint(documents, World(**world))
    return [(one.at, one.path, one.message) for one in found if one.rule == rule]


def problems(*documents: Json) -> dict[str, list[str]]:
    """What is wrong with each policy of a set."""
    keyed = {
        (d["kind"], d["metadata"].get("namespace", ""), d["metadata"]["name"]): d for d in documents
    }
    return {
        key[2]: [str(error) for error in errors] for key, errors in PolicySet.of(keyed).problems()
    }


# Conflicts at load

LABEL_A: Spec = {"overrides": {"labels": {"queue": "a"}}}
LABEL_B: Spec = {"overrides": {"labels": {"queue": "b"}}}


def test_two_policies_about_the_same_jobs_that_set_a_place_differently_are_both_unsound() -> None:
    found = problems(policy("one", LABEL_A), policy("two", LABEL_B))
    assert found == {
        "one": [
            'spec.overrides.labels[queue]: Invalid value: "a": TrainJobPolicy two has the same priority (0) and sets '
            'metadata.labels[queue] to "b" (spec.overrides.labels[queue]): give one of them a higher priority, or let '
            "only one say it"
        ],
        "two": [
            'spec.overrides.labels[queue]: Invalid value: "b": TrainJobPolicy one has the same priority (0) and sets '
            'metadata.labels[queue] to "a" (spec.overrides.labels[queue]): give one of them a higher priority, or let '
            "only one say it"
        ],
    }


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(LABEL_A, id="the same value"),
        pytest.param({**LABEL_B, "priority": 1}, id="another priority"),
        pytest.param({"defaults": {"labels": {"queue": "b"}}}, id="another mode"),
        pytest.param({"overrides": {"labels": {"other": "b"}}}, id="another place"),
        pytest.param({"overrides": {"annotations": {"queue": "b"}}}, id="annotations"),
        pytest.param({**LABEL_B, "mutate": "Warn"}, id="only announced"),
        pytest.param(
            {"overrides": {"labels": {"queue": {"expression": "'b'"}}}}, id="an expression"
        ),
        pytest.param({**LABEL_B, "match": {"operations": ["CREATE"]}}, id="another match"),
        pytest.param(
            {**LABEL_B, "matchConditions": [{"name": "c", "expression": "totals.nodes > 1"}]},
            id="another condition",
        ),
    ],
)
def test_what_may_stand_beside_it(other: Spec) -> None:
    assert problems(policy("one", LABEL_A), policy("two", other)) == {}


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        (
            {"trainer": {"numNodes": 2}},
            {"trainer": {"numNodes": 3}},
            "spec.overrides.trainer.numNodes",
        ),
        ({"suspend": True}, {"suspend": False}, "spec.overrides.suspend"),
        (
            {"activeDeadlineSeconds": 5},
            {"activeDeadlineSeconds": 6},
            "spec.overrides.activeDeadlineSeconds",
        ),
        (
            {"trainer": {"env": [{"name": "A", "value": "1"}]}},
            {"trainer": {"env": [{"name": "A", "value": "2"}]}},
            "spec.overrides.trainer.env[0]",
        ),
        (
            {"podTemplateOverrides": [{"spec": {"nodeSelector": {"pool": "a"}}}]},
            {
                "podTemplateOverrides": [
                    {"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"pool": "b"}}}
                ]
            },
            "spec.overrides.podTemplateOverrides[0].spec.nodeSelector[pool]",
        ),
        (
            {"specLabels": {"a": "1"}},
            {
                "runtimePatches": [
                    {"trainingRuntimeSpec": {"template": {"metadata": {"labels": {"a": "2"}}}}}
                ]
            },
            "spec.overrides.specLabels[a]",
        ),
    ],
)
def test_conflicts_of_every_kind_of_option(one: Spec, other: Spec, where: str) -> None:
    found = problems(policy("one", {"overrides": one}), policy("two", {"overrides": other}))
    assert sorted(found) == ["one", "two"]
    assert [text.partition(": ")[0] for text in found["one"]] == [where]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"trainer": {"numNodes": {"max": 2}}}, {"trainer": {"numNodes": {"max": 3}}}),
        (
            {"podTemplateOverrides": [{"spec": {"tolerations": [{"key": "a"}]}}]},
            {"podTemplateOverrides": [{"spec": {"tolerations": [{"key": "b"}]}}]},
        ),
        (
            {
                "podTemplateOverrides": [
                    {"targetJobs": [{"name": "a"}], "spec": {"nodeSelector": {"pool": "a"}}}
                ]
            },
            {
                "podTemplateOverrides": [
                    {"targetJobs": [{"name": "b"}], "spec": {"nodeSelector": {"pool": "b"}}}
                ]
            },
        ),
    ],
    ids=["ranges combine", "tolerations are joined", "other jobs"],
)
def test_what_combines_is_no_conflict(one: Spec, other: Spec) -> None:
    assert problems(policy("a", {"overrides": one}), policy("b", {"overrides": other})) == {}


def test_a_conflict_ends_when_one_of_the_two_goes() -> None:
    one, two = policy("one", LABEL_A), policy("two", LABEL_B)
    both = PolicySet.of({("TrainJobPolicy", "", "one"): one, ("TrainJobPolicy", "", "two"): two})
    assert len(list(both.problems())) == 2
    left = PolicySet.of({("TrainJobPolicy", "", "one"): one}, both)
    assert list(left.problems()) == []


# Conflicts that depend on the job


def test_matches_that_may_meet_are_a_warning_at_both() -> None:
    documents = [
        policy("one", LABEL_A),
        policy("two", {**LABEL_B, "match": {"objectSelector": {"matchLabels": {"a": "1"}}}}),
    ]
    found = [one for one in lint(documents, World()) if one.rule == "conflict"]
    assert [(one.at, one.severity, one.path) for one in found] == [
        (0, "warning", "spec.overrides.labels[queue]"),
        (1, "warning", "spec.overrides.labels[queue]"),
    ]
    assert found[0].message.startswith(
        "for jobs that both match, neither is written: TrainJobPolicy two has the same priority"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"operations": ["CREATE"]}, {"operations": ["UPDATE"]}),
        ({"runtimes": [{"name": "a"}]}, {"runtimes": [{"name": "b"}]}),
        (
            {"runtimes": [{"name": "a", "kind": "TrainingRuntime"}]},
            {"runtimes": [{"name": "a", "kind": "ClusterTrainingRuntime"}]},
        ),
        (
            {"namespaceSelector": {"matchLabels": {"t": "a"}}},
            {"namespaceSelector": {"matchLabels": {"t": "b"}}},
        ),
        (
            {"objectSelector": {"matchLabels": {"t": "a"}}},
            {"objectSelector": {"matchLabels": {"t": "b"}}},
        ),
    ],
)
def test_matches_that_cannot_meet_are_none(one: Spec, other: Spec) -> None:
    documents = [policy("a", {**LABEL_A, "match": one}), policy("b", {**LABEL_B, "match": other})]
    assert said(documents, "conflict") == []


def test_patterns_of_runtimes_may_meet() -> None:
    documents = [
        policy("a", {**LABEL_A, "match": {"runtimes": [{"name": "torch-*"}]}}),
        policy("b", {**LABEL_B, "match": {"runtimes": [{"name": "torch-a"}]}}),
    ]
    assert len(said(documents, "conflict")) == 2


# Feedback


def when(condition: str, **spec: Any) -> Spec:
    return {"matchConditions": [{"name": "c", "expression": condition}], **spec}


def test_two_policies_that_feed_each_other() -> None:
    documents = [
        policy(
            "one",
            when("'team' in object.metadata.?labels.orValue({})", defaults={"labels": {"q": "1"}}),
        ),
        policy(
            "two",
            {
                "match": {"objectSelector": {"matchLabels": {"q": "1"}}},
                "defaults": {"labels": {"team": "x"}},
            },
        ),
    ]
    assert said(documents, "feedback") == [
        (
            0,
            "spec.matchConditions[0].expression",
            "depends on object.metadata.labels[team], which TrainJobPolicy two writes (spec.defaults.labels[team]), "
            "which in turn depends on object.metadata.labels[q] (spec.match.objectSelector), which this policy writes "
            "(spec.defaults.labels[q]): rounds may not come to rest",
        ),
        (
            1,
            "spec.match.objectSelector",
            "depends on object.metadata.labels[q], which TrainJobPolicy one writes (spec.defaults.labels[q]), "
            "which in turn depends on object.metadata.labels[team] (spec.matchConditions[0].expression), which this "
            "policy writes (spec.defaults.labels[team]): rounds may not come to rest",
        ),
    ]


@pytest.mark.parametrize(
    ("condition", "writes"),
    [
        ("!has(object.spec.trainer.numNodes)", {"trainer": {"numNodes": 2}}),
        ("totals.nodes > 4", {"trainer": {"numNodes": 2}}),
        ("podSets.all(p, p.count > 2)", {"trainer": {"numNodes": 2}}),
        (
            "podSets.exists(p, p.spec.?nodeSelector.?pool.orValue('') == '')",
            {"podTemplateOverrides": [{"spec": {"nodeSelector": {"pool": "a"}}}]},
        ),
        ("'/spec/trainer/numNodes' in provenance", {"trainer": {"numNodes": 2}}),
        ("size(object.metadata.labels) == 1", {"labels": {"a": "b"}}),
    ],
)
def test_a_policy_that_feeds_itself(condition: str, writes: Spec) -> None:
    found = said([policy("p", when(condition, defaults=writes))], "feedback")
    assert [(at, path) for at, path, _ in found] == [(0, "spec.matchConditions[0].expression")]
    assert "which the policy itself writes" in found[0][2]


@pytest.mark.parametrize(
    ("condition", "writes"),
    [
        ("object.metadata.?labels.?team.orValue('') == 'a'", {"labels": {"queue": "b"}}),
        ("totals.nodes > 4", {"labels": {"queue": "b"}}),
        ("request.userInfo.username == 'a'", {"trainer": {"numNodes": 2}}),
        ("namespaceObject.metadata.name == 'a'", {"labels": {"queue": "b"}}),
    ],
)
def test_what_a_policy_does_not_move(condition: str, writes: Spec) -> None:
    assert said([policy("p", when(condition, defaults=writes))], "feedback") == []


def test_a_validation_that_reads_what_is_written_feeds_nothing() -> None:
    spec: Spec = {
        "defaults": {"trainer": {"numNodes": 2}},
        "validations": [{"name": "v", "expression": "totals.nodes < 9"}],
    }
    assert said([policy("p", spec)], "feedback") == []


# Single documents


def test_mistakes_in_fields_and_in_expressions_are_told_together_with_their_place() -> None:
    spec: Spec = {
        "macth": {},
        "validations": [
            {"name": "v", "expression": "object.spec.trainer.numNode > 8"},
            {
                "name": "w",
                "message": "m",
                "expression": "true &&\n  podSets.all(p, p.spec.hostNet)",
            },
            {"name": "x"},
        ],
    }
    found = lint([policy("p", spec)], World())
    assert [(one.path, one.rule, one.column) for one in found if one.severity == "error"] == [
        ("spec.macth", "document", 0),
        ("spec.validations[2].expression", "document", 0),
        ("spec.validations[0].expression", "expression", 20),
        ("spec.validations[1].expression", "expression", 32),
    ]
    assert found[2].message == (
        'object.spec.trainer has no field "numNode": did you mean "numNodes"?'
    )


@pytest.mark.parametrize(
    ("spec", "path", "text"),
    [
        (
            {"limits": [{"name": "i", "images": {"allow": ["registry.example.com/"]}}]},
            "spec.limits[0].images.allow[0]",
            "names no repository",
        ),
        (
            {"limits": [{"name": "i", "images": {"deny": ["*"]}}]},
            "spec.limits[0].images.deny[0]",
            "would match the official images",
        ),
        (
            {"limits": [{"name": "r", "runtimes": {"allow": ["a" * 600]}}]},
            "spec.limits[0].runtimes.allow[0]",
            "at most 512 characters",
        ),
        (
            {"match": {"runtimes": [{"name": "a" * 600}]}},
            "spec.match.runtimes[0].name",
            "at most 512 characters",
        ),
        (
            {"match": {"subjects": {"groups": ["a" * 600]}}},
            "spec.match.subjects.groups[0]",
            "at most 512 characters",
        ),
    ],
)
def test_patterns_that_cannot_be_used_are_mistakes_of_the_document(
    spec: Spec, path: str, text: str
) -> None:
    errors = read(policy("p", spec)).errors
    assert [error.field for error in errors] == [path]
    assert text in str(errors[0])


def test_patterns_of_exceptions_too() -> None:
    document = exception({"policies": [{"name": "p"}], "match": {"names": ["a" * 600]}})
    assert [error.field for error in read(document).errors] == ["spec.match.names[0]"]


def test_a_rollout_that_begins_too_mildly() -> None:
    spec: Spec = {"limits": [], "rollout": [{"percent": 10, "actions": ["Warn"]}]}
    [(at, path, text)] = said([policy("p", spec)], "rollout")
    assert (at, path) == (0, "spec.rollout")
    assert text.startswith("rollout[0] (Warn) is less strict than spec.actions (Deny)")


# What documents name


@pytest.fixture
def runtimes() -> tuple[CompiledRuntime, ...]:
    return (CompiledRuntime(make_runtime("torch").torch().node().obj, lines.NEWEST),)


def targets(name: str, container: str = "") -> Spec:
    spec: Spec = {"nodeSelector": {"a": "b"}}
    if container:
        spec = {"containers": [{"name": container, "env": [{"name": "A", "value": "b"}]}]}
    one = {"targetJobs": [{"name": name}], "spec": spec}
    return {"overrides": {"podTemplateOverrides": [one]}}


def test_jobs_and_containers_must_be_in_a_runtime(runtimes: tuple[CompiledRuntime, ...]) -> None:
    known = runtimes[0].jobs[0]
    sound = [policy("p", targets(known.name, min(known.names)))]
    assert said(sound, "target", runtimes=runtimes) == []
    [(_, path, text)] = said([policy("p", targets("nod"))], "target", runtimes=runtimes)
    assert path == "spec.overrides.podTemplateOverrides[0].targetJobs[0].name"
    assert text.startswith('Not found: "nod": jobs of the runtimes: ')
    [(_, _, text)] = said(
        [policy("p", targets(known.name, "sidecar"))], "target", runtimes=runtimes
    )
    assert text.startswith('Not found: "sidecar": containers of job ')
    assert said([policy("p", targets("nod"))], "target") == []


def test_runtimes_that_nobody_has(runtimes: tuple[CompiledRuntime, ...]) -> None:
    name = runtimes[0].name
    spec: Spec = {
        **LABEL_A,
        "match": {"runtimes": [{"name": f"{name}x"}, {"name": f"{name[:2]}*"}]},
    }
    assert said([policy("p", spec)], "runtime", runtimes=runtimes) == [
        (
            0,
            "spec.match.runtimes[0]",
            f'no runtime is named "{name}x"; did you mean "{name}"?',
        )
    ]


def test_what_the_line_has_no_words_for() -> None:
    spec: Spec = {"overrides": {"activeDeadlineSeconds": 60}}
    [(_, path, text)] = said([policy("p", spec)], "line", line=lines.LINES["2.1"])
    assert path == "spec.overrides.activeDeadlineSeconds"
    assert "it came with 2.2" in text
    assert said([policy("p", spec)], "line", line=lines.LINES["2.3"]) == []


def params(**more: Any) -> Spec:
    ref = {"name": "rules", "namespace": "ops"}
    return {**LABEL_A, "params": {"configMapRef": ref, **more}}


def test_params_that_are_not_there_or_have_no_label() -> None:
    at = "spec.params.configMapRef"
    documents = [policy("p", params())]
    assert said(documents, "params") == []
    assert said(documents, "params", config_maps={("ops", "rules"): True}, is_cluster=True) == []
    assert said(documents, "params", config_maps={("ops", "rules"): False}) == [
        (
            0,
            at,
            "ConfigMap ops/rules has no label stationmaster.dev/params: only those that have it are read",
        )
    ]
    assert said(documents, "params", config_maps={("ops", "rule"): True}, is_cluster=True) == [
        (
            0,
            at,
            'there is no ConfigMap "rules" in namespace ops: every job that it matches is refused; did you mean "rule"?',
        )
    ]


@pytest.mark.parametrize(
    ("spec", "severity", "effect"),
    [
        (params(), "error", "every job that it matches is refused"),
        ({**params(), "failurePolicy": "Ignore"}, "error", "the policy is passed over"),
        (params(notFound="Allow"), "warning", "the policy is passed over"),
        (params(default={"a": 1}), "warning", "only its default counts"),
    ],
)
def test_what_missing_params_come_to(spec: Spec, severity: str, effect: str) -> None:
    [one] = [f for f in lint([policy("p", spec)], World(is_cluster=True)) if f.rule == "params"]
    assert (one.severity, effect in one.message) == (severity, True)


OFFERING = policy(
    "p",
    {
        "limits": [
            {"name": "nodes", "nodes": {"max": 2}},
            {"name": "pods", "pods": {"max": 2}},
        ],
        "validations": [{"name": "v", "expression": "true"}],
        "exceptions": {"rules": ["nodes", "v"], "longest": "8760h"},
    },
)


@pytest.mark.parametrize(
    ("spec", "path", "text"),
    [
        (
            {"policies": [{"name": "q"}]},
            "spec.policies[0].name",
            'Not found: "q": of kind TrainJobPolicy there are: "p"',
        ),
        (
            {"policies": [{"name": "p", "kind": "NamespacedTrainJobPolicy"}]},
            "spec.policies[0].name",
            'Not found: "p": of kind NamespacedTrainJobPolicy there are: none',
        ),
        (
            {"policies": [{"name": "p", "rules": ["node"]}]},
            "spec.policies[0].rules",
            'p has no rule "node"; it offers: nodes, v; did you mean "nodes"?',
        ),
        (
            {"policies": [{"name": "p", "rules": ["pods"]}]},
            "spec.policies[0].rules",
            'p does not offer its rule "pods" to exceptions; it offers: nodes, v',
        ),
        (
            {"policies": [{"name": "p"}], "grant": {"v": {"nodes": {"max": 3}}}},
            "spec.grant[v]",
            "grants a value, and the rule has none: leave out the grant to switch the rule off",
        ),
        (
            {"policies": [{"name": "p"}], "grant": {"nods": {"nodes": {"max": 3}}}},
            "spec.grant[nods]",
            'Not found: "nods": limits of spec.policies: "nodes", "pods"; did you mean "nodes"?',
        ),
        (
            {"policies": [{"name": "p"}], "expiresAt": "2026-01-01T00:00:00Z"},
            "spec.expiresAt",
            "it expired at 2026-01-01T00:00:00Z",
        ),
    ],
)
def test_what_is_wrong_with_an_exception(spec: Spec, path: str, text: str) -> None:
    found = said([OFFERING, exception(spec)], "exception", now=NOW)
    assert [(at, where) for at, where, _ in found] == [(1, path)]
    assert text in found[0][2]


@pytest.mark.parametrize(
    ("created", "expires", "when"),
    [
        ("", "2027-06-01T00:00:00Z", "720h after its creation, the longest"),
        (
            "2026-12-20T00:00:00Z",
            "2027-06-01T00:00:00Z",
            "720h after its creation, at 2027-01-19T00:00:00Z, the longest",
        ),
        ("", "2027-01-20T00:00:00Z", None),
        ("2026-12-20T00:00:00Z", "2027-01-19T00:00:00Z", None),
    ],
)
def test_an_exception_that_a_policy_ends_before_it_says(
    created: str, expires: str, when: str | None
) -> None:
    offer = {"rules": ["a"], "longest": "720h"}
    limits = [{"name": "a", "nodes": {"max": 1}}]
    offering = policy("p", {"limits": limits, "exceptions": offer})
    written = exception({"policies": [{"name": "p"}], "expiresAt": expires})
    if created:
        written["metadata"]["creationTimestamp"] = created
    found = said([offering, written], "exception", now=NOW)
    if when is None:
        assert found == []
    else:
        text = f"for p it ends sooner: {when} that spec.exceptions.longest offers there"
        assert found == [(1, "spec.expiresAt", text)]


def test_an_exception_that_is_right_and_one_whose_policies_are_elsewhere() -> None:
    right = exception(
        {
            "policies": [{"name": "p", "rules": ["nodes"]}],
            "grant": {"nodes": {"nodes": {"max": 3}}},
        }
    )
    assert lint([OFFERING, right], World(now=NOW)) == []
    assert lint([right], World(now=NOW)) == []
    world = World(documents={("TrainJobPolicy", "", "p"): OFFERING}, is_cluster=True)
    assert lint([right], world) == []


def test_a_policy_that_offers_nothing() -> None:
    documents = [policy("p", LABEL_A), exception({"policies": [{"name": "p"}]})]
    assert said(documents, "exception") == [
        (1, "spec.policies[0]", "p offers no rules to exceptions (spec.exceptions.rules)")
    ]


def test_of_an_unsound_policy_nothing_is_said_at_the_exception() -> None:
    documents = [policy("p", {"x": 1}), exception({"policies": [{"name": "p", "rules": ["a"]}]})]
    assert said(documents, "exception") == []


@pytest.mark.parametrize("raw", [None, 1, [], {}, {"kind": []}, policy("p", None)])  # type: ignore[arg-type]  # on purpose
def test_any_shape_is_a_finding(raw: Any) -> None:
    found = lint([raw], World(now=NOW))
    assert found
    assert all(isinstance(one, Finding) for one in found)


# Claims


def test_claims_print_their_places_as_messages_do() -> None:
    spec: Spec = {
        "defaults": {"labels": {"a": "b"}, "specLabels": {"c": "d"}, "trainer": {"numNodes": 1}},
        "overrides": {
            "initializer": {"dataset": {"env": [{"name": "E", "value": "f"}]}},
            "podTemplateOverrides": [
                {"targetJobs": [{"ancestor": "trainer"}], "spec": {"nodeSelector": {"x": "y"}}},
                {"spec": {"serviceAccountName": {"expression": "'a'"}}},
            ],
        },
    }
    found = read(policy("p", spec)).document
    assert isinstance(found, Policy)
    made = list(claims.claims_of(found))
    assert [str(claim) for claim in made] == [
        "metadata.labels[a]",
        "metadata.labels[c] of the JobSet",
        "spec.trainer.numNodes",
        "spec.initializer.dataset.env[E]",
        "spec.nodeSelector[x] of the pods of ancestor trainer",
        "spec.serviceAccountName of the pods of all jobs",
    ]
    assert made[-1].value is claims.COMPUTED
