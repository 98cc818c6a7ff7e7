"""TrainJobs: everything but the overrides is the same object with the same fields, a few fields apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from plugins.framework import field, values
from plugins.framework.field import Findings, Path
from plugins.framework.generations import compose, listed, patches
from plugins.framework.generations.marks import SPEC, says
from plugins.framework.generations.steps import LABELS, Json, Overrides
from plugins.framework.generations.translate import IN_RUNTIME, Translator, object_at, same_type
from plugins.framework.lines import Line

GENERATIONS: Final = ("podSpecOverrides", "podTemplateOverrides", "runtimePatches")
DEADLINE: Final = "activeDeadlineSeconds"
PROCESSES: Final = "numProcPerNode"
PROCESSES_PATH: Final = SPEC.child("trainer", PROCESSES)


def convert_spec(spec: Any, source: Line, target: Line, findings: Findings) -> Any:
    """The ``spec`` of a TrainJob of one line for another."""
    if spec is None:
        return None
    raw = object_at(findings, SPEC, spec)
    apart = frozenset(SPEC.child(key) for key in _apart(source, target))
    skip = apart | {PROCESSES_PATH, SPEC.child(DEADLINE)}
    translator = Translator(source, target, findings, IN_RUNTIME)
    out: Json = translator.copy(raw, SPEC, same_type("TrainJobSpec"), skip=skip)
    _convert_processes(values.at_obj(out, "trainer"), target, findings)
    if raw.get(DEADLINE) is not None and not target.deadline:
        findings.error(field.forbidden(SPEC.child(DEADLINE), _no_deadline(target)))
    if source.generation == target.generation:
        return _replaced(out, apart, {})
    overrides = (patches if source.has_managers else listed).read(raw, source, target, findings)
    if findings.errors:
        return out
    return _replaced(out, apart, dict(_written(overrides, source, target, findings)))


def tidy(spec: Any, target: Line) -> Any:
    """A copy of a ``spec`` that is of the target's line already, without what is empty and foreign to it."""
    copy = values.copy(spec)
    if type(copy) is not dict:
        return copy
    apart = frozenset(SPEC.child(key) for key in _apart(target, target) if not says(copy.get(key)))
    return _replaced(copy, apart, {})


def _apart(source: Line, target: Line) -> Iterator[str]:
    """Fields of ``spec`` that are written anew, or empty and of no use to the target."""
    if source.generation != target.generation:
        yield from (*GENERATIONS, *LABELS)
        return
    yield from (key for key in GENERATIONS if key != target.generation)
    if not target.spec_metadata:
        yield from LABELS


def _written(
    overrides: Overrides, source: Line, target: Line, findings: Findings
) -> Iterator[tuple[str, Any]]:
    most = 1 if target.unique_targets else patches.MOST_PATCHES if target.has_managers else 0
    if most:
        overrides.steps = compose.reduced(overrides.steps, most, source, target, findings)
    if findings.errors:
        return
    if target.has_managers:
        yield target.generation, patches.write(overrides, source, findings)
    else:
        yield target.generation, listed.write(overrides.steps, target)
        yield from zip(LABELS, (overrides.labels, overrides.annotations), strict=True)


def _replaced(spec: Json, apart: frozenset[Path], fields: dict[str, Any]) -> Json:
    """``spec`` with the new fields where the first of the old ones stood."""
    new = {key: value for key, value in fields.items() if says(value)}
    out: Json = {}
    for key, value in spec.items():
        if SPEC.child(key) in apart:
            out |= new
        else:
            out[key] = value
    return out


def _convert_processes(trainer: Json, target: Line, findings: Findings) -> None:
    """``numProcPerNode`` is an integer, or up to 2.1 one of the words auto, cpu and gpu.

    Without the field a torch job of 2.2 and later does what ``auto`` says (semantics 4.2.1). The other words have
    no successor, and every other policy refuses words or does not look.
    """
    value = trainer.get(PROCESSES)
    if type(value) is int or value is None or (type(value) is float and value.is_integer()):
        return
    if type(value) is not str:
        findings.error(field.type_invalid(PROCESSES_PATH, value, "must be an integer"))
    elif target.proc_per_node_text:
        return
    elif value == "auto":
        del trainer[PROCESSES]
    else:
        detail = (
            f"Trainer {target.name} takes an integer only: write how many processes a node starts, or "
            "leave the field out for one per GPU, or per CPU where there are no GPUs"
        )
        findings.error(field.invalid(PROCESSES_PATH, value, detail))


def _no_deadline(target: Line) -> str:
    return f"Trainer {target.name} has no such field (Trainer 2.2 and later have): leave it out"
