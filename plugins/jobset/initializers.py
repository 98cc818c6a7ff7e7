"""``spec.initializer`` must have a job, a container and a mount to act on (semantics 4.1, G6, G27)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from plugins.framework import field, values
from plugins.framework.api import names
from plugins.framework.field import FieldError, Path

if TYPE_CHECKING:
    from plugins.framework.info import Info
    from plugins.framework.runtime import Job

MOUNT: Final = "initializer"
"""The name that the Trainer looks for; its path plays no part."""

_KINDS: Final = (("dataset", names.DATASET_INITIALIZER), ("model", names.MODEL_INITIALIZER))


def problems(info: Info) -> Iterator[FieldError]:
    """At most one error per initializer, worded as the Trainer words it, with what the runtime has."""
    for key, name in _KINDS:
        source = info.job.initializer.get(key)
        if type(source) is dict:
            detail = _problem(info, key, name)
            if detail:
                # Without the env: it holds credentials, and messages go to audit logs.
                shown = {name: value for name, value in source.items() if name != "env"}
                yield field.invalid(Path("spec", "initializer", key), shown, detail)


def _problem(info: Info, key: str, name: str) -> str:
    job = info.runtime.job(name)
    if job is None:
        there = ", ".join(info.runtime.job_names) or "none"
        return (
            f"must have {name} job when trainJob is configured with input {key}Config; runtime "
            f"{info.runtime.name} has the jobs: {there}"
        )
    if name not in job.names and name not in job.init_names:
        there = ", ".join(sorted(job.names | job.init_names)) or "none"
        return f"must have container with name - {name} in the {name} job; it has: {there}"
    if info.line.initializer_mount_check and not _has_mount(info, name):
        return (
            f"must have volumeMount with name - {MOUNT} in container {name} of the {name} job: "
            "the runtime's owner must add it"
        )
    return _without_effect(info, key, name)


def _has_mount(info: Info, name: str) -> bool:
    pod_set = info.by_name(name)
    container = pod_set.job.container(name) if pod_set else None
    return any(
        m.get("name") == MOUNT for m in values.objects((container or {}).get("volumeMounts"))
    )


def _without_effect(info: Info, key: str, name: str) -> str:
    """The Trainer checks by job name and acts by ancestor label: where they differ nothing is injected."""
    jobs: list[Job] = [p.job for p in info.pod_sets if p.ancestor == name]
    if not jobs:
        return (
            f"has no effect: no job of runtime {info.runtime.name} carries the label "
            f"{names.ANCESTOR_LABEL}: {name}, so the {key} would not be fetched"
        )
    if not any(name in job.names for job in jobs):
        return f"has no effect: job {jobs[0].name} has no regular container named {name}"
    return ""
