"""What policies want to write to a TrainJob, before it is known whose wish wins.

An option does not write: it plans Writes. The engine gathers those of all policies that match, lets priority and
kind decide (``set``: the higher priority; ``union``: all of them; ``min`` and ``max``: combined), and only then edits
the Draft, so that two policies never overwrite each other by luck.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Mode = Literal["defaults", "overrides"]
Rule = Literal["set", "union", "min", "max"]


class Item(NamedTuple):
    """One item of a list that the API keys by a field: ``Item("name", "NCCL_DEBUG")``."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a Write goes.

    ``target`` None is the TrainJob itself, with ``steps`` from its root: ``("spec", "trainer", "env", Item("name", "A"))``.
    Else it is a replicated job by name, with ``steps`` from its pod template: ``("spec", "nodeSelector", "pool")``.
    """

    target: str | None
    steps: tuple[str | Item, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """One value for one place."""

    place: Place
    value: Any
    rule: Rule = "set"
