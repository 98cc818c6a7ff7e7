"""What is wrong with the containers of a runtime's template: resources and ports that no pod may have.

The API server refuses such resources on every Job, and JobSet's schema two ports of one number and protocol,
which the Trainer makes of two that share a number, a name, or the lack of one (semantics G18).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import field, resources, values
from plugins.framework.api import names
from plugins.framework.field import Findings, Path
from plugins.framework.info import Container

if TYPE_CHECKING:
    from plugins.framework.runtime import CompiledRuntime, Job

_POD: Final = ("template", "spec", "template", "spec")
_TAKES_PORT: Final = ("torch", "jax", "xgboost")
"""Policies that add the rendezvous port to container ``node`` of the trainer."""


def problems(runtime: CompiledRuntime) -> Findings:
    """Everything about the containers themselves."""
    found = Findings()
    for i, job in enumerate(runtime.jobs):
        at = Path("spec", "template", "spec", "replicatedJobs").index(i).child(*_POD)
        for problem in resources.problems(job.pod):
            found.error(field.invalid(Path(*at, *problem.path), problem.value, problem.detail))
        for k, container in enumerate(job.containers):
            _ports(runtime, job, container, at.child("containers").index(k).child("ports"), found)
        if runtime.line.syncs_init_containers:
            for k, container in enumerate(job.init_containers):
                here = at.child("initContainers").index(k).child("ports")
                _ports(runtime, None, container, here, found)
    return found


def _ports(
    runtime: CompiledRuntime, job: Job | None, container: dict[str, Any], at: Path, found: Findings
) -> None:
    """An error where each TrainJob ends so; a warning where only those do that set ``spec.trainer``, or do not."""
    if not container.get("ports"):
        return
    alone = _twice(container)
    takes_port = (
        job is not None
        and runtime.policy in _TAKES_PORT
        and job is runtime.trainer_job
        and container.get("name") == names.NODE
    )
    with_trainer = _twice(container, {"containerPort": names.TRAINER_PORT}) if takes_port else alone
    if alone and with_trainer:
        detail = f"the Trainer would make two of this one: {_RULE}"
        found.error(field.invalid(at, alone, detail))
    elif alone or with_trainer:
        which = "with" if with_trainer else "without"
        port = with_trainer or alone
        found.warn(f"{at}: a TrainJob {which} spec.trainer gets {port} twice, and fails: {_RULE}")


_RULE: Final = (
    "ports that share a number or a name replace each other, and so do two without a name"
)


def _twice(container: dict[str, Any], *added: dict[str, Any]) -> str:
    """The first port that stands twice in the finished container, as ``NUMBER/PROTOCOL``."""
    built = Container({"ports": container.get("ports")})
    built.upsert_ports(*added)
    built.fold()
    seen = Counter(
        f"{port.get('containerPort')}/{port.get('protocol') or 'TCP'}"
        for port in values.objects(built.raw.get("ports"))
    )
    return next((port for port, count in seen.items() if count > 1), "")
