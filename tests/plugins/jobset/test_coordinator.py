"""The coordinator of a JobSet: a pod that exists, with an address that is a label's value."""

from __future__ import annotations

from typing import Any

from tests.builders import MakeRuntime, make_runtime, make_train_job
from tests.plugins.kit import Case, RuntimeCase, check, check_runtime, invalid, table

AT = "spec.template.spec.coordinator"
TWO_JOBS = (
    make_runtime()
    .plain()
    .node()
    .job("side", replicas=3, job_spec={"parallelism": 2}, groupName="g")
)


def coordinated(job: str = "node", on: MakeRuntime = TWO_JOBS, **indexes: int) -> MakeRuntime:
    return on.template({"replicatedJob": job, **indexes}, "coordinator")


def under(length: int) -> MakeRuntime:
    return coordinated().template("n" * length, "network", "subdomain")


NOT_INDEXED = make_runtime().plain().node(job_spec={"completionMode": "NonIndexed"})
RUNTIMES: dict[str, tuple[MakeRuntime, tuple[Any, ...]]] = {
    "the first pod of the trainer": (coordinated(), ()),
    "the last pod of the last Job": (coordinated("side", jobIndex=2, podIndex=1), ()),
    "any pod of the trainer, whose count is the TrainJob's": (coordinated(podIndex=99), ()),
    "any pod of MPI's workers": (
        coordinated(podIndex=99, on=make_runtime().mpi().job("node").job("launcher", "trainer")),
        (),
    ),
    "a Job too many": (
        coordinated("side", jobIndex=3),
        (invalid(f"{AT}.jobIndex", "3: must be from 0 to 2: job side has 3 replica(s)"),),
    ),
    "a Job of the trainer, which has one": (
        coordinated(jobIndex=1),
        (invalid(f"{AT}.jobIndex", "1: must be from 0 to 0"),),
    ),
    "a Job below 0": (coordinated(jobIndex=-1), (invalid(f"{AT}.jobIndex", "-1"),)),
    "a pod below 0": (coordinated(podIndex=-1), (invalid(f"{AT}.podIndex", "at least 0"),)),
    "a pod too many of a job whose count is the runtime's": (
        coordinated("side", podIndex=2),
        (invalid(f"{AT}.podIndex", "2: must be from 0 to 1: job side has 2 pod(s)"),),
    ),
    "pods without an index": (
        coordinated(on=NOT_INDEXED),
        (invalid(f"{AT}.replicatedJob", "its completionMode must be Indexed"),),
    ),
    "an address that just fits": (under(52), ()),
    "an address that fits no name": (
        under(53),
        (invalid(AT, f"NAME-node-0-0.{'n' * 53} exceeds the 63 characters"),),
    ),
}


@table(RUNTIMES)
def test_a_runtime(case: tuple[MakeRuntime, tuple[Any, ...]]) -> None:
    runtime, refused = case
    check_runtime(RuntimeCase(runtime=runtime, refused=refused))


@table({rule: case for rule, case in RUNTIMES.items() if case[1]})
def test_a_stored_coordinator_is_no_reason_to_refuse(
    case: tuple[MakeRuntime, tuple[Any, ...]],
) -> None:
    runtime, _ = case
    check_runtime(RuntimeCase(old=runtime, runtime=runtime.label("a", "b")))


def test_a_trainjob_must_have_the_pod() -> None:
    runtime = coordinated(podIndex=2)
    check(Case(job=make_train_job().nodes(3), runtime=runtime))
    says = "2: must be more than 2: the runtime's coordinator is pod 2 of job node, which has 2"
    refused = (invalid("spec.trainer.numNodes", says),)
    check(Case(job=make_train_job().nodes(2), runtime=runtime, refused=refused))


def test_no_nodes_are_refused_once() -> None:
    refused = (invalid("spec.trainer.numNodes", "0: must be at least 1"),)
    check(Case(job=make_train_job().nodes(0), runtime=coordinated(), refused=refused))


def test_a_pod_that_the_runtime_lacks_is_not_the_trainjobs_fault() -> None:
    warns = ("has a fault: spec.template.spec.coordinator.podIndex",)
    check(Case(job=make_train_job(), runtime=coordinated("side", podIndex=2), warns=warns))
