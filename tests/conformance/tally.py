"""Counts of one run over one line, and how they print."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
    unexplained: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def built(self) -> int:
        """Cases whose objects were compared."""
        return self.equal + self.intended

    def note(self, case: Mapping[str, Any], texts: Iterable[str]) -> None:
        """Keep what nobody intended."""
        self.unexplained += [f"{case['id']}: {text}" for text in texts]

    def lines(self) -> list[str]:
        """The report of this line."""
        out = [
            f"Trainer {self.line}: {self.cases} cases in {self.seconds:.0f} s",
            f"  refused by schema {self.by_schema}, by the webhook {self.by_webhook}, panics {self.panics}, "
            f"runtimes alone {self.runtimes}, not compared (an older snapshot counts) {self.not_compared}",
            f"  built objects: equal {self.equal}, intended differences {self.intended}, "
            f"both fail {self.both_fail}; built again with our defaults {self.defaulted}",
            f"  unexplained differences {len(self.unexplained)}",
        ]
        if self.rows:
            out.append("  rows of the ledger: " + _counts(self.rows))
        out.append("  exercised: " + _counts(self.tags))
        out += [f"  ! {text[:600]}" for text in self.unexplained[:20]]
        return out


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items(), key=_natural))


def _natural(item: tuple[str, int]) -> list[str]:
    """F2 before F10."""
    return [part.zfill(6) if part.isdigit() else part for part in re.split(r"(\d+)", item[0])]
