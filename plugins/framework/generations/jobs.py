"""TrainJobs: everything but the overrides is the same object with the same fields, a few fields apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from plugins.framework import field, values
from plugins.framework.field import Findings, Path
from plugins.framework.generations import compose, listed, patches
from plugins.framework.generations.marks import SPEC, says
from plugins.framework.generations.steps import LABELS, Json, Overrides
from plugins.framework.generations.translate import Translator, object_at, same_type
from plugins.framework.lines import Line

GENERATIONS: Final = ("podSpecOverrides", "podTemplateOverrides", "runtimePatches")
DEADLINE: Final = "activeDeadlineSeconds"
PROCESSES: Final = SPEC.child("trainer", "numProcPerNode")


def convert_spec(spec: Any, source: Line, target: Line, findings: Findings) -> Any:
    """The ``spec`` of a TrainJob of one line for another."""
    if spec is None:
        return None
    raw = object_at(findings, SPEC, spec)
    same = source.generation == target.generation
    apart = frozenset(SPEC.child(key) for key in _apart(raw, source, target))
    skip = apart | {PROCESSES, SPEC.child(DEADLINE)}
    out: Json = Translator(source, target, findings).copy(
        raw, SPEC, same_type("TrainJobSpec"), skip=skip
    )
    _convert_processes(out, target, findings)
    if raw.get(DEADLINE) is not None and not target.deadline:
        findings.error(field.forbidden(SPEC.child(DEADLINE), _no_deadline(target)))
    if same:
        return out
    overrides = _read(raw, source, target, findings)
    if findings.errors:
        return out
    return _replaced(out, apart, dict(_written(overrides, source, target, findings)))


def _apart(raw: Json, source: Line, target: Line) -> Iterator[str]:
    """Fields of ``spec`` that are written anew: overrides, and metadata of the JobSet."""
    yield from (key for key in GENERATIONS if key != target.generation)
    if source.generation != target.generation:
        yield from (*LABELS, target.generation)
    elif not target.spec_metadata:
        yield from (key for key in LABELS if not says(raw.get(key)))


def _read(raw: Json, source: Line, target: Line, findings: Findings) -> Overrides:
    read = patches.read if source.has_managers else listed.read
    return read(raw, source, target, findings)


def _written(
    overrides: Overrides, source: Line, target: Line, findings: Findings
) -> Iterator[tuple[str, Any]]:
    most = 1 if target.unique_targets else patches.MOST_PATCHES if target.has_managers else None
    if most is not None:
        overrides.steps = compose.reduced(overrides.steps, most, source, target, findings)
    if target.has_managers:
        yield target.generation, patches.write(overrides, findings)
        return
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


def _convert_processes(spec: Json, target: Line, findings: Findings) -> None:
    """``numProcPerNode`` is an integer, or up to 2.1 one of the words auto, cpu and gpu.

    Without the field a torch job of 2.2 and later does what ``auto`` says (semantics 4.2.1). The other words have
    no successor, and every other policy refuses words or does not look.
    """
    trainer = values.obj(spec.get("trainer"))
    value = trainer.get(PROCESSES[-1])
    if type(value) is int or value is None or (type(value) is float and value.is_integer()):
        return
    if type(value) is not str:
        findings.error(field.type_invalid(PROCESSES, value, "must be an integer"))
    elif target.proc_per_node_text:
        return
    elif value == "auto":
        del trainer[PROCESSES[-1]]
    else:
        findings.error(
            field.invalid(
                PROCESSES,
                value,
                f"Trainer {target.name} takes an integer only: write how many processes a node starts, or leave "
                "the field out for one per GPU, or per CPU where there are no GPUs",
            )
        )


def _no_deadline(target: Line) -> str:
    return (
        f"Trainer {target.name} has no such field (Trainer 2.2 and later have): leave it out, "
        "or set it in the Job templates of the runtime"
    )
