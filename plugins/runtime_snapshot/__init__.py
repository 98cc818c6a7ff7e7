"""The ConfigMap in which the controller keeps a copy of the runtime, from Trainer 2.3 on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import orjson

from plugins.framework import pods
from plugins.framework.interface import ComponentBuilderPlugin
from plugins.framework.registry import Args, Handle, PluginSpec

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.info import Info

NAME: Final = "RuntimeSnapshot"


@dataclass(frozen=True)
class RuntimeSnapshot(ComponentBuilderPlugin):
    """Written before anything else; the controller reads it in place of the runtime from then on (2.12)."""

    name: ClassVar[str] = NAME

    def build(self, ctx: Context, info: Info) -> list[dict[str, Any]]:
        """The ConfigMap. Its text is JSON, which is YAML; the controller's own text is laid out differently."""
        if not info.line.snapshot:
            return []
        text = orjson.dumps(
            info.runtime.raw, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2
        ).decode()
        name = f"{info.job.name}-runtime-snapshot"
        return [pods.made(info, ctx.namespace, "ConfigMap", name, data={"runtime": text})]


def new(_args: Args, _handle: Handle) -> RuntimeSnapshot:
    """Build the plugin."""
    return RuntimeSnapshot()


SPEC: Final = PluginSpec(name=NAME, build=new)
