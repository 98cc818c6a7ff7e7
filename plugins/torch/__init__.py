"""Tells torchrun how many nodes and processes there are and where rank 0 is; writes torchtune's command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import field, pods, reserved, values
from plugins.framework.api import names
from plugins.framework.errors import BuildError
from plugins.framework.field import Findings, Path
from plugins.framework.info import Container, Info, PodSet, cpu_count, gpu_count
from plugins.framework.interface import (
    CustomValidationPlugin,
    EnforceMLPolicyPlugin,
    ValidateRuntimePlugin,
)
from plugins.framework.registry import Args, Handle, PluginSpec
from plugins.torch import torchtune

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.runtime import CompiledRuntime

NAME: Final = "Torch"

RESERVED: Final = (
    "PET_NNODES",
    "PET_NPROC_PER_NODE",
    "PET_NODE_RANK",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
)
WORDS: Final = ("auto", "cpu", "gpu")
"""What ``numProcPerNode`` may say besides a number, up to Trainer 2.1."""

AUTO: Final = "auto"
_PROCESSES: Final = "/spec/trainer/numProcPerNode"


@dataclass(frozen=True)
class Torch(EnforceMLPolicyPlugin, CustomValidationPlugin, ValidateRuntimePlugin):
    """PyTorch and TorchTune (semantics 4.2, 4.3)."""

    name: ClassVar[str] = NAME

    def enforce_ml_policy(self, ctx: Context, info: Info) -> None:
        """Set the count; add PET variables and the port to the trainer and to envInjection's targets."""
        del ctx
        if info.runtime.policy != "torch":
            return
        pods.set_trainer_count(info)
        for job_name, container_name in _targets(info.runtime):
            if not _exists(info, job_name, container_name):
                raise BuildError(_missing(job_name, container_name))
        if info.job.trainer is not None or _has_targets(info.runtime):
            info.later(_add_env)

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        """Reserved names, numProcPerNode's words, torchtune's own rules, a process count that surprises."""
        del old
        found = Findings()
        if info is None or info.runtime.policy != "torch":
            return found
        found.error(*_missing_targets(info))
        found.error(
            *reserved.each(
                new,
                RESERVED,
                lambda name: f"{name} is set by the Torch runtime; remove it from the env",
            )
        )
        per_node = new.num_proc_per_node
        if type(per_node) is str and per_node not in WORDS:
            path = Path("spec", "trainer", "numProcPerNode")
            found.error(
                field.invalid(path, per_node, f"must be a number or one of {', '.join(WORDS)}")
            )
        if torchtune.applies(new.words("command")):
            found.error(*torchtune.problems(info, new))
        found.warn(*_surprises(ctx, info))
        return found

    def validate_runtime(
        self, ctx: Context, old: CompiledRuntime | None, new: CompiledRuntime
    ) -> Findings:
        """EnvInjection must find its containers; the Trainer looks only when a TrainJob is created (G39)."""
        del ctx, old
        found = Findings()
        if new.policy != "torch":
            return found
        path = Path("spec", "mlPolicy", "torch", "envInjection", "targets")
        for i, target in enumerate(_raw_targets(new)):
            job = new.job(values.text(target.get("jobName")))
            if job is None:
                there = ", ".join(new.job_names) or "none"
                found.error(
                    field.not_found(
                        path.index(i).child("jobName"),
                        target.get("jobName"),
                        f"jobs of the template: {there}",
                    )
                )
                continue
            known = job.names | job.init_names
            for k, name in enumerate(values.items(target.get("containerNames"))):
                if name not in known:
                    at = path.index(i).child("containerNames").index(k)
                    there = ", ".join(sorted(known)) or "none"
                    found.error(field.not_found(at, name, f"containers of job {job.name}: {there}"))
        return found


def proc_per_node(info: Info) -> int | str:
    """``PET_NPROC_PER_NODE``: a number, or a word that torchrun understands (semantics 4.2.1)."""
    if info.line.name == "2.0":
        return _proc_per_node_v20(info)
    start: int | str = AUTO
    if info.line.proc_per_node_text:
        start = info.runtime.source.get("numProcPerNode", AUTO)
    own = info.job.num_proc_per_node
    if own is not None:
        start = own
    resources = info.resources_per_node()
    if start == "cpu" or (start == AUTO and gpu_count(resources) == 0):
        return values.int32(max(1, cpu_count(resources)))
    return start


def _proc_per_node_v20(info: Info) -> int | str:
    """2.0 looks at ``trainer.resourcesPerNode`` alone: limits, and unless they gave a CPU count, requests."""
    start: int | str = info.runtime.source.get("numProcPerNode", AUTO)
    own = info.job.num_proc_per_node
    if own is not None:
        start = own
    resources = info.job.resources_per_node
    if resources is None:
        return start
    fallback: int | str = 1 if start == "cpu" else start
    for part in ("limits", "requests"):
        amounts = resources.get(part)
        if type(amounts) is not dict:
            result: int | str = 1
            continue
        if _uses_cpu(start, amounts):
            return max(1, values.int32(cpu_count({"limits": amounts})))
        result = fallback
    return result


def _uses_cpu(start: int | str, amounts: dict[str, Any]) -> bool:
    if start == AUTO:
        return not any("gpu" in name.lower() for name in amounts)
    return start == "cpu" and "cpu" in amounts


def _add_env(info: Info) -> None:
    processes = proc_per_node(info)
    trainer = info.trainer
    count = trainer.count if trainer is not None else 1
    basic = (
        pods.env("PET_NNODES", str(count)),
        pods.env("PET_NPROC_PER_NODE", str(processes)),
        pods.env_from_index("PET_NODE_RANK"),
    )
    master = (
        pods.env("PET_MASTER_ADDR", pods.master_address(info)),
        pods.env("PET_MASTER_PORT", str(names.TRAINER_PORT)),
    )
    if info.job.trainer is not None and trainer is not None:
        container = trainer.edit(names.NODE)
        if container is not None:
            _add_to_trainer(info, container, basic, master, processes)
    for job_name, container_name in _targets(info.runtime):
        pod_set = info.by_name(job_name)
        target = pod_set.edit_any(container_name) if pod_set else None
        if target is not None:
            target.upsert_env(*basic, *master)


def _add_to_trainer(
    info: Info,
    container: Container,
    basic: tuple[dict[str, Any], ...],
    master: tuple[dict[str, Any], ...],
    processes: int | str,
) -> None:
    container.upsert_env(*pods.trainer_env(info.job.env), *basic)
    if torchtune.applies(info.job.words("command")):
        info.command = torchtune.command(info, processes)
    else:
        container.upsert_env(*master)
    container.upsert_ports({"containerPort": names.TRAINER_PORT})


def _raw_targets(runtime: CompiledRuntime) -> list[dict[str, Any]]:
    return values.objects(values.at(runtime.source, "envInjection", "targets"))


def _targets(runtime: CompiledRuntime) -> Iterator[tuple[str, str]]:
    for target in _raw_targets(runtime):
        for name in values.items(target.get("containerNames")):
            yield values.text(target.get("jobName")), values.text(name)


def _has_targets(runtime: CompiledRuntime) -> bool:
    return bool(_raw_targets(runtime))


def _exists(info: Info, job_name: str, container_name: str) -> bool:
    pod_set: PodSet | None = info.by_name(job_name)
    if pod_set is None:
        return False
    return container_name in pod_set.base.names or container_name in pod_set.base.init_names


def _missing(job_name: str, container_name: str) -> str:
    return f'envInjection target podSet "{job_name}" container "{container_name}" not found in runtime template'


def _missing_targets(info: Info) -> Iterator[field.FieldError]:
    for job_name, container_name in _targets(info.runtime):
        if not _exists(info, job_name, container_name):
            yield field.invalid(
                Path("spec", "runtimeRef", "name"),
                info.job.runtime_name,
                f"{_missing(job_name, container_name)}: whoever owns the runtime must mend it",
            )


def _surprises(ctx: Context, info: Info) -> Iterator[str]:
    """Warnings about a process count that the user may not expect (B016, B017, G16)."""
    trainer = info.trainer
    if trainer is None or info.job.trainer is None:
        return
    node = trainer.base.container(names.NODE)
    if node is None:
        return
    merged = trainer.node_resources
    container = merged if merged is not None else values.obj(node.get("resources"))
    processes, own = proc_per_node(info), info.job.num_proc_per_node
    if type(processes) is int and processes < (gpus := gpu_count(container)):
        yield (
            f"each pod gets {gpus} GPUs but {processes} process(es): the Trainer counts processes from "
            "spec.trainer.resourcesPerNode alone; name the GPUs there too, or set numProcPerNode"
        )
    elif processes == 1 and not container and (own is None or ctx.is_ours(info.job, _PROCESSES)):
        yield "numProcPerNode resolves to 1: neither the TrainJob nor the runtime asks for GPUs or CPUs"


def new(_args: Args, _handle: Handle) -> Torch:
    """Build the plugin."""
    return Torch()


SPEC: Final = PluginSpec(name=NAME, build=new)
