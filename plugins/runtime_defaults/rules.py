"""For each field of ``spec.trainer``: the value that changes nothing when written, or None where none does.

Each rule is proven against the Trainer's own code: the objects built with and without the field are equal
(tests/conformance). A rule looks at the compiled runtime and at the few fields of the TrainJob that it names;
what depends on the runtime alone is kept with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.info import cpu_count, gpu_count
from plugins.framework.runtime import CompiledRuntime, Job

Rule = Callable[[CompiledRuntime, TrainJob], Any]

_DISTRIBUTED: Final = ("torch", "jax", "xgboost")
_TUNE: Final = ["tune", "run"]
_DEVICES: Final = ("cpu", "nvidia.com/gpu", "google.com/tpu", "huawei.com/Ascend910")
"""What the SDK knows in limits; it cannot read a pod whose limits hold none of them (sdk-options 4.3)."""
_MIG: Final = "nvidia.com/mig-"


def needs_trainer(runtime: CompiledRuntime) -> bool:
    """Whether a TrainJob without ``spec.trainer`` would run as so many single nodes (G10)."""
    job = runtime.trainer_job
    return runtime.policy in _DISTRIBUTED and job is not None and names.NODE in job.names


def num_nodes(runtime: CompiledRuntime, job: TrainJob) -> int | None:
    """The count that the plugin would set anyway, where writing it sets the same."""
    value = max(runtime.num_nodes, 1)
    if job.words("command") == _TUNE and value != 1:
        return None  # torchtune's rules judge the number, once it is written
    if runtime.policy == "mpi":
        return _mpi_nodes(runtime, value)
    if runtime.policy == "flux":
        return None  # the controller panics without it: that is for validation to say
    target = runtime.trainer_job
    if target is None:
        return None
    return value if runtime.ml_policy is not None else max(target.parallelism, 1)


def _mpi_nodes(runtime: CompiledRuntime, value: int) -> int | None:
    """MPI gives numNodes to the job ``node``, minus one where the launcher is a node too."""
    node = runtime.job(names.NODE)
    if node is None:
        return None
    counted = node.ancestor == names.TRAINER
    without = max(runtime.num_nodes if counted else node.parallelism, 1)
    with_value = max(value - 1, 1) if runtime.runs_launcher_as_node else value
    if runtime.runs_launcher_as_node and value > 1 and runtime.job(names.LAUNCHER) is None:
        return None
    return value if with_value == without else None


def num_proc_per_node(runtime: CompiledRuntime, job: TrainJob) -> int | None:
    """The number of processes that the plugin works out, where it is a number and stays the same."""
    if job.words("command") == _TUNE:
        return None
    resources = job.resources_per_node
    if resources is None:
        resources = _runtime_resources(runtime)
    match runtime.policy:
        case "torch":
            return _torch_processes(runtime, resources)
        case "mpi":
            own = runtime.source.get("numProcPerNode", 1)
            gpus = gpu_count(resources) if runtime.line.gpu_slots else 0
            number = gpus if own == 1 and gpus > 1 else own
            return number if type(number) is int and number > 0 else None  # 0 would be refused
        case "flux":
            own = runtime.source.get("numProcPerNode", 1)
            return own if type(own) is int and job.trainer is not None else None
        case _:
            return None


def _torch_processes(runtime: CompiledRuntime, resources: Mapping[str, Any]) -> int | None:
    if runtime.line.name == "2.0":
        return None  # looks at the TrainJob's own resources alone, and only if they are set
    start = (
        runtime.source.get("numProcPerNode", "auto") if runtime.line.proc_per_node_text else "auto"
    )
    if type(start) is int:
        return start
    if start == "cpu" or (start == "auto" and gpu_count(resources) == 0):
        return values.int32(max(1, cpu_count(resources)))
    return None


def image(runtime: CompiledRuntime, job: TrainJob) -> str | None:
    """The image, where every container that gets it has it already."""
    del job
    value: str | None = _shared(runtime, "image", str)
    return value


def command(runtime: CompiledRuntime, job: TrainJob) -> list[str] | None:
    """The command, likewise; not torchtune's, which the plugin rewrites as soon as it is the TrainJob's."""
    del job
    value: list[str] | None = _shared(runtime, "command", list)
    if value == _TUNE or (runtime.policy == "flux" and runtime.line.name == "2.2"):
        return None
    return value or None


def args(runtime: CompiledRuntime, job: TrainJob) -> list[str] | None:
    """The args, likewise. Flux wraps the TrainJob's args into its command, but not the runtime's."""
    if runtime.policy == "flux" or job.words("command") == _TUNE:
        return None
    value: list[str] | None = _shared(runtime, "args", list)
    return value or None


def resources_per_node(runtime: CompiledRuntime, job: TrainJob) -> dict[str, Any] | None:
    """The resources, where every container that takes them has the same, and nothing else (claims) in them."""
    del job
    kept: tuple[dict[str, Any] | None] | None = runtime.memo.get("RuntimeDefaults/resources")
    if kept is None:
        kept = runtime.memo["RuntimeDefaults/resources"] = (_resources(runtime),)
    return kept[0]


def _resources(runtime: CompiledRuntime) -> dict[str, Any] | None:
    if runtime.ml_policy is None and runtime.line.needs_ml_policy_for_resources:
        return None
    if runtime.line.name == "2.0" and runtime.policy == "torch":
        return None  # the process count follows the TrainJob's resources, and only those
    takers = [j for j in runtime.jobs if runtime.takes_resources(j) and names.NODE in j.names]
    if not takers:
        return None
    first = _node_resources(takers[0])
    if any(not values.same(_node_resources(job), first) for job in takers[1:]):
        return None
    if not values.same(_runtime_resources(runtime), first):
        return None
    if not first or first.keys() - {"limits", "requests"} or not _readable_by_sdk(first):
        return None
    return first


def _readable_by_sdk(resources: Mapping[str, Any]) -> bool:
    limits = values.obj(resources.get("limits"))
    return not limits or any(name in _DEVICES or name.startswith(_MIG) for name in limits)


def _runtime_resources(runtime: CompiledRuntime) -> dict[str, Any]:
    """What process counts follow without ``trainer.resourcesPerNode`` (semantics 2.6.2)."""
    for job in runtime.jobs:
        if (job.name == names.NODE or job.ancestor == names.TRAINER) and names.NODE in job.names:
            return _node_resources(job)
    return values.EMPTY


def _node_resources(job: Job) -> dict[str, Any]:
    return values.obj((job.container(names.NODE) or {}).get("resources"))


def _shared(runtime: CompiledRuntime, key: str, kind: type) -> Any:
    """The value of a field on the containers ``node`` of all trainer jobs, if it is one and the same."""
    found = [
        container.get(key)
        for job in runtime.jobs
        if job.ancestor == names.TRAINER and (container := job.container(names.NODE)) is not None
    ]
    if not found or type(found[0]) is not kind:
        return None
    return found[0] if all(values.same(value, found[0]) for value in found[1:]) else None


RULES: Final[Mapping[str, Rule]] = {
    "numNodes": num_nodes,
    "numProcPerNode": num_proc_per_node,
    "image": image,
    "command": command,
    "args": args,
    "resourcesPerNode": resources_per_node,
}
"""Rule for each field."""
