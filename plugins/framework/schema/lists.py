"""Keys of list-maps and items of sets occur once (``pkg/apiserver/schema/listtype/validation.go``)."""

from __future__ import annotations

from typing import Any

import orjson

from plugins.framework import field
from plugins.framework.field import FieldError, Path
from plugins.framework.schema.check import MOST_ERRORS
from plugins.framework.schema.node import Node
from plugins.framework.schema.walk import ABSENT, Place, below


def duplicates(node: Node, value: Any) -> list[FieldError]:
    """All breaches in an object, each repeated key once, at the place where it comes again."""
    errors: list[FieldError] = []
    _walk((node, value, Path(), ABSENT), errors)
    return errors


def _walk(place: Place, errors: list[FieldError]) -> None:
    if len(errors) >= MOST_ERRORS:
        return
    node, value, path, _ = place
    if type(value) is list and node.list_keys is not None:
        errors.extend(_list_map(node, value, path) if node.list_keys else _set(value, path))
    for sub in below(place, _has_lists):
        _walk(sub, errors)


def _has_lists(node: Node) -> bool:
    return node.has_lists


def _list_map(node: Node, value: list[Any], path: Path) -> list[FieldError]:
    for i, item in enumerate(value):
        if item is not None and type(item) is not dict:
            words = "must be an object for an array of list-type map"
            return [field.invalid(path.index(i), item, words)]
    (first, *more) = node.list_keys or ("",)
    if not more:
        names = {item.get(first) for item in value if item and type(item.get(first)) is str}
        if len(names) == len(value):
            return []  # as almost always
    keys = [{k: item[k] for k in (first, *more) if k in item} if item else {} for item in value]
    return [field.duplicate(path.index(i), keys[i]) for i in _second_ones(keys)]


def _set(value: list[Any], path: Path) -> list[FieldError]:
    return [field.duplicate(path.index(i), value[i]) for i in _second_ones(value)]


def _second_ones(items: list[Any]) -> list[int]:
    """Where an item comes for the second time; its third and later times are not counted."""
    times: dict[Any, int] = {}
    found = []
    for i, item in enumerate(items):
        text = _text(item)
        times[text] = times.get(text, 0) + 1
        if times[text] == 2:
            found.append(i)
            if len(found) >= MOST_ERRORS:
                break
    return found


def _text(item: Any) -> str | bytes:
    """Something that is equal for equal items."""
    try:
        return orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # an integer beyond 64 bits, half a surrogate pair
        return repr(item)
