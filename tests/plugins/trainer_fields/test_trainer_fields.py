"""``spec.trainer``: numbers, names that the controller sets, what an update may not add or remove, what is ignored."""

from __future__ import annotations

import pytest

from tests.builders import container, make_runtime, make_train_job
from tests.plugins.kit import (
    Case,
    admit,
    assert_found,
    check,
    forbidden,
    invalid,
    pipeline_with,
    table,
)

PLAIN = make_runtime().plain().node()
JOB = make_train_job()
NODES = "spec.trainer.numNodes"
PROCESSES = "spec.trainer.numProcPerNode"
NO_TRAINER = make_runtime().plain().job("node")
PATCHED = {"manager": "a.io/x", "trainingRuntimeSpec": {}}

CASES = {
    "numNodes 0 is refused: the job would be complete without a pod (G32)": Case(
        job=JOB.nodes(0), runtime=PLAIN, refused=(invalid(NODES, "0", "must be at least 1"),)
    ),
    "a negative numNodes is refused (G32)": Case(
        job=JOB.nodes(-1), runtime=PLAIN, refused=(invalid(NODES, "-1", "must be at least 1"),)
    ),
    "S20 positive numbers pass": Case(job=JOB.nodes(1).processes(1), runtime=PLAIN),
    "numProcPerNode 0 is refused": Case(
        job=JOB.processes(0), runtime=PLAIN, refused=(invalid(PROCESSES, "must be at least 1"),)
    ),
    "both numbers are named at once": Case(
        job=JOB.nodes(0).processes(-3), runtime=PLAIN, refused=(invalid(NODES), invalid(PROCESSES))
    ),
    "a number that is stored is no reason to refuse an update": Case(
        old=JOB.nodes(0).suspended(),
        job=JOB.nodes(0).suspended().field([PATCHED], "spec", "runtimePatches"),
        runtime=PLAIN,
    ),
    "variables of the Trainer's status plugin are refused, each at its name": Case(
        job=JOB.env("A", "1")
        .env("KUBEFLOW_TRAINER_SERVER_URL", "x")
        .env("KUBEFLOW_TRAINER_SERVER_TOKEN", "y"),
        runtime=PLAIN,
        refused=(
            forbidden("spec.trainer.env[1].name", "KUBEFLOW_TRAINER_SERVER_URL"),
            forbidden("spec.trainer.env[2].name", "KUBEFLOW_TRAINER_SERVER_TOKEN"),
        ),
    ),
    "variables that look alike pass": Case(
        job=JOB.env("KUBEFLOW_TRAINER_SERVER", "x"), runtime=PLAIN
    ),
    "S30 trainer cannot be added later, though the CRD lets it (G25)": Case(
        old=JOB.suspended(),
        job=JOB.suspended().nodes(2),
        runtime=PLAIN,
        refused=(forbidden("spec.trainer", "cannot be added"),),
    ),
    "S31 trainer cannot be removed, so that no other can follow (G25)": Case(
        old=JOB.suspended().nodes(2),
        job=JOB.suspended(),
        runtime=PLAIN,
        refused=(forbidden("spec.trainer", "cannot be removed"),),
    ),
    "an initializer cannot be added later": Case(
        old=JOB,
        job=JOB.initializer("dataset", storageUri="hf://a/b"),
        runtime=PLAIN.initializers(),
        refused=(forbidden("spec.initializer", "cannot be added"),),
    ),
    "an initializer cannot be removed": Case(
        old=JOB.initializer("dataset", storageUri="hf://a/b"),
        job=JOB,
        runtime=PLAIN.initializers(),
        refused=(forbidden("spec.initializer", "cannot be removed"),),
    ),
    "trainer may be added in 2.1, where it has an effect once the job is suspended and resumed": Case(
        line="2.1",
        old=JOB,
        job=JOB.nodes(2),
        runtime=PLAIN,
        warns=("spec.trainer: a change has no effect before the TrainJob is suspended",),
    ),
    "a change of trainer in 2.1 while suspended needs no warning": Case(
        line="2.1", old=JOB.suspended(), job=JOB.suspended().nodes(2), runtime=PLAIN, warns=()
    ),
    "a trainer without effect is a warning (G27)": Case(
        job=JOB.nodes(2).field("x", "spec", "trainer", "image"),
        runtime=NO_TRAINER,
        warns=(
            "spec.trainer (image, numNodes) has no effect: no job of runtime runtime carries the label "
            "trainer.kubeflow.org/trainjob-ancestor-step: trainer",
        ),
    ),
    "resourcesPerNode without an mlPolicy is a warning (G17)": Case(
        job=JOB.resources(requests={"cpu": "1"}),
        runtime=make_runtime().node(),
        warns=("spec.trainer.resourcesPerNode has no effect: runtime runtime has no mlPolicy",),
    ),
    "up to 2.2 they have an effect there": Case(
        line="2.2",
        job=JOB.resources(requests={"cpu": "1"}),
        runtime=make_runtime().node(),
        warns=(),
    ),
    "resourcesPerNode without a container named node is a warning": Case(
        job=JOB.resources(requests={"cpu": "1"}),
        runtime=PLAIN.template([], "replicatedJobs").job(
            "node", "trainer", containers=[container("main")]
        ),
        warns=(
            "no container named node takes it",
            "has a fault: spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers",
        ),
    ),
    "claims are dropped by the Trainer, which is a warning (G17)": Case(
        job=JOB.trainer(resourcesPerNode={"claims": [{"name": "gpus"}]}),
        runtime=PLAIN,
        warns=("spec.trainer.resourcesPerNode.claims has no effect",),
    ),
    "the image of an MPI job reaches the launcher only, which is a warning (G13)": Case(
        job=JOB.trainer(image="x", numNodes=1),
        runtime=make_runtime().mpi().job("node").job("launcher", "trainer"),
        warns=("spec.trainer.image reaches the launcher only",),
    ),
    "JAX ignores numProcPerNode, which is a warning": Case(
        job=JOB.nodes(1).processes(2),
        runtime=make_runtime().jax().node(),
        warns=("spec.trainer.numProcPerNode has no effect with policy jax",),
    ),
    "XGBoost ignores numProcPerNode, which is a warning": Case(
        job=JOB.nodes(1).processes(2),
        runtime=make_runtime().xgboost().node(),
        warns=("spec.trainer.numProcPerNode has no effect with policy xgboost",),
    ),
    "a command of the job before args of the runtime is a warning": Case(
        job=JOB.command("python"),
        runtime=make_runtime().plain().node(container("node", command=["sh"], args=["-c", "x"])),
        warns=('the runtime\'s args ["-c","x"] stay behind it',),
    ),
    "a command with args of its own is none": Case(
        job=JOB.command("python").args("train.py"),
        runtime=make_runtime().plain().node(container("node", command=["sh"], args=["-c", "x"])),
        warns=(),
    ),
}


@table(CASES)
def test_trainer_fields(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("policy", ["torch", "jax", "xgboost"])
def test_o20_without_trainer_each_node_would_train_alone_which_is_a_warning(policy: str) -> None:
    """Where RuntimeDefaults, which makes ``spec.trainer``, does not run."""
    pipe = pipeline_with({"plugins": {"multiPoint": {"disabled": [{"name": "RuntimeDefaults"}]}}})
    runtime = make_runtime().policy(policy).nodes(4).node()
    trap = (
        f"spec.trainer is absent: with policy {policy} the 4 nodes then know nothing of one another"
    )
    assert_found(admit(Case(job=JOB, runtime=runtime), pipe).findings, (), (trap,))
    single = admit(Case(job=JOB, runtime=runtime.nodes(1)), pipe)
    assert_found(single.findings, (), ())


def test_o20_by_default_trainer_is_made_instead() -> None:
    admitted = admit(Case(job=JOB, runtime=make_runtime().torch().nodes(4).node()))
    assert admitted.raw["spec"]["trainer"]["numNodes"] == 4
    assert not any("is absent" in warning for warning in admitted.findings.warnings)
