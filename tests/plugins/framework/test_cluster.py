"""What a request knows of the cluster: runtimes by kind, namespace and name, and what a namespace adds to pods."""

from __future__ import annotations

import pytest

from plugins.framework import quantity
from plugins.framework.api import names
from plugins.framework.cluster import MOST_COMPILED, Snapshot
from plugins.framework.lines import LINES
from tests.builders import Json, make_object, make_runtime
from tests.plugins.kit import stored

V23, V21 = LINES["2.3"], LINES["2.1"]
CLUSTER, NAMESPACED = names.CLUSTER_TRAINING_RUNTIME, names.TRAINING_RUNTIME
PLAIN = make_runtime().plain().node()


def test_runtimes_are_found_by_kind_namespace_and_name() -> None:
    mine, theirs = PLAIN.nodes(1).namespaced("mine"), PLAIN.nodes(2).namespaced("theirs")
    snapshot = Snapshot.of(map(stored, (PLAIN.nodes(3), mine, theirs)))

    def nodes(kind: str, namespace: str, name: str = "runtime") -> int | None:
        found = snapshot.runtime(kind, namespace, name, V23)
        return found.num_nodes if found else None

    assert nodes(CLUSTER, "any") == 3
    assert (nodes(NAMESPACED, "mine"), nodes(NAMESPACED, "theirs")) == (1, 2)
    assert nodes(NAMESPACED, "other") is None
    assert nodes(CLUSTER, "mine", "nope") is None
    assert snapshot.runtime_count == 3


def test_names_are_those_that_a_namespace_can_use() -> None:
    objects = [make_runtime(n).plain().node() for n in ("b", "a")]
    objects.append(make_runtime("c").plain().node().namespaced("mine"))
    snapshot = Snapshot.of(map(stored, objects))
    assert snapshot.runtime_names(CLUSTER, "mine") == ["a", "b"]
    assert snapshot.runtime_names(NAMESPACED, "mine") == ["c"]
    assert snapshot.runtime_names(NAMESPACED, "other") == []


def test_a_runtime_is_compiled_once_a_line() -> None:
    snapshot = Snapshot.of([stored(PLAIN)])
    first = snapshot.runtime(CLUSTER, "", "runtime", V23)
    assert snapshot.runtime(CLUSTER, "", "runtime", V23) is first
    older = snapshot.runtime(CLUSTER, "", "runtime", V21)
    assert older is not first
    assert older is not None
    assert older.line is V21


def test_more_runtimes_than_are_kept_compiled_are_compiled_again() -> None:
    count = MOST_COMPILED + 2
    template = stored(PLAIN)
    snapshot = Snapshot.of({**template, "metadata": {"name": f"r{i}"}} for i in range(count))
    first = snapshot.runtime(CLUSTER, "", "r0", V23)
    for i in range(count):
        assert snapshot.runtime(CLUSTER, "", f"r{i}", V23) is not None
    again = snapshot.runtime(CLUSTER, "", "r0", V23)
    assert again is not None
    assert first is not None
    assert again is not first
    assert again.digest == first.digest


def test_a_snapshot_keeps_what_it_was_given_when_the_object_changes() -> None:
    raw = stored(PLAIN.nodes(1))
    snapshot = Snapshot.of([raw])
    raw["spec"]["mlPolicy"]["numNodes"] = 7
    found = snapshot.runtime(CLUSTER, "", "runtime", V23)
    assert found is not None
    assert found.num_nodes == 1


# Objects from files


def test_from_files_runtimes_are_defaulted_and_pruned() -> None:
    raw = make_runtime().mpi().node().field(1, "spec", "noSuchField").obj
    found = Snapshot.of([raw], admit=True).runtime(CLUSTER, "", "runtime", V23)
    assert found is not None
    assert found.source == {
        "numProcPerNode": 1,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": "/root/.ssh",
        "runLauncherAsNode": False,
    }
    assert "noSuchField" not in found.raw["spec"]


def test_from_files_a_runtime_that_could_not_be_stored_is_none_and_the_reason_is_kept() -> None:
    raw = make_runtime().torch().jax().node().obj
    snapshot = Snapshot.of([raw], admit=True)
    assert snapshot.runtime(CLUSTER, "", "runtime", V23) is None
    [error] = snapshot.why_refused(CLUSTER, "", "runtime", V23)
    assert "Only one of the policy can be configured" in str(error)
    assert snapshot.runtime(CLUSTER, "", "runtime", V23) is None
    assert snapshot.why_refused(CLUSTER, "", "other", V23) == []
    assert snapshot.runtime_names(CLUSTER, "") == ["runtime"]


# The rest


def limit_range(namespace: str, **kinds: Json) -> Json:
    return make_object(
        "LimitRange", "l", namespace, spec={"limits": [{"type": "Container", **kinds}]}
    )


def test_facts_are_those_of_the_namespace() -> None:
    snapshot = Snapshot.of(
        [
            limit_range("mine", defaultRequest={"cpu": "1"}),
            {**make_object("RuntimeClass", "kata"), "overhead": {"podFixed": {"cpu": "250m"}}},
        ]
    )
    mine, other = snapshot.facts("mine"), snapshot.facts("other")
    assert mine.limits is not None
    assert mine.limits.requests["cpu"] == quantity.parse("1")
    assert other.limits is None
    assert mine.digest != other.digest
    assert mine.overheads == other.overheads == {"kata": {"cpu": "250m"}}
    assert snapshot.facts("mine") is mine


def test_the_same_objects_give_the_same_facts() -> None:
    a, b = (Snapshot.of([limit_range("n", default={"cpu": "1"})]).facts("n") for _ in range(2))
    assert a.digest == b.digest


def test_a_limit_range_that_cannot_be_read_counts_as_none() -> None:
    snapshot = Snapshot.of([limit_range("n", default={"cpu": "many"})])
    assert snapshot.facts("n").limits is None


def test_asking_for_namespaces_that_nobody_made_does_not_fill_memory() -> None:
    snapshot = Snapshot.of([make_object("Namespace", "there")])
    for i in range(100):
        assert snapshot.facts(f"made-up-{i}").limits is None
    assert snapshot.facts("there") is snapshot.facts("there")
    assert len(snapshot._facts) < 5


def test_absence_proves_something_only_where_such_objects_were_given() -> None:
    empty = Snapshot.of([])
    assert empty.runtime_classes is None
    assert empty.priority_classes is None
    full = Snapshot.of([make_object("RuntimeClass", "a"), make_object("PriorityClass", "b")])
    assert full.runtime_classes == frozenset({"a"})
    assert full.priority_classes == frozenset({"b"})


def test_the_crd_tells_the_line() -> None:
    spec: Json = {"properties": {"spec": {"properties": {"podTemplateOverrides": {}}}}}
    versions = [{"schema": {"openAPIV3Schema": spec}}]

    def crd(kind: str) -> Json:
        return make_object(
            "CustomResourceDefinition", "x", spec={"names": {"kind": kind}, "versions": versions}
        )

    assert Snapshot.of([crd("TrainJob")]).crd_line is V21
    assert Snapshot.of([crd("Other")]).crd_line is None
    assert Snapshot.of([]).crd_line is None


@pytest.mark.parametrize(
    "obj", [{}, {"kind": 1}, {"kind": "ConfigMap"}, {"kind": "LimitRange"}, {"kind": CLUSTER}]
)
def test_objects_of_any_shape_are_taken_or_passed_over(obj: Json) -> None:
    snapshot = Snapshot.of([obj])
    assert snapshot.runtime(CLUSTER, "", "x", V23) is None
    assert snapshot.facts("x") is not None
