"""How long to wait before the next try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SHORTEST_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 30.0
_DOUBLINGS: Final = 8


class Backoff:
    """Grows from half a second to half a minute, with jitter: replicas must not come all at once."""

    def __init__(self, uniform: Callable[[float, float], float]) -> None:
        """Draw from ``uniform(low, high)``."""
        self._uniform = uniform
        self._failures = 0

    def next(self) -> float:
        """Seconds to wait after one more failure. Never less than half a second: see the watch that ends at once."""
        ceiling = min(LONGEST_SECONDS, SHORTEST_SECONDS * 2 ** (self._failures + 1))
        self._failures = min(self._failures + 1, _DOUBLINGS)
        return self._uniform(SHORTEST_SECONDS, ceiling)

    def long(self) -> float:
        """Seconds to wait for what only people can change: a permission, a CRD. Less than a minute."""
        return self._uniform(LONGEST_SECONDS / 2, LONGEST_SECONDS)

    def reset(self) -> None:
        """All is well again."""
        self._failures = 0
