"""What goes to stderr: warnings and findings, one a line; and the exit code that grows with them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from plugins.framework.errors import StationmasterError
from plugins.framework.field import escape
from webhook.files import title_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    from plugins.framework.field import Findings
    from webhook.yamlio import Document

    T = TypeVar("T")

FINE: Final = 0
REFUSED: Final = 1
UNUSABLE: Final = 2

_RED: Final = "\x1b[1;31m"
_YELLOW: Final = "\x1b[33m"
_PLAIN: Final = "\x1b[0m"


def wants_colour(stream: IO[str]) -> bool:
    """Colours are for terminals, and for those who do not say no (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@dataclass(slots=True)
class Report:
    """Says what there is to say on stderr, and remembers the highest code."""

    stream: IO[str]
    is_coloured: bool = False
    code: int = FINE

    @classmethod
    def on_stderr(cls) -> Report:
        """A report on the process's own stderr."""
        return cls(sys.stderr, is_coloured=wants_colour(sys.stderr))

    def warning(self, text: str, subject: str = "") -> None:
        """Something to know that refuses nothing."""
        self._say("Warning", _YELLOW, text, subject)

    def refusal(self, text: str, subject: str = "") -> None:
        """A finding that refuses the object."""
        self._fail(REFUSED, text, subject)

    def failure(self, text: str, subject: str = "") -> None:
        """Something that could not be judged."""
        self._fail(UNUSABLE, text, subject)

    def findings(self, findings: Findings, document: Document) -> None:
        """All that was found about an object, warnings first as kubectl prints them."""
        subject = subject_of(document)
        for warning in findings.warnings:
            self.warning(warning, subject)
        for error in findings.errors:
            line = document.line_of(error.field, object_of(document))
            self.refusal(f"{error} ({document.source}:{line})", subject)

    def judge(
        self, documents: Iterable[Document], step: Callable[[Document], T]
    ) -> Iterator[tuple[Document, T]]:
        """Do the same with each document; one that fails does not keep the others from being judged."""
        for document in documents:
            try:
                yield document, step(document)
            except StationmasterError as error:
                for line in str(error).splitlines():
                    self.failure(line, subject_of(document))

    def raise_to(self, code: int) -> None:
        """The highest code wins."""
        self.code = max(self.code, code)

    def _fail(self, code: Literal[1, 2], text: str, subject: str) -> None:
        self.raise_to(code)
        self._say("Error", _RED, text, subject)

    def _say(self, label: str, colour: str, text: str, subject: str) -> None:
        head = f"{colour}{label}:{_PLAIN}" if self.is_coloured else f"{label}:"
        about = f" {subject}:" if subject else ""
        self.stream.write(f"{head}{about} {escape(text)}\n")


def subject_of(document: Document) -> str:
    """What a line calls the object of a document."""
    return title_of(object_of(document))


def object_of(document: Document) -> Any:
    """What a document is about: of a review, the object in it."""
    obj = document.obj
    if isinstance(obj, dict) and obj.get("kind") == "AdmissionReview":
        request = obj.get("request")
        request = request if isinstance(request, dict) else {}
        obj = request.get("object") or request.get("oldObject") or obj
    return obj
