"""Reviews of every kind that we answer, to be broken by tests: valid as they are."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson

from plugins.framework import schema
from tests.builders import (
    Builder,
    Json,
    MakeTrainJob,
    container,
    job_patch,
    make_object,
    make_runtime,
    make_train_job,
    mount,
    patched,
    resources,
)
from tests.reviews import recorded
from tests.reviews.desk import Desk, create, update

_GPUS = resources({"cpu": 4, "memory": "8Gi"}, {"nvidia.com/gpu": 4})

RUNTIMES = [
    make_runtime("torch")
    .torch()
    .nodes(2)
    .node(
        container(
            "node",
            {"A": "1"},
            ports=[{"containerPort": 80}],
            volumeMounts=[mount("v", "/v")],
            resources=_GPUS,
        ),
        pod={
            "volumes": [{"name": "v", "emptyDir": {}}],
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "initContainers": [container("init", restartPolicy="Always")],
        },
    )
    .coscheduling(),
    make_runtime("injecting")
    .torch(envInjection={"targets": [{"jobName": "node", "containerNames": ["side"]}]})
    .node(container("node"), container("side"))
    .volcano(networkTopology={"mode": "soft"}),
    make_runtime("mpi")
    .mpi(numProcPerNode=1, mpiImplementation="OpenMPI", runLauncherAsNode=True)
    .job("launcher", "trainer")
    .job("node", containers=[container("node", resources=_GPUS)]),
    make_runtime("jax").jax().node(),
    make_runtime("xgboost").xgboost().nodes(3).node(container("node", resources=_GPUS)),
    make_runtime("flux").flux().node(),
    make_runtime("plain").plain().node(),
    make_runtime("none").node(),
    make_runtime("torchtune-llama3.2-1b")
    .torch()
    .initializers()
    .node(
        container("node", command=["tune", "run"], volumeMounts=[mount("initializer", "/w")]),
        depends_on={"dataset-initializer": "Complete"},
    )
    .claims("initializer"),
]


def _full(job: MakeTrainJob) -> MakeTrainJob:
    """A TrainJob with a value in most fields."""
    pod = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "b"}],
        "containers": [patched("node", volumeMounts=[mount("v", "/w")])],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
    patch = job_patch(
        "node",
        pod=pod,
        pod_metadata={"labels": {"a": "b"}},
        job_metadata={"annotations": {"x": "y"}},
    )
    return (
        job.nodes(1)
        .processes(1)
        .env("E", "1")
        .env("F", {"fieldRef": {"fieldPath": "metadata.name"}})
        .resources({"cpu": 2}, {"cpu": 2})
        .command("tune", "run")
        .args("a=b")
        .initializer("dataset", storageUri="hf://a/b", env=[{"name": "X", "value": "y"}])
        .initializer("model", storageUri="hf://a/c", secretRef={"name": "s"})
        .patch("example.com/alice", patch, metadata={"labels": {"q": "w"}})
        .annotation("stationmaster.dev/applied", "{}")
    )


def stored(thing: Builder, line: str = "2.3") -> Json:
    """The object with the API server's defaults."""
    return schema.load(line).admit(thing.raw["kind"], thing.obj).obj


def cluster() -> list[Any]:
    """What the samples speak of."""
    limits = {
        "limits": [
            {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}
        ]
    }
    return [
        *RUNTIMES,
        *recorded.cluster(),
        make_object("LimitRange", "limits", "team", apiVersion="v1", spec=limits),
    ]


def desk() -> Desk:
    """A desk in that cluster."""
    return Desk.of(*cluster())


@lru_cache(maxsize=1)
def _reviews() -> tuple[bytes, ...]:
    out = [recorded.review(number) for number in range(1, 16)]
    for runtime in RUNTIMES:
        job = make_train_job("sample").runtime(runtime.raw["metadata"]["name"])
        small, full = stored(job), stored(_full(job))
        suspended = {**full, "spec": {**full["spec"], "suspend": True}}
        without = {**suspended, "spec": {**suspended["spec"], "runtimePatches": []}}
        own = stored(runtime)
        other = {**own, "spec": {**own["spec"], "mlPolicy": {}}}
        out += [create(small), create(full), update(suspended, without), update(without, suspended)]
        out += [create(own), update(other, own)]
    for asked in out:
        for key in ("object", "oldObject"):
            obj = asked["request"].get(key)
            if obj is not None:
                obj["metadata"].pop("managedFields", None)
    return tuple(orjson.dumps(asked) for asked in out)


def reviews() -> list[Json]:
    """All of them, fresh."""
    return [orjson.loads(data) for data in _reviews()]


def review(index: int) -> Json:
    """One of them, fresh."""
    found: Json = orjson.loads(_reviews()[index])
    return found


def count() -> int:
    """How many there are."""
    return len(_reviews())
