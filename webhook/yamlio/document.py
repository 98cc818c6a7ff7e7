"""One document of a file, where it came from, and the bounds that all input has to keep."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from plugins.framework.depth import MOST
from plugins.framework.errors import BadInput

MAX_BYTES: Final = 8 * 1024 * 1024
"""The largest input. The API server takes requests of 3 MiB, and an AdmissionReview holds two objects."""

MAX_DEPTH: Final = MOST
"""The deepest nesting, the same as for reviews."""


Lines: TypeAlias = Mapping[int, Mapping[str, int] | Sequence[int]]
"""By the ``id`` of a map or list of a document: the line of each key or item."""

_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A value as it was read, with its file and the line on which it begins.

    ``item`` says which one of a List it is, such as ``items[3]``; empty for a document of its own.
    """

    obj: Any
    source: str
    line: int
    item: str = ""
    lines: Lines = field(default_factory=dict, repr=False, compare=False)

    @property
    def where(self) -> str:
        """The place in words: ``runtimes.yaml:12`` or ``runtimes.yaml:1 items[3]``."""
        place = f"{self.source}:{self.line}"
        return f"{place} {self.item}" if self.item else place

    def line_of(self, path: str, obj: Any = None) -> int:
        """The line of ``spec.trainer.env[0].value``, or of the nearest thing around it that is there.

        JSON has no lines here, nor has what an alias stands for: then it is where that begins.
        """
        line, value = self.line, self.obj if obj is None else obj
        for match in _STEP.finditer(path):
            step: Any = match[1] if match[1] is not None else match[2]
            if isinstance(value, list) and step.isdecimal():
                step = int(step)
            try:
                inner = value[step]
                line = self.lines[id(value)][step] if id(value) in self.lines else line
            except (TypeError, LookupError):
                break
            value = inner
        return line


def bad(source: str, line: int, problem: str) -> BadInput:
    """An input error that an editor can jump to: ``FILE:LINE: what is wrong``."""
    return BadInput(f"{source}:{line}: {problem}")


def repeated(key: str, first: int) -> str:
    """The words for a key that a map has twice; ``key`` comes quoted."""
    return f"key {key} is repeated: it is set on line {first} already"


TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"
