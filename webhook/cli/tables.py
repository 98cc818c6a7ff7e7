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

_ANY_WIDTH: Final = 1_000_000
"""Wide enough for any row: a pipe has no edge at which to fold."""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows under headings; columns whose heading begins with ``>`` hold numbers."""
    from rich.console import Console  # noqa: PLC0415  # 50 ms, and only tables need it
    from rich.table import Table  # noqa: PLC0415

    is_terminal = sys.stdout.isatty()
    grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in columns:
        grid.add_column(
            column.removeprefix(">"),
            justify="right" if column.startswith(">") else "left",
            no_wrap=not is_terminal,
            overflow="fold",
        )
    for row in rows:
        grid.add_row(*(escape(cell) for cell in row))
    out = io.StringIO()
    Console(
        file=out,
        width=shutil.get_terminal_size().columns if is_terminal else _ANY_WIDTH,
        color_system="standard" if wants_colour(sys.stdout) else None,
        force_terminal=wants_colour(sys.stdout),
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
        legacy_windows=False,
    ).print(grid)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def resources(quantities: Mapping[str, str]) -> str:
    """Quantities in one cell: ``cpu=4 memory=16Gi``."""
    return " ".join(f"{name}={quantity}" for name, quantity in sorted(quantities.items()))
