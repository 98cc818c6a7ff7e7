"""Whole numbers in documents: a value, an expression, or under overrides the range ``{min, max}``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import field
from plugins.framework.field import FieldError, Path
from policies.document import Expression
from policies.options.shapes import OptionFault, expression, is_expression, obj
from policies.writes import Place, Rule, Write

if TYPE_CHECKING:
    from policies.options.base import Subject
    from policies.writes import Mode

_BOUNDS: Final[tuple[Rule, ...]] = ("min", "max")
_INT32: Final = 2**31 - 1
_INT64: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """Which numbers a field takes."""

    least: int = 1
    most: int = _INT32

    def problem(self, value: Any) -> str:
        """What is wrong with a value; empty where nothing is."""
        if type(value) is not int:
            return "must be a whole number"
        if value < self.least:
            return f"must be at least {self.least}"
        return f"must be at most {self.most}" if value > self.most else ""


NODES: Final = Number()
PROCESSES: Final = Number()
SECONDS: Final = Number(most=_INT64)

Wish = tuple[tuple[Rule, int | Expression], ...]
"""What a document wants of a number: ``set``, or bounds."""


def read(mode: Mode, raw: Any, at: Path, errors: list[FieldError], number: Number) -> Wish:
    """A value or a range; what is wrong with it goes to ``errors``."""
    if type(raw) is not dict or is_expression(raw):
        value = _one(raw, at, errors, number)
        return () if value is None else (("set", value),)
    if mode == "defaults":
        detail = (
            "a range is only for overrides: a default is one value; write it, or {expression: ...}"
        )
        errors.append(field.forbidden(at, detail))
        return ()
    obj(raw, at, errors, _BOUNDS)
    if not any(bound in raw for bound in _BOUNDS):
        errors.append(field.required(at, "must have min, max or both"))
    out: list[tuple[Rule, int | Expression]] = []
    for bound in _BOUNDS:
        if bound in raw:
            value = _one(raw[bound], at.child(bound), errors, number)
            if value is not None:
                out.append((bound, value))
    plain = [value for _, value in out if type(value) is int]
    if len(plain) == 2 and plain[0] > plain[1]:
        errors.append(
            field.invalid(at.child("min"), plain[0], f"must not be above max, {plain[1]}")
        )
    return tuple(out)


def _one(raw: Any, at: Path, errors: list[FieldError], number: Number) -> int | Expression | None:
    if is_expression(raw):
        return expression(raw, at, errors)
    problem = number.problem(raw)
    if problem:
        kind = field.invalid if type(raw) is int else field.type_invalid
        errors.append(kind(at, raw, problem))
        return None
    value: int = raw
    return value


def expressions(wish: Wish) -> Iterable[Expression]:
    """Those among the values."""
    return [value for _, value in wish if isinstance(value, Expression)]


def plan(wish: Wish, place: Place, subject: Subject, number: Number) -> list[Write]:
    """A write for the value, or for each bound. Raises OptionFault where an expression gives no such number."""
    out = []
    for rule, wanted in wish:
        value: Any = subject.evaluate(wanted) if isinstance(wanted, Expression) else wanted
        if value is None:
            continue
        problem = number.problem(value)
        if problem:
            where = wanted.path if isinstance(wanted, Expression) else ""
            raise OptionFault(f"{where}: gave {field.show(value)}: {problem}")
        out.append(Write(place, value, rule))
    return out
