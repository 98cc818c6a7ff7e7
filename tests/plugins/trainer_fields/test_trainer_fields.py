"""``spec.trainer``: numbers, names that the controller sets, what an update may not add or remove, what is ignored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plugins.framework.api import names
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


TWO = PLAIN.initializers()
DATASET = {"storageUri": "hf://a/b"}
SEEN = JOB.nodes(1).initializer("dataset", **DATASET).suspended().with_jobset()
FOR_EVER = "which JobSet does not let change once it exists"
CHANGES: dict[str, Case] = {
    "env": Case(
        old=SEEN,
        job=SEEN.env("A", "1"),
        refused=(forbidden("spec.trainer", "changes containers of job node", FOR_EVER),),
    ),
    "an image, of a job that runs": Case(
        old=SEEN.suspended(False),
        job=SEEN.suspended(False).trainer(image="x"),
        refused=(
            forbidden("spec.trainer", "could never be suspended or resumed again; delete it"),
        ),
    ),
    "a count, as the job is resumed": Case(
        old=SEEN,
        job=SEEN.suspended(False).nodes(2),
        refused=(
            forbidden("spec.trainer", "changes completions"),
            forbidden("spec.trainer", "changes parallelism"),
        ),
    ),
    "an initializer": Case(
        old=SEEN,
        job=SEEN.initializer("dataset", storageUri="hf://a/c"),
        refused=(forbidden("spec.initializer", "changes containers of job dataset-initializer"),),
    ),
    "both, each at its field": Case(
        old=SEEN,
        job=SEEN.initializer("dataset", storageUri="hf://a/c").env("A", "1"),
        refused=(
            forbidden("spec.initializer", "job dataset-initializer"),
            forbidden("spec.trainer", "job node"),
        ),
    ),
    "an initializer that is removed": Case(
        old=SEEN,
        job=SEEN.without("spec", "initializer"),
        refused=(forbidden("spec.initializer", "job dataset-initializer"),),
    ),
    "MultiKueue's jobs have a JobSet here too (G42)": Case(
        old=SEEN.field(names.MULTIKUEUE, "spec", "managedBy"),
        job=SEEN.field(names.MULTIKUEUE, "spec", "managedBy").env("A", "1"),
        refused=(forbidden("spec.trainer", "containers"),),
    ),
    "another way to write an amount changes nothing": Case(
        old=SEEN.resources(requests={"cpu": "1000m"}),
        job=SEEN.resources(requests={"cpu": 1}),
        warns=(),
    ),
    "what has no effect changes nothing": Case(
        old=SEEN, job=SEEN.trainer(numProcPerNode=2), warns=()
    ),
    "before the JobSet exists it passes, with a warning": Case(
        old=JOB.nodes(1),
        job=JOB.nodes(1).env("A", "1"),
        warns=(
            "spec.trainer: takes effect only if the controller has not seen the TrainJob yet: JobSet does not let "
            "containers of job node change",
        ),
    ),
}


@pytest.mark.parametrize("line", ["2.0", "2.1"])
@table(CHANGES)
def test_up_to_2_1_jobset_freezes_what_the_api_does_not(case: Case, line: str) -> None:
    check(replace(case, line=line, runtime=TWO))


def test_a_difference_that_a_patch_makes_is_told_at_the_patch() -> None:
    old = SEEN.pod_template_override("node", pod={"nodeSelector": {"a": "b"}})
    job = SEEN.nodes(2).pod_template_override("node", pod={"serviceAccountName": "x"})
    refused = (
        forbidden("spec.podTemplateOverrides[0]", "changes serviceAccountName"),
        forbidden("spec.trainer", "changes completions"),
        forbidden("spec.trainer", "changes parallelism"),
    )
    check(Case(line="2.1", old=old, job=job, runtime=TWO, refused=refused))


def test_where_the_runtime_is_gone_nothing_can_be_compared() -> None:
    check(Case(line="2.1", old=SEEN, job=SEEN.nodes(2)))


FILE = {"fileKeyRef": {"path": "a", "volumeName": "v", "key": "k"}}
CPU = {"resource": "limits.cpu", "divisor": "7"}
SOURCES: dict[str, Case] = {
    "a variable from nowhere": Case(
        job=JOB.env("A", "1").env("B", {}),
        refused=(invalid("spec.trainer.env[1].valueFrom", "must specify one of: `fieldRef`"),),
    ),
    "from a file, which the controller drops": Case(
        job=JOB.env("A", FILE), refused=(invalid("spec.trainer.env[0].valueFrom"),)
    ),
    "from amounts that are divided wrongly": Case(
        job=JOB.env("A", {"resourceFieldRef": CPU}),
        refused=(
            invalid(
                "spec.trainer.env[0].valueFrom.resourceFieldRef.divisor",
                '"7": only divisor\'s values 1m and 1 are supported with the cpu resource',
            ),
        ),
    ),
    "of an initializer, whose values stay out of the message": Case(
        job=JOB.initializer("dataset", env=[{"name": "A", "valueFrom": {}, "value": "s3cret"}]),
        refused=(invalid("spec.initializer.dataset.env[0].valueFrom", 'Invalid value: "": must'),),
    ),
    "from one of the four is well": Case(
        job=JOB.env("A", {"fieldRef": {"fieldPath": "metadata.name"}})
    ),
}


@table(SOURCES)
def test_sources_of_the_trainjobs_own_variables(case: Case) -> None:
    check(replace(case, runtime=TWO))


def test_sources_of_variables_that_go_nowhere_are_not_judged() -> None:
    check(Case(job=JOB.env("A", {}), runtime=NO_TRAINER))


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
