"""The schema of one place in an object, as the API server knows it, read from a table.

The tables are derived from the CRDs by ``scripts/facts/tables.py``. A node there is a map with short keys:

====== ==========================================================================================
``t``  type: ``o`` object, ``a`` array, ``s`` string, ``i`` integer, ``b`` boolean, ``x`` integer or
       string
``p``  properties: name -> number of the node
``a``  node of the values of a map (``additionalProperties``)
``e``  node of the items of a list
``r``  names of required properties
``d``  default
``n``  enumeration
``k``  list-map keys; empty for a set; absent for an atomic list
``m``  pattern; ``f`` format
``ge`` ``le`` ``lmin`` ``lmax`` ``imin`` ``imax`` ``pmin``
       minimum, maximum, and the bounds of the length, of the items, of the properties
``v``  numbers of the CEL rules
====== ==========================================================================================

What no CRD of the Trainer uses (numbers with a fraction, nullable fields, unknown fields that are kept, ``oneOf``) is not
there; the script stops where one begins to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

OPEN_API_TYPES: Final = {
    "o": "object",
    "a": "array",
    "s": "string",
    "i": "integer",
    "b": "boolean",
    "x": "integer,string",
}
_PLAIN: Final[Mapping[str, type]] = {"s": str, "b": bool}
_BOUNDS: Final = frozenset({"n", "m", "f", "lmin", "lmax"})


class Rule(NamedTuple):
    """One entry of ``x-kubernetes-validations``."""

    rule: str
    message: str


@dataclass(slots=True, eq=False)
class Node:
    """What the schema says about one place.

    Nodes are shared: all places with the same schema have the same node. ``eq`` is left out so that a node
    can be a key.
    """

    kind: str
    """One of the letters of ``t``."""
    properties: dict[str, Node] = field(default_factory=dict)
    values: Node | None = None
    items: Node | None = None
    required: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False
    enum: tuple[Any, ...] = ()
    pattern: str = ""
    matches: re.Pattern[str] | None = None
    """``pattern`` in Python's dialect."""
    format: str = ""
    list_keys: tuple[str, ...] | None = None
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    rules: tuple[Rule, ...] = ()
    plain: type | None = None
    """The Python type of values that need no further look: a string or a bool without bounds."""
    defaulted: tuple[tuple[str, Node], ...] = ()
    """The properties that have a default."""
    has_rules: bool = False
    """Whether a CEL rule stands here or below; elsewhere the walk of the rules does not go."""
    has_lists: bool = False
    """Whether a set or a list-map stands here or below."""


def read_nodes(raw: Sequence[Mapping[str, Any]], rules: Sequence[Sequence[str]]) -> list[Node]:
    """Make the nodes of a table. Children stand before their parents there, so one pass is enough."""
    nodes: list[Node] = []
    known = [Rule(*pair) for pair in rules]
    patterns: dict[str, re.Pattern[str]] = {}
    for entry in raw:
        properties = {name: nodes[number] for name, number in entry.get("p", {}).items()}
        values = nodes[entry["a"]] if "a" in entry else None
        items = nodes[entry["e"]] if "e" in entry else None
        pattern = entry.get("m", "")
        if pattern and pattern not in patterns:
            patterns[pattern] = re.compile(_to_python(pattern))
        plain = _PLAIN.get(entry["t"]) if not entry.keys() & _BOUNDS else None
        own_rules = tuple(known[number] for number in entry.get("v", ()))
        keys = entry.get("k")
        children = [*properties.values(), *(n for n in (values, items) if n is not None)]
        nodes.append(
            Node(
                kind=entry["t"],
                properties=properties,
                values=values,
                items=items,
                required=tuple(entry.get("r", ())),
                default=entry.get("d"),
                has_default="d" in entry,
                enum=tuple(entry.get("n", ())),
                pattern=pattern,
                matches=patterns.get(pattern),
                format=entry.get("f", ""),
                list_keys=None if keys is None else tuple(keys),
                minimum=entry.get("ge"),
                maximum=entry.get("le"),
                min_length=entry.get("lmin"),
                max_length=entry.get("lmax"),
                min_items=entry.get("imin"),
                max_items=entry.get("imax"),
                min_properties=entry.get("pmin"),
                rules=own_rules,
                plain=plain,
                defaulted=tuple(
                    (name, node) for name, node in properties.items() if node.has_default
                ),
                has_rules=bool(own_rules) or any(child.has_rules for child in children),
                has_lists=keys is not None or any(child.has_lists for child in children),
            )
        )
    return nodes


def _to_python(pattern: str) -> str:
    """A CRD's pattern (RE2) in Python's dialect: the two differ, for what the CRDs use, in ``$`` alone.

    RE2's ``$`` is the end of the text; Python's also stands before a final newline.
    """
    return pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern
