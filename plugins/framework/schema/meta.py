"""What the API server makes of ``metadata``, and what it refuses there.

The schema of a CRD says nothing about it: the API server decodes it into its own ``ObjectMeta``
(``pkg/apiserver/schema/objectmeta/coerce.go``) and checks it with ``k8s.io/apimachinery/pkg/api/validation/objectmeta.go``.
A value of a wrong type is a 400 there, before anything else is looked at; here it is a finding like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from plugins.framework import field
from plugins.framework.field import FieldError, Path
from plugins.framework.schema.check import MOST_ERRORS, json_type
from plugins.framework.schema.shape import MOST_PRUNED, as_int
from plugins.framework.schema.syntax import (
    not_label_1123,
    not_label_value,
    not_qualified_name,
    not_subdomain,
    size,
)
from plugins.framework.schema.walk import cut

ANNOTATIONS_LIMIT: Final = 256 * 1024
"""Bytes of all annotations, keys and values together (``TotalAnnotationSizeLimitB``)."""
_PATH: Final = Path("metadata")

_GO_TYPES: Final[Mapping[str, str]] = {
    "string": "string",
    "int64": "int64",
    "bool": "bool",
    "time": "v1.Time",
    "strings": "[]string",
    "map": "map[string]string",
    "owners": "[]v1.OwnerReference",
    "managed": "[]v1.ManagedFieldsEntry",
}
_FIELDS: Final[Mapping[str, str]] = {
    "name": "string",
    "generateName": "string",
    "namespace": "string",
    "selfLink": "string",
    "uid": "string",
    "resourceVersion": "string",
    "generation": "int64",
    "creationTimestamp": "time",
    "deletionTimestamp": "time",
    "deletionGracePeriodSeconds": "int64",
    "labels": "map",
    "annotations": "map",
    "ownerReferences": "owners",
    "finalizers": "strings",
    "managedFields": "managed",
}
WIPED: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
"""What a create may not bring along (``rest.WipeObjectMetaSystemFields``); the API server writes its own later."""
_OWNER: Final[Mapping[str, str]] = {
    "apiVersion": "string",
    "kind": "string",
    "name": "string",
    "uid": "string",
    "controller": "bool",
    "blockOwnerDeletion": "bool",
}

_RFC3339: Final = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d([.,]\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)\Z",
    re.ASCII,
)


def coerce(raw: Any, pruned: list[str]) -> tuple[dict[str, Any], list[FieldError]]:
    """``metadata`` as it comes out of Go's ``ObjectMeta``, and the values that do not go into it.

    Unknown fields are dropped and their paths added to ``pruned``; empty values and nulls are dropped; a null
    label is an empty string.
    """
    if raw is None:
        return {}, []
    if type(raw) is not dict:
        return {}, [_mismatch(_PATH, raw, "v1.ObjectMeta")]
    out: dict[str, Any] = {}
    errors: list[FieldError] = []
    for name, value in raw.items():
        kind = _FIELDS.get(name)
        if kind is None:
            _record(pruned, f"metadata.{cut(name)}")
        elif value is not None:
            read = _read(kind, value, _PATH.child(name), pruned, errors)
            keeps_zero = name == "deletionGracePeriodSeconds"  # a pointer
            if read is not None and (read or keeps_zero):
                out[name] = read
    return out, errors


def _read(kind: str, value: Any, path: Path, pruned: list[str], errors: list[FieldError]) -> Any:
    """One value decoded as Go decodes it, or None after a finding."""
    if type(value) is float:
        value = as_int(value)
    found = json_type(value)
    wrong = [_mismatch(path, value, _GO_TYPES[kind])]
    out: Any = value
    match kind, found:
        case ("string", "string") | ("bool", "boolean") | ("int64", "integer"):
            wrong = []
        case "time", "string":
            right = _RFC3339.match(value) is not None
            wrong = (
                []
                if right
                else [field.invalid(path, value, "must be a time as in 2006-01-02T15:04:05Z")]
            )
        case "map", "object":
            wrong = [
                _mismatch(path.key(cut(key)), item, "string")
                for key, item in value.items()
                if type(item) is not str and item is not None
            ]
            out = {key: item or "" for key, item in value.items()}
        case "strings", "array":
            wrong = [
                _mismatch(path.index(i), item, "string")
                for i, item in enumerate(value)
                if type(item) is not str and item is not None
            ]
            out = [item or "" for item in value]
        case "owners", "array":
            wrong = []
            out = [_owner(item, path.index(i), pruned, errors) for i, item in enumerate(value)]
        case "managed", "array":
            wrong = [
                _mismatch(path.index(i), item, "v1.ManagedFieldsEntry")
                for i, item in enumerate(value)
                if type(item) is not dict
            ]
        case _:
            pass
    errors.extend(wrong[: max(0, MOST_ERRORS - len(errors))])
    return None if wrong else out


def _owner(value: Any, path: Path, pruned: list[str], errors: list[FieldError]) -> dict[str, Any]:
    # apiVersion, kind, name and uid have no omitempty: they are there even when empty.
    out: dict[str, Any] = {"apiVersion": "", "kind": "", "name": "", "uid": ""}
    if value is None:
        return out
    if type(value) is not dict:
        errors.append(_mismatch(path, value, "v1.OwnerReference"))
        return out
    for name, item in value.items():
        kind = _OWNER.get(name)
        if kind is None:
            _record(pruned, f"{path}.{cut(name)}")
        elif item is not None:
            read = _read(kind, item, path.child(name), pruned, errors)
            if read is not None:
                out[name] = read
    return out


def _record(pruned: list[str], path: str) -> None:
    if len(pruned) < MOST_PRUNED:
        pruned.append(path)


def _mismatch(path: Path, value: Any, go_type: str) -> FieldError:
    kind = {"integer": "number", "boolean": "bool"}.get(json_type(value), json_type(value))
    name = ".".join(("ObjectMeta", *(s for s in path[1:] if type(s) is str)))
    detail = f"json: cannot unmarshal {kind} into Go struct field {name} of type {go_type}"
    return field.type_invalid(path, value, detail)


def check_create(meta: Mapping[str, Any], *, namespaced: bool) -> list[FieldError]:
    """``ValidateObjectMetaAccessor``, apart from the demand for a namespace, which the request fills in."""
    errors: list[FieldError] = []
    prefix = meta.get("generateName", "")
    if prefix:
        # A name generated from a prefix that ends in a dash does not end in one.
        masked = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        errors += [
            field.invalid(_PATH.child("generateName"), prefix, m) for m in not_subdomain(masked)
        ]
    if "name" in meta:
        errors += [
            field.invalid(_PATH.child("name"), meta["name"], m) for m in not_subdomain(meta["name"])
        ]
    elif not prefix:
        errors.append(field.required(_PATH.child("name"), "name or generateName is required"))
    if namespaced and "namespace" in meta:
        where = _PATH.child("namespace")
        errors += [
            field.invalid(where, meta["namespace"], m) for m in not_label_1123(meta["namespace"])
        ]
    return errors + _check_common(meta) + _check_finalizers(meta.get("finalizers", []))


def check_update(meta: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """``ValidateObjectMetaAccessorUpdate``, after ``rest.BeforeUpdate`` has restored what nobody may change.

    What a file need not hold (``resourceVersion``, ``uid``, ``namespace``) is compared only where it is given.
    """
    errors: list[FieldError] = []
    if "deletionTimestamp" in old:
        extra = sorted(set(meta.get("finalizers", [])) - set(old.get("finalizers", [])))
        if extra:
            shown = ", ".join(field.show(name) for name in extra)
            words = "no new finalizers can be added if the object is being deleted, found new finalizers"
            errors.append(
                field.forbidden(_PATH.child("finalizers"), f"{words} []string{{{shown}}}")
            )
    changed = {
        "name": meta.get("name", "") != old.get("name", ""),
        "namespace": meta.get("namespace", old.get("namespace"))
        != old.get("namespace", meta.get("namespace")),
        "uid": meta.get("uid", old.get("uid")) != old.get("uid"),
        "deletionTimestamp": "deletionTimestamp" in meta and "deletionTimestamp" not in old,
        "deletionGracePeriodSeconds": "deletionGracePeriodSeconds" in meta
        and meta["deletionGracePeriodSeconds"] != old.get("deletionGracePeriodSeconds"),
    }
    errors += [
        field.invalid(_PATH.child(name), meta.get(name, ""), "field is immutable")
        for name, is_changed in changed.items()
        if is_changed
    ]
    return errors + _check_common(meta)


def _check_common(meta: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    labels = _PATH.child("labels")
    for key, value in meta.get("labels", {}).items():
        errors += [field.invalid(labels, key, message) for message in not_qualified_name(key)]
        errors += [
            field.invalid(labels.key(cut(key)), value, message)
            for message in not_label_value(value)
        ]
        if len(errors) >= MOST_ERRORS:
            return errors
    annotations = _PATH.child("annotations")
    for key in meta.get("annotations", {}):
        errors += [
            field.invalid(annotations, key, message) for message in not_qualified_name(key.lower())
        ]
        if len(errors) >= MOST_ERRORS:
            return errors
    total = sum(size(key) + size(value) for key, value in meta.get("annotations", {}).items())
    if total > ANNOTATIONS_LIMIT:
        errors.append(field.too_long(annotations, "", ANNOTATIONS_LIMIT))
    return errors + _check_owners(meta.get("ownerReferences", []))


def _check_owners(owners: list[Mapping[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    path = _PATH.child("ownerReferences")
    controller = ""
    for owner in owners[:MOST_ERRORS]:
        version = owner["apiVersion"].rpartition("/")[2]
        for name, value, message in (
            ("apiVersion", version, "version must not be empty"),
            ("kind", owner["kind"], "must not be empty"),
            ("name", owner["name"], "must not be empty"),
            ("uid", owner["uid"], "must not be empty"),
        ):
            if not value:
                errors.append(field.invalid(path.child(name), owner[name], message))
        if owner["apiVersion"] == "v1" and owner["kind"] == "Event":
            errors.append(
                field.invalid(
                    path, dict(owner), "/v1, Kind=Event is disallowed from being an owner"
                )
            )
        if owner.get("controller"):
            name = f"{cut(owner['kind'])}/{cut(owner['name'])}"
            if controller:
                words = 'Only one reference can have Controller set to true. Found "true" in references for'
                errors.append(field.invalid(path, list(owners), f"{words} {controller} and {name}"))
            else:
                controller = name
    return errors


def _check_finalizers(finalizers: list[str]) -> list[FieldError]:
    path = _PATH.child("finalizers")
    errors = [
        field.invalid(path, name, message)
        for name in finalizers[:MOST_ERRORS]
        for message in not_qualified_name(name)
    ]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        words = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(field.invalid(path, finalizers, words))
    return errors


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
        if name in _STRINGS:
            if type(value) is not str:
                return False
        elif name in _MAPS:
            if type(value) is not dict or not all(type(item) is str for item in value.values()):
                return False
        elif (name in _INTS and type(value) is not int) or (
            name in _LISTS and not (type(value) is list and all(map(_LISTS[name], value)))
        ):
            return False
    return True


def _owner_fits(raw: Any) -> bool:
    return type(raw) is dict and all(
        name not in _OWNER or type(value) is (bool if _OWNER[name] == "bool" else str)
        for name, value in raw.items()
    )


def _is_text(raw: Any) -> bool:
    return type(raw) is str


# For ``fits``; a time is a string there.
_STRINGS: Final = frozenset(name for name, kind in _FIELDS.items() if kind in {"string", "time"})
_MAPS: Final = frozenset({"labels", "annotations"})
_INTS: Final = frozenset(name for name, kind in _FIELDS.items() if kind == "int64")
_LISTS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "finalizers": _is_text,
    "ownerReferences": _owner_fits,
}
