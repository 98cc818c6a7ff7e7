"""Paths and findings in Kubernetes' own words; values quoted so that no terminal is harmed."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import field
from plugins.framework.field import LONGEST_VALUE, ErrorType, FieldError, Findings, Path
from tests.plugins.framework.test_draft import TREES

ENV = Path("spec", "trainer", "env").index(0).child("name")
LABEL = Path("metadata", "labels").key("a.io/b~c")


def test_a_path_prints_as_kubernetes_prints_it() -> None:
    assert str(ENV) == "spec.trainer.env[0].name"
    assert str(LABEL) == "metadata.labels[a.io/b~c]"
    assert str(Path()) == ""


def test_a_path_points_as_rfc_6901_says() -> None:
    assert ENV.pointer == "/spec/trainer/env/0/name"
    assert LABEL.pointer == "/metadata/labels/a.io~1b~0c"
    assert Path().pointer == ""


def test_a_path_is_copied_and_pickled() -> None:
    for path in (ENV, LABEL):
        assert copy.deepcopy(path) == path
        assert pickle.loads(pickle.dumps(path)) == path
        assert str(pickle.loads(pickle.dumps(path))) == str(path)


P = Path("spec", "a")
MESSAGES: list[tuple[FieldError, str, str]] = [
    (
        field.invalid(P, "x", "must be y"),
        "FieldValueInvalid",
        'spec.a: Invalid value: "x": must be y',
    ),
    (field.invalid(P, 0, "must be 1"), "FieldValueInvalid", "spec.a: Invalid value: 0: must be 1"),
    (
        field.invalid(P, {"a": [1]}, "no"),
        "FieldValueInvalid",
        'spec.a: Invalid value: {"a":[1]}: no',
    ),
    (
        field.type_invalid(P, True, "must be text"),
        "FieldValueTypeInvalid",
        "spec.a: Invalid value: true: must be text",
    ),
    (field.required(P), "FieldValueRequired", "spec.a: Required value"),
    (field.required(P, "say it"), "FieldValueRequired", "spec.a: Required value: say it"),
    (field.forbidden(P, "not here"), "FieldValueForbidden", "spec.a: Forbidden: not here"),
    (field.duplicate(P, "x"), "FieldValueDuplicate", 'spec.a: Duplicate value: "x"'),
    (
        field.not_found(P, "x", "there is: y"),
        "FieldValueNotFound",
        'spec.a: Not found: "x": there is: y',
    ),
    (
        field.not_supported(P, "x", ("y", "z")),
        "FieldValueNotSupported",
        'spec.a: Unsupported value: "x": supported values: "y", "z"',
    ),
    (
        field.too_long(P, "x", 3),
        "FieldValueTooLong",
        "spec.a: Too long: may not be more than 3 bytes",
    ),
    (
        field.too_many(P, 4, 3),
        "FieldValueTooMany",
        "spec.a: Too many: 4: must have at most 3 items",
    ),
    (field.too_many(P, 2, 1), "FieldValueTooMany", "spec.a: Too many: 2: must have at most 1 item"),
    (field.internal(P, "no idea"), "InternalError", "spec.a: Internal error: no idea"),
]


@pytest.mark.parametrize(("error", "reason", "text"), MESSAGES)
def test_messages(error: FieldError, reason: str, text: str) -> None:
    assert str(error) == text
    assert error.cause() == {
        "reason": reason,
        "message": text.removeprefix("spec.a: "),
        "field": "spec.a",
    }


def test_a_finding_without_a_place_has_no_field() -> None:
    error = field.internal("", "no idea")
    assert str(error) == "Internal error: no idea"
    assert "field" not in error.cause()


def test_a_finding_of_a_policy_begins_with_its_name() -> None:
    error = FieldError(type=ErrorType.FORBIDDEN, path=P, detail="no", origin="team/rule")
    assert str(error) == "spec.a: [team/rule] Forbidden: no"


def test_findings_are_told_once_in_the_order_found() -> None:
    found, more = Findings(), Findings()
    found.error(field.forbidden(P, "b"), field.forbidden(P, "a"), field.forbidden(P, "b"))
    found.warn("y", "x", "y")
    more.error(field.forbidden(P, "a"), field.forbidden(P, "c"))
    more.warn("x", "z")
    found.add(more)
    assert [e.detail for e in found.errors] == ["b", "a", "c"]
    assert found.warnings == ["y", "x", "z"]


# Values


SHOWN: dict[str, tuple[Any, str]] = {
    "text": ("a", '"a"'),
    "quotes": ('a"b', '"a\\"b"'),
    "a number": (2**70, str(2**70)),
    "a fraction": (0.5, "0.5"),
    "null": (None, "null"),
    "false": (False, "false"),
    "an object": ({"a": [1, None]}, '{"a":[1,null]}'),
    "a newline, which would forge a line": ("a\nb", '"a\\nb"'),
    "an escape sequence": ("\x1b[31m", '"\\u001b[31m"'),
    "a mark that reorders text": ("a\u202eb", '"a\\u202eb"'),
    "a mark that hides": ("a\u200bb", '"a\\u200bb"'),
    "a mark that hides, inside an object": ({"a": "\u202e"}, '{"a":"\\u202e"}'),
    "letters that are not ASCII stay": ("é世", '"é世"'),
    "half of a pair": ("\ud800", '"?"'),
    "a huge number": (10**400, "(a number of 1329 bits)"),
    "what is no JSON": (object(), "(object)"),
}


@pytest.mark.parametrize("rule", SHOWN)
def test_values_are_shown(rule: str) -> None:
    value, text = SHOWN[rule]
    assert field.show(value) == text


def test_a_long_text_is_cut() -> None:
    assert field.show("a" * LONGEST_VALUE) == f'"{"a" * LONGEST_VALUE}"'
    assert field.show("a" * (LONGEST_VALUE + 1)) == f'"{"a" * LONGEST_VALUE}..."'


WIDE = st.recursive(
    TREES | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=300), inner, max_size=9)
    ),
    max_leaves=20,
)


@given(WIDE)
def test_whatever_is_shown_is_short_and_can_be_printed(value: Any) -> None:
    text = field.show(value)
    assert text.isprintable()
    # What is escaped takes six characters for one, at most.
    assert len(text) <= 6 * LONGEST_VALUE + 5


def test_a_megabyte_costs_nothing() -> None:
    huge = {"a" * 100000: [{"b": "x" * 1000000}] * 1000}
    assert len(field.show(huge)) <= LONGEST_VALUE + 3


@given(st.text())
def test_what_is_escaped_can_be_printed(text: str) -> None:
    assert field.escape(text).isprintable()
