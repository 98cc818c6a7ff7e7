"""The record of what admission wrote: read with suspicion, written the same every time, true for any form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import applied
from plugins.framework.api import names
from tests.builders import Json
from tests.plugins.framework.test_draft import TREES


def carrying(text: Any) -> Json:
    return {"metadata": {"annotations": {names.APPLIED_ANNOTATION: text}}}


RECORDS = st.dictionaries(
    st.text(alphabet="/spec~1", max_size=8), st.text(alphabet="ab:0", max_size=8), max_size=4
)


@given(RECORDS)
def test_what_is_written_is_read(record: dict[str, str]) -> None:
    text = applied.write(record)
    assert applied.read(carrying(text)) == record
    assert applied.write(dict(reversed(record.items()))) == text


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "1", '"x"', "\ud800", 5, None, {}, '{"a":' * 5000, "{}" + " " * 70000],
)
def test_what_is_no_record_reads_as_none(text: Any) -> None:
    assert applied.read(carrying(text)) == {}


@pytest.mark.parametrize(
    "raw", [{}, {"metadata": None}, {"metadata": {"annotations": []}}, {"metadata": 1}]
)
def test_an_object_without_annotations_has_none(raw: Json) -> None:
    assert applied.read(raw) == {}


def test_entries_that_are_no_text_are_left_out() -> None:
    assert applied.read(carrying('{"/a":"x:1","/b":2,"/c":null}')) == {"/a": "x:1"}


def test_a_mark_names_who_wrote_and_is_short() -> None:
    assert applied.mark("RuntimeDefaults", 2) == "RuntimeDefaults:d4735e3a"


@given(TREES, TREES)
def test_a_record_explains_this_very_value_at_this_place(a: Any, b: Any) -> None:
    record = {"/x": applied.mark("P", a)}
    assert applied.explains(record, "/x", a)
    assert not applied.explains(record, "/y", a)
    if applied.stable(a) != applied.stable(b):
        assert not applied.explains(record, "/x", b)


def test_a_name_with_a_colon_is_a_name() -> None:
    assert applied.explains({"/x": applied.mark("policy/team:a", 1)}, "/x", 1)


SAME: list[tuple[Any, Any]] = [(2, "2"), ("0.5", "500m"), ("1Gi", "1024Mi"), ("2000m", 2)]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_the_form_of_a_quantity_is_nothing(a: Any, b: Any) -> None:
    def limits(amount: Any) -> Json:
        return {"limits": {"cpu": amount}}

    assert applied.canonical(a) == applied.canonical(b)
    assert applied.mark("P", limits(a)) == applied.mark("P", limits(b))
    assert applied.mark("P", {"a": [limits(a)]}) == applied.mark("P", {"a": [limits(b)]})
    assert applied.mark("P", {"other": a}) != applied.mark("P", {"other": b})


@pytest.mark.parametrize("amount", ["two", "", None, True, 1.5, [], "1e1000000000"])
def test_what_is_no_quantity_stays(amount: Any) -> None:
    assert applied.canonical(amount) is amount


@pytest.mark.parametrize(
    ("pointer", "wrote", "stands", "ours"),
    [
        ("/spec/trainer/resourcesPerNode/limits/cpu", 2, "2", True),
        ("/spec/trainer/resourcesPerNode/limits/cpu", 2, "3", False),
        ("/metadata/labels/x", "2", 2, False),
    ],
)
def test_a_single_amount_is_known_by_its_value(
    pointer: str, wrote: Any, stands: Any, ours: bool
) -> None:
    record = {pointer: applied.mark_at(pointer, "policy/p", wrote)}
    assert applied.explains(record, pointer, stands) is ours


@pytest.mark.parametrize(("by", "forced"), [("policy/p!", True), ("policy/p", False), ("P", False)])
def test_what_an_override_wrote_is_told_apart(by: str, forced: bool) -> None:
    record = {"/a": applied.mark(by, 1)}
    assert applied.is_forced(record, "/a", 1) is forced
    assert not applied.is_forced(record, "/a", 2)
    assert not applied.is_forced({}, "/a", 1)
