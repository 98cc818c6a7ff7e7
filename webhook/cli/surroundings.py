"""What a TrainJob of a file meets: the folder, policies besides it, and what options say that files do not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.api.admission import UserInfo
from plugins.framework.cluster import document_key, is_document
from plugins.framework.errors import ConfigError
from webhook.cli.report import object_of
from webhook.files import duplicates, kind_of, read_inputs, read_tree, title_of
from webhook.suites.document import KIND as TEST
from webhook.yamlio import Document

if TYPE_CHECKING:
    from pathlib import Path

NAMESPACE: Final = "Namespace"
_NO_POLICY: Final = f"none of {', '.join(names.POLICY_DOCUMENTS)}, and no ConfigMap with the label {names.PARAMS_LABEL}"


def surroundings(
    directory: Path,
    policies: Iterable[Path],
    documents: Iterable[Document],
    labels: Mapping[str, str],
) -> list[Document]:
    """The folder, with these policies in it, and with the namespaces of the documents, which get the labels.

    Raises ConfigError where something cannot be read or is no policy.
    """
    there = read_tree(directory)
    there = replaced(there, read_policies(policies))
    if labels:
        there += _namespaces(there, documents, labels)
    return there


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
            elif kind_of(document.obj) != TEST:  # they stand beside what they test
                problems.append(f"{document.where}: {title_of(document.obj)} is {otherwise}")
    problems += duplicates(found)
    if problems:
        raise ConfigError("\n".join(problems))
    return found


def replaced(there: Sequence[Document], by: Sequence[Document]) -> list[Document]:
    """Documents with others among them, in the place of those of the same kind and name."""
    gone = {document_key(document.obj) for document in by}
    kept = [d for d in there if not (is_document(d.obj) and document_key(d.obj) in gone)]
    return [*kept, *by]


def user_of(name: str, groups: Sequence[str]) -> UserInfo:
    """Who ``--user`` and ``--groups`` say."""
    return UserInfo(username=name, groups=tuple(groups))


def _namespaces(
    there: Iterable[Document], documents: Iterable[Document], labels: Mapping[str, str]
) -> list[Document]:
    """Namespaces that the documents are in and the folder does not hold."""
    known = {values.at(d.obj, "metadata", "name") for d in there if kind_of(d.obj) == NAMESPACE}
    wanted = {_namespace(document) for document in documents}
    return [
        Document(
            obj={
                "apiVersion": "v1",
                "kind": NAMESPACE,
                "metadata": {"name": name, "labels": dict(labels)},
            },
            source="--namespace-labels",
            line=1,
        )
        for name in sorted(wanted - known)
    ]


def _namespace(document: Document) -> str:
    found = values.text(values.at(object_of(document), "metadata", "namespace"))
    return found or names.DEFAULT_NAMESPACE
