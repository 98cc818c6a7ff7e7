"""A mapping of what was used last, and no more than so much of it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Forgets what has not been used for the longest time."""

    def __init__(self, most: int) -> None:
        """Keep ``most`` entries."""
        self._most = most
        self._kept: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """What is kept, and is now used; or None."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key]

    def pop(self, key: K) -> None:
        """Forget it."""
        self._kept.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()

    def __setitem__(self, key: K, value: V) -> None:
        """Keep it, in place of what was there."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
