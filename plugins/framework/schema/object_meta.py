"""Reading ``metadata`` as the API server does, which decodes it into Go's ``ObjectMeta``.

Source: ``pkg/apiserver/schema/objectmeta/coerce.go``. A value of a wrong type is a 400 there, before anything else is
looked at; here it is a finding like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from plugins.framework import field
from plugins.framework.field import FieldError, Path
from plugins.framework.schema.check import MOST_ERRORS, json_type
from plugins.framework.schema.shape import MOST_PRUNED, as_int
from plugins.framework.schema.walk import cut

_PATH: Final = Path("metadata")
_RFC3339: Final = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d([.,]\d+)?"
    r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)\Z",
    re.ASCII,
)


@dataclass(slots=True)
class _Reader:
    """What reading has found so far."""

    pruned: list[str]
    errors: list[FieldError]

    def prune(self, path: Path, name: str) -> None:
        if len(self.pruned) < MOST_PRUNED:
            self.pruned.append(str(path.child(cut(name))))

    def refuse(self, path: Path, value: Any, go_type: str) -> None:
        kind = json_type(value)
        kind = {"integer": "number", "boolean": "bool"}.get(kind, kind)
        name = ".".join(("ObjectMeta", *(s for s in path[1:] if type(s) is str)))
        words = f"json: cannot unmarshal {kind} into Go struct field {name} of type {go_type}"
        self.add(field.type_invalid(path, value, words))

    def add(self, error: FieldError) -> None:
        if len(self.errors) < MOST_ERRORS:
            self.errors.append(error)


Read: TypeAlias = Callable[[_Reader, Any, Path], Any]
"""Reads a value that is not null; gives None where it is empty or not right."""


def _scalar(kind: type, go_type: str) -> Read:
    def read(to: _Reader, value: Any, path: Path) -> Any:
        value = as_int(value) if type(value) is float else value
        if type(value) is kind and json_type(value) != "number":
            return value
        to.refuse(path, value, go_type)
        return None

    return read


def _time(to: _Reader, value: Any, path: Path) -> Any:
    if type(value) is not str:
        to.refuse(path, value, "v1.Time")
    elif not _RFC3339.match(value):
        to.add(field.invalid(path, value, "must be a time as in 2006-01-02T15:04:05Z"))
    else:
        return value
    return None


def _strings_by_key(to: _Reader, value: Any, path: Path) -> Any:
    if type(value) is not dict:
        to.refuse(path, value, "map[string]string")
        return None
    wrong = ((k, v) for k, v in value.items() if type(v) is not str and v is not None)
    for key, item in islice(wrong, MOST_ERRORS):
        to.refuse(path.key(cut(key)), item, "string")
    return {key: item if type(item) is str else "" for key, item in value.items()}


def _strings(to: _Reader, value: Any, path: Path) -> Any:
    if type(value) is not list:
        to.refuse(path, value, "[]string")
        return None
    wrong = ((i, v) for i, v in enumerate(value) if type(v) is not str and v is not None)
    for i, item in islice(wrong, MOST_ERRORS):
        to.refuse(path.index(i), item, "string")
    return [item if type(item) is str else "" for item in value]


def _owners(to: _Reader, value: Any, path: Path) -> Any:
    if type(value) is not list:
        to.refuse(path, value, "[]v1.OwnerReference")
        return None
    return [_owner(to, item, path.index(i)) for i, item in enumerate(value)]


def _owner(to: _Reader, value: Any, path: Path) -> dict[str, Any]:
    # These have no omitempty: they are there even when empty.
    out: dict[str, Any] = {"apiVersion": "", "kind": "", "name": "", "uid": ""}
    if type(value) is not dict:
        if value is not None:
            to.refuse(path, value, "v1.OwnerReference")
        return out
    return out | _fields(to, value, path, _OWNER)


def _managed(to: _Reader, value: Any, path: Path) -> Any:
    if type(value) is not list:
        to.refuse(path, value, "[]v1.ManagedFieldsEntry")
        return None
    for i, item in islice(
        ((i, v) for i, v in enumerate(value) if type(v) is not dict), MOST_ERRORS
    ):
        to.refuse(path.index(i), item, "v1.ManagedFieldsEntry")
    return value


def _fields(
    to: _Reader, value: dict[str, Any], path: Path, known: Mapping[str, Read]
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, item in value.items():
        read = known.get(name)
        if read is None:
            to.prune(path, name)
        elif item is not None:
            new = read(to, item, path.child(name))
            if new is not None:
                out[name] = new
    return out


_STRING: Final = _scalar(str, "string")
_INT64: Final = _scalar(int, "int64")
_BOOL: Final = _scalar(bool, "bool")
_META: Final[Mapping[str, Read]] = {
    "name": _STRING,
    "generateName": _STRING,
    "namespace": _STRING,
    "selfLink": _STRING,
    "uid": _STRING,
    "resourceVersion": _STRING,
    "generation": _INT64,
    "creationTimestamp": _time,
    "deletionTimestamp": _time,
    "deletionGracePeriodSeconds": _INT64,
    "labels": _strings_by_key,
    "annotations": _strings_by_key,
    "ownerReferences": _owners,
    "finalizers": _strings,
    "managedFields": _managed,
}
_OWNER: Final[Mapping[str, Read]] = {
    "apiVersion": _STRING,
    "kind": _STRING,
    "name": _STRING,
    "uid": _STRING,
    "controller": _BOOL,
    "blockOwnerDeletion": _BOOL,
}
_POINTERS: Final = frozenset({"deletionGracePeriodSeconds"})
"""Optional fields whose zero is something."""


def coerce(raw: Any, pruned: list[str]) -> tuple[dict[str, Any], list[FieldError]]:
    """``metadata`` as it comes out of Go's ``ObjectMeta``, and the values that do not go into it.

    Unknown fields are dropped and their paths added to ``pruned``; empty values and nulls are dropped; a null
    label is an empty string.
    """
    to = _Reader(pruned, [])
    if type(raw) is not dict:
        if raw is not None:
            to.refuse(_PATH, raw, "v1.ObjectMeta")
        return {}, to.errors
    read = _fields(to, raw, _PATH, _META)
    return {name: value for name, value in read.items() if value or name in _POINTERS}, to.errors


def check_types(raw: Any) -> list[FieldError]:
    """What is wrong with the types of ``metadata``; never empty where it does not fit."""
    _, errors = coerce(raw, [])
    if not errors and not fits(raw):
        # Nulls: Go reads them as empty, and the API server hands none on.
        errors.append(field.invalid(_PATH, raw, "must hold no null"))
    return errors


def fits(raw: Any) -> bool:
    """Whether all of ``metadata`` has its types; ``managedFields`` is not looked at."""
    if type(raw) is not dict:
        return False
    for name, value in raw.items():
        if name in _TEXTS:
            if type(value) is not str:
                return False
        elif name in _MAPS:
            if type(value) is not dict or not all(type(item) is str for item in value.values()):
                return False
        elif (name in _INTEGERS and type(value) is not int) or (
            name in _LISTS and not (type(value) is list and all(map(_LISTS[name], value)))
        ):
            return False
    return True


def _owner_fits(raw: Any) -> bool:
    return type(raw) is dict and all(
        name not in _OWNER or type(value) is (bool if _OWNER[name] is _BOOL else str)
        for name, value in raw.items()
    )


def _is_text(raw: Any) -> bool:
    return type(raw) is str


# A time is a string there.
_TEXTS: Final = frozenset(name for name, read in _META.items() if read in {_STRING, _time})
_MAPS: Final = frozenset({"labels", "annotations"})
_INTEGERS: Final = frozenset(name for name, read in _META.items() if read is _INT64)
_LISTS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "finalizers": _is_text,
    "ownerReferences": _owner_fits,
}
