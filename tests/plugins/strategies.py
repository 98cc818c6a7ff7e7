"""Runtimes and TrainJobs as a cluster could hold them, drawn by hypothesis, for each Trainer line."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from plugins.framework.api import names
from plugins.framework.lines import LINES
from tests.builders import (
    Json,
    MakeRuntime,
    MakeTrainJob,
    container,
    job_patch,
    make_runtime,
    make_train_job,
    mount,
    patched,
)

AMOUNTS: dict[str, list[Any]] = {
    "cpu": ["500m", "2.5", "4", 2, "0"],
    "memory": ["1Gi", "0.5Gi", "512Mi", 1000],
    "nvidia.com/gpu": ["1", "4", 2],
    "amd.com/gpu": ["2"],
    "google.com/tpu": ["4"],
}
SHORT_WORDS = ["python", "train.py", "--lr=1", "output_dir=/out", "model.lora_attn_modules=[q]"]
TUNE = ["tune", "run"]
COMMANDS = st.sampled_from(
    [TUNE, [*TUNE, "full_finetune_distributed", "output_dir=/out"], ["python", "train.py"], ["sh"]]
)
WORDS = st.lists(st.sampled_from(SHORT_WORDS), max_size=3)
COUNTS = st.sampled_from([1, 1, 2, 3, 10])
ENV_NAMES = ["A", "B", "RUNTIME", "FLUX_NETWORK_DEVICE"]
SOURCES = [
    {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}},
    {"secretKeyRef": {"name": "s", "key": "k"}},
]


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The field, or none."""
    return st.none() | strategy


def amounts() -> st.SearchStrategy[Json]:
    """A map of resource names to quantities."""
    pairs = {name: st.sampled_from(choices) for name, choices in AMOUNTS.items()}
    return st.fixed_dictionaries({}, optional=pairs)


def some_resources(*, claims: bool = True) -> st.SearchStrategy[Json]:
    """Resources, seldom with claims."""
    optional: dict[str, st.SearchStrategy[Any]] = {"requests": amounts(), "limits": amounts()}
    if claims:
        optional["claims"] = st.sampled_from([[], [], [{"name": "gpus"}]])
    return st.fixed_dictionaries({}, optional=optional)


def variables() -> st.SearchStrategy[dict[str, Any]]:
    """Env of a container: values and sources, in any order."""
    values = st.sampled_from(["1", "", "x", *SOURCES])
    return st.dictionaries(st.sampled_from(ENV_NAMES), values, max_size=3)


PORTS = st.sampled_from(
    [
        [{"containerPort": 8080}],
        [{"containerPort": 29500, "name": "rdzv"}],
        [{"containerPort": 1}, {"containerPort": 2}],
    ]
)


@st.composite
def node_container(draw: st.DrawFn, name: str = names.NODE) -> Json:
    """The container that a TrainJob's trainer fields land on."""
    return container(
        name,
        draw(maybe(variables())),
        image=draw(st.sampled_from(["example.test/a:1", "example.test/a:1", "example.test/b:1"])),
        command=draw(maybe(COMMANDS)),
        args=draw(maybe(WORDS)),
        resources=draw(maybe(some_resources())),
        ports=draw(maybe(PORTS)),
    )


@st.composite
def layouts(draw: st.DrawFn, runtime: MakeRuntime, policy: str) -> MakeRuntime:
    """The replicated jobs: initializers or not, one trainer job or two, MPI with and without a launcher."""
    if draw(st.booleans()):
        runtime = runtime.initializers()
    shared = draw(node_container())
    jobs: list[tuple[str, str | None]]
    if policy == "mpi":
        jobs = draw(
            st.sampled_from(
                [
                    [("node", None), ("launcher", "trainer")],
                    [("launcher", "trainer"), ("node", None)],
                    [("launcher", "trainer"), ("node", "trainer")],
                    [("node", "trainer")],
                    [("launcher", "trainer")],
                ]
            )
        )
    else:
        jobs = draw(
            st.sampled_from(
                [
                    [("node", "trainer")],
                    [("node", "trainer")],
                    [("worker", "trainer")],
                    [("node", "trainer"), ("second", "trainer")],
                    [("node", None)],
                ]
            )
        )
    for name, ancestor in jobs:
        own = draw(st.sampled_from([shared, shared, None])) or draw(node_container())
        side = [container("side", {"B": "1"})] if draw(st.booleans()) else []
        init = [container("setup")] if draw(st.booleans()) else None
        spec = draw(maybe(st.sampled_from([{"parallelism": 1}, {"parallelism": 3}])))
        pod = {"initContainers": init} if init else {}
        runtime = runtime.job(name, ancestor, containers=[own, *side], pod=pod, job_spec=spec)
    return runtime


@st.composite
def runtimes(draw: st.DrawFn, line: str) -> MakeRuntime:
    """A runtime that the API of that line takes."""
    facts = LINES[line]
    name = draw(st.sampled_from(["runtime", "torchtune-llama3.2-1b", "torchtune-llama3.3-70b"]))
    runtime = make_runtime(name)
    policy = draw(st.sampled_from([*facts.policies, *facts.policies, "plain", "none"]))
    if policy not in {"plain", "none"}:
        runtime = runtime.policy(policy, **draw(policy_fields(policy, line)))
    elif policy == "plain":
        runtime = runtime.plain()
    if policy != "none":
        nodes = draw(st.sampled_from([None, None, 1, 1, 2, 4, 0, -1]))
        runtime = runtime if nodes is None else runtime.nodes(nodes)
    runtime = draw(layouts(runtime, policy))
    gang = draw(st.sampled_from(["", "", "coscheduling", "volcano", "both"]))
    if gang in {"coscheduling", "both"}:
        runtime = runtime.coscheduling()
    if gang in {"volcano", "both"} and facts.volcano:
        runtime = runtime.volcano()
    if draw(st.booleans()):
        runtime = runtime.jobset_metadata(labels={"team": "a"}, annotations={"note": "x"})
    if draw(st.sampled_from([False, False, True])):
        runtime = runtime.template("net", "network", "subdomain")
    return runtime


def policy_fields(policy: str, line: str) -> st.SearchStrategy[Json]:
    """Fields of the ML policy's own object."""
    optional: dict[str, st.SearchStrategy[Any]] = {}
    if policy == "mpi":
        optional = {
            "numProcPerNode": st.sampled_from([0, 1, 1, 4]),
            "runLauncherAsNode": st.booleans(),
            "sshAuthMountPath": st.just("/home/mpiuser/.ssh"),
        }
        if line != "2.0":
            optional["mpiImplementation"] = st.sampled_from(["OpenMPI", "OpenMPI", ""])
    elif policy == "flux":
        optional = {"numProcPerNode": st.sampled_from([1, 4])}
    elif policy == "torch" and LINES[line].proc_per_node_text:
        optional = {"numProcPerNode": st.sampled_from(["auto", "cpu", "gpu", 1, 3])}
    return st.fixed_dictionaries({}, optional=optional)


def trainers(line: str) -> st.SearchStrategy[Json]:
    """Any ``spec.trainer``."""
    words = ["auto", "gpu", "cpu"] if LINES[line].proc_per_node_text else []
    return st.fixed_dictionaries(
        {},
        optional={
            "numNodes": COUNTS,
            "numProcPerNode": st.sampled_from([1, 1, 3, *words]),
            "image": st.sampled_from(["example.test/a:1", "example.test/own:1", ""]),
            "command": COMMANDS,
            "args": WORDS,
            "env": variables().map(lambda v: container("x", v)["env"]),
            "resourcesPerNode": some_resources(),
        },
    )


def pod_patches(generation: str) -> st.SearchStrategy[Json]:
    """What an override may say of the pods of any job: no container but those that every job has."""
    optional: dict[str, st.SearchStrategy[Any]] = {
        "nodeSelector": st.dictionaries(
            st.sampled_from(["zone", "disk"]), st.just("x"), max_size=2
        ),
        "tolerations": st.just([{"key": "gpu", "operator": "Exists"}]),
        "serviceAccountName": st.sampled_from(["a", "b"]),
        "volumes": st.just([{"name": "scratch", "emptyDir": {}}]),
        "schedulingGates": st.just([{"name": "a.io/gate"}]),
    }
    if generation != "podSpecOverrides":
        optional["imagePullSecrets"] = st.just([{"name": "pull"}])
    return st.fixed_dictionaries({}, optional=optional)


@st.composite
def train_jobs(draw: st.DrawFn, runtime: MakeRuntime, line: str) -> MakeTrainJob:
    """A TrainJob for that runtime, whose overrides name what is there."""
    facts = LINES[line]
    job = make_train_job(draw(st.sampled_from(["test-job", "a"]))).runtime(
        runtime.raw["metadata"]["name"]
    )
    trainer = draw(maybe(trainers(line)))
    job = job if trainer is None else job.trainer(**trainer)
    suspend = draw(maybe(st.booleans()))
    job = job if suspend is None else job.suspended(suspend)
    if draw(st.sampled_from([False, False, True])):
        job = job.initializer("dataset", storageUri="hf://a/b", env=[{"name": "A", "value": "1"}])
    jobs = runtime.raw["spec"]["template"]["spec"]["replicatedJobs"]
    for i in range(draw(st.integers(0, 2))):
        target = draw(st.sampled_from(jobs))
        pod = draw(pod_patches(facts.generation))
        pod |= draw(container_patches(target))
        if facts.generation == "runtimePatches":
            labels = {"labels": {"step": str(i)}} if draw(st.booleans()) else None
            job = job.patch(
                f"acme.io/m{i}",
                job_patch(target["name"], pod=pod, pod_metadata=labels, job_metadata=labels),
                metadata=labels,
            )
        elif facts.generation == "podTemplateOverrides":
            job = job.pod_template_override(target["name"], pod=pod)
        elif not any(target["name"] == t for t in _targets(job)):
            job = job.pod_spec_override(target["name"], **pod)
    return job


def _targets(job: MakeTrainJob) -> list[str]:
    overrides = job.raw["spec"].get("podSpecOverrides", [])
    return [target["name"] for entry in overrides for target in entry["targetJobs"]]


@st.composite
def container_patches(draw: st.DrawFn, target: Json) -> Json:
    """Patches of containers that the job has."""
    pod = target["template"]["spec"]["template"]["spec"]
    out: Json = {}
    if draw(st.booleans()) and any(c["name"] == "side" for c in pod["containers"]):
        side = patched("side", draw(variables()))
        out["containers"] = [side | {"volumeMounts": [mount("scratch", "/scratch")]}]
        out["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    if draw(st.booleans()) and pod.get("initContainers"):
        out["initContainers"] = [patched("setup", draw(variables()))]
    return out


@st.composite
def cases(draw: st.DrawFn, line: str) -> tuple[MakeRuntime, MakeTrainJob]:
    """A runtime and a TrainJob for it."""
    runtime = draw(runtimes(line))
    return runtime, draw(train_jobs(runtime, line))
