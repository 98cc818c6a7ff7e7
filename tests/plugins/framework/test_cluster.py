"""Snapshots that come of one another: what changes, what is shared, what is compiled anew."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework.cluster import GENERATED, LAST_APPLIED, Snapshot, keep, kept_as
from plugins.framework.lines import LINES

LINE = LINES["2.3"]
CLUSTER = "ClusterTrainingRuntime"
NAMESPACED = "TrainingRuntime"


def runtime(name: str, nodes: int = 1, namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    kind = NAMESPACED if namespace else CLUSTER
    return {"kind": kind, "metadata": metadata, "spec": {"mlPolicy": {"numNodes": nodes}}}


def limit_range(name: str, cpu: str, namespace: str = "a") -> dict[str, Any]:
    limits = [{"type": "Container", "defaultRequest": {"cpu": cpu}}]
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "LimitRange", "metadata": metadata, "spec": {"limits": limits}}


def runtime_class(name: str, cpu: str = "") -> dict[str, Any]:
    overhead = {"overhead": {"podFixed": {"cpu": cpu}}} if cpu else {}
    return {"kind": "RuntimeClass", "metadata": {"name": name}, **overhead}


def named(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}}


def nodes(snapshot: Snapshot, name: str, namespace: str = "a", kind: str = CLUSTER) -> int | None:
    found = snapshot.runtime(kind, namespace, name, LINE)
    return None if found is None else found.num_nodes


def test_a_runtime_that_changed_is_compiled_anew_and_no_other_is() -> None:
    before = Snapshot.of([runtime("x"), runtime("y"), runtime("x", 7, "a")])
    x, y = (before.runtime(CLUSTER, "", name, LINE) for name in "xy")

    after = before.replaced(runtime("x", 5))

    assert nodes(after, "x") == 5
    assert nodes(after, "x", kind=NAMESPACED) == 7
    assert after.runtime(CLUSTER, "", "y", LINE) is y
    assert before.runtime(CLUSTER, "", "x", LINE) is x
    assert nodes(before, "x") == 1


def test_a_runtime_that_comes_back_as_it_was_is_still_compiled() -> None:
    before = Snapshot.of([runtime("x")])
    kept = before.runtime(CLUSTER, "", "x", LINE)

    after = before.without(CLUSTER, "", "x").replaced(runtime("x"))

    assert after.runtime(CLUSTER, "", "x", LINE) is kept


def test_what_the_api_server_adds_to_an_object_does_not_compile_it_anew() -> None:
    before = Snapshot.of([runtime("x")])
    kept = before.runtime(CLUSTER, "", "x", LINE)
    obj = runtime("x")
    obj["metadata"] |= {"resourceVersion": "9", "managedFields": [], "annotations": {"a": "b"}}

    assert before.replaced(obj).runtime(CLUSTER, "", "x", LINE) is kept


def test_each_line_has_its_own() -> None:
    snapshot = Snapshot.of([runtime("x")])

    new = snapshot.runtime(CLUSTER, "", "x", LINES["2.3"])
    old = snapshot.runtime(CLUSTER, "", "x", LINES["2.0"])

    assert new is not old


def test_a_runtime_is_taken_out_by_kind_namespace_and_name() -> None:
    before = Snapshot.of([runtime("x"), runtime("x", 2, "a"), runtime("x", 3, "b")])

    after = before.without(NAMESPACED, "a", "x")

    assert [nodes(after, "x", ns, NAMESPACED) for ns in "ab"] == [None, 3]
    assert nodes(after, "x") == 1
    assert [nodes(before, "x", ns, NAMESPACED) for ns in "ab"] == [2, 3]
    assert nodes(before, "x") == 1


def test_all_of_a_kind_are_taken_in_place_of_those_there_were() -> None:
    before = Snapshot.of([runtime("x"), runtime("y"), runtime("z", 2, "a")])

    after = before.with_all(CLUSTER, [runtime("y", 4), runtime("n")])

    assert after.runtime_names(CLUSTER, "") == ["n", "y"]
    assert after.runtime_names(NAMESPACED, "a") == ["z"]
    assert before.runtime_names(CLUSTER, "") == ["x", "y"]


def test_the_facts_of_a_namespace_follow_its_limit_ranges() -> None:
    objects = [named("Namespace", "a"), named("Namespace", "b"), limit_range("l", "1")]
    before = Snapshot.of(objects)
    a, b = before.facts("a"), before.facts("b")

    after = before.replaced(limit_range("l", "2"))

    assert after.facts("a").digest != a.digest
    assert after.facts("b") is b
    assert before.facts("a") is a
    assert after.without("LimitRange", "a", "l").facts("a").limits is None


def test_two_limit_ranges_of_a_namespace_both_count() -> None:
    snapshot = Snapshot.of([limit_range("l", "1")])
    both = snapshot.replaced(limit_range("m", "2"))

    assert both.facts("a").digest != snapshot.facts("a").digest
    assert both.without("LimitRange", "a", "m").facts("a").digest == snapshot.facts("a").digest


def test_the_facts_of_all_namespaces_follow_the_runtime_classes() -> None:
    before = Snapshot.of([named("Namespace", "a"), runtime_class("r", "1")])
    facts = before.facts("a")

    changed = before.replaced(runtime_class("r", "2"))
    lighter = before.replaced(runtime_class("r"))

    assert changed.facts("a").overheads == {"r": {"cpu": "2"}}
    assert lighter.facts("a").overheads == {}
    assert before.facts("a") is facts
    assert before.without("RuntimeClass", "", "r").facts("a").overheads == {}


@pytest.mark.parametrize(
    ("kind", "attribute"),
    [("RuntimeClass", "runtime_classes"), ("PriorityClass", "priority_classes")],
)
def test_names_are_unknown_until_somebody_looked(kind: str, attribute: str) -> None:
    empty = Snapshot()
    assert getattr(empty, attribute) is None

    looked = empty.with_all(kind, [])
    more = looked.replaced(named(kind, "n"))

    assert getattr(looked, attribute) == frozenset()
    assert getattr(more, attribute) == {"n"}
    assert getattr(more.without(kind, "", "n"), attribute) == frozenset()
    assert getattr(empty, attribute) is None


def test_namespaces_come_and_go() -> None:
    before = Snapshot.of([named("Namespace", "a")])
    after = before.replaced(named("Namespace", "b")).without("Namespace", "", "a")

    assert list(before.namespaces) == ["a"]
    assert list(after.namespaces) == ["b"]
    assert list(after.with_all("Namespace", []).namespaces) == []


def test_kinds_that_nobody_reads_change_nothing() -> None:
    snapshot = Snapshot.of([runtime("x")])

    for after in (
        snapshot.replaced(named("Pod", "p")),
        snapshot.without("Pod", "", "p"),
        snapshot.with_all("Pod", []),
    ):
        assert after.runtime_names(CLUSTER, "") == ["x"]


def test_what_the_cluster_serves_is_said() -> None:
    snapshot = Snapshot()

    assert snapshot.served is None
    assert snapshot.serving(frozenset({"a"})).served == frozenset("a")


def test_what_is_kept_of_a_namespace_has_labels_and_annotations_but_not_what_kubectl_applied() -> (
    None
):
    metadata = {
        "name": "a",
        "uid": "u",
        "labels": {"l": "1"},
        "annotations": {"n": "2", LAST_APPLIED: "{}"},
    }

    kept = keep({"kind": "Namespace", "metadata": metadata, "status": {"phase": "Active"}})

    assert kept["metadata"] == {"name": "a", "labels": {"l": "1"}, "annotations": {"n": "2"}}
    assert "status" not in kept


# TrainJobs, and what the Trainer makes of them


def train_job(
    name: str, runtime_name: str = "x", *, namespace: str = "a", kind: str = CLUSTER, **spec: Any
) -> dict[str, Any]:
    return {
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"runtimeRef": {"name": runtime_name, "kind": kind}, **spec},
    }


def finished(job: dict[str, Any]) -> dict[str, Any]:
    return {**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def users(
    snapshot: Snapshot, name: str = "x", namespace: str = "", kind: str = CLUSTER
) -> list[str]:
    found = snapshot.users(kind, namespace, name, most=9)
    assert found.total == len(found.first)
    return ["/".join(each) for each in found.first]


def test_the_unfinished_users_of_a_runtime_are_known_in_their_order() -> None:
    snapshot = Snapshot.of(
        [
            train_job("b"),
            train_job("a", namespace="z"),
            train_job("a"),
            train_job("other", "y"),
            finished(train_job("done")),
            train_job("near", kind=NAMESPACED),
        ]
    )

    assert users(snapshot) == ["a/a", "a/b", "z/a"]
    assert users(snapshot, "x", "a", NAMESPACED) == ["a/near"]
    assert users(snapshot, "x", "b", NAMESPACED) == []
    assert snapshot.has_train_job("a", "done")
    assert not snapshot.has_train_job("b", "done")


def test_of_many_users_the_first_are_named_and_all_are_counted() -> None:
    jobs = [train_job(f"j-{i:03}", suspend=i % 4 == 0) for i in reversed(range(200))]

    found = Snapshot.of(jobs).users(CLUSTER, "", "x", most=2)

    assert found == (200, 50, [("a", "j-000"), ("a", "j-001")])


CHANGES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "it is finished": (finished(train_job("j")), [], []),
    "it comes back with another runtime": (train_job("j", "y"), [], ["a/j"]),
    "it is suspended": (train_job("j", suspend=True), ["a/j"], []),
    "another one comes": (train_job("k"), ["a/j", "a/k"], []),
}


@pytest.mark.parametrize("rule", CHANGES)
def test_the_users_follow_a_train_job(rule: str) -> None:
    obj, of_x, of_y = CHANGES[rule]
    before = Snapshot.of([train_job("j")])

    after = before.replaced(obj)

    assert (users(after), users(after, "y")) == (of_x, of_y)
    assert (users(before), users(before, "y")) == (["a/j"], [])
    assert users(after.without("TrainJob", "a", "j").without("TrainJob", "a", "k")) == []


def test_all_train_jobs_are_taken_in_place_of_those_there_were() -> None:
    before = Snapshot.of([train_job("j"), train_job("k")])

    after = before.with_all("TrainJob", [train_job("k"), train_job("n")])

    assert users(after) == ["a/k", "a/n"]
    assert not after.has_train_job("a", "j")


def pod_group(group: str, **metadata: Any) -> dict[str, Any]:
    about = {"name": "j", "namespace": "a", **metadata}
    return {"apiVersion": f"{group}/v1", "kind": "PodGroup", "metadata": about}


UNCHANGED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the status of a TrainJob": (
        train_job("j"),
        {**train_job("j"), "status": {"jobsStatus": [{"active": 3}], "conditions": []}},
    ),
    "its labels": (
        train_job("j"),
        {**train_job("j"), "metadata": {"name": "j", "namespace": "a", "labels": {"a": "b"}}},
    ),
    "what it trains": (train_job("j"), train_job("j", trainer={"numNodes": 3})),
    "a finished one's suspension": (
        finished(train_job("j")),
        finished(train_job("j", suspend=True)),
    ),
    "the labels of a PodGroup": (
        pod_group("scheduling.x-k8s.io"),
        pod_group("scheduling.x-k8s.io", labels={"a": "b"}),
    ),
}


@pytest.mark.parametrize("rule", UNCHANGED)
def test_what_changes_nothing_kept_makes_no_snapshot(rule: str) -> None:
    old, new = UNCHANGED[rule]
    before = Snapshot.of([old])

    assert before.replaced(new) is before


def test_the_pod_groups_of_two_schedulers_are_two_kinds() -> None:
    first, second = pod_group("scheduling.x-k8s.io"), pod_group("scheduling.volcano.sh")
    kinds = [kept_as(first), kept_as(second)]
    snapshot = Snapshot.of([first])

    assert set(kinds) < set(GENERATED)
    assert [snapshot.owner(kind, "a", "j") for kind in kinds] == ["other", None]
    assert [snapshot.replaced(second).owner(kind, "a", "j") for kind in kinds] == ["other"] * 2
    gone = snapshot.replaced(second).with_all(kinds[0], [])
    assert [gone.owner(kind, "a", "j") for kind in kinds] == [None, "other"]
    assert gone.without(kinds[1], "a", "j").owner(kinds[1], "a", "j") is None
    assert snapshot.owner(kinds[0], "a", "j") == "other"


def test_whose_an_object_is_may_change() -> None:
    owner = {"kind": "TrainJob", "name": "j", "controller": True}
    before = Snapshot.of([pod_group("scheduling.x-k8s.io", ownerReferences=[owner])])
    kind = "PodGroup.scheduling.x-k8s.io"

    after = before.replaced(pod_group("scheduling.x-k8s.io"))

    assert (before.owner(kind, "a", "j"), after.owner(kind, "a", "j")) == ("TrainJob", "other")


def test_an_object_of_a_file_without_a_namespace_is_in_the_default_one() -> None:
    job = train_job("j")
    del job["metadata"]["namespace"]

    assert Snapshot.of([job]).has_train_job("default", "j")


def test_what_is_kept_of_a_train_job_is_its_runtime_and_whether_it_goes_on() -> None:
    conditions = [{"type": "Failed", "status": "True"}]
    job = train_job("j", suspend=False, trainer={"numNodes": 1})
    job["status"] = {"conditions": conditions, "jobsStatus": [1]}

    assert keep(job) == {
        "apiVersion": None,
        "kind": "TrainJob",
        "metadata": {"name": "j", "namespace": "a"},
        "spec": {"runtimeRef": {"name": "x", "kind": CLUSTER}, "suspend": False},
        "status": {"conditions": conditions},
    }
