"""Snapshots that come of one another: what changes, what is shared, what is compiled anew."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework.cluster import LAST_APPLIED, Snapshot, keep
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
    assert before.runtime_count == 3


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
