"""Paths into an object, and what is wrong there, in Kubernetes' own words.

The cause types, their texts and the shape of a message are those of
``k8s.io/apimachinery/pkg/util/validation/field``; a client that matches on
``status.details.causes[].reason`` sees the constants that the API server itself sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self, TypeAlias

import msgspec
import orjson

LONGEST_VALUE: Final = 256
"""Characters of a user's value that a message quotes; the rest is cut. A refusal stays readable in a
terminal, and a 1 MiB argument does not come back as a 1 MiB message."""

LONGEST_WARNING: Final = 256
"""Characters of a warning that the API server passes on (apiserver, ``warning.AddWarning``)."""

LONGEST_DETAIL: Final = 2048
"""Characters of what a message says beside the value."""


class Key(NamedTuple):
    """One key of a map, shown in brackets: ``metadata.labels[app]``."""

    name: str


Segment: TypeAlias = str | int | Key
"""A field name, an index of a list, or a key of a map."""


class Path(tuple[Segment, ...]):
    """Where something is: ``Path("spec", "trainer", "env").index(0).child("name")``.

    Prints as Kubernetes prints paths, and gives the JSON Pointer of the same place.
    """

    __slots__ = ()

    def __new__(cls, *segments: Segment) -> Self:
        """Make a path of fields, given one by one."""
        return super().__new__(cls, segments)

    def __getnewargs__(self) -> tuple[Segment, ...]:
        """Copy and pickle as what it was made of."""
        return tuple(self)

    def child(self, *names: str) -> Path:
        """The field of that name below this one."""
        return Path(*self, *names)

    def index(self, i: int) -> Path:  # type: ignore[override]  # Kubernetes' word; a path is never searched
        """The i-th item of the list here."""
        return Path(*self, i)

    def key(self, name: str) -> Path:
        """The entry ``name`` of the map here."""
        return Path(*self, Key(name))

    def __str__(self) -> str:
        """Print as ``spec.trainer.env[0].name`` and ``metadata.labels[app]``; long keys are cut, as values are."""
        out: list[str] = []
        for segment in self:
            if type(segment) is str:
                out.append(f".{_shown(segment)}" if out else _shown(segment))
            elif type(segment) is Key:
                out.append(f"[{_shown(segment.name)}]")
            else:
                out.append(f"[{segment}]")
        return "".join(out)

    def __repr__(self) -> str:
        """Show the printed path."""
        return f"Path({str(self)!r})"

    @property
    def steps(self) -> tuple[str | int, ...]:
        """The plain keys and indexes, for walking an object."""
        return _steps(self)

    @property
    def pointer(self) -> str:
        """The JSON Pointer (RFC 6901) of this place."""
        return _pointer(self)


def _shown(name: str) -> str:
    return escape(name if len(name) <= LONGEST_VALUE else f"{name[:LONGEST_VALUE]}...")


@lru_cache(maxsize=1024)
def _steps(path: Path) -> tuple[str | int, ...]:
    return tuple(s.name if type(s) is Key else s for s in path)  # type: ignore[misc]  # a Key is taken out


@lru_cache(maxsize=1024)
def _pointer(path: Path) -> str:
    return pointer(_steps(path))


def pointer(steps: Iterable[str | int]) -> str:
    """Join steps to a JSON Pointer; ``~`` is escaped before ``/`` (RFC 6901, section 3)."""
    return "".join(["/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps])


def path_of(steps: Iterable[str | int]) -> Path:
    """Plain keys and indexes as a path, with what can be no field's name in brackets: ``metadata.labels[app/x]``."""
    return Path(*(step if _is_plain(step) else Key(str(step)) for step in steps))


def _is_plain(step: str | int) -> bool:
    return type(step) is int or (type(step) is str and step.isascii() and step.isalnum())


class ErrorType(Enum):
    """Kubernetes' cause types; the value is ``(reason of the cause, text in the message)``."""

    NOT_FOUND = ("FieldValueNotFound", "Not found")
    REQUIRED = ("FieldValueRequired", "Required value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    INTERNAL = ("InternalError", "Internal error")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")

    @property
    def reason(self) -> str:
        """The machine word of the cause, such as ``FieldValueInvalid``."""
        return self.value[0]

    @property
    def text(self) -> str:
        """The words of the message, such as ``Invalid value``."""
        return self.value[1]


_SHOWS_VALUE: Final = frozenset(
    {
        ErrorType.NOT_FOUND,
        ErrorType.DUPLICATE,
        ErrorType.INVALID,
        ErrorType.NOT_SUPPORTED,
        ErrorType.TYPE_INVALID,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One finding: something wrong with the object, at a path.

    ``value`` is the offending value as JSON (shown where the type shows values), ``detail`` what would be
    right. ``origin`` names the policy rule that found it; such findings are refused as 403, not 422.
    """

    type: ErrorType
    path: Path | str
    value: Any = None
    detail: str = ""
    origin: str = ""

    @property
    def field(self) -> str:
        """The path as text."""
        return str(self.path)

    @property
    def body(self) -> str:
        """The message without the path: what ``causes[].message`` holds."""
        parts = [self.type.text]
        if self.type in _SHOWS_VALUE and (self.value is not None or self.field):
            # A rule of a policy that is about no field has no value either: `null` would say that it has.
            parts.append(show(self.value))
        elif self.type is ErrorType.TOO_MANY and self.value is not None:
            parts.append(str(self.value))
        if self.detail:
            parts.append(_bounded(self.detail))
        body = ": ".join(parts)
        return f"[{self.origin}] {body}" if self.origin else body

    def __str__(self) -> str:
        """Print as the API server does: ``<path>: <type>: <value>: <detail>``."""
        return f"{self.field}: {self.body}" if self.field else self.body

    def under(self, path: Path) -> FieldError:
        """The same finding, seen from further up: ``path`` is put before its place."""
        return replace(self, path=Path(*path, *self.path))

    def cause(self) -> dict[str, str]:
        """The ``StatusCause`` of ``status.details.causes``."""
        cause = {"reason": self.type.reason, "message": self.body}
        if self.field:
            cause["field"] = self.field
        return cause


class Findings(msgspec.Struct, eq=False):
    """What validation found: errors refuse the object, warnings are shown to whoever sent it."""

    errors: list[FieldError] = []
    warnings: list[str] = []
    _known: dict[Any, list[FieldError]] | None = None
    """The errors by all but their values, which may be unhashable: an object may have thousands of them."""
    _counted: int = 0
    _said: set[str] | None = None

    def __eq__(self, other: object) -> bool:
        """Compare what was found, not how it is looked up."""
        if not isinstance(other, Findings):
            return NotImplemented
        return (self.errors, self.warnings) == (other.errors, other.warnings)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        """Show what was found."""
        return f"Findings(errors={self.errors!r}, warnings={self.warnings!r})"

    def error(self, *errors: FieldError) -> None:
        """Add errors, exact duplicates left out."""
        for error in errors:
            known = self._known
            if known is None or self._counted != len(self.errors):
                known = self._index()
            alike = known.setdefault((error.type, error.path, error.detail), [])
            if error not in alike:
                alike.append(error)
                self.errors.append(error)
                self._counted += 1

    def _index(self) -> dict[Any, list[FieldError]]:
        """Nobody has asked yet, or somebody wrote to the list itself."""
        known = self._known = {}
        for error in self.errors:
            known.setdefault((error.type, error.path, error.detail), []).append(error)
        self._counted = len(self.errors)
        return known

    def warn(self, *warnings: str) -> None:
        """Add warnings, each once, in the order found."""
        for warning in warnings:
            said = self._said
            if said is None or len(said) != len(self.warnings):
                said = self._said = set(self.warnings)
            if warning not in said:
                said.add(warning)
                self.warnings.append(warning)

    def add(self, other: Findings) -> None:
        """Take over all that ``other`` found."""
        self.error(*other.errors)
        self.warn(*other.warnings)


def invalid(path: Path | str, value: Any, detail: str) -> FieldError:
    """``Invalid value``: the value is of the right type and still wrong."""
    return FieldError(type=ErrorType.INVALID, path=path, value=value, detail=detail)


def type_invalid(path: Path | str, value: Any, detail: str) -> FieldError:
    """``Invalid value``, cause type ``FieldValueTypeInvalid``: a value of the wrong type."""
    return FieldError(type=ErrorType.TYPE_INVALID, path=path, value=value, detail=detail)


def required(path: Path | str, detail: str = "") -> FieldError:
    """``Required value``: nothing is there and something must be."""
    return FieldError(type=ErrorType.REQUIRED, path=path, detail=detail)


def forbidden(path: Path | str, detail: str) -> FieldError:
    """``Forbidden``: this may not be set, or not be changed, here."""
    return FieldError(type=ErrorType.FORBIDDEN, path=path, detail=detail)


def duplicate(path: Path | str, value: Any) -> FieldError:
    """``Duplicate value``: a key that must be there once is there again."""
    return FieldError(type=ErrorType.DUPLICATE, path=path, value=value)


def not_found(path: Path | str, value: Any, detail: str = "") -> FieldError:
    """``Not found``: the value names something that does not exist; say in ``detail`` what does."""
    return FieldError(type=ErrorType.NOT_FOUND, path=path, value=value, detail=detail)


def not_supported(path: Path | str, value: Any, supported: Iterable[str]) -> FieldError:
    """``Unsupported value`` with the values that would be right."""
    names = ", ".join(show(name) for name in supported)
    return FieldError(
        type=ErrorType.NOT_SUPPORTED,
        path=path,
        value=value,
        detail=f"supported values: {names}" if names else "",
    )


def too_long(path: Path | str, value: Any, longest: int) -> FieldError:
    """``Too long``: more than ``longest`` bytes (apimachinery's words since 1.31)."""
    return FieldError(
        type=ErrorType.TOO_LONG,
        path=path,
        value=value,
        detail=f"may not be more than {longest} bytes",
    )


def too_many(path: Path | str, actual: int, most: int) -> FieldError:
    """``Too many``: a list or map with more than ``most`` items."""
    noun = "item" if most == 1 else "items"
    return FieldError(
        type=ErrorType.TOO_MANY,
        path=path,
        value=actual,
        detail=f"must have at most {most} {noun}",
    )


def internal(path: Path | str, detail: str) -> FieldError:
    """``Internal error``: the check could not be made."""
    return FieldError(type=ErrorType.INTERNAL, path=path, detail=detail)


def show(value: Any) -> str:
    """A value as a message quotes it: JSON, control characters escaped, cut at 256 characters.

    Strings are quoted as Go quotes them as far as terminals care: what could move a cursor, change a
    colour or forge a second line leaves as an escape (webhook-server contract: newlines and escape
    sequences reach a user's terminal unchanged).
    """
    if type(value) is str:
        return _quote(value[: LONGEST_VALUE + 1], cut=len(value) > LONGEST_VALUE)
    if value is None or type(value) is bool or type(value) is int:
        return _plain(value)
    try:
        text = orjson.dumps(_prune(value, LONGEST_VALUE)).decode()
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__name__})"
    text = escape(text)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "..."


def _bounded(detail: str) -> str:
    """Details name what exists, in words that users chose."""
    text = escape(detail)
    return text if len(text) <= LONGEST_DETAIL else f"{text[:LONGEST_DETAIL]}..."


def _plain(value: int | None) -> str:
    if value is None or type(value) is bool:
        return "null" if value is None else str(value).lower()
    if value.bit_length() > LONGEST_VALUE:
        return f"(a number of {value.bit_length()} bits)"
    return str(value)


def _quote(text: str, *, cut: bool) -> str:
    try:
        quoted = orjson.dumps(text[:LONGEST_VALUE]).decode()
    except TypeError:  # lone surrogates
        quoted = '"' + text[:LONGEST_VALUE].encode("utf-8", "replace").decode() + '"'
    quoted = escape(quoted)
    return quoted[:-1] + '..."' if cut else quoted


def escape(text: str) -> str:
    r"""Replace control characters and the Unicode marks that reorder or hide text by ``\uXXXX``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
        for c in text
    )


def _prune(value: Any, budget: int) -> Any:
    """A copy with no more items than could be shown, so that a huge value costs a small message."""
    if isinstance(value, Mapping):
        out: dict[str, Any] = {}
        for key, item in value.items():
            if budget <= 0:
                break
            out[str(key)[:budget]] = _prune(item, budget // 2)
            budget -= len(str(key)) + 8
        return out
    if isinstance(value, list | tuple):
        return [_prune(item, budget // 2) for item in value[: max(budget // 4, 1)]]
    if isinstance(value, str):
        return value[: max(budget, 1)]
    return value
