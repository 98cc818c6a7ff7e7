"""Writes into a TrainJob what its runtime gives it anyway, so that the stored object shows what will run.

A field is written only where the controller builds the same objects with and without it, decided by rules on
the compiled runtime (``rules``). One exception repairs a trap: a distributed policy adds none of its
environment to a TrainJob without ``spec.trainer`` (semantics G10), so ``spec.trainer`` is created there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from plugins.framework.api.trainjob import TrainJob
from plugins.framework.field import Path
from plugins.framework.interface import DefaultTrainJobPlugin
from plugins.framework.registry import Args, Handle, PluginSpec
from plugins.runtime_defaults import rules

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.draft import Draft

NAME: Final = "RuntimeDefaults"

TRAINER: Final = Path("spec", "trainer")

Field = Literal["numNodes", "numProcPerNode", "image", "command", "args", "resourcesPerNode"]
ORDER: Final[tuple[Field, ...]] = (
    "numNodes",
    "numProcPerNode",
    "image",
    "command",
    "args",
    "resourcesPerNode",
)
PLACES: Final = {name: TRAINER.child(name) for name in ORDER}


class RuntimeDefaultsArgs(Args, frozen=True):
    """Which fields may be written. In the profile: ``args: {fields: [numNodes, image]}``."""

    fields: tuple[Field, ...] = ("numNodes", "numProcPerNode", "resourcesPerNode")


@dataclass(frozen=True)
class RuntimeDefaults(DefaultTrainJobPlugin):
    """Shows the runtime's values in ``spec.trainer``. Never on UPDATE: the field is immutable then."""

    name: ClassVar[str] = NAME
    args: RuntimeDefaultsArgs

    def default_train_job(self, ctx: Context, draft: Draft) -> None:
        """Create ``spec.trainer`` where its absence is a trap; then write what is unset and harmless.

        What a replica of another profile has written of the other fields is confirmed, where it is harmless.
        """
        del ctx
        runtime = draft.runtime
        if runtime is None:
            return
        job = TrainJob(draft.raw)
        harmless = {
            name: value
            for name in ORDER
            if (name in self.args.fields or PLACES[name].pointer in draft.claims)
            and (value := rules.RULES[name](runtime, job)) is not None
        }
        for name in self.args.fields:
            if name not in harmless:
                draft.undo_default(PLACES[name])
        if not harmless.keys() & set(self.args.fields) and rules.needs_trainer(runtime):
            draft.default(TRAINER, {})
        for name, value in harmless.items():
            if name in self.args.fields:
                draft.default(PLACES[name], value)
            else:
                draft.confirm(PLACES[name], value)


def new(args: RuntimeDefaultsArgs, _handle: Handle) -> RuntimeDefaults:
    """Build the plugin."""
    return RuntimeDefaults(args)


SPEC: Final = PluginSpec(name=NAME, build=new, args=RuntimeDefaultsArgs)
