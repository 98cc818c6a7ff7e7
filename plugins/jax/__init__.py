"""Tells JAX processes how many they are, who they are and where the coordinator is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from plugins.framework import pods, reserved
from plugins.framework.api import names
from plugins.framework.errors import BuildError
from plugins.framework.interface import CustomValidationPlugin, EnforceMLPolicyPlugin
from plugins.framework.registry import Args, Handle, PluginSpec

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.field import Findings
    from plugins.framework.info import Info

NAME: Final = "JAX"

RESERVED: Final = ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS")


@dataclass(frozen=True)
class JAX(EnforceMLPolicyPlugin, CustomValidationPlugin):
    """One JAX process a node (semantics 4.6)."""

    name: ClassVar[str] = NAME

    def enforce_ml_policy(self, ctx: Context, info: Info) -> None:
        """Set the count; add three variables and the port to the trainer."""
        del ctx
        if info.runtime.policy != "jax":
            return
        pods.set_trainer_count(info)
        if info.trainer is None and info.line.name == "2.2":
            raise BuildError("the JAX plugin panics on a runtime without a trainer job")
        if info.job.trainer is not None and info.trainer is not None:
            info.later(_add_env)

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        """The Trainer lets users override these three, and the job then hangs (G22): refused here."""
        del ctx, old, new
        return reserved.of_policy(
            info, "jax", RESERVED, lambda name: f"{name} is set by the JAX runtime; remove it"
        )


def _add_env(info: Info) -> None:
    trainer, container = info.trainer, pods.trainer_container(info)
    if trainer is None or container is None:
        return
    address = f"{pods.master_address(info)}:{names.TRAINER_PORT}"
    container.upsert_env(
        pods.env("JAX_NUM_PROCESSES", str(trainer.count)),
        pods.env_from_index("JAX_PROCESS_ID"),
        pods.env("JAX_COORDINATOR_ADDRESS", address),
    )
    container.upsert_ports({"containerPort": names.TRAINER_PORT})


def new(_args: Args, _handle: Handle) -> JAX:
    """Build the plugin."""
    return JAX()


SPEC: Final = PluginSpec(name=NAME, build=new)
