"""Overrides of any generation as steps: one job each, in the order in which the controller merges them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from plugins.framework.field import Path
from plugins.framework.generations.translate import Types

Json = dict[str, Any]

POD_TYPES: Final[Types] = {
    "2.0": "PodSpecOverride",
    "2.1": "PodTemplateSpecOverride",
    "2.2": "PodSpecPatch",
    "2.3": "PodSpecPatch",
}
"""The Go type that holds the fields of the pod in an override."""

LABELS: Final = ("labels", "annotations")
UNUSED: Final = ("finalizers", "name", "namespace")
"""What the API's metadata of overrides has besides; only Job and Pod templates of ``runtimePatches`` use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one override does to one job. All values are copies that a writer may take."""

    job: str
    path: Path
    """Where the original names the job."""
    origin: tuple[int, ...]
    """Indexes of the original's entries: one, or several that were merged."""
    metadata: Json = field(default_factory=dict)
    """Of the Pod template."""
    spec: Json = field(default_factory=dict)
    """Of the Pod."""
    extra: Json = field(default_factory=dict)
    """Fields of the entry that no line knows."""


@dataclass(slots=True, kw_only=True)
class Overrides:
    """All that a TrainJob says about its JobSet, without the generation."""

    labels: Json = field(default_factory=dict)
    """Of the JobSet."""
    annotations: Json = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)


def by_job(steps: list[Step]) -> dict[str, list[Step]]:
    """The steps of each job, jobs in the order of their first one."""
    out: dict[str, list[Step]] = {}
    for step in steps:
        out.setdefault(step.job, []).append(step)
    return out


class Contents:
    """What steps say, as text. The steps of one entry share their values, which are written once."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        """Start with no texts; the steps must outlive this."""
        self._texts: dict[tuple[int, ...], str] = {}

    def of(self, step: Step) -> str:
        """Equal for steps that differ in the job only."""
        parts = (step.metadata, step.spec, step.extra)
        key = tuple(map(id, parts))
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        return text


def grouped(steps: list[Step]) -> list[list[Step]]:
    """Steps of the same entry that say the same, together again: one entry may name several jobs.

    An entry holds a job once, and entries stand one after another, so no step moves past another of its own job.
    """
    contents = Contents()
    groups: dict[tuple[tuple[int, ...], str], list[Step]] = {}
    for step in steps:
        groups.setdefault((step.origin, contents.of(step)), []).append(step)
    return list(groups.values())
