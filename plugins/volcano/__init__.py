"""Gang scheduling by Volcano's PodGroup."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import field, gang, pods, resolve, values
from plugins.framework.field import FieldError, Findings, Path
from plugins.framework.interface import (
    ComponentBuilderPlugin,
    CustomValidationPlugin,
    EnforcePodGroupPolicyPlugin,
    ValidateRuntimePlugin,
)
from plugins.framework.registry import Args, Handle, PluginSpec

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.info import Info
    from plugins.framework.runtime import CompiledRuntime

NAME: Final = "Volcano"

GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
SYSTEM_CLASSES: Final = ("system-cluster-critical", "system-node-critical")

_RUNTIME: Final = Path("spec", "runtimeRef", "name")


@dataclass(frozen=True)
class Volcano(
    EnforcePodGroupPolicyPlugin,
    CustomValidationPlugin,
    ValidateRuntimePlugin,
    ComponentBuilderPlugin,
):
    """``podGroupPolicy.volcano`` (semantics 5.3)."""

    name: ClassVar[str] = NAME
    corrected: bool
    """Whether the PodGroup is corrected where it is made."""

    def enforce_pod_group_policy(self, ctx: Context, info: Info) -> None:
        """Annotate every pod with the PodGroup's name."""
        del ctx
        if _applies(info.runtime):
            info.pod_annotations[GROUP_ANNOTATION] = info.job.name

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        """An empty queue name; priority classes that do not exist; a gang that can never be complete."""
        del old
        found = Findings()
        if info is None or not _applies(info.runtime):
            return found
        if info.annotations.get(QUEUE_ANNOTATION) == "":
            at = _queue_path(info, new)
            found.error(field.invalid(at, "", "Volcano queue name must not be empty"))
        found.error(*_unknown_classes(ctx, info))
        classes = [
            c for p in info.pod_sets if (c := values.text(p.base.pod.get("priorityClassName")))
        ]
        if len(set(classes)) > 1:
            found.warn(
                f"jobs name priority classes {', '.join(classes)}: the PodGroup gets the last"
            )
        found.warn(*gang.warn_about_job(info, corrected=self.corrected))
        return found

    def validate_runtime(
        self, ctx: Context, old: CompiledRuntime | None, new: CompiledRuntime
    ) -> Findings:
        """An empty queue name in the template refuses every TrainJob; a gang that can never be complete."""
        del ctx, old
        found = Findings()
        if not _applies(new):
            return found
        found.warn(*gang.warn_about_gang(new.jobs, corrected=self.corrected))
        if new.jobset_annotations.get(QUEUE_ANNOTATION) == "":
            at = Path("spec", "template", "metadata", "annotations").key(QUEUE_ANNOTATION)
            found.error(field.invalid(at, "", "Volcano queue name must not be empty"))
        return found

    def build(self, ctx: Context, info: Info) -> list[dict[str, Any]]:
        """The PodGroup that the controller writes."""
        if not _applies(info.runtime):
            return []
        totals = gang.controller_gang(info)
        spec: dict[str, Any] = {
            "minMember": totals.members,
            "minResources": totals.resources,
        }
        if QUEUE_ANNOTATION in info.annotations:
            spec["queue"] = info.annotations[QUEUE_ANNOTATION]
        for pod_set in info.pod_sets:
            name = pod_set.base.pod.get("priorityClassName")
            if name is not None:
                spec["priorityClassName"] = name
        topology = values.at_obj(info.runtime.pod_group_policy, "volcano", "networkTopology")
        if topology:
            spec["networkTopology"] = {
                "mode": topology.get("mode", "hard"),
                "highestTierAllowed": topology.get("highestTierAllowed", 1),
            }
        return [
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": pods.metadata(info, ctx.namespace, info.job.name),
                "spec": spec,
            }
        ]


def _applies(runtime: CompiledRuntime) -> bool:
    return runtime.line.volcano and runtime.pod_group_policy.get("volcano") is not None


def _unknown_classes(ctx: Context, info: Info) -> Iterator[FieldError]:
    """Only where the cluster's classes are known; the Trainer stops at a system class (G24), we do not."""
    known = ctx.cluster.priority_classes
    if known is None:
        return
    for pod_set in info.pod_sets:
        name = values.text(pod_set.base.pod.get("priorityClassName"))
        if name and name not in known and name not in SYSTEM_CLASSES:
            there = ", ".join(sorted(known)) or "none"
            detail = f'job {pod_set.name} of the runtime names PriorityClass "{name}", which doesn\'t exist; there are: {there}'
            yield field.invalid(_RUNTIME, info.job.runtime_name, detail)


def _queue_path(info: Info, job: TrainJob) -> Path:
    """Where the empty name was written: the TrainJob's own metadata overlay, else the runtime."""
    if info.line.spec_metadata:
        own = values.at_obj(job.spec, "annotations")
        return (
            Path("spec", "annotations").key(QUEUE_ANNOTATION)
            if QUEUE_ANNOTATION in own
            else _RUNTIME
        )
    for i, patch in reversed(list(enumerate(resolve.overrides(job, info.line)))):
        if QUEUE_ANNOTATION in values.at_obj(
            patch, "trainingRuntimeSpec", "template", "metadata", "annotations"
        ):
            at = Path("spec", "runtimePatches").index(i)
            return at.child("trainingRuntimeSpec", "template", "metadata", "annotations").key(
                QUEUE_ANNOTATION
            )
    return _RUNTIME


def new(_args: Args, handle: Handle) -> Volcano:
    """Build the plugin."""
    return Volcano(gang.is_corrected(handle))


SPEC: Final = PluginSpec(name=NAME, build=new)
