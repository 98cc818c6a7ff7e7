"""What policies want to write to a TrainJob, before it is known whose wish wins.

An option does not write: it plans Writes. The engine gathers those of all policies that match, lets priority and
kind decide (``set``: the higher priority; ``union``: all of them; ``min`` and ``max``: combined), and only then edits
the Draft, so that two policies never overwrite each other by luck.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import msgspec

Mode = Literal["defaults", "overrides"]
Rule = Literal["set", "union", "min", "max"]
Level = Literal["", "JobSet", "Job"]

_MAPS: Final = frozenset({"labels", "annotations", "nodeSelector", "limits", "requests"})
"""Fields whose keys users choose: paths show them in brackets."""


class Item(NamedTuple):
    """One item of a list that the API keys by a field: ``Item("name", "NCCL_DEBUG")``."""

    key: str
    value: str


Step = str | Item


class Place(msgspec.Struct, frozen=True):
    """Where a Write goes.

    ``target`` None is the TrainJob itself, with ``steps`` from its root: ``("spec", "trainer", "env", Item("name", "A"))``.
    Else it is a replicated job by name, with ``steps`` from its pod template: ``("spec", "nodeSelector", "pool")``.
    ``level`` moves the root up: ``Job`` is the Job template of the target, ``JobSet`` (target None) the JobSet; both
    have ``("metadata", "labels" | "annotations", key)`` only.
    """

    target: str | None
    steps: tuple[Step, ...]
    level: Level = ""

    @property
    def is_of_pods(self) -> bool:
        """Whether it is written as an override of what the runtime says."""
        return self.target is not None or self.level == "JobSet"

    def __str__(self) -> str:
        """Print as messages show it: ``spec.trainer.env[A]``, ``spec.nodeSelector[pool] of the pods of job node``."""
        text = shown(self.steps)
        match self.level:
            case "JobSet":
                return f"{text} of the JobSet"
            case "Job":
                return f"{text} of the Job of job {self.target}"
            case _:
                return text if self.target is None else f"{text} of the pods of job {self.target}"


def shown(steps: tuple[Step, ...]) -> str:
    """Steps as Kubernetes shows paths, items and keys of maps in brackets."""
    out: list[str] = []
    before: Step = ""
    for step in steps:
        if isinstance(step, Item):
            out.append(f"[{step.value}]")
        elif isinstance(before, str) and before in _MAPS:
            out.append(f"[{step}]")
        else:
            out.append(f".{step}" if out else step)
        before = step
    return "".join(out)


class Write(msgspec.Struct, frozen=True):
    """One value for one place."""

    place: Place
    value: Any
    rule: Rule = "set"
