"""What the API server refuses in ``metadata``, about which the schema of a CRD says nothing.

Sources: ``k8s.io/apimachinery/pkg/api/validation/objectmeta.go``, ``k8s.io/apiserver/pkg/registry/rest``. A bad value of a
label is found at ``metadata.labels[key]``; the API server says ``metadata.labels``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from plugins.framework import field
from plugins.framework.field import FieldError, Path
from plugins.framework.schema.check import MOST_ERRORS
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
WIPED: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
"""What a create may not bring along (``rest.WipeObjectMetaSystemFields``); the API server writes its own later."""
_PATH: Final = Path("metadata")


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
    for owner in owners[: MOST_ERRORS // 4]:
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
