"""Expressions, and data, made to crash, hang or fill whoever evaluates them."""

from __future__ import annotations

from typing import Any, Final

_DOUBLED: Final = "".join(f".map(v{i}, v{i} + v{i} + v{i} + v{i})" for i in range(14))
_BOUND: Final = "".join(f"cel.bind(b{i + 1}, b{i} + b{i} + b{i} + b{i}, " for i in range(14))
_REPLACED: Final = ".replace('a', 'aaaaaaaaaaaaaaaa')" * 12
_BIG: Final = "x" * 1_000_000

EXPRESSIONS: Final[dict[str, str]] = {
    "loops, 10^8 steps": "lists.range(10000).all(a, lists.range(10000).all(b, a + b >= 0))",
    "loops, 10^16 steps": (
        "lists.range(10000).all(a, lists.range(10000).all(b, lists.range(10000).all(c, "
        "lists.range(10000).all(d, true))))"
    ),
    "a list of 10^9": "lists.range(1000000000).size() > 0",
    "a list of a computed length": "lists.range(object.spec.trainer.numNodes * 1000000000).size() > 0",
    "a text that doubles in a chain of map": f"['xxxxxxxxxxxxxxxx']{_DOUBLED}.size() > 0",
    "a text that doubles in a chain of bind": (
        f"cel.bind(b0, 'xxxxxxxxxxxxxxxx', {_BOUND}b14.size() > 0{')' * 15}"
    ),
    "a text that doubles in a few binds": (
        "cel.bind(a, 'xxxxxxxxxxxxxxxx', " + "cel.bind(a, a + a, " * 26 + "a.size() > 0" + ")" * 27
    ),
    "a text that grows by replace": f"'aaaaaaaaaaaaaaaa'{_REPLACED}.size() > 0",
    "a text that grows by replacing nothing": (
        "'aaaaaaaaaaaaaaaa'" + ".replace('', 'aaaaaaaaaaaaaaaa')" * 12 + ".size() > 0"
    ),
    "a text that grows by join": (
        "cel.bind(a, ['x','x','x','x','x','x','x','x'], "
        + "cel.bind(a, [a.join('xxxxxxxx'),a.join('xxxxxxxx'),a.join('xxxxxxxx'),a.join('xxxxxxxx')], "
        * 12
        + "a.size() > 0"
        + ")" * 13
    ),
    "a text that grows by format": (
        "cel.bind(a, 'x', "
        + "cel.bind(a, '%s%s%s%s%s%s%s%s'.format([a,a,a,a,a,a,a,a]), " * 12
        + "a.size() > 0"
        + ")" * 13
    ),
    "a format of a billion digits": "'%.1000000000f'.format([1.0]).size() > 0",
    "a format of nine digits": "'%.999999999e'.format([1.0]).size() > 0",
    "a list that doubles": (
        "cel.bind(a, [1], " + "cel.bind(a, a + a + a + a, " * 14 + "a.size() > 0" + ")" * 15
    ),
    "a list of lists that doubles": (
        "cel.bind(a, [1], " + "cel.bind(a, [a, a, a, a, a, a], " * 14 + "a == a" + ")" * 15
    ),
    "a list of lists that doubles, as the result": (
        "cel.bind(a, [1], " + "cel.bind(a, [a, a, a, a, a, a], " * 14 + "a" + ")" * 15
    ),
    "a list of lists that doubles, flattened": (
        "cel.bind(a, [[1]], "
        + "cel.bind(a, [a, a, a, a, a, a], " * 14
        + "a.flatten(20).size() > 0"
        + ")" * 15
    ),
    "a regex for each step": "lists.range(9999).all(i, !object.metadata.name.matches('(a+)+$'))",
    "a regex over a megabyte, for each step": (
        "lists.range(9999).all(i, !object.metadata.annotations['big'].matches('(x+x+)+y'))"
    ),
    "many regexes over a megabyte, for each step": (
        "lists.range(9999).all(i, "
        + " && ".join(
            f"!object.metadata.annotations['big'].matches('(x+x+)+{c}')" for c in "abcdefgh" * 6
        )
        + ")"
    ),
    "find over a megabyte, for each step": (
        "lists.range(9999).all(i, object.metadata.annotations['big'].find('(x+x+)+y') == '')"
    ),
    "findAll over a megabyte, for each step": (
        "lists.range(9999).all(i, object.metadata.annotations['big'].findAll('x').size() > 0)"
    ),
    "a regex with nested counts": "'a'.matches('((a{0,100}){0,100}){0,100}')",
    "a regex with a huge count": "'a'.matches('a{1000000000}')",
    "a regex of many alternatives": "'a'.matches('" + "(a|b)?" * 600 + "')",
    "a regex that is computed": "object.metadata.name.matches('a' + object.metadata.name)",
    "a regex that is none": "'a'.matches('(')",
    "a regex with unicode classes": "'a'.matches('" + r"\\pL" * 1000 + "')",
    "10,000 brackets": "(" * 10_000 + "1" + ")" * 10_000,
    "2,000 brackets": "(" * 2_000 + "1" + ")" * 2_000,
    "2,000 opening brackets": "(" * 2_000,
    "a list in a list, 2,000 times": "[" * 2_000 + "]" * 2_000,
    "a map in a map": "{1:" * 1_000 + "1" + "}" * 1_000,
    "20,000 terms": "+".join(["1"] * 20_000),
    "2,000 terms": "+".join(["1"] * 2_000),
    "900 conjuncts": "&&".join(["true"] * 900),
    "4,000 fields": "object" + ".a" * 2_000,
    "1,300 indexes": "object" + "[0]" * 1_300,
    "500 ternaries": "true?1:" * 500 + "1",
    "4,000 negations": "!" * 4_000 + "true",
    "4,000 signs": "-" * 4_000 + "1",
    "chained optMap, which doubles while it is parsed": (
        "optional.of(1)" + ".optMap(x, x)" * 30 + ".hasValue()"
    ),
    "chained optFlatMap": (
        "optional.of(1)" + ".optFlatMap(x, optional.of(x))" * 30 + ".hasValue()"
    ),
    "optMap as often as it may be": (
        "optional.of([" + "1," * 1_900 + "1])" + ".optMap(x, x)" * 2 + ".hasValue()"
    ),
    "a list of lists that doubles in a chain of map": (
        "[1]" + "".join(f".map(v{i}, [v{i}, v{i}, v{i}, v{i}, v{i}])" for i in range(20)) + " == []"
    ),
    "maps that double": (
        "cel.bind(a, {'x': 1}, "
        + "cel.bind(a, {'x': a, 'y': a, 'z': a.x}, " * 20
        + "a == a"
        + ")" * 21
    ),
    "a text that doubles in a chain of variables of a loop": (
        "['xxxxxxxxxxxxxxxx']"
        + "".join(f".map(v{i}, [v{i}, v{i}, v{i}, v{i}].join(v{i}))" for i in range(12))
        + ".size() > 0"
    ),
    "the whole data, compared often": (
        "[" + "object," * 300 + "object] == [" + "oldObject," * 250 + "object]"
    ),
    "chained filter": "[1]" + ".filter(x, true)" * 200 + ".size() > 0",
    "a null": "null",
    "a list of nulls": "[null, [null, {'a': null}]]",
    "a null from the data": "object.status",
    "a huge number": "1" * 4_000 + " > 0",
    "a number beyond 64 bits": "9223372036854775807 + 1 > 0",
    "the least number, negated": "-(-9223372036854775807 - 1) > 0",
    "a division by zero": "1 / 0 > 0",
    "the least number by -1": "(-9223372036854775807 - 1) / -1 > 0",
    "a double that is none": "0.0 / 0.0",
    "a text with NUL": "'a\\u0000b' == 'a'",
    "a NUL in the expression": "'a\0b' == 'a'",
    "half a surrogate pair": "'\ud800' == 'a'",
    "a NUL from bytes": "string(b'a\\x00b')",
    "a NUL from base64": "string(base64.decode('YQBi')).find('b')",
    "an optional in a function of ours": "[optional.of(1)].sum() > 0",
    "an optional behind dyn": "[dyn(optional.of(1))].sum() > 0",
    "an optional behind a map": "[{'a': optional.of(1)}].indexOf({'a': optional.of(2)}) > 0",
    "an optional in a list of another type": "[1, optional.of(1)].isSorted()",
    "an optional from a ternary": "[true ? dyn(optional.of(1)) : dyn(2)].max() == 1",
    "an optional in an optional": (
        "[optional.of(optional.of(1)).orValue(optional.of(2))].indexOf(optional.of(1)) > 0"
    ),
    "an optional as a variable of a loop": "[optional.of(1)].map(x, dyn(x)).lastIndexOf(1) > 0",
    "an optional as the result": "optional.of(1)",
    "a type as the result": "type(1)",
    "a message": "google.protobuf.Struct{fields: {'a': google.protobuf.Value{number_value: 1.0}}}",
    "a quantity of a billion digits": "quantity('1e999999999').isGreaterThan(quantity('1'))",
    "a quantity that is long": "isQuantity('" + "1" * 3_000 + "')",
    "a version that is long": "isSemver('" + "1" * 1_000 + ".1.1')",
    "a network that is none": "cidr('10.0.0.0/99').containsIP('x')",
    "a duration that is too long": "duration('999999999999h') > duration('1s')",
    "a time that is none": "timestamp('9999-99-99T00:00:00Z') > timestamp('2020-01-01T00:00:00Z')",
    "times that overflow": (
        "timestamp('9999-12-31T23:59:59Z') + duration('100000h') > timestamp('2020-01-01T00:00:00Z')"
    ),
    "objects compared in a loop": "lists.range(9999).all(i, object == oldObject || true)",
    "contains in a loop": (
        "lists.range(9999).all(i, !object.metadata.annotations['big'].contains('y'))"
    ),
    "size in a loop": "lists.range(9999).all(i, object.metadata.annotations['big'].size() > i)",
    "distinct over a long list": "params.long.distinct().size() > 0",
    "sets of long lists": "sets.contains(params.long, params.long)",
    "split of a megabyte": "object.metadata.annotations['big'].split('').size() > 0",
    "in a long list, in a loop": "params.long.all(x, x in params.long)",
    "sums in a loop": "params.long.all(x, params.long.sum() > 0)",
    "transformMap over a long list": "params.long.transformMap(i, v, v).size() > 0",
    "JSON that is deep": "params.deep == params.deep",
    "JSON that is deep, as the result": "params.deep",
    "a whole number that is too large": "params.large > 0",
}


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def data() -> dict[str, Any]:
    """What they are evaluated on."""
    job = {
        "metadata": {"name": "a" * 200, "annotations": {"big": _BIG}, "labels": {"a": "b"}},
        "spec": {"trainer": {"numNodes": 4}},
        "status": None,
    }
    return {
        "object": job,
        "oldObject": job,
        "params": {"long": list(range(100_000)), "deep": _nested(190), "large": 2**70},
    }
