"""The objects that the rows of the table of known faults speak of, under the names that they have there."""

from __future__ import annotations

from typing import Any

from tests.builders import (
    Json,
    MakeRuntime,
    MakeTrainJob,
    container,
    job_patch,
    make_runtime,
    make_train_job,
    resources,
)

REQUESTS: Json = {"cpu": 4, "memory": "8Gi"}
LIMITS: Json = {"nvidia.com/gpu": 4}


def rt_torch(
    *extra: Json,
    variables: dict[str, str] | None = None,
    pod: Json | None = None,
    **node: Any,
) -> MakeRuntime:
    """``base-torch``: two nodes with four GPUs each; ``node`` are fields of its container."""
    fields = {"resources": resources(REQUESTS, LIMITS), **node}
    own = container("node", variables, **fields)
    return make_runtime("base-torch").torch().nodes(2).node(own, *extra, pod=pod)


def rt_mpi(*jobs: str) -> MakeRuntime:
    """``base-mpi``: a launcher that counts as a node, and workers that run a daemon."""
    runtime = (
        make_runtime("base-mpi")
        .mpi(numProcPerNode=1, mpiImplementation="OpenMPI", runLauncherAsNode=True)
        .nodes(2)
    )
    for job in jobs or ("launcher", "node"):
        if job == "launcher":
            runtime = runtime.job("launcher", "trainer", containers=[container("node")])
        else:
            daemon = container("node", command=["/usr/sbin/sshd", "-De"])
            runtime = runtime.job("node", containers=[daemon])
    return runtime


def rt_init() -> MakeRuntime:
    """``base-init``: both initializers, and a trainer that waits for them."""
    waits = {"dataset-initializer": "Complete", "model-initializer": "Complete"}
    return make_runtime("base-init").torch().initializers().node(depends_on=waits)


def tj(runtime: MakeRuntime) -> MakeTrainJob:
    """``demo``, suspended."""
    return make_train_job("demo").runtime(runtime.raw["metadata"]["name"]).suspended()


def p(job: MakeTrainJob, manager: str, target: str, pod: Json) -> MakeTrainJob:
    """Add ``P(manager, target, pod)``."""
    return job.patch(manager, job_patch(target, pod=pod))


def running(job: MakeTrainJob) -> MakeTrainJob:
    """The same, not suspended."""
    return job.suspended(value=False)
