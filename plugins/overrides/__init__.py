"""Overrides of pods, of all three generations: names that exist, fields that may be set, changes that may be made.

The Trainer looks for names *after* it has merged, when every name exists (G1). Here they are looked for in the
runtime as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from plugins.framework.field import Findings
from plugins.framework.interface import CustomValidationPlugin
from plugins.framework.registry import Args, Handle, PluginSpec
from plugins.overrides import conflicts, contents, finished, managers, updates

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.info import Info

NAME: Final = "Overrides"


@dataclass(frozen=True)
class Overrides(CustomValidationPlugin):
    """``runtimePatches``, ``podTemplateOverrides``, ``podSpecOverrides`` (semantics 3, 4.1, 10.3)."""

    name: ClassVar[str] = NAME

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        """Judge each entry by itself, then against the runtime, then against the stored object."""
        found = Findings()
        line = ctx.line
        if not new.spec.get(line.generation) and (old is None or not old.spec.get(line.generation)):
            return found
        if line.has_managers:
            found.error(*managers.problems(ctx, old, new))
        targets = contents.targets(line, new)
        found.error(*contents.problems(targets, directives=new.has_directives(line.generation)))
        if line.unique_targets:
            found.error(*contents.repeated(line, new))
        if info is not None:
            for target in targets:
                found.add(contents.against_runtime(info, target, targets))
                found.error(*finished.problems(info, target, targets))
            found.warn(*conflicts.between(targets))
        if old is not None:
            found.error(*updates.problems(ctx, info, old, new))
        return found


def new(_args: Args, _handle: Handle) -> Overrides:
    """Build the plugin."""
    return Overrides()


SPEC: Final = PluginSpec(name=NAME, build=new)
