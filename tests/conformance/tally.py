"""Counts of one run over one line, and how they print."""

from __future__ import annotations

import re
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.conformance import ledger
from tests.conformance.tags import by_kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.conformance.later import Proof

IN_FULL: Final = frozenset({"plugin", "field", "rule", "operation", "update", "shipped"})
"""Kinds of tags of which every count is printed; of the others the least and the most."""
SHOWN: Final = 20
"""Failures of a kind that are printed."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What came of the cases of one line."""

    line: str
    cases: int = 0
    runtimes: int = 0
    """Cases about a runtime alone."""
    by_schema: int = 0
    by_webhook: int = 0
    panics: int = 0
    not_compared: int = 0
    both_fail: int = 0
    equal: int = 0
    intended: int = 0
    defaulted: int = 0
    """TrainJobs built again as our defaults leave them."""
    rows: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)
    known: frozenset[str] = frozenset()
    """Tags that the generator can give."""
    is_full: bool = False
    """Whether the run is large enough for all of them, and for all rows."""
    proofs: dict[str, Proof] = field(default_factory=dict)
    """Row of the ledger -> who refuses later what it covers."""
    unexplained: list[str] = field(default_factory=list)
    phases: Counter[str] = field(default_factory=Counter)
    """Milliseconds spent in each."""

    @property
    def built(self) -> int:
        """Cases whose objects were compared."""
        return self.equal + self.intended

    @property
    def never(self) -> list[str]:
        """Tags that no case had."""
        return sorted(self.known - self.tags.keys())

    @property
    def unmet(self) -> list[str]:
        """Rows of the ledger that no case brought up."""
        return sorted(ledger.rows_of(self.line) - self.rows.keys())

    @property
    def unproven(self) -> list[str]:
        """Rows that say that somebody refuses later, where nobody does and no rule says why."""
        return [row for row, proof in self.proofs.items() if proof.passed]

    @property
    def failed(self) -> int:
        """How much is wrong."""
        missing = len(self.never) + len(self.unmet) if self.is_full else 0
        return len(self.unexplained) + len(self.unproven) + missing

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what is done in it."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] += round(1000 * (time.monotonic() - begun))

    def note(self, case: Mapping[str, Any], texts: Iterable[str]) -> None:
        """Keep what nobody intended."""
        self.unexplained += [f"{case['id']}: {text}" for text in texts]

    def lines(self) -> list[str]:
        """The report of this line."""
        spent = ", ".join(f"{name} {ms / 1000:.0f} s" for name, ms in self.phases.items())
        out = [
            f"Trainer {self.line}: {self.cases} cases in {self.phases.total() / 1000:.0f} s ({spent})",
            f"  refused by schema {self.by_schema}, by the webhook {self.by_webhook}, panics {self.panics}, "
            f"runtimes alone {self.runtimes}, not compared (an older snapshot counts) {self.not_compared}",
            f"  built objects: equal {self.equal}, intended differences {self.intended}, "
            f"both fail {self.both_fail}; built again with our defaults {self.defaulted}",
            f"  unexplained differences {len(self.unexplained)}",
            *self._row_lines(),
            *self._tag_lines(),
        ]
        out += [f"  ! {text[:600]}" for text in self.unexplained[:SHOWN]]
        return out

    def _row_lines(self) -> list[str]:
        """What the ledger explained; of refusals that it says come later, how many of those asked about do."""
        names = {row.id: row.later for row in ledger.ALL_ROWS}
        out = [f"  rows of the ledger; never: {', '.join(self.unmet) or 'none'}"]
        for row, count in sorted(self.rows.items(), key=_natural):
            text = f"    {row} {count}"
            if row in self.proofs:
                text += f": {self.proofs[row]}"
            elif names.get(row) == "":
                text += ": our choice"
            out.append(text)
        return out

    def _tag_lines(self) -> list[str]:
        out = [f"  exercised, of {len(self.known)} tags; never: {', '.join(self.never) or 'none'}"]
        for kind, tags in by_kind(self.known | self.tags.keys()).items():
            counts = {tag.partition(":")[2] or "(any)": self.tags[tag] for tag in tags}
            if kind in IN_FULL:
                out.append(f"    {kind}: {_counts(counts)}")
                continue
            least, most = (pick(counts, key=counts.__getitem__) for pick in (min, max))
            text = (
                f"    {kind}: {len(counts)}, from {least} {counts[least]} to {most} {counts[most]}"
            )
            out.append(text if len(counts) > 1 else f"    {kind}: {_counts(counts)}")
        return out


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=_natural))


def _natural(item: tuple[str, int]) -> list[str]:
    """F2 before F10."""
    return [part.zfill(6) if part.isdigit() else part for part in re.split(r"(\d+)", item[0])]
