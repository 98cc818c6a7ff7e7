"""Whose wish wins: the Writes of all policies that match, made into at most one decision for each place.

``set``: the highest priority, in both modes (defaults fill from the highest down and never touch what is filled;
overrides apply from the lowest up). Equal priorities must agree: where they do not, nothing is written there and all
of them are named. ``union``: everybody's items, once each. ``min`` and ``max``: the narrowest range; one without a
number in it is a conflict. The answer does not depend on the order in which policies are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from plugins.framework import values
from policies.document import Key
from policies.writes import Mode, Place, Write

UNSET: Final = object()
"""What a decision says where only a range is decided."""


class Planned(NamedTuple):
    """What one policy wants in one mode; of two of its writes to one place the later counts."""

    key: Key
    priority: int
    mode: Mode
    writes: Sequence[Write]


def named(keys: Iterable[Key]) -> str:
    """Policies, as messages and the record name several."""
    return ", ".join(map(str, keys))


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What is to stand at a place: a value, a list to be joined with what is there, or a range.

    ``keys`` are the policies that it comes from, the first of them first by name.
    """

    place: Place
    value: Any = UNSET
    is_union: bool = False
    low: int | None = None
    high: int | None = None
    keys: tuple[Key, ...] = ()

    @property
    def by(self) -> str:
        """Who wrote it, as messages and the record name it."""
        return named(self.keys)


class Conflict(NamedTuple):
    """Policies of equal priority that want different values at a place, or ranges without a common number."""

    place: Place
    keys: tuple[Key, ...]
    is_of_ranges: bool = False
    """Then no priority decides."""


class Decision(msgspec.Struct, frozen=True):
    """Everything decided, in the order of priority and of each policy's own document; and what cannot be."""

    decided: tuple[Decided, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


@dataclass(slots=True)
class _Wish:
    """What all policies want of one place."""

    sets: list[tuple[int, Key, Any]] = field(default_factory=list)
    unions: list[tuple[Key, list[Any]]] = field(default_factory=list)
    lows: list[tuple[Key, int]] = field(default_factory=list)
    highs: list[tuple[Key, int]] = field(default_factory=list)


def decide(planned: Iterable[Planned]) -> Decision:
    """One decision for each place. All must be of one mode: defaults and overrides are decided apart.

    Raises ValueError where they are not.
    """
    ordered = sorted(planned, key=lambda p: (-p.priority, p.key))
    if len({p.mode for p in ordered}) > 1:
        raise ValueError("defaults and overrides are decided one after the other")
    wishes: dict[Place, list[tuple[Planned, Write]]] = {}
    for one in ordered:
        for write in one.writes:
            wishes.setdefault(write.place, []).append((one, write))
    decided: list[Decided] = []
    conflicts: list[Conflict] = []
    for place, wanted in wishes.items():
        found = _settled(place, wanted)
        if isinstance(found, Conflict):
            conflicts.append(found)
        else:
            decided.append(found)
    return Decision(tuple(decided), tuple(conflicts))


def _settled(place: Place, wanted: Sequence[tuple[Planned, Write]]) -> Decided | Conflict:
    if len(wanted) == 1 and wanted[0][1].rule == "set":  # most places
        [(one, write)] = wanted
        return Decided(place=place, value=write.value, keys=(one.key,))
    wish = _Wish()
    for one, write in wanted:
        _gather(wish, one, write)
    return _settle(place, wish)


def _gather(wish: _Wish, one: Planned, write: Write) -> None:
    match write.rule:
        case "union":
            wish.unions.append((one.key, write.value))
        case "min":
            wish.lows.append((one.key, write.value))
        case "max":
            wish.highs.append((one.key, write.value))
        case _:
            if wish.sets and wish.sets[-1][1] == one.key:
                wish.sets.pop()
            wish.sets.append((one.priority, one.key, write.value))


def _settle(place: Place, wish: _Wish) -> Decided | Conflict:
    value: Any = UNSET
    keys: list[Key] = []
    if wish.sets:
        top = [(key, wanted) for priority, key, wanted in wish.sets if priority == wish.sets[0][0]]
        value = top[0][1]
        if any(not values.same(value, other) for _, other in top[1:]):
            return Conflict(place, tuple(key for key, _ in top))
        keys.append(top[0][0])
    low = max((number for _, number in wish.lows), default=None)
    high = min((number for _, number in wish.highs), default=None)
    bounds = [k for k, n in wish.lows if n == low] + [k for k, n in wish.highs if n == high]
    if low is not None and high is not None and low > high:
        return Conflict(place, _once(bounds), is_of_ranges=True)
    if type(value) is int and value is not UNSET:
        value, clamped = clamp(value, low, high), value
        keys += [] if clamped == value else bounds
        low = high = None
    elif value is UNSET:
        keys += bounds
    if wish.unions:
        keys += [key for key, _ in wish.unions]
        value = union(
            *([value] if type(value) is list else []), *(items for _, items in wish.unions)
        )
    return Decided(
        place=place,
        value=value,
        is_union=bool(wish.unions),
        low=low,
        high=high,
        keys=_once(keys),
    )


def _once(keys: Iterable[Key]) -> tuple[Key, ...]:
    return tuple(dict.fromkeys(keys))


def clamp(value: int, low: int | None, high: int | None) -> int:
    """The nearest number within the range."""
    if low is not None and value < low:
        return low
    return high if high is not None and value > high else value


def union(*lists: Sequence[Any]) -> list[Any]:
    """The items of all lists, each once, where it first stands."""
    out: list[Any] = []
    for one in lists:
        for item in one:
            if not any(values.same(item, known) for known in out):
                out.append(item)
    return out
