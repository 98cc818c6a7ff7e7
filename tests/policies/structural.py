"""A CRD's structural schema as JSON Schema, with what Kubernetes adds to it.

An object meets it as it would meet the API server: nulls are dropped where a field may not be null, and a number
with nothing behind the point is whole. The CEL rules are not looked at here: a real API server does that
(tests/e2e/test_policy_kinds.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from jsonschema import Draft4Validator, FormatChecker, ValidationError
from jsonschema.validators import extend

from plugins.framework.schema.check import _is_date_time
from plugins.framework.schema.shape import as_int

KEEP: Final = "x-kubernetes-preserve-unknown-fields"

_FORMATS: Final = FormatChecker(formats=())
_FORMATS.checks("date-time")(lambda value: not isinstance(value, str) or _is_date_time(value))
_FORMATS.checks("int32")(
    lambda value: (
        not isinstance(value, int) or -(2**31) <= value < 2**31
    )  # a bool fails by its type
)


def mistakes(schema: dict[str, Any], obj: Any) -> list[str]:
    """What is wrong with an object, each with its path."""
    validator = _Structural(schema, format_checker=_FORMATS)
    found = validator.iter_errors(as_stored(schema, obj))
    return sorted(f"{error.json_path}: {error.message}" for error in found)


def as_stored(schema: dict[str, Any], value: Any) -> Any:
    """A value as the API server keeps it; fields that no schema knows are not dropped, but left to be found."""
    if isinstance(value, float):
        return as_int(value)
    if isinstance(value, list):
        return [as_stored(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict):
        return value
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    out = {}
    for name, item in value.items():
        below = known.get(name, others)
        if item is not None or below is None or "type" not in below:
            out[name] = as_stored(below or {}, item)
    return out


def _list_type(
    validator: Any, kind: str, value: Any, schema: dict[str, Any]
) -> Iterator[ValidationError]:
    if not validator.is_type(value, "array") or kind == "atomic":
        return
    keys = schema.get("x-kubernetes-list-map-keys")
    seen: set[str] = set()
    for item in value:
        shown = item if keys is None else [_key(item, key, schema) for key in keys]
        text = json.dumps(shown, sort_keys=True)
        if text in seen:
            yield ValidationError(f"duplicate {text}")
        seen.add(text)


def _key(item: Any, key: str, schema: dict[str, Any]) -> Any:
    default = schema["items"]["properties"][key].get("default")
    return item.get(key, default) if isinstance(item, dict) else item


def _closed(
    validator: Any, known: dict[str, Any], value: Any, schema: dict[str, Any]
) -> Iterator[ValidationError]:
    """Fields that would be pruned, or refused where validation is strict."""
    yield from Draft4Validator.VALIDATORS["properties"](validator, known, value, schema)
    if validator.is_type(value, "object") and not schema.get(KEEP):
        for name in value:
            if name not in known:
                yield ValidationError(f"unknown field {name}")


_Structural: Final = extend(  # type: ignore[no-untyped-call]  # its stubs leave it out
    Draft4Validator, {"x-kubernetes-list-type": _list_type, "properties": _closed}
)
