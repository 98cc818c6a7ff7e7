"""Overrides of any generation as steps: one job each, in the order in which the controller merges them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from plugins.framework import values
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

    def says_the_same(self, other: Step) -> bool:
        """Whether two steps differ in the job only."""
        mine = [self.metadata, self.spec, self.extra]
        return values.same(mine, [other.metadata, other.spec, other.extra])


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


def grouped(steps: list[Step]) -> list[list[Step]]:
    """Steps of the same entry that say the same, together again: one entry may name several jobs.

    An entry holds a job once, and entries stand one after another, so no step moves past another of its own job.
    """
    groups: list[list[Step]] = []
    of_entry: dict[tuple[int, ...], list[list[Step]]] = {}
    for step in steps:
        own = of_entry.setdefault(step.origin, [])
        for group in own:
            if group[0].says_the_same(step):
                group.append(step)
                break
        else:
            own.append([step])
            groups.append(own[-1])
    return groups
