"""Tells XGBoost workers where the tracker is and how many they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from plugins.framework import pods, reserved, values
from plugins.framework.api import names
from plugins.framework.info import Info, gpu_count
from plugins.framework.interface import CustomValidationPlugin, EnforceMLPolicyPlugin
from plugins.framework.registry import Args, Handle, PluginSpec

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.field import Findings

NAME: Final = "XGBoost"

RESERVED: Final = ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER")


@dataclass(frozen=True)
class XGBoost(EnforceMLPolicyPlugin, CustomValidationPlugin):
    """One worker a GPU, or one a node without GPUs (semantics 4.7)."""

    name: ClassVar[str] = NAME

    def enforce_ml_policy(self, ctx: Context, info: Info) -> None:
        """Set the count; add four variables and the port to the trainer."""
        del ctx
        if info.runtime.policy != "xgboost":
            return
        pods.set_trainer_count(info)
        if info.job.trainer is not None and info.trainer is not None:
            info.later(_add_env)

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        """Refuse the four reserved names."""
        del ctx, old, new
        return reserved.of_policy(
            info, "xgboost", RESERVED, lambda name: f"{name} is reserved for the XGBoost runtime"
        )


def _add_env(info: Info) -> None:
    trainer, container = info.trainer, pods.trainer_container(info)
    if trainer is None or container is None:
        return
    workers = values.int32(gpu_count(info.resources_per_node()) or 1)
    container.upsert_env(
        pods.env("DMLC_TRACKER_URI", pods.master_address(info)),
        pods.env("DMLC_TRACKER_PORT", str(names.TRAINER_PORT)),
        pods.env_from_index("DMLC_TASK_ID"),
        pods.env("DMLC_NUM_WORKER", str(values.int32(trainer.count * workers))),
    )
    container.upsert_ports({"containerPort": names.TRAINER_PORT})


def new(_args: Args, _handle: Handle) -> XGBoost:
    """Build the plugin."""
    return XGBoost()


SPEC: Final = PluginSpec(name=NAME, build=new)
