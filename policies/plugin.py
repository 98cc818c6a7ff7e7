"""The plugin PlatformPolicy: hooks the platform's policies into the extension points.

What compiles and runs them is ``engine``. It takes longer to import than all else together (CEL, and the schema that
it checks against), so it is imported where there is a policy, or somebody asks for it; a server asks before it is ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from plugins.framework import applied
from plugins.framework.api import names
from plugins.framework.field import Findings
from plugins.framework.interface import (
    Asking,
    CustomValidationPlugin,
    DefaultTrainJobPlugin,
    JudgeMetadataPlugin,
    OverrideTrainJobPlugin,
    ReconcileUpdatePlugin,
    RecordResolutionPlugin,
    WatchExtensionPlugin,
)
from plugins.framework.registry import Args, Handle, PluginSpec
from policies import record
from policies.strikes import Strikes

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.draft import Draft
    from plugins.framework.info import Info
    from policies.engine import Engine

NAME: Final = "PlatformPolicy"


class PlatformPolicy(
    WatchExtensionPlugin,
    DefaultTrainJobPlugin,
    OverrideTrainJobPlugin,
    ReconcileUpdatePlugin,
    RecordResolutionPlugin,
    CustomValidationPlugin,
    JudgeMetadataPlugin,
):
    """TrainJobPolicies over the resolved job."""

    name: ClassVar[str] = NAME

    def __init__(self) -> None:
        """Know no policies yet."""
        self.strikes = Strikes()
        """Which of them took workers down; those who run the workers add to it."""
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """What compiles and runs policies."""
        if self._engine is None:
            from policies.engine import Engine  # noqa: PLC0415  # see above

            self._engine = Engine(self.strikes)
        return self._engine

    def watches(self) -> tuple[str, ...]:
        """The documents, and what their params are in."""
        return (
            *(f"{kind}.{names.POLICY_GROUP}" for kind in names.POLICY_DOCUMENTS),
            f"{names.CONFIG_MAP}.",
        )

    def default_train_job(self, ctx: Context, draft: Draft) -> Asking[None] | None:
        """Plan and place the defaults of all policies that match."""
        return self.engine.default_train_job(ctx, draft) if ctx.cluster.documents else None

    def override_train_job(self, ctx: Context, draft: Draft) -> Asking[None] | None:
        """Plan and place their overrides."""
        return self.engine.override_train_job(ctx, draft) if ctx.cluster.documents else None

    def reconcile_update(self, ctx: Context, draft: Draft, old: TrainJob) -> Asking[None] | None:
        """Place anew what an update moves, as far as the API lets it change; also what is left of policies that are gone."""
        if not (ctx.cluster.documents or applied.has_policies(old.raw)):
            return None
        return self.engine.reconcile_update(ctx, draft, old)

    def record_resolution(self, ctx: Context, draft: Draft) -> None:
        """Remember who created the job, where a policy or an exception will ask again."""
        if ctx.is_create:
            found = self.engine.record_of(ctx, draft) if ctx.cluster.documents else record.NOTHING
            record.put(draft, found)

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings | Asking[Findings]:
        """Limits and validations of all policies that match the job as it will run."""
        if info is None or not ctx.cluster.documents or (old is None and ctx.is_update):
            return Findings()
        return self.engine.validate(ctx, info, old, new)

    def validate_metadata(
        self, ctx: Context, info: Info | None, old: TrainJob, new: TrainJob
    ) -> Findings | Asking[Findings]:
        """The same, of those rules that are about labels and annotations alone, where some differ."""
        if info is None or not ctx.cluster.documents:
            return Findings()
        return self.engine.validate_metadata(ctx, info, old, new)


def new(_args: Args, _handle: Handle) -> PlatformPolicy:
    """Build the plugin."""
    return PlatformPolicy()


SPEC: Final = PluginSpec(name=NAME, build=new)
