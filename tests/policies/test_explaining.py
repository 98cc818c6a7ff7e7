"""What ``explain`` knows of policies: the facts of admission itself, with the values of sub-expressions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from policies.explaining import Explanation
from tests.builders import Json, container, job_patch, make_runtime, make_train_job, resources
from tests.folder import document
from webhook import offline

NOW = datetime(2026, 6, 1, tzinfo=UTC)
RUNTIME = make_runtime().torch().nodes(2).node(container("node", resources=resources({"cpu": "2"})))


def policy(name: str = "rules", **spec: Any) -> Json:
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "TrainJobPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def exception(name: str = "let-it", **spec: Any) -> Json:
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "PolicyException",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "policies": [{"name": "rules"}],
            "owner": "a",
            "reason": "b",
            "expiresAt": "2026-07-01T00:00:00Z",
            **spec,
        },
    }


def explain(
    *things: Json, job: Any = None, old: Any = None, all_parts: bool = False
) -> dict[str, Explanation]:
    documents = [document(RUNTIME), *map(document, things)]
    engine = offline.load(documents, line="2.3", profile=None, now=lambda: NOW)
    found = engine.explain(
        document(job or make_train_job()),
        None if old is None else document(old),
        all_parts=all_parts,
    )
    return {str(each.policy.key): each for each in found.policies}


def parts(explanation: Explanation, rule: str) -> dict[str, Any]:
    return {part.text: part.value for each in explanation.evaluated[rule] for part in each.parts}


def outcomes(explanation: Explanation) -> dict[str, str]:
    return {ruled.name: ruled.outcome for ruled in explanation.rules}


FAILS = {"name": "few", "expression": "totals.nodes < 2 || object.metadata.name == 'big'"}


def test_every_policy_in_sight_says_which_part_of_its_match_is_not_met() -> None:
    found = explain(
        policy("a", match={"runtimes": [{"name": "jax"}]}, validations=[FAILS]),
        policy("b", match={"objectSelector": {"matchLabels": {"t": "v"}}}, validations=[FAILS]),
        policy(
            "c",
            match={"operations": ["UPDATE"], "namespaceSelector": {"matchLabels": {"r": "x"}}},
            validations=[FAILS],
        ),
        policy(
            "d",
            matchConditions=[{"name": "huge", "expression": "totals.nodes > 100"}],
            validations=[FAILS],
        ),
        policy("e", match={"subjects": {"users": ["bob"]}}, validations=[FAILS]),
    )

    assert {name: [str(miss) for miss in each.misses] for name, each in found.items()} == {
        "a": ["runtimes: wants jax, and the job runs on ClusterTrainingRuntime runtime"],
        "b": ["objectSelector: wants t=v, and there is no t on the TrainJob"],
        "c": [
            "namespaceSelector: wants r=x, and there is no r on namespace team",
            "operations: wants UPDATE, and this is CREATE",
        ],
        "d": ["matchConditions: huge is false: totals.nodes > 100"],
        "e": ['subjects: wants users bob, and the job was created by ""'],
    }
    assert not any(each.matched or each.rules for each in found.values())
    [condition] = found["d"].conditions
    assert {p.text: p.value for p in condition.parts} == {
        "totals.nodes > 100": False,
        "totals.nodes": 2,
    }


def test_failed_rules_show_the_values_of_their_parts_and_all_do_when_asked() -> None:
    rules = policy(
        limits=[
            {"name": "nodes", "nodes": {"max": {"expression": "params.most"}}},
            {"name": "cpu", "resource": "cpu", "total": {"max": 8}, "perNode": {"min": "500m"}},
        ],
        params={"value": {"most": 1}},
        validations=[FAILS, {"name": "fine", "expression": "totals.nodes < 10"}],
    )

    found = explain(rules)["rules"]
    everything = explain(rules, all_parts=True)["rules"]

    assert outcomes(found) == {
        "nodes": "broken",
        "cpu": "passes",
        "few": "broken",
        "fine": "passes",
    }
    assert {r.name: [str(m) for m in r.measures] for r in found.rules if r.measures} == {
        "nodes": ["nodes 2 (at most 1)"],
        "cpu": ["total 4 (at most 8)", "perNode[node] 2 (at least 500m)"],
    }
    assert found.params is not None
    assert (found.params.source, found.params.value) == ("value", {"most": 1})
    assert parts(found, "few") == {
        "totals.nodes < 2 || object.metadata.name == 'big'": False,
        "totals.nodes < 2": False,
        "totals.nodes": 2,
        "object.metadata.name == 'big'": False,
        "object.metadata.name": "test-job",
    }
    assert parts(found, "nodes") == {"params.most": 1}
    assert "fine" not in found.evaluated
    assert parts(everything, "fine") == {"totals.nodes < 10": True, "totals.nodes": 2}


def test_what_workers_evaluate_is_taken_apart_by_workers_to_the_same_end() -> None:
    expression = "object.metadata.name.matches('^big-.*') && totals.nodes < 10"
    risky = {"name": "few", "expression": expression}

    found = explain(policy(validations=[risky]))["rules"]

    assert parts(found, "few") == {
        expression: False,
        "object.metadata.name.matches('^big-.*')": False,
        "object.metadata.name": "test-job",
        "totals.nodes < 10": True,
        "totals.nodes": 2,
    }


def test_what_was_written_and_what_only_announced() -> None:
    writes = policy(
        defaults={"labels": {"team": "vision"}}, overrides={"trainer": {"numNodes": {"max": 1}}}
    )
    announces = policy("shy", mutate="Warn", defaults={"labels": {"ring": "canary"}})

    found = explain(writes, announces, job=make_train_job().nodes(4))

    assert [
        (w.mode, str(w.effect.place), w.effect.after, w.effect.replaces_users, w.is_announced)
        for each in found.values()
        for w in each.wrote
    ] == [
        ("defaults", "metadata.labels[team]", "vision", False, False),
        ("overrides", "spec.trainer.numNodes", 1, True, False),
        ("defaults", "metadata.labels[ring]", "canary", False, True),
    ]


def test_the_stage_of_the_rollout_that_decided() -> None:
    staged = policy(
        actions=["Warn"],
        validations=[FAILS],
        rollout=[
            {"namespaceSelector": {"matchLabels": {"ring": "canary"}}, "actions": ["Audit"]},
            {"percent": 100, "by": "namespace", "actions": ["Deny"]},
        ],
    )
    canary = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "labels": {"ring": "canary"}},
    }

    [anywhere] = explain(staged).values()
    [there] = explain(staged, canary).values()

    for explanation, stage, actions in ((anywhere, 1, ("Deny",)), (there, 0, ("Audit",))):
        assert explanation.stage is not None
        assert (explanation.stage.effect.stage, explanation.stage.effect.actions) == (
            stage,
            actions,
        )
        assert [ruled.actions for ruled in explanation.rules] == [actions]


@pytest.mark.parametrize(
    ("grant", "nodes"),
    [({}, "excepted"), ({"nodes": {"nodes": {"max": 4}}}, "excepted"), ({"nodes": {"nodes": {"max": 1}}}, "broken")],
    ids=["off", "looser", "not loose enough"],
)  # fmt: skip
def test_which_exception_let_what_through(grant: Json, nodes: str) -> None:
    rules = policy(limits=[{"name": "nodes", "nodes": {"max": 1}}], exceptions={"rules": ["nodes"]})

    [found] = explain(rules, exception(grant=grant)).values()

    assert outcomes(found) == {"nodes": nodes}
    assert found.rules[0].exception == ("let-it" if nodes == "excepted" else "")
    assert ["at most 1 is allowed" in str(error) for error in found.rules[0].errors] == [True]


def test_why_an_exception_did_not_apply() -> None:
    rules = policy(
        limits=[{"name": "nodes", "nodes": {"max": 1}}],
        validations=[FAILS],
        exceptions={"rules": ["nodes"]},
    )

    [found] = explain(
        rules,
        exception("late", expiresAt="2026-05-01T00:00:00Z"),
        exception("other", match={"names": ["big-*"]}),
        exception("too-much", policies=[{"name": "rules", "rules": ["few"]}]),
    ).values()

    assert {note.exception.name: note.reason for note in found.notes} == {
        "late": "it expired at 2026-05-01T00:00:00Z",
        "other": 'it is for jobs named big-*, and this one is named "test-job"',
        "too-much": "rules does not offer it; it offers nodes",
    }
    assert outcomes(found) == {"nodes": "broken", "few": "broken"}


def test_an_update_lets_be_what_the_stored_job_breaks_too() -> None:
    rules = policy(limits=[{"name": "nodes", "nodes": {"max": 1}}], validations=[FAILS])
    old = make_train_job().suspended().nodes(4)
    new = old.patch("example.com/me", job_patch("node", pod={"nodeSelector": {"a": "b"}}))

    [found] = explain(rules, job=new, old=old).values()

    assert outcomes(found) == {"nodes": "let be", "few": "let be"}


def test_a_change_of_labels_asks_the_rules_about_labels_alone() -> None:
    rules = policy(
        limits=[
            {"name": "team", "labels": {"require": ["team"]}},
            {"name": "n", "nodes": {"max": 1}},
        ]
    )
    old = make_train_job().nodes(4).label("team", "a")
    new = make_train_job().nodes(4).label("other", "b")

    [found] = explain(rules, job=new, old=old).values()

    assert outcomes(found) == {"team": "broken", "n": "not judged"}


def test_faults_are_named_also_where_they_are_passed_over() -> None:
    broken = {"name": "few", "expression": "object.metadata.labels['gone'] == 'a'"}

    found = explain(
        policy("open", failurePolicy="Ignore", validations=[broken]),
        policy("closed", validations=[broken]),
        policy("unsound", validations=[{"name": "x", "expression": "object.spec.trainr"}]),
    )

    for name in ("open", "closed"):
        assert outcomes(found[name]) == {"few": "fault"}
        assert [fault.startswith("few: ") for fault in found[name].faults] == [True]
    assert "trainr" in str(found["unsound"].problems[0])
    assert not found["unsound"].matched


def test_a_job_without_a_runtime_is_about_no_policy() -> None:
    assert explain(policy(validations=[FAILS]), job=make_train_job().runtime("gone")) == {}


def test_admission_says_the_same_whether_somebody_asks_why_or_not() -> None:
    things = [
        policy(
            limits=[{"name": "nodes", "nodes": {"max": 1}}],
            validations=[FAILS],
            defaults={"labels": {"team": "vision"}},
            exceptions={"rules": ["nodes"]},
        ),
        exception(),
    ]
    documents = [document(RUNTIME), *map(document, things)]
    engine = offline.load(documents, line="2.3", profile=None, now=lambda: NOW)
    job = document(make_train_job())

    plain = engine.admit(job)
    traced, traces = engine.trace(job)

    assert plain.review == traced.review
    assert plain.patch == traced.patch
    assert [trace.run is not None for trace in traces] == [True] * len(traces)
