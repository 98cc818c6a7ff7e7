"""Lists: isSorted, sum, min, max, indexOf, lastIndexOf (``library/lists.go``)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

from policies.cel.library.function import BOOL, DYN, INT, LIST, Function, Overload

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
_ORDERED: Final = ("int", "uint", "double", "string", "bool", "bytes", "timestamp", "duration")
_ADDED: Final = ("int", "uint", "double", "duration")


def functions() -> tuple[Function, ...]:
    """The library."""
    chosen = tuple(((f"list<{kind}>",), kind) for kind in _ORDERED)
    added = tuple(((f"list<{kind}>",), kind) for kind in _ADDED)
    any_list: Overload = ((LIST,), DYN)
    return (
        _function("isSorted", (((LIST,), BOOL),), _is_sorted),
        _function("sum", added, _sum, any_list),
        _function("min", chosen, lambda items: _choose("min", items, min), any_list),
        _function("max", chosen, lambda items: _choose("max", items, max), any_list),
        _function("indexOf", (((LIST, DYN), INT),), _index_of),
        _function("lastIndexOf", (((LIST, DYN), INT),), _last_index_of),
    )


def _function(
    name: str,
    overloads: tuple[Overload, ...],
    impl: Callable[..., Any],
    runtime: Overload | None = None,
) -> Function:
    return Function(
        library="lists",
        name=name,
        overloads=overloads,
        runtime=(runtime,) if runtime else overloads,
        impl=impl,
        is_member=True,
    )


def _kind(item: Any) -> str:
    """Numbers compare with each other; nothing else does with another kind."""
    if type(item) is int or type(item) is float:
        return "number"
    return type(item).__name__


def _comparable(name: str, items: list[Any]) -> None:
    kinds = {_kind(item) for item in items}
    if len(kinds) > 1 or kinds & {"list", "dict", "NoneType"}:
        raise ValueError(f"{name}() needs values that can be ordered, all of one type")


def _is_sorted(items: list[Any]) -> bool:
    _comparable("isSorted", items)
    return all(one <= two for one, two in pairwise(items))


def _choose(name: str, items: list[Any], choose: Callable[[list[Any]], Any]) -> Any:
    if not items:
        raise ValueError(f"{name}() of an empty list")
    _comparable(name, items)
    return choose(items)


def _sum(items: list[Any]) -> Any:
    kinds = {type(item) for item in items}
    if not items:
        return 0
    if kinds == {float}:
        # In order, as Go adds: math.fsum would be more exact and differ.
        total = 0.0
        for item in items:
            total += item
        return total
    if kinds == {int}:
        amount = sum(items)
        if not _LEAST <= amount <= _MOST:
            raise ValueError("sum() overflows")
        return amount
    if kinds == {timedelta}:
        return sum(items, timedelta())
    raise ValueError("sum() needs numbers or durations, all of one type")


def same(left: Any, right: Any) -> bool:
    """CEL's ``==``: as Python's, but a bool equals no number, at any depth (JSON is at most 200 levels deep)."""
    if type(left) is bool or type(right) is bool:
        return left is right
    if type(left) is list and type(right) is list:
        return len(left) == len(right) and all(map(same, left, right))
    if type(left) is dict and type(right) is dict:
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((i for i, item in enumerate(items) if same(item, wanted)), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    back = _index_of(items[::-1], wanted)
    return back if back < 0 else len(items) - 1 - back
