"""Exact equality, copies, and reading objects of any shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import values
from tests.plugins.framework.test_draft import OBJECTS, TREES


@given(TREES, TREES)
def test_same_is_equality_of_the_json_text(a: Any, b: Any) -> None:
    text = json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    assert values.same(a, b) is text


@pytest.mark.parametrize(
    ("a", "b"), [(1, True), (0, False), (1, 1.0), ([1], [True]), ({"a": 0}, {"a": False})]
)
def test_types_count(a: Any, b: Any) -> None:
    assert a == b
    assert not values.same(a, b)


@given(TREES)
def test_a_copy_is_the_same_and_shares_nothing_that_can_change(value: Any) -> None:
    copied = values.copy(value)
    assert values.same(copied, value)
    assert not shared(value, copied)


def shared(a: Any, b: Any) -> bool:
    if a is b and isinstance(a, dict | list):
        return True
    if isinstance(a, dict):
        return any(shared(a[k], b[k]) for k in a)
    return isinstance(a, list) and any(map(shared, a, b))


JUNK = TREES | st.text(max_size=3)


@given(JUNK, st.lists(st.sampled_from("abc"), max_size=3))
def test_reading_never_fails(value: Any, steps: list[str]) -> None:
    assert type(values.obj(value)) is dict
    assert type(values.items(value)) is list
    assert type(values.text(value)) is str
    assert all(type(v) is dict for v in values.objects(value))
    assert type(values.at_obj(value, *steps)) is dict
    found = values.at(value, *steps)
    assert values.at_obj(value, *steps) == (found if type(found) is dict else {})


@given(OBJECTS)
def test_what_is_there_is_read(value: dict[str, Any]) -> None:
    for key, item in value.items():
        assert values.at(value, key) is item
        if type(item) is dict:
            for below, inner in item.items():
                assert values.at(value, key, below) is inner


def test_what_a_missing_object_reads_as_is_not_written_to() -> None:
    assert values.EMPTY == {}
    assert values.obj(None) is values.EMPTY
