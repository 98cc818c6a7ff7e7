"""The generator as hypothesis strategies, so that a failing case shrinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.conformance.dice import Dice, Json
from tests.conformance.generate import case

if TYPE_CHECKING:
    from collections.abc import Sequence


class DrawnDice(Dice):
    """Choices drawn from hypothesis; zero, the plain choice, is what it shrinks towards."""

    def __init__(self, line: str, draw: st.DrawFn) -> None:
        """Draw through a composite strategy's function."""
        super().__init__(line)
        self._draw = draw

    def below(self, end: int) -> int:
        """Return a number from 0 to end - 1."""
        return self._draw(st.integers(0, end - 1))


@st.composite
def cases(draw: st.DrawFn, line: str, shipped: Sequence[Json] = ()) -> Json:
    """Return cases of a Trainer line, without id."""
    return case(DrawnDice(line, draw), shipped)
