"""Reads from lists and events only what somebody keeps.

Who does: ``cluster.keep`` of the framework, ``events.kept``, ``statuses.kept``. An object in a cluster is for the most part managed fields. Skipped while they are read they cost nothing; as
Python objects a page of them takes 40 MB, which a process does not give back.
"""

from __future__ import annotations

from typing import Any, Final, TypedDict

import msgspec


class _Metadata(TypedDict, total=False):
    name: Any
    namespace: Any
    labels: Any
    annotations: Any
    ownerReferences: Any
    resourceVersion: Any
    uid: Any
    generation: Any
    creationTimestamp: Any


class _Status(TypedDict, total=False):
    conditions: Any
    observedGeneration: Any
    counts: Any


class _Object(TypedDict, total=False):
    """An object, or the Status that a watch may send in place of one."""

    metadata: _Metadata | None
    spec: Any
    overhead: Any
    data: Any
    status: _Status | str | None
    code: Any
    reason: Any
    involvedObject: Any
    """From here on: of a core/v1 Event, and so is ``reason``."""
    type: Any
    message: Any
    eventTime: Any
    series: Any
    firstTimestamp: Any
    lastTimestamp: Any
    count: Any
    source: Any
    reportingComponent: Any
    related: Any


class _Page(TypedDict, total=False):
    metadata: dict[str, Any] | None
    items: list[_Object] | None


class _Event(TypedDict, total=False):
    type: Any
    object: _Object | None


_PAGES: Final = msgspec.json.Decoder(_Page)
_EVENTS: Final = msgspec.json.Decoder(_Event)


def page(data: bytes) -> Any:
    """One page of a list. Raises ValueError where it is none."""
    return _decode(_PAGES, data)


def event(data: bytes) -> Any:
    """One event of a watch. Raises ValueError where it is none."""
    return _decode(_EVENTS, data)


def _decode(decoder: msgspec.json.Decoder[Any], data: bytes) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
