"""Texts to documents, as kubectl cuts and reads them.

kubectl reads files through ``YAMLOrJSONDecoder`` of ``k8s.io/apimachinery/pkg/util/yaml``: a text that
begins with ``{`` is tried as JSON, everything else is cut at lines that begin with ``---`` and each
part read as YAML. Three texts that it reads differently are errors here, because what it does to them is a
trap: a repeated key (the last one wins silently there), what follows a ``...`` line (ignored there),
and bytes that are not UTF-8 (replaced there).
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from plugins.framework.errors import BadInput
from webhook.yamlio import jsontext
from webhook.yamlio.document import MAX_BYTES, Document, bad

_SEPARATOR = "---"


def read(data: bytes | str, source: str) -> list[Document]:
    """All documents of a text; empty ones and ``null`` are left out.

    Raises:
        BadInput: the first document that cannot be read, as ``source:line: problem``.
    """
    documents = []
    for item in read_each(data, source):
        if isinstance(item, BadInput):
            raise item
        documents.append(item)
    return documents


def read_each(
    data: bytes | str, source: str, *, with_lines: bool = False
) -> Iterator[Document | BadInput]:
    """The same one by one: a broken document does not hide those behind it.

    ``with_lines`` lets ``Document.line_of`` tell where in the text a value stands.
    """
    try:
        text = _decode(data, source)
    except BadInput as error:
        yield error
        return
    rest = 0
    if text.lstrip(" \t\r\n").startswith("{"):
        values, rest = jsontext.read_stream(text, source)
        yield from [v for v in values if isinstance(v, BadInput) or v.obj is not None]
    for part in _parts(text, rest):
        yield from _read_part(part, source, with_lines=with_lines)


def load(data: bytes | str, source: str = "<text>") -> Any:
    """The one value that a text holds; None for an empty text.

    Raises:
        BadInput: it cannot be read, or holds several documents.
    """
    documents = read(data, source)
    if len(documents) > 1:
        raise bad(source, documents[1].line, "one document was expected, and here begins another")
    return documents[0].obj if documents else None


def _decode(data: bytes | str, source: str) -> str:
    if isinstance(data, str):
        if len(data) > MAX_BYTES or len(data.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            raise _too_large(source)
        return data
    if len(data) > MAX_BYTES:
        raise _too_large(source)
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return data.decode("utf-16" if utf16 else "utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise bad(source, line, f"not {error.encoding.upper()} text: {error.reason}") from error


def _too_large(source: str) -> BadInput:
    return BadInput(f"{source}: larger than {MAX_BYTES // 1024**2} MiB")


@dataclass(frozen=True, slots=True)
class _Part:
    """The text between two separators; ``line`` is the first of its lines, counted from 1."""

    text: str
    line: int
    fault: str = ""


def _parts(text: str, start: int) -> Iterator[_Part]:
    """Cut a text as ``YAMLReader`` does: at the lines that begin with ``---``, wherever they stand.

    A separator with nothing before it stays in its part, where YAML reads it.
    """
    if start >= len(text):
        return
    first = text.count("\n", 0, start) + 1
    lines = text[start:].split("\n")
    if lines[-1] == "":
        lines.pop()
    begin = 0
    for i, line in enumerate(lines):
        if not line.startswith(_SEPARATOR):
            continue
        if i > begin:
            yield _Part(_join(lines[begin:i]), first + begin)
            begin = i + 1
        behind = line[len(_SEPARATOR) :].strip()
        if behind and not behind.startswith("#"):
            fault = f"only a comment may follow {_SEPARATOR} on its line"
            yield _Part("", first + i, fault)
            begin = i + 1
    yield _Part(_join(lines[begin:]), first + begin)


def _join(lines: list[str]) -> str:
    r"""Each line gets its newline, as ``LineReader`` does it: ``\r\n`` counts as one, the last has one."""
    return "".join([line.removesuffix("\r") + "\n" for line in lines])


def _read_part(part: _Part, source: str, *, with_lines: bool) -> Iterator[Document | BadInput]:
    from webhook.yamlio import yamltext  # noqa: PLC0415  # PyYAML, only where there is YAML

    if part.fault:
        yield bad(source, part.line, part.fault)
        return
    if part.text.strip() in {"", _SEPARATOR}:
        return
    try:
        document = yamltext.read_part(part.text, source, part.line, with_lines=with_lines)
    except BadInput as error:
        yield error
        return
    if document is not None and document.obj is not None:
        yield document
