"""Gang scheduling by Volcano: the PodGroup, its queue and its priority class."""

from __future__ import annotations

import pytest

from plugins.volcano import QUEUE_ANNOTATION
from tests.builders import (
    Json,
    MakeRuntime,
    MakeTrainJob,
    container,
    job_patch,
    make_object,
    make_runtime,
    make_train_job,
    resources,
)
from tests.plugins.kit import (
    Built,
    Case,
    RuntimeCase,
    built,
    check,
    check_runtime,
    invalid,
    table,
)

PLAIN = make_runtime().plain()
JOB = make_train_job()
VOLCANO = {"schedulerName": "volcano"}
EMPTY = "Volcano queue name must not be empty"
RUNTIME_NAME = "spec.runtimeRef.name"
LINES = pytest.mark.parametrize("line", ["2.1", "2.2", "2.3"])


def group(made: Built) -> Json:
    [found] = made.of_kind("PodGroup")
    assert found["apiVersion"] == "scheduling.volcano.sh/v1beta1"
    spec: Json = found["spec"]
    return spec


def runtime(**pod: str) -> MakeRuntime:
    return PLAIN.node(container("node"), pod={**VOLCANO, **pod}).volcano()


def in_queue(name: str) -> MakeRuntime:
    return runtime().jobset_metadata(annotations={QUEUE_ANNOTATION: name})


@LINES
def test_g05_the_whole_pod_group(line: str) -> None:
    launcher = container("main", resources=resources(requests={"cpu": "300m", "memory": "1Gi"}))
    node = container("node", resources=resources(requests={"cpu": "500m", "memory": "0.5Gi"}))
    given = (
        PLAIN.job("launcher", containers=[launcher], pod={"priorityClassName": "low"})
        .node(node, pod={"priorityClassName": "high-priority"})
        .jobset_metadata(annotations={QUEUE_ANNOTATION: "q1"})
        .volcano(networkTopology={"mode": "hard", "highestTierAllowed": 1})
    )
    made = built(JOB.nodes(4), given, line=line)
    assert group(made) == {
        "minMember": 5,
        "minResources": {"cpu": "2300m", "memory": "3Gi"},
        "queue": "q1",
        "priorityClassName": "high-priority",
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    for job in made.jobs:
        annotations = made.pod_template(job)["metadata"]["annotations"]
        assert annotations == {"scheduling.k8s.io/group-name": "test-job"}


def test_defaults_of_the_topology() -> None:
    made = built(JOB, PLAIN.node().volcano(networkTopology={}))
    assert group(made)["networkTopology"] == {"mode": "hard", "highestTierAllowed": 1}


def test_without_queue_and_class_neither_is_written() -> None:
    assert group(built(JOB, runtime())).keys() == {"minMember", "minResources"}


def test_a_patch_names_the_queue() -> None:
    job = JOB.patch("a.io/m", metadata={"annotations": {QUEUE_ANNOTATION: "q2"}})
    assert group(built(job, in_queue("q1")))["queue"] == "q2"


def test_2_0_does_not_know_volcano() -> None:
    made = built(JOB, runtime(), line="2.0")
    assert made.of_kind("PodGroup") == []


# The queue


def patched_queue(name: str, on: MakeTrainJob = JOB, *, manager: str = "a.io/m") -> MakeTrainJob:
    return on.patch(manager, metadata={"annotations": {QUEUE_ANNOTATION: name}})


QUEUE_AT = "spec.runtimePatches[{}].trainingRuntimeSpec.template.metadata.annotations"
CASES: dict[str, Case] = {
    "G06 an empty queue of the runtime is refused at its name": Case(
        job=JOB.nodes(1), runtime=in_queue(""), refused=(invalid(RUNTIME_NAME, EMPTY),)
    ),
    "G06 an empty queue of a patch is refused at the patch": Case(
        job=patched_queue("", JOB.patch("b.io/m", job_patch("node"))),
        runtime=in_queue("q"),
        refused=(invalid(f"{QUEUE_AT.format(1)}[{QUEUE_ANNOTATION}]", '""', EMPTY),),
    ),
    "G06 the last patch decides": Case(
        job=patched_queue("q", patched_queue(""), manager="b.io/m"), runtime=runtime()
    ),
    "G06 a queue passes": Case(job=JOB.nodes(1), runtime=in_queue("q1")),
    "G06 no queue passes": Case(job=JOB.nodes(1), runtime=runtime()),
    "G06 without Volcano nobody cares": Case(
        job=JOB.nodes(1),
        runtime=PLAIN.node().jobset_metadata(annotations={QUEUE_ANNOTATION: ""}),
    ),
    "2.1 an empty queue in spec.annotations is refused there": Case(
        line="2.1",
        job=JOB.field({QUEUE_ANNOTATION: ""}, "spec", "annotations"),
        runtime=runtime(),
        refused=(invalid(f"spec.annotations[{QUEUE_ANNOTATION}]", EMPTY),),
    ),
    "what is stored is no reason to refuse": Case(
        old=patched_queue("").suspended(),
        job=patched_queue("").suspended().patch("b.io/m"),
        runtime=runtime(),
    ),
}


@table(CASES)
def test_queues(case: Case) -> None:
    check(case)


# Priority classes


HIGH = make_object("PriorityClass", "high")
NOT_THERE = 'names PriorityClass "nosuch", which doesn\'t exist; there are: high'
CLASSES: dict[str, Case] = {
    "G06 an unknown class is refused, and those that exist are named": Case(
        job=JOB.nodes(1),
        runtime=runtime(priorityClassName="nosuch"),
        others=(HIGH,),
        refused=(invalid(RUNTIME_NAME, f"job node of the runtime {NOT_THERE}"),),
    ),
    "G06 a known class passes": Case(
        job=JOB.nodes(1), runtime=runtime(priorityClassName="high"), others=(HIGH,)
    ),
    "G07 a system class passes, and does not end the search": Case(
        job=JOB.nodes(1),
        runtime=PLAIN.job("first", pod={"priorityClassName": "system-node-critical"})
        .node(pod={"priorityClassName": "nosuch"})
        .volcano(),
        others=(HIGH,),
        refused=(invalid(RUNTIME_NAME, f"job node of the runtime {NOT_THERE}"),),
    ),
    "where no class is known absence proves nothing": Case(
        job=JOB.nodes(1), runtime=runtime(priorityClassName="nosuch")
    ),
    "without Volcano nobody cares": Case(
        job=JOB.nodes(1),
        runtime=PLAIN.node(pod={"priorityClassName": "nosuch"}),
        others=(HIGH,),
    ),
}


@table(CLASSES)
def test_priority_classes(case: Case) -> None:
    check(case)


WARNINGS: dict[str, tuple[MakeRuntime, tuple[str, ...]]] = {
    "G24 several classes, of which the last counts": (
        PLAIN.job("first", pod={**VOLCANO, "priorityClassName": "a"})
        .node(pod={**VOLCANO, "priorityClassName": "b"})
        .volcano(),
        ("jobs name priority classes a, b: the PodGroup gets the last",),
    ),
    "one class twice": (
        PLAIN.job("first", pod={**VOLCANO, "priorityClassName": "a"})
        .node(pod={**VOLCANO, "priorityClassName": "a"})
        .volcano(),
        (),
    ),
    "G23 a job that waits": (
        PLAIN.job("first", pod=VOLCANO)
        .node(depends_on={"first": "Complete"}, pod=VOLCANO)
        .volcano(),
        ("the gang is never complete",),
    ),
    "no schedulerName": (PLAIN.node().volcano(), ("names no schedulerName",)),
}


@table(WARNINGS)
def test_warnings(case: tuple[MakeRuntime, tuple[str, ...]]) -> None:
    check(Case(job=JOB.nodes(1), runtime=case[0], warns=case[1]))


QUEUE = f"spec.template.metadata.annotations[{QUEUE_ANNOTATION}]"
RUNTIMES: dict[str, RuntimeCase] = {
    "an empty queue is refused": RuntimeCase(
        runtime=in_queue(""), refused=(invalid(QUEUE, EMPTY),)
    ),
    "a queue passes": RuntimeCase(runtime=in_queue("q"), warns=()),
    "a gang that is never complete is a warning": RuntimeCase(
        runtime=WARNINGS["G23 a job that waits"][0], warns=("the gang is never complete",)
    ),
    "an empty queue is refused on update": RuntimeCase(
        old=in_queue("q"), runtime=in_queue(""), refused=(invalid(QUEUE, EMPTY),)
    ),
    "an empty queue of a TrainingRuntime is refused on update": RuntimeCase(
        old=in_queue("q").namespaced(), runtime=in_queue("").namespaced(), refused=(invalid(QUEUE),)
    ),
    "what is stored is no reason to refuse": RuntimeCase(
        old=in_queue(""), runtime=in_queue("").nodes(2)
    ),
}


@table(RUNTIMES)
def test_runtimes(case: RuntimeCase) -> None:
    check_runtime(case)
