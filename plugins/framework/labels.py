"""Syntax of labels and annotations in places that the API server checks only when a Pod is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import field, values
from plugins.framework.schema.syntax import not_label_value, not_qualified_name

if TYPE_CHECKING:
    from plugins.framework.field import FieldError, Path

MOST_ANNOTATIONS: Final = 256 * 1024
"""Bytes of all keys and values together (``validation.TotalAnnotationSizeLimitB``)."""


def problems(path: Path, metadata: dict[str, Any]) -> Iterator[FieldError]:
    """What is wrong with the labels and annotations of a metadata object, each at its own key."""
    yield from label_problems(path.child("labels"), values.obj(metadata.get("labels")))
    size = 0
    for key, value in values.obj(metadata.get("annotations")).items():
        at = path.child("annotations").key(key)
        yield from (field.invalid(at, key, message) for message in not_qualified_name(key.lower()))
        size += len(key) + len(values.text(value))
    if size > MOST_ANNOTATIONS:
        yield field.too_long(path.child("annotations"), "", MOST_ANNOTATIONS)


def label_problems(path: Path, labels: dict[str, Any]) -> Iterator[FieldError]:
    """What is wrong with labels, or with a nodeSelector, which is some (``ValidateLabels``)."""
    for key, value in labels.items():
        at = path.key(key)
        yield from (field.invalid(at, key, message) for message in not_qualified_name(key))
        if type(value) is str:
            yield from (field.invalid(at, value, message) for message in not_label_value(value))
