"""Keys of list-maps and items of sets occur once (``pkg/apiserver/schema/listtype/validation.go``)."""

from __future__ import annotations

from typing import Any

import orjson

from plugins.framework import field
from plugins.framework.field import FieldError, Path
from plugins.framework.schema.check import MOST_ERRORS, cut
from plugins.framework.schema.node import Node


def duplicates(node: Node, value: Any, path: Path) -> list[FieldError]:
    """All breaches in ``value`` and below it, each repeated key once, at the place where it comes again."""
    errors: list[FieldError] = []
    _walk(node, value, path, errors)
    return errors


def _walk(node: Node, value: Any, path: Path, errors: list[FieldError]) -> None:
    if not node.has_lists or len(errors) >= MOST_ERRORS:
        return
    if type(value) is list:
        if node.list_keys is not None:
            errors.extend(_list_map(node, value, path) if node.list_keys else _set(value, path))
        if node.items is not None and node.items.has_lists:
            for i, item in enumerate(value):
                _walk(node.items, item, path.index(i), errors)
    elif type(value) is dict:
        if node.values is not None and node.values.has_lists:
            for name, item in value.items():
                _walk(node.values, item, path.key(cut(name)), errors)
        for name, sub in node.properties.items():
            if sub.has_lists and name in value:
                _walk(sub, value[name], path.child(name), errors)


def _list_map(node: Node, value: list[Any], path: Path) -> list[FieldError]:
    for i, item in enumerate(value):
        if item is not None and type(item) is not dict:
            return [
                field.invalid(
                    path.index(i), item, "must be an object for an array of list-type map"
                )
            ]
    keys = [
        {k: item[k] for k in node.list_keys or () if k in item} if item else {} for item in value
    ]
    return [field.duplicate(path.index(i), keys[i]) for i in _second_ones(keys)]


def _set(value: list[Any], path: Path) -> list[FieldError]:
    return [field.duplicate(path.index(i), value[i]) for i in _second_ones(value)]


def _second_ones(items: list[Any]) -> list[int]:
    """Where an item comes for the second time; its third and later times are not counted."""
    times: dict[bytes, int] = {}
    found = []
    for i, item in enumerate(items):
        text = orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
        times[text] = times.get(text, 0) + 1
        if times[text] == 2:
            found.append(i)
    return found
