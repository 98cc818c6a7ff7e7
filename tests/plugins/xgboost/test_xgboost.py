"""What XGBoost workers are told: the tracker, and how many they are."""

from __future__ import annotations

import pytest

from tests.builders import (
    Json,
    MakeRuntime,
    MakeTrainJob,
    container,
    make_runtime,
    make_train_job,
    resources,
)
from tests.plugins.kit import Case, built, check, forbidden, table

XGBOOST = make_runtime().xgboost()
BARE = XGBOOST.node()
JOB = make_train_job()
DMLC = ["DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"]
LINES = pytest.mark.parametrize("line", ["2.2", "2.3"])


def gpus(count: int) -> Json:
    return resources(limits={"nvidia.com/gpu": count})


def on_gpus(count: int) -> MakeRuntime:
    return XGBOOST.node(container("node", resources=gpus(count)))


WORKERS: dict[str, tuple[MakeTrainJob, MakeRuntime, str]] = {
    "X03 one node": (JOB.trainer(), BARE, "1"),
    "X03 four nodes": (JOB.nodes(4), BARE, "4"),
    "X03 four nodes of the runtime": (JOB.trainer(), BARE.nodes(4), "4"),
    "X03 two nodes of four GPUs": (JOB.nodes(2).trainer(resourcesPerNode=gpus(4)), BARE, "8"),
    "X04 GPUs of the runtime": (JOB.nodes(3), on_gpus(2), "6"),
    "X04 the TrainJob's GPUs win": (
        JOB.nodes(2).trainer(resourcesPerNode=gpus(3)),
        on_gpus(8),
        "6",
    ),
    "X04 no GPUs": (JOB.nodes(2), BARE, "2"),
    "G16 the TrainJob's resources alone count once they are set": (
        JOB.nodes(2).resources(limits={"memory": "1Gi"}),
        on_gpus(8),
        "2",
    ),
    "numProcPerNode changes nothing": (JOB.nodes(2).processes(4), BARE, "2"),
}


@LINES
@table(WORKERS)
def test_workers(line: str, case: tuple[MakeTrainJob, MakeRuntime, str]) -> None:
    job, runtime, wanted = case
    assert built(job, runtime, line=line).env()["DMLC_NUM_WORKER"] == wanted


@LINES
def test_the_tracker_and_the_task(line: str) -> None:
    made = built(JOB.nodes(2), BARE, line=line)
    env = made.env()
    assert list(env) == DMLC
    assert (env["DMLC_TRACKER_URI"], env["DMLC_TRACKER_PORT"]) == (
        "test-job-node-0-0.test-job",
        "29500",
    )
    assert "job-completion-index" in env["DMLC_TASK_ID"]["fieldRef"]["fieldPath"]
    assert made.container()["ports"] == [{"containerPort": 29500}]


def test_g30_our_order_is_always_the_same() -> None:
    made = built(JOB.nodes(1).env("A", "1"), XGBOOST.node(container("node", {"R": "1"})))
    assert list(made.env()) == ["R", *DMLC, "A"]


def test_x05_without_trainer_there_is_nothing() -> None:
    assert built(JOB, BARE.nodes(4)).env() == {}


def test_without_a_trainer_job_nothing_happens() -> None:
    assert built(JOB.nodes(2), XGBOOST.job("node")).env() == {}


CASES: dict[str, Case] = {
    "X06 each reserved name is refused at its place": Case(
        job=JOB.nodes(1).env(DMLC[3], "1").env("A", "1").env(DMLC[0], "x"),
        runtime=BARE,
        refused=(
            forbidden("spec.trainer.env[0].name", f"{DMLC[3]} is reserved for the XGBoost runtime"),
            forbidden("spec.trainer.env[2].name", DMLC[0]),
        ),
    ),
    "X06 all four are reserved": Case(
        job=JOB.env(DMLC[0], "1").env(DMLC[1], "1").env(DMLC[2], "1").env(DMLC[3], "1"),
        runtime=BARE,
        refused=tuple(forbidden(f"spec.trainer.env[{i}].name") for i in range(4)),
    ),
    "X05 other policies leave them to users": Case(
        job=JOB.nodes(1).env(DMLC[0], "1"), runtime=make_runtime().plain().node()
    ),
    "other names pass": Case(job=JOB.nodes(1).env("DMLC_ROLE", "worker"), runtime=BARE),
    "what is stored is no reason to refuse": Case(
        old=JOB.env(DMLC[0], "1").suspended(),
        job=JOB.env(DMLC[0], "1").suspended().patch("a.io/x"),
        runtime=BARE,
    ),
}


@table(CASES)
def test_validation(case: Case) -> None:
    check(case)
