"""What the engine gets wrong, and the shim does not (the faults of cel-expr-python 0.1.3, one by one), and the rest."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from policies import cel
from policies.cel.values import MOST_LEVELS
from tests.policies.cel.shim import compiled, value

JOB: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"team": "vision"}},
    "spec": {"trainer": {"numNodes": 4, "args": ["a", "b"]}, "suspend": False},
    "status": None,
}


def evaluated(text: str, **data: Any) -> Any:
    return value(text, data)


# 1. A null result drops a reference of None.


NULLS = """
import sys
from plugins.framework.field import Path
from policies import cel
from policies.document import Expression

programs = [cel.compile(Expression(text, Path()), wants="any") for text in (
    "null", "[null, [null]]", "{'a': null, 'b': {'c': [null]}}", "object.status", "object",
)]
nothing = cel.compile(Expression("null", Path()), wants="any")
nulls = cel.compile(Expression("[null, {'a': null}]", Path()), wants="any")
reads = {"n": nothing, "l": nulls}
programs += [cel.compile(Expression(text, Path()), wants="any", variables=reads)
             for text in ("variables.n", "variables.l", "[null].indexOf(null)")]
data = {"object": {"status": None, "list": [None, {"x": None}]}}

def run(times):
    for _ in range(times):
        for program in programs:
            program.evaluate(cel.Activation(data).scoped(reads))

run(10)
before = sys.getrefcount(None)
run(3000)
print(sys.getrefcount(None) - before)
"""


def test_null_results_leave_none_alone() -> None:
    run = subprocess.run(
        [sys.executable, "-c", NULLS], check=False, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    # 24,000 evaluations, all with nulls in them; from 3.12 on None has no count.
    assert abs(int(run.stdout)) < 1000


# 2. Texts are cut at NUL.


@pytest.mark.parametrize(
    "job",
    [
        {"metadata": {"name": "ab\0cd"}},
        {"metadata": {"name": "ab", "labels": {"a\0b": "c"}}},
        {"metadata": {"name": "ab", "annotations": {"x": ["\0"]}}},
    ],
)
def test_a_nul_in_what_is_read_fails_closed(job: dict[str, Any]) -> None:
    assert evaluated("object.metadata == object.metadata", object=job) == cel.EvaluationError(
        "object has a text with a NUL character", "data"
    )


def test_a_nul_in_what_is_not_read_harms_nothing() -> None:
    job = {"metadata": {"name": "ab", "labels": {"x": "\0"}}}
    assert evaluated("object.metadata.name == 'ab'", object=job, params="\0") is True


def test_the_six_characters_that_write_a_nul_are_none() -> None:
    assert (
        evaluated("object.metadata.name", object={"metadata": {"name": "a\\u0000b"}}) == "a\\u0000b"
    )


@pytest.mark.parametrize(
    "text", ["string(b'a\\x00b')", "[string(b'a\\x00b')]", "{string(b'\\x00'): 1}"]
)
def test_a_nul_in_a_result_is_an_error(text: str) -> None:
    assert evaluated(text) == cel.EvaluationError(
        "the result has a text with a NUL character", "data"
    )


def test_a_nul_does_not_get_lost_in_a_variable_or_a_function_of_ours() -> None:
    for text in ("string(b'a\\x00b')", "b'a\\x00b'"):
        variables = {"x": compiled(text)}
        program = compiled("variables.x == variables.x", variables=variables)
        answer = program.evaluate(cel.Activation({}).scoped(variables))
        assert isinstance(answer, cel.EvaluationError)
        assert "NUL" in answer.message
    answer = evaluated("string(b'a\\x00b').find('a.b')")
    assert answer == cel.EvaluationError("a text with a NUL character") or answer == ""


# 3. Errors arrive on two channels.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("object.spec.trainer.image == ''", 'Key not found in map : "image"'),
        ("1 / (object.spec.trainer.numNodes - 4) == 1", "divide by zero"),
        ("params + 1 == 1", "No matching overloads found : _+_(string, int64)"),
        ("params.a", "Applying SELECT to non-message type"),
        ("runtime.kind == ''", 'No value with name "runtime" found in Activation'),
        ("[1, 2, 3].all(x, x / 0 > 1)", "divide by zero"),
    ],
)
def test_an_error_is_a_value_and_never_true(text: str, message: str) -> None:
    assert evaluated(text, object=JOB, params="a") == cel.EvaluationError(message)


def test_the_budget_of_loops_is_an_error_with_words() -> None:
    text = "params.all(a, params.all(b, a >= 0))"
    assert evaluated(text, params=list(range(99))) is True
    assert evaluated(text, params=list(range(101))) == cel.EvaluationError(
        "took more than 10000 steps of its loops", "limit"
    )


@pytest.mark.parametrize("answer", [1, "true", None, [True], 1.0])
def test_only_true_is_true(answer: Any) -> None:
    program = compiled("params", "bool")
    found = program.evaluate(cel.Activation({"params": answer}))
    assert isinstance(found, cel.EvaluationError)
    assert found.reason == "type"
    assert found.message.startswith("must be true or false, is of type ")


# 4. Parameters of type dyn of Python functions: see the examples of lists.


def test_functions_of_ours_take_what_has_no_static_type() -> None:
    assert evaluated("params.sum() + params.indexOf(3)", params=[1, 2, 3]) == 8
    assert evaluated("quantity(params).asInteger()", params="1k") == 1000
    assert evaluated("quantity(params).asInteger()", params=8) == 8


# 5. Only plain JSON converts; whole numbers beyond 64 bits; lone surrogates.


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (2**63, "params has a whole number beyond 64 bits"),
        (-(2**63) - 1, "params has a whole number beyond 64 bits"),
        ([2**70], "params has a whole number beyond 64 bits"),
        ("\ud800", "params has a text with half of a surrogate pair"),
        ({"a": ["\udfff"]}, "params has a text with half of a surrogate pair"),
        ({"\ud800": 1}, "params has a text with half of a surrogate pair"),
        ({"a": object()}, "params has a value that is no JSON (object)"),
        ({"a": {1, 2}}, "params has a value that is no JSON (set)"),
    ],
)
def test_data_that_cannot_be_given_to_the_engine_is_named(params: Any, message: str) -> None:
    assert evaluated("params == params", params=params) == cel.EvaluationError(message, "data")


def test_nesting_without_end_is_named() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    try:
        answer = evaluated("params == params", params=deep)
    finally:
        # Freeing a nest level by level, since Python does it by recursion.
        while type(deep) is list:
            deep = deep.pop()
    assert answer == cel.EvaluationError("params is nested too deeply", "data")


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 1234567890123456789012345 // 10**6])
def test_long_whole_numbers_that_fit_are_what_they_are(number: int) -> None:
    assert evaluated("params", params=number) == number


# 6. transformMap and optional results: see the examples, and test_compiling.
# 7. The order of maps differs from process to process.

ORDERS = """
from plugins.framework.field import Path
from policies import cel
from policies.document import Expression

data = {"object": {"metadata": {"labels": {f"k{i}": str(i) for i in range(40)}}}, "params": {f"p{i}": i for i in range(40)}}
for text in (
    "object.metadata.labels.map(k, k)",
    "object.metadata.labels.filter(k, k != 'k1')",
    "object.metadata.labels.transformList(k, v, k + v)",
    "object.metadata.labels.transformList(k, v, k > 'k2', v)",
    "params.map(k, k).join(',')",
    "params.transformList(k, v, v)",
    "params.map(k, params.map(j, j)[0])",
    "params.all(k, int(k) > 0)",
    "params",
    "object.metadata.labels.transformMap(k, v, v + v)",
    "string(params.map(k, k)[0])",
):
    program = cel.compile(Expression(text, Path()), wants="any")
    print(text, program.evaluate(cel.Activation(data)))
"""


def test_every_process_iterates_maps_in_the_order_of_the_keys() -> None:
    outs = {
        subprocess.run(
            [sys.executable, "-c", ORDERS], check=True, capture_output=True, text=True, timeout=300
        ).stdout
        for _ in range(4)
    }
    assert len(outs) == 1
    assert "['k0', 'k1', 'k10', 'k11'," in outs.pop()


def test_maps_in_results_are_sorted() -> None:
    assert list(evaluated("{'b': 1, 'a': {'d': 1, 'c': 2}}").items()) == [
        ("a", {"c": 2, "d": 1}),
        ("b", 1),
    ]


# 8. Literals of two kinds of numbers.


@pytest.mark.parametrize(
    "text", ["1 < 2.5", "2.5 > 1", "1 == 1.0", "object.spec.trainer.numNodes < 4.5"]
)
def test_an_int_and_a_double_compare(text: str) -> None:
    assert evaluated(text, object=JOB) is True


# Ten and more that the note on the engine does not have.


def test_an_optional_never_reaches_a_function_of_ours() -> None:
    # It would be a segmentation fault; what is refused is in test_hostile.
    text = "podSets.map(p, p.requests[?'x'].orValue(0)).sum()"
    assert evaluated(text, podSets=[{"requests": {"x": 2}}, {"requests": {}}]) == 2


# The rest: results.


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("true", True),
        ("1", 1),
        ("1u", 1),
        ("18446744073709551615u", 2**64 - 1),
        ("1.0", 1.0),
        ("'é'", "é"),
        ("b'abc'", "YWJj"),
        ("null", None),
        ("[null, {'a': null}]", [None, {"a": None}]),
        ("{1: 2, 3u: 4}", {"1": 2, "3": 4}),
        ("{true: 1}", {"true": 1}),
        ("timestamp('2020-01-01T00:00:00.5Z')", "2020-01-01T00:00:00.500000Z"),
        ("duration('-90.5s')", "-90.5s"),
        ("duration('1h')", "3600s"),
        ("quantity('1500m')", "1500m"),
        ("quantity('1Gi')", "1073741824"),
        ("ip('::1')", "::1"),
        ("url('https://a.b/c')", "https://a.b/c"),
        ("semver('1.2.3')", "1.2.3"),
        ("object.metadata.labels", {"team": "vision"}),
    ],
)
def test_results_are_plain_json(text: str, want: Any) -> None:
    answer = evaluated(text, object=JOB)
    assert answer == want
    assert type(answer) is type(want)


def test_results_that_json_lacks_are_errors() -> None:
    assert evaluated("0.0 / 0.0") == cel.EvaluationError(
        "the result has a number that JSON lacks: nan", "type"
    )


def test_results_are_bounded() -> None:
    many = evaluated("params.map(a, params.map(b, params))", params=list(range(99)))
    assert isinstance(many, cel.EvaluationError)
    assert many.reason == "limit"
    deep: Any = 1
    for _ in range(MOST_LEVELS + 1):
        deep = [deep]
    assert evaluated("params", params=deep) == cel.EvaluationError(
        f"the result is nested deeper than {MOST_LEVELS} levels", "limit"
    )
    assert evaluated("params", params=deep[0]) == deep[0]


# Variables.


def _scoped(texts: dict[str, str]) -> dict[str, cel.Program]:
    variables: dict[str, cel.Program] = {}
    for name, text in texts.items():
        variables[name] = compiled(text, variables=variables)
    return variables


def test_variables_read_earlier_ones_and_keep_their_types() -> None:
    variables = _scoped(
        {
            "a": "object.spec.trainer.numNodes",
            "b": "variables.a * 2",
            "q": "quantity('1Gi')",
            "t": "timestamp('2020-01-01T00:00:00Z')",
            "d": "duration('1s')",
            "y": "b'a'",
        }
    )
    activation = cel.Activation({"object": JOB}).scoped(variables)
    for text, want in {
        "variables.b + variables.a": 12,
        "variables.q.isGreaterThan(quantity('1Mi'))": True,
        "variables.t + variables.d": "2020-01-01T00:00:01Z",
        "variables.y == b'a'": True,
    }.items():
        assert compiled(text, variables=variables).evaluate(activation) == want


def test_an_error_of_a_variable_is_told_where_it_is_read_and_only_there() -> None:
    variables = _scoped({"bad": "1 / (totals.nodes - 4)", "worse": "variables.bad + 1"})
    activation = cel.Activation({"totals": {"nodes": 4}}).scoped(variables)
    for text, want in {
        "variables.bad": cel.EvaluationError("variables.bad: divide by zero"),
        "variables.worse": cel.EvaluationError("variables.bad: divide by zero"),
        "true || variables.bad == 1": True,
        "false && variables.bad == 1": False,
        "totals.pods + variables.bad": cel.EvaluationError('Key not found in map : "pods"'),
    }.items():
        assert compiled(text, variables=variables).evaluate(activation) == want


def test_a_variable_is_evaluated_once_and_only_if_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[str] = []
    original = cel.Program.native

    def counted(self: cel.Program, activation: cel.AnyActivation) -> Any:
        runs.append(self.text)
        return original(self, activation)

    monkeypatch.setattr(cel.Program, "native", counted)
    variables = _scoped({"a": "1", "b": "2"})
    activation = cel.Activation({}).scoped(variables)
    for text in ("variables.a == 1", "variables.a + 1 == 2", "1 == 1"):
        assert compiled(text, variables=variables).evaluate(activation) is True
    assert runs == ["1"]


# Cutting.


def test_data_is_cut_to_what_is_read_and_no_answer_changes() -> None:
    data = {
        "object": JOB,
        "podSets": [
            {"name": "node", "count": 2, "spec": {"containers": [{"image": "x"}], "volumes": []}}
        ],
        "params": {"big": list(range(100))},
    }
    program = compiled(
        "object.spec.trainer.numNodes > 1 && has(object.metadata.labels) && "
        "podSets.all(p, p.spec.containers.all(c, c.image == 'x'))"
    )
    activation = cel.Activation(data, reads=program.reads)
    assert activation.data == {
        "object": {"spec": {"trainer": {"numNodes": 4}}, "metadata": {"labels": {}}},
        "podSets": [{"spec": {"containers": [{"image": "x"}]}}],
    }
    assert program.evaluate(activation) is program.evaluate(cel.Activation(data)) is True


@pytest.mark.parametrize(
    ("given", "path", "want"),
    [
        ({"a": {"b": 1, "c": 2}}, ("a", "b"), {"a": {"b": 1}}),
        ({"a": {}}, ("a", "b"), {"a": {}}),
        ({}, ("a", "b"), {}),
        ({"a": 1}, ("a", "b"), {"a": 1}),
        ({"a": None}, ("a", "b"), {"a": None}),
        ({"a": [{"b": 1, "c": 2}, 3]}, ("a", "*", "b"), {"a": [{"b": 1}, 3]}),
        ({"a": {"x": {"b": 1, "c": 2}}}, ("a", "*", "b"), {"a": {"x": {"b": 1, "c": 2}}}),
        ({"a": [1, 2]}, ("a", "b"), {"a": [1, 2]}),
        ({"a": {"b": 1}}, ("a", "\0"), {"a": {}}),
        ({"a": [1]}, ("a", "\0"), {"a": []}),
        ({"a": None}, ("a", "\0"), {"a": None}),
    ],
)
def test_cut(given: Any, path: tuple[str, ...], want: Any) -> None:
    assert cel.cut_all(given, frozenset({path})) == want


# Questions.


def test_a_question_is_answered_by_path() -> None:
    question = cel.Question(
        policy="p",
        digest="1",
        variables=(("n", "object.spec.trainer.numNodes"),),
        expressions=(
            cel.Ask("a", "variables.n > 2", "bool"),
            cel.Ask("b", "variables.n + 'x'"),
            cel.Ask("c", "'a'", "bool"),
        ),
        data={"object": JOB},
    )
    answers = cel.ask(question)
    assert list(answers) == ["a", "b", "c"]
    assert answers["a"] is True
    assert answers["b"] == cel.EvaluationError(
        "does not compile: column 13: + does not take (int, string)"
    )
    assert answers["c"] == cel.EvaluationError(
        "does not compile: column 1: must give true or false (bool), and gives string"
    )


def test_a_variable_that_does_not_compile_is_the_answer_to_all() -> None:
    question = cel.Question(
        policy="p", digest="1", variables=(("n", "1 +"),), expressions=(cel.Ask("a", "1"),)
    )
    answer = cel.ask(question)["a"]
    assert isinstance(answer, cel.EvaluationError)
    assert answer.message.startswith("variables.n does not compile: column 4: Syntax error")


# Explaining.


def test_explain_shows_the_values_of_the_parts() -> None:
    text = (
        "object.spec.trainer.numNodes > 2 && podSets.all(p, p.count > 1) "
        "|| totals.requests[?'gpu'].orValue(0) + 1 < 100 || object.spec.trainer.image == ''"
    )
    program = compiled(text)
    data = {
        "object": JOB,
        "podSets": [{"count": 1}],
        "totals": {"requests": {"gpu": 8}},
    }
    assert {part.text: part.value for part in cel.explain(program, cel.Activation(data))} == {
        text: True,
        text.rpartition(" || ")[0]: True,
        "object.spec.trainer.numNodes > 2 && podSets.all(p, p.count > 1)": False,
        "object.spec.trainer.numNodes > 2": True,
        "object.spec.trainer.numNodes": 4,
        "podSets.all(p, p.count > 1)": False,
        "totals.requests[?'gpu'].orValue(0) + 1 < 100": True,
        "totals.requests[?'gpu'].orValue(0) + 1": 9,
        "totals.requests[?'gpu'].orValue(0)": 8,
        "object.spec.trainer.image == ''": cel.EvaluationError('Key not found in map : "image"'),
        "object.spec.trainer.image": cel.EvaluationError('Key not found in map : "image"'),
    }


def test_explain_knows_variables_and_our_functions() -> None:
    variables = _scoped({"team": "object.metadata.labels.team"})
    program = compiled(
        "format.dns1123Label().validate(variables.team).hasValue() || quantity('1').sign() > 1",
        variables=variables,
    )
    activation = cel.Activation({"object": JOB}).scoped(variables)
    parts = {part.text: part.value for part in cel.explain(program, activation)}
    assert parts["variables.team"] == "vision"
    assert parts["format.dns1123Label().validate(variables.team).hasValue()"] is False
    assert parts["quantity('1').sign()"] == 1
    assert parts["quantity('1')"] == "1"
