"""Bounds of limits as exact numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from plugins.framework import quantity
from plugins.framework.field import Path, show
from plugins.framework.quantity import Quantity, QuantityError
from policies.document import Expression
from policies.faults import ExpressionFault

if TYPE_CHECKING:
    from policies.document import Bounds, Limit

Evaluate: TypeAlias = Callable[[Expression], Any]
"""The JSON value of an expression. Raises ExpressionFault."""

_FIELDS: Final = {"total": "total", "perNode": "per_node", "nodes": "nodes", "pods": "pods"}
_SIDES: Final = ("max", "min")


def bounds(limit: Limit, kind: str, evaluate: Evaluate) -> Iterator[tuple[str, Quantity]]:
    """``max`` and ``min`` of ``total``, ``perNode``, ``nodes`` or ``pods``, as far as the limit has them.

    Raises ExpressionFault.
    """
    for side in _SIDES:
        found = bound(limit, kind, side, evaluate)
        if found is not None:
            yield side, found


def bound(limit: Limit, kind: str, side: str, evaluate: Evaluate) -> Quantity | None:
    """One of them; None where the limit has none. Raises ExpressionFault."""
    both: Bounds | None = getattr(limit, _FIELDS[kind])
    raw = None if both is None else getattr(both, side)
    if raw is None:
        return None
    value = evaluate(raw) if isinstance(raw, Expression) else raw
    try:
        return _read(value)
    except QuantityError as error:
        path: Path = raw.path if isinstance(raw, Expression) else limit.path.child(kind, side)
        wanted = "a limit needs a whole number or a quantity such as 16Gi"
        raise ExpressionFault(path, f"gives {show(value)}, and {wanted}") from error


def _read(value: Any) -> Quantity:
    """A whole double counts: CEL's arithmetic makes such of JSON's numbers."""
    if type(value) is float and math.isfinite(value) and value.is_integer():
        return quantity.parse(int(value))
    return quantity.parse(value)
