"""Where a number or an image of a resolved job comes from, so that a refusal names the field that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugins.framework import applied, values
from plugins.framework.api import names
from plugins.framework.field import Path
from policies import tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugins.framework.context import Context
    from plugins.framework.info import Info, PodSet
    from policies.tally import Used

RUNTIME: Final = Path("spec", "runtimeRef", "name")
NUM_NODES: Final = Path("spec", "trainer", "numNodes")
RESOURCES: Final = Path("spec", "trainer", "resourcesPerNode")
IMAGE: Final = Path("spec", "trainer", "image")
ENV: Final = Path("spec", "trainer", "env")

RUNTIME_DEFAULTS: Final = "RuntimeDefaults"
"""The plugin that writes a runtime's values into the job: what it wrote comes from the runtime."""


class Source(NamedTuple):
    """The field to look at, and in words how the value got there."""

    path: Path
    text: str


def of_nodes(info: Info, ctx: Context) -> Source:
    """Where the number of nodes comes from."""
    return _of(info, ctx, NUM_NODES, is_set=info.job.num_nodes is not None)


def of_resources(
    info: Info, ctx: Context, pod_set: PodSet, matches: Callable[[str], bool]
) -> Source:
    """Where the requests of a pod set for some resources come from."""
    own = info.job.resources_per_node if pod_set.node_resources is not None else None
    asked: set[str] = set()
    for part in ("requests", "limits"):
        asked.update(values.obj((own or values.EMPTY).get(part)))
    return _of(info, ctx, RESOURCES, is_set=any(matches(name) for name in asked))


def of_total(
    info: Info,
    ctx: Context,
    matches: Callable[[str], bool],
    *,
    one_is_enough: Callable[[PodSet], bool],
) -> Source:
    """Where most of a total comes from: fewer nodes mend it, unless one of them is too much by itself."""
    largest = max(
        info.pod_sets, key=lambda p: tally.one_pod(p, matches).nano * p.pods, default=None
    )
    if largest is None:
        return _of_runtime(info)
    count, each = of_nodes(info, ctx), of_resources(info, ctx, largest, matches)
    if largest not in tally.node_sets(info) or one_is_enough(largest):
        return each
    return count if count.path == NUM_NODES else each


def of_image(info: Info, ctx: Context, used: Used) -> Source:
    """Where an image comes from: the trainer's own field, env that a plugin reads, an override, or the runtime."""
    pod_set = info.by_name(used.pod_set)
    if pod_set is None:
        return _of_runtime(info)
    own = info.job.trainer.get("image") if info.job.trainer else None
    is_trainer = pod_set.ancestor == names.TRAINER and used[1:3] == ("container", names.NODE)
    if is_trainer and own == used.reference:
        return _of(info, ctx, IMAGE, is_set=True)
    if any(c.get("name") == used.name for c in pod_set.extra_init):
        by_env = any(entry.get("value") == used.reference for entry in info.job.env)
        return Source(ENV, "") if by_env else _of_runtime(info)
    job = info.runtime.job(used.pod_set)
    if job is not None and _has(job.pod, used):
        return _of_runtime(info)
    return Source(Path("spec", info.line.generation), "")


def _has(pod: dict[str, Any], used: Used) -> bool:
    key, steps = {
        "container": ("containers", ("image",)),
        "init container": ("initContainers", ("image",)),
        "volume": ("volumes", ("image", "reference")),
    }[used.role]
    return any(
        item.get("name") == used.name and values.at(item, *steps) == used.reference
        for item in values.objects(pod.get(key))
    )


def _of(info: Info, ctx: Context, path: Path, *, is_set: bool) -> Source:
    if not is_set:
        return _of_runtime(info)
    written = ctx.written if ctx.written is not None else applied.read(info.job.raw)
    by = _writer(written, path.pointer)
    if by == RUNTIME_DEFAULTS:
        return _of_runtime(info)
    if by.startswith(applied.POLICY):
        by = f"policy {by.removeprefix(applied.POLICY).removesuffix(applied.FORCED)}"
    return Source(path, f"written by {by}" if by else "")


def _writer(written: Any, pointer: str) -> str:
    """Who wrote a place or one above it; "" for the user. Marks are ``<who>:<hash>``."""
    while pointer:
        mark = written.get(pointer)
        if mark is not None:
            return str(mark).rpartition(":")[0]
        pointer = pointer.rpartition("/")[0]
    return ""


def _of_runtime(info: Info) -> Source:
    return Source(RUNTIME, f"from {info.runtime.kind} {info.runtime.name}")
