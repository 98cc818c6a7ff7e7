"""Raw objects taken apart field by field: every mistake is noted with its path, and reading goes on.

The API server's ways hold here too, so that a file and the cluster agree: a field that is null is absent, and a number
with nothing behind the point is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from plugins.framework import field as words
from plugins.framework.field import ErrorType, FieldError, Path, show
from plugins.framework.schema.shape import as_int
from plugins.framework.schema.syntax import size
from policies.document import Expression
from policies.reading.bounds import LONGEST_EXPRESSION, LONGEST_GLOB, MOST_ERRORS

EXPRESSION: Final = ("expression",)
"""The only key of a value that is to be evaluated."""

_COMPARED: Final = 64
"""Characters of a word that suggestions look at: their cost grows with the square."""
_MOST_WORDS: Final = 16
"""Items of a list of words, of which there are two or three: the rest are repetitions, and said to be so."""
_ELSEWHERE: Final[Mapping[str, str]] = {
    "matchConstraints": "match",
    "matchResources": "match",
    "validationActions": "actions",
    "validationFailureAction": "actions",
    "failureAction": "actions",
    "enforcementAction": "actions",
    "paramKind": "params",
    "paramRef": "params",
    "parameters": "params",
    "parameterNotFoundAction": "notFound",
    "excludeResourceRules": "matchConditions",
    "exclude": "matchConditions",
    "rules": "validations",
    "mutations": "overrides",
    "expires": "expiresAt",
    "expiry": "expiresAt",
}
"""What others call it: ValidatingAdmissionPolicy, Kyverno, Gatekeeper."""

T = TypeVar("T", bound=str)


@dataclass(slots=True)
class Notes:
    """What was found wrong, and what was found odd, in document order."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether more would not help anybody."""
        return len(self.errors) >= MOST_ERRORS

    def error(self, *errors: FieldError) -> None:
        """Note mistakes, as long as there is room."""
        self.errors.extend(errors[: max(MOST_ERRORS - len(self.errors), 0)])

    def warn(self, path: Path, text: str) -> None:
        """Note what is allowed, and seldom meant."""
        self.warnings.append(f"{path}: {text}")

    def open(self, raw: Any, path: Path, known: Sequence[str]) -> Fields | None:
        """An object with these fields; None, and an error, where there is none."""
        if type(raw) is not dict:
            self.error(words.type_invalid(path, raw, "must be an object"))
            return None
        for name in raw:
            if self.is_full:
                break
            if name not in known:
                self.error(_unknown(path, name, known))
        given = {name: raw[name] for name in known if raw.get(name) is not None}
        return Fields(self, path, given, has_unknown=any(name not in known for name in raw))


@dataclass(frozen=True, slots=True)
class Fields:
    """One object of a document; each method reads one field, and notes what is wrong with it.

    What cannot be read comes back as if it were not there.
    """

    notes: Notes
    path: Path
    raw: Mapping[str, Any]
    has_unknown: bool = False
    """Whether there were fields that nobody knows: what seems to be missing may be misspelt."""

    def __contains__(self, name: str) -> bool:
        """Whether the field is there."""
        return name in self.raw

    def at(self, name: str) -> Path:
        """The path of a field."""
        return self.path.child(name)

    def invalid(self, name: str, detail: str) -> None:
        """Note that the value of a field is wrong."""
        self.notes.error(words.invalid(self.at(name), self.raw.get(name), detail))

    def require(self, name: str, detail: str) -> bool:
        """Whether the field is there; an error where not."""
        if name in self.raw:
            return True
        self.notes.error(words.required(self.at(name), detail))
        return False

    def forbid(self, name: str, detail: str) -> None:
        """An error where the field is there."""
        if name in self.raw:
            self.notes.error(words.forbidden(self.at(name), detail))

    def text(self, name: str, longest: int) -> str:
        """A string that is not blank; "" where there is none."""
        return self._text(self.at(name), self.raw[name], longest) if name in self.raw else ""

    def line(self, name: str, longest: int) -> str:
        """A string in one line: what is shown to users."""
        text = self.text(name, longest)
        if "\n" in text or "\r" in text:
            self.invalid(name, f"{name} must not contain line breaks")
        return text

    def choice(self, name: str, allowed: Sequence[T], default: T) -> T:
        """One of some words."""
        if name not in self.raw:
            return default
        found = self._choice(self.at(name), self.raw[name], allowed)
        return default if found is None else found

    def flag(self, name: str) -> bool:
        """A boolean; false where there is none."""
        value = self.raw.get(name, False)
        if type(value) is bool:
            return value
        self.notes.error(words.type_invalid(self.at(name), value, "must be true or false"))
        return False

    def whole(self, name: str, least: int, most: int) -> int | None:
        """A whole number within bounds."""
        if name not in self.raw:
            return None
        value = self.raw[name]
        number = as_int(value) if type(value) is float else value
        if type(number) is not int:
            self.notes.error(words.type_invalid(self.at(name), value, "must be a whole number"))
            return None
        if not least <= number <= most:
            self.invalid(name, f"must be between {least} and {most}")
            return None
        return number

    def items(self, name: str, most: int) -> Iterator[tuple[Path, Any]]:
        """The items of a list, each with its path; no more than ``most``."""
        if name not in self.raw:
            return
        value = self.raw[name]
        if type(value) is not list:
            self.notes.error(words.type_invalid(self.at(name), value, "must be a list"))
            return
        if len(value) > most:
            self.notes.error(words.too_many(self.at(name), len(value), most))
        for i, item in enumerate(value[:most]):
            yield self.at(name).index(i), item

    def texts(self, name: str, most: int, longest: int) -> tuple[str, ...]:
        """A list of different strings."""
        return tuple(self.located(name, most, longest))

    def located(self, name: str, most: int, longest: int) -> dict[str, Path]:
        """A list of different strings, each with its path."""
        found: dict[str, Path] = {}
        for path, item in self.items(name, most):
            text = self._text(path, item, longest)
            if text and text in found:
                self.notes.error(words.duplicate(path, text))
            elif text:
                found[text] = path
        return found

    def globs(self, name: str, most: int, problem: Callable[[str], str]) -> tuple[str, ...]:
        """A list of different patterns; ``problem`` says what is wrong with one (``policies.globs``, ``policies.images``)."""
        found = self.located(name, most, LONGEST_GLOB)
        for pattern, path in found.items():
            if wrong := problem(pattern):
                self.notes.error(words.invalid(path, pattern, wrong))
        return tuple(found)

    def choices(self, name: str, allowed: Sequence[T]) -> tuple[T, ...] | None:
        """A list of some words, each once and at least one; None where there is none."""
        if name not in self.raw:
            return None
        if self.raw[name] == []:
            self.notes.error(words.required(self.at(name), "must have at least one item"))
        found: dict[T, None] = {}
        # A repetition is an error: the API server refuses it in a set.
        for path, item in self.items(name, _MOST_WORDS):
            word = self._choice(path, item, allowed)
            if word is not None and word in found:
                self.notes.error(words.duplicate(path, word))
            elif word is not None:
                found[word] = None
        return tuple(found)

    def object(self, name: str, known: Sequence[str]) -> Fields | None:
        """An object with these fields; None where there is none."""
        if name not in self.raw:
            return None
        return self.notes.open(self.raw[name], self.at(name), known)

    def objects(self, name: str, known: Sequence[str], most: int) -> Iterator[Fields]:
        """The objects of a list."""
        for path, item in self.items(name, most):
            found = self.notes.open(item, path, known)
            if found is not None:
                yield found

    def keyed(self, name: str, most: int) -> Iterator[tuple[str, Path, Any]]:
        """The entries of a map with keys of the user's: key, path, value."""
        if name not in self.raw:
            return
        value = self.raw[name]
        if type(value) is not dict:
            self.notes.error(words.type_invalid(self.at(name), value, "must be an object"))
            return
        if len(value) > most:
            self.notes.error(words.too_many(self.at(name), len(value), most))
            return
        for key, item in value.items():
            if item is not None:
                yield key, self.at(name).key(key), item

    def expression(self, name: str) -> Expression | None:
        """A CEL expression; it is not compiled here."""
        if name not in self.raw:
            return None
        text = self._text(self.at(name), self.raw[name], LONGEST_EXPRESSION)
        return Expression(text, self.at(name)) if text else None

    def _text(self, path: Path, value: Any, longest: int) -> str:
        if type(value) is not str:
            self.notes.error(words.type_invalid(path, value, "must be a string"))
        elif not value.strip():
            self.notes.error(words.invalid(path, value, "must not be empty"))
        elif size(value) > longest:
            self.notes.error(words.too_long(path, value, longest))
        else:
            return value
        return ""

    def _choice(self, path: Path, value: Any, allowed: Sequence[T]) -> T | None:
        if type(value) is not str:
            self.notes.error(words.type_invalid(path, value, f"must be one of {_listed(allowed)}"))
            return None
        for word in allowed:
            if word == value:
                return word
        self.notes.error(unsupported(path, value, allowed))
        return None


def unsupported(path: Path, value: str, allowed: Iterable[str]) -> FieldError:
    """``Unsupported value`` with those that would be right, and the one that was probably meant."""
    allowed = tuple(allowed)
    error = words.not_supported(path, value, allowed)
    meant = closest(value, allowed)
    return replace(error, detail=f"{error.detail}; did you mean {show(meant)}?") if meant else error


def missing(path: Path, value: str, known: Collection[str], what: str) -> FieldError:
    """``Not found``: the name of something in the same document that is not there."""
    meant = closest(value, known)
    hint = f"; did you mean {show(meant)}?" if meant else ""
    return words.not_found(path, value, f"{what}: {_listed(sorted(known)) or 'none'}{hint}")


def closest(word: str, known: Iterable[str]) -> str:
    """What was probably meant by a word that is not known; "" where nothing is near."""
    known = tuple(known)
    named = {name.lower(): name for name in known}
    if word.lower() in named:
        return named[word.lower()]
    near = get_close_matches(word[:_COMPARED], known, n=1)
    return near[0] if near else ""


def _unknown(path: Path, name: str, known: Sequence[str]) -> FieldError:
    place = path.child(name)
    other = _ELSEWHERE.get(name, "")
    meant = other if other in known else closest(name, known)
    if meant:
        return FieldError(
            type=ErrorType.FORBIDDEN,
            path=place,
            detail=f"unknown field; did you mean {show(meant)}?",
        )
    return FieldError(
        type=ErrorType.FORBIDDEN, path=place, detail=f"unknown field; there are: {', '.join(known)}"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(show(name) for name in names)
