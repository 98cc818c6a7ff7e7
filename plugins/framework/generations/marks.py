"""Which Trainer lines an object can have been written for: what its fields say (trainer-semantics 1.6, 1.9)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from plugins.framework import field, values
from plugins.framework.field import Findings, Path
from plugins.framework.lines import LINES

SPEC: Final = Path("spec")
ALL: Final = tuple(LINES)
"""Names of the lines, oldest first."""
OLD: Final = ("2.0", "2.1")
NEW: Final = ("2.2", "2.3")

_JOB_FIELDS: Final = {
    "podSpecOverrides": ("2.0",),
    "podTemplateOverrides": ("2.1",),
    "runtimePatches": NEW,
    "labels": OLD,
    "annotations": OLD,
    "activeDeadlineSeconds": NEW,
}
_RUNTIME_FIELDS: Final = {
    ("mlPolicy", "torch", "numProcPerNode"): OLD,
    ("mlPolicy", "torch", "elasticPolicy"): OLD,
    ("mlPolicy", "torch", "envInjection"): ("2.3",),
    ("mlPolicy", "jax"): NEW,
    ("mlPolicy", "xgboost"): NEW,
    ("mlPolicy", "flux"): NEW,
    ("podGroupPolicy", "volcano"): ("2.1", *NEW),
}


class Mark(NamedTuple):
    """A field that only some lines have."""

    path: Path
    lines: tuple[str, ...]


def of_job(raw: dict[str, Any]) -> list[Mark]:
    """The marks of a TrainJob. Fields that are empty say nothing."""
    spec = values.obj(raw.get("spec"))
    found = [
        Mark(SPEC.child(key), lines) for key, lines in _JOB_FIELDS.items() if says(spec.get(key))
    ]
    if type(values.at(spec, "trainer", "numProcPerNode")) is str:
        found.append(Mark(SPEC.child("trainer", "numProcPerNode"), OLD))
    return found


def of_runtime(raw: dict[str, Any]) -> list[Mark]:
    """The marks of a TrainingRuntime or ClusterTrainingRuntime. A policy may be empty and is one."""
    return [
        Mark(SPEC.child(*steps), lines)
        for steps, lines in _RUNTIME_FIELDS.items()
        if values.at(raw, "spec", *steps) is not None
    ]


def says(value: Any) -> bool:
    """Whether a list or map holds anything; other values always say something."""
    return value not in (None, [], {})


def agreed(marks: list[Mark], findings: Findings) -> tuple[str, ...]:
    """The lines that have all the marked fields, oldest first; empty, with errors, where there is none."""
    lines: tuple[str, ...] = ALL
    kept: list[Mark] = []
    for mark in marks:
        both = tuple(line for line in lines if line in mark.lines)
        if both:
            lines = both
            kept.append(mark)
        else:
            # Each mark is a run of lines without a gap, so one of the others alone leaves none to both.
            other = next(other for other in kept if not set(other.lines) & set(mark.lines))
            findings.error(field.forbidden(mark.path, _mixture(mark, other)))
    return () if findings.errors else lines


def _mixture(mark: Mark, other: Mark) -> str:
    return (
        f"is a field of {spoken(mark.lines)}, and {other.path} one of {spoken(other.lines)}: "
        "an object can be of one generation only"
    )


def spoken(lines: tuple[str, ...]) -> str:
    """``Trainer 2.2 and later``, ``Trainer 2.0 and 2.1``, ``Trainer 2.0``."""
    if lines[-1] == ALL[-1]:
        return f"Trainer {lines[0]}" if len(lines) == 1 else f"Trainer {lines[0]} and later"
    return f"Trainer {' and '.join(lines)}"
