"""Tells on TrainJobs what failed and the SDK cannot see, as ``core/v1`` Events; the holder of the Lease does.

Followed are the Warnings about TrainJobs and JobSets and, in the caches, the conditions of TrainJobs
(``webhook/kube/failures.py`` says why these); ``webhook/kube/correlator.py`` decides what to write. No request waits for
any of it, and no failure of it is more than a line in the log and a count.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import orjson

from plugins.framework import values
from plugins.framework.api import names
from webhook.kube import failures
from webhook.kube.calls import Failure as CallFailure
from webhook.kube.client import ApiError, Unreachable
from webhook.kube.correlator import Correlator, Write
from webhook.kube.failures import Failure, Ref, Told
from webhook.kube.jobsets import JobSets
from webhook.kube.reflector import Reflector, Surroundings, Tell
from webhook.kube.resources import Resource

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from webhook.kube.calls import Calls
    from webhook.kube.client import Requests
    from webhook.kube.failed import FailedJobs

TURN_SECONDS: Final = 1.0
STALLED_SECONDS: Final = 300.0
"""Without anything done. A call takes 30 s at most."""

SILENCE_SECONDS: Final = 300.0
"""API servers keep no cache of events and send no bookmarks for them, and to list them reads all there are: a quiet
cluster is not asked again as soon as it is for other kinds."""

FRESH_SECONDS: Final = 900.0
"""Conditions stay for ever, and Events for an hour: of older failures an Event may have been and gone."""

MOST_WAITING: Final = 4096
LOOKS: Final = 5
LOOK_SECONDS: Final = 2.0
"""How often, and how long apart, the TrainJob of an event is looked for: the event may come first."""

Result: TypeAlias = Literal["created", "counted", "failed", "dropped"]

FOLLOWED: Final = tuple(
    Resource(
        kind="Event",
        plural="events",
        label=f"{kind} events",
        where=f"involvedObject.kind={kind},type=Warning",
    )
    for kind in (names.TRAIN_JOB, names.JOB_SET)
)


class Counter(Protocol):
    """What is counted; the recorder does it."""

    def event(self, result: Result, count: int = 1) -> None:
        """What became of an Event."""


class Holder(Protocol):
    """Who of the replicas writes; ``lease.Elector`` is one."""

    @property
    @abstractmethod
    def is_holder(self) -> bool:
        """Whether it is us."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """What we are called."""

    @property
    @abstractmethod
    def last_problem(self) -> str | None:
        """Why it is not known who does."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A failure whose TrainJob is looked for."""

    failure: Failure
    looks: int = 0
    not_before: float = 0.0


class Mirror:
    """Follows what is told of TrainJobs and JobSets, and tells it on."""

    def __init__(  # noqa: PLR0913  # its tools, all of them needed
        self,
        requests: Requests,
        calls: Calls,
        failed: FailedJobs,
        *,
        exists: Callable[[str, str], bool | None],
        is_off: Callable[[], bool],
        around: Surroundings,
        counter: Counter,
        logger: FilteringBoundLogger,
        tell: Tell,
    ) -> None:
        """Read by ``requests``, write by ``calls``.

        ``exists`` knows the TrainJobs by namespace and name, or says None while it does not; ``is_off``
        whether to write nothing at all.
        """
        self._requests = requests
        self._calls = calls
        self._failed = failed
        self._exists = exists
        self._is_off = is_off
        self._around = around
        self._counter = counter
        self._logger = logger
        self._begin()
        quiet = replace(around, silence_seconds=max(SILENCE_SECONDS, around.silence_seconds))
        self.reflectors = tuple(
            Reflector(each, requests, sink, quiet, tell, keep=kept)
            for each, sink in zip(FOLLOWED, (_WithOurs(self), _Others(self)), strict=True)
        )
        for each in self.reflectors:
            each.rest()  # until we hold the Lease
        self._turned_at = around.clock()
        self._problem = ""

    def _begin(self) -> None:
        """Know nothing: what there is, is read anew."""
        self._correlator = Correlator(self._around.clock)
        self._waiting: deque[_Seen] = deque()
        self._jobsets = JobSets(self._requests, self._around.clock)
        self._failed.is_news = True

    def stalled(self) -> str | None:
        """For liveness: whether the loop has stopped to turn."""
        age = self._around.clock() - self._turned_at
        if age < STALLED_SECONDS:
            return None
        return f"nobody has looked after events for {age:.0f} s"

    async def run(self, holder: Holder) -> None:
        """Whenever we hold the Lease, until cancelled."""
        while True:
            if self._is_ours(holder):
                await self._hold(holder)
            elif holder.last_problem:
                self._tell_once(f"lease: {holder.last_problem}")
            self._turned()
            await self._around.sleep(TURN_SECONDS)

    def _is_ours(self, holder: Holder) -> bool:
        return holder.is_holder and not self._is_off()

    async def _hold(self, holder: Holder) -> None:
        self._begin()
        following = [asyncio.create_task(each.run()) for each in self.reflectors]
        try:
            while self._is_ours(holder):
                await self._turn_safely(holder)
                self._turned()
                await self._around.sleep(TURN_SECONDS)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            for each in self.reflectors:
                each.rest()

    def _turned(self) -> None:
        self._turned_at = self._around.clock()

    async def _turn_safely(self, holder: Holder) -> None:
        try:
            await self._turn(holder)
        except Exception as error:  # noqa: BLE001  # Events are no reason to end, whatever is wrong
            self._counter.event("failed")
            self._tell_once(f"internal fault ({type(error).__name__})")

    # What failed

    def told(self, each: Told) -> None:
        """An Event of ours is there."""
        self._correlator.put(each)
        if each.related:
            self._jobsets.learn(each.related, each.about)

    def told_all(self, told: Iterable[Told]) -> None:
        """These are all the Events of ours."""
        self._correlator.swap(())
        for each in told:
            self.told(each)

    def gone(self, namespace: str, name: str) -> None:
        """An event is gone, maybe one of ours."""
        self._correlator.drop(namespace, name)

    def failed(self, failure: Failure) -> None:
        """An event tells this."""
        if len(self._waiting) >= MOST_WAITING:
            self._counter.event("dropped")
            return
        self._waiting.append(_Seen(failure))

    async def _turn(self, holder: Holder) -> None:
        if not self.reflectors[0].synced:
            return  # what is told already is not known yet
        if self._failed.is_news:
            since = self._around.now() - timedelta(seconds=FRESH_SECONDS)
            for failure in self._failed.since(since):
                self._correlator.see(failure.about, failure)
        for _ in range(len(self._waiting)):
            await self._look(self._waiting.popleft())
            self._turned()
        while self._is_ours(holder) and (write := self._correlator.due()):
            await self._write(write, holder.identity)
            self._turned()
        if self._correlator.dropped:
            self._counter.event("dropped", self._correlator.dropped)
            self._correlator.dropped = 0

    async def _look(self, seen: _Seen) -> None:
        """Hand on a failure once its TrainJob is known, or look again later."""
        now, about = self._around.clock(), seen.failure.about
        if seen.not_before > now:
            self._waiting.append(seen)
            return
        is_there = self._exists(about.namespace, about.name)
        # Not to know yet, or not to be able to ask, is no fault of the event: that ends.
        looks, job = seen.looks + (is_there is not None), None
        if is_there:
            try:
                job = await self._job_of(about)
            except CallFailure as error:
                self._tell_once(f"cannot read by name: {_said(error)}")
                looks = seen.looks
        if job is not None:
            self._correlator.see(job, seen.failure)
        elif looks < LOOKS:
            self._waiting.append(_Seen(seen.failure, looks, now + LOOK_SECONDS))

    async def _job_of(self, about: Ref) -> Ref | None:
        """The TrainJob that something is about: itself, or the one whose JobSet it is."""
        return about if about.kind == names.TRAIN_JOB else await self._jobsets.owner(about)

    # What is written

    async def _write(self, write: Write, reporter: str) -> None:
        try:
            if write.told is None:
                stored = await self._calls.send("POST", write.collection, write.event(reporter))
            else:
                stored = await self._calls.send("PATCH", write.path, write.patch(write.told))
        except (Unreachable, TimeoutError) as error:
            self._correlator.again(write, is_hopeful=True)
            self._failed_to_write(error)
        except ApiError as error:
            self._not_written(write, error)
        else:
            each = failures.told(values.obj(stored))
            if each is not None:
                self.told(each)
            self._counter.event("created" if write.told is None else "counted")
            self._tell_once("")
            self._logger.debug(
                "event", namespace=write.job.namespace, name=write.job.name, reason=write.reason
            )

    def _not_written(self, write: Write, error: ApiError) -> None:
        is_new = write.told is None
        if error.status == 404 and not is_new:
            self._correlator.drop(*write.key)
            self._correlator.again(write)
        elif error.status == 409 or (error.status == 422 and not is_new):
            self._correlator.again(write)  # the watch will tell what is there
        elif error.status == 429 or error.status >= 500:
            self._correlator.again(write)
            self._failed_to_write(error)
        else:
            # 403 and 404 are what a namespace that ends says, and whoever took the right away.
            self._failed_to_write(error)

    def _failed_to_write(self, error: Exception) -> None:
        self._counter.event("failed")
        self._tell_once(f"cannot write: {_said(error)}")

    def _tell_once(self, problem: str) -> None:
        if problem and problem != self._problem:
            self._logger.warning("events", problem=problem)
        self._problem = problem


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


class _Others:
    """Hands on what others tell."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def swap(self, kept: Sequence[bytes]) -> None:
        for data in kept:
            self.put(orjson.loads(data))

    def put(self, obj: dict[str, Any]) -> None:
        failure = failures.of_event(obj)
        if failure is not None:
            self._mirror.failed(failure)

    def drop(self, namespace: str, name: str) -> None:
        """What happened has happened."""


class _WithOurs(_Others):
    """And which Events of ours there are: those about TrainJobs."""

    def swap(self, kept: Sequence[bytes]) -> None:
        self._mirror.told_all(
            told
            for event in map(orjson.loads, kept)
            if failures.is_ours(event) and (told := failures.told(event))
        )
        super().swap(kept)

    def put(self, obj: dict[str, Any]) -> None:
        told = failures.told(obj) if failures.is_ours(obj) else None
        if told is not None:
            self._mirror.told(told)
        super().put(obj)

    def drop(self, namespace: str, name: str) -> None:
        self._mirror.gone(namespace, name)


_FIELDS: Final = (
    *("involvedObject", "type", "reason", "message", "eventTime", "series"),
    *("firstTimestamp", "lastTimestamp", "count", "source", "reportingComponent", "related"),
)
_METADATA: Final = ("namespace", "name", "uid", "resourceVersion")


def kept(event: dict[str, Any]) -> dict[str, Any]:
    """What is read of an event."""
    metadata = values.obj(event.get("metadata"))
    return {
        "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
        **{key: event[key] for key in _FIELDS if key in event},
    }
