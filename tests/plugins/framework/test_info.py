"""One resolved TrainJob: how plugins find pods, edit containers, and count devices."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework.info import Container, Info, cpu_count, gpu_count
from tests.builders import (
    Json,
    container,
    job_patch,
    make_runtime,
    make_train_job,
    mount,
    resources,
)
from tests.plugins.kit import Case, resolve, table

JOB = make_train_job()
PLAIN = make_runtime().plain()


# Upserts: semantics 3.7


def test_m27_env_is_replaced_by_name_whole_and_else_appended() -> None:
    held = Container({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]})
    held.upsert_env({"name": "B", "valueFrom": {}}, {"name": "C"}, {"name": "C", "value": "3"})
    assert held.raw["env"] == [
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {}},
        {"name": "C", "value": "3"},
    ]


def test_m27_mounts_are_replaced_by_path() -> None:
    held = Container({"volumeMounts": [mount("v", "/a"), mount("v", "/b")]})
    held.upsert_mounts(mount("w", "/b"), mount("v", "/c"))
    assert held.raw["volumeMounts"] == [mount("v", "/a"), mount("w", "/b"), mount("v", "/c")]


PORTS: dict[str, tuple[list[Json], Json, list[Json]]] = {
    "the same number": (
        [{"containerPort": 1, "name": "a"}],
        {"containerPort": 1, "name": "b"},
        [{"containerPort": 1, "name": "b"}],
    ),
    "the same name": (
        [{"containerPort": 1, "name": "a"}],
        {"containerPort": 2, "name": "a"},
        [{"containerPort": 2, "name": "a"}],
    ),
    "G18 two without a name": (
        [{"containerPort": 1}],
        {"containerPort": 2},
        [{"containerPort": 2}],
    ),
    "another number and name": (
        [{"containerPort": 1, "name": "a"}],
        {"containerPort": 2},
        [{"containerPort": 1, "name": "a"}, {"containerPort": 2}],
    ),
    "the first that fits": (
        [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "b"}],
        {"containerPort": 2, "name": "a"},
        [{"containerPort": 2, "name": "a"}, {"containerPort": 2, "name": "b"}],
    ),
    "none before": ([], {"containerPort": 1}, [{"containerPort": 1}]),
}


@table(PORTS)
def test_m27_ports(case: tuple[list[Json], Json, list[Json]]) -> None:
    before, port, wanted = case
    held = Container({"ports": before} if before else {})
    held.upsert_ports(port)
    assert held.raw["ports"] == wanted


def test_an_upsert_of_nothing_adds_no_field() -> None:
    held = Container({"name": "a"})
    held.upsert_env()
    held.upsert_mounts()
    held.upsert_ports()
    assert held.raw == {"name": "a"}


def test_lists_are_copied_when_they_are_written() -> None:
    shared = [{"name": "A", "value": "1"}]
    held = Container({"env": shared, "ports": []})
    held.upsert_env({"name": "A", "value": "2"})
    assert shared == [{"name": "A", "value": "1"}]


# Looking up


def test_p04_pods_are_found_by_name_and_by_ancestor() -> None:
    runtime = PLAIN.job("x", "trainer").job("node", "trainer").job("y", "anything")
    info = resolve(Case(job=JOB, runtime=runtime))
    assert info.trainer is info.by_name("x")
    assert info.by_ancestor("anything") is info.by_name("y")
    assert info.by_name("nope") is None
    assert info.by_ancestor("nope") is None


def test_p04_of_two_containers_of_one_name_the_regular_one_is_edited() -> None:
    runtime = PLAIN.node(
        container("node"),
        container("twin", {"KIND": "regular"}),
        pod={
            "initContainers": [
                container("twin", {"KIND": "init"}),
                container("only", {"KIND": "init"}),
            ]
        },
    )
    info = resolve(Case(job=JOB, runtime=runtime))
    pod_set = info.pod_sets[0]
    found: list[Any] = []

    def look(_info: Info) -> None:
        found.extend((pod_set.edit_any("twin"), pod_set.edit_any("only"), pod_set.edit("only")))
        found.append(pod_set.edit_any("nope"))

    info.later(look)
    info.settle()
    twin, only, regular, nope = found
    assert twin.raw["env"][0]["value"] == "regular"
    assert only.raw["env"][0]["value"] == "init"
    assert regular is nope is None
    assert pod_set.has_container("twin")
    assert not pod_set.has_container("only")


def test_edits_run_once_in_order_and_pods_show_them() -> None:
    info = resolve(Case(job=JOB, runtime=PLAIN.node()))
    ran: list[str] = []
    info.by = "first"
    info.later(lambda _: ran.append("first"))
    info.by = "second"
    info.later(lambda _: ran.append("second"))
    seen: list[str] = []
    info.settle(seen.append)
    info.settle()
    assert ran == ["first", "second"]
    assert [layer for layer in seen if layer in ran] == ran


def test_edits_never_reach_the_runtime() -> None:
    case = Case(job=JOB.env("A", "1").trainer(image="x"), runtime=PLAIN.node())
    info = resolve(case)
    before = info.runtime.jobs[0].raw
    info.settle()
    assert info.pod_sets[0].spec["containers"][0]["image"] == "x"
    assert before["template"]["spec"]["template"]["spec"]["containers"][0]["image"] != "x"
    assert "env" not in before["template"]["spec"]["template"]["spec"]["containers"][0]


def test_a_pod_shows_its_metadata() -> None:
    job = JOB.patch("a.io/m", job_patch("node", pod_metadata={"labels": {"a": "b"}}))
    info = resolve(Case(job=job, runtime=PLAIN.node()))
    assert info.pod_sets[0].metadata["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("ancestor", "wanted"), [("trainer", 1), ("dataset-initializer", 1), ("x", 3), (None, 3)]
)
def test_replicas_of_ancestors_are_one(ancestor: str | None, wanted: int) -> None:
    info = resolve(Case(job=JOB, runtime=PLAIN.job("j", ancestor, replicas=3)))
    assert info.pod_sets[0].replicas == wanted
    assert info.pod_sets[0].pods == wanted


# Devices: semantics 2.6.2


GPUS: dict[str, tuple[Json, int]] = {
    "a limit": (resources(limits={"nvidia.com/gpu": "2"}), 2),
    "a request before a limit": (
        resources(requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "2"}),
        1,
    ),
    "a request of 0 is none": (
        resources(requests={"nvidia.com/gpu": "0"}, limits={"nvidia.com/gpu": "2"}),
        2,
    ),
    "requests without one": (resources(requests={"cpu": "1"}, limits={"nvidia.com/gpu": "2"}), 2),
    "any name with gpu in it": (resources(limits={"EXAMPLE.com/GPUs": 3}), 3),
    "parts are rounded up": (resources(limits={"nvidia.com/gpu": "500m"}), 1),
    "of several the first by name, always": (resources(limits={"z.com/gpu": 8, "a.com/gpu": 2}), 2),
    "TPUs are none": (resources(limits={"google.com/tpu": 4}), 0),
    "nothing": ({}, 0),
    "what cannot be read": (resources(limits={"nvidia.com/gpu": "many"}), 0),
    "a number that is too large for Go": (resources(limits={"nvidia.com/gpu": "1e19"}), 0),
    "wrong shapes": ({"limits": [], "requests": "x"}, 0),
}


@table(GPUS)
def test_gpus(case: tuple[Json, int]) -> None:
    given, wanted = case
    assert gpu_count(given) == wanted


CPUS: dict[str, tuple[Json, int]] = {
    "a request": (resources(requests={"cpu": "3"}), 3),
    "a request before a limit": (resources(requests={"cpu": "3"}, limits={"cpu": "8"}), 3),
    "a request of 0 is none": (resources(requests={"cpu": "0"}, limits={"cpu": "8"}), 8),
    "rounded up": (resources(limits={"cpu": "2500m"}), 3),
    "less than one": (resources(limits={"cpu": "1m"}), 1),
    "nothing": ({}, 0),
    "memory": (resources(limits={"memory": "1Gi"}), 0),
    "what cannot be read": (resources(requests={"cpu": "many"}, limits={"cpu": "2"}), 2),
}


@table(CPUS)
def test_cpus(case: tuple[Json, int]) -> None:
    given, wanted = case
    assert cpu_count(given) == wanted


NODE = resources(limits={"nvidia.com/gpu": 2})


def test_resources_for_counting_are_the_trainjobs_where_it_has_any() -> None:
    runtime = PLAIN.node(container("node", resources=NODE))
    own = resources(limits={"memory": "1Gi"})
    for job, wanted in (
        (JOB, NODE),
        (JOB.trainer(resourcesPerNode=own), own),
        (JOB.trainer(resourcesPerNode={}), {}),
    ):
        found = resolve(Case(job=job, runtime=runtime)).resources_per_node()
        assert gpu_count(found) == gpu_count(wanted)
        assert found.keys() == wanted.keys()


def test_resources_of_the_runtime_are_those_of_the_first_job_that_qualifies() -> None:
    """2.6.2 and 0.1.4: named node or with the ancestor trainer; the first container node, with resources or not."""
    bare, full = container("node"), container("node", resources=NODE)
    for runtime, wanted in (
        (PLAIN.job("x", containers=[full]).node(bare), 0),
        (PLAIN.job("node", containers=[bare]).job("launcher", "trainer", containers=[full]), 0),
        (PLAIN.job("launcher", "trainer", containers=[full]).job("node", containers=[bare]), 2),
        (
            PLAIN.job("launcher", "trainer", containers=[container("x")]).job(
                "node", containers=[full]
            ),
            2,
        ),
    ):
        info = resolve(Case(job=JOB, runtime=runtime))
        assert gpu_count(info.resources_per_node()) == wanted


def test_a_pod_set_outlives_its_job_by_name_alone() -> None:
    """It holds the job weakly, so that a review leaves no ring; who keeps only the pod set is told what to keep."""
    info = resolve(Case(job=JOB, runtime=PLAIN.node()))
    pod_set = info.pod_sets[0]
    assert pod_set.spec["containers"]
    del info
    assert pod_set.name == "node"
    with pytest.raises(
        ReferenceError, match="the Info that pod set node is part of is gone: keep it"
    ):
        _ = pod_set.spec
