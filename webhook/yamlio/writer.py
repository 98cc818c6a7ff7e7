"""JSON values to YAML, as ``kubectl get -o yaml`` prints them.

Block style, sorted keys, and the choice of quotes of ``emitterc.go`` in ``go.yaml.in/yaml/v2``: a string
stays plain where its reader takes it for that string, a text of several lines is a literal block. Two things
differ: long lines are not folded, so that a diff shows what changed, and long keys stay ``key: value``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cmp_to_key
from typing import Any, Final

from webhook.yamlio.scalars import format_float, reads_as_text

_LONGEST_KEY: Final = 1000
"""Characters of a key before its colon: the reader gives up after 1,024 (``scannerc.go``)."""

# Nothing in these is an indicator anywhere, nothing needs an escape.
_SURELY_PLAIN: Final = re.compile(r"[A-Za-z0-9_/](?:[A-Za-z0-9_/.+=@$^;~-]|:(?=[A-Za-z0-9/]))*")
# What `is_printable` of yamlprivateh.go leaves out (tabs, and all past U+FFFF), and its line breaks but for \n. The set
# of all that it has would say the same, but takes ten times as long to compile, and each command waits for it.
_OTHERS: Final = "\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff\U00010000-\U0010ffff"
_SPECIAL: Final = re.compile(f"[\0-\t\x0b-\x1f{_OTHERS}]")
_INDICATOR: Final = re.compile(
    r"""\A(?:---|\.\.\.|[#,\[\]{}&*!|>'"%@`]|[?:-](?:[ \t]|\Z))|:(?:[ \t]|\Z)|(?<=[ \t\n])\#"""
)
_ESCAPED: Final = re.compile(f'["\\\\\0-\x1f{_OTHERS}]')
_ESCAPES: Final = {
    "\0": "0", "\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", "\x1b": "e",
    '"': '"', "\\": "\\", "\x85": "N", "\u2028": "L", "\u2029": "P",
}  # fmt: skip


def dump(value: Any) -> str:
    r"""A JSON value as one YAML document.

    >>> print(dump({"on": ["yes", 1, {"a": "x\ny\n"}], "empty": {}}), end="")
    empty: {}
    "on":
    - "yes"
    - 1
    - a: |
        x
        y
    """
    out: list[str] = []
    _node(value, "  " if isinstance(value, str) else "", out)
    return "".join(out)


def dump_all(values: Iterable[Any]) -> str:
    """Several documents, with ``---`` between them."""
    return "---\n".join([dump(value) for value in values])


def _node(value: Any, pad: str, out: list[str]) -> None:
    """Write a value whose first line is begun already; ``pad`` stands before the others."""
    if isinstance(value, Mapping) and value:
        _mapping(value, pad, out)
    elif isinstance(value, list | tuple) and value:
        _sequence(value, pad, out)
    else:
        out.append(_inline(value, pad) + "\n")


def _mapping(value: Mapping[str, Any], pad: str, out: list[str]) -> None:
    lead = ""
    for key in _sorted(value):
        item = value[key]
        name = _key(key)
        out.append(lead + name)
        lead = pad
        if len(name) > _LONGEST_KEY:
            out.append(f"\n{pad}: ")
            _node(item, pad + "  ", out)
        elif isinstance(item, Mapping) and item:
            out.append(f":\n{pad}  ")
            _mapping(item, pad + "  ", out)
        elif isinstance(item, list | tuple) and item:
            out.append(f":\n{pad}")
            _sequence(item, pad, out)
        else:
            out.append(f": {_inline(item, pad + '  ')}\n")


def _sequence(value: list[Any] | tuple[Any, ...], pad: str, out: list[str]) -> None:
    lead = "- "
    for item in value:
        out.append(lead)
        lead = pad + "- "
        _node(item, pad + "  ", out)


def _key(key: str) -> str:
    text = _string(key, None)
    return f"? {text}" if len(text) > _LONGEST_KEY else text


def _inline(value: Any, pad: str) -> str:
    """What has no items: a scalar or an empty collection."""
    match value:
        case str():
            return _string(value, pad)
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case int():
            return str(value)
        case float():
            return _float(value)
        case Mapping():
            return "{}"
        case list() | tuple():
            return "[]"
        case _:
            raise TypeError(f"{type(value).__name__} has no form in JSON")


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} has no form in JSON")
    return format_float(value, bits=64)


def _string(text: str, pad: str | None) -> str:
    """A string in the style that kubectl would choose; no block where ``pad`` is None, for keys."""
    if _SURELY_PLAIN.fullmatch(text):
        return text if reads_as_text(text) else f'"{text}"'
    if "\n" in text:
        if pad is None or not _can_be_block(text):
            return _double_quoted(text)
        return _block(text, pad)
    if _SPECIAL.search(text) or not reads_as_text(text):
        return _double_quoted(text)
    if text[0] == " " or text[-1] == " " or _INDICATOR.search(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _can_be_block(text: str) -> bool:
    """Whether a literal block gives the text back: no blanks at line ends, no special characters."""
    return not (" \n" in text or text.endswith(" ") or _SPECIAL.search(text))


def _block(text: str, pad: str) -> str:
    """A literal block; the hints say how it is indented and what becomes of its last newlines."""
    indent = "2" if text[0] in " \n" else ""
    chomp = "-" if not text.endswith("\n") else "+" if text == "\n" or text.endswith("\n\n") else ""
    lines = text.removesuffix("\n").split("\n")
    return f"|{indent}{chomp}\n" + "\n".join([pad + line if line else line for line in lines])


def _double_quoted(text: str) -> str:
    return '"' + _ESCAPED.sub(lambda match: "\\" + _escape(match[0]), text) + '"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    return f"x{code:02X}" if code <= 0xFF else f"u{code:04X}" if code <= 0xFFFF else f"U{code:08X}"


def _sorted(keys: Mapping[str, Any]) -> list[str]:
    """Keys in ``sorter.go``'s order: ``a2`` before ``a10``, letters behind all else.

    That order has circles (``0a0``, ``1``, ``0109.9``), so the names are brought into one order first.
    """
    names = sorted(keys)
    return names if all(map(str.isalpha, names)) else sorted(names, key=cmp_to_key(_compare))


def _compare(a: str, b: str) -> int:
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return _compare_at(a, b, i)
    return len(a) - len(b)


def _compare_at(a: str, b: str, i: int) -> int:
    """Compare from the first place where the two differ."""
    x, y = a[i], b[i]
    if x.isalpha() or y.isalpha():
        if x.isalpha() and y.isalpha():
            return -1 if x < y else 1
        return -1 if y.isalpha() else 1
    started = int("0" in {x, y} and _digits_before(a, i))
    return -1 if (*_number_at(a, i, started), x) < (*_number_at(b, i, started), y) else 1


def _digits_before(text: str, i: int) -> bool:
    """Whether the number of which digit i is part has begun with something other than zeros."""
    while i > 0 and text[i - 1].isdecimal():
        i -= 1
        if text[i] != "0":
            return True
    return False


def _number_at(text: str, i: int, start: int) -> tuple[int, int]:
    """The number that begins at i, and where it ends."""
    value, end = start, i
    while end < len(text) and text[end].isdecimal():
        value = value * 10 + ord(text[end]) - ord("0")
        end += 1
    return value, end
