"""Gang scheduling by the scheduler-plugins' PodGroup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import field, gang, pods, values
from plugins.framework.field import Findings, Path
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

NAME: Final = "CoScheduling"

LABEL: Final = "scheduling.x-k8s.io/pod-group"
_POLICY: Final = Path("spec", "podGroupPolicy")
_DEFAULT_TIMEOUT: Final = 60
_LONG_TIMEOUT: Final = 86400
"""Seconds. A gang that waits a day holds what it has got from everybody else meanwhile."""


@dataclass(frozen=True)
class CoScheduling(
    EnforcePodGroupPolicyPlugin,
    CustomValidationPlugin,
    ValidateRuntimePlugin,
    ComponentBuilderPlugin,
):
    """``podGroupPolicy.coscheduling`` (semantics 5.2)."""

    name: ClassVar[str] = NAME
    corrected: bool
    """Whether the PodGroup is corrected where it is made."""

    def enforce_pod_group_policy(self, ctx: Context, info: Info) -> None:
        """Label every pod with the PodGroup's name."""
        del ctx
        any_policy = info.line.labels_for_any_gang and info.runtime.has_pod_group_policy
        if _applies(info.runtime) or any_policy:
            info.pod_labels[LABEL] = info.job.name

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        """Warn of a gang that can never be complete."""
        del ctx, old, new
        found = Findings()
        if info is not None and _applies(info.runtime):
            found.warn(*gang.warn_about_job(info, corrected=self.corrected))
        return found

    def validate_runtime(
        self, ctx: Context, old: CompiledRuntime | None, new: CompiledRuntime
    ) -> Findings:
        """One gang policy at a time; a timeout that can be meant."""
        del ctx, old
        found = Findings()
        if len(gang.policies(new.pod_group_policy)) > 1:
            detail = (
                "only one of coscheduling and volcano may be set: each makes a PodGroup of its own"
            )
            found.error(field.forbidden(_POLICY, detail))
        if _applies(new):
            found.warn(*gang.warn_about_gang(new.jobs, corrected=self.corrected))
        timeout = values.at(new.pod_group_policy, "coscheduling", "scheduleTimeoutSeconds")
        if type(timeout) is int and timeout < 0:
            at = _POLICY.child("coscheduling", "scheduleTimeoutSeconds")
            found.error(field.invalid(at, timeout, "must be at least 0"))
        elif type(timeout) is int and timeout > _LONG_TIMEOUT:
            found.warn(
                f"{_POLICY}.coscheduling.scheduleTimeoutSeconds is {timeout}: an incomplete gang holds its "
                "nodes for more than a day"
            )
        elif timeout == 0:
            found.warn(
                f"{_POLICY}.coscheduling.scheduleTimeoutSeconds is 0, which is not the default but 0"
            )
        return found

    def build(self, ctx: Context, info: Info) -> list[dict[str, Any]]:
        """The PodGroup that the controller writes."""
        if not _applies(info.runtime):
            return []
        totals = gang.controller_gang(info)
        policy = values.obj(info.runtime.pod_group_policy.get("coscheduling"))
        spec: dict[str, Any] = {
            "minMember": totals.members,
            "minResources": totals.resources,
            "scheduleTimeoutSeconds": policy.get("scheduleTimeoutSeconds", _DEFAULT_TIMEOUT),
        }
        return [
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": pods.metadata(info, ctx.namespace, info.job.name),
                "spec": spec,
            }
        ]


def _applies(runtime: CompiledRuntime) -> bool:
    return runtime.pod_group_policy.get("coscheduling") is not None


def new(_args: Args, handle: Handle) -> CoScheduling:
    """Build the plugin."""
    return CoScheduling(gang.is_corrected(handle))


SPEC: Final = PluginSpec(name=NAME, build=new)
