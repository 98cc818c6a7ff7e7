"""What the cluster can do, as its CustomResourceDefinitions show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from plugins.framework.cluster import Snapshot
    from plugins.framework.lines import Line

GANGS: Final = {
    "podgroups.scheduling.x-k8s.io": "coscheduling",
    "podgroups.scheduling.volcano.sh": "volcano",
}
"""Whose PodGroups there can be, by the CRD that makes them possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What of the Trainer and of gang schedulers is installed."""

    line: Line | None = None
    """Whose TrainJobs the API server stores; None without the CRD, or with one that we do not know."""

    gangs: tuple[str, ...] = ()
    """``coscheduling``, ``volcano``."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """Read them off a snapshot."""
        served = snapshot.served or frozenset()
        gangs = tuple(gang for crd, gang in GANGS.items() if crd in served)
        return cls(line=snapshot.crd_line, gangs=gangs)

    @property
    def generation(self) -> str:
        """The override field that TrainJobs have; empty where nothing is known."""
        return self.line.generation if self.line else ""
