"""The tokens of an expression, as far as they are needed to find which part of the text became a node.

The parser keeps one offset a node: where a name or literal begins, where an operator or the bracket of a call stands.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    //[^\n]* |
    (?:[rR][bB]?|[bB][rR]?)?(?:\"{3}.*?\"{3}|'{3}.*?'{3}) |
    (?:[rR][bB]?|[bB][rR]?)?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*') |
    `[^`]*` |
    0x[0-9a-fA-F]+u? | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?u? |
    [A-Za-z_]\w* |
    && | \|\| | [=!<>]= | .
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_OPENING: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSING: Final = frozenset(_OPENING.values())


@dataclass(slots=True)
class Source:
    """One expression's tokens, read when first asked for."""

    text: str
    _starts: list[int] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)
    _tokens: list[str] = field(default_factory=list)
    _partners: dict[int, int] = field(default_factory=dict)
    """Opening bracket -> closing bracket, as numbers of tokens."""

    def _read(self) -> None:
        open_: list[int] = []
        for match in _TOKEN.finditer(self.text):
            token = match[0]
            if token.isspace() or token.startswith("//"):
                continue
            number = len(self._tokens)
            self._starts.append(match.start())
            self._ends.append(match.end())
            self._tokens.append(token)
            if token in _OPENING:
                open_.append(number)
            elif token in _CLOSING and open_:
                self._partners[open_.pop()] = number

    def span(self, offsets: Iterable[int]) -> tuple[int, int]:
        """The part of the text that all these offsets, those of a node and of all below it, come from."""
        if not self._tokens:
            self._read()
        touched = [self._token_at(offset) for offset in offsets if offset >= 0]
        if not touched or not self._tokens:
            return 0, len(self.text)
        first = min(self._head(number) for number in touched)
        last = self._closed(first, max(map(self._tail, touched)))
        return self._starts[first], self._ends[last]

    def _token_at(self, offset: int) -> int:
        return max(bisect_right(self._starts, offset) - 1, 0)

    def _head(self, number: int) -> int:
        """The name before the bracket of a call: ``size(``, ``format.named(``."""
        if self._tokens[number] != "(":
            return number
        first = number
        while first and (self._is_name(first - 1) or self._tokens[first - 1] == "."):
            first -= 1
        return first

    def _tail(self, number: int) -> int:
        """A field belongs to its dot, a number to its sign."""
        if self._tokens[number] == "." and number + 1 < len(self._tokens):
            following = number + 1
            if self._tokens[following] == "?" and following + 1 < len(self._tokens):
                following += 1
            return following
        if self._tokens[number] == "-" and number + 1 < len(self._tokens):
            return number + 1
        return number

    def _closed(self, first: int, last: int) -> int:
        """All brackets that open in the part close in it too."""
        number = first
        while number <= last:
            last = max(last, self._partners.get(number, number))
            number += 1
        return last

    def _is_name(self, number: int) -> bool:
        return re.match(r"[A-Za-z_]\w*\Z", self._tokens[number], re.ASCII) is not None
