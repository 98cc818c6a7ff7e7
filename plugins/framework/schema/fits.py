"""A fast yes or no: does every field of this object have the JSON type that its schema gives it?

Lists may not be longer than the schema says either: what follows takes time for each item, and the mutating
call comes before the API server counts them. This runs on every review of the server, so the schema is compiled once to closures that build no messages and
stop at the first misfit. ``check`` gives the words.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from plugins.framework.schema.node import Node

Fits: TypeAlias = Callable[[Any], bool]

_SCALARS: Final[Mapping[str, type]] = {"s": str, "i": int, "b": bool}


def compile_root(root: Node, metadata: Fits) -> Fits:
    """The check of a whole object, with ``metadata`` for the part that no CRD describes."""
    known: dict[int, Fits] = {}
    subs = {
        name: _compile(node, known) for name, node in root.properties.items() if name != "metadata"
    }
    return _object({"apiVersion": str, "kind": str}, subs | {"metadata": metadata})


def _compile(node: Node, known: dict[int, Fits]) -> Fits:
    if id(node) not in known:
        known[id(node)] = _make(node, known)
    return known[id(node)]


def _make(node: Node, known: dict[int, Fits]) -> Fits:
    match node.kind:
        case "o" if node.values is not None:
            return _map(node.values, known)
        case "o":
            types = {
                n: _SCALARS[sub.kind] for n, sub in node.properties.items() if sub.kind in _SCALARS
            }
            subs = {n: _compile(sub, known) for n, sub in node.properties.items() if n not in types}
            return _object(types, subs)
        case "a":
            most = sys.maxsize if node.max_items is None else node.max_items
            return _list(node.items, most, known)
        case "x":
            return lambda value: type(value) is str or type(value) is int
        case scalar:
            wanted = _SCALARS[scalar]
            return lambda value: type(value) is wanted


def _never(_value: Any) -> bool:
    return False


def _object(types: Mapping[str, type], subs: Mapping[str, Fits]) -> Fits:
    # A right scalar costs one look-up; only the rest goes on to the second.
    type_of = types.get
    sub_of = (dict.fromkeys(types, _never) | dict(subs)).get

    def fits(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name, item in value.items():
            if type(item) is not type_of(name):
                sub = sub_of(name)
                if sub is not None and not sub(item):
                    return False
        return True

    return fits


def _map(values: Node, known: dict[int, Fits]) -> Fits:
    wanted = _SCALARS.get(values.kind)
    if wanted is not None:

        def fits_scalars(value: Any) -> bool:
            return type(value) is dict and all(type(item) is wanted for item in value.values())

        return fits_scalars
    sub = _compile(values, known)

    def fits(value: Any) -> bool:
        return type(value) is dict and all(map(sub, value.values()))

    return fits


def _list(items: Node | None, most: int, known: dict[int, Fits]) -> Fits:
    if items is None:
        return lambda value: type(value) is list and len(value) <= most
    wanted = _SCALARS.get(items.kind)
    if wanted is not None:

        def fits_scalars(value: Any) -> bool:
            return (
                type(value) is list
                and len(value) <= most
                and all(type(item) is wanted for item in value)
            )

        return fits_scalars
    sub = _compile(items, known)

    def fits(value: Any) -> bool:
        return type(value) is list and len(value) <= most and all(map(sub, value))

    return fits
