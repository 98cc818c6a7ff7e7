"""Walking an object along its schema, with the old object beside it.

How a value finds its old one is ``k8s.io/apiserver/pkg/cel/common`` (``equality.go``, ``maplist.go``): a field by its name,
an item of a list-map by its keys, an item of any other list not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from plugins.framework.field import Path
from plugins.framework.schema.node import Node

LONGEST_NAME: Final = 256
"""Characters of a field's name that a path shows."""
ABSENT: Final[Any] = object()
"""Stands for an old value where there is none to compare with; ``None`` is a value."""

Place: TypeAlias = tuple[Node, Any, Path, Any]
"""A node, the value there, where that is, and its old value."""


def cut(name: str) -> str:
    """A field's name as far as a message shows it."""
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "..."


def below(place: Place, wanted: Callable[[Node], bool]) -> Iterator[Place]:
    """The places directly below one, in the order of the schema, where the node is ``wanted``."""
    node, value, path, old = place
    if type(value) is list and node.items is not None and wanted(node.items):
        olds = correlate(node, old)
        for i, item in enumerate(value):
            was = olds.get(list_key(node, item), ABSENT) if olds else ABSENT
            yield node.items, item, path.index(i), was
    elif type(value) is dict:
        before = old if type(old) is dict else {}
        if node.values is not None and wanted(node.values):
            for name, item in value.items():
                yield node.values, item, path.key(cut(name)), before.get(name, ABSENT)
        for name, sub in node.properties.items():
            if name in value and wanted(sub):
                yield sub, value[name], path.child(name), before.get(name, ABSENT)


def list_key(node: Node, item: Any) -> tuple[Any, ...] | None:
    """What identifies an item of a list-map (``pkg/cel/common/maplist.go``); None if nothing does."""
    if not node.list_keys or type(item) is not dict:
        return None
    key = tuple((name, type(item.get(name)), item.get(name)) for name in node.list_keys)
    if any(kind not in {str, int, float, bool} for _, kind, _ in key):
        return None
    return key


def correlate(node: Node, old: Any) -> dict[Any, Any]:
    """The old items of a list-map by their keys; the first of equal keys counts."""
    if not node.list_keys or type(old) is not list:
        return {}
    found: dict[Any, Any] = {}
    for item in old:
        key = list_key(node, item)
        if key is not None:
            found.setdefault(key, item)
    return found


def same(node: Node | None, new: Any, old: Any) -> bool:
    """Whether two values are equal as the API server compares them: list-maps without regard to order.

    Python's ``True == 1`` and ``1 == 1.0`` are told apart.
    """
    if type(new) is not type(old):
        return False
    if type(new) is dict:
        return len(new) == len(old) and all(
            name in old and same(_below(node, name), item, old[name]) for name, item in new.items()
        )
    if type(new) is not list:
        return bool(new == old)
    if len(new) != len(old):
        return False
    items = None if node is None else node.items
    if node is not None and node.list_keys:
        before = correlate(node, old)
        return all(same(items, item, before.get(list_key(node, item), ABSENT)) for item in new)
    return all(same(items, item, other) for item, other in zip(new, old, strict=True))


def _below(node: Node | None, name: str) -> Node | None:
    return None if node is None else node.properties.get(name) or node.values
