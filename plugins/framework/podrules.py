"""Rules of the API server about pieces of a pod that a TrainJob may bring, in the API server's words.

They hold for the finished pod: whoever asks has merged first. Paths begin at the piece, since most pieces are
right and nobody then needs to know where they stand. (``pkg/apis/core/validation`` of Kubernetes:
ValidateTolerations, validateEnvVarValueFrom, validateContainerResourceFieldSelector.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from plugins.framework import field, goform, values
from plugins.framework.field import FieldError, Path
from plugins.framework.schema.syntax import not_label_value, not_qualified_name

RESOURCE_REF: Final = "resourceFieldRef"

_HERE: Final = Path()
_KEY, _OPERATOR, _VALUE, _EFFECT = (Path(n) for n in ("key", "operator", "value", "effect"))
_RESOURCE_REF: Final = Path(RESOURCE_REF)
_RESOURCE: Final = Path("resource")
_DIVISOR: Final = Path("divisor")
_COMPARED: Final = ("Equal", "")
_NUMERIC: Final = ("Lt", "Gt")
"""Operators that a feature gate of the API server brings: left to it."""
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SOURCES: Final = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
_OF_CPU: Final = ("1m", "1")
_OF_BYTES: Final = (
    *("1", "1k", "1M", "1G", "1T", "1P", "1E"),
    *("1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"),
)
_DIVISORS: Final = (
    ("cpu", _OF_CPU, "cpu resource"),
    ("memory", _OF_BYTES, "memory resource"),
    ("ephemeral-storage", _OF_BYTES, "local ephemeral storage resource"),
    ("hugepages-", _OF_BYTES, "hugepages resource"),
)
_PARTS: Final = ("limits", "requests")
_RESOURCES: Final = tuple(
    f"{part}.{name}" for part in _PARTS for name in ("cpu", "ephemeral-storage", "memory")
)


def toleration(one: dict[str, Any]) -> Iterator[FieldError]:
    """What is wrong with one toleration."""
    key, operator, value, effect = (
        values.text(one.get(name)) for name in ("key", "operator", "value", "effect")
    )
    if key:
        yield from (field.invalid(_KEY, key, why) for why in not_qualified_name(key))
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield field.invalid(_OPERATOR, operator, detail)
    if one.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield field.invalid(_EFFECT, effect, detail)
    if operator in _COMPARED:
        yield from (field.invalid(_VALUE, value, why) for why in not_label_value(value))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            yield field.invalid(_VALUE, value, detail)
    elif operator not in _NUMERIC:
        yield field.not_supported(_OPERATOR, operator, ("Equal", "Exists"))
    if effect and effect not in _EFFECTS:
        yield field.not_supported(_EFFECT, effect, _EFFECTS)


def value_from(source: Any) -> Iterator[FieldError]:
    """What is wrong with the ``valueFrom`` of a variable: no source at all, or a resource that nobody knows."""
    if type(source) is not dict:
        return
    if not any(ref is not None for ref in source.values()):
        yield field.invalid(_HERE, "", f"must specify one of: {_SOURCES}")
    for error in resource_ref(source.get(RESOURCE_REF)):
        yield error.under(_RESOURCE_REF)


def resource_ref(ref: Any) -> Iterator[FieldError]:
    """What is wrong with a ``resourceFieldRef``: an unknown resource, or a divisor that does not suit it."""
    resource = values.text(values.obj(ref).get("resource"))
    if not resource:
        return  # the schema wants one
    part, _, name = resource.partition(".")
    right, words = next(
        ((right, words) for known, right, words in _DIVISORS if _is(name, known)), ((), "")
    )
    if part not in _PARTS or not right:
        yield field.not_supported(_RESOURCE, resource, _RESOURCES)
        return
    given = values.obj(ref).get("divisor")
    text = goform.write_quantity(given)  # compared as Go prints it
    if type(text) is str and text not in {"0", *right}:
        wanted = " and ".join(right) if right is _OF_CPU else ", ".join(right)
        detail = f"only divisor's values {wanted} are supported with the {words}"
        yield field.invalid(_DIVISOR, given, detail)


def _is(name: str, known: str) -> bool:
    return name.startswith(known) if known.endswith("-") else name == known
