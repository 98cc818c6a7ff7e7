"""What goes to stdout: exactly what ``-o`` asks for, in UTF-8, whatever the terminal speaks."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import orjson

from plugins.framework.errors import StationmasterError
from webhook.cli.report import wants_colour
from webhook.yamlio import dump, dump_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_DIFF_COLOURS: Final = {"---": "1", "+++": "1", "@": "36", "-": "31", "+": "32"}
"""SGR codes by how a line begins, the longer ones first: as ``git diff`` has them."""


class CannotWriteError(StationmasterError):
    """What stdout is takes nothing more: a disk that is full, for one."""


def write(text: str) -> None:
    """Write to stdout. Raises CannotWriteError, and BrokenPipeError where whoever read has gone."""
    with _writing():
        sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass"))


def flush() -> None:
    """Write what waits to be. Raises as ``write`` does."""
    with _writing():
        sys.stdout.flush()


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _silence()
        if isinstance(error, BrokenPipeError):
            raise
        raise CannotWriteError(f"standard output: {error.strerror}") from error


def _silence() -> None:
    """Python flushes stdout once more when it ends, and would complain then."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def write_yaml(values: Iterable[Any]) -> None:
    """Documents with ``---`` between them."""
    write(dump_all(values))


def write_json(values: Sequence[Any], *, as_list: bool) -> None:
    """One value, or a ``v1`` List of them."""
    if as_list:
        values = [{"apiVersion": "v1", "kind": "List", "items": list(values)}]
    for value in values:
        write(to_json(value, pretty=True))


def write_objects(kind: str, values: Sequence[Any], *, as_list: bool) -> None:
    """In the form that ``-o`` names."""
    if kind == "json":
        write_json(values, as_list=as_list)
    else:
        write_yaml(values)


def to_json(value: Any, *, pretty: bool = False) -> str:
    """JSON on one line, or as kubectl indents it but by two; keys stay where they are."""
    options = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if pretty else 0)
    return orjson.dumps(value, option=options).decode()


def write_diff(
    title: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> None:
    """What changed, as a unified diff of the YAML; nothing where nothing did."""
    is_coloured = wants_colour(sys.stdout)
    for line in _diff(title, before, after):
        write(_coloured(line) if is_coloured else line)


def _diff(
    title: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> Iterator[str]:
    old, new = (
        dump(obj).splitlines(keepends=True) if obj is not None else [] for obj in (before, after)
    )
    return difflib.unified_diff(old, new, f"{title} as sent", f"{title} as admitted")


def _coloured(line: str) -> str:
    code = next((code for start, code in _DIFF_COLOURS.items() if line.startswith(start)), "")
    return f"\x1b[{code}m{line[:-1]}\x1b[0m\n" if code else line
