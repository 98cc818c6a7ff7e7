"""The schema of an option's arguments: what CRDs have of OpenAPI v3, as far as the checker knows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from plugins.framework.schema.node import Node

KINDS: Final[Mapping[str, str]] = {
    "object": "o",
    "array": "a",
    "string": "s",
    "integer": "i",
    "boolean": "b",
}
MOST_LEVELS: Final = 16

_PLAIN_BOUNDS: Final[Mapping[str, tuple[str, type]]] = {
    "minimum": ("minimum", int),
    "maximum": ("maximum", int),
    "minLength": ("min_length", int),
    "maxLength": ("max_length", int),
    "minItems": ("min_items", int),
    "maxItems": ("max_items", int),
    "minProperties": ("min_properties", int),
}
_SAID: Final = frozenset({"description", "title", "default", "example"})
"""Keys that check nothing."""
_KNOWN: Final = (
    frozenset({"type", "properties", "additionalProperties", "items", "required", "enum"})
    | frozenset({"pattern"})
    | _PLAIN_BOUNDS.keys()
    | _SAID
)


class BadSchema(ValueError):
    """A schema that cannot be used; the text says where and why."""


def node_of(schema: Any, at: str = "args", level: int = 0) -> Node:
    """The schema for the checker. Raises BadSchema."""
    if type(schema) is not dict:
        raise BadSchema(f"{at}: must be an object")
    if level > MOST_LEVELS:
        raise BadSchema(f"{at}: has more than {MOST_LEVELS} levels")
    unknown = sorted(schema.keys() - _KNOWN)
    if unknown:
        raise BadSchema(f"{at}.{unknown[0]}: is not known; there are: {', '.join(sorted(_KNOWN))}")
    kind = schema.get("type")
    if type(kind) is not str or kind not in KINDS:
        raise BadSchema(f"{at}.type: must be one of {', '.join(KINDS)}")
    properties = schema.get("properties", {})
    if type(properties) is not dict:
        raise BadSchema(f"{at}.properties: must be an object")
    more = schema.get("additionalProperties")
    if more is True:
        raise BadSchema(f"{at}.additionalProperties: must be a schema")
    if kind == "array" and "items" not in schema:
        raise BadSchema(f"{at}.items: is missing")
    return Node(
        kind=KINDS[kind],
        properties={
            name: node_of(below, f"{at}.properties.{name}", level + 1)
            for name, below in properties.items()
        },
        values=node_of(more, f"{at}.additionalProperties", level + 1) if more else None,
        items=node_of(schema["items"], f"{at}.items", level + 1) if kind == "array" else None,
        required=tuple(_strings(schema, "required", at)),
        enum=tuple(_list(schema, "enum", at)),
        pattern=schema.get("pattern", ""),
        matches=_pattern(schema, at),
        **_bounds(schema, at),
    )


def _bounds(schema: Mapping[str, Any], at: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, (name, kind) in _PLAIN_BOUNDS.items():
        if key not in schema:
            continue
        if type(schema[key]) is not kind:
            raise BadSchema(f"{at}.{key}: must be an integer")
        out[name] = schema[key]
    return out


def _list(schema: Mapping[str, Any], key: str, at: str) -> list[Any]:
    found = schema.get(key, [])
    if type(found) is not list:
        raise BadSchema(f"{at}.{key}: must be a list")
    return found


def _strings(schema: Mapping[str, Any], key: str, at: str) -> list[str]:
    found = _list(schema, key, at)
    if any(type(item) is not str for item in found):
        raise BadSchema(f"{at}.{key}: must be a list of strings")
    return found


def _pattern(schema: Mapping[str, Any], at: str) -> re.Pattern[str] | None:
    if "pattern" not in schema:
        return None
    try:
        return re.compile(schema["pattern"])
    except (TypeError, re.error) as error:
        raise BadSchema(f"{at}.pattern: is no regular expression: {error}") from error
