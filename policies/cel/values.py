"""Values of the engine as JSON, and what JSON may hold to be given to it.

``value()`` of a null drops a reference of None: Python 3.11 aborts after some thousand of them. So null is found by
its type, at every depth, and ``plain_value()`` (which does not look) is never called. ERROR is a type as well: a
value of it is an error, never a result.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import orjson

from policies.cel import engine
from policies.cel.descriptors import types
from policies.cel.library.function import QUANTITY
from policies.cel.library.quantities import text_of
from policies.cel.messages import plain

if TYPE_CHECKING:
    from cel_expr_python import cel

MOST_ITEMS: Final = 100_000
"""Values in a result. A resolved job with every field set has some thousand."""
MOST_CHARACTERS: Final = 4 * 1024 * 1024
"""Characters of texts in a result. etcd takes 1.5 MiB, and a doubled text is twice the last."""
MOST_LEVELS: Final = 64
"""Levels of a result; an expression has at most 32 of its own."""

_PLAIN: Final = frozenset({"BOOL", "INT", "UINT"})
_SUSPECT: Final = re.compile(rb"\\u0000|[0-9]{19}")
_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1

Reason = Literal["error", "type", "data", "limit", "memory", "timeout", "crash", "quarantined"]


@dataclass(frozen=True, slots=True)
class EvaluationError:
    """Why an expression has no value.

    ``reason``: ``error`` CEL's own (no such key, division by zero); ``type`` a result of another type than wanted;
    ``data`` what was read cannot be given to the engine; ``limit`` too much work or too large a result; ``memory``
    more than there is; ``timeout``, ``crash`` and ``quarantined`` come from the workers.
    """

    message: str
    reason: Reason = "error"

    def __str__(self) -> str:
        """The message."""
        return self.message


class _Refused(Exception):
    def __init__(self, error: EvaluationError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(slots=True)
class _Budget:
    items: int = MOST_ITEMS
    characters: int = MOST_CHARACTERS

    def take(self, characters: int = 0) -> None:
        self.items -= 1
        self.characters -= characters
        if self.items < 0 or self.characters < 0:
            raise _Refused(
                EvaluationError(
                    f"the result is too large: at most {MOST_ITEMS} values and {MOST_CHARACTERS} characters",
                    "limit",
                )
            )


class Result(NamedTuple):
    """A value of the engine that is no error, and its kind: asking for it costs as much as small expressions do."""

    kind: str
    value: cel.Value


def evaluate(expression: cel.Expression, activation: cel.Activation) -> Result | EvaluationError:
    """Run the engine; both of its channels for errors lead here."""
    try:
        value = expression.eval(activation)
    except (RuntimeError, TypeError, ValueError, OverflowError, MemoryError) as error:
        return _raised(error)
    kind = _kind_of(value)
    return _error(value) if kind == "ERROR" else Result(kind, value)


def _raised(error: BaseException) -> EvaluationError:
    message = plain(str(error)) or type(error).__name__
    if isinstance(error, MemoryError) or "bad_alloc" in message:
        return EvaluationError("took too much memory", "memory")
    if "teration budget" in message:
        return EvaluationError("took more than 10000 steps of its loops", "limit")
    return EvaluationError(message)


def _error(value: cel.Value) -> EvaluationError:
    try:
        message = plain(str(value.value()))
    except (RuntimeError, TypeError):
        # An optional has the type ERROR and no value that could be converted.
        return EvaluationError("the result is an optional: end with orValue(...)", "type")
    if "teration budget" in message:
        return EvaluationError("took more than 10000 steps of its loops", "limit")
    return EvaluationError(message)


def _kind_of(value: cel.Value) -> str:
    """``NULL``, ``BOOL``, ``LIST``, ``MAP``, ... or the name of a message."""
    name: str = value.type().name()
    return name.partition("<")[0]


def to_json(result: Result) -> Any | EvaluationError:
    """A result as JSON: maps sorted by key, times as texts, quantities canonical."""
    if result.kind in _PLAIN:
        return result.value.value()
    try:
        return _json(result.value, _Budget(), 0)
    except _Refused as refused:
        return refused.error


def to_native(result: Result) -> Any | EvaluationError:
    """A result as it can be given back to the engine as a variable: times and library values stay what they are."""
    try:
        return _native(result.value, _Budget(), 0)
    except _Refused as refused:
        return refused.error


def _json(value: cel.Value, budget: _Budget, level: int) -> Any:
    kind = _kind_of(value)
    budget.take()
    match kind:
        case "NULL":
            return None
        case _ if kind in _PLAIN:
            return value.value()
        case "DOUBLE":
            return _number(value.value())
        case "STRING":
            return _text(value.value(), budget)
        case "LIST":
            _deeper(level)
            return [_json(item, budget, level + 1) for item in value.value()]
        case "MAP":
            _deeper(level)
            items = {_key(key, budget): item for key, item in value.value().items()}
            return {key: _json(items[key], budget, level + 1) for key in sorted(items)}
        case "BYTES":
            return _text(base64.b64encode(bytes(value.value())).decode(), budget)
        case "TIMESTAMP":
            return _time(value.value())
        case "DURATION":
            return _span(value.value())
        case _:
            return _message(kind, value)


def _native(value: cel.Value, budget: _Budget, level: int) -> Any:
    kind = _kind_of(value)
    match kind:
        case "LIST":
            budget.take()
            _deeper(level)
            return [_native(item, budget, level + 1) for item in value.value()]
        case "MAP":
            budget.take()
            _deeper(level)
            found = value.value()
            return {
                key: _native(found[key], budget, level + 1) for key in sorted(found, key=_order)
            }
        case "TIMESTAMP" | "DURATION":
            return engine.given(value.value())
        case "BYTES":
            found = bytes(value.value())
            budget.take(len(found))
            if b"\0" in found:
                raise _Refused(EvaluationError("the result has a NUL byte", "data"))
            return found
        case "ERROR" | "TYPE" | "UNKNOWN":
            return _message(kind, value)
        case _ if "." in kind:
            return value.value()
        case _:
            return _json(value, budget, level)


def _order(key: Any) -> tuple[str, Any]:
    return (type(key).__name__, key)


def _deeper(level: int) -> None:
    if level >= MOST_LEVELS:
        raise _Refused(
            EvaluationError(f"the result is nested deeper than {MOST_LEVELS} levels", "limit")
        )


def _number(number: float) -> float:
    if not math.isfinite(number):
        raise _Refused(
            EvaluationError(f"the result has a number that JSON lacks: {number}", "type")
        )
    return number


def _text(text: str, budget: _Budget) -> str:
    budget.take(len(text))
    if "\0" in text:
        raise _Refused(EvaluationError("the result has a text with a NUL character", "data"))
    return text


def _key(key: Any, budget: _Budget) -> str:
    if type(key) is str:
        return _text(key, budget)
    return str(key).lower() if type(key) is bool else str(key)


def _time(moment: datetime) -> str:
    text = moment.astimezone(UTC).isoformat()
    return text.removesuffix("+00:00") + "Z"


def _span(span: timedelta) -> str:
    """As ``string(duration)``: seconds."""
    micros = span // timedelta(microseconds=1)
    sign = "-" if micros < 0 else ""
    whole, rest = divmod(abs(micros), 10**6)
    fraction = f".{rest:06}".rstrip("0") if rest else ""
    return f"{sign}{whole}{fraction}s"


def _message(kind: str, value: cel.Value) -> Any:
    if kind == QUANTITY:
        return text_of(value.value().text)
    if kind in types().values:
        return value.value().text
    words = "an optional: end with orValue(...)" if kind == "ERROR" else f"of type {kind.lower()}"
    raise _Refused(EvaluationError(f"the result has a value {words}", "type"))


def fault_of(value: Any) -> str:
    r"""Why a JSON value cannot be given to the engine; empty where it can.

    The engine cuts texts at NUL, so that ``"a\0b" == "a"``; takes an int above 2^63 for another type; and fails on a
    lone surrogate in a way that names nothing. orjson finds all of them in one pass at the speed of C.
    """
    return encode(value)[1]


def encode(value: Any) -> tuple[bytes, str]:
    """The value's JSON and no fault, or nothing and what ``fault_of`` says."""
    try:
        body = orjson.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return b"", _find_fault(value) or "is no JSON"
    fault = _find_fault(value) if _SUSPECT.search(body) else ""
    return (b"", fault) if fault else (body, "")


def _find_fault(value: Any) -> str:
    """The slow way, for the few values that look wrong."""
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        one, level = stack.pop()
        if level > 256:
            return "is nested too deeply"
        fault = _scalar_fault(one)
        if fault:
            return fault
        if isinstance(one, Mapping):
            stack.extend((item, level + 1) for pair in one.items() for item in pair)
        elif isinstance(one, list | tuple):
            stack.extend((item, level + 1) for item in one)
    return ""


def _scalar_fault(one: Any) -> str:
    if type(one) is str:
        if "\0" in one:
            return "has a text with a NUL character"
        if not one.isascii() and any("\ud800" <= c <= "\udfff" for c in one):
            return "has a text with half of a surrogate pair"
    elif type(one) is int:
        if not _LEAST <= one <= _MOST:
            return "has a whole number beyond 64 bits"
    elif one is not None and type(one) not in (bool, float, dict, list):
        return f"has a value that is no JSON ({type(one).__name__})"
    return ""
