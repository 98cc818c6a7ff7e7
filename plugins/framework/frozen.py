"""What JobSet refuses to change once it exists: all of its jobs, but for a few fields of their pod templates.

The controller applies a changed TrainJob anew, JobSet's webhook refuses that every time, and nobody sees it: a
suspended TrainJob never runs again, and one that runs can no longer be suspended (semantics 6.3, 10.2, G25).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import goform, values

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.info import Info, PodSet
    from plugins.framework.lines import Line
    from plugins.framework.runtime import Job

_CHANGEABLE: Final = frozenset({"nodeSelector", "tolerations", "schedulingGates"})
"""Fields of a pod template that JobSet lets change while suspended, besides labels and annotations."""


def has_jobset(line: Line, job: TrainJob) -> bool:
    """Whether the controller has been here: its first act is the JobSet, its second the status."""
    status = values.obj(job.raw.get("status"))
    left_alone = line.leaves_managed_jobs and job.is_managed_elsewhere
    return bool(status.get("conditions") or status.get("jobsStatus")) and not left_alone


def in_overrides(old: Job, new: Job) -> Iterator[str]:
    """What differs between two jobs with nothing but their overrides merged in."""
    yield from _in_pods(old.pod, new.pod)
    if not values.same(_metadata(old.raw), _metadata(new.raw)):
        yield "the Job's metadata"


def in_built(before: Info, after: Info) -> Iterator[tuple[PodSet, str]]:
    """What differs between two TrainJobs' finished jobs, by name; what their overrides make differ is left out."""
    old = {pod_set.name: pod_set for pod_set in before.pod_sets}
    for pod_set in after.pod_sets:
        stored = old.get(pod_set.name)
        if stored is None:
            continue
        known = set(in_overrides(stored.job, pod_set.job))
        for name in _in_templates(
            *(_typed(info, p) for info, p in ((before, stored), (after, pod_set)))
        ):
            if name not in known:
                yield pod_set, name


def _typed(info: Info, pod_set: PodSet) -> dict[str, Any]:
    """As Go reads it: one amount has one text there."""
    forms = goform.load(info.line.name)
    typed: dict[str, Any] = values.without_empty(forms.normalize(pod_set.template, "ReplicatedJob"))
    return typed


def _in_templates(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    specs = [values.at_obj(job, "template", "spec") for job in (old, new)]
    for key in sorted((specs[0].keys() | specs[1].keys()) - {"template"}):
        if not values.same(specs[0].get(key), specs[1].get(key)):
            yield key
    yield from _in_pods(*(values.at_obj(spec, "template", "spec") for spec in specs))
    if not values.same(_metadata(old), _metadata(new)):
        yield "the Job's metadata"


def _in_pods(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for key in sorted((old.keys() | new.keys()) - _CHANGEABLE):
        if not values.same(old.get(key), new.get(key)):
            yield key


def _metadata(raw: dict[str, Any]) -> Any:
    return values.at(raw, "template", "metadata")
