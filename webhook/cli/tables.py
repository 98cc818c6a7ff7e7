"""Tables in kubectl's manner: no frames, a row a line when piped, folded where a terminal is narrow."""

from __future__ import annotations

import io
import shutil
import sys
from typing import TYPE_CHECKING, Final

from plugins.framework.field import escape
from webhook.cli.report import wants_colour

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_GAP: Final = 3
_ANY_WIDTH: Final = 1_000_000
"""Wide enough for any row: a pipe has no edge at which to fold."""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows under headings; columns whose heading begins with ``>`` hold numbers."""
    from rich.console import Console  # noqa: PLC0415  # 50 ms, and only tables need it
    from rich.table import Table  # noqa: PLC0415

    cells = [[escape(cell) for cell in row] for row in rows]
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else _ANY_WIDTH
    is_whole = _whole(columns, cells, width)
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column, keeps in zip(columns, is_whole, strict=True):
        grid.add_column(
            column.removeprefix(">"),
            justify="right" if column.startswith(">") else "left",
            no_wrap=keeps or not is_terminal,
            overflow="fold",
        )
    for row in cells:
        grid.add_row(*row)
    out = io.StringIO()
    Console(
        file=out,
        width=width,
        color_system="standard" if wants_colour(sys.stdout) else None,
        force_terminal=wants_colour(sys.stdout),
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
        legacy_windows=False,
    ).print(grid)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _whole(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[bool]:
    """Which columns are never folded: those of names, as long as the others can give way between their words."""
    found, needed = [], 0
    for column in zip(columns, *rows, strict=True):
        keeps = not any(" " in cell for cell in column)
        parts = column if keeps else [word for cell in column for word in cell.split()]
        needed += max(map(len, parts), default=0) + _GAP
        found.append(keeps)
    return found if needed <= width + _GAP else [False] * len(columns)


def resources(quantities: Mapping[str, str]) -> str:
    """Quantities in one cell: ``cpu=4 memory=16Gi``."""
    return " ".join(f"{name}={quantity}" for name, quantity in sorted(quantities.items()))
