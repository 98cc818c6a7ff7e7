"""Which changes of overrides an update may make: what the Trainer allows, and what JobSet takes afterwards.

The Trainer lets overrides change while a TrainJob is suspended; JobSet then refuses most of what they touch,
where nobody sees it, and the TrainJob stays suspended for ever (semantics 6.3, 10.2, G25).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import field, frozen, goform, values
from plugins.framework.field import FieldError, Path
from plugins.framework.resolve import resolve

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.info import Info
    from plugins.framework.lines import Line

_TITLES: Final = {
    "runtimePatches": "RuntimePatches",
    "podTemplateOverrides": "PodTemplateOverrides",
    "podSpecOverrides": "PodSpecOverrides",
}


def problems(ctx: Context, info: Info | None, old: TrainJob, new: TrainJob) -> Iterator[FieldError]:
    """The suspend rule; then, where a JobSet exists already, what it will not take."""
    line = ctx.line
    key = line.generation
    if values.same(old.spec.get(key), new.spec.get(key)):
        return
    if values.same(_meaning(line, old), _meaning(line, new)):
        return
    at = Path("spec", key)
    may = new.is_suspended or (line.suspended_before_or_after and old.is_suspended)
    if not may:
        when = " before or after the update" if line.suspended_before_or_after else ""
        detail = f"{_TITLES[key]} can only be modified when the TrainJob is suspended{when}"
        yield field.forbidden(at, detail)
    elif info is not None and frozen.has_jobset(line, old):
        yield from _refused_by_jobset(at, info, old, new)


_TYPES: Final = {
    "runtimePatches": "RuntimePatch",
    "podTemplateOverrides": "PodTemplateOverride",
    "podSpecOverrides": "PodSpecOverride",
}


def _meaning(line: Line, job: TrainJob) -> list[Any]:
    """The overrides as the Trainer compares them: as Go reads them, absent and empty alike.

    Without ``time``, which the Trainer's defaulter puts right behind us (semantics 6.2).
    """
    forms = goform.load(line.name)
    kind = _TYPES[line.generation]
    out: list[Any] = []
    for entry in values.items(job.spec.get(line.generation)):
        typed = values.without_empty(forms.normalize(entry, kind))
        out.append(
            {k: v for k, v in typed.items() if k != "time"} if type(typed) is dict else typed
        )
    return out


def _refused_by_jobset(at: Path, info: Info, old: TrainJob, new: TrainJob) -> Iterator[FieldError]:
    stored = resolve(old, info.runtime, info.facts)
    before = {p.name: p.job for p in stored.pod_sets}
    for pod_set in info.pod_sets:
        job = before.get(pod_set.name)
        if job is None or job is pod_set.job:
            continue
        for name in frozen.in_overrides(job, pod_set.job):
            entry = _place(at, new, pod_set.name)
            detail = (
                f"changes {name} of job {pod_set.name}, which JobSet does not let change once it exists: the "
                "TrainJob would stay suspended for ever; delete it and create it anew"
            )
            yield field.forbidden(entry, detail)


def _place(at: Path, new: TrainJob, job_name: str) -> Path:
    """The first entry of the new list that is about this job; the list itself where none is."""
    for i, entry in enumerate(values.objects(new.spec.get(str(at[-1])))):
        jobs = values.at(entry, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        for k, job in enumerate(values.objects(jobs)):
            if job.get("name") == job_name:
                below = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
                return at.index(i).child(*below).index(k)
        for target in values.objects(entry.get("targetJobs")):
            if target.get("name") == job_name:
                return at.index(i)
    return at
