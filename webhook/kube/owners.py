"""The TrainJob of a PodGroup, read from the API server: by name, bounded, and never from a cache.

The Trainer applies a PodGroup a moment after the TrainJob has changed, so an answer that was kept for a second
could be the one before. One GET of the TrainJob, and one of the Trainer's copy of the runtime where it keeps
one: a controller waits for the answer, no user does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.api.trainjob import TrainJob
from webhook.kube.allowance import Allowance
from webhook.kube.client import ApiError, Unreachable
from webhook.kube.live import MARGIN_SECONDS, NAME, READ_SECONDS, copy_path, runtime_in
from webhook.podgroups import Owned, Unresolved, check_uid, line_of
from webhook.review import NotNow

if TYPE_CHECKING:
    from plugins.framework.cluster import Snapshot
    from plugins.framework.context import Context
    from plugins.framework.lines import Line
    from webhook.kube.client import Requests
    from webhook.kube.live import Live
    from webhook.kube.source import Source
    from webhook.podgroups import Owner

READS_AT_ONCE: Final = 200
READS_PER_SECOND: Final = 100.0
"""Twice what the Trainer may write by its own default (50 requests a second, 100 at once): a gang that is not
corrected for want of a read may never start. Apart from the allowance of the reviews that users wait for."""


class Owners:
    """Reads TrainJobs as they are stored now."""

    def __init__(
        self,
        requests: Requests,
        source: Source,
        live: Live,
        *,
        clock: Callable[[], float],
        line: Line | None,
    ) -> None:
        """Read by ``requests``; ``live`` knows runtimes that the caches of ``source`` lack yet."""
        self._requests = requests
        self._source = source
        self._live = live
        self._line = line
        self._allowance = Allowance(burst=READS_AT_ONCE, per_second=READS_PER_SECOND, clock=clock)

    async def owned(self, ctx: Context, owner: Owner) -> Owned:
        """The TrainJob, and the runtime that the Trainer builds it from. Raises Unresolved."""
        unsynced = self._source.unsynced()
        if unsynced:
            raise Unresolved(f"Stationmaster has just started: {unsynced}")
        if not NAME.fullmatch(owner.name) or not NAME.fullmatch(ctx.namespace):
            raise Unresolved("the owner's name can be no TrainJob's")
        path = f"/apis/{names.API_VERSION}/namespaces/{ctx.namespace}/trainjobs/{owner.name}"
        try:
            job = await self._get(ctx, path)
        except (ApiError, Unreachable, TimeoutError) as error:
            raise Unresolved(f"TrainJob {owner.name} cannot be read: {error}") from error
        if job is None:
            raise Unresolved(f"TrainJob {owner.name} does not exist")
        check_uid(job, owner)
        stale = self._source.stale()
        warnings = [f"judged by what was known before: Stationmaster is {stale}"] if stale else []
        cluster = await self._around(ctx, job, warnings)
        return Owned(job, cluster, tuple(warnings))

    async def _around(self, ctx: Context, job: dict[str, Any], warnings: list[str]) -> Snapshot:
        """With the runtime as the Trainer keeps it for this job, else as it is now."""
        view = TrainJob(job)
        if line_of(self._line, ctx.cluster, job).snapshot:
            try:
                found = await self._get(ctx, copy_path(ctx.namespace, view.name))
            except (ApiError, Unreachable, TimeoutError):
                warnings.append(
                    "the Trainer's copy of the runtime could not be read: counted by the runtime as it is now"
                )
            else:
                runtime = None if found is None else runtime_in(found, view)
                if runtime is not None:
                    return ctx.cluster.replaced(runtime)
        try:
            return await self._live.with_runtime(ctx, view)
        except NotNow as error:
            raise Unresolved(str(error)) from error

    async def _get(self, ctx: Context, path: str) -> dict[str, Any] | None:
        """One object as it is now, or None."""
        seconds = READ_SECONDS
        if ctx.deadline is not None:
            seconds = min(seconds, ctx.deadline - ctx.clock() - MARGIN_SECONDS)
        if seconds <= 0:
            raise TimeoutError("no time is left")
        if not self._allowance.take():
            raise Unreachable("too many are asked for at once")
        try:
            return values.obj(await self._requests.get(path, seconds=seconds))
        except ApiError as error:
            if error.status == 404:
                return None
            raise
