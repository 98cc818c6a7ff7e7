"""Counts what a TrainJob's pods need, exactly, and writes it down where people and queues can read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import orjson

from plugins.framework import field, quantity, totals, values
from plugins.framework.api import names
from plugins.framework.field import Findings, Path
from plugins.framework.interface import (
    CustomValidationPlugin,
    RecordResolutionPlugin,
    WatchExtensionPlugin,
)
from plugins.framework.quantity import QuantityError
from plugins.framework.registry import Args, Handle, PluginSpec
from plugins.framework.resources import container_problems

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.draft import Draft
    from plugins.framework.info import Info
    from plugins.framework.totals import Totals

NAME: Final = "PodGroupTotals"

PATH: Final = Path("metadata", "annotations").key(names.TOTALS_ANNOTATION)
RESOURCES: Final = Path("spec", "trainer", "resourcesPerNode")


@dataclass(frozen=True)
class PodGroupTotals(WatchExtensionPlugin, RecordResolutionPlugin, CustomValidationPlugin):
    """The annotation ``stationmaster.dev/podgroup-totals``, and the limits of what can be counted."""

    name: ClassVar[str] = NAME

    def watches(self) -> tuple[str, ...]:
        """What changes the requests of a pod besides its template."""
        return ("LimitRange.", "RuntimeClass.node.k8s.io")

    def record_resolution(self, ctx: Context, draft: Draft) -> None:
        """Write the totals, whatever was sent."""
        del ctx
        try:
            text = annotation(draft.info)
        except QuantityError:
            return  # validation names the amount that cannot be read
        draft.set(PATH, text)

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        """Resources that no pod may have; totals that readers of int64 cannot hold; unknown overheads."""
        del old
        found = Findings()
        if info is None:
            return found
        if new.resources_per_node is not None and not ctx.is_ours(new, RESOURCES.pointer):
            _check_node_resources(info, found)
        if not found.errors:
            _check_totals(info, found)
        classes = ctx.cluster.runtime_classes
        for pod_set in info.pod_sets:
            name = values.text(pod_set.base.pod.get("runtimeClassName"))
            if name and classes is not None and name not in classes:
                there = ", ".join(sorted(classes)) or "none"
                found.warn(
                    f"job {pod_set.name} names RuntimeClass {name}, which does not exist (there are: {there}): "
                    "its overhead is not counted, and its pods will be refused"
                )
            elif name and classes is None:
                found.warn(
                    f"job {pod_set.name} names RuntimeClass {name}, of which nothing is known here: its overhead is not counted"
                )
        return found


def annotation(info: Info) -> str:
    """The annotation's text: compact JSON with sorted keys."""
    counted = totals.of(info)
    kept: str | None = counted.memo.get(NAME)
    if kept is None:
        kept = counted.memo[NAME] = _annotation(info, counted)
    return kept


def _annotation(info: Info, counted: Totals) -> str:
    document = {
        "members": counted.members,
        "podSets": {
            p.name: {"count": p.pods, "resources": _texts(counted.per_part[p.name])}
            for p in info.pod_sets
        },
        "resources": _texts(counted.resources),
        "runtime": info.runtime.digest,
    }
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()


def _texts(amounts: Any) -> dict[str, str]:
    return {name: quantity.canonical(amount) for name, amount in amounts.items()}


def _check_node_resources(info: Info, found: Findings) -> None:
    """The merged resources of container ``node`` must make a legal container (G16b)."""
    seen: set[str] = set()
    for pod_set in info.pod_sets:
        if pod_set.node_resources is None:
            continue
        for problem in container_problems(pod_set.node_resources, info.facts.limits):
            text = str(problem)
            if text in seen:
                continue
            seen.add(text)
            detail = f"{problem.detail} (after merging with the runtime's own resources of job {pod_set.name})"
            found.error(field.invalid(Path(*RESOURCES, *problem.path), problem.value, detail))


def _check_totals(info: Info, found: Findings) -> None:
    try:
        counted = totals.of(info)
    except QuantityError as error:
        at = Path("spec", "runtimeRef", "name")
        detail = f"the runtime asks for an amount that cannot be read: {error}"
        found.error(field.invalid(at, info.job.runtime_name, detail))
        return
    if counted.too_large is not None:
        part, name = counted.too_large
        detail = (
            f"{name} of {part or 'the whole job'} is more than a 64-bit number holds; ask for less, or for fewer "
            "nodes"
        )
        found.error(field.invalid(RESOURCES, info.job.resources_per_node, detail))


def new(_args: Args, _handle: Handle) -> PodGroupTotals:
    """Build the plugin."""
    return PodGroupTotals()


SPEC: Final = PluginSpec(name=NAME, build=new)
