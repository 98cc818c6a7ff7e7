"""Labels and annotations that the API server would refuse once a Pod is made of them."""

from __future__ import annotations

import pytest

from plugins.framework import labels
from plugins.framework.field import Path
from tests.builders import Json

AT = Path("spec", "metadata")


def found(metadata: Json) -> list[tuple[str, str]]:
    return [(e.field, e.type.reason) for e in labels.problems(AT, metadata)]


GOOD: list[Json] = [
    {},
    {"labels": {"a": "b", "a.io/b": "", "A-1_x.y": "v1.2_3-x"}},
    {"annotations": {"a": "any text\nwhatever " * 10, "a.io/b": ""}},
    {"labels": {"a" * 63: "b" * 63}},
    {"labels": {("a" * 59 + ".") * 4 + "io/b": "x"}},
    {"annotations": {"A.io/b": "keys of annotations are lower-cased first"}},
]


@pytest.mark.parametrize("metadata", GOOD)
def test_these_pass(metadata: Json) -> None:
    assert found(metadata) == []


LABEL_KEYS = ["", "a b", "-a", "a/", "/a", "a/b/c", "a" * 64, "A.io/b", "ü"]


@pytest.mark.parametrize("key", LABEL_KEYS)
def test_keys_of_labels_that_are_refused(key: str) -> None:
    places = {place for place, _ in found({"labels": {key: "x"}})}
    assert places == {f"spec.metadata.labels[{key}]"}


@pytest.mark.parametrize("value", ["a b", "-a", "a-", "a" * 64, "ü", "a/b"])
def test_values_of_labels_that_are_refused(value: str) -> None:
    assert ("spec.metadata.labels[k]", "FieldValueInvalid") in found({"labels": {"k": value}})


@pytest.mark.parametrize("key", ["", "a b", "a/b/c", "$patch"])
def test_keys_of_annotations_that_are_refused(key: str) -> None:
    places = {place for place, _ in found({"annotations": {key: "x"}})}
    assert places == {f"spec.metadata.annotations[{key}]"}


def test_annotations_have_a_size() -> None:
    most = labels.MOST_ANNOTATIONS
    assert found({"annotations": {"a": "x" * (most - 1)}}) == []
    assert found({"annotations": {"a": "x" * most}}) == [
        ("spec.metadata.annotations", "FieldValueTooLong")
    ]
    halves = {"a": "x" * (most // 2), "b": "x" * (most // 2)}
    assert found({"annotations": halves}) == [("spec.metadata.annotations", "FieldValueTooLong")]


def test_values_of_other_types_are_left_to_the_schema() -> None:
    assert found({"labels": {"a": 1}, "annotations": {"a": []}}) == []
    assert found({"labels": [], "annotations": None}) == []
