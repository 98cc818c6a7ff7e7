"""The runtime that a TrainJob names must be of a kind that the Trainer knows, and exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from plugins.framework import field
from plugins.framework.api import names
from plugins.framework.field import Findings, Path
from plugins.framework.interface import CustomValidationPlugin, ValidateRuntimePlugin
from plugins.framework.registry import Args, Handle, PluginSpec

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.info import Info
    from plugins.framework.lines import Line
    from plugins.framework.runtime import CompiledRuntime

NAME: Final = "RuntimeRef"

_REF: Final = Path("spec", "runtimeRef")
_MOST_NAMES: Final = 20
"""Names listed in a message; a cluster may have thousands."""


@dataclass(frozen=True)
class RuntimeRef(CustomValidationPlugin, ValidateRuntimePlugin):
    """``spec.runtimeRef`` (semantics 6.1)."""

    name: ClassVar[str] = NAME

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        """Kind and group, existence with what exists instead, the deprecation warning."""
        del old
        found = Findings()
        if new.runtime_group != names.GROUP:
            found.error(
                field.not_supported(_REF.child("apiGroup"), new.runtime_group, (names.GROUP,))
            )
        if new.runtime_kind not in names.RUNTIME_KINDS:
            found.error(
                field.not_supported(_REF.child("kind"), new.runtime_kind, names.RUNTIME_KINDS)
            )
        if found.errors:
            return found
        if info is None:
            if new.runtime_name:
                found.error(_missing(ctx, new))
            else:
                found.error(field.required(_REF.child("name"), _existing(ctx, new.runtime_kind)))
        elif info.runtime.is_deprecated and new.runtime_kind == names.CLUSTER_TRAINING_RUNTIME:
            found.warn(_deprecated(ctx.line, new.runtime_name))
        return found

    def validate_runtime(
        self, ctx: Context, old: CompiledRuntime | None, new: CompiledRuntime
    ) -> Findings:
        """The Trainer warns whoever creates a deprecated ClusterTrainingRuntime."""
        found = Findings()
        if old is None and new.is_deprecated and new.kind == names.CLUSTER_TRAINING_RUNTIME:
            found.warn(_deprecated(ctx.line, new.name, referenced=False))
        return found


def _deprecated(line: Line, name: str, *, referenced: bool = True) -> str:
    who = "Referenced ClusterTrainingRuntime" if referenced else "ClusterTrainingRuntime"
    text = (
        f'{who} "{name}" is deprecated and will be removed in a future release of Kubeflow Trainer.'
    )
    where = line.deprecation_policy
    return f"{text} See runtime deprecation policy: {where}" if where else text


def _missing(ctx: Context, job: TrainJob) -> field.FieldError:
    kind, name = job.runtime_kind, job.runtime_name
    refused = ctx.cluster.why_refused(kind, ctx.namespace, name, ctx.line)
    if refused:
        detail = f"the API server would not store this {kind}: {refused[0]}"
        return field.invalid(_REF.child("name"), name, detail)
    detail = f"the {kind} must be created before the TrainJob; {_existing(ctx, kind)}"
    other = next(k for k in names.RUNTIME_KINDS if k != kind)
    if ctx.cluster.runtime(other, ctx.namespace, name, ctx.line) is not None:
        detail += f"; there is a {other} of this name: set spec.runtimeRef.kind to {other}"
    return field.not_found(_REF.child("name"), name, detail)


def _existing(ctx: Context, kind: str) -> str:
    known = ctx.cluster.runtime_names(kind, ctx.namespace)
    where = f" in namespace {ctx.namespace}" if kind == names.TRAINING_RUNTIME else ""
    if not known:
        return f"there is no {kind}{where}"
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return f"there are{where}: {', '.join(known[:_MOST_NAMES])}{more}"


def new(_args: Args, _handle: Handle) -> RuntimeRef:
    """Build the plugin."""
    return RuntimeRef()


SPEC: Final = PluginSpec(name=NAME, build=new)
