"""Test files to PolicyTests, with every mistake by file and line, and what was meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from plugins.framework import field as words
from plugins.framework import lines, values
from plugins.framework.api import names
from plugins.framework.api.admission import UserInfo
from plugins.framework.cluster import is_meant_as_document
from plugins.framework.errors import ConfigError
from plugins.framework.field import FieldError
from plugins.framework.field import Path as FieldPath
from plugins.framework.schema.syntax import not_label_value, not_qualified_name
from policies.document import API_VERSION
from policies.reading import read as read_document
from policies.reading.fields import Fields, Notes, unsupported
from policies.reading.syntax import moment
from webhook.asked import Asked
from webhook.files import files_of, identity_of, kind_of, read_file
from webhook.suites import places
from webhook.suites.document import LONG_AGO, SUFFIXES, Case, Suite, Want
from webhook.yamlio import Document

JOB_NAME: Final = "test"
"""Of a job that has none."""

_SURROUNDINGS: Final = (
    "trainJob",
    "user",
    "groups",
    "namespaceLabels",
    "now",
    "trainerVersion",
)
_ROOT: Final = (
    "apiVersion",
    "kind",
    "metadata",
    "from",
    "policies",
    "objects",
    *_SURROUNDINGS,
    "cases",
)
_CASE: Final = ("name", *_SURROUNDINGS, "change", "old", "objects", "want")
_WANT: Final = (
    "allowed",
    "refused",
    "refusedOnly",
    "warned",
    "patched",
    "absent",
    "pods",
    "audit",
)
_MOST: Final = 10_000
_LONGEST: Final = 4096
_JOB: Final = "must be a TrainJob, or {file: job.yaml}"


@dataclass(slots=True)
class Found:
    """What test files hold, and what is wrong with them (``FILE:LINE: ...``)."""

    suites: list[Suite] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_all(paths: Iterable[Path]) -> Found:
    """Read the test files among files and folders, each once; a path that leads nowhere does not hide the others."""
    files: dict[Path, None] = {}
    problems: list[str] = []
    for path in paths:
        try:
            found = files_of(path)
        except ConfigError as error:
            problems += str(error).splitlines()
            continue
        files |= dict.fromkeys(f for f in found if f == path or f.name.endswith(SUFFIXES))
    out = read(files)
    out.problems = problems + out.problems
    return out


def read(paths: Iterable[Path]) -> Found:
    """Read test files; one that cannot be read does not hide what is in the others."""
    out = Found()
    for path in paths:
        try:
            inputs = read_file(path)
        except ConfigError as error:
            out.problems.append(str(error))
            continue
        out.problems += map(str, inputs.broken)
        if not inputs.documents and not inputs.broken:
            out.problems.append(f"{path}:1: there is no {names.POLICY_TEST} in it")
        for document in inputs.documents:
            suite, errors = _Reader(path, document).suite()
            # What the whole file says wrong is met again in every case.
            out.problems += dict.fromkeys(_told(document, error) for error in errors)
            if suite is not None and not errors:
                out.suites.append(suite)
    return out


def _told(document: Document, error: FieldError) -> str:
    return f"{document.source}:{document.line_of(error.field)}: {error}"


@dataclass(slots=True)
class _Reader:
    """One document."""

    path: Path
    document: Document
    notes: Notes = field(default_factory=Notes)

    def suite(self) -> tuple[Suite | None, list[FieldError]]:
        """The PolicyTest, or what is wrong."""
        raw = self.document.obj
        kind = kind_of(raw)
        if kind != names.POLICY_TEST or raw.get("apiVersion") != API_VERSION:
            said = " ".join((values.text(raw.get("apiVersion")), kind)).strip() if kind else raw
            detail = f"must be a {names.POLICY_TEST} of {API_VERSION}; other objects stand in files of their own"
            return None, [words.invalid("", said, detail)]
        root = self.notes.open(raw, FieldPath(), _ROOT)
        if root is None:
            return None, self.notes.errors
        root.require("cases", "at least one")
        if root.raw.get("cases") == []:
            self.notes.error(words.required(root.at("cases"), "must have at least one item"))
        cases = [self._case(root, each) for each in root.objects("cases", _CASE, _MOST)]
        self._unique(root, cases)
        return (
            Suite(
                source=self.path,
                cluster=self._paths(root, "from") or (self.path.parent,),
                policies=self._paths(root, "policies"),
                objects=self._objects(root),
                cases=tuple(case for case in cases if case is not None),
            ),
            self.notes.errors,
        )

    def _unique(self, root: Fields, cases: Sequence[Case | None]) -> None:
        known: set[str] = set()
        for i, case in enumerate(cases):
            if case is None or not case.name:
                continue
            if case.name in known:
                path = root.at("cases").index(i).child("name")
                self.notes.error(words.duplicate(path, case.name))
            known.add(case.name)

    def _paths(self, fields: Fields, name: str) -> tuple[Path, ...]:
        out = []
        for text, at in fields.located(name, _MOST, _LONGEST).items():
            path = self.path.parent / text
            if not path.exists():
                self.notes.error(words.not_found(at, text, f"there is no {path}"))
            out.append(path)
        return tuple(out)

    def _objects(self, fields: Fields) -> tuple[dict[str, Any], ...]:
        out = []
        for path, item in fields.items("objects", _MOST):
            if identity_of(item) is None:
                detail = "must be an object with apiVersion, kind and metadata.name"
                self.notes.error(words.invalid(path, item, detail))
                continue
            if is_meant_as_document(item):
                self.notes.errors += (
                    replace(error, path=f"{path}.{error.field}")
                    for error in read_document(item).errors
                )
            out.append(item)
        return tuple(out)

    # Cases

    def _case(self, root: Fields, fields: Fields) -> Case | None:
        fields.require("name", "a case is known by its name")
        name = fields.line("name", _LONGEST)
        if "trainJob" not in fields and "trainJob" not in root:
            fields.require("trainJob", "neither the case nor the file has a job")
        job = self._job(fields if "trainJob" in fields else root, "trainJob")
        change = fields.raw.get("change", {})
        if type(change) is not dict:
            fields.invalid("change", "must be an object: a JSON merge patch of the job")
        old = self._job(fields, "old")
        asked, version = self._asked(root, fields), self._version(root, fields)
        want = self._want(fields)
        if job is None or want is None or type(change) is not dict:
            return None
        return Case(
            name=name,
            line=self.document.line_of(str(fields.path)),
            job=_merged(job, change),
            old=old,
            asked=asked,
            trainer_version=version,
            want=want,
        )

    def _job(self, fields: Fields, name: str) -> dict[str, Any] | None:
        raw = fields.raw.get(name)
        if raw is None:
            return None
        if type(raw) is not dict:
            self.notes.error(words.type_invalid(fields.at(name), raw, _JOB))
            return None
        if raw.keys() == {"file"}:
            raw = self._of_file(fields.at(name).child("file"), raw["file"])
            if raw is None:
                return None
        kind, version = raw.get("kind", names.TRAIN_JOB), raw.get("apiVersion", names.API_VERSION)
        if (kind, version) != (names.TRAIN_JOB, names.API_VERSION):
            detail = f"must be a {names.TRAIN_JOB} of {names.API_VERSION}"
            self.notes.error(words.invalid(fields.at(name), f"{version} {kind}", detail))
            return None
        metadata = raw.get("metadata", {})
        if type(metadata) is dict and not metadata.keys() & {"name", "generateName"}:
            metadata = {"name": JOB_NAME, **metadata}
        return {**raw, "apiVersion": version, "kind": kind, "metadata": metadata}

    def _of_file(self, at: FieldPath, name: Any) -> dict[str, Any] | None:
        if type(name) is not str:
            self.notes.error(words.type_invalid(at, name, "must be the path of a file"))
            return None
        path = self.path.parent / name
        try:
            inputs = read_file(path)
        except ConfigError as error:
            self.notes.error(words.not_found(at, name, str(error)))
            return None
        jobs = [d.obj for d in inputs.documents if kind_of(d.obj) == names.TRAIN_JOB]
        if inputs.broken or len(jobs) != 1:
            detail = str(inputs.broken[0]) if inputs.broken else f"it holds {len(jobs)}"
            self.notes.error(words.invalid(at, name, f"must hold one TrainJob: {detail}"))
            return None
        job: dict[str, Any] = jobs[0]
        return job

    def _asked(self, root: Fields, fields: Fields) -> Asked:
        def where(name: str) -> Fields:
            return fields if name in fields else root

        return Asked(
            user=UserInfo(
                username=where("user").text("user", _LONGEST),
                groups=where("groups").texts("groups", _MOST, _LONGEST),
            ),
            namespace_labels=self._labels(where("namespaceLabels")),
            now=self._moment(where("now")),
            objects=self._objects(fields),
        )

    def _labels(self, fields: Fields) -> dict[str, str]:
        out: dict[str, str] = {}
        for key, path, value in fields.keyed("namespaceLabels", _MOST):
            if type(value) is not str:
                self.notes.error(words.type_invalid(path, value, "must be a string"))
                continue
            for problem in (*not_qualified_name(key), *not_label_value(value)):
                self.notes.error(words.invalid(path, value, problem))
            out[key] = value
        return out

    def _moment(self, fields: Fields) -> Any:
        text = fields.text("now", _LONGEST)
        found = moment(text) if text else LONG_AGO
        if found is None:
            fields.invalid("now", 'must be a moment by RFC 3339, such as "2027-03-31T00:00:00Z"')
        return found

    def _version(self, root: Fields, case: Fields) -> str | None:
        fields = case if "trainerVersion" in case else root
        if "trainerVersion" not in fields:
            return None
        text = fields.text("trainerVersion", _LONGEST)
        if text and text not in lines.LINES:
            self.notes.error(unsupported(fields.at("trainerVersion"), text, lines.LINES))
        return text or None

    # What is wanted

    def _want(self, fields: Fields) -> Want | None:
        fields.require("want", f"one of {', '.join(_WANT)}")
        found = fields.object("want", _WANT)
        if found is None:
            return None
        if not found.raw and not found.has_unknown:
            self.notes.error(
                words.required(found.path, f"must have at least one of {', '.join(_WANT)}")
            )
        want = Want(
            allowed=found.flag("allowed") if "allowed" in found else None,
            refused=self._texts(found, "refused"),
            refused_only=self._texts(found, "refusedOnly"),
            warned=self._texts(found, "warned", may_be_empty=True),
            patched=dict(self._values(found.at("patched"), found.raw.get("patched", {}))),
            absent=self._places(found),
            pods={
                pod_set: dict(self._values(path, raw))
                for pod_set, path, raw in found.keyed("pods", _MOST)
            },
            audit=dict(self._audit(found)),
        )
        if want.is_refusal and (want.allowed or want.patched or want.absent or want.pods):
            detail = "a job cannot be refused and admitted: a refused one has no allowed, patched, absent or pods"
            self.notes.error(words.invalid(found.path, sorted(found.raw), detail))
        return want

    def _texts(
        self, fields: Fields, name: str, *, may_be_empty: bool = False
    ) -> tuple[str, ...] | None:
        if name not in fields:
            return None
        if fields.raw[name] == [] and not may_be_empty:
            self.notes.error(words.required(fields.at(name), "must have at least one item"))
        return fields.texts(name, _MOST, _LONGEST)

    def _values(self, at: FieldPath, raw: Any) -> Iterator[tuple[str, Any]]:
        if type(raw) is not dict:
            detail = "must be an object: a path, and the value that is to be there"
            self.notes.error(words.type_invalid(at, raw, detail))
            return
        for path, value in raw.items():
            self._check_place(at.key(path), path)
            if value is None:
                detail = (
                    "nothing is null after admission: what is to be missing stands under absent"
                )
                self.notes.error(words.invalid(at.key(path), None, detail))
            yield path, value

    def _places(self, fields: Fields) -> tuple[str, ...]:
        found = fields.located("absent", _MOST, _LONGEST)
        for text, at in found.items():
            self._check_place(at, text)
        return tuple(found)

    def _check_place(self, at: FieldPath, text: str) -> None:
        try:
            places.steps_of(text)
        except ValueError as error:
            self.notes.error(words.invalid(at, text, str(error)))

    def _audit(self, fields: Fields) -> Iterator[tuple[str, str]]:
        for key, path, value in fields.keyed("audit", _MOST):
            if type(value) is str:
                yield key, value
            else:
                self.notes.error(words.type_invalid(path, value, "must be a string"))


def _merged(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A JSON merge patch (RFC 7386) applied; the target stays as it is."""
    out = dict(target)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif type(value) is dict:
            out[key] = _merged(values.obj(out.get(key)), value)
        else:
            out[key] = value
    return out
