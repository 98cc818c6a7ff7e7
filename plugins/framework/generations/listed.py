"""``podSpecOverrides`` (Trainer 2.0) and ``podTemplateOverrides`` (2.1), from and to steps.

An entry of either names its jobs in ``targetJobs``. The pod's fields stand beside that in 2.0, in ``spec`` in 2.1, which
has ``metadata`` for the Pod's labels and annotations too; the rest of that metadata the Trainer ignores
(``mergePodTemplateOverrides``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from plugins.framework import field, values
from plugins.framework.field import Findings, Path
from plugins.framework.generations.marks import SPEC
from plugins.framework.generations.steps import (
    LABELS,
    POD_TYPES,
    UNUSED,
    Json,
    Overrides,
    Step,
    grouped,
)
from plugins.framework.generations.translate import (
    IN_RUNTIME,
    Translator,
    Types,
    list_at,
    object_at,
    same_type,
)
from plugins.framework.lines import Line

TARGETS: Final = "targetJobs"
ENTRY_TYPES: Final[Types] = {
    "2.0": "PodSpecOverride",
    "2.1": "PodTemplateOverride",
    "2.2": "ReplicatedJobPatch",
    "2.3": "ReplicatedJobPatch",
}
"""The Go type that holds the name of a job and what is done to it: where unknown fields of an entry are kept."""


class _Target(NamedTuple):
    job: str
    path: Path
    extra: Json


def read(spec: Json, source: Line, target: Line, findings: Findings) -> Overrides:
    """The overrides of a 2.0 or 2.1 job."""
    return Overrides(
        labels=values.copy(object_at(findings, SPEC.child("labels"), spec.get("labels"))),
        annotations=values.copy(
            object_at(findings, SPEC.child("annotations"), spec.get("annotations"))
        ),
        steps=list(_Reader(source, target, findings).steps(spec)),
    )


class _Reader:
    """Reads the entries of one job."""

    __slots__ = ("_findings", "_pods", "_source", "_target")

    def __init__(self, source: Line, target: Line, findings: Findings) -> None:
        self._source = source
        self._target = target
        self._findings = findings
        self._pods = Translator(source, target, findings, IN_RUNTIME)

    def steps(self, spec: Json) -> Iterator[Step]:
        top = SPEC.child(self._source.generation)
        for i, raw in enumerate(list_at(self._findings, top, spec.get(self._source.generation))):
            if type(raw) is dict:
                yield from self._entry(raw, top.index(i), i)
            else:
                self._findings.error(field.type_invalid(top.index(i), raw, "must be an object"))

    def _entry(self, entry: Json, path: Path, i: int) -> Iterator[Step]:
        if entry.get(TARGETS) == []:
            self._findings.warn(f"{path}: left out, since it names no job")
        targets = list(self._targets(entry.get(TARGETS), path.child(TARGETS)))
        body = {key: item for key, item in entry.items() if key != TARGETS}
        if self._source.generation == "podSpecOverrides":
            metadata: Json = {}
            pod = self._pods.copy(body, path, POD_TYPES)
            extra: Json = {}
        else:
            metadata = self._metadata(body.pop("metadata", None), path.child("metadata"))
            pod = self._pods.copy(body.pop("spec", None), path.child("spec"), POD_TYPES)
            extra = self._extra(body, path, self._beside(pod))
        for target in targets:
            more = self._extra(target.extra, target.path, {**self._beside(pod), **extra})
            yield Step(
                job=target.job,
                path=target.path,
                origin=(i,),
                metadata=metadata,
                spec=values.obj(pod),
                extra={**extra, **more} if more else extra,
            )

    def _targets(self, value: Any, path: Path) -> Iterator[_Target]:
        """The jobs that an entry names, each once: the controller only asks whether a job is among them."""
        if value is None:
            self._findings.error(field.required(path, "must name the jobs that are overridden"))
        seen: set[str] = set()
        for i, raw in enumerate(list_at(self._findings, path, value)):
            item = object_at(self._findings, path.index(i), raw)
            name = item.get("name")
            if type(name) is not str or not name:
                self._findings.error(not_a_job(path.index(i).child("name"), name))
            elif name not in seen:
                seen.add(name)
                extra = {key: item for key, item in item.items() if key != "name"}
                yield _Target(name, path.index(i), extra)

    def _extra(self, extra: Json, path: Path, taken: Json) -> Json:
        """Fields that the original's line does not know, but for those that the target's would obey."""
        here = {self._target.name: ENTRY_TYPES[self._target.name]}
        kept: Json = self._pods.copy(extra, path, here)
        for key in kept:
            if key in taken:
                self._findings.error(no_place(path.child(key), self._target))
        return kept

    def _beside(self, pod: Any) -> Json:
        """The fields of the pod where they stand in the entry itself."""
        return values.obj(pod) if self._target.generation == "podSpecOverrides" else {}

    def _metadata(self, value: Any, path: Path) -> Json:
        """Labels and annotations of the Pod."""
        kept: Json = {}
        for key, item in object_at(self._findings, path, value).items():
            here = path.child(key)
            if key in UNUSED and not item:
                continue
            if self._target.has_managers and key in UNUSED:
                self._pods.leave_out(here)
            elif self._target.has_managers:
                kept[key] = item
            elif key in UNUSED:
                self._findings.warn(
                    f"{here}: left out, since Trainer {self._source.name} ignores it"
                )
            else:
                self._findings.error(*not_in_2_0(here, key, item, self._target))
        copied: Json = self._pods.copy(kept, path, same_type("ObjectMeta"))
        return copied


def write(steps: list[Step], target: Line) -> list[Json]:
    """The entries of a 2.0 or 2.1 job. An entry that named several jobs does so again."""
    entries = []
    for group in grouped(steps):
        first = group[0]
        entry: Json = {TARGETS: [{"name": step.job} for step in group]}
        if target.generation == "podSpecOverrides":
            entry |= values.copy(first.spec)
        else:
            if first.metadata:
                entry["metadata"] = values.copy(first.metadata)
            if first.spec:
                entry["spec"] = values.copy(first.spec)
        entries.append(entry | values.copy(first.extra))
    return entries


def not_a_job(path: Path, name: Any) -> field.FieldError:
    """The error for a name of a job that is none."""
    if name is None or name == "":
        return field.required(path, "must be the name of a job of the runtime")
    return field.type_invalid(path, name, "must be a string")


def not_in_2_0(path: Path, key: str, item: Any, target: Line) -> Iterator[field.FieldError]:
    """The error for metadata of a Pod on the way to 2.0, which has no place for it; none for what says nothing."""
    if key in LABELS:
        if item:
            detail = f"podSpecOverrides of Trainer 2.0 cannot set metadata of a Pod (Trainer 2.1 and later can): {IN_RUNTIME}"
            yield field.forbidden(path, detail)
    elif item is not None:
        yield no_place(path, target)


def no_place(path: Path, target: Line) -> field.FieldError:
    """The error for a field that no line knows and that cannot be kept."""
    return field.forbidden(
        path, f"no place for this unknown field in {target.generation}: leave it out"
    )
