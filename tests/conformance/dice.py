"""Where the generator's choices come from: a seeded random, or hypothesis."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")
Json: TypeAlias = dict[str, Any]


class Dice(ABC):
    """Chooses, and remembers which features the choices brought into the case.

    Everything rests on ``below``; zero stands for the plain choice, so that a shrinker which
    lowers numbers makes cases simpler.
    """

    def __init__(self, line: str) -> None:
        """Start without tags for a case of this Trainer line."""
        self.line = line
        self.tags: set[str] = set()

    @abstractmethod
    def below(self, end: int) -> int:
        """Return a number from 0 to end - 1."""

    def since(self, line: str) -> bool:
        """Tell whether the case's line is this one or a later one."""
        return _version(self.line) >= _version(line)

    def tag(self, *names: str) -> None:
        """Note features of the case."""
        self.tags.update(names)

    def chance(self, percent: int) -> bool:
        """Return True in this many of a hundred."""
        return self.below(100) >= 100 - percent

    def between(self, low: int, high: int) -> int:
        """Return a number in the range, both ends included."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options; the first is the plainest."""
        return options[self.below(len(options))]

    def weighted(self, options: Mapping[T, int]) -> T:
        """Return one of the options by weight."""
        point = self.below(sum(options.values()))
        for option, weight in options.items():
            if point < weight:
                return option
            point -= weight
        raise AssertionError("the weights add up")

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """Return some of the options, without repetition, in any order."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Return all options in any order."""
        return self.sample(options, len(options))

    def several(self, low: int, high: int, make: Callable[[Dice], T]) -> list[T]:
        """Return a list of made things; its length lies in the range."""
        return [make(self) for _ in range(self.between(low, high))]

    def some(self, makers: Mapping[str, Callable[[Dice], Any]], low: int, high: int) -> Json:
        """Return an object with some of the fields that the table knows how to make."""
        chosen = self.sample(list(makers), self.between(low, high))
        return {name: makers[name](self) for name in chosen}


class SeededDice(Dice):
    """Choices from ``random.Random``: the same on every Python, since only random() is used."""

    def __init__(self, line: str, seed: str) -> None:
        """Seed by text, whose hashing (SHA-512) is part of what Python promises to keep."""
        super().__init__(line)
        self._random = random.Random(seed)

    def below(self, end: int) -> int:
        """Return a number from 0 to end - 1."""
        return int(self._random.random() * end)


def _version(line: str) -> tuple[int, ...]:
    return tuple(int(part) for part in line.split("."))


def unique(items: Sequence[Json], *keys: str) -> list[Json]:
    """Drop items whose key fields an earlier item has: lists of type map must not repeat them."""
    kept: dict[tuple[Any, ...], Json] = {}
    for item in items:
        kept.setdefault(tuple(item.get(key) for key in keys), item)
    return list(kept.values())
