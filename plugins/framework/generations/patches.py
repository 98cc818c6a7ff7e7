"""``runtimePatches`` (Trainer 2.2 and later), from and to steps (trainer-semantics 1.5, 3.2, 3.5)."""

from __future__ import annotations

from typing import Any, Final

from plugins.framework import field, values
from plugins.framework.field import Findings, Path
from plugins.framework.generations.listed import ENTRY_TYPES, no_place, not_a_job, not_in_2_0
from plugins.framework.generations.marks import SPEC
from plugins.framework.generations.steps import (
    LABELS,
    POD_TYPES,
    UNUSED,
    Contents,
    Json,
    Overrides,
    Step,
)
from plugins.framework.generations.translate import (
    IN_RUNTIME,
    Translator,
    list_at,
    object_at,
    same_type,
)
from plugins.framework.lines import Line

PATCHES: Final = "runtimePatches"
MOST_PATCHES: Final = 16
MOST_JOBS: Final = 100
"""maxItems of ``runtimePatches`` and of the ``replicatedJobs`` of one."""
MOST_CHARACTERS: Final = 8 << 20
"""The bound of what is read; no API server would store a tenth of it."""
MANAGER_PREFIX: Final = "converted.stationmaster.dev/"
"""Managers that we make are this and the index of the patch: ``<host>/<path>``, as the Trainer demands, no two equal."""


def read(spec: Json, source: Line, target: Line, findings: Findings) -> Overrides:
    """The overrides of a 2.2 or 2.3 job. ``time`` is the Trainer's own stamp and goes without a word."""
    reader = _Reader(source, target, findings)
    top = SPEC.child(PATCHES)
    for i, raw in enumerate(list_at(findings, top, spec.get(PATCHES))):
        if type(raw) is dict:
            reader.patch(raw, top.index(i), i)
        else:
            findings.error(field.type_invalid(top.index(i), raw, "must be an object"))
    return reader.out


class _Reader:
    """Reads the patches of one job, one after another, into ``out``."""

    __slots__ = ("_findings", "_pods", "_target", "out")

    def __init__(self, source: Line, target: Line, findings: Findings) -> None:
        self._target = target
        self._findings = findings
        self._pods = Translator(source, target, findings, IN_RUNTIME)
        self.out = Overrides()

    def patch(self, patch: Json, path: Path, i: int) -> None:
        self._tell_manager(patch.get("manager"), path.child("manager"))
        below = path.child("trainingRuntimeSpec")
        runtime = self._only(patch, path, "trainingRuntimeSpec", "manager", "time")
        template = self._only(runtime, below, "template")
        below = below.child("template")
        self._jobset_metadata(template.get("metadata"), below.child("metadata"))
        spec = self._only(template, below, "spec", "metadata")
        self._refuse_unknown(spec, below.child("spec"), "replicatedJobs")
        below = below.child("spec", "replicatedJobs")
        seen: set[str] = set()
        for j, raw in enumerate(list_at(self._findings, below, spec.get("replicatedJobs"))):
            here = below.index(j)
            job = object_at(self._findings, here, raw)
            name = job.get("name")
            if type(name) is not str or not name:
                self._findings.error(not_a_job(here.child("name"), name))
            elif name in seen:
                self._findings.error(field.duplicate(here.child("name"), name))
            else:
                seen.add(name)
                self.out.steps.append(self._step(job, here, i))

    def _step(self, job: Json, path: Path, i: int) -> Step:
        besides = {key: item for key, item in job.items() if key not in {"name", "template"}}
        extra = self._pods.copy(besides, path, {self._target.name: ENTRY_TYPES[self._target.name]})
        here = path.child("template")
        template = object_at(self._findings, here, job.get("template"))
        self._job_metadata(template.get("metadata"), here.child("metadata"))
        spec = self._only(template, here, "spec", "metadata")
        here = here.child("spec")
        pod_template = self._only(spec, here, "template")
        here = here.child("template")
        self._refuse_unknown(pod_template, here, "metadata", "spec")
        pod = self._pods.copy(pod_template.get("spec"), here.child("spec"), POD_TYPES)
        if self._target.generation == "podSpecOverrides":
            for key in extra:
                if key in values.obj(pod):
                    self._findings.error(no_place(path.child(key), self._target))
        return Step(
            job=job["name"],
            path=path.child("name"),
            origin=(i,),
            metadata=self._pod_metadata(pod_template.get("metadata"), here.child("metadata")),
            spec=values.obj(pod),
            extra=extra,
        )

    def _tell_manager(self, manager: Any, path: Path) -> None:
        """Entries of older generations have no owner."""
        if type(manager) is not str or manager.startswith(MANAGER_PREFIX):
            return
        self._findings.warn(
            f"{path}: {field.show(manager)} is lost, since {self._target.generation} have no managers"
        )

    def _only(self, value: Json, path: Path, child: str, *known: str) -> Json:
        self._refuse_unknown(value, path, child, *known)
        return object_at(self._findings, path.child(child), value.get(child))

    def _refuse_unknown(self, value: Json, path: Path, *known: str) -> None:
        """Levels that the older generations do not have can keep nothing."""
        for key, item in value.items():
            if key not in known and item is not None:
                self._findings.error(no_place(path.child(key), self._target))

    def _jobset_metadata(self, value: Any, path: Path) -> None:
        """Labels and annotations overlay each other per key, the later patch wins; the rest is ignored."""
        metadata = object_at(self._findings, path, value)
        self._refuse_unknown(metadata, path, *LABELS, *UNUSED)
        for key in UNUSED:
            if metadata.get(key):
                self._findings.warn(f"{path.child(key)}: left out, since the Trainer ignores it")
        for key, out in zip(LABELS, (self.out.labels, self.out.annotations), strict=True):
            own = object_at(self._findings, path.child(key), metadata.get(key))
            out.update({name: values.copy(item) for name, item in own.items() if item is not None})

    def _job_metadata(self, value: Any, path: Path) -> None:
        metadata = object_at(self._findings, path, value)
        self._refuse_unknown(metadata, path, *LABELS, *UNUSED)
        for key in (*LABELS, *UNUSED):
            if metadata.get(key):
                detail = f"{self._target.generation} cannot set metadata of a Job (Trainer 2.2 and later can)"
                self._findings.error(field.forbidden(path.child(key), f"{detail}: {IN_RUNTIME}"))

    def _pod_metadata(self, value: Any, path: Path) -> Json:
        kept: Json = {}
        for key, item in object_at(self._findings, path, value).items():
            here = path.child(key)
            if key in UNUSED:
                if item:
                    detail = f"{self._target.generation} cannot set this in a Pod's metadata (Trainer 2.2 and later can)"
                    self._findings.error(field.forbidden(here, f"{detail}: {IN_RUNTIME}"))
            elif self._target.generation == "podTemplateOverrides":
                kept[key] = item
            else:
                self._findings.error(*not_in_2_0(here, key, item, self._target))
        copied: Json = self._pods.copy(kept, path, same_type("ObjectMeta"))
        return copied


def write(overrides: Overrides, source: Line, findings: Findings) -> list[Json]:
    """The patches of a 2.2 or 2.3 job: as few as keep the order of each job's overrides.

    The first also carries the JobSet's labels and annotations.
    """
    metadata: Json = {}
    for key, item in zip(LABELS, (overrides.labels, overrides.annotations), strict=True):
        if item:
            metadata[key] = values.copy(item)
    layers = _layers(overrides.steps, findings)
    if not findings.errors:
        _refuse_repetition(overrides.steps, SPEC.child(source.generation), findings)
    if findings.errors:
        return []
    patches = []
    for i, layer in enumerate(layers or ([[]] if metadata else [])):
        template: Json = {"metadata": metadata} if metadata and i == 0 else {}
        if layer:
            template["spec"] = {"replicatedJobs": [_replicated_job(step) for step in layer]}
        patches.append(
            {
                "manager": f"{MANAGER_PREFIX}{i}",
                "trainingRuntimeSpec": {"template": template},
            }
        )
    return patches


def _layers(steps: list[Step], findings: Findings) -> list[list[Step]]:
    """Steps in patches: a patch holds each job once, and a job's steps stand in its patches in their order."""
    layers: list[list[Step]] = [[] for _ in range(MOST_PATCHES)]
    following: dict[str, int] = {}
    for step in steps:
        at = following.get(step.job, 0)
        while at < MOST_PATCHES and len(layers[at]) == MOST_JOBS:
            at += 1
        if at == MOST_PATCHES:
            detail = f"{PATCHES} hold at most {MOST_PATCHES} patches of {MOST_JOBS} jobs: use fewer overrides"
            findings.error(field.forbidden(step.path, detail))
            break
        following[step.job] = at + 1
        layers[at].append(step)
    return [layer for layer in layers if layer]


def _refuse_repetition(steps: list[Step], path: Path, findings: Findings) -> None:
    """An older entry says once for many jobs what a patch says again for each of them."""
    contents = Contents()
    if sum(len(contents.of(step)) for step in steps) > MOST_CHARACTERS:
        detail = f"said again for each job as {PATCHES} do, this passes {MOST_CHARACTERS >> 20} MiB: name fewer jobs"
        findings.error(field.forbidden(path, detail))


def _replicated_job(step: Step) -> Json:
    pod_template: Json = {}
    if step.metadata:
        pod_template["metadata"] = values.copy(step.metadata)
    if step.spec:
        pod_template["spec"] = values.copy(step.spec)
    template = {"template": {"spec": {"template": pod_template}}} if pod_template else {}
    return {"name": step.job, **values.copy(step.extra), **template}
