"""What failed, read off objects that controllers wrote: Warnings without ``firstTimestamp``, and ``Failed`` conditions.

The SDK (kubeflow 0.5, ``get_job_events``) passes over every event without ``firstTimestamp``, and looks at no condition's
reason. What it cannot see that way:

- Warnings of the Trainer (from 2.2 on) on a TrainJob, ``TrainJobResourcesCreationFailed``, and of JobSet (from 0.12 on)
  on a JobSet: written through ``events.k8s.io``, so ``core/v1`` serves them with ``eventTime`` alone;
- ``Failed`` with the reason ``DeadlineExceeded``, for which there is no event at all.

Their earlier versions, Kubernetes' own controllers (Jobs, Pods) and Kueue write the older form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from plugins.framework import values
from plugins.framework.api import names

COMPONENT: Final = "stationmaster"
"""Who wrote our own: ``source.component`` and ``reportingComponent``."""

API_GROUPS: Final = {names.TRAIN_JOB: names.GROUP, names.JOB_SET: "jobset.x-k8s.io"}

LONGEST_REASON: Final = 128
LONGEST_MESSAGE: Final = 1024
"""Both as the API server has them for events of the newer form (kubernetes ``ValidateEventCreate``)."""

MOST_TIMES: Final = 2**31 - 1
"""``count`` is an int32."""

OWN_REASONS: Final = frozenset({"DeadlineExceeded", "TrainingRuntimeNotSupported"})
"""Reasons of ``Failed`` that the Trainer gives itself; all others it copies from the JobSet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """One object, at one moment."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    version: str = ""

    @classmethod
    def of(cls, involved: Mapping[str, Any]) -> Ref | None:
        """The object that an event is about; None unless it is a TrainJob or a JobSet, and fully said."""
        kind = values.text(involved.get("kind"))
        api_version = values.text(involved.get("apiVersion"))
        ref = cls(
            api_version=api_version,
            kind=kind,
            namespace=values.text(involved.get("namespace")),
            name=values.text(involved.get("name")),
            uid=values.text(involved.get("uid")),
            version=values.text(involved.get("resourceVersion")),
        )
        is_known = api_version.partition("/")[0] == API_GROUPS.get(kind, "?")
        return ref if is_known and ref.namespace and ref.name and ref.uid else None

    def as_json(self) -> dict[str, Any]:
        """As an event has it."""
        version = {"resourceVersion": self.version} if self.version else {}
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            **version,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Something that went wrong with an object, as one source tells it."""

    about: Ref
    reason: str
    message: str
    first: datetime
    last: datetime
    times: int
    """How often so far, as far as the source knows."""
    source: str
    """Which event, or which condition."""
    is_condition: bool = False

    @property
    def jobset(self) -> str:
        """The JobSet that it is about, by name; empty where it is the TrainJob itself."""
        if self.about.kind == names.JOB_SET:
            return self.about.name
        return self.about.name if self.is_condition and self.reason not in OWN_REASONS else ""

    @property
    def text(self) -> str:
        """The message for whoever looks at the TrainJob, which may not have one of the JobSet's."""
        return cut(f"JobSet {self.jobset}: {self.message}" if self.jobset else self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An Event of ours, as it is stored."""

    about: Ref
    name: str
    version: str
    reason: str
    count: int
    last: datetime
    related: str = ""
    """The uid of the JobSet that it is about, if it is."""


def is_ours(event: Mapping[str, Any]) -> bool:
    """Whether we wrote it."""
    return COMPONENT in {event.get("reportingComponent"), values.at(event, "source", "component")}


def told(event: Mapping[str, Any]) -> Told | None:
    """An Event of ours, as it was read; None where it is not about a TrainJob."""
    about = Ref.of(values.obj(event.get("involvedObject")))
    metadata = values.obj(event.get("metadata"))
    last = moment(event.get("lastTimestamp"))
    if about is None or about.kind != names.TRAIN_JOB or last is None:
        return None
    return Told(
        about=about,
        name=values.text(metadata.get("name")),
        version=values.text(metadata.get("resourceVersion")),
        reason=values.text(event.get("reason")),
        count=_times(event.get("count")),
        last=last,
        related=values.text(values.at(event, "related", "uid")),
    )


def of_event(event: Mapping[str, Any]) -> Failure | None:
    """What an event tells that the SDK cannot see; None where there is nothing of that."""
    if event.get("type") != "Warning" or event.get("firstTimestamp") or is_ours(event):
        return None
    about = Ref.of(values.obj(event.get("involvedObject")))
    first = moment(event.get("eventTime"))
    source = values.text(values.at(event, "metadata", "uid"))
    reason = values.text(event.get("reason"))[:LONGEST_REASON]
    if about is None or first is None or not source or not reason:
        return None
    if about.namespace != values.at(event, "metadata", "namespace"):
        return None  # whoever may write there may not speak for here
    series = event.get("series")
    last, times = first, 1
    if type(series) is dict:
        # One that has begun is of two at least, whatever client-go before 1.27 counts.
        times = max(2, _times(series.get("count")))
        last = max(first, moment(series.get("lastObservedTime")) or first)
    return Failure(
        about=about,
        reason=reason,
        message=values.text(event.get("note") or event.get("message")),
        first=first,
        last=last,
        times=times,
        source=source,
    )


def of_train_job(job: Mapping[str, Any]) -> Failure | None:
    """What the condition ``Failed`` of a TrainJob tells; None where it has not failed."""
    metadata = values.obj(job.get("metadata"))
    about = Ref.of(
        {**metadata, "kind": names.TRAIN_JOB, "apiVersion": values.text(job.get("apiVersion"))}
    )
    for condition in values.objects(values.at(job, "status", "conditions")):
        if condition.get("type") != "Failed" or condition.get("status") != "True":
            continue
        at = moment(condition.get("lastTransitionTime"))
        reason = values.text(condition.get("reason"))[:LONGEST_REASON]
        if about is None or at is None or not reason:
            return None
        return Failure(
            about=about,
            reason=reason,
            message=values.text(condition.get("message")),
            first=at,
            last=at,
            times=1,
            source=f"{about.uid}/Failed",
            is_condition=True,
        )
    return None


def moment(value: object) -> datetime | None:
    """A time as Kubernetes writes it; None where it is none."""
    if type(value) is not str:
        return None
    try:
        made = datetime.fromisoformat(value)
        # Whoever leaves out the zone means UTC, and at the ends of time there is no other zone to go to.
        return made.replace(tzinfo=UTC) if made.tzinfo is None else made.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def cut(message: str) -> str:
    """A message of a length that an event may have."""
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 4]} ..."


def name_of(about: Ref, reason: str, message: str) -> str:
    """Of the Event that tells this: the same for every replica, so that it is told once."""
    digest = hashlib.sha256(f"{about.uid}\0{reason}\0{message}".encode(errors="replace"))
    return f"{about.name}.{digest.hexdigest()[:16]}"


def _times(value: object) -> int:
    return min(max(1, value), MOST_TIMES) if type(value) is int else 1
