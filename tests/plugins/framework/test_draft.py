"""Every edit is recorded, and the record applied to the original gives the edited object, types included."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import applied, values
from plugins.framework.api import names
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.draft import ABSENT, Draft
from plugins.framework.field import Path
from plugins.framework.lines import NEWEST
from plugins.framework.resolve import resolve
from plugins.framework.runtime import CompiledRuntime
from tests.builders import Json, make_runtime, make_train_job
from tests.plugins.kit import stored, table

KEYS = st.sampled_from(["a", "b", "c", "a/b", "~", "0", ""])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, "", "x", 2**60])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, TREES, max_size=4)


def paths_in(value: Any, at: Path = Path()) -> list[Path]:  # noqa: B008  # a tuple
    """Every place in a value, the root left out."""
    out: list[Path] = []
    if type(value) is dict:
        for key, item in value.items():
            out += [at.key(key), *paths_in(item, at.key(key))]
    elif type(value) is list:
        for i, item in enumerate(value):
            out += [at.index(i), *paths_in(item, at.index(i))]
    return out


@st.composite
def some_path(draw: st.DrawFn, raw: Json) -> Path:
    """A place that is there, or one below it that is not."""
    there = paths_in(raw)
    at = draw(st.sampled_from([*there, Path()])) if there else Path()
    tail = draw(st.lists(KEYS | st.integers(0, 2), min_size=0 if at else 1, max_size=3))
    for step in tail:
        at = at.index(step) if isinstance(step, int) else at.key(step)
    return at


Edit = Callable[[st.DataObject, Draft], bool]


def do_set(data: st.DataObject, draft: Draft) -> bool:
    path, value = data.draw(some_path(draft.raw)), data.draw(TREES)
    changed = draft.set(path, value)
    assert not changed or values.same(draft.get(path), value)
    return changed


def do_setdefault(data: st.DataObject, draft: Draft) -> bool:
    path, value = data.draw(some_path(draft.raw)), data.draw(TREES)
    before = deepcopy(draft.get(path))
    changed = draft.setdefault(path, value)
    assert values.same(draft.get(path), value if changed else before)
    return changed


def do_default(data: st.DataObject, draft: Draft) -> bool:
    path, value = data.draw(some_path(draft.raw)), data.draw(TREES)
    before = deepcopy(draft.get(path))
    changed = draft.default(path, value)
    assert values.same(draft.get(path), value if changed else before)
    return changed


def do_remove(data: st.DataObject, draft: Draft) -> bool:
    path = data.draw(some_path(draft.raw))
    there = path in paths_in(draft.raw)
    changed = draft.remove(path)
    assert changed == there
    return changed


def do_append(data: st.DataObject, draft: Draft) -> bool:
    path, value = data.draw(some_path(draft.raw)), data.draw(TREES)
    changed = draft.append(path, value)
    assert not changed or values.same(draft.get(path)[-1], value)
    return changed


def do_insert(data: st.DataObject, draft: Draft) -> bool:
    path, value = data.draw(some_path(draft.raw)), data.draw(TREES)
    index = data.draw(st.integers(0, 3))
    changed = draft.insert(path, index, value)
    if changed:
        items = draft.get(path)
        assert values.same(items[min(index, len(items) - 1)], value)
    return changed


EDITS: tuple[Edit, ...] = (do_set, do_setdefault, do_default, do_remove, do_append, do_insert)


@given(st.data(), OBJECTS, st.lists(st.sampled_from(EDITS), max_size=8))
def test_the_record_applied_to_the_original_gives_the_edited_object(
    data: st.DataObject, raw: Json, edits: list[Edit]
) -> None:
    original = deepcopy(raw)
    draft = Draft(raw)
    for edit in edits:
        before, revision, changes = deepcopy(raw), draft.revision, len(draft.changes)
        changed = edit(data, draft)
        if changed:
            assert not values.same(raw, before)
            assert draft.revision > revision
            assert len(draft.changes) > changes
        else:
            assert values.same(raw, before), "said that nothing changed"
            assert (draft.revision, len(draft.changes)) == (revision, changes)
    made = draft.patch()
    assert values.same(jsonpatch.apply_patch(original, made), raw)
    if not draft.changes:
        assert made == []


@given(OBJECTS, OBJECTS)
def test_an_edit_keeps_no_hold_on_the_value_that_it_was_given(raw: Json, value: Json) -> None:
    draft = Draft({"spec": raw})
    given_value = deepcopy(value)
    draft.set(Path("spec", "x"), given_value)
    draft.set(Path("spec", "x", "more"), 1)
    assert values.same(given_value, value)


# The form of the patch


@dataclass(frozen=True)
class Case:
    raw: Json
    edit: Callable[[Draft], object]
    want: list[Json] = field(default_factory=list)


SPEC = Path("spec")
TRAINER = SPEC.child("trainer")
ITEMS = SPEC.child("items")


def edits(*steps: Callable[[Draft], object]) -> Callable[[Draft], object]:
    """Several edits, one after another."""

    def run(draft: Draft) -> None:
        for step in steps:
            step(draft)

    return run


CASES = {
    "a missing parent is made whole, in one operation": Case(
        {},
        lambda d: d.set(TRAINER.child("numNodes"), 2),
        [{"op": "add", "path": "/spec", "value": {"trainer": {"numNodes": 2}}}],
    ),
    "a parent that is null is replaced, since the API server cannot add below it": Case(
        {"spec": {"trainer": None}},
        lambda d: d.set(TRAINER.child("numNodes"), 2),
        [{"op": "replace", "path": "/spec/trainer", "value": {"numNodes": 2}}],
    ),
    "a missing list is made by the first item": Case(
        {"spec": {}},
        lambda d: d.append(ITEMS, "x"),
        [{"op": "add", "path": "/spec/items", "value": ["x"]}],
    ),
    "edits below a value of our own are part of that value": Case(
        {"spec": {}},
        edits(
            lambda d: d.set(TRAINER, {}),
            lambda d: d.set(TRAINER.child("numNodes"), 2),
            lambda d: d.append(TRAINER.child("args"), "a"),
            lambda d: d.append(TRAINER.child("args"), "b"),
            lambda d: d.set(TRAINER.child("args").index(0), "c"),
            lambda d: d.remove(TRAINER.child("args").index(1)),
        ),
        [{"op": "add", "path": "/spec/trainer", "value": {"numNodes": 2, "args": ["c"]}}],
    ),
    "a second value at a place changes the first operation": Case(
        {"spec": {"a": 1}},
        edits(lambda d: d.set(SPEC.child("a"), 2), lambda d: d.set(SPEC.child("a"), 3)),
        [{"op": "replace", "path": "/spec/a", "value": 3}],
    ),
    "the value that stands there already is no change": Case(
        {"spec": {"a": {"b": [1, "x"]}}}, lambda d: d.set(SPEC.child("a"), {"b": [1, "x"]})
    ),
    "1 for true is a change": Case(
        {"spec": {"a": True}},
        lambda d: d.set(SPEC.child("a"), 1),
        [{"op": "replace", "path": "/spec/a", "value": 1}],
    ),
    "1.0 for 1 is a change": Case(
        {"spec": {"a": 1}},
        lambda d: d.set(SPEC.child("a"), 1.0),
        [{"op": "replace", "path": "/spec/a", "value": 1.0}],
    ),
    "what is changed and changed back leaves no trace": Case(
        {"spec": {"a": 1}},
        edits(lambda d: d.set(SPEC.child("a"), 2), lambda d: d.set(SPEC.child("a"), 1)),
    ),
    "what is added and removed leaves no trace": Case(
        {"spec": {}},
        edits(lambda d: d.set(TRAINER, {"numNodes": 2}), lambda d: d.remove(TRAINER)),
    ),
    "removing what is not there is no change": Case({"spec": {}}, lambda d: d.remove(TRAINER)),
    "what was changed is removed once": Case(
        {"spec": {"a": 1}},
        edits(lambda d: d.set(SPEC.child("a"), 2), lambda d: d.remove(SPEC.child("a"))),
        [{"op": "remove", "path": "/spec/a"}],
    ),
    "what is removed and put back leaves no trace": Case(
        {"spec": {"a": {"b": 1}}},
        edits(lambda d: d.remove(SPEC.child("a")), lambda d: d.set(SPEC.child("a", "b"), 1)),
    ),
    "what is removed and written otherwise is replaced": Case(
        {"spec": {"a": 1}},
        edits(
            lambda d: d.remove(SPEC.child("a")),
            lambda d: d.set(SPEC.child("a"), 2),
            lambda d: d.remove(SPEC.child("a")),
            lambda d: d.set(SPEC.child("a"), 3),
        ),
        [{"op": "replace", "path": "/spec/a", "value": 3}],
    ),
    "an item at the end is added as /-, so that others may append too": Case(
        {"spec": {"items": ["x"]}},
        lambda d: d.append(ITEMS, "y"),
        [{"op": "add", "path": "/spec/items/-", "value": "y"}],
    ),
    "an item in front is added at its index": Case(
        {"spec": {"items": ["x"]}},
        lambda d: d.insert(ITEMS, 0, "y"),
        [{"op": "add", "path": "/spec/items/0", "value": "y"}],
    ),
    "an item that was set keeps its value when others are put in front of it": Case(
        {"spec": {"items": [1, 2]}},
        edits(lambda d: d.set(ITEMS.index(0), 9), lambda d: d.insert(ITEMS, 0, 7)),
        [
            {"op": "replace", "path": "/spec/items/0", "value": 9},
            {"op": "add", "path": "/spec/items/0", "value": 7},
        ],
    ),
    "an item that was set keeps its value when one before it is removed": Case(
        {"spec": {"items": [1, 2]}},
        edits(lambda d: d.set(ITEMS.index(1), 9), lambda d: d.remove(ITEMS.index(0))),
        [
            {"op": "replace", "path": "/spec/items/1", "value": 9},
            {"op": "remove", "path": "/spec/items/0"},
        ],
    ),
    "slashes and tildes in a key are escaped": Case(
        {"metadata": {"labels": {}}},
        lambda d: d.set(Path("metadata", "labels").key("a.io/b~c"), "x"),
        [{"op": "add", "path": "/metadata/labels/a.io~1b~0c", "value": "x"}],
    ),
    "a scalar in the way is left alone": Case({"spec": 1}, lambda d: d.set(TRAINER, {})),
    "a list in the way is left alone": Case({"spec": []}, lambda d: d.set(TRAINER, {})),
    "an object where a list should be is left alone": Case(
        {"spec": {"items": {}}}, lambda d: d.set(ITEMS.index(0).child("a"), 1)
    ),
    "an item that is not there is not made": Case(
        {"spec": {}}, lambda d: d.set(ITEMS.index(0).child("a"), 1)
    ),
    "default leaves what stands": Case({"spec": {"a": 1}}, lambda d: d.default(SPEC.child("a"), 2)),
    "default replaces null": Case(
        {"spec": {"a": None}},
        lambda d: d.default(SPEC.child("a"), 2),
        [{"op": "replace", "path": "/spec/a", "value": 2}],
    ),
}


@table(CASES)
def test_patch(case: Case) -> None:
    raw = deepcopy(case.raw)
    draft = Draft(raw)
    case.edit(draft)
    assert draft.patch() == case.want
    assert values.same(jsonpatch.apply_patch(case.raw, case.want), raw)


def test_each_change_knows_who_made_it_where_from_what_to_what() -> None:
    draft = Draft({"spec": {"a": 1, "b": 2}})
    with draft.by("First"):
        draft.set(SPEC.child("a"), 3)
        with draft.by("Second"):
            draft.remove(SPEC.child("b"))
        draft.append(ITEMS, "x")
    found = [(c.by, c.pointer, c.before, c.after) for c in draft.changes]
    assert found == [
        ("First", "/spec/a", 1, 3),
        ("Second", "/spec/b", 2, ABSENT),
        ("First", "/spec/items", ABSENT, ["x"]),
    ]


def test_the_appended_item_is_noted_at_its_index() -> None:
    draft = Draft({"spec": {"items": ["x", "y"]}})
    draft.append(ITEMS, "z")
    assert [c.path for c in draft.changes] == [("spec", "items", 2)]


def test_a_default_is_remembered_as_ours_and_a_value_of_the_users_is_not() -> None:
    draft = Draft({"spec": {"a": 1}})
    with draft.by("Plugin"):
        draft.default(SPEC.child("a"), 1)
        draft.default(SPEC.child("b"), 2)
    assert draft.record == {"/spec/b": applied.mark("Plugin", 2)}


@dataclass(frozen=True)
class Claim:
    """What the annotation of an object says, and what is believed of it."""

    claimed: dict[str, str]
    value: Any
    kept: bool


CLAIMS = {
    "a claim that fits the value and the default is believed": Claim(
        {"/spec/a": applied.mark("Plugin", 2)}, 2, kept=True
    ),
    "a claim is not believed where the value is another": Claim(
        {"/spec/a": applied.mark("Plugin", 2)}, 3, kept=False
    ),
    "a claim is not believed where we would write another value": Claim(
        {"/spec/a": applied.mark("Plugin", 3)}, 3, kept=False
    ),
    "a claim for another plugin is not believed": Claim(
        {"/spec/a": applied.mark("Other", 2)}, 2, kept=False
    ),
    "a claim for another place is not believed": Claim(
        {"/spec/b": applied.mark("Plugin", 2)}, 2, kept=False
    ),
}


@table(CLAIMS)
def test_claims(case: Claim) -> None:
    raw = {
        "metadata": {"annotations": {names.APPLIED_ANNOTATION: applied.write(case.claimed)}},
        "spec": {"a": case.value},
    }
    draft = Draft(raw)
    with draft.by("Plugin"):
        assert draft.default(SPEC.child("a"), 2) is False
    assert ("/spec/a" in draft.record) == case.kept
    assert draft.patch() == []


def test_a_default_of_the_same_editor_and_call_follows_what_it_now_would_write() -> None:
    draft, path = Draft({}), Path("spec", "count")
    with draft.by("P"):
        assert draft.default(path, 1)
        assert draft.default(path, 2)
        assert not draft.default(path, 2)
    with draft.by("Q"):
        assert not draft.default(path, 3)
    assert draft.get(path) == 2
    assert draft.record == {"/spec/count": applied.mark("P", 2)}


def test_only_its_own_default_of_the_same_call_can_be_undone() -> None:
    path = Path("spec", "count")
    users = Draft({"spec": {"count": 1}})
    with users.by("P"):
        assert not users.undo_default(path)
    draft = Draft({})
    with draft.by("P"):
        draft.default(path, 1)
    with draft.by("Q"):
        assert not draft.undo_default(path)
    with draft.by("P"):
        assert draft.undo_default(path)
    assert draft.get(path) is None
    assert draft.record == {}


def test_the_info_is_resolved_once_per_revision() -> None:
    raw = stored(make_train_job())
    runtime = CompiledRuntime(stored(make_runtime().torch().node()), NEWEST)
    resolved: list[int | None] = []

    def resolver(now: Json) -> Any:
        job = TrainJob(now)
        resolved.append(job.num_nodes)
        return resolve(job, runtime)

    draft = Draft(raw, runtime=runtime, resolver=resolver)
    assert draft.info is draft.info
    draft.set(TRAINER.child("numNodes"), 3)
    assert draft.info.job.num_nodes == 3
    assert draft.info.job.num_nodes == 3
    assert resolved == [None, 3]


def test_a_draft_without_a_runtime_says_so() -> None:
    with pytest.raises(LookupError, match="no runtime"):
        _ = Draft({}).info
