"""Give an object the shape in which the API server keeps it: nulls and unknown fields out, defaults in.

Sources, all in ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema``: ``pruning/algorithm.go``,
``defaulting/prunenulls.go`` and ``defaulting/algorithm.go``, there three walks, here one.
"""

from __future__ import annotations

from typing import Any, Final

from plugins.framework.schema.node import Node
from plugins.framework.schema.walk import cut

MOST_PRUNED: Final = 256
"""How many pruned fields are reported. An object with more is not one that somebody wrote."""
META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})

_NOT_PLAIN: Final = frozenset({dict, list, float})
_LARGEST_INTEGRAL: Final = 1e21
"""From here on Go prints a float with an exponent, so that it does not come back as an integer."""


class Shaper:
    """One walk over one object. It builds a new object and leaves the given one as it is."""

    def __init__(self) -> None:
        """Start with nothing pruned."""
        self.pruned: list[str] = []

    def root(self, node: Node, obj: dict[str, Any]) -> dict[str, Any]:
        """Shape a whole object; ``apiVersion``, ``kind`` and ``metadata`` pass untouched."""
        meta = {name: value for name, value in obj.items() if name in META_FIELDS}
        rest = {name: value for name, value in obj.items() if name not in META_FIELDS}
        return meta | self._object(node, rest, "")

    def _value(self, node: Node | None, value: Any, path: str) -> Any:
        if type(value) is dict:
            return self._object(node, value, path)
        if type(value) is list:
            items = None if node is None else node.items
            return [
                self._value(items, item, f"{path}[{i}]") if type(item) in _NOT_PLAIN else item
                for i, item in enumerate(value)
            ]
        return as_int(value) if type(value) is float else value

    def _object(self, node: Node | None, value: dict[str, Any], path: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if node is None:
            self._forget(value, path)
            return out
        for name, item in value.items():
            sub = node.properties.get(name) or node.values
            if sub is None:
                self._record(path, name)
            elif type(item) in _NOT_PLAIN:
                out[name] = self._value(sub, item, _join(path, name))
            elif item is not None:
                out[name] = item
        for name, sub in node.defaulted:
            if name not in out:
                out[name] = self._value(sub, sub.default, _join(path, name))
        return out

    def _forget(self, value: dict[str, Any], path: str) -> None:
        for name in value:
            self._record(path, name)

    def _record(self, path: str, name: str) -> None:
        if len(self.pruned) < MOST_PRUNED:
            self.pruned.append(_join(path, name))


def as_int(value: float) -> int | float:
    """A float with an integral value as the integer that Go's JSON prints for it: ``2.0`` arrives as ``2``."""
    if value.is_integer() and abs(value) < _LARGEST_INTEGRAL:
        return int(value)
    return value


def _join(path: str, name: str) -> str:
    return f"{path}.{cut(name)}" if path else cut(name)
