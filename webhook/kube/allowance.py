"""How many calls to the API server something may cause: a bucket that fills at a steady rate."""

from __future__ import annotations

from collections.abc import Callable


class Allowance:
    """So many at once, and so many a second after that."""

    def __init__(self, *, burst: int, per_second: float, clock: Callable[[], float]) -> None:
        """Begin full."""
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._left = float(burst)
        self._at = clock()

    def take(self) -> bool:
        """Use one, if there is one."""
        if self.is_empty():
            return False
        self._left -= 1
        return True

    def is_empty(self) -> bool:
        """Whether there is none to use now."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        return self._left < 1
