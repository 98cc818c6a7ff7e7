"""What JAX processes are told, and that users may not tell them otherwise."""

from __future__ import annotations

import pytest

from tests.builders import MakeTrainJob, container, make_runtime, make_train_job, resources
from tests.plugins.kit import Case, built, check, forbidden, table

JAX = make_runtime().jax()
BARE = JAX.node()
JOB = make_train_job()
RESERVED = ["JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"]
RANK = {
    "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
}
LINES = pytest.mark.parametrize("line", ["2.2", "2.3"])


@LINES
def test_x01_count_rank_and_coordinator(line: str) -> None:
    made = built(JOB.trainer(), BARE.nodes(4), line=line)
    assert made.env() == {
        "JAX_NUM_PROCESSES": "4",
        "JAX_PROCESS_ID": RANK,
        "JAX_COORDINATOR_ADDRESS": "test-job-node-0-0.test-job:29500",
    }
    assert made.container()["ports"] == [{"containerPort": 29500}]
    assert made.counts("node") == (4, 4)


COUNTS: dict[str, tuple[MakeTrainJob, str]] = {
    "X01 one node": (JOB.trainer(), "1"),
    "X01 the TrainJob's nodes win": (JOB.nodes(3), "3"),
    "X01 GPUs change nothing": (JOB.resources(limits={"nvidia.com/gpu": "8"}), "1"),
    "numProcPerNode changes nothing": (JOB.processes(4), "1"),
}


@LINES
@table(COUNTS)
def test_processes(line: str, case: tuple[MakeTrainJob, str]) -> None:
    job, wanted = case
    assert built(job, BARE.nodes(1), line=line).env()["JAX_NUM_PROCESSES"] == wanted


def test_x01_gpus_of_the_runtime_change_nothing() -> None:
    node = container("node", resources=resources(limits={"nvidia.com/gpu": "8"}))
    assert built(JOB.trainer(), JAX.node(node)).env()["JAX_NUM_PROCESSES"] == "1"


def test_x02_without_a_trainer_job_nothing_happens() -> None:
    made = built(JOB.nodes(4), JAX.job("node"))
    assert made.env() == {}
    assert made.counts("node") == (1, 1)


def test_without_trainer_there_is_nothing() -> None:
    assert built(JOB, BARE.nodes(4)).env() == {}


def test_env_of_the_trainjob_comes_after_and_wins() -> None:
    made = built(JOB.nodes(1).env("A", "1").env("JAX_PROCESS_ID", "7"), BARE)
    assert list(made.env()) == [*RESERVED, "A"]
    assert made.env()["JAX_PROCESS_ID"] == "7"


CASES: dict[str, Case] = {
    "G22 each name that JAX is told by is refused at its place": Case(
        job=JOB.nodes(1)
        .env("A", "1")
        .env(RESERVED[1], "0")
        .env(RESERVED[0], "1")
        .env(RESERVED[2], "x"),
        runtime=BARE,
        refused=tuple(
            forbidden(f"spec.trainer.env[{i}].name", f"{RESERVED[k]} is set by the JAX runtime")
            for i, k in ((1, 1), (2, 0), (3, 2))
        ),
    ),
    "other names pass": Case(job=JOB.nodes(1).env("JAX_PLATFORMS", "cpu"), runtime=BARE),
    "other policies leave them to users": Case(
        job=JOB.nodes(1).env(RESERVED[0], "1"), runtime=make_runtime().plain().node()
    ),
    "what is stored is no reason to refuse": Case(
        old=JOB.env(RESERVED[0], "1").suspended(),
        job=JOB.env(RESERVED[0], "1").suspended().patch("a.io/x"),
        runtime=BARE,
    ),
}


@table(CASES)
def test_validation(case: Case) -> None:
    check(case)
