"""Quantities, exact (``library/quantity.go``); on ``plugins.framework.quantity``."""

from __future__ import annotations

from typing import Any, Final

from plugins.framework import quantity
from plugins.framework.quantity import DECIMAL_SI, NANO, Quantity
from policies.cel.library import semver
from policies.cel.library.function import (
    BOOL,
    DOUBLE,
    INT,
    QUANTITY,
    SEMVER,
    STRING,
    Function,
    Overload,
    type_of,
    value,
)

_INT64: Final = 2**63
_PARSED: Final[tuple[Overload, ...]] = (((STRING,), QUANTITY), ((INT,), QUANTITY))


def functions() -> tuple[Function, ...]:
    """The library. Comparisons are shared with semver: to the runtime both are messages."""
    both = (QUANTITY, SEMVER)
    return (
        Function(
            library="quantity", name="quantity", overloads=_PARSED, runtime=_PARSED, impl=_quantity
        ),
        Function(
            library="quantity",
            name="isQuantity",
            overloads=(((STRING,), BOOL), ((INT,), BOOL)),
            runtime=(((STRING,), BOOL), ((INT,), BOOL)),
            impl=_is_quantity,
        ),
        _of("sign", INT, lambda it: quantity.cmp(_read(it), _ZERO)),
        _of("isInteger", BOOL, _is_integer),
        _of("asInteger", INT, _as_integer),
        _of("asApproximateFloat", DOUBLE, lambda it: _read(it).nano / NANO),
        _arithmetic("add", 1),
        _arithmetic("sub", -1),
        *(
            Function(
                library="quantity",
                name=name,
                overloads=tuple(((kind, kind), result) for kind in both),
                runtime=(((QUANTITY, QUANTITY), result),),
                impl=impl,
                is_member=True,
            )
            for name, result, impl in (
                ("isLessThan", BOOL, lambda a, b: _compare(a, b) < 0),
                ("isGreaterThan", BOOL, lambda a, b: _compare(a, b) > 0),
                ("compareTo", INT, _compare),
            )
        ),
    )


def text_of(nano: str) -> str:
    """What a quantity that a result holds is printed as."""
    return quantity.canonical(Quantity(int(nano), DECIMAL_SI))


_ZERO: Final = Quantity(0, DECIMAL_SI)


def _of(name: str, result: str, impl: Any) -> Function:
    overloads: tuple[Overload, ...] = (((QUANTITY,), result),)
    return Function(
        library="quantity",
        name=name,
        overloads=overloads,
        runtime=overloads,
        impl=impl,
        is_member=True,
    )


def _arithmetic(name: str, sign: int) -> Function:
    overloads: tuple[Overload, ...] = (
        ((QUANTITY, QUANTITY), QUANTITY),
        ((QUANTITY, INT), QUANTITY),
    )
    return Function(
        library="quantity",
        name=name,
        overloads=overloads,
        runtime=overloads,
        impl=lambda left, right: _add(left, right, sign),
        is_member=True,
    )


def _quantity(text: Any) -> Any:
    return value(QUANTITY, str(quantity.parse(text).nano))


def _is_quantity(text: Any) -> bool:
    try:
        quantity.parse(text)
    except quantity.QuantityError:
        return False
    return True


def _read(message: Any) -> Quantity:
    """Nanos as text: equal quantities are equal messages, whatever they were written as."""
    if type_of(message) != QUANTITY:
        raise ValueError("no such overload")
    return Quantity(int(message.text), DECIMAL_SI)


def _add(left: Any, right: Any, sign: int) -> Any:
    other = right * NANO if type(right) is int else _read(right).nano
    return value(QUANTITY, str(_read(left).nano + sign * other))


def _is_integer(message: Any) -> bool:
    nano = _read(message).nano
    return nano % NANO == 0 and -_INT64 <= nano // NANO < _INT64


def _as_integer(message: Any) -> int:
    if not _is_integer(message):
        raise ValueError("cannot convert value to integer")
    return _read(message).nano // NANO


def _compare(left: Any, right: Any) -> int:
    if type_of(left) != type_of(right):
        raise ValueError("no such overload")
    if type_of(left) == SEMVER:
        return semver.compare(left.text, right.text)
    return quantity.cmp(_read(left), _read(right))
