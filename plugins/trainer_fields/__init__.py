"""``spec.trainer``: numbers that make sense, and fields that would be ignored without a word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import field, frozen, podrules, pods, reserved, values
from plugins.framework.api import names
from plugins.framework.field import FieldError, Findings, Path
from plugins.framework.interface import CustomValidationPlugin
from plugins.framework.registry import Args, Handle, PluginSpec

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.info import Info
    from plugins.framework.lines import Line

NAME: Final = "TrainerFields"

_SPEC: Final = Path("spec")
_TRAINER: Final = Path("spec", "trainer")
_STATUS_ENV: Final = (
    "KUBEFLOW_TRAINER_SERVER_URL",
    "KUBEFLOW_TRAINER_SERVER_CA_CERT",
    "KUBEFLOW_TRAINER_SERVER_TOKEN",
)
"""Set by the Trainer's status plugin, where that is on (semantics 4.9); reserved by nobody there."""
_INT32_MOST: Final = 2**31 - 1
"""The Trainer reads both numbers as int32; the schemas of 2.0 and 2.1 let larger ones pass."""
_DISTRIBUTED: Final = ("torch", "jax", "xgboost")
_VARIABLES: Final = (
    (("trainer",), names.TRAINER, names.NODE),
    (("initializer", "dataset"), names.DATASET_INITIALIZER, names.DATASET_INITIALIZER),
    (("initializer", "model"), names.MODEL_INITIALIZER, names.MODEL_INITIALIZER),
)
"""Where a TrainJob has variables, and whose container gets them."""
_BOTH: Final = ("trainer", "initializer")
_TARGET: Final = ("image", "command", "args", "env", "numNodes", "resourcesPerNode")


@dataclass(frozen=True)
class TrainerFields(CustomValidationPlugin):
    """Rules about ``spec.trainer`` and ``spec.initializer`` that no policy plugin owns (semantics 10.3)."""

    name: ClassVar[str] = NAME

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        """Numbers, reserved names, what an update may not add or remove, what has no effect."""
        found = Findings()
        found.error(*_numbers(new), *reserved.each(new, _STATUS_ENV, _reserved_detail))
        if old is not None and ctx.line.immutable_trainer:
            found.error(*_added_or_removed(old, new))
        if old is not None and info is not None and not ctx.line.immutable_trainer:
            found.add(_changed(ctx, info, old, new))
        if info is not None:
            found.error(*_sources(info, new))
        if info is not None and new.trainer:
            found.warn(*_without_effect(ctx.line, info, new), *_mixed_lines(info, new))
        if info is not None and new.trainer is None:
            found.warn(*_strangers(info))
        return found


def _reserved_detail(name: str) -> str:
    return f"{name} is set by the Trainer's status plugin; remove it from the env"


def _numbers(job: TrainJob) -> Iterator[FieldError]:
    for key, value in (("numNodes", job.num_nodes), ("numProcPerNode", job.num_proc_per_node)):
        if type(value) is int and value < 1:
            yield field.invalid(_TRAINER.child(key), value, "must be at least 1")
        elif type(value) is int and value > _INT32_MOST:
            yield field.invalid(_TRAINER.child(key), value, f"must be at most {_INT32_MOST}")


def _added_or_removed(old: TrainJob, new: TrainJob) -> Iterator[FieldError]:
    """Presence is not covered by the CRD's immutability: remove, then add another, defeats it (G25)."""
    for key in _BOTH:
        before, after = _present(old, key), _present(new, key)
        if before != after:
            what = "removed" if before else "added"
            detail = f"cannot be {what} after creation: delete the TrainJob and create it anew"
            yield field.forbidden(_SPEC.child(key), detail)


def _present(job: TrainJob, key: str) -> bool:
    return job.spec.get(key) is not None


def _changed(ctx: Context, info: Info, old: TrainJob, new: TrainJob) -> Findings:
    """Up to 2.1 the API lets both change; JobSet does not, once it exists."""
    found = Findings()
    keys = [k for k in _BOTH if not values.same(old.spec.get(k), new.spec.get(k))]
    before = ctx.before() if keys else None
    if before is None:
        return found
    for pod_set, name in frozen.in_built(before, info):
        of_initializer = pod_set.ancestor in {names.DATASET_INITIALIZER, names.MODEL_INITIALIZER}
        key = keys[-1] if of_initializer else keys[0]
        if frozen.has_jobset(ctx.line, old):
            detail = (
                f"changes {name} of job {pod_set.name}, which JobSet does not let change once it exists: the TrainJob "
                "could never be suspended or resumed again; delete it and create it anew"
            )
            found.error(field.forbidden(_SPEC.child(key), detail))
        else:
            found.warn(
                f"spec.{key}: takes effect only if the controller has not seen the TrainJob yet: JobSet does not let "
                f"{name} of job {pod_set.name} change"
            )
    return found


def _sources(info: Info, job: TrainJob) -> Iterator[FieldError]:
    """Sources of the TrainJob's own variables, as the controller passes them on: of four kinds, and no other."""
    for steps, ancestor, container in _VARIABLES:
        entries = values.items(values.at(job.spec, *steps, "env"))
        referring = [
            i for i, e in enumerate(entries) if type(e) is dict and type(e.get("valueFrom")) is dict
        ]
        pod_set = info.by_ancestor(ancestor) if referring else None
        if pod_set is None or not pod_set.has_container(container):
            continue
        for i in referring:
            [made] = pods.trainer_env([entries[i]])
            for error in podrules.value_from(made["valueFrom"]):
                yield error.under(_SPEC.child(*steps, "env").index(i).child("valueFrom"))


def _without_effect(line: Line, info: Info, job: TrainJob) -> Iterator[str]:
    trainer: dict[str, Any] = job.trainer or {}
    runtime = info.runtime
    if info.trainer is None and runtime.policy != "mpi":
        given = [key for key in _TARGET if key in trainer]
        if given:
            yield (
                f"spec.trainer ({', '.join(given)}) has no effect: no job of runtime {runtime.name} carries the "
                f"label {names.ANCESTOR_LABEL}: {names.TRAINER}"
            )
        return
    if "resourcesPerNode" in trainer:
        if runtime.ml_policy is None and line.needs_ml_policy_for_resources:
            yield f"spec.trainer.resourcesPerNode has no effect: runtime {runtime.name} has no mlPolicy"
        elif (
            not any(p.node_resources is not None for p in info.pod_sets)
            and trainer["resourcesPerNode"]
        ):
            yield f"spec.trainer.resourcesPerNode has no effect: no container named {names.NODE} takes it"
        if (trainer["resourcesPerNode"] or {}).get("claims"):
            yield "spec.trainer.resourcesPerNode.claims has no effect: the Trainer drops claims"
    if runtime.policy == "mpi" and "image" in trainer and info.by_name(names.NODE) is not None:
        worker = info.by_name(names.NODE)
        if worker is not None and worker.ancestor != names.TRAINER:
            yield "spec.trainer.image reaches the launcher only: the workers keep the runtime's image"
    if runtime.policy in {"jax", "xgboost"} and "numProcPerNode" in trainer:
        yield f"spec.trainer.numProcPerNode has no effect with policy {runtime.policy}"


def _strangers(info: Info) -> Iterator[str]:
    """Without ``spec.trainer`` a distributed policy sets none of its environment (G10)."""
    policy, trainer = info.runtime.policy, info.trainer
    if policy not in _DISTRIBUTED or trainer is None or not trainer.has_container(names.NODE):
        return
    if trainer.count > 1:
        yield (
            f"spec.trainer is absent: with policy {policy} the {trainer.count} nodes then know nothing of one another, "
            "and each trains alone; set spec.trainer, {} is enough"
        )


def _mixed_lines(info: Info, job: TrainJob) -> Iterator[str]:
    """Command and args are replaced one by one, and in every job of the trainer (B005)."""
    command = job.words("command")
    if not command:
        return
    jobs = [p for p in info.pod_sets if p.ancestor == names.TRAINER]
    if len(jobs) > 1:
        yield (
            f"spec.trainer.command replaces the command of each of the jobs {', '.join(p.name for p in jobs)}: "
            f"all of them carry the label {names.ANCESTOR_LABEL}: {names.TRAINER}"
        )
    if job.words("args") is not None:
        return
    for pod_set in jobs:
        left = (pod_set.base.container(names.NODE) or {}).get("args")
        if left:
            yield (
                f"spec.trainer.command replaces the command of job {pod_set.name}, and the runtime's args "
                f"{field.show(left)} stay behind it: set spec.trainer.args too"
            )


def new(_args: Args, _handle: Handle) -> TrainerFields:
    """Build the plugin."""
    return TrainerFields()


SPEC: Final = PluginSpec(name=NAME, build=new)
