"""What is hostile is refused, or runs where it can be stopped, or ends by itself with an answer.

tests/webhook/test_workers.py runs the same expressions in workers.
"""

from __future__ import annotations

import pytest

from plugins.framework.field import FieldError
from policies import cel
from policies.document import Expression
from tests.policies.cel.hostile import EXPRESSIONS, data
from tests.policies.cel.shim import PATH, compiled, value


def _compiled(name: str) -> cel.Program | list[FieldError]:
    return cel.compile(Expression(EXPRESSIONS[name], PATH), wants="any", variables={})


def test_there_are_enough_of_them() -> None:
    assert len(EXPRESSIONS) >= 80


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_what_is_not_risky_ends_in_process(name: str) -> None:
    made = _compiled(name)
    if isinstance(made, cel.Program) and not made.is_risky:
        made.evaluate(cel.Activation(data(), reads=made.reads))
    else:
        assert isinstance(made, list) or made.risks


OUTCOMES = {
    "refused": (
        "10,000 brackets",
        "2,000 brackets",
        "20,000 terms",
        "a list of a computed length",
        "a regex that is computed",
        "chained optMap, which doubles while it is parsed",
        "an optional behind a map",
        "an optional behind dyn",
        "an optional in a function of ours",
        "an optional in a list of another type",
        "an optional in an optional",
        "an optional as a variable of a loop",
        "half a surrogate pair",
        "a NUL in the expression",
        "a message",
    ),
    "risky": (
        "a text that doubles in a chain of map",
        "a text that doubles in a chain of bind",
        "a text that doubles in a few binds",
        "a text that grows by replace",
        "a text that grows by join",
        "a text that grows by format",
        "a format of nine digits",
        "a list that doubles",
        "a list of lists that doubles",
        "a list of lists that doubles in a chain of map",
        "maps that double",
        "a regex over a megabyte, for each step",
        "objects compared in a loop",
        "size in a loop",
        "sums in a loop",
        "distinct over a long list",
    ),
}


@pytest.mark.parametrize("name", OUTCOMES["refused"])
def test_refused(name: str) -> None:
    assert isinstance(_compiled(name), list)


@pytest.mark.parametrize("name", OUTCOMES["risky"])
def test_risky(name: str) -> None:
    made = _compiled(name)
    assert isinstance(made, cel.Program)
    assert made.is_risky


RISKS = {
    # What most policies are made of runs in process.
    "totals.requests[?'nvidia.com/gpu'].orValue(0) > 0": (),
    "podSets.all(p, !p.spec.?hostNetwork.orValue(false))": (),
    "'host network is not allowed for team ' + object.metadata.labels.team": (),
    "podSets.all(p, p.spec.containers.all(c, c.image.startsWith('registry.example.com/')))": (),
    "podSets.all(p, p.spec.containers.all(c, c.image.contains('@sha256:')))": (),
    "podSets.all(p, p.spec.containers.all(c, c.?env.orValue([]).all(e, e.name != 'LD_PRELOAD')))": (),
    "podSets.map(p, p.count).sum() <= 10": (),
    "podSets.exists(p, p.name in ['node', 'launcher'])": (),
    "object.metadata.labels.all(k, k.startsWith('a/'))": (),
    "quantity(totals.requests.memory).isLessThan(quantity('1Ti'))": (),
    "oldObject == null || object.spec == oldObject.spec": (),
    "request.userInfo.groups.exists(g, g in params.groups)": (
        "in() in a loop, of something that is no part of the item",
    ),
    "cel.bind(t, object.spec.trainer, t.numNodes > 1 && t.image != '')": (),
    "podSets.all(p, cel.bind(s, p.spec, s.containers.all(c, c.image.contains('x'))))": (),
    "podSets.map(p, {'name': p.name, 'count': p.count})": (),
    "cel.bind(a, totals.nodes + 1, [a, a, a])": (),
    # And what may take long does not.
    "object.metadata.name.matches('^a')": ("a regular expression (matches)",),
    "object.metadata.name.find('a') == ''": ("a regular expression (find)",),
    "'%s'.format([object]) == ''": ("format(), which can make a text or list many times as long",),
    "podSets.map(p, p.name + '-x')": ("+ in a loop",),
    "podSets.map(p, p.count + 1)": (),
    "podSets.all(p, podSets.all(q, p.spec == q.spec))": (
        "a comparison of whole objects in a loop",
    ),
    "podSets.all(p, podSets.all(q, p.name == q.name))": (),
    "podSets.all(p, object.metadata.name.contains(p.name))": (
        "contains() in a loop, of something that is no part of the item",
    ),
    "podSets.all(p, podSets.all(q, q.name.contains('a')))": (
        "contains() in a loop, of something that is no part of the item",
    ),
    "podSets.all(p, podSets.all(q, size(p.spec.containers) > 0))": (
        "size() in a loop, of something that is no part of the item",
    ),
    "cel.bind(a, object.metadata.labels.a + 'x', a + a) == ''": ("+ on what was computed before",),
    "cel.bind(a, [params.x], [a, a]) == []": (
        "a list or map that holds what was computed more than once",
    ),
    "cel.bind(a, [params.x], cel.bind(b, a, {'x': a, 'y': b})) == {}": (
        "a list or map that holds what was computed more than once",
    ),
    "[1].map(a, [a]).map(b, [b, b]) == []": (
        "a list or map that holds what was computed more than once",
    ),
    "cel.bind(a, [1], [a, a]) == []": (),
    "podSets.all(p, podSets.all(q, object.metadata.name == params.name))": (
        "a comparison of whole objects in a loop",
    ),
    "cel.bind(a, object.metadata.name.lowerAscii(), podSets.all(p, a.contains('x')))": (
        "contains() in a loop, of something that is no part of the item",
    ),
    "sets.contains(params.a, ['b'])": (),
    "sets.contains(params.a, params.b)": ("sets.contains() of two lists of any length",),
    "object.metadata.annotations.transformMap(k, v, v) == {}": (
        "transformMap(), which takes long for long lists",
    ),
    " + ".join(["params.a"] * 20): (),
    "podSets.all(p, " + " && ".join(["quantity(p.name).isInteger()"] * 3) + ")": (
        "more than 4 functions of Kubernetes' libraries in loops",
    ),
    " && ".join(["size(params.a) > 0"] * 65): (
        "more than 64 functions over whole texts or lists",
        "more than 64 mentions of whole lists or maps",
    ),
}


@pytest.mark.parametrize("text", RISKS)
def test_what_is_a_risk(text: str) -> None:
    assert compiled(text).risks == RISKS[text]


def test_more_joins_than_are_allowed() -> None:
    lists = "+".join(f"[{i}]" for i in range(16))
    assert compiled(lists).risks == ()
    many = f"[{lists}, {lists}, {lists}]"
    assert compiled(many).risks == ("more than 32 times + on texts or lists",)


def test_an_error_of_a_hostile_value_names_it() -> None:
    assert value(EXPRESSIONS["a whole number that is too large"], data()) == cel.EvaluationError(
        "params has a whole number beyond 64 bits", "data"
    )
