from __future__ import annotations

import pytest

from plugins.framework.field import Path
from policies import cel
from policies.document import Expression
from tests.policies.cel.shim import compiled, refused

TEAM = compiled("object.metadata.?labels.?team.orValue('none')")

REFUSED = {
    "object.spec.trainer.numNode > 3": 'column 20: object.spec.trainer has no field "numNode": did you mean "numNodes"?',
    "object.spec.trainr.numNodes > 3": 'column 12: object.spec has no field "trainr": did you mean "trainer"?',
    "oldObject.spec.suspended": 'column 15: oldObject.spec has no field "suspended": did you mean "suspend"?',
    "has(object.spec.suspendd)": 'column 4: object.spec has no field "suspendd": did you mean "suspend"?',
    "object.?spec.?suspendd.orValue(true)": 'object.?spec has no field "suspendd": did you mean "suspend"?',
    "podSets.all(p, p.spec.contaners.size() > 0)": 'column 22: p.spec has no field "contaners": did you mean "containers"?',
    "podSets.all(p, p.spec.containers.all(c, c.imag != ''))": 'c has no field "imag": did you mean "image"?',
    "podSets[0].nam": 'podSets[0] has no field "nam": did you mean "name"?',
    "totals.node > 1": 'totals has no field "node": did you mean "nodes"?',
    "request.userInfo.usrname": 'request.userInfo has no field "usrname": did you mean "username"?',
    "runtime.metdata.name": 'runtime has no field "metdata": did you mean "metadata"?',
    "namespaceObject.metadata.label": 'has no field "label": did you mean "labels"?',
    "podSet.size() > 0": 'column 1: "podSet" is neither a variable nor a function: did you mean "podSets"?',
    "quantiti('1') == quantity('1')": '"quantiti" is neither a variable nor a function: did you mean "quantity"?',
    "variables.tem": 'column 1: there is no variable "tem" before this expression: did you mean "variables.team"?',
    "variables.other": 'there is no variable "other" before this expression; it has: variables.team',
    "variables": "column 1: must name one of the policy's variables: variables.x",
    "variables['team']": "must name one of the policy's variables",
    "variables.team > 1": "column 16: > does not take (string, int)",
    "object.spec.trainer.numNodes <= 'a'": "column 30: <= does not take (int, string)",
    "object.spec.trainer.numNodes == null": "== does not take (int, null_type)",
    "object.metadata.labels.team + 1": "+ does not take (string, int)",
    "1 +": "column 4: Syntax error",
    "true &&\n  object.spc": 'line 2, column 9: object has no field "spc": did you mean "spec"?',
    "'a'.matches(object.metadata.name)": "the pattern of matches() must be a literal, not computed",
    "matches('a', object.metadata.name)": "the pattern of matches() must be a literal, not computed",
    "'a'.find('(')": "column 10: invalid regular expression: missing ): (",
    "'a\\u0000' == 'a'": "column 1: must not have a NUL character in a text",
    "kubernetes.Quantity{text: '1'}": "must not make messages, and kubernetes.Quantity is one",
    "object.?spec": "the result must not be, or hold, an optional: end with orValue(...)",
    "[object.?spec]": "the result must not be, or hold, an optional",
    "type(1)": "must give a value, and gives a type",
    "lists.range(object.spec.trainer.numNodes).size()": "lists.range() must have a literal",
    "": "must be an expression in CEL",
    " \n": "must be an expression in CEL",
    "'" + "x" * 5000 + "'": "may not be more than 4096 characters",
    "(" * 100 + "1" + ")" * 100: "is nested deeper than 32 levels",
    "optional.of(1)" + ".optMap(x, x)" * 30 + ".hasValue()": "must have fewer calls of optMap",
}


@pytest.mark.parametrize("text", REFUSED)
def test_mistakes_are_named_with_their_column(text: str) -> None:
    details = refused(text, variables={"team": TEAM})
    assert len(details) == 1
    assert REFUSED[text] in details[0]


def test_every_mistake_is_reported() -> None:
    assert refused("object.spc == 1 && totals.node > 1") == [
        'column 7: object has no field "spc": did you mean "spec"?',
        'column 26: totals has no field "node": did you mean "nodes"?',
    ]


@pytest.mark.parametrize(
    ("text", "wants", "want"),
    [
        ("'a'", "bool", "column 1: must give true or false (bool), and gives string"),
        ("1", "bool", "column 1: must give true or false (bool), and gives int"),
        ("true", "string", "column 1: must give a text (string), and gives bool"),
        (
            "object.spec.trainer",
            "string",
            "column 1: must give a text (string), and gives object.spec.trainer",
        ),
        (
            "quantity('1')",
            "string",
            "column 1: must give a text (string), and gives kubernetes.Quantity",
        ),
    ],
)
def test_the_result_has_the_wanted_type(text: str, wants: cel.Wants, want: str) -> None:
    assert refused(text, wants) == [want]


ACCEPTED = [
    # Kubernetes sees custom resources as maps.
    "'trainer' in object.spec",
    "object.spec['trainer'].numNodes > 1",
    "object.spec[?'trainer'].hasValue()",
    "size(object.spec) > 0",
    "object.spec.all(k, k != 'x')",
    "object.spec == {}",
    "oldObject == null || object.spec.trainer.image == oldObject.spec.trainer.image",
    # Of other generations than the newest.
    "has(object.spec.podTemplateOverrides)",
    "has(object.spec.podSpecOverrides)",
    "has(object.spec.runtimePatches)",
    # An int or a text, by line and by what was sent.
    "object.spec.trainer.numProcPerNode == 'auto'",
    "object.spec.trainer.numProcPerNode == 2",
    # The checker has no comparison of an int with a double; the runtime has.
    "1 < 2.5",
    "totals.nodes <= 2.5",
    "params.anything.at.all == 1",
    "totals.requests[?'nvidia.com/gpu'].orValue(0) > 0",
    "provenance.?`spec.trainer.image`.orValue('') == 'user'",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_is_right_is_accepted(text: str) -> None:
    assert compiled(text, "bool").wants == "bool"


def test_a_policy_has_at_most_64_expressions() -> None:
    expressions = [Expression("true", Path("spec").index(i)) for i in range(65)]
    assert cel.too_many(expressions[:64]) == []
    (error,) = cel.too_many(expressions)
    assert str(error) == "spec[64]: Forbidden: a policy has at most 64 expressions, and this has 65"


def test_a_caret_stands_under_the_column() -> None:
    assert cel.caret("1 + a", 5) == "1 + a\n    ^"
    assert cel.caret("1 +\n a", 6) == " a\n ^"


def test_variables_have_the_types_of_their_expressions() -> None:
    spec = compiled("object.spec")
    assert compiled("variables.spec.suspend", "bool", {"spec": spec}).type.name() == "BOOL"
    assert refused("variables.spec.suspendd", "bool", {"spec": spec}) == [
        'column 15: variables.spec has no field "suspendd": did you mean "suspend"?'
    ]


READS = {
    "object.spec.trainer.numNodes > 1": {"object.spec.trainer.numNodes"},
    "object.metadata.labels['a/b'] == ''": {"object.metadata.labels.a/b"},
    "object.metadata.?labels[?'a'].orValue('') == ''": {"object.metadata.labels.a"},
    "object.metadata.labels[params.key] == ''": {"object.metadata.labels.*", "params.key"},
    "podSets.all(p, p.spec.containers.all(c, c.image != ''))": {
        "podSets.*.spec.containers.*.image"
    },
    "podSets.all(p, true)": {"podSets.*"},
    "podSets.exists(p, p.name == 'a') && podSets.size() > 1": {"podSets"},
    "podSets[0].name": {"podSets.*.name"},
    "podSets.filter(p, p.count > 1).size()": {"podSets.*"},
    "podSets.map(p, p.count).sum()": {"podSets.*.count"},
    "cel.bind(t, object.spec.trainer, t.image + t.command[0])": {
        "object.spec.trainer.image",
        "object.spec.trainer.command.*",
    },
    "(totals.nodes > 1 ? object.spec : oldObject.spec).suspend": {
        "totals.nodes",
        "object.spec.suspend",
        "oldObject.spec.suspend",
    },
    "oldObject == null || has(object.spec.trainer)": {"oldObject.\0", "object.spec.trainer.\0"},
    "'a' in object.metadata.labels": {"object.metadata.labels.a.\0"},
    "object.metadata.labels.all(k, v, v != '')": {"object.metadata.labels.*"},
    "params": {"params"},
    "1 + 1": set(),
    "variables.team == ''": {"object.metadata.labels.team"},
}


@pytest.mark.parametrize("text", READS)
def test_what_an_expression_reads(text: str) -> None:
    program = compiled(text, variables={"team": TEAM})
    assert {".".join(path) for path in program.reads} == READS[text]


def test_variables_that_are_read_are_named() -> None:
    assert compiled("variables.team + ''", variables={"team": TEAM}).variables == {"team"}


def test_an_expression_knows_its_parts() -> None:
    program = compiled("size( object.metadata.labels ) > 1 && podSets.all(p, p.count == (1 + 2))")
    from policies.cel.syntax import Call, walk  # noqa: PLC0415

    texts = [program.source_of(node) for node in walk(program.tree.root) if isinstance(node, Call)]
    assert texts[0] == program.text
    assert "size( object.metadata.labels )" in texts
    assert "p.count == (1 + 2)" in texts
