"""The annotation ``stationmaster.dev/policies``: what was decided by who created the job, for later updates.

An update comes from anybody: a controller, a colleague. ``subjects`` and ``requestedBy`` ask who created the job, so
the answer is written down on CREATE, as compact JSON with sorted keys and names::

    {"exceptions":["llama-70b-run"],"policies":["vision-gpu-rules","team-vision/quick-jobs"]}

Whoever admits the object writes the annotation anew on CREATE, whatever the user sent, and puts the old one back on
UPDATE; so what ``oldObject`` carries is ours. It is read as if it were not: of any other shape or size it says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.field import Path

PATH: Final = Path("metadata", "annotations").key(names.POLICIES_ANNOTATION)

if TYPE_CHECKING:
    from plugins.framework.draft import Draft

LONGEST: Final = 65536
"""Bytes of the annotation that are read, a quarter of what all annotations of an object may have together.
Only policies with ``subjects`` and exceptions with ``requestedBy`` are in it: some 50 bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the creator of a job matched."""

    policies: frozenset[str] = frozenset()
    """Policies with ``subjects``, as ``document.Key`` prints them: ``name``, or ``namespace/name``."""
    exceptions: frozenset[str] = frozenset()
    """Names of exceptions with ``requestedBy``, of the job's own namespace."""

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.policies or self.exceptions)


NOTHING: Final = Record()


def read(raw: dict[str, Any]) -> Record:
    """The record of a stored object (``oldObject``); an empty one where it has none that we could have written."""
    text = values.at_obj(raw, "metadata", "annotations").get(names.POLICIES_ANNOTATION)
    if type(text) is not str or len(text) > LONGEST:
        return NOTHING
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return NOTHING
    return Record(
        policies=_names(values.obj(found).get("policies")),
        exceptions=_names(values.obj(found).get("exceptions")),
    )


def write(record: Record) -> str:
    """The annotation's text; the same record gives the same bytes."""
    found = {"exceptions": sorted(record.exceptions), "policies": sorted(record.policies)}
    return orjson.dumps({k: v for k, v in found.items() if v}).decode()


def put(draft: Draft, record: Record) -> None:
    """Write the annotation on CREATE, whatever the user sent; there is none where there is nothing to remember."""
    if record:
        draft.set(PATH, write(record))
    else:
        draft.remove(PATH)


def _names(value: Any) -> frozenset[str]:
    return frozenset(name for name in values.items(value) if type(name) is str)
