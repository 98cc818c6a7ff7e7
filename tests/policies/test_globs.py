from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from typing import Self, SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import globs
from policies.globs import Glob, GlobError

PATTERNS = st.text("ab/*?", max_size=10)
TEXTS = st.text("ab/", max_size=12)


def reference(pattern: str, text: str, *, path: bool) -> bool:
    """The definition itself, by trying everything."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        stars = len(pattern) - len(pattern.lstrip("*"))
        crosses = not path or stars > 1
        rest = pattern[stars:]
        for i in range(len(text) + 1):
            if not crosses and "/" in text[:i]:
                return False
            if reference(rest, text[i:], path=path):
                return True
        return False
    if not text:
        return False
    fits = pattern[0] == text[0] or (pattern[0] == "?" and not (path and text[0] == "/"))
    return fits and reference(pattern[1:], text[1:], path=path)


@given(PATTERNS, TEXTS, st.booleans())
def test_a_glob_is_what_its_definition_says(pattern: str, text: str, path: bool) -> None:
    assert Glob(pattern, path=path).matches(text) == reference(pattern, text, path=path)


@given(PATTERNS, TEXTS)
def test_over_names_it_is_what_fnmatch_says(pattern: str, text: str) -> None:
    expected = re.compile(fnmatch.translate(pattern)).match(text) is not None
    assert Glob(pattern).matches(text) == expected


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        ("torch-*", "torch-distributed", True),
        ("torch-*", "Torch-distributed", False),
        ("torch-?", "torch-", False),
        ("", "", True),
        ("", "a", False),
        ("a.b", "axb", False),
        ("[a]", "a", False),
        ("*", "https://issuer/sub#x\n", True),
    ],
)
def test_over_names(pattern: str, text: str, wanted: bool) -> None:
    assert globs.glob(pattern).matches(text) is wanted


class Counted(str):  # noqa: SLOT000  # it counts
    """Counts how often one of its characters is looked at."""

    seen: list[str]

    def __new__(cls, text: str, seen: list[str] | None = None) -> Self:
        counted = super().__new__(cls, text)
        counted.seen = [] if seen is None else seen
        return counted

    def __getitem__(self, key: SupportsIndex | slice) -> Self:
        return type(self)(super().__getitem__(key), self.seen)

    def __iter__(self) -> Iterator[str]:
        for c in super().__iter__():
            self.seen.append(c)
            yield c


def test_many_stars_cost_one_pass() -> None:
    text = Counted("a" * 5000)
    assert not Glob("*a" * 250 + "*b").matches(text)
    assert len(text.seen) == len(text), "each character once"


def test_a_pattern_is_bounded() -> None:
    with pytest.raises(GlobError, match="at most 512 characters, and this one has 513"):
        Glob("a" * 513)
    assert "at most 512" in globs.problem("a" * 513)
    assert globs.problem("") == "must not be empty; * matches every name"
    assert globs.problem("torch-*") == ""


def test_the_first_pattern_that_matches() -> None:
    assert globs.first(("x", "a*", "ab"), "ab") == "a*"
    assert globs.first((), "ab") is None
