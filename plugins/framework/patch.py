"""JSON Patch beside the Draft: a type-exact difference, and applying one.

The server never computes a difference: a Draft records its own patch. This module serves what has no
record: the command line's ``diff`` of two stored objects, and the tests, which check each recorded patch
against the difference and against the ``jsonpatch`` library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plugins.framework import field
from plugins.framework.values import same

Steps = tuple[str | int, ...]


def diff(old: Any, new: Any) -> list[dict[str, Any]]:
    """Operations that turn ``old`` into ``new``; ``1``, ``1.0`` and ``true`` are different values.

    Lists are compared by position, so an insertion in front rewrites what follows: right, not pretty.
    """
    return list(_diff((), old, new))


def _diff(at: Steps, old: Any, new: Any) -> Iterator[dict[str, Any]]:
    if type(old) is dict and type(new) is dict:
        yield from _diff_objects(at, old, new)
    elif type(old) is list and type(new) is list:
        yield from _diff_lists(at, old, new)
    elif not same(old, new):
        yield {"op": "replace", "path": field.pointer(at), "value": new}


def _diff_objects(at: Steps, old: dict[str, Any], new: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in old:
        if key not in new:
            yield {"op": "remove", "path": field.pointer((*at, key))}
    for key, value in new.items():
        if key in old:
            yield from _diff((*at, key), old[key], value)
        else:
            yield {"op": "add", "path": field.pointer((*at, key)), "value": value}


def _diff_lists(at: Steps, old: list[Any], new: list[Any]) -> Iterator[dict[str, Any]]:
    common = min(len(old), len(new))
    for i in range(common):
        yield from _diff((*at, i), old[i], new[i])
    for i in range(len(old) - 1, common - 1, -1):
        yield {"op": "remove", "path": field.pointer((*at, i))}
    for i in range(common, len(new)):
        yield {"op": "add", "path": field.pointer((*at, "-")), "value": new[i]}
