"""The two reads that a review may cause, both bounded: everything else is answered from the caches.

- CREATE with a runtime that the caches lack: it may have been created a moment ago, so it is read once.
- UPDATE of overrides: the Trainer builds from its own copy of the runtime, kept in a ConfigMap of the job.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.errors import BadInput
from webhook import yamlio
from webhook.kube.allowance import Allowance
from webhook.kube.client import ApiError, Unreachable
from webhook.kube.resources import RUNTIMES
from webhook.review import Looked, NotNow

if TYPE_CHECKING:
    from plugins.framework.cluster import Snapshot
    from plugins.framework.context import Context
    from webhook.kube.client import Requests
    from webhook.kube.source import Source

KEPT_SECONDS: Final = 1.0
"""How long an answer is kept: the validating call comes a moment after the mutating one, and many jobs of a
mistaken pipeline name the same missing runtime. Longer, and a runtime created just now would be refused."""

MOST_KEPT: Final = 1024
READ_SECONDS: Final = 1.5
"""For one read; half of what a mutating webhook is given."""
MARGIN_SECONDS: Final = 0.2
"""Left for the judging after the read."""

READS_AT_ONCE: Final = 20
READS_PER_SECOND: Final = 10.0

NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
"""What a user wrote becomes part of a path: only what can be a name may."""

Policy = Literal["serve", "fail"]
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Kept:
    until: float
    obj: dict[str, Any] | None


class Live:
    """Looks a second time where the caches are known to be behind."""

    def __init__(
        self,
        requests: Requests,
        source: Source,
        *,
        clock: Callable[[], float],
        stale: Policy = "serve",
    ) -> None:
        """Read by ``requests``; ``stale`` says what becomes of new jobs once the caches are too old."""
        self._requests = requests
        self._source = source
        self._clock = clock
        self._stale = stale
        self._allowance = Allowance(burst=READS_AT_ONCE, per_second=READS_PER_SECOND, clock=clock)
        self._kept: dict[Key, _Kept] = {}
        self._flights: dict[Key, asyncio.Task[dict[str, Any] | Exception | None]] = {}

    async def look(self, ctx: Context, raw: dict[str, Any]) -> Looked:
        """The cluster as this request should see it. Raises NotNow where a new job cannot be judged yet."""
        warnings: list[str] = []
        unsynced, stale = self._source.unsynced(advice=False), self._source.stale()
        if ctx.is_create:
            if unsynced:
                raise NotNow(f"Stationmaster has just started: {unsynced}")
            if stale and self._stale == "fail":
                raise NotNow(f"Stationmaster is {stale}", retry_after_seconds=None)
            cluster = await self.with_runtime(ctx, TrainJob(raw))
        else:
            cluster = await self._with_snapshot(ctx, TrainJob(raw), warnings)
        if unsynced or stale:
            warnings.append(
                f"judged by what was known before: Stationmaster is {stale or unsynced}"
            )
        return Looked(cluster, tuple(warnings))

    async def with_runtime(self, ctx: Context, job: TrainJob) -> Snapshot:
        """With the runtime that a job names, read if the caches lack it. Raises NotNow."""
        kind, name = job.runtime_kind, job.runtime_name
        resource = RUNTIMES.get(kind) if job.runtime_group == names.GROUP else None
        if resource is None or not NAME.fullmatch(name) or not NAME.fullmatch(ctx.namespace):
            return ctx.cluster
        if ctx.cluster.runtime(kind, ctx.namespace, name, ctx.line) is not None:
            return ctx.cluster
        namespace = "" if kind == names.CLUSTER_TRAINING_RUNTIME else ctx.namespace
        path = f"/apis/{resource.group}/{resource.version}"
        path += f"/namespaces/{namespace}" if namespace else ""
        try:
            obj = await self._read(ctx, (kind, namespace, name), f"{path}/{resource.plural}/{name}")
        except (ApiError, Unreachable, TimeoutError) as error:
            raise NotNow(
                f"the {kind} {name} is not known yet, and cannot be read: {error}"
            ) from error
        return ctx.cluster if obj is None else ctx.cluster.replaced({**obj, "kind": kind})

    async def _with_snapshot(self, ctx: Context, job: TrainJob, warnings: list[str]) -> Snapshot:
        """With the runtime as the Trainer keeps it for this job; an update never waits for it in vain."""
        old = TrainJob(values.obj(ctx.request.old_object))
        if not _is_judged_anew(ctx, old, job) or not NAME.fullmatch(job.name):
            return ctx.cluster
        path = copy_path(ctx.namespace, job.name)
        try:
            config_map = await self._read(ctx, ("ConfigMap", ctx.namespace, job.name), path)
        except (ApiError, Unreachable, TimeoutError, NotNow):
            warnings.append(
                "the Trainer's copy of the runtime could not be read: judged by the runtime as it is now"
            )
            return ctx.cluster
        obj = None if config_map is None else runtime_in(config_map, old)
        return ctx.cluster if obj is None else ctx.cluster.replaced(obj)

    async def _read(self, ctx: Context, key: Key, path: str) -> dict[str, Any] | None:
        """One object, or None; reviews that want the same share one call."""
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept.until:
            return kept.obj
        seconds = READ_SECONDS
        if ctx.deadline is not None:
            seconds = min(seconds, ctx.deadline - ctx.clock() - MARGIN_SECONDS)
        if seconds <= 0:
            raise TimeoutError("no time is left")
        flight = self._flights.get(key)
        if flight is None:
            if not self._allowance.take():
                raise Unreachable("too many are asked for at once")
            flight = self._flights[key] = asyncio.create_task(self._fly(key, path))
            flight.add_done_callback(lambda _: self._flights.pop(key, None))
        async with asyncio.timeout(seconds):
            got = await asyncio.shield(flight)
        if isinstance(got, Exception):
            raise got
        return got

    async def _fly(self, key: Key, path: str) -> dict[str, Any] | Exception | None:
        """An error is returned: nobody may be left to whom it could be raised."""
        obj: dict[str, Any] | None = None
        try:
            obj = values.obj(await self._requests.get(path, seconds=READ_SECONDS))
        except ApiError as error:
            if error.status != 404:
                return error
        except Unreachable as error:
            return error
        if len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept.pop(key, None)
        self._kept[key] = _Kept(self._clock() + KEPT_SECONDS, obj)
        return obj


def _is_judged_anew(ctx: Context, old: TrainJob, new: TrainJob) -> bool:
    key = ctx.line.generation
    return (
        ctx.line.snapshot
        and not (new.is_terminating or old.is_terminating or old.is_finished)
        and not values.same(old.spec.get(key), new.spec.get(key))
    )


def copy_path(namespace: str, job: str) -> str:
    """Where the Trainer keeps its copy of a job's runtime."""
    return f"/api/v1/namespaces/{namespace}/configmaps/{job}-runtime-snapshot"


def runtime_in(config_map: dict[str, Any], job: TrainJob) -> dict[str, Any] | None:
    """The runtime that the Trainer keeps for this very job; None where the copy is another's, or none."""
    uid = job.metadata.get("uid")
    owners = values.objects(values.at(config_map, "metadata", "ownerReferences"))
    if not uid or not any(o.get("controller") is True and o.get("uid") == uid for o in owners):
        return None
    text = values.text(values.at(config_map, "data", "runtime"))
    try:
        obj = values.obj(yamlio.load(text.encode(), "the Trainer's snapshot"))
    except BadInput:
        return None
    name = values.text(values.at(obj, "metadata", "name"))
    if obj.get("kind") != job.runtime_kind or name != job.runtime_name:
        return None
    return obj
