"""JSON texts to documents: orjson reads them, and what it lets pass is found here.

orjson takes the last of repeated keys without a word and nests up to 1,024 levels; both are errors here, and a
repeated key has a line. Numbers become what the API server's JSON makes of them.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from plugins.framework import field
from webhook.yamlio.document import MAX_DEPTH, TOO_DEEP, Document, bad, repeated
from webhook.yamlio.scalars import INT64, number

if TYPE_CHECKING:
    from plugins.framework.errors import BadInput

_SPACE: Final = " \t\r\n"
_STRING: Final = r'"[^"\\]*(?:\\.[^"\\]*)*"'
# In JSON a string with a colon behind it is a key, wherever it stands.
_KEY: Final = re.compile(rf"{_STRING}(\s*:)?", re.DOTALL)
_TOKEN: Final = re.compile(rf"({_STRING})(\s*:)?|[{{}}\[\]]", re.DOTALL)


def read_stream(text: str, source: str) -> tuple[list[Document | BadInput], int]:
    """Read JSON values one after the other, and tell where what is not JSON begins.

    kubectl's decoder goes on in YAML where the first or second value is none (``{...}`` and then
    ``---``), and fails after that: once two values were JSON, the text is.
    """
    found: list[Document | BadInput] = []
    end = 0
    while (at := _skip(text, end)) < len(text):
        try:
            value, stop = _value(text, at)
        except RecursionError:
            return [*found, bad(source, _line(text, at), TOO_DEEP)], len(text)
        except ValueError as error:
            if (rest := _yaml_from(text, len(found), end, at)) is not None:
                return found, rest
            place, problem = getattr(error, "pos", at), getattr(error, "msg", error)
            return [*found, bad(source, _line(text, place), f"not JSON: {problem}")], len(text)
        found.append(_document(text, value, source, at, stop))
        end = stop
    return found, len(text)


def _value(text: str, at: int) -> tuple[Any, int]:
    """The value that begins here, and where it ends: orjson if it is the whole text, as it mostly is."""
    if not text[:at].strip(_SPACE):
        try:
            return orjson.loads(text), len(text)
        except orjson.JSONDecodeError:
            pass
    import json  # noqa: PLC0415  # only for texts that are not one JSON value

    decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_integer)
    value, end = decoder.raw_decode(text, at)
    return value, end


def _integer(digits: str) -> int | float:
    """Python refuses to read integers of more than 4,300 digits; what has 64 bits has 19."""
    return int(digits) if len(digits) <= 20 else float(digits)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _yaml_from(text: str, values: int, end: int, at: int) -> int | None:
    """Where YAML begins after so many values; None if it may not, or not on the line of the last one."""
    if values == 0:
        return 0
    comment = text[at] == "#"
    newline = text.find("\n", end, None if comment else at)
    if values > 1 or (newline < 0 and not comment):
        return None
    return newline + 1 if newline >= 0 else len(text)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _document(text: str, value: Any, source: str, start: int, end: int) -> Document | BadInput:
    """Check one value that was read from ``text[start:end]``."""
    line = _line(text, start)
    try:
        keys = _settle(value, 0)
    except _UnusableError as error:
        return bad(source, line, str(error))
    if keys != sum(1 for colon in _KEY.findall(text, start, end) if colon):
        return _find_repeated(text, source, start, end)
    return Document(obj=value, source=source, line=line)


class _UnusableError(ValueError):
    """JSON, and still not to be used."""


def _settle(value: Any, depth: int) -> int:
    """Make numbers what the API server makes of them, in place; gives the number of keys."""
    if not isinstance(value, dict | list):
        return 0
    if depth >= MAX_DEPTH:
        raise _UnusableError(TOO_DEEP)
    keys = len(value) if isinstance(value, dict) else 0
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        kind = type(item)
        if kind is dict or kind is list:
            keys += _settle(item, depth + 1)
        elif kind is float:
            value[key] = _number(item)
        elif kind is int and item not in INT64:
            value[key] = float(item)
    return keys


def _number(value: float) -> int | float:
    if math.isinf(value):
        raise _UnusableError("a number is too large for JSON")
    return number(value)


def _find_repeated(text: str, source: str, start: int, end: int) -> BadInput:
    """The line of the key that a map has twice."""
    maps: list[dict[str, int]] = []
    for token in _TOKEN.finditer(text, start, end):
        if token[0] in "{[":
            maps.append({})
        elif token[0] in "}]":
            maps.pop()
        elif token[2]:
            key = orjson.loads(token[1])
            line = _line(text, token.start())
            if key in maps[-1]:
                return bad(source, line, repeated(field.show(key), maps[-1][key]))
            maps[-1][key] = line
    return bad(source, _line(text, start), "a key is repeated")
