"""The in-tree plugins, in the order in which they run by default. One line a plugin; no import has effects."""

from __future__ import annotations

from plugins import (
    coscheduling,
    flux,
    jax,
    jobset,
    keep_old_form,
    lifecycle,
    mpi,
    overrides,
    plainml,
    podgroup_correction,
    podgroup_totals,
    runtime_defaults,
    runtime_ref,
    runtime_snapshot,
    torch,
    trainer_fields,
    volcano,
    xgboost,
)
from plugins.framework.registry import PluginSpec, Registry


def in_tree() -> tuple[PluginSpec, ...]:
    """Every plugin of ours that runs unless a profile says otherwise, in order.

    The order decides two things that the Trainer leaves to chance: XGBoost's variables come before
    ``trainer.env`` of PlainML, and the PodGroup of CoScheduling is built before Volcano's.
    """
    return (
        keep_old_form.SPEC,
        runtime_defaults.SPEC,
        runtime_ref.SPEC,
        trainer_fields.SPEC,
        overrides.SPEC,
        runtime_snapshot.SPEC,
        torch.SPEC,
        mpi.SPEC,
        jax.SPEC,
        xgboost.SPEC,
        flux.SPEC,
        plainml.SPEC,
        coscheduling.SPEC,
        volcano.SPEC,
        jobset.SPEC,
        podgroup_totals.SPEC,
        lifecycle.SPEC,
    )


def opt_in() -> tuple[PluginSpec, ...]:
    """Those that run only where they are asked for."""
    return (podgroup_correction.SPEC,)


def registry() -> Registry:
    """A registry of all plugins of ours."""
    return Registry((*in_tree(), *opt_in()))
