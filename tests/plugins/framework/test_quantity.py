"""Quantities against what Go answers, against exact fractions, and against hostile texts."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import quantity
from plugins.framework.field import Path as FieldPath
from plugins.framework.quantity import (
    BINARY_SI,
    CACHED,
    DECIMAL_EXPONENT,
    DECIMAL_SI,
    LONGEST,
    MILLI,
    NANO,
    Quantity,
    QuantityError,
    add,
    canonical,
    cmp,
    fits_int64,
    milli_value,
    mul,
    parse,
    round_up_milli,
    value,
)
from tests.hangs import no_hang

DATA = Path(__file__).parents[2] / "data" / "vectors"
FORMATS = {"DecimalSI": DECIMAL_SI, "BinarySI": BINARY_SI, "DecimalExponent": DECIMAL_EXPONENT}

# Legal for the CRD and for Go, and still refused: exponents of three digits or more. In Go the second is 1,
# because the exponent is cut to 32 bits.
LONG_EXPONENTS = {"1e100", "1e4294967296"}
# Go has no suffix above E and drops it, and 21 zeros with it; ours stays true.
GO_DROPS_THE_SUFFIX = {
    "1000E": "1000E",
    "10000E": "10000E",
    "100000000000000000000k": "100000E",
    "500E + 500E": "1000E",
    "100E x 20": "2000E",
}
# Go's Value() answers +1: a fault of its slow path with negatives.
GO_VALUE_FAULTS = {"-0.1n"}
# The pattern that controller-gen writes for a quantity.
CRD_PATTERN = re.compile(
    r"(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?"
)


def load(name: str) -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = json.loads((DATA / name).read_text("utf-8"))["vectors"]
    return vectors


TEXTS = load("quantity-vectors.json")
SUMS = load("quantity-sum-vectors.json")


@pytest.mark.parametrize("vector", TEXTS, ids=lambda v: repr(v["input"]))
def test_a_text_is_read_as_the_crd_and_go_agree_on(vector: dict[str, Any]) -> None:
    text = vector["input"]
    if not (vector["ok"] and vector["crdPattern"]) or text in LONG_EXPONENTS:
        with pytest.raises(QuantityError):
            parse(text)
        return
    read = parse(text)
    assert read == Quantity(int(vector["nano"]), FORMATS[vector["format"]])
    assert canonical(read) == GO_DROPS_THE_SUFFIX.get(text, vector["canonical"])
    rounded = canonical(round_up_milli(read))
    assert rounded == GO_DROPS_THE_SUFFIX.get(text, vector["milliCeil"])
    views = vector.get("int64")
    if views and text not in GO_VALUE_FAULTS:
        assert (value(read), milli_value(read)) == (views["value"], views["milliValue"])


def operation(vector: dict[str, Any]) -> str:
    if vector["op"] == "mul":
        return f"{vector['operands'][0]} x {vector['factor']}"
    return {"add": " + ", "sub": " - "}.get(vector["op"], f" {vector['op']} ").join(
        vector["operands"]
    )


@pytest.mark.parametrize("vector", SUMS, ids=operation)
def test_arithmetic_is_that_of_go(vector: dict[str, Any]) -> None:
    first, *rest = (parse(text) for text in vector["operands"])
    result = first
    match vector["op"]:
        case "cmp":
            assert cmp(first, rest[0]) == vector["cmp"]
            return
        case "mul":
            result = mul(first, vector["factor"])
        case "roundUpMilli":
            result = round_up_milli(first)
        case "max":
            result = max(first, *rest, key=lambda q: q.nano)
        case name:
            for operand in rest:
                result = add(result, operand if name == "add" else mul(operand, -1))
    assert result == Quantity(int(vector["nano"]), FORMATS[vector["format"]])
    assert canonical(result) == GO_DROPS_THE_SUFFIX.get(operation(vector), vector["result"])


def test_the_vectors_are_all_there() -> None:
    assert (len(TEXTS), len(SUMS)) == (225, 119)
    known = {vector["input"] for vector in TEXTS} | {operation(vector) for vector in SUMS}
    assert known >= LONG_EXPONENTS | GO_DROPS_THE_SUFFIX.keys() | GO_VALUE_FAULTS


@pytest.mark.parametrize(
    ("number", "text"), [(4, "4"), (0, "0"), (-2, "-2"), (1073741824, "1073741824")]
)
def test_a_json_integer_reads_as_its_digits(number: int, text: str) -> None:
    assert parse(number) == parse(text)


@pytest.mark.parametrize("wrong", [None, True, False, 1.5, 1.0, [], ["1"], {}, b"1", 10**LONGEST])
def test_other_types_are_refused(wrong: object) -> None:
    with pytest.raises(QuantityError, match="must "):
        parse(wrong)


def test_a_bool_is_refused_after_its_integer_was_read() -> None:
    parse(1)
    with pytest.raises(QuantityError):
        parse(True)


REFUSED = {
    "kilo is a small k": "1K",
    "a byte is no unit": "10GB",
    "capital i": "10GI",
    "a space within": "10 Gi",
    "a space after": "1 ",
    "a newline after": "1\n",
    "a newline before": "\n1",
    "a null byte": "1\0",
    "grouped digits": "1_000",
    "not a number": "NaN",
    "nothing": "",
    "only a suffix": "Gi",
    "only a dot": ".",
    "only a sign": "+",
    "digits of another script": "٣",
    "superscript digits": "1e²",
    "a fraction in the exponent": "1e3.5",
    "a lone surrogate": "\ud800",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_a_refusal_names_the_value_and_what_would_be_right(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith("invalid quantity ")
    assert ": must be a number" in message
    assert message.isprintable()
    message.encode()


HOSTILE = {
    "exponent of ten digits": "1e1000000000",
    "exponent beyond 32 bits": "7E9999999999999",
    "exponent of six digits": "1e400000",
    "negative exponent": "1e-99999",
    "100,000 zeros": "0." + "0" * 100_000 + "1",
    "a million digits": "9" * 1_000_000,
    "a million digits and a letter": "9" * 1_000_000 + "x",
    "a million signs": "+" * 1_000_000,
    "an integer of a million bits": 1 << 1_000_000,
    "a large object": {str(i): i for i in range(100_000)},
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_values_are_refused_at_once_and_quoted_briefly(hostile: object) -> None:
    with no_hang(), pytest.raises(QuantityError) as caught:
        parse(hostile)
    message = str(caught.value)
    assert len(message) < 300
    assert len(str(caught.value.value)) <= LONGEST + len("...")


def test_the_longest_texts_are_read_exactly() -> None:
    assert parse("9" * LONGEST).nano == int("9" * LONGEST) * NANO
    assert parse("0." + "0" * (LONGEST - 3) + "1").nano == 1
    assert parse("9e99").nano == 9 * 10**108
    assert parse("9e-99").nano == 1
    assert canonical(parse("9" * (LONGEST - 3) + "e99")).endswith("e99")


def test_the_cache_is_bounded_and_keeps_no_long_key() -> None:
    for i in range(2 * CACHED):
        parse(f"{i}m")
    info = quantity._parse_text.cache_info()
    assert info.currsize == CACHED
    before = info.currsize
    with pytest.raises(QuantityError):
        parse("1" * (LONGEST + 1))
    assert quantity._parse_text.cache_info().currsize == before


def test_an_error_can_be_placed() -> None:
    error = QuantityError("1K", "must be 1k").under(FieldPath("limits").key("nvidia.com/gpu"))
    error = error.under(FieldPath("containers", 0, "resources"))
    assert str(error.field) == "containers[0].resources.limits[nvidia.com/gpu]"
    assert str(error) == 'invalid quantity "1K": must be 1k'


FITS = {
    "the largest int64": ("memory", "9223372036854775807", True),
    "one more": ("memory", "9223372036854775808", False),
    "a fraction more": ("memory", "9223372036854775807.1", False),
    "binary text is capped, and fits": ("memory", "8Ei", True),
    "cpu counts in milli": ("cpu", "9223372036854775807m", True),
    "one milli more": ("cpu", "9223372036854775808m", False),
    "cpu in units": ("cpu", "9223372036854776", False),
    "the same number of devices": ("nvidia.com/gpu", "9223372036854776", True),
    "where Go loses the suffix": ("memory", "1000E", False),
    "negative": ("memory", "-9223372036854775808", False),
}


@pytest.mark.parametrize(("name", "text", "fits"), FITS.values(), ids=FITS.keys())
def test_totals_must_fit_what_schedulers_hold(name: str, text: str, *, fits: bool) -> None:
    assert fits_int64(name, parse(text)) is fits


quantities = st.builds(
    Quantity,
    st.one_of(
        st.integers(-(10**40), 10**40),
        st.builds(lambda n, e: n * 10**e, st.integers(-2000, 2000), st.integers(0, 36)),
        st.builds(lambda n, e: n * NANO << e, st.integers(-2000, 2000), st.integers(0, 70)),
    ),
    st.sampled_from([DECIMAL_SI, BINARY_SI, DECIMAL_EXPONENT]),
)
texts = st.from_regex(CRD_PATTERN, fullmatch=True, alphabet=st.characters(codec="ascii"))


def fits_the_grammar(q: Quantity) -> bool:
    return not (q.fmt == BINARY_SI and value(q) % 1024 == 0 and abs(q.nano) >= 2**63 * NANO)


@given(quantities.filter(fits_the_grammar))
def test_canonical_text_reads_back_as_the_same_value(q: Quantity) -> None:
    text = canonical(q)
    again = parse(text)
    assert again.nano == q.nano
    if q.fmt == DECIMAL_SI:  # text without suffix or exponent does not tell the other two formats
        assert again == q


@given(texts)
def test_reading_is_exact_up_to_rounding_away_from_zero(text: str) -> None:
    match = re.fullmatch(r"([+-]?)([0-9.]+)(?:([eE])([+-]?[0-9]{1,2})|([A-Za-z]*))", text)
    if match is None or len(text) > LONGEST:  # a long exponent, or one with a fraction
        with pytest.raises(QuantityError):
            parse(text)
        return
    sign, number, _, exponent, suffix = match.groups()
    power = Fraction(10) ** int(exponent or 0)
    if suffix and suffix.endswith("i"):
        power = Fraction(1024) ** ("KMGTPE".index(suffix[0]) + 1)
    elif suffix:
        power = Fraction(10) ** (
            3 * ("num".find(suffix) - 3) if suffix in "num" else 3 * ("kMGTPE".index(suffix) + 1)
        )
    magnitude = math.ceil(Fraction("0" + number if number[0] == "." else number) * power * NANO)
    if suffix and suffix.endswith("i"):
        magnitude = min(magnitude, (2**63 - 1) * NANO)
    assert parse(text).nano == (-magnitude if sign == "-" else magnitude)


@given(st.text("0123456789+-.eEinumkKMGTPE ", max_size=8))
def test_accepted_is_what_the_crd_accepts_with_a_short_whole_exponent(text: str) -> None:
    expected = CRD_PATTERN.fullmatch(text) and not re.search(r"[eE].*\.|[eE][+-]?[0-9]{3}", text)
    try:
        parse(text)
    except QuantityError:
        assert not expected
    else:
        assert expected


@given(texts.filter(lambda text: len(text) <= LONGEST))
def test_the_caches_change_nothing(text: str) -> None:
    try:
        first = parse(text)
    except QuantityError:
        return
    assert parse(text) == first == quantity._parse_text.__wrapped__(text)
    assert canonical(first) == canonical(first) == quantity._canonical.__wrapped__(first)


@given(quantities, quantities, quantities)
def test_sums_do_not_depend_on_order_by_value(a: Quantity, b: Quantity, c: Quantity) -> None:
    assert add(a, b).nano == add(b, a).nano
    assert add(add(a, b), c).nano == add(a, add(b, c)).nano
    assert add(add(a, b), mul(b, -1)).nano == a.nano
    assert mul(a, 3).nano == add(add(a, a), a).nano


@given(quantities, quantities)
def test_the_left_format_stays_unless_its_value_is_zero(a: Quantity, b: Quantity) -> None:
    expected = a.fmt if a.nano else b.fmt
    assert add(a, b).fmt == add(a, mul(b, -1)).fmt == expected


@given(quantities)
def test_rounding_goes_away_from_zero_by_less_than_one_step(q: Quantity) -> None:
    rounded = round_up_milli(q)
    assert rounded.fmt == q.fmt
    assert rounded.nano % MILLI == 0
    assert 0 <= abs(rounded.nano) - abs(q.nano) < MILLI
    assert round_up_milli(rounded) == rounded
    assert milli_value(q) * MILLI == rounded.nano
    assert 0 <= abs(value(q)) * NANO - abs(q.nano) < NANO
