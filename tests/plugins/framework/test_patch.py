"""The difference of two objects as JSON Patch, type-exact, checked against the jsonpatch library."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import patch, values
from plugins.framework.draft import Draft
from tests.builders import Json
from tests.plugins.framework.test_draft import EDITS, OBJECTS, TREES, Edit
from tests.plugins.kit import table


@given(OBJECTS, OBJECTS)
def test_it_turns_the_old_into_the_new(old: Json, new: Json) -> None:
    made = patch.diff(old, new)
    assert values.same(jsonpatch.apply_patch(deepcopy(old), made), new)
    assert (made == []) == values.same(old, new)


@given(TREES)
def test_equals_do_not_differ(value: Any) -> None:
    assert patch.diff(value, deepcopy(value)) == []


@given(st.data(), OBJECTS, st.lists(st.sampled_from(EDITS), max_size=6))
def test_it_agrees_with_the_record_of_a_draft(
    data: st.DataObject, raw: Json, edits: list[Edit]
) -> None:
    original = deepcopy(raw)
    draft = Draft(raw)
    for edit in edits:
        edit(data, draft)
    assert values.same(
        jsonpatch.apply_patch(deepcopy(original), patch.diff(original, raw)),
        jsonpatch.apply_patch(original, draft.patch()),
    )


@dataclass(frozen=True)
class Case:
    old: Any
    new: Any
    want: list[Json] = field(default_factory=list)


CASES = {
    "1 for true": Case({"a": True}, {"a": 1}, [{"op": "replace", "path": "/a", "value": 1}]),
    "1.0 for 1": Case({"a": 1}, {"a": 1.0}, [{"op": "replace", "path": "/a", "value": 1.0}]),
    "null for nothing": Case({}, {"a": None}, [{"op": "add", "path": "/a", "value": None}]),
    "the order of keys is nothing": Case({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "an object for a list": Case(
        {"a": []}, {"a": {}}, [{"op": "replace", "path": "/a", "value": {}}]
    ),
    "only what differs, deep": Case(
        {"a": {"b": [1, {"c": 2}]}},
        {"a": {"b": [1, {"c": 3}]}},
        [{"op": "replace", "path": "/a/b/1/c", "value": 3}],
    ),
    "items at the end of a list": Case(
        {"a": [1]},
        {"a": [1, 2, 3]},
        [{"op": "add", "path": "/a/-", "value": 2}, {"op": "add", "path": "/a/-", "value": 3}],
    ),
    "items are removed from the highest index down": Case(
        {"a": [1, 2, 3]},
        {"a": [1]},
        [{"op": "remove", "path": "/a/2"}, {"op": "remove", "path": "/a/1"}],
    ),
    "slashes and tildes in keys": Case(
        {}, {"a/b~": 1}, [{"op": "add", "path": "/a~1b~0", "value": 1}]
    ),
    "another document": Case(1, 2, [{"op": "replace", "path": "", "value": 2}]),
}


@table(CASES)
def test_operations(case: Case) -> None:
    assert patch.diff(case.old, case.new) == case.want
