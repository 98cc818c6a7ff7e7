"""Check an object against its schema, in the words of the API server.

The words and the order of the checks are those of ``k8s.io/kube-openapi/pkg/validation/validate`` and
``k8s.io/apiextensions-apiserver/pkg/apiserver/validation`` at 1.36. A few things differ on purpose: fields are
visited in the order of the schema (Go visits maps at random); an integer that does not fit its format names its
field and its value (there it comes without either, as ``<nil>: Invalid value: ""``), and the work ends after
``MOST_ERRORS`` findings. A value that is neither integer nor string is said to be so once; there the first
message is followed by two or three more about the same field, that no alternative fits, and why the first does not.

On an update a finding counts only if the value changed ("ratcheting", ``validation/ratcheting.go``): the old
value walks along, and a place that holds what it held before is not checked again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from plugins.framework import field
from plugins.framework.field import FieldError, Path
from plugins.framework.schema.node import OPEN_API_TYPES, Node
from plugins.framework.schema.shape import LONGEST_NAME, META_FIELDS

MOST_ERRORS: Final = 256
"""Findings after which an object is wrong enough."""
ABSENT: Final[Any] = object()
"""Stands for an old value where there is none to compare with; ``None`` is a value."""

_JSON_TYPES: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
_FITTING: Final[Mapping[str, frozenset[str]]] = {
    "o": frozenset({"object"}),
    "a": frozenset({"array"}),
    "s": frozenset({"string"}),
    "i": frozenset({"integer"}),
    "n": frozenset({"number", "integer"}),
    "b": frozenset({"boolean"}),
    "x": frozenset({"integer", "string"}),
}
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_TIME: Final = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))\Z"
)
_OWN_FORMATS: Final[Mapping[str, str]] = {"integer": "int64", "number": "float64"}


def json_type(value: Any) -> str:
    """The type of a value as kube-openapi sees it: integers beyond 64 bits are numbers."""
    found = _JSON_TYPES.get(type(value), "object")
    if found == "integer" and not is_integer(value, 64):
        return "number"
    return found


def is_integer(value: float, bits: int) -> bool:
    """Whether it is an int of so many bits. (``value in range(...)`` would count its way to a float.)"""
    return type(value) is int and -(1 << bits - 1) <= value < 1 << bits - 1


def cut(name: str) -> str:
    """A field's name as far as a message shows it."""
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "..."


class Checker:
    """One walk over one object; ``errors`` grows to at most ``MOST_ERRORS``."""

    def __init__(self) -> None:
        """Start without findings."""
        self.errors: list[FieldError] = []

    def check_root(self, root: Node, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
        """Check a whole object, apart from ``apiVersion``, ``kind`` and ``metadata``, which no CRD describes."""
        before = old or {}
        for name in root.required:
            if name not in obj:
                self._add(field.required(Path(name)))
        for name, node in root.properties.items():
            if name in obj and name not in META_FIELDS:
                self.check(node, obj[name], Path(name), before.get(name, ABSENT))

    def check(self, node: Node, value: Any, path: Path, old: Any = ABSENT) -> None:
        """Check ``value`` and all below it, except where ``old`` holds the same."""
        if len(self.errors) >= MOST_ERRORS or (old is not ABSENT and same(node, value, old)):
            return
        found = json_type(value)
        if found not in _FITTING[node.type]:
            self._wrong_type(node, value, path, found)
        if found == "string":
            self._string(node, value, path)
        elif found in {"integer", "number"}:
            self._number(node, value, path)
        elif found == "array":
            self._list(node, value, path, old)
        if node.enum and value not in node.enum:
            names = [item if type(item) is str else field.show(item) for item in node.enum]
            self._add(field.not_supported(path, value, names))
        if found == "object":
            self._object(node, value, path, old)

    def _add(self, error: FieldError) -> None:
        if len(self.errors) < MOST_ERRORS:
            self.errors.append(error)

    def _wrong_type(self, node: Node, value: Any, path: Path, found: str) -> None:
        if node.nullable and value is None:
            return
        wanted, shown = OPEN_API_TYPES[node.type], found
        if node.format and found not in {"string", "null"}:
            if found == "array" and node.type == "s":
                return  # kube-openapi lets a list pass for a formatted string; the Trainer's decoder does not
            if found != "array":
                # With a format it compares formats, and names the value's own.
                wanted, shown = node.format, _OWN_FORMATS.get(found, "")
        self._add(
            field.type_invalid(path, shown, f'{path} in body must be of type {wanted}: "{shown}"')
        )

    def _string(self, node: Node, value: str, path: Path) -> None:
        if node.max_length is not None and len(value) > node.max_length:
            self._add(field.too_long(path, value, node.max_length))
        elif node.min_length is not None and len(value) < node.min_length:
            words = f"should be at least {node.min_length} chars long"
            self._add(field.invalid(path, value, f"{path} in body {words}"))
        elif node.matches is not None and node.matches.search(value) is None:
            self._add(field.invalid(path, value, f"{path} in body should match '{node.pattern}'"))
        if node.format == "date-time" and not _is_date_time(value):
            shown = (
                value if len(value) <= field.LONGEST_VALUE else value[: field.LONGEST_VALUE] + "..."
            )
            words = f'{path} in body must be of type date-time: "{field.escape(shown)}"'
            self._add(field.type_invalid(path, value, words))

    def _number(self, node: Node, value: int | float, path: Path) -> None:
        if node.type == "i" and not is_integer(value, 32 if node.format == "int32" else 64):
            words = f"Checked value must be of type integer with format {node.format or 'int64'}"
            self._add(field.invalid(path, value, f"{words} in {path}"))
        if node.maximum is not None and value > node.maximum:
            words = f"should be less than or equal to {node.maximum}"
            self._add(field.invalid(path, value, f"{path} in body {words}"))
        if node.minimum is not None and value < node.minimum:
            words = f"should be greater than or equal to {node.minimum}"
            self._add(field.invalid(path, value, f"{path} in body {words}"))

    def _list(self, node: Node, value: list[Any], path: Path, old: Any) -> None:
        if node.items is not None:
            before = correlate(node, old)
            for i, item in enumerate(value):
                self.check(
                    node.items, item, path.index(i), before.get(list_key(node, item), ABSENT)
                )
        if node.min_items is not None and len(value) < node.min_items:
            words = f"should have at least {node.min_items} items"
            self._add(field.invalid(path, len(value), f"{path} in body {words}"))
        if node.max_items is not None and len(value) > node.max_items:
            self._add(field.too_many(path, len(value), node.max_items))

    def _object(self, node: Node, value: dict[str, Any], path: Path, old: Any) -> None:
        before = old if type(old) is dict else {}
        if node.min_properties is not None and len(value) < node.min_properties:
            words = f"should have at least {node.min_properties} properties"
            self._add(field.invalid(path, len(value), f"{path} in body {words}"))
        if node.values is not None:
            for name, item in value.items():
                self.check(node.values, item, path.child(cut(name)), before.get(name, ABSENT))
        for name, sub in node.properties.items():
            if name in value:
                self.check(sub, value[name], path.child(name), before.get(name, ABSENT))
        for name in node.required:
            if name not in value:
                self._add(field.required(path.child(name)))


def _is_date_time(text: str) -> bool:
    """``strfmt.IsDateTime``, with its laxness: what follows a second ``T`` is not looked at."""
    day, _, rest = text.lower().partition("t")
    match = _TIME.match(rest.partition("t")[0])
    if (
        match is None
        or not _DAY.match(day)
        or any(match[i] > most for i, most in ((1, "23"), (2, "59"), (3, "59")))
    ):
        return False
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True


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
