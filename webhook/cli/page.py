"""Text in paragraphs, each indented and folded at the terminal's edge: for what is too long for a table."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import Final

from plugins.framework.field import escape
from webhook.cli.report import wants_colour

_NARROWEST: Final = 40
_ANY_WIDTH: Final = 1_000_000
"""A pipe has no edge at which to fold."""
_COLOURS: Final = {
    "passes": "32",
    "broken": "1;31",
    "fault": "1;31",
    "excepted": "33",
    "let be": "33",
    "newly refused": "1;31",
    "refused otherwise": "31",
    "no longer refused": "32",
}
"""SGR codes of the words that a paragraph may begin with."""


class Page:
    """Lines that hang below their beginning where they are folded."""

    def __init__(self) -> None:
        """Look at the terminal, if there is one."""
        self._is_coloured = wants_colour(sys.stdout)
        is_terminal = sys.stdout.isatty()
        columns = shutil.get_terminal_size().columns if is_terminal else _ANY_WIDTH
        self._width = max(columns, _NARROWEST)
        self.lines: list[str] = []

    def say(self, indent: int, text: str, *, head: str = "", width: int = 0) -> None:
        """A text; ``head`` stands before it in a column of so many characters, in the colour of what it says."""
        head = f"{head:{width}}" if width else head
        first = " " * indent + head
        hang = " " * (indent + (len(head) if width else 2))
        folded = textwrap.wrap(
            first + escape(text),
            self._width,
            subsequent_indent=hang,
            break_long_words=True,
            break_on_hyphens=False,
            drop_whitespace=True,
            replace_whitespace=False,
        ) or [first]
        code = _COLOURS.get(head.strip())
        if code and self._is_coloured:
            folded[0] = folded[0].replace(head, f"\x1b[{code}m{head}\x1b[0m", 1)
        self.lines += [line.rstrip() for line in folded]

    @property
    def text(self) -> str:
        """Everything that was said."""
        return "".join(f"{line}\n" for line in self.lines)
