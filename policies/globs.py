"""Globs over names: compiled once, and matched in one pass whatever the pattern.

``?`` is one character and ``*`` any number of them; everything else stands for itself. In a glob over paths neither
goes across a ``/``, and ``**`` does.

A pattern is a row of places, and a text moves through all of them at once, as the bits of one integer. So a pattern
with forty stars costs what one with a single star costs; as a regular expression it could take for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

LONGEST: Final = 512
"""Characters of a pattern. Names of objects have at most 253, and images of the real world not much more."""
CACHED: Final = 4096
"""Compiled patterns kept; a large set of policies has hundreds."""

_TOKEN: Final = re.compile(r"\*+|.", re.DOTALL)
_HEAD: Final = re.compile(r"[^*?]*")


class GlobError(ValueError):
    """A pattern that cannot be used; the text says why."""


class Glob:
    """One compiled pattern. Case matters, and the whole text must match."""

    __slots__ = ("_end", "_head", "_others", "_steps", "pattern")

    def __init__(self, pattern: str, *, path: bool = False) -> None:
        """Compile; with ``path`` only ``**`` crosses a ``/``.

        Raises GlobError for a pattern of more than 512 characters.
        """
        if len(pattern) > LONGEST:
            raise GlobError(
                f"a pattern has at most {LONGEST} characters, and this one has {len(pattern)}"
            )
        self.pattern = pattern
        head = _HEAD.match(pattern)
        self._head = head[0] if head else ""
        single = held = free = place = 0
        literals: dict[str, int] = {"/": 0}
        for piece in _TOKEN.findall(pattern):
            here = 1 << place
            if piece[0] == "*":
                held |= here
                free |= 0 if path and len(piece) == 1 else here
                continue
            if piece == "?":
                single |= here
            else:
                literals[piece] = literals.get(piece, 0) | here
            place += 1
        self._end = 1 << place
        self._others = (single, held)
        """For most characters: the places that they leave for the next one, and those that they may stay at."""
        self._steps = {c: (at | single, held) for c, at in literals.items()}
        """The same for the characters that the pattern names, and for the slash."""
        if path:
            self._steps["/"] = (literals["/"], free)

    def matches(self, text: str) -> bool:
        """Whether the whole text is as the pattern says; one step a character, of any text."""
        head, steps, others = self._head, self._steps, self._others
        if not text.startswith(head):
            return False
        places = 1 << len(head)
        for c in text[len(head) :]:
            leave, stay = steps.get(c, others)
            places = (places & leave) << 1 | places & stay
            if not places:
                return False
        return bool(places & self._end)


@lru_cache(maxsize=CACHED)
def glob(pattern: str) -> Glob:
    """A glob over names (of runtimes, users, jobs), compiled once. Raises GlobError."""
    return Glob(pattern)


def first(patterns: Iterable[str], text: str) -> str | None:
    """The first of the patterns that a name matches; None where there is none. Raises GlobError."""
    return next((pattern for pattern in patterns if glob(pattern).matches(text)), None)


def problem(pattern: str) -> str:
    """What is wrong with a pattern over names; empty where nothing is."""
    if not pattern:
        return "must not be empty; * matches every name"
    try:
        glob(pattern)
    except GlobError as error:
        return str(error)
    return ""
