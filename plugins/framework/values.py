"""Small tools on JSON values: exact equality, copies, safe reading of objects of any shape."""

from __future__ import annotations

from typing import Any, Final

import orjson

EMPTY: Final[dict[str, Any]] = {}
"""What a missing object reads as. Never written to."""


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal, types included.

    Python calls ``1``, ``1.0`` and ``True`` equal; the API server does not, and a patch that skips such a
    change is wrong.
    """
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is dict:
        if len(a) != len(b):
            return False
        for key, value in a.items():
            if key not in b or not same(value, b[key]):
                return False
        return True
    if kind is list:
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def copy(value: Any) -> Any:
    """A deep copy of a JSON value; four times faster than ``copy.deepcopy``, which keeps a memo."""
    kind = type(value)
    if kind is dict:
        return {k: copy(v) if type(v) is dict or type(v) is list else v for k, v in value.items()}
    if kind is list:
        return [copy(v) if type(v) is dict or type(v) is list else v for v in value]
    return value


def packed(value: Any) -> bytes:
    """A JSON value as bytes to be kept: orjson (3.13) leaves 4 to 8 KiB of buffer with each that it returns."""
    return bytes(memoryview(orjson.dumps(value)))


def obj(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one: reading never fails on a wrong shape."""
    return value if type(value) is dict else EMPTY


def items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if type(value) is list else []


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; whatever else stands in it is left out."""
    return [v for v in value if type(v) is dict] if type(value) is list else []


def text(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if type(value) is str else ""


def at(value: Any, *steps: str) -> Any:
    """The value below a chain of keys, or None."""
    for step in steps:
        if type(value) is not dict:
            return None
        value = value.get(step)
    return value


def at_obj(value: Any, *steps: str) -> dict[str, Any]:
    """The object below a chain of keys; empty where there is none."""
    for step in steps:
        if type(value) is not dict:
            return EMPTY
        value = value.get(step)
    return value if type(value) is dict else EMPTY


def has_directives(patch: Any) -> bool:
    """Whether any key, however deep, is an order to the merge (``$patch`` and its like) instead of data."""
    stack = [patch]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            for key, value in node.items():
                if key[:1] == "$":
                    return True
                if type(value) is dict or type(value) is list:
                    stack.append(value)
        elif type(node) is list:
            stack.extend([v for v in node if type(v) is dict or type(v) is list])
    return False


def without_empty(value: Any) -> Any:
    """A value without nulls and empty lists in its objects, which no apply configuration carries.

    What does not change is shared with the argument.
    """
    kind = type(value)
    if kind is dict:
        out: dict[str, Any] | None = None
        for key, item in value.items():
            kept = without_empty(item) if type(item) is dict or type(item) is list else item
            gone = kept is None or (type(kept) is list and not kept)
            if gone or kept is not item:
                if out is None:
                    out = dict(value)
                if gone:
                    del out[key]
                else:
                    out[key] = kept
        return value if out is None else out
    if kind is list:
        items_ = [without_empty(item) if type(item) is dict else item for item in value]
        return items_ if any(a is not b for a, b in zip(items_, value, strict=True)) else value
    return value


def int32(number: int) -> int:
    """A number as a conversion to Go's int32 leaves it."""
    return (number + 2**31) % 2**32 - 2**31
