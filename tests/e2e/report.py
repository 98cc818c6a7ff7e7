"""What a run has counted and measured, printed at its end: figures to read, which decide nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pytest

KEY: Final = pytest.StashKey["Report"]()


@dataclass
class Report:
    """Tables by their titles; each row is a mapping from column to text."""

    tables: dict[str, list[Mapping[str, str]]] = field(default_factory=dict)

    def add(self, title: str, row: Mapping[str, str]) -> None:
        """Put a row into a table, which begins with its first."""
        self.tables.setdefault(title, []).append(row)

    def merge(self, tables: Mapping[str, Sequence[Mapping[str, str]]]) -> None:
        """Put the tables of another process behind these."""
        for title, rows in tables.items():
            for row in rows:
                self.add(title, row)

    def lines(self) -> Iterator[str]:
        """All tables; a row whose last cell is long goes on in it."""
        for title, rows in self.tables.items():
            yield ""
            yield title
            yield from _table(rows)


def _table(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [columns, *([row.get(column, "") for column in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        yield "  ".join(map(str.ljust, line, widths)).rstrip()
