"""How deep a JSON document is nested: bounded, since recursion elsewhere is."""

from __future__ import annotations

from typing import Any, Final

MOST: Final = 200
"""Levels. A TrainJob with every field set has about 25; orjson reads some 1,000 and writes 254."""

_BRACKETS: Final = b"{}[]"
_OTHERS: Final = bytes(b for b in range(256) if b not in _BRACKETS)
_QUICK: Final = 4096
"""Brackets up to which peeling pairs off is cheaper than walking the object."""


def exceeds(body: bytes, document: Any) -> bool:
    """Whether a document that was parsed from ``body`` is nested deeper than ``MOST``."""
    if body.count(b"{") + body.count(b"[") <= MOST:
        return False
    brackets = body.translate(None, _OTHERS)
    if len(brackets) <= _QUICK:
        for _ in range(MOST):
            shorter = brackets.replace(b"{}", b"").replace(b"[]", b"")
            if not shorter:
                return False
            if len(shorter) == len(brackets):
                break  # brackets inside strings: only the object itself can tell
            brackets = shorter
    return exceeds_in(document)


def exceeds_in(document: Any) -> bool:
    """The same for a document without its text, by walking it without recursion."""
    level = [document]
    for _ in range(MOST + 1):
        below: list[Any] = []
        for node in level:
            if type(node) is dict:
                below.extend(v for v in node.values() if type(v) is dict or type(v) is list)
            elif type(node) is list:
                below.extend(v for v in node if type(v) is dict or type(v) is list)
        if not below:
            return False
        level = below
    return True
