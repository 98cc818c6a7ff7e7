"""What other policies or runtimes would do to stored TrainJobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from plugins.framework import lines, values
from plugins.framework.api import names
from plugins.framework.api.admission import UserInfo
from plugins.framework.cluster import Snapshot
from tests.builders import (
    Builder,
    Json,
    MakeTrainJob,
    container,
    job_patch,
    make_runtime,
    make_train_job,
    resources,
)
from tests.folder import document
from webhook import offline
from webhook.asked import Asked
from webhook.simulation import replacing
from webhook.simulation.asked import as_asked
from webhook.simulation.compare import Difference, compare_pods
from webhook.simulation.simulator import Row, Simulator, Tally

NOW = datetime(2026, 6, 1, tzinfo=UTC)
RUNTIME = make_runtime().torch().nodes(2).node(container("node", resources=resources({"cpu": "2"})))
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "limits",
        "namespace": "team",
        "labels": {"stationmaster.dev/params": ""},
    },
    "data": {"most": "1"},
}
NODES = [{"name": "nodes", "nodes": {"max": 2}}]


def policy(name: str = "rules", **spec: Any) -> Json:
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "TrainJobPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


NOBODY = UserInfo()


def raw(thing: Builder | Json) -> Json:
    return thing.obj if isinstance(thing, Builder) else thing


def stored(
    job: MakeTrainJob,
    policies: Sequence[Json] = (),
    *,
    user: UserInfo = NOBODY,
    line: str = "2.3",
) -> Json:
    """A TrainJob as the API server keeps it once these policies have admitted it."""
    documents = [document(RUNTIME), *map(document, policies)]
    engine = offline.load(
        documents, line=line, profile=None, asked=Asked(user=user), now=lambda: NOW
    )
    outcome = engine.admit(document(job))
    assert outcome.allowed, outcome.findings
    assert outcome.after is not None
    return values.copy(outcome.after)  # type: ignore[no-any-return]  # a copy of JSON


def simulate(
    job: Builder | Json,
    now: Sequence[Json] = (),
    then: Sequence[Json] = (),
    *,
    runtime: Builder | None = None,
    user: UserInfo | None = None,
    line: str = "2.3",
) -> Row:
    """Judge one job with these policies, and with those in their place."""
    before = Snapshot.of([raw(RUNTIME), *now], admit=True)
    after, _ = replacing.replace_policies(before, then, keeps_others=False)
    keys = []
    if runtime is not None:
        after, errors = replacing.replace_runtime(after, runtime.obj, lines.LINES[line])
        assert errors == []
        keys.append(replacing.runtime_key(runtime.obj))
    simulator = Simulator(
        before,
        after,
        line=lines.LINES[line],
        profile=None,
        runtimes=keys,
        creator=user,
        clock=lambda: NOW,
    )
    return simulator.judge(raw(job))


def told(differences: Sequence[Difference]) -> list[tuple[str, str, str]]:
    return [(d.what, d.by, d.path) for d in differences]


def test_the_same_policies_change_nothing() -> None:
    rules = policy(limits=NODES, defaults={"labels": {"team": "vision"}})
    row = simulate(stored(make_train_job(), [rules]), [rules], [rules])
    assert (row.created_again, row.next_change) == ((), ())


def test_a_stricter_limit_refuses_who_creates_it_again_and_not_the_job_that_runs() -> None:
    rules, stricter = policy(limits=NODES), policy(limits=[{"name": "nodes", "nodes": {"max": 1}}])

    row = simulate(stored(make_train_job().nodes(2), [rules]), [rules], [stricter])

    assert told(row.created_again) == [("newly refused", "rules/nodes", "")]
    assert "at most 1 is allowed" in row.created_again[0].text
    assert row.next_change == ()
    assert row.state == "running"


def test_what_is_taken_away_no_longer_refuses() -> None:
    row = simulate(make_train_job().nodes(9), [policy(limits=NODES)], [])
    assert told(row.created_again) == [("no longer refused", "rules/nodes", "")]


def test_a_job_that_is_refused_either_way_is_refused_otherwise() -> None:
    other = policy("other", limits=[{"name": "few", "nodes": {"max": 3}}])
    row = simulate(make_train_job().nodes(9), [policy(limits=NODES)], [other])
    assert told(row.created_again) == [("refused otherwise", "other/few", "")]


@pytest.mark.parametrize("actions", [["Warn"], ["Audit"], ["Warn", "Audit"]])
def test_rules_that_only_warn_are_told(actions: list[str]) -> None:
    rules = policy(limits=NODES, actions=actions)

    row = simulate(make_train_job().nodes(9), [], [rules])
    back = simulate(make_train_job().nodes(9), [rules], [])

    assert told(row.created_again) == [("newly warned", "rules/nodes", "")]
    assert row.created_again[0].text.startswith(f"({', '.join(actions)}) spec.trainer.numNodes")
    assert told(back.created_again) == [("no longer warned", "rules/nodes", "")]


def test_a_fault_that_is_passed_over_is_told() -> None:
    broken = {"name": "x", "expression": "object.metadata.labels['gone'] == 'a'"}
    row = simulate(make_train_job(), [], [policy(failurePolicy="Ignore", validations=[broken])])
    assert told(row.created_again) == [("newly warned", "rules", "")]
    assert row.created_again[0].text.startswith("fault: x: ")


def test_an_item_is_told_by_its_fields_and_by_its_name_only_where_that_is_all() -> None:
    """Several policies write the names of what they all write into: a row of its own would say nothing."""
    then = {
        "jobs[node].name": "node",
        "jobs[node].containers[a].name": "a",
        "jobs[node].containers[b].name": "b",
        "jobs[node].containers[b].image": "x",
        "patches[p].manager": "p",
        "patches[p].time": "t",
        "name": "n",
        "metadata.labels.name": "l",
    }
    assert [found.path for found in compare_pods({}, then, "torch")] == [
        "jobs[node].containers[a].name",
        "jobs[node].containers[b].image",
        "patches[p].time",
        "name",
        "metadata.labels.name",
    ]
    assert [found.path for found in compare_pods(then, {}, "torch")] == [
        found.path for found in compare_pods({}, then, "torch")
    ]


def test_fields_that_policies_write_by_path_and_policy() -> None:
    now = [policy("a", defaults={"labels": {"team": "old", "ring": "one"}})]
    then = [
        policy("a", defaults={"labels": {"team": "new"}}),
        policy("b", defaults={"trainer": {"env": [{"name": "A", "value": "1"}]}}),
    ]

    row = simulate(stored(make_train_job(), now), now, then)

    assert [(*t, d.before, d.after) for t, d in zip(told(row.created_again), row.created_again, strict=True)] == [
        ("newly changed", "b", "spec.trainer.env[A].value", None, "1"),
        ("changed otherwise", "a", "metadata.labels.team", "old", "new"),
        ("no longer changed", "a", "metadata.labels.ring", "one", None),
    ]  # fmt: skip


def test_a_clamp_that_is_gone_leaves_what_nobody_knows() -> None:
    now = [policy(overrides={"trainer": {"numNodes": {"max": 3}}})]

    row = simulate(stored(make_train_job().nodes(9), now), now, [])

    assert told(row.created_again) == [("no longer changed", "rules", "spec.trainer.numNodes")]
    assert row.created_again[0].text == "the user's own value, which is not stored"


def test_a_tighter_clamp_changes_what_an_older_one_wrote() -> None:
    now, then = ([policy(overrides={"trainer": {"numNodes": {"max": m}}})] for m in (4, 3))

    row = simulate(stored(make_train_job().nodes(9), now), now, then)

    assert told(row.created_again) == [("newly changed", "rules", "spec.trainer.numNodes")]
    assert row.created_again[0].after == 3


@pytest.mark.parametrize("line", ["2.3", "2.2", "2.1"])
def test_overrides_of_pods_are_compared_value_by_value(line: str) -> None:
    now, then = (
        [
            policy(
                overrides={
                    "podTemplateOverrides": [
                        {"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"pool": pool}}}
                    ]
                }
            )
        ]
        for pool in ("a", "b")
    )

    row = simulate(stored(make_train_job(), now, line=line), now, then, line=line)

    [difference] = row.created_again
    assert (difference.what, difference.by) == ("changed otherwise", "rules")
    if line == "2.1":  # a list whose items have no names is one value
        assert difference.path == "spec.podTemplateOverrides"
    else:
        assert difference.path.endswith("nodeSelector.pool")
        assert (difference.before, difference.after) == ("a", "b")


def test_a_suspended_job_gets_the_new_label_with_its_next_change() -> None:
    then = [policy(defaults={"labels": {"team": "vision"}})]

    suspended = simulate(stored(make_train_job().suspended()), [], then)
    running = simulate(stored(make_train_job()), [], then)

    assert told(suspended.next_change) == [("newly changed", "rules", "metadata.labels.team")]
    assert suspended.state == "suspended"
    assert running.next_change == ()


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (make_train_job().nodes(9).condition("Complete"), "finished"),
        (make_train_job().nodes(9).terminating(), "terminating"),
    ],
)
def test_a_job_that_is_over_still_says_what_happens_to_the_next_one(
    job: MakeTrainJob, state: str
) -> None:
    row = simulate(job, [], [policy(limits=NODES)])
    assert row.state == state
    assert told(row.created_again) == [("newly refused", "rules/nodes", "")]
    assert row.next_change == ()


# Who created it


def test_who_created_a_job_is_what_its_record_says_unless_somebody_says_it() -> None:
    bob, eve = UserInfo(username="bob"), UserInfo(username="eve")
    of_bob = policy(match={"subjects": {"users": ["bob"]}}, limits=NODES)
    stricter = policy(
        match={"subjects": {"users": ["bob"]}}, limits=[{"name": "nodes", "nodes": {"max": 1}}]
    )
    bobs = stored(make_train_job().nodes(2), [of_bob], user=bob)
    eves = stored(make_train_job().nodes(2), [of_bob], user=eve)

    assert told(simulate(bobs, [of_bob], [stricter]).created_again) == [
        ("newly refused", "rules/nodes", "")
    ]
    assert simulate(eves, [of_bob], [stricter]).created_again == ()
    assert told(simulate(eves, [of_bob], [stricter], user=bob).created_again) == [
        ("newly refused", "rules/nodes", "")
    ]


def test_policies_that_ask_who_created_it_and_were_not_there_are_named() -> None:
    old = policy("old", match={"subjects": {"users": ["bob"]}}, limits=NODES)
    new = policy("new", match={"subjects": {"users": ["bob"]}}, limits=NODES)
    before = Snapshot.of([raw(RUNTIME), old], admit=True)

    after, _ = replacing.replace_policies(before, [old, new], keeps_others=False)

    assert replacing.who_created(after, before) == ["TrainJobPolicy new"]


# The runtime


def test_a_changed_runtime_shows_in_the_pods() -> None:
    changed = (
        make_runtime()
        .torch()
        .nodes(2)
        .node(container("node", image="other:1", resources=resources({"cpu": "2"})))
    )

    row = simulate(stored(make_train_job()), runtime=changed)
    elsewhere = simulate(stored(make_train_job()))

    pods = [d for d in row.created_again if d.what == "pods differ"]
    assert [(d.by, d.after) for d in pods] == [("ClusterTrainingRuntime runtime", "other:1")]
    assert pods[0].path.endswith("containers[node].image")
    assert elsewhere.created_again == ()


def test_what_a_changed_runtime_defaults_is_that_of_the_runtime() -> None:
    changed = (
        make_runtime().torch().nodes(4).node(container("node", resources=resources({"cpu": "2"})))
    )

    row = simulate(
        stored(make_train_job(), [policy(limits=NODES)]),
        [policy(limits=NODES)],
        [policy(limits=NODES)],
        runtime=changed,
    )

    assert told(row.created_again) == [("newly refused", "rules/nodes", "")]
    assert row.next_change == ()


def test_a_runtime_that_the_api_server_would_refuse_is_no_runtime() -> None:
    snapshot = Snapshot.of([raw(RUNTIME)], admit=True)
    wrong = {**RUNTIME.obj, "spec": {"template": {"spec": {"replicatedJobs": "all"}}}}
    after, errors = replacing.replace_runtime(snapshot, wrong, lines.NEWEST)
    assert after is snapshot
    assert [str(error.path) for error in errors]


# As asked


def test_a_job_as_asked_is_what_was_sent() -> None:
    rules = policy(
        defaults={
            "labels": {"team": "vision"},
            "trainer": {
                "env": [{"name": "A", "value": "1"}],
                "resourcesPerNode": {"limits": {"memory": "1Gi"}},
            },
        },
        overrides={
            "podTemplateOverrides": [
                {"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"pool": "a"}}}
            ]
        },
    )
    sent = (
        make_train_job()
        .env("MINE", "x")
        .label("own", "x")
        .patch("example.com/me", job_patch("node", pod={"nodeSelector": {"b": "c"}}))
    )
    after = stored(sent, [rules])
    after["metadata"] |= {
        "uid": "u",
        "resourceVersion": "7",
        "managedFields": [{}],
        "generation": 2,
    }
    after["status"] = {"conditions": []}
    kueue = {"manager": names.KUEUE_MANAGER, "trainingRuntimeSpec": {}}
    after["spec"]["runtimePatches"].append(kueue)

    asked = as_asked(after, lines.NEWEST)

    plain = stored(sent)
    wanted = as_asked(plain, lines.NEWEST)
    assert asked == wanted
    for entry in wanted["spec"]["runtimePatches"]:
        assert entry["manager"] == "example.com/me"
    assert asked["spec"]["trainer"] == {"env": [{"name": "MINE", "value": "x"}]}
    assert asked["metadata"]["labels"] == {"own": "x"}


@pytest.mark.parametrize(
    "strange",
    [
        {},
        {"metadata": None, "spec": 1},
        {"metadata": {"annotations": [1]}, "spec": {"runtimePatches": {"a": 1}}},
        {"metadata": {"annotations": {names.APPLIED_ANNOTATION: '{"": "a:b", "/spec": "x:y"}'}}},
        {"spec": {"runtimePatches": [None, 1, "a", []]}},
    ],
)
def test_objects_of_any_shape_are_taken(strange: Json) -> None:
    as_asked(strange, lines.NEWEST)


# Replacing


def test_a_set_replaces_a_set_and_leaves_what_is_the_teams() -> None:
    exception = {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "PolicyException",
        "metadata": {"name": "x", "namespace": "team", "creationTimestamp": "2026-05-01T00:00:00Z"},
        "spec": {
            "policies": [{"name": "a"}],
            "owner": "o",
            "reason": "r",
            "expiresAt": "2026-07-01T00:00:00Z",
        },
    }
    a, b = policy("a", limits=NODES), policy("b", limits=NODES)
    served = policy("b", limits=NODES, failurePolicy="Fail", priority=0)
    before = Snapshot.of([a, served, exception, CONFIG_MAP])
    new = [policy("c", limits=NODES), b]

    after, replaced = replacing.replace_policies(before, new, keeps_others=False)
    kept, applied = replacing.replace_policies(before, new, keeps_others=True)
    renewed = {**exception, "metadata": {"name": "x", "namespace": "team"}}
    aged, _ = replacing.replace_policies(before, [renewed], keeps_others=True)

    assert replaced.as_json() == {
        "new": ["TrainJobPolicy c"],
        "changed": [],
        "gone": ["TrainJobPolicy a"],
        "same": ["ConfigMap team/limits", "PolicyException team/x", "TrainJobPolicy b"],
    }
    assert applied.gone == []
    assert set(kept.documents) - set(after.documents) == {("TrainJobPolicy", "", "a")}
    [found] = [o for k, o in aged.documents.items() if k[0] == "PolicyException"]
    assert found["metadata"]["creationTimestamp"] == "2026-05-01T00:00:00Z"


def test_an_empty_set_takes_all_policies_away() -> None:
    before = Snapshot.of([policy("a", limits=NODES), CONFIG_MAP])
    after, replaced = replacing.replace_policies(before, [], keeps_others=False)
    assert replaced.gone == ["TrainJobPolicy a"]
    assert set(after.documents) == {("ConfigMap", "team", "limits")}


def test_unsound_policies_are_found_and_only_the_new_ones_are_told() -> None:
    wrong = [{"name": "x", "expression": "object.spec.trainr == 1"}]
    before = Snapshot.of([policy("old", validations=wrong)])
    new = [policy("fine", limits=NODES), policy("unsound", validations=wrong)]
    after, _ = replacing.replace_policies(before, new, keeps_others=True)
    found = list(replacing.problems(after, new))
    assert [place for place, _ in found] == [1]
    assert "trainr" in str(found[0][1])


# Tally


def test_all_are_counted_and_only_so_many_are_kept() -> None:
    tally = Tally(most=1)
    for name in ("a", "b", "c"):
        differences = (
            Difference(what="newly refused", by="p/r", text="x"),
            Difference(what="newly refused", by="p/r", text="y"),
        )
        tally.add(
            Row(
                namespace="team",
                name=name,
                runtime="r",
                state="running",
                created_again=differences if name != "c" else (),
                next_change=(),
            )
        )
    assert (tally.jobs, len(tally.rows), tally.left_out) == (3, 1, 1)
    assert tally.created_again == {("team", "p/r", "newly refused"): 2}
    assert tally.whats == {"newly refused": 2}
    assert not tally.is_empty


STRANGE: list[Any] = [
    {},
    {"metadata": None, "spec": None},
    {"metadata": [], "spec": "x"},
    {"metadata": {"name": 1, "namespace": 2, "labels": [], "annotations": "x"}, "spec": {}},
    {"metadata": {"name": "a"}, "spec": {"runtimeRef": []}, "status": 7},
    {"metadata": {"name": "a"}, "spec": {"runtimeRef": {"name": "runtime"}, "trainer": 1}},
    {
        "metadata": {"name": "a"},
        "spec": {"runtimeRef": {"name": "runtime"}, "trainer": {"env": [1, {"name": {}}]}},
    },
]


@pytest.mark.parametrize("strange", STRANGE, ids=range(len(STRANGE)))
def test_a_stored_object_of_any_shape_is_judged(strange: Json) -> None:
    """An API server stores none of these; a folder may hold them."""
    rules = policy(limits=NODES, defaults={"labels": {"team": "vision"}})
    row = simulate(strange, [], [rules])
    assert type(row.name) is str
    assert type(row.namespace) is str
