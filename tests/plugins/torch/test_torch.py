"""What torchrun is told: nodes, processes, rank and address; which containers hear it; what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework.errors import BuildError
from tests.builders import (
    Json,
    MakeRuntime,
    MakeTrainJob,
    container,
    make_runtime,
    make_train_job,
    resources,
)
from tests.plugins.kit import (
    LINES,
    Built,
    Case,
    RuntimeCase,
    build,
    built,
    check,
    check_runtime,
    forbidden,
    invalid,
    not_found,
    table,
)

TORCH = make_runtime().torch()
BARE = TORCH.node()
JOB = make_train_job()
RANK = {
    "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
}
PET = ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"]


def with_resources(requests: Json | None = None, limits: Json | None = None) -> MakeRuntime:
    return TORCH.node(container("node", resources=resources(requests, limits)))


# Processes a node


PROCESSES: dict[str, tuple[Json, int | None, str]] = {
    "O02 a limit of 4 CPUs": (resources(limits={"cpu": "4"}), None, "4"),
    "O03 nothing": ({}, None, "1"),
    "O04 a limit of 2 CPUs": (resources(limits={"cpu": "2"}), None, "2"),
    "O05 a request of 3 CPUs": (resources(requests={"cpu": "3"}), None, "3"),
    "the request wins over the limit": (
        resources(requests={"cpu": "3"}, limits={"cpu": "4"}),
        None,
        "3",
    ),
    "a request of 0 does not": (resources(requests={"cpu": "0"}, limits={"cpu": "4"}), None, "4"),
    "O06 2500m is rounded up": (resources(limits={"cpu": "2500m"}), None, "3"),
    "O06 2.5 is rounded up": (resources(limits={"cpu": "2.5"}), None, "3"),
    "O06 3.7 is rounded up": (resources(limits={"cpu": "3.7"}), None, "4"),
    "O07 0.7 is 1": (resources(limits={"cpu": "0.7"}), None, "1"),
    "a number is a quantity": (resources(limits={"cpu": 4}), None, "4"),
    "O08 GPUs are for torchrun to count": (resources(limits={"nvidia.com/gpu": "2"}), None, "auto"),
    "O08 also beside CPUs": (
        resources(limits={"cpu": "6", "nvidia.com/gpu": "2"}),
        None,
        "auto",
    ),
    "GPUs of any make, by name": (resources(limits={"example.com/GPU-x": "2"}), None, "auto"),
    "G16 a TPU is none": (resources(limits={"google.com/tpu": "4", "cpu": "2"}), None, "2"),
    "G16 a MIG slice is none": (resources(limits={"nvidia.com/mig-1g.5gb": "2"}), None, "1"),
    "no GPUs at all are none": (resources(limits={"nvidia.com/gpu": "0", "cpu": "2"}), None, "2"),
    "memory alone": (resources(limits={"memory": "1Gi"}), None, "1"),
    "O09 a number given wins": (resources(limits={"cpu": "8"}), 3, "3"),
    "a number given wins over GPUs": (resources(limits={"nvidia.com/gpu": "4"}), 1, "1"),
}


@pytest.mark.parametrize("line", ["2.1", "2.2", "2.3"])
@pytest.mark.parametrize("place", ["TrainJob", "runtime"])
@table(PROCESSES)
def test_processes(line: str, place: str, case: tuple[Json, int | None, str]) -> None:
    given, own, wanted = case
    job = JOB.trainer() if own is None else JOB.processes(own)
    runtime = BARE
    if place == "TrainJob":
        job = job.trainer(resourcesPerNode=given)
    else:
        runtime = TORCH.node(container("node", resources=given))
    assert built(job, runtime, line=line).env()["PET_NPROC_PER_NODE"] == wanted


def test_g16_the_trainjobs_resources_alone_count_once_they_are_set() -> None:
    runtime = with_resources(limits={"nvidia.com/gpu": "2"})
    made = built(JOB.resources(limits={"memory": "64Gi"}), runtime)
    assert made.env()["PET_NPROC_PER_NODE"] == "1"
    assert made.container()["resources"]["limits"] == {"nvidia.com/gpu": "2", "memory": "64Gi"}


# 4.2.1, of 2.1: words, and the runtime's own
WORDS: dict[str, tuple[Any, Any, str]] = {
    "auto with GPUs": (None, "auto", "auto"),
    "cpu counts CPUs, GPUs or not": (None, "cpu", "4"),
    "gpu is passed on": (None, "gpu", "gpu"),
    "the runtime's number": (3, None, "3"),
    "the runtime's word": ("cpu", None, "4"),
    "the TrainJob's wins": ("cpu", 2, "2"),
}


@table(WORDS)
def test_words_of_2_1(case: tuple[Any, Any, str]) -> None:
    theirs, own, wanted = case
    node = container("node", resources=resources(limits={"cpu": "4", "nvidia.com/gpu": "2"}))
    runtime = (TORCH if theirs is None else make_runtime().torch(numProcPerNode=theirs)).node(node)
    job = JOB.trainer() if own is None else JOB.processes(own)
    assert built(job, runtime, line="2.1").env()["PET_NPROC_PER_NODE"] == wanted


LINE_2_0: dict[str, tuple[Any, Json | None, str]] = {
    "the runtime's resources do not count": (None, None, "auto"),
    "limits are looked at first": (
        None,
        resources(limits={"cpu": "4"}, requests={"memory": "1"}),
        "4",
    ),
    "without requests the outcome is overwritten by 1": (
        None,
        resources(limits={"nvidia.com/gpu": "2"}),
        "1",
    ),
    "also where a number is given": (3, resources(limits={"nvidia.com/gpu": "2"}), "1"),
    "a number without resources stays": (3, None, "3"),
}


@table(LINE_2_0)
def test_2_0_looks_at_the_trainjob_alone(case: tuple[Any, Json | None, str]) -> None:
    own, given, wanted = case
    job = JOB.trainer() if own is None else JOB.processes(own)
    job = job if given is None else job.trainer(resourcesPerNode=given)
    runtime = with_resources(limits={"cpu": "8"})
    assert built(job, runtime, line="2.0").env()["PET_NPROC_PER_NODE"] == wanted


# Environment


@pytest.mark.parametrize("line", LINES)
def test_o01_the_trainjobs_nodes_are_counted(line: str) -> None:
    assert built(JOB.nodes(2), BARE.nodes(1), line=line).env()["PET_NNODES"] == "2"


def test_without_it_the_runtimes_are() -> None:
    assert built(JOB.trainer(), BARE.nodes(5)).env()["PET_NNODES"] == "5"


def test_o10_many_nodes_with_gpus() -> None:
    job = JOB.nodes(4).resources(limits={"nvidia.com/gpu": "4"})
    made = built(job, BARE)
    assert made.counts("node") == (4, 4)
    assert made.env() == {
        "PET_NNODES": "4",
        "PET_NPROC_PER_NODE": "auto",
        "PET_NODE_RANK": RANK,
        "PET_MASTER_ADDR": "test-job-node-0-0.test-job",
        "PET_MASTER_PORT": "29500",
    }
    assert made.container()["ports"] == [{"containerPort": 29500}]


def test_o11_the_runtimes_env_then_the_trainjobs_then_torchs() -> None:
    runtime = TORCH.node(container("node", {"RUNTIME": "1", "SHARED": "old"}))
    job = JOB.env("OWN", "1").env("SHARED", "new")
    assert list(built(job, runtime).env()) == ["RUNTIME", "SHARED", "OWN", *PET]
    assert built(job, runtime).env()["SHARED"] == "new"


def test_g18_the_port_takes_the_place_of_an_unnamed_one() -> None:
    ports = [{"containerPort": 8080}, {"containerPort": 9090, "name": "metrics"}]
    made = built(JOB.trainer(), TORCH.node(container("node", ports=ports)))
    assert made.container()["ports"] == [
        {"containerPort": 29500},
        {"containerPort": 9090, "name": "metrics", "protocol": "TCP"},
    ]


def test_g11_the_address_is_that_of_a_job_called_node() -> None:
    runtime = TORCH.job("worker", "trainer").template("net", "network", "subdomain")
    made = built(JOB.trainer(), runtime)
    assert made.env("worker")["PET_MASTER_ADDR"] == "test-job-node-0-0.test-job"


@pytest.mark.parametrize("line", LINES)
def test_o20_without_trainer_there_is_nothing(line: str) -> None:
    assert built(JOB, BARE.nodes(4), line=line).env() == {}


def test_o17_another_policy_gets_nothing() -> None:
    made = built(JOB.nodes(1), make_runtime().plain().node())
    assert made.env() == {}


def test_other_containers_get_nothing() -> None:
    made = built(JOB.nodes(1), TORCH.node(container("node"), container("side")))
    assert made.env("node", "side") == {}


# envInjection


def injecting(*targets: tuple[str, list[str]]) -> MakeRuntime:
    wanted = [{"jobName": job, "containerNames": names} for job, names in targets]
    runtime = make_runtime().torch(envInjection={"targets": wanted})
    setup = container("setup", {"PET_NNODES": "old", "KEEP": "1"})
    return runtime.job("data", containers=[container("fetch")]).node(
        container("node"), container("side"), container("other"), pod={"initContainers": [setup]}
    )


def test_o12_an_init_container() -> None:
    env = built(JOB.nodes(2), injecting(("node", ["setup"]))).env(
        "node", "setup", kind="initContainers"
    )
    assert env["PET_NNODES"] == "2"
    assert list(env) == ["PET_NNODES", "KEEP", *PET[1:]]


def test_o13_sidecars() -> None:
    made = built(JOB.env("OWN", "1"), injecting(("node", ["side", "other"])))
    assert list(made.env("node", "side")) == list(made.env("node", "other")) == PET
    assert "ports" not in made.container("node", "side")


def test_o13_no_targets_are_no_more() -> None:
    made = built(JOB.nodes(1), injecting())
    assert made.env("node", "side") == {}


def test_o14_with_torchtune_only_the_target_has_the_address() -> None:
    runtime = injecting(("node", ["side"])).field("torchtune-llama3.2-1b", "metadata", "name")
    job = JOB.runtime("torchtune-llama3.2-1b").command("tune", "run")
    made = built(job, runtime)
    assert list(made.env("node", "side")) == PET
    assert list(made.env()) == PET[:3]


def test_o15_containers_of_several_jobs() -> None:
    made = built(JOB.nodes(1), injecting(("data", ["fetch"]), ("node", ["side"])))
    assert list(made.env("data", "fetch")) == list(made.env("node", "side")) == PET
    assert made.env("node", "setup", kind="initContainers") == {"PET_NNODES": "old", "KEEP": "1"}


def test_targets_get_theirs_without_trainer_too() -> None:
    made = built(JOB, injecting(("node", ["side"])))
    assert list(made.env("node", "side")) == PET
    assert made.env() == {}


MISSING = 'envInjection target podSet "{}" container "{}" not found in runtime template'


@pytest.mark.parametrize(("job", "name"), [("node", "nosuch"), ("nosuch", "side")])
def test_o16_an_unknown_target_fails_and_is_refused(job: str, name: str) -> None:
    case = Case(
        job=JOB.nodes(1),
        runtime=injecting((job, [name])),
        refused=(invalid("spec.runtimeRef.name", MISSING.format(job, name)),),
    )
    check(case)
    with pytest.raises(BuildError, match="not found in runtime template"):
        build(case)


TARGETS = "spec.mlPolicy.torch.envInjection.targets"
RUNTIME_CASES = {
    "G39 targets that are there pass": RuntimeCase(
        runtime=injecting(("node", ["side", "setup"]), ("data", ["fetch"]))
    ),
    "G39 an unknown job, and the jobs are named": RuntimeCase(
        runtime=injecting(("node", ["side"]), ("nosuch", ["a"])),
        refused=(
            not_found(f"{TARGETS}[1].jobName", '"nosuch"', "jobs of the template: data, node"),
        ),
    ),
    "G39 an unknown container, and the containers are named": RuntimeCase(
        runtime=injecting(("node", ["side", "nosuch"])),
        refused=(
            not_found(
                f"{TARGETS}[0].containerNames[1]",
                '"nosuch"',
                "containers of job node: node, other, setup, side",
            ),
        ),
    ),
    "G39 what is stored is no reason to refuse": RuntimeCase(
        old=injecting(("node", ["nosuch"])), runtime=injecting(("node", ["nosuch"])).nodes(2)
    ),
}


@table(RUNTIME_CASES)
def test_runtimes(case: RuntimeCase) -> None:
    check_runtime(case)


# Validation


def reserved(*names: str) -> MakeTrainJob:
    job = JOB.nodes(1).env("MINE", "1")
    for name in names:
        job = job.env(name, "x")
    return job


CASES: dict[str, Case] = {
    "O18 ordinary env passes": Case(job=reserved("PET_RDZV_ENDPOINT"), runtime=BARE),
    "O19 each reserved name is refused at its place": Case(
        job=reserved("PET_NODE_RANK", "A", "PET_NNODES"),
        runtime=BARE,
        refused=(
            forbidden("spec.trainer.env[1].name", "PET_NODE_RANK is set by the Torch runtime"),
            forbidden("spec.trainer.env[3].name", "PET_NNODES is set by the Torch runtime"),
        ),
    ),
    "O19 all five are reserved": Case(
        job=reserved(*PET),
        runtime=BARE,
        refused=tuple(forbidden(f"spec.trainer.env[{i}].name") for i in range(1, 6)),
    ),
    "O19 in 2.1 too, where the Trainer looks only with numProcPerNode": Case(
        line="2.1",
        job=reserved("PET_NNODES"),
        runtime=BARE,
        refused=(forbidden("spec.trainer.env[1].name"),),
    ),
    "other policies leave them to users": Case(
        job=reserved("PET_NNODES"), runtime=make_runtime().plain().node()
    ),
    "a stored one is no reason to refuse": Case(
        old=reserved("PET_NNODES").suspended(),
        job=reserved("PET_NNODES").suspended().patch("a.io/x"),
        runtime=BARE,
    ),
    "2.1 words for numProcPerNode pass": Case(line="2.1", job=JOB.processes("gpu"), runtime=BARE),
    "2.1 other words are refused": Case(
        line="2.1",
        job=JOB.processes("many"),
        runtime=BARE,
        refused=(
            invalid("spec.trainer.numProcPerNode", '"many"', "a number or one of auto, cpu, gpu"),
        ),
    ),
}


@table(CASES)
def test_validation(case: Case) -> None:
    check(case)


ONE = "numProcPerNode resolves to 1: neither the TrainJob nor the runtime asks for GPUs or CPUs"
WARNINGS: dict[str, Case] = {
    "B017 one process because nobody asks for anything": Case(
        job=JOB.nodes(1), runtime=BARE, warns=(ONE,)
    ),
    "B017 not where the user says 1": Case(job=JOB.processes(1), runtime=BARE, warns=()),
    "B017 not where CPUs give 1": Case(
        job=JOB.resources(limits={"cpu": "1"}), runtime=BARE, warns=()
    ),
    "B016 fewer processes than GPUs, since only the TrainJob's resources count": Case(
        job=JOB.resources(limits={"memory": "64Gi"}),
        runtime=with_resources(limits={"nvidia.com/gpu": "4"}),
        warns=("each pod gets 4 GPUs but 1 process(es)",),
    ),
    "B016 not where torchrun counts the GPUs itself": Case(
        job=JOB.resources(limits={"nvidia.com/gpu": "4"}),
        runtime=BARE,
        warns=(),
    ),
}


@table(WARNINGS)
def test_warnings(case: Case) -> None:
    check(case)


def test_nothing_is_said_of_jobs_that_do_not_use_torch() -> None:
    made: Built = built(JOB.nodes(1), make_runtime().jax().node())
    assert not any(name.startswith("PET_") for name in made.env())
