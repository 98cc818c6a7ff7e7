"""Optionals must not reach a function of ours.

A Python function that is handed an optional, or a list with one in it, takes the process down (a segmentation fault in
0.1.3). So an optional must be known as one wherever it goes: what would hide it behind ``dyn``, and what would hand it
to a function of ours, is refused when the expression is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from policies.cel.library import functions
from policies.cel.syntax import (
    Call,
    Comprehension,
    Ident,
    ListOf,
    Node,
    Struct,
    children,
    walk,
)

_OPTIONAL: Final = "optional_type"
_MAKERS: Final = frozenset(
    {"_?._", "_[?_]", "optional.of", "optional.none", "optional.ofNonZeroValue", "first", "last"}
)
_OPENERS: Final = frozenset({"orValue", "value"})


@lru_cache(maxsize=1)
def _ours() -> frozenset[str]:
    return frozenset(function.name for function in functions())


def hidden(root: Node, types: Mapping[int, Any]) -> Node | None:
    """The first node that an optional disappears in; None where all stay visible.

    ``types`` empty: nothing was checked, and then an optional beside a function of ours is too much.
    """
    if not types:
        return _any_beside_ours(root)
    for node in walk(root):
        if isinstance(node, Call) and node.function in _ours():
            if any(_holds(types.get(child.id)) for child in children(node)):
                return node
        elif _loses(node, types):
            return node
    return None


def _any_beside_ours(root: Node) -> Node | None:
    calls = [node for node in walk(root) if isinstance(node, Call)]
    ours = [node for node in calls if node.function in _ours()]
    if ours and any(node.function in _MAKERS for node in calls):
        return ours[0]
    return None


def _loses(node: Node, types: Mapping[int, Any]) -> bool:
    type_ = types.get(node.id)
    if _holds(type_) or not _is_open(type_):
        return False
    given = _given(node)
    if isinstance(node, Call) and node.function in _OPENERS and node.target is not None:
        # One level is opened, and the value within must not hold another.
        inner = types.get(node.target.id)
        return any(_holds(types.get(arg.id)) for arg in node.args) or _holds_within(inner)
    return any(_holds(types.get(child.id)) for child in given)


def _given(node: Node) -> Iterator[Node]:
    """The children whose value may become a part of the node's."""
    match node:
        case ListOf():
            for i, element in enumerate(node.elements):
                if i not in node.optional:
                    yield element
        case Struct():
            for entry in node.entries:
                if not entry.is_optional:
                    yield entry.value
        case Comprehension():
            yield from (node.accu_init, node.step, node.result)
        case Ident():
            return
        case Call() if node.function in ("unwrap", "optional.unwrap", "unwrapOpt"):
            return
        case _:
            yield from children(node)


def is_held(type_: Any) -> bool:
    """Whether a value of this type is, or has in it, an optional."""
    return _holds(type_)


def _holds(type_: Any) -> bool:
    if type_ is None:
        return False
    match type_.WhichOneof("type_kind"):
        case "abstract_type":
            return type_.abstract_type.name == _OPTIONAL or any(
                map(_holds, type_.abstract_type.parameter_types)
            )
        case "list_type":
            return _holds(type_.list_type.elem_type)
        case "map_type":
            return _holds(type_.map_type.key_type) or _holds(type_.map_type.value_type)
        case _:
            return False


def _holds_within(type_: Any) -> bool:
    if type_ is None or type_.WhichOneof("type_kind") != "abstract_type":
        return False
    return any(map(_holds, type_.abstract_type.parameter_types))


def _is_open(type_: Any) -> bool:
    """Whether the type has room for anything: dyn, or a list or map of it. Kinds that are not declared are dyn."""
    if type_ is None:
        return True
    match type_.WhichOneof("type_kind"):
        case "list_type":
            return _is_open(type_.list_type.elem_type)
        case "map_type":
            return _is_open(type_.map_type.key_type) or _is_open(type_.map_type.value_type)
        case "primitive" | "message_type" | "type":
            return False
        case "abstract_type":
            return any(map(_is_open, type_.abstract_type.parameter_types))
        case _:
            return True
