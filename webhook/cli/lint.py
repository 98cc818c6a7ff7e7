"""``stationmaster lint``: every mistake in policies, with file and line, and what was meant."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from plugins.framework.api import names
from plugins.framework.draft import ABSENT
from plugins.framework.errors import ConfigError
from plugins.framework.field import escape
from webhook.cli import options
from webhook.cli import output as out
from webhook.cli.command import Examples
from webhook.cli.report import REFUSED, UNUSABLE, Report, wants_colour
from webhook.files import files_of, identity_of, kind_of, read_file, read_tree, title_of
from webhook.suites.places import value_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.linting import Finding, World
    from webhook.yamlio import Document

_COLOURS: Final = {"error": "1;31", "warning": "33"}
_LONGEST_LINE: Final = 160
"""Characters of a line of a file that are shown."""


@click.command(
    cls=Examples,
    examples={
        "All policies of a folder": "lint policies/",
        "Beside the cluster: jobs, containers, runtimes and ConfigMaps that they name must be there": (
            "lint policies/ --from cluster/"
        ),
        "For a Trainer that lacks some fields": "lint policies/ --trainer-version 2.1",
        "For an editor or CI": "lint policies/ -o json",
    },
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=options.PATH)
@options.folder(required=False)
@options.trainer_version
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
@click.option(
    "--now",
    type=options.Moment(),
    metavar="TIME",
    help="When it is (RFC 3339), to tell which exceptions have expired. Without it: now.",
)
@options.output(("text", "json"))
def command(  # one argument an option
    *,
    paths: tuple[Path, ...],
    directory: Path | None,
    trainer_version: str | None,
    strict: bool,
    now: datetime | None,
    output: str,
) -> int:
    """Find the mistakes in policies and exceptions: files, or folders of them.

    Every mistake is named with file and line, and with what was meant: unknown fields, CEL that does
    not compile, patterns that match nothing, two policies that set one field to different values or
    that keep changing each other's jobs, exceptions for rules that nobody offers. With --from, also what
    policies name and DIR does not have; with --trainer-version, what that Trainer has no words for.

    Exit codes: 0 no errors, 1 errors, 2 something could not be read.
    """
    report = Report.on_stderr()
    read = _read(paths, report)
    found = _lint(read, directory, trainer_version, now or datetime.now(UTC))
    if output == "json":
        out.write(
            out.to_json([_as_json(one, read.documents[one.at]) for one in found], pretty=True)
        )
    else:
        _write(found, read)
    if any(one.severity == "error" or strict for one in found):
        report.raise_to(REFUSED)
    if not read.documents and report.code != UNUSABLE:
        report.failure(f"no policies in {', '.join(map(str, paths))}")
    return report.code


@dataclass(slots=True)
class _Inputs:
    """What the paths hold."""

    documents: list[Document] = field(default_factory=list)
    """Policies and exceptions, or what should be some."""
    beside: list[Document] = field(default_factory=list)
    """All else: ConfigMaps and runtimes among it."""


def _read(paths: Iterable[Path], report: Report) -> _Inputs:
    from plugins.framework import values  # noqa: PLC0415  # not for `--help`
    from plugins.framework.cluster import is_meant_as_document  # noqa: PLC0415

    read = _Inputs()
    known: dict[Any, str] = {}
    for path in files_of(*paths):
        try:
            inputs = read_file(path)
        except ConfigError as error:
            report.failure(str(error))
            continue
        for broken in inputs.broken:
            report.failure(str(broken))
        for document in inputs.documents:
            identity = identity_of(document.obj)
            if identity is not None and identity in known:
                title = title_of(document.obj)
                report.failure(f"{title} is there twice: {known[identity]} and {document.where}")
                continue
            if identity is not None:
                known[identity] = document.where
            is_ours = is_meant_as_document(values.obj(document.obj))
            (read.documents if is_ours else read.beside).append(document)
    return read


def _lint(
    read: _Inputs, directory: Path | None, trainer_version: str | None, now: datetime
) -> list[Finding]:
    from policies.linting import lint  # noqa: PLC0415  # the engine, and not for `--help`

    around = list(read.beside)
    if directory is not None:
        ours = {identity_of(document.obj) for document in (*read.documents, *around)}
        around += [d for d in read_tree(directory) if identity_of(d.obj) not in ours]
    return lint(
        [document.obj for document in read.documents],
        _world([d.obj for d in around], trainer_version, now, is_cluster=directory is not None),
    )


def _world(
    objects: list[Any], trainer_version: str | None, now: datetime, *, is_cluster: bool
) -> World:
    from plugins.framework import lines, values  # noqa: PLC0415  # not for `--help`
    from plugins.framework.cluster import Snapshot, document_key  # noqa: PLC0415
    from policies.linting import World  # noqa: PLC0415

    objects = [obj for obj in objects if isinstance(obj, dict)]
    snapshot = Snapshot.of(objects, admit=True)
    line = lines.named(trainer_version) or snapshot.crd_line
    runtimes = []
    for obj in objects:
        kind = kind_of(obj)
        if kind in names.RUNTIME_KINDS:
            _, namespace, name = document_key(obj)
            scope = "" if kind == names.CLUSTER_TRAINING_RUNTIME else namespace
            found = snapshot.runtime(kind, scope, name, line or lines.NEWEST)
            runtimes += [found] if found is not None else []
    config_maps = {
        document_key(obj)[1:]: names.PARAMS_LABEL in values.at_obj(obj, "metadata", "labels")
        for obj in objects
        if kind_of(obj) == names.CONFIG_MAP
    }
    return World(
        documents=snapshot.documents,
        config_maps=config_maps,
        runtimes=tuple(runtimes) if is_cluster else None,
        line=line,
        is_cluster=is_cluster,
        now=now,
    )


# What is printed


def _line(one: Finding, document: Document) -> int:
    return document.line_of(one.path)


def _as_json(one: Finding, document: Document) -> dict[str, Any]:
    said: dict[str, Any] = {
        "file": document.source,
        "line": _line(one, document),
        "object": title_of(document.obj),
        "path": one.path,
        "severity": one.severity,
        "rule": one.rule,
        "message": one.message,
    }
    if one.expression:
        said |= {"expression": one.expression, "column": one.column}
    return said


def _write(found: list[Finding], read: _Inputs) -> None:
    is_coloured = wants_colour(sys.stdout)
    sources = _Sources()
    for one in sorted(found, key=lambda f: (f.at, _line(f, read.documents[f.at]))):
        document = read.documents[one.at]
        line = _line(one, document)
        word = (
            f"\x1b[{_COLOURS[one.severity]}m{one.severity}\x1b[0m" if is_coloured else one.severity
        )
        about = f"{one.path}: " if one.path else ""
        text = escape(f"{about}{one.message}")
        out.write(f"{document.source}:{line}: {word}: {text} [{one.rule}]\n")
        is_there = value_at(document.obj, one.path) is not ABSENT
        for extra in _shown(one, sources.line(document.source, line) if is_there else ""):
            out.write(f"    {extra}\n")
    _summarize(found, read)


def _shown(one: Finding, source: str) -> Iterator[str]:
    """The expression with a caret, or the line of the file."""
    from policies.cel import caret  # noqa: PLC0415  # not for `--help`

    if one.expression and one.column:
        text, mark = caret(one.expression, one.column).split("\n")
        yield escape(text) if len(escape(text)) == len(text) else text.replace("\t", " ")
        yield mark
    elif source.strip():
        yield escape(source.strip())[:_LONGEST_LINE]


class _Sources:
    """Lines of the files, each read once."""

    def __init__(self) -> None:
        self._known: dict[str, list[str]] = {}

    def line(self, source: str, number: int) -> str:
        if source not in self._known:
            path = Path(source)
            try:
                # A pipe has been read, and would never end.
                text = path.read_text("utf-8", "replace") if path.is_file() else ""
            except OSError:
                text = ""
            self._known[source] = text.split("\n")
        lines = self._known[source]
        return lines[number - 1] if 0 < number <= len(lines) else ""


def _summarize(found: list[Finding], read: _Inputs) -> None:
    if not read.documents:
        return
    errors = sum(one.severity == "error" for one in found)
    parts = [_counted(errors, "error")] if errors else []
    parts += [_counted(len(found) - errors, "warning")] if len(found) > errors else []
    what = ", ".join(parts) or "no mistakes"
    out.write(f"{what} in {_counted(len(read.documents), 'document')}\n")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
