"""Counts and environment for runtimes without a framework of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from plugins.framework import pods
from plugins.framework.interface import EnforceMLPolicyPlugin
from plugins.framework.registry import Args, Handle, PluginSpec

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.info import Info

NAME: Final = "PlainML"

_OTHERS: Final = frozenset({"torch", "mpi", "jax"})
"""Policies whose plugins do this themselves; XGBoost and Flux leave it to this one (semantics 4.5)."""


@dataclass(frozen=True)
class PlainML(EnforceMLPolicyPlugin):
    """``numNodes`` becomes the trainer's count, ``trainer.env`` its environment."""

    name: ClassVar[str] = NAME

    def enforce_ml_policy(self, ctx: Context, info: Info) -> None:
        """Act where torch, mpi and jax are all absent."""
        del ctx
        if info.runtime.policy in _OTHERS:
            return
        pods.set_trainer_count(info)
        if info.job.trainer is not None and info.trainer is not None:
            info.later(_add_env)


def _add_env(info: Info) -> None:
    container = pods.trainer_container(info)
    if container is not None:
        container.upsert_env(*pods.trainer_env(info.job.env))


def new(_args: Args, _handle: Handle) -> PlainML:
    """Build the plugin."""
    return PlainML()


SPEC: Final = PluginSpec(name=NAME, build=new)
