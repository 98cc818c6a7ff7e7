"""Which Events to write: one for each TrainJob, reason and message, counted on, and never too many at once.

As client-go's ``EventCorrelator`` does it for those who write events in a cluster, with its numbers: what is said again is
counted; what is said in ever other words becomes one Event; and of one object only so many are written. What differs: what
cannot be written yet is not lost, but waits and is counted together; and a successor goes on counting where we ended, as
the Events are read first and their names follow from what they say.

Nothing here waits or asks anybody: ``see`` what failed, then write what is ``due``, and say what became of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from plugins.framework.api import names
from webhook.kube.allowance import Allowance
from webhook.kube.failures import COMPONENT, MOST_TIMES, Failure, Ref, Told, cut, name_of
from webhook.kube.recent import Recent

JOB_BURST: Final = 25
JOB_PER_SECOND: Final = 1 / 300
"""Of one TrainJob, as client-go's spam filter has it."""

BURST: Final = 50
PER_SECOND: Final = 5.0
"""Of all. A thousand jobs that fail at once, for a runtime that is wrong, are told within some minutes."""

MOST_SIMILAR: Final = 10
SIMILAR_SECONDS: Final = 600
"""So many messages for one reason of one job within that time; what is new then shares one Event."""
COMBINED: Final = "(combined from similar events): "

GRACE_SECONDS: Final = 10.0
"""How long a condition waits for the event that tells the same."""

MOST_ATTEMPTS: Final = 5
"""After 2, 4, 8, 16 and 32 seconds."""
UNREACHABLE_SECONDS: Final = 10.0
MOST_TOLD: Final = 16384
MOST_COUNTED: Final = 16384
MOST_PENDING: Final = 2048
MOST_JOBS: Final = 4096
"""Bounds of what is remembered; the oldest goes. All of it full is some 20 MB."""

Key: TypeAlias = tuple[str, str]
"""Namespace and name of an Event of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """An Event to create, or to count on."""

    job: Ref
    name: str
    reason: str
    message: str
    first: datetime
    last: datetime
    more: int
    """How often since it was last told."""
    related: Ref | None = None
    is_condition: bool = False
    not_before: float = 0.0
    attempts: int = 0
    is_paid: bool = False
    """Whether the job's allowance has been used for it."""
    told: Told | None = None
    """What there is of it already."""

    @property
    def key(self) -> Key:
        """Which Event."""
        return self.job.namespace, self.name

    @property
    def collection(self) -> str:
        """Where it is created."""
        return f"/api/v1/namespaces/{self.job.namespace}/events"

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self.collection}/{self.name}"

    def event(self, reporter: str) -> dict[str, Any]:
        """The new Event; ``reporter`` is which of us writes it."""
        related = {"related": self.related.as_json()} if self.related else {}
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": self.job.namespace},
            "involvedObject": self.job.as_json(),
            **related,
            "type": "Warning",
            "reason": self.reason,
            "message": self.message,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": reporter,
            "firstTimestamp": _stamp(self.first),
            "lastTimestamp": _stamp(self.last),
            "count": min(self.more, MOST_TIMES),
        }

    def patch(self, told: Told) -> list[dict[str, Any]]:
        """A JSON Patch that counts on, if the Event is still as it was read."""
        count = min(told.count + self.more, MOST_TIMES)
        return [
            {"op": "test", "path": "/metadata/resourceVersion", "value": told.version},
            {"op": "add", "path": "/count", "value": count},
            {"op": "add", "path": "/lastTimestamp", "value": _stamp(max(self.last, told.last))},
            {"op": "add", "path": "/message", "value": self.message},
        ]


class Correlator:
    """What is told, what waits to be told, and who may say how much."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Know nothing; ``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._told: Recent[Key, Told] = Recent(MOST_TOLD)
        self._counted: Recent[str, int] = Recent(MOST_COUNTED)
        self._similar: Recent[tuple[str, str], dict[str, datetime]] = Recent(MOST_JOBS)
        self._pending: OrderedDict[Key, Write] = OrderedDict()
        self._jobs: Recent[Key, Allowance] = Recent(MOST_JOBS)
        self._all = Allowance(burst=BURST, per_second=PER_SECOND, clock=clock)
        self.dropped = 0
        """Failures that could not be told, for want of room or after too many attempts."""

    @property
    def waiting(self) -> int:
        """How many Events wait to be written."""
        return len(self._pending)

    # What is there

    def swap(self, told: Sequence[Told]) -> None:
        """These are all the Events of ours that there are."""
        self._told.clear()
        for each in told:
            self.put(each)

    def put(self, told: Told) -> None:
        """This one is there, as it is now."""
        self._told[told.about.namespace, told.name] = told
        self._note(told.about, told.reason, told.name, told.last)

    def drop(self, namespace: str, name: str) -> None:
        """This one is gone: after an hour, as API servers keep events."""
        self._told.pop((namespace, name))

    # What failed

    def see(self, job: Ref, failure: Failure) -> None:
        """Something failed, or failed again, of a TrainJob."""
        counted = self._counted.get(failure.source)
        if counted is not None and failure.times <= counted:
            return
        self._counted[failure.source] = failure.times
        write = self._write(job, failure)
        pending, told = self._pending.get(write.key), self._told.get(write.key)
        if failure.is_condition:
            if pending is not None or told is not None:
                return  # the JobSet has said so; to fail is no news twice
            later = self._clock() + GRACE_SECONDS if failure.jobset else 0.0
            self._wait(replace(write, not_before=later))
            return
        more = failure.times - (counted or 0) if told is None else _more(failure, counted, told)
        if more > 0 and (pending is None or pending.is_condition):
            self._wait(replace(write, more=more))
        elif more > 0 and pending is not None:
            self._wait(_merged(pending, replace(write, more=more)))

    def _write(self, job: Ref, failure: Failure) -> Write:
        name = name_of(job, failure.reason, failure.text)
        message = failure.text
        similar = self._similar.get((job.uid, failure.reason)) or {}
        since = failure.last - timedelta(seconds=SIMILAR_SECONDS)
        if name not in similar and sum(at >= since for at in similar.values()) >= MOST_SIMILAR:
            name = name_of(job, failure.reason, COMBINED)
            message = cut(COMBINED + failure.text)
        return Write(
            job=job,
            name=name,
            reason=failure.reason,
            message=message,
            first=failure.first,
            last=failure.last,
            more=failure.times,
            related=failure.about if failure.about.kind == names.JOB_SET else None,
            is_condition=failure.is_condition,
        )

    def _wait(self, write: Write) -> None:
        if write.key not in self._pending and len(self._pending) >= MOST_PENDING:
            self.dropped += 1
            return
        self._pending[write.key] = write
        self._note(write.job, write.reason, write.name, write.last)

    def _note(self, job: Ref, reason: str, name: str, at: datetime) -> None:
        """That this reason was given in these words, lately."""
        if name == name_of(job, reason, COMBINED):
            return
        similar = self._similar.get((job.uid, reason)) or {}
        similar[name] = max(at, similar.get(name, at))
        if len(similar) > MOST_SIMILAR:
            del similar[min(similar, key=lambda each: similar[each])]
        self._similar[job.uid, reason] = similar

    # What to write

    def due(self) -> Write | None:
        """The next Event to write now; it waits no longer, so say what became of it."""
        if self._all.is_empty():
            return None
        now = self._clock()
        for key, write in self._pending.items():
            if write.not_before <= now and (write.is_paid or self._job(write.job).take()):
                self._all.take()
                del self._pending[key]
                return replace(write, told=self._told.get(key), is_paid=True)
        return None

    def _job(self, job: Ref) -> Allowance:
        # By name: uids are easily made up by whoever may write events.
        key = job.namespace, job.name
        allowance = self._jobs.get(key)
        if allowance is None:
            allowance = Allowance(burst=JOB_BURST, per_second=JOB_PER_SECOND, clock=self._clock)
            self._jobs[key] = allowance
        return allowance

    def again(self, write: Write, *, is_hopeful: bool = False) -> bool:
        """It could not be written: whether it is tried again, in a while.

        ``is_hopeful`` where the API server could not be asked: that ends, and is no fault of the Event.
        """
        attempts = write.attempts + (not is_hopeful)
        if attempts > MOST_ATTEMPTS:
            self.dropped += 1
            return False
        later = self._clock() + (UNREACHABLE_SECONDS if is_hopeful else 2.0**attempts)
        write = replace(write, told=None, attempts=attempts, not_before=later)
        newer = self._pending.get(write.key)
        self._wait(write if newer is None else _merged(write, newer))
        return True


def _more(failure: Failure, counted: int | None, told: Told) -> int:
    """How often it happened since it was told.

    Of a source that is new to us, what happened before then was told, by us or by whoever wrote the Events before us.
    Times of Events have no fractions.
    """
    if counted is not None:
        return failure.times - counted
    if failure.last.replace(microsecond=0) <= told.last:
        return 0
    return 1 if failure.first.replace(microsecond=0) <= told.last else failure.times


def _merged(write: Write, newer: Write) -> Write:
    """Both, as one; it waits as long as the first did."""
    return replace(
        newer,
        first=min(write.first, newer.first),
        last=max(write.last, newer.last),
        more=write.more + newer.more,
        related=newer.related or write.related,
        not_before=write.not_before,
        attempts=write.attempts,
        is_paid=write.is_paid,
    )


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
