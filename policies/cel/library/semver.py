"""Semantic versions (``library/semver.go``); comparisons are registered with those of quantities."""

from __future__ import annotations

import re
from typing import Any, Final

from policies.cel.library.function import (
    BOOL,
    INT,
    SEMVER,
    STRING,
    Function,
    Overload,
    type_of,
    value,
)

_NUMBER: Final = r"(0|[1-9][0-9]{0,18})"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?\Z"
)
_SHORT: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?\Z")
_LONGEST: Final = 256


def functions() -> tuple[Function, ...]:
    """The library."""
    made: tuple[Overload, ...] = (((STRING,), SEMVER), ((STRING, BOOL), SEMVER))
    asked: tuple[Overload, ...] = (((STRING,), BOOL), ((STRING, BOOL), BOOL))
    parts: tuple[Overload, ...] = (((SEMVER,), INT),)
    return (
        Function(library="semver", name="semver", overloads=made, runtime=made, impl=_semver),
        Function(
            library="semver", name="isSemver", overloads=asked, runtime=asked, impl=_is_semver
        ),
        *(
            Function(
                library="semver",
                name=name,
                overloads=parts,
                runtime=parts,
                impl=lambda it, i=i: _part(it, i),
                is_member=True,
            )
            for i, name in enumerate(("major", "minor", "patch"))
        ),
    )


def _parse(text: str, *, normalize: bool) -> str:
    """The version without its build: builds do not count in comparisons (semver.org, 10)."""
    if normalize:
        text = _normalized(text)
    match = _VERSION.match(text) if len(text) <= _LONGEST else None
    if match is None or not _sound(match[4], numbers=True) or not _sound(match[5], numbers=False):
        raise ValueError("not a semantic version: must be major.minor.patch, such as 1.2.3-rc.1")
    return text.partition("+")[0]


def _sound(identifiers: str | None, *, numbers: bool) -> bool:
    if identifiers is None:
        return True
    for one in identifiers.split("."):
        if not one or (numbers and one.isdigit() and len(one) > 1 and one[0] == "0"):
            return False
    return True


def _normalized(text: str) -> str:
    """Without a leading v, with zeros for what is missing, and without leading zeros."""
    text = text.removeprefix("v")
    cut = min((i for i in map(text.find, "-+") if i >= 0), default=len(text))
    match = _SHORT.match(text[:cut])
    if match is None:
        return text
    return ".".join((part or "0").lstrip("0") or "0" for part in match.groups()) + text[cut:]


def _semver(text: str, normalize: bool = False) -> Any:  # noqa: FBT001, FBT002 - CEL has no keywords
    return value(SEMVER, _parse(text, normalize=normalize))


def _is_semver(text: str, normalize: bool = False) -> bool:  # noqa: FBT001, FBT002 - as above
    try:
        _parse(text, normalize=normalize)
    except ValueError:
        return False
    return True


def _part(message: Any, index: int) -> int:
    if type_of(message) != SEMVER:
        raise ValueError("no such overload")
    return int(message.text.partition("-")[0].split(".")[index])


def compare(left: str, right: str) -> int:
    """-1, 0 or 1 (semver.org, 11)."""
    a, b = _key(left), _key(right)
    return (a > b) - (a < b)


def _key(text: str) -> tuple[Any, ...]:
    core, dash, pre = text.partition("-")
    numbers = tuple(int(part) for part in core.split("."))
    if not dash:
        return (numbers, 1, ())
    parts = tuple((0, int(one), "") if one.isdigit() else (1, 0, one) for one in pre.split("."))
    return (numbers, 0, parts)
