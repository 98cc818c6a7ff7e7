"""A mapping of which each change makes the next one, and shares all but a small part with it.

Ten thousand TrainJobs come and go one by one; to copy a dict of all of them at each is what this saves.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Final, Generic, Self, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

PARTS: Final = 64
"""A change copies one part and the list of parts: with 10,000 entries some 160 and 64 references, a few µs."""


class Shards(Generic[K, V]):
    """A mapping that is never changed."""

    __slots__ = ("_parts",)

    def __init__(self, items: Iterable[tuple[K, V]] = ()) -> None:
        """Hold these; of two with the same key the later one."""
        filled: dict[int, dict[K, V]] = {}
        for key, value in items:
            filled.setdefault(hash(key) % PARTS, {})[key] = value
        nothing: dict[K, V] = {}
        self._parts = tuple(filled.get(i, nothing) for i in range(PARTS))

    def get(self, key: K) -> V | None:
        """What stands under a key; None where nothing does."""
        return self._parts[hash(key) % PARTS].get(key)

    def having(self, key: K, value: V) -> Self:
        """This mapping with a value under a key."""
        return self._with(key, {**self._parts[hash(key) % PARTS], key: value})

    def lacking(self, key: K) -> Self:
        """This mapping without a key; itself where it has none."""
        part = self._parts[hash(key) % PARTS]
        if key not in part:
            return self
        left = part.copy()
        del left[key]
        return self._with(key, left)

    def items(self) -> Iterator[tuple[K, V]]:
        """All of it, in no order."""
        for part in self._parts:
            yield from part.items()

    def __iter__(self) -> Iterator[K]:
        """The keys, in no order."""
        for part in self._parts:
            yield from part

    def __len__(self) -> int:
        """How many keys there are."""
        return sum(map(len, self._parts))

    def _with(self, key: K, part: dict[K, V]) -> Self:
        place = hash(key) % PARTS
        successor = type(self).__new__(type(self))  # without filling it first
        successor._parts = (*self._parts[:place], part, *self._parts[place + 1 :])  # noqa: SLF001  # one of us
        return successor
