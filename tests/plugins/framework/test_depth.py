"""How deep a document may be nested: exact at the bound, quick, and not fooled by brackets in texts."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import depth
from tests.plugins.framework.test_draft import TREES


def nested(levels: int, *, kind: str = "list", inner: Any = 1) -> Any:
    value = inner
    for _ in range(levels):
        value = [value] if kind == "list" else {"a": value}
    return value


def too_deep(document: Any) -> bool:
    return depth.exceeds(orjson.dumps(document), document)


@pytest.mark.parametrize("kind", ["list", "object"])
def test_two_hundred_levels_pass_and_one_more_does_not(kind: str) -> None:
    assert not too_deep(nested(depth.MOST, kind=kind))
    assert too_deep(nested(depth.MOST + 1, kind=kind))
    assert not depth.exceeds_in(nested(depth.MOST, kind=kind))
    assert depth.exceeds_in(nested(depth.MOST + 1, kind=kind))


@pytest.mark.parametrize("filler", ["[" * 500, "]" * 500, "{[" * 300, "}{" * 300, "{}" * 300])
def test_brackets_in_texts_do_not_count(filler: str) -> None:
    assert not too_deep({"a": filler, "b": nested(depth.MOST - 1)})
    assert too_deep({"a": filler, "b": nested(depth.MOST)})
    assert not too_deep({filler: 1})


def test_kinds_may_alternate() -> None:
    def alternating(levels: int) -> Any:
        value: Any = 1
        for i in range(levels):
            value = [value] if i % 2 else {"a": value}
        return value

    assert not too_deep(alternating(depth.MOST))
    assert too_deep(alternating(depth.MOST + 1))


def test_brackets_in_texts_cannot_make_a_deep_document_look_flat() -> None:
    document: Any = []
    for _ in range(depth.MOST + 1):
        document = ["]", document, "["]
    assert too_deep(["[", document, "]"])


@pytest.mark.parametrize("inner", [1, {}, [], {"{}": {}}])
def test_empty_objects_hide_no_level(inner: Any) -> None:
    levels = depth.MOST + 1 - level(inner)
    for value in (nested(levels, kind="object", inner=inner), nested(levels, inner=inner)):
        assert too_deep(value)
        assert too_deep([{}, "{}", value] + [{}] * 300)


def test_many_siblings_are_not_deep() -> None:
    assert not too_deep([[{}]] * 100_000)
    assert too_deep([[{}]] * 100_000 + [nested(depth.MOST)])


def test_far_deeper_documents_are_no_harm() -> None:
    body = b"[" * 900 + b"]" * 900
    assert depth.exceeds(body, orjson.loads(body))


def level(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(level, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(level, value), default=0)
    return 0


@given(TREES, st.integers(depth.MOST - 4, depth.MOST))
def test_it_counts_as_a_slow_count_does(value: Any, around: int) -> None:
    document = nested(around, inner=value)
    assert too_deep(document) is (around + level(value) > depth.MOST)
    assert depth.exceeds_in(document) is (around + level(value) > depth.MOST)
