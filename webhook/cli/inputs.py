"""Which documents of FILE, of ``--old`` and of other files a command is about."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.cluster import is_document
from plugins.framework.errors import ConfigError
from plugins.framework.field import show
from webhook.files import duplicates, identity_of, kind_of, read_inputs, read_tree, title_of

if TYPE_CHECKING:
    from pathlib import Path

    from webhook.cli.report import Report
    from webhook.files import Identity
    from webhook.yamlio import Document

REVIEW: Final = "AdmissionReview"
TRAIN_JOBS: Final = (names.TRAIN_JOB,)
_NO_POLICY: Final = f"none of {', '.join(names.POLICY_DOCUMENTS)}, and no ConfigMap with the label {names.PARAMS_LABEL}"
ALL_OURS: Final = (names.TRAIN_JOB, names.TRAINING_RUNTIME, names.CLUSTER_TRAINING_RUNTIME)


def read_ours(
    filename: str, kinds: Collection[str], report: Report, *, any_review: bool = False
) -> list[Document]:
    """The documents of FILE that the command is about, those in AdmissionReviews among them.

    With ``any_review``, reviews of other kinds too: they have an answer. What cannot be read is an error, what is of another kind a warning; nothing at all for us is an error.
    """
    inputs = read_inputs(filename, sys.stdin.buffer)
    for broken in inputs.broken:
        report.failure(str(broken))
    ours = []
    for document in inputs.documents:
        is_answerable = any_review and kind_of(document.obj) == REVIEW
        if not is_answerable and (reason := _foreign(document.obj, kinds)):
            report.warning(f"{document.where}: skipped: {reason}")
        else:
            ours.append(document)
    if not ours and not inputs.broken:
        report.failure(f"{inputs.source}: no {' or '.join(kinds)} in it")
    return ours


def _foreign(obj: Any, kinds: Collection[str]) -> str:
    """Why an object is not for us; empty if it is."""
    kind = kind_of(obj)
    if not kind:
        return "it has no kind"
    if kind == REVIEW:
        inner = _reviewed_kind(obj)
        return "" if inner in kinds else f"it reviews {show(inner)}"
    if kind not in kinds:
        return f"{title_of(obj)} is not a {' or '.join(kinds)}"
    version = obj.get("apiVersion")
    if version == names.API_VERSION:
        return ""
    return f"{title_of(obj)} is of {show(version)}, not {names.API_VERSION}"


def _reviewed_kind(obj: dict[str, Any]) -> str:
    request = obj.get("request")
    if not isinstance(request, dict):
        return ""
    return kind_of(request.get("object")) or kind_of(request.get("kind")) or ""


def reviewed(document: Document) -> Document:
    """The object of a review; any other document as it is."""
    if kind_of(document.obj) != REVIEW:
        return document
    request = document.obj.get("request")
    obj = request.get("object") if isinstance(request, dict) else None
    if not isinstance(obj, dict):
        raise ConfigError(f"{document.where}: the review holds no object")
    return replace(document, obj=obj)


class OldObjects:
    """What ``--old`` holds: the state of each object before the update."""

    def __init__(self, filename: str, documents: Collection[Document]) -> None:
        """Take the documents of the file."""
        self._filename = filename
        self._known: dict[Identity, Document] = {}
        for document in documents:
            if identity := identity_of(document.obj):
                self._known[identity] = document

    def of(self, document: Document) -> Document | None:
        """The old state of an object; None for a review, which brings its own.

        Raises:
            ConfigError: there is none, so that it would be judged as if it were new.
        """
        if kind_of(document.obj) == REVIEW:
            return None
        identity = identity_of(document.obj)
        if identity is None or identity not in self._known:
            held = ", ".join([title_of(known.obj) for known in self._known.values()])
            held = held or "nothing that has a name"
            raise ConfigError(f"{self._filename} does not hold it, only {held}")
        return self._known[identity]


def read_old(filename: str | None, report: Report) -> OldObjects | None:
    """The objects of ``--old``; None where everything is new."""
    if filename is None:
        return None
    return OldObjects(filename, read_ours(filename, ALL_OURS, report))


def read_policies(paths: Iterable[Path]) -> list[Document]:
    """Policies, exceptions and params of files and folders. Raises ConfigError for all that is something else."""
    return _read(paths, is_document, _NO_POLICY)


def read_runtimes(paths: Iterable[Path]) -> list[Document]:
    """The same with TrainingRuntimes and ClusterTrainingRuntimes."""
    return _read(paths, _is_runtime, f"none of {', '.join(sorted(names.RUNTIME_KINDS))}")


def _is_runtime(obj: dict[str, Any]) -> bool:
    return kind_of(obj) in names.RUNTIME_KINDS and obj.get("apiVersion") == names.API_VERSION


def _read(
    paths: Iterable[Path], is_wanted: Callable[[dict[str, Any]], bool], otherwise: str
) -> list[Document]:
    found: list[Document] = []
    problems: list[str] = []
    for path in paths:
        if path.is_dir():
            read = read_tree(path)
        else:
            inputs = read_inputs(str(path), sys.stdin.buffer)
            problems += [str(broken) for broken in inputs.broken]
            read = inputs.documents
        for document in read:
            if is_wanted(values.obj(document.obj)):
                found.append(document)
            elif kind_of(document.obj) != names.POLICY_TEST:  # they stand beside what they test
                problems.append(f"{document.where}: {title_of(document.obj)} is {otherwise}")
    problems += duplicates(found)
    if problems:
        raise ConfigError("\n".join(problems))
    return found
