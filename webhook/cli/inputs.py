"""Which documents of FILE and ``--old`` a command is about."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from plugins.framework.errors import ConfigError
from plugins.framework.field import escape, show
from webhook.cli.report import UNUSABLE, subject_of
from webhook.files import identity_of, kind_of, read_inputs

if TYPE_CHECKING:
    from webhook.cli.report import Report
    from webhook.files import Identity
    from webhook.yamlio import Document

TRAINER: Final = "trainer.kubeflow.org/v1alpha1"
ADMISSION: Final = "admission.k8s.io/v1"
TRAIN_JOB: Final = "TrainJob"
RUNTIMES: Final = ("TrainingRuntime", "ClusterTrainingRuntime")
REVIEW: Final = "AdmissionReview"


def read_ours(filename: str, kinds: Collection[str], report: Report) -> list[Document]:
    """The documents of FILE that the command is about, those in AdmissionReviews among them.

    What cannot be read is an error, what is of another kind a warning; if nothing is left, that is an error.
    """
    inputs = read_inputs(filename, sys.stdin.buffer)
    for broken in inputs.broken:
        report.failure(str(broken))
    ours = []
    for document in inputs.documents:
        if reason := _foreign(document.obj, kinds):
            report.warning(f"{document.where}: {reason}, skipped", _name_of(document))
        else:
            ours.append(document)
    if not ours and not inputs.broken:
        wanted = " or ".join(kinds)
        report.failure(f"{filename}: no {wanted} in it")
    return ours


def _name_of(document: Document) -> str:
    return subject_of(document) if kind_of(document.obj) else ""


def _foreign(obj: Any, kinds: Collection[str]) -> str:
    """Why an object is not for us; empty if it is."""
    kind = kind_of(obj)
    if not kind:
        return "has no kind"
    version = obj.get("apiVersion")
    if kind == REVIEW:
        # A review of whatever kind has an answer; a broken one is for the engine to name.
        inner = _reviewed_kind(obj)
        return "" if version == ADMISSION and _is_wanted(inner, kinds) else f"reviews a {escape(inner)}"
    if kind not in kinds:
        return f"is not a {' or '.join(kinds)}"
    return "" if version == TRAINER else f"apiVersion {show(version)} is not {TRAINER}"
