from __future__ import annotations

import re
from pathlib import Path

import pytest

from policies import cel
from policies.cel.library import functions
from policies.cel.library.maps import OURS
from policies.cel.library.regex import silent
from tests.policies.cel.examples import EXAMPLES, MISSING
from tests.policies.cel.shim import refused, value

PAGE = Path(__file__).parents[3] / "docs/policies/cel.md"
CASES = [
    pytest.param(text, id=f"{library}: {text}")
    for library, names in EXAMPLES.items()
    for texts in names.values()
    for text in texts
]


@pytest.mark.parametrize("text", CASES)
def test_examples_are_true(text: str) -> None:
    assert value(text, wants="bool") is True


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_does_not_compile(name: str) -> None:
    assert refused(MISSING[name])


def test_the_page_lists_what_there_is() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([a-zA-Z -]+?) \| (`.*`) \|", text, re.MULTILINE))
    listed = {library: set(re.findall(r"`([^`]+)`", names)) for library, names in rows.items()}
    assert listed == {
        **{library: set(names) for library, names in EXAMPLES.items()},
        "missing": set(MISSING),
    }


def test_every_function_of_ours_has_an_example() -> None:
    shown = {name.partition(" ")[0] for names in EXAMPLES.values() for name in names}
    assert {function.name for function in functions()} - shown == {"string", OURS} - shown


ERRORS = {
    "quantity('x' + '') == quantity('1')": "must be a number",
    "quantity('1m').asInteger() > 0": "cannot convert value to integer",
    "semver('1' + '') == semver('1.0.0')": "must be major.minor.patch",
    "ip('x' + '') == ip('::1')": "does not appear to be an IPv4 or IPv6 address",
    "cidr('10.0.0.0' + '') == cidr('10.0.0.0/8')": "must be as 10.0.0.0/8",
    "url('x y' + '') == url('/')": "has a space",
    "[].min() == 1": "min() of an empty list",
    "[9223372036854775807, 1].sum() > 0": "sum() overflows",
    "[dyn(1), dyn('a')].isSorted()": "all of one type",
    "[dyn(1), dyn('a')].sum() == 1": "all of one type",
    "[dyn(quantity('1')), dyn(semver('1.0.0'))][0].isLessThan(dyn(semver('1.0.0')))": "no such overload",
    "dyn(semver('1.0.0')).asInteger() > 0": "no such overload",
    "dyn(quantity('1')).major() > 0": "no such overload",
    "dyn(quantity('1')).getHost() == ''": "no such overload",
    "dyn(quantity('1')).family() == 4": "no such overload",
    "dyn(ip('::1')).prefixLength() == 4": "no such overload",
    "dyn(quantity('1')).validate('a').hasValue()": "no such overload",
    "string(dyn(quantity('1'))) == '1'": "no such overload",
    "{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k}) == {}": "already exists",
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_values_with_words(text: str) -> None:
    answer = value(text, wants="bool")
    assert isinstance(answer, cel.EvaluationError)
    assert ERRORS[text] in answer.message
    assert answer.reason == "error"


@pytest.mark.parametrize(
    ("pattern", "want"),
    [
        ("(a)(b)", "(?:a)(?:b)"),
        (r"\(a\)", r"\(a\)"),
        ("[(](a)", "[(](?:a)"),
        ("[]()](a)", "[]()](?:a)"),
        ("[^]()](a)", "[^]()](?:a)"),
        ("[[:alpha:](](a)", "[[:alpha:](](?:a)"),
        (r"\Q(a)\E(b)", r"\Q(a)\E(?:b)"),
        (r"\Q(a)", r"\Q(a)"),
        ("(?P<x>a)(?<y>b)(?i:c)(?:d)", "(?:a)(?:b)(?i:c)(?:d)"),
    ],
)
def test_groups_of_a_pattern_are_made_silent(pattern: str, want: str) -> None:
    assert silent(pattern) == want
