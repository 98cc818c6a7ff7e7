"""The annotation ``stationmaster.dev/applied``: what admission wrote, told apart from what the user wrote.

Shape: compact JSON, sorted, ``{"/spec/trainer/numNodes": "RuntimeDefaults:1f2e3d4c", ...}``: JSON Pointer to
``<who>:<first 8 hex digits of the SHA-256 of the value>``. Who is a plugin, or ``policy/<name>`` (several: with commas);
with ``!`` behind it where an override of a policy wrote it over whatever the user had. Quantities are hashed by value,
since controllers behind us write ``2`` as ``"2"``.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import orjson

from plugins.framework import quantity, values
from plugins.framework.api import names

_HASH_DIGITS: Final = 8
_AMOUNTS: Final = frozenset({"limits", "requests"})
_HOLDERS: Final = ("/limits", "/requests")
POLICY: Final = "policy/"
"""Before the name of a policy, which could otherwise be a plugin's."""
FORCED: Final = "!"
"""Behind the name of a policy that wrote the value as an override."""
_LONGEST: Final = 65536
"""Bytes of the annotation that are read; ours are below 2 KiB, more is somebody else's doing."""


def read(raw: dict[str, Any]) -> dict[str, str]:
    """The record that an object carries; empty where it has none or it is not one of ours."""
    text = values.at_obj(raw, "metadata", "annotations").get(names.APPLIED_ANNOTATION)
    if type(text) is not str or len(text) > _LONGEST:
        return {}
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    if type(record) is not dict:
        return {}
    return {k: v for k, v in record.items() if type(v) is str}


def has_policies(raw: dict[str, Any]) -> bool:
    """Whether any of its values is one that a policy wrote."""
    return any(mark.startswith(POLICY) for mark in read(raw).values())


def write(record: dict[str, str]) -> str:
    """The annotation's text; the same record gives the same bytes."""
    return orjson.dumps(record, option=orjson.OPT_SORT_KEYS).decode()


def mark(by: str, value: Any) -> str:
    """``<who>:<short hash>`` of a value that ``by`` wrote."""
    data = orjson.dumps(stable(value), option=orjson.OPT_SORT_KEYS)
    return f"{by}:{hashlib.sha256(data).hexdigest()[:_HASH_DIGITS]}"


def explains(record: dict[str, str], pointer: str, value: Any) -> bool:
    """Whether the record says that we wrote this very value at this place."""
    entry = record.get(pointer)
    return entry is not None and mark_at(pointer, entry.rpartition(":")[0], value) == entry


def mark_at(pointer: str, by: str, value: Any) -> str:
    """The mark of a value at its place: a single amount in ``limits`` or ``requests`` is hashed by value too."""
    holder = pointer.rpartition("/")[0]
    return mark(by, canonical(value) if holder.endswith(_HOLDERS) else value)


def is_forced(record: dict[str, str], pointer: str, value: Any) -> bool:
    """Whether an override wrote this very value, whatever the user had there."""
    entry = record.get(pointer)
    return (
        entry is not None
        and entry.rpartition(":")[0].endswith(FORCED)
        and explains(record, pointer, value)
    )


def stable(value: Any) -> Any:
    """A value with its quantities in canonical form, whatever form they had."""
    if type(value) is dict:
        return {k: _amounts(v) if k in _AMOUNTS else stable(v) for k, v in value.items()}
    if type(value) is list:
        return [stable(v) for v in value]
    return value


def _amounts(value: Any) -> Any:
    if type(value) is not dict:
        return value
    return {name: canonical(amount) for name, amount in value.items()}


def canonical(amount: Any) -> Any:
    """The canonical text of a quantity; what is none stays as it is."""
    if type(amount) is not str and type(amount) is not int:
        return amount
    try:
        return quantity.canonical(quantity.parse(amount))
    except quantity.QuantityError:
        return amount
