"""Check an object against its schema, in the words of the API server.

The words and the order of the checks are those of ``k8s.io/kube-openapi/pkg/validation/validate`` and
``k8s.io/apiextensions-apiserver/pkg/apiserver/validation`` at 1.36. A few things differ on purpose: fields are
visited in the order of the schema (Go visits maps at random); an integer that does not fit its format names its
field and its value (there it comes without either, as ``<nil>: Invalid value: ""``), and the work ends after
``MOST_ERRORS`` findings. A value of a wrong type is said to be so once; there an integer with a fraction is also out
of range, and a value that is neither integer nor string fits no alternative, which takes two or three messages more.

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
from plugins.framework.schema.shape import META_FIELDS
from plugins.framework.schema.walk import ABSENT, correlate, cut, list_key, same

MOST_ERRORS: Final = 256
"""Findings after which an object is wrong enough."""
MOST_VALUES: Final = 500_000
"""Values looked at before an object counts as too large. etcd takes 1.5 MiB, which is a third of that at most;
twice as many take a second."""
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
    """Whether it is an int of so many bits; ``value in range(...)`` would count its way to a float."""
    return type(value) is int and -(1 << bits - 1) <= value < 1 << bits - 1


class Checker:
    """One walk over one object; ``errors`` grows to at most ``MOST_ERRORS``."""

    def __init__(self, *, strict: bool = False) -> None:
        """Start without findings. ``strict`` also finds what passes there and does not fit a Go type."""
        self._strict = strict
        self.errors: list[FieldError] = []
        self._left = MOST_VALUES

    def check_root(self, root: Node, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
        """Check a whole object, apart from ``apiVersion``, ``kind`` and ``metadata``, which no CRD describes."""
        before = old or {}
        for name in root.required:
            if name not in obj:
                self._add(field.required(Path(name)))
        for name, node in root.properties.items():
            if name in obj and name not in META_FIELDS:
                self.check(node, obj[name], Path(name), before.get(name, ABSENT))
        if self._left <= 0 and len(self.errors) < MOST_ERRORS:
            words = f"too large to be checked: must have at most {MOST_VALUES} values"
            self.errors.append(field.internal("", words))

    def check(self, node: Node, value: Any, path: Path, old: Any = ABSENT) -> None:
        """Check ``value`` and all below it, except where ``old`` holds the same."""
        if self._left <= 0 or (old is not ABSENT and same(node, value, old)):
            return
        self._left -= 1
        found = json_type(value)
        if found not in _FITTING[node.kind]:
            self._wrong_type(node, path, found)
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
        else:
            self._left = 0

    def _wrong_type(self, node: Node, path: Path, found: str) -> None:
        wanted, shown = OPEN_API_TYPES[node.kind], found
        if node.format and found not in {"string", "null"}:
            if found == "array" and node.kind == "s" and not self._strict:
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

    def _number(self, node: Node, value: float, path: Path) -> None:
        if node.format == "int32" and type(value) is int and not is_integer(value, 32):
            words = "Checked value must be of type integer with format int32"
            self._add(field.invalid(path, value, f"{words} in {path}"))
        if node.maximum is not None and value > node.maximum:
            words = f"should be less than or equal to {node.maximum}"
            self._add(field.invalid(path, value, f"{path} in body {words}"))
        if node.minimum is not None and value < node.minimum:
            words = f"should be greater than or equal to {node.minimum}"
            self._add(field.invalid(path, value, f"{path} in body {words}"))

    def _list(self, node: Node, value: list[Any], path: Path, old: Any) -> None:
        if node.items is not None:
            self._items(node, node.items, value, path, old)
        if node.min_items is not None and len(value) < node.min_items:
            words = f"should have at least {node.min_items} items"
            self._add(field.invalid(path, len(value), f"{path} in body {words}"))
        if node.max_items is not None and len(value) > node.max_items:
            self._add(field.too_many(path, len(value), node.max_items))

    def _items(self, node: Node, items: Node, value: list[Any], path: Path, old: Any) -> None:
        before = correlate(node, old)
        for i, item in enumerate(value):
            if items.plain is type(item):
                continue
            if self._left <= 0:
                break
            was = before.get(list_key(node, item), ABSENT) if before else ABSENT
            self.check(items, item, path.index(i), was)

    def _object(self, node: Node, value: dict[str, Any], path: Path, old: Any) -> None:
        before = old if type(old) is dict else {}
        if node.min_properties is not None and len(value) < node.min_properties:
            words = f"should have at least {node.min_properties} properties"
            self._add(field.invalid(path, len(value), f"{path} in body {words}"))
        if node.values is not None:
            for name, item in value.items():
                if node.values.plain is type(item):
                    continue
                if self._left <= 0:
                    break
                self.check(node.values, item, path.child(cut(name)), before.get(name, ABSENT))
        for name, sub in node.properties.items():
            if name in value and sub.plain is not type(value[name]):
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
