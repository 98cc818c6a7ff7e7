"""One document of a file, where it came from, and the bounds that all input has to keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from plugins.framework.depth import MOST
from plugins.framework.errors import BadInput

MAX_BYTES: Final = 8 * 1024 * 1024
"""The largest input. The API server takes requests of 3 MiB, and an AdmissionReview holds two objects."""

MAX_DEPTH: Final = MOST
"""The deepest nesting, the same as for reviews."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A value as it was read, with its file and the line on which it begins.

    ``item`` says which one of a List it is, such as ``items[3]``; empty for a document of its own.
    """

    obj: Any
    source: str
    line: int
    item: str = ""

    @property
    def where(self) -> str:
        """The place in words: ``runtimes.yaml:12`` or ``runtimes.yaml:1 items[3]``."""
        place = f"{self.source}:{self.line}"
        return f"{place} {self.item}" if self.item else place


def bad(source: str, line: int, problem: str) -> BadInput:
    """An input error that an editor can jump to: ``FILE:LINE: what is wrong``."""
    return BadInput(f"{source}:{line}: {problem}")


def repeated(key: str, first: int) -> str:
    """The words for a key that a map has twice; ``key`` comes quoted."""
    return f"key {key} is repeated: it is set on line {first} already"


TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"
