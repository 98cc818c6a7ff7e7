"""The three generations of overrides, converted into one another: the same JobSet, said to another Trainer.

A TrainJob customises its pods in ``podSpecOverrides`` (Trainer 2.0), ``podTemplateOverrides`` (2.1) or
``runtimePatches`` (2.2 and later), and the API server of one line silently prunes the fields of the others
(trainer-semantics 1.10)::

    converted = generations.convert(train_job, LINES["2.3"])
    converted.findings.errors      # what the target cannot say, each at its path in train_job
    converted.findings.warnings    # what is lost without changing what is built
    converted.obj                  # a new object; a plain copy of train_job where there are errors

Conversion is all or nothing: half a job is no job. What the result builds is what the original builds, so precedence and
list order stay; a field that the line of the original ignores and the target would obey is left out, with
a warning. Fields that no line knows are kept. TrainingRuntimes and ClusterTrainingRuntimes are converted as
far as their lines differ in fields; objects of other kinds are copied.

=============  ==============================================================================
``marks``      which lines an object can have been written for
``translate``  copies values from one line's Go types to another's, and finds what has no place
``steps``      overrides of any generation as a list of steps, each for one job
``listed``     ``podSpecOverrides`` and ``podTemplateOverrides``: from and to steps
``patches``    ``runtimePatches``: from and to steps
``compose``    two steps of one job as one, where that is exactly the same
``jobs``       TrainJobs; ``runtimes``: both kinds of runtime
=============  ==============================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.field import Findings
from plugins.framework.generations import jobs, marks, runtimes
from plugins.framework.lines import LINES, Line

__all__ = ["Converted", "convert"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """An object as the target line reads it, and what there is to say about the way there."""

    obj: dict[str, Any]
    findings: Findings


def convert(raw: dict[str, Any], to: Line) -> Converted:
    """``raw`` for the Trainer line ``to``. ``raw`` is left as it is, and nothing in it makes this raise.

    The line of ``raw`` is the newest that has all its fields; if that is ``to``, the result is a copy, empty
    fields of other generations left out.
    """
    findings = Findings()
    obj = _converted(raw, to, findings)
    if obj is None or findings.errors:
        obj = values.copy(raw)
    return Converted(obj=obj, findings=findings)


def _converted(raw: dict[str, Any], to: Line, findings: Findings) -> dict[str, Any] | None:
    """The new object; None where it would be a copy."""
    kind, spec = raw.get("kind"), raw.get("spec")
    if kind == names.TRAIN_JOB:
        lines = marks.agreed(marks.of_job(raw), findings)
        same, convert_spec = jobs.tidy, jobs.convert_spec
    elif kind in names.RUNTIME_KINDS:
        lines = marks.agreed(marks.of_runtime(raw), findings)
        same, convert_spec = _as_is, runtimes.convert_spec
    else:
        return None
    if not lines:
        return None
    newest = LINES[lines[-1]]
    new = same(spec, to) if newest == to else convert_spec(spec, newest, to, findings)
    return {key: new if key == "spec" else values.copy(item) for key, item in raw.items()}


def _as_is(spec: Any, target: Line) -> Any:
    del target
    return values.copy(spec)
