"""What is written into ``spec.trainer``, and the traps where the same value would change the job."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework import applied
from plugins.framework.errors import ConfigError
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
    Case,
    admit,
    built,
    cluster_of,
    default_pipeline,
    make_context,
    pipeline_with,
    run,
    stored,
    table,
)

ALL = ["numNodes", "numProcPerNode", "image", "command", "args", "resourcesPerNode"]
JOB = make_train_job()
IMAGE = "example.test/train:1"
CPU = resources(requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "2"})
GPU = resources(limits={"nvidia.com/gpu": "4"})


def completed(
    job: MakeTrainJob, runtime: MakeRuntime, *fields: str, line: str = "2.3"
) -> Json | None:
    """``spec.trainer`` after the mutating call with these fields in the plugin's args; None if it is absent."""
    config = {"name": "RuntimeDefaults", "args": {"fields": list(fields or ALL)}}
    pipe = pipeline_with({"pluginConfig": [config]})
    admitted = admit(Case(job=job, runtime=runtime, line=line), pipe)
    assert not admitted.findings.errors
    found: Json | None = admitted.raw["spec"].get("trainer")
    return found


def node(given: Json | None = None, **fields: Any) -> Json:
    return container("node", resources=given, **fields)


TORCH = make_runtime().torch()
PLAIN = make_runtime().plain()


# What is written


WRITTEN: dict[str, tuple[MakeTrainJob, MakeRuntime, Json]] = {
    "all that the runtime says": (
        JOB,
        PLAIN.nodes(3).node(node(CPU, command=["python"], args=["train.py"])),
        {
            "numNodes": 3,
            "image": IMAGE,
            "command": ["python"],
            "args": ["train.py"],
            "resourcesPerNode": CPU,
        },
    ),
    "torch: the processes that it works out": (
        JOB,
        TORCH.node(node(CPU)),
        {"numNodes": 1, "numProcPerNode": 1, "image": IMAGE, "resourcesPerNode": CPU},
    ),
    "torch: processes from the TrainJob's own resources": (
        JOB.resources(limits={"cpu": "6"}),
        TORCH.node(node(CPU)),
        {
            "resourcesPerNode": resources(limits={"cpu": "6"}),
            "numNodes": 1,
            "numProcPerNode": 6,
            "image": IMAGE,
        },
    ),
    "no mlPolicy: the template's parallelism": (
        JOB,
        make_runtime().node(job_spec={"parallelism": 7}),
        {"numNodes": 7, "image": IMAGE},
    ),
    "the runtime's 0 as the 1 that it is": (
        JOB,
        PLAIN.nodes(0).node(),
        {"numNodes": 1, "image": IMAGE},
    ),
    "what the TrainJob says stays": (
        JOB.nodes(5).trainer(image="own:1", args=[]),
        PLAIN.nodes(3).node(node(CPU, args=["x"])),
        {"numNodes": 5, "image": "own:1", "args": [], "resourcesPerNode": CPU},
    ),
    "MPI: workers that the runtime has": (
        JOB,
        make_runtime()
        .mpi(numProcPerNode=2)
        .job("node", job_spec={"parallelism": 1})
        .job("launcher", "trainer"),
        {"numNodes": 1, "numProcPerNode": 2, "image": IMAGE},
    ),
    "MPI: GPUs are the slots where the runtime says 1": (
        JOB,
        make_runtime()
        .mpi(runLauncherAsNode=True)
        .job("node", containers=[node(GPU)])
        .job("launcher", "trainer", containers=[node(GPU)]),
        {"numNodes": 1, "numProcPerNode": 4, "image": IMAGE, "resourcesPerNode": GPU},
    ),
    "integers stay integers, quantities texts": (
        JOB,
        PLAIN.nodes(2).node(node(resources(limits={"cpu": 2}))),
        {"numNodes": 2, "image": IMAGE, "resourcesPerNode": resources(limits={"cpu": "2"})},
    ),
}


@table(WRITTEN)
def test_written(case: tuple[MakeTrainJob, MakeRuntime, Json]) -> None:
    job, runtime, wanted = case
    assert completed(job, runtime) == wanted


# The traps: what is not written, since it would change what is built, or what is refused or read


def launcher_and_workers(**fields: Any) -> MakeRuntime:
    return make_runtime().mpi(**fields).job("node").job("launcher", "trainer")


TRAPS: dict[str, tuple[str, MakeTrainJob, MakeRuntime]] = {
    "MPI: numNodes 4 of the runtime makes launchers, of the TrainJob workers": (
        "numNodes",
        JOB,
        launcher_and_workers().nodes(4),
    ),
    "MPI: numNodes 4 with the launcher as a node would be 3 workers for 1": (
        "numNodes",
        JOB,
        launcher_and_workers(runLauncherAsNode=True).nodes(4),
    ),
    "MPI: numNodes 2 without a launcher is refused": (
        "numNodes",
        JOB,
        make_runtime().mpi(runLauncherAsNode=True).nodes(2).job("node", "trainer"),
    ),
    "MPI without workers": ("numNodes", JOB, make_runtime().mpi().job("launcher", "trainer")),
    "MPI: numProcPerNode 0 of the runtime is refused in a TrainJob": (
        "numProcPerNode",
        JOB,
        launcher_and_workers(numProcPerNode=0),
    ),
    "torch: GPUs, which torchrun counts itself": ("numProcPerNode", JOB, TORCH.node(node(GPU))),
    "JAX has one process a node": ("numProcPerNode", JOB, make_runtime().jax().node(node(CPU))),
    "XGBoost counts GPUs": ("numProcPerNode", JOB, make_runtime().xgboost().node(node(GPU))),
    "claims of the runtime would be lost": (
        "resourcesPerNode",
        JOB,
        PLAIN.node(node({**CPU, "claims": [{"name": "gpus"}]})),
    ),
    "resources of the workers would land on the launcher": (
        "resourcesPerNode",
        JOB,
        make_runtime()
        .mpi(runLauncherAsNode=True)
        .job("node", containers=[node(GPU)])
        .job("launcher", "trainer"),
    ),
    "resources of the launcher would be the slots of workers that have none": (
        "resourcesPerNode",
        JOB,
        make_runtime().mpi().job("node").job("launcher", "trainer", containers=[node(GPU)]),
    ),
    "of two trainers each has its own resources": (
        "resourcesPerNode",
        JOB,
        PLAIN.node(node(CPU)).job("more", "trainer", containers=[node(GPU)]),
    ),
    "without an mlPolicy resources would be ignored": (
        "resourcesPerNode",
        JOB,
        make_runtime().node(node(CPU)),
    ),
    "limits without a device that the SDK knows: it could not read the job": (
        "resourcesPerNode",
        JOB,
        PLAIN.node(node(resources(limits={"memory": "1Gi"}))),
    ),
    "an AMD GPU alone is such a device": (
        "resourcesPerNode",
        JOB,
        PLAIN.node(node(resources(limits={"amd.com/gpu": "1"}))),
    ),
    "no resources": ("resourcesPerNode", JOB, PLAIN.node(node({}))),
    "of two trainers each has its own image": (
        "image",
        JOB,
        PLAIN.node(node(image="a:1")).job("more", "trainer", containers=[node(image="b:1")]),
    ),
    "of two trainers one has no command": (
        "command",
        JOB,
        PLAIN.node(node(command=["a"])).job("more", "trainer", containers=[node()]),
    ),
    "of two trainers one has no args": (
        "args",
        JOB,
        PLAIN.node(node(args=["a"])).job("more", "trainer", containers=[node()]),
    ),
    "tune run: the Trainer would rewrite the command": (
        "command",
        JOB.nodes(1),
        TORCH.node(node(command=["tune", "run"])),
    ),
    "tune run of the TrainJob: a written numProcPerNode is judged and picks the recipe": (
        "numProcPerNode",
        JOB.runtime("torchtune-llama3.3-70b").command("tune", "run"),
        make_runtime("torchtune-llama3.3-70b").torch().node(node(CPU)),
    ),
    "tune run of the TrainJob: a written numNodes is judged": (
        "numNodes",
        JOB.runtime("torchtune-llama3.3-70b").command("tune", "run"),
        make_runtime("torchtune-llama3.3-70b").torch().nodes(2).node(),
    ),
    "tune run of the TrainJob: args pick the recipe": (
        "args",
        JOB.runtime("torchtune-llama3.3-70b").command("tune", "run"),
        make_runtime("torchtune-llama3.3-70b")
        .torch()
        .node(node(args=["model.lora_attn_modules=[q]"])),
    ),
    "Flux: args of the TrainJob are wrapped, those of the runtime not": (
        "args",
        JOB.nodes(1),
        make_runtime().flux().node(node(args=["x"])),
    ),
    "Flux: the runtime's numNodes is not used, so its absence is for validation to say": (
        "numNodes",
        JOB.nodes(1),
        make_runtime().flux().nodes(4).node(),
    ),
    "no trainer job": ("numNodes", JOB, PLAIN.nodes(3).job("node")),
}


@table(TRAPS)
def test_traps(case: tuple[str, MakeTrainJob, MakeRuntime]) -> None:
    name, job, runtime = case
    before = job.raw["spec"].get("trainer", {}).get(name)
    found = completed(job, runtime, name)
    assert (found or {}).get(name) == before


def forced(job: MakeTrainJob, name: str, value: Any) -> MakeTrainJob:
    return job.trainer(**{name: value})


REAL: dict[str, Any] = {
    "MPI: numNodes 4 of the runtime makes launchers, of the TrainJob workers": 4,
    "MPI: numNodes 4 with the launcher as a node would be 3 workers for 1": 4,
    "claims of the runtime would be lost": CPU,
    "resources of the workers would land on the launcher": GPU,
    "resources of the launcher would be the slots of workers that have none": GPU,
    "of two trainers each has its own resources": CPU,
    "of two trainers each has its own image": "a:1",
    "of two trainers one has no command": ["a"],
    "tune run: the Trainer would rewrite the command": ["tune", "run"],
    "Flux: args of the TrainJob are wrapped, those of the runtime not": ["x"],
}


@pytest.mark.parametrize("rule", REAL)
def test_the_traps_are_real(rule: str) -> None:
    """The value that looks harmless does change what is built."""
    name, job, runtime = TRAPS[rule]
    changed = built(forced(job, name, REAL[rule]), runtime)
    assert changed.objects != built(job, runtime).objects


@pytest.mark.parametrize(
    "limits",
    [
        {"cpu": "1"},
        {"nvidia.com/gpu": "1"},
        {"google.com/tpu": "4"},
        {"nvidia.com/mig-1g.5gb": "1"},
    ],
)
def test_limits_with_a_device_that_the_sdk_knows_are_written(limits: Json) -> None:
    """sdk-options 4.3."""
    given = resources(limits=limits)
    assert completed(JOB, PLAIN.node(node(given)), "resourcesPerNode") == {
        "resourcesPerNode": given
    }


def test_requests_without_limits_are_written() -> None:
    given = resources(requests={"memory": "1Gi"})
    assert completed(JOB, PLAIN.node(node(given)), "resourcesPerNode") == {
        "resourcesPerNode": given
    }


# spec.trainer itself (G10)


@pytest.mark.parametrize("policy", ["torch", "jax", "xgboost"])
def test_g10_trainer_is_made_where_its_absence_is_a_trap(policy: str) -> None:
    runtime = make_runtime().policy(policy).nodes(4).node()
    pipe = pipeline_with({"pluginConfig": [{"name": "RuntimeDefaults", "args": {"fields": []}}]})
    admitted = admit(Case(job=JOB, runtime=runtime), pipe)
    assert admitted.raw["spec"]["trainer"] == {}
    assert built(JOB, runtime).env() == {}
    assert built(JOB.trainer(), runtime).env() != {}


@pytest.mark.parametrize("policy", ["mpi", "flux"])
def test_g10_not_for_policies_that_do_not_care(policy: str) -> None:
    runtime = make_runtime().policy(policy).node()
    pipe = pipeline_with({"pluginConfig": [{"name": "RuntimeDefaults", "args": {"fields": []}}]})
    admitted = admit(Case(job=JOB, runtime=runtime), pipe)
    assert "trainer" not in admitted.raw["spec"]


def test_g10_not_without_a_container_that_would_hear_it() -> None:
    pipe = pipeline_with({"pluginConfig": [{"name": "RuntimeDefaults", "args": {"fields": []}}]})
    for runtime in (TORCH.job("node"), TORCH.job("node", "trainer", containers=[container("x")])):
        assert "trainer" not in admit(Case(job=JOB, runtime=runtime), pipe).raw["spec"]


# Which fields, when, and the record


def test_by_default_nodes_processes_and_resources_are_written() -> None:
    runtime = PLAIN.nodes(3).node(node(CPU, command=["python"], args=["x"]))
    admitted = admit(Case(job=JOB, runtime=runtime))
    assert admitted.raw["spec"]["trainer"] == {"numNodes": 3, "resourcesPerNode": CPU}


def test_each_field_is_on_record() -> None:
    admitted = admit(Case(job=JOB.nodes(2), runtime=PLAIN.nodes(3).node(node(CPU))))
    assert applied.read(admitted.raw) == {
        "/spec/trainer/resourcesPerNode": applied.mark("RuntimeDefaults", CPU)
    }


def test_changes_name_the_plugin() -> None:
    admitted = admit(Case(job=JOB, runtime=PLAIN.nodes(3).node()))
    found = [(c.by, c.pointer, c.after) for c in admitted.mutated.changes]
    assert ("RuntimeDefaults", "/spec/trainer/numNodes", 3) in found


def test_never_on_update() -> None:
    runtime = PLAIN.nodes(3).node(node(CPU))
    for job in (JOB.label("a", "b"), JOB.suspended(), JOB.suspended().patch("a.io/x")):
        admitted = admit(Case(old=JOB.suspended(), job=job, runtime=runtime))
        assert "trainer" not in admitted.raw["spec"]


def test_a_refused_job_is_not_patched() -> None:
    admitted = admit(Case(job=JOB.env("PET_NNODES", "1"), runtime=TORCH.node()))
    assert admitted.findings.errors
    assert admitted.patch == []


def test_an_unknown_field_in_the_profile_is_an_error_that_names_the_known_ones() -> None:
    config = {"name": "RuntimeDefaults", "args": {"fields": ["numNode"]}}
    with pytest.raises(ConfigError, match=r"RuntimeDefaults.*numNode"):
        pipeline_with({"pluginConfig": [config]})


def test_the_order_of_fields_in_the_profile_means_nothing() -> None:
    runtime = PLAIN.nodes(3).node(node(CPU))
    patches = []
    for fields in (ALL, ALL[::-1]):
        config = {"name": "RuntimeDefaults", "args": {"fields": fields}}
        pipe = pipeline_with({"pluginConfig": [config]})
        patches.append(admit(Case(job=JOB, runtime=runtime), pipe).patch)
    assert patches[0] == patches[1]


def test_the_runtime_is_not_changed_by_what_is_done_to_the_trainjob() -> None:
    cluster = cluster_of(PLAIN.node(node(CPU)))
    first, second = stored(JOB), stored(JOB)
    run(default_pipeline().mutate(make_context(cluster), first))
    first["spec"]["trainer"]["resourcesPerNode"]["limits"]["cpu"] = "100"
    run(default_pipeline().mutate(make_context(cluster), second))
    assert second["spec"]["trainer"]["resourcesPerNode"] == CPU
