from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plugins.framework.errors import BadInput
from tests.hangs import no_hang
from webhook.yamlio import MAX_BYTES, MAX_DEPTH, Document, dump, dump_all, load, read, read_each
from webhook.yamlio.scalars import INT64

DATA = Path(__file__).parents[1] / "data" / "yaml" / "vectors.json"
VECTORS = json.loads(DATA.read_text(encoding="utf-8"))


def as_decoded(value: Any) -> Any:
    """What the API server has after decoding: integers of more than 64 bits are floats."""
    if isinstance(value, dict):
        return {key: as_decoded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_decoded(item) for item in value]
    if type(value) is int and value not in INT64:
        return float(value)
    return value


def typed(value: Any) -> str:
    """A form in which 1, 1.0 and True differ."""
    return repr(
        value if not isinstance(value, dict) else sorted((k, typed(v)) for k, v in value.items())
    )


def objects(text: str) -> list[Any]:
    return [document.obj for document in read(text, "file")]


def refusal(text: str | bytes) -> str:
    with pytest.raises(BadInput) as caught:
        read(text, "file")
    return str(caught.value)


@pytest.mark.parametrize("vector", VECTORS["read"], ids=lambda v: json.dumps(v["text"]))
def test_a_text_reads_as_kubectl_reads_it(vector: dict[str, Any]) -> None:
    if "error" in vector or "refused" in vector:
        assert refusal(vector["text"]).startswith("file:")
        return
    want = as_decoded(vector["documents"])
    assert [typed(got) for got in objects(vector["text"])] == [typed(value) for value in want]


@pytest.mark.parametrize("vector", VECTORS["write"], ids=lambda v: json.dumps(v["value"])[:60])
def test_a_value_prints_as_kubectl_prints_it(vector: dict[str, Any]) -> None:
    text = dump(vector["value"])
    assert (text == vector["yaml"]) is ("differs" not in vector), text
    assert load(text) == vector["value"]


class Refused(NamedTuple):
    text: str | bytes
    want: str


REFUSED = {
    "a repeated key is named with both lines": Refused(
        "a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n",
        'file:5: key "c" is repeated: it is set on line 3 already',
    ),
    "a repeated key counts lines from the top of the file": Refused(
        "a: 1\n---\n# second\nb: 1\nb: 2\n",
        'file:5: key "b" is repeated: it is set on line 4 already',
    ),
    "keys that become the same string are repeated": Refused(
        "yes: 1\ntrue: 2\n", 'file:2: key "true" is repeated: it is set on line 1 already'
    ),
    "a repeated key in JSON has its line too": Refused(
        '{\n "a": {"k": 1},\n "b": {"k": 1,\n  "x": ["k", {"k": 2}],\n  "k": 3}}',
        'file:5: key "k" is repeated: it is set on line 3 already',
    ),
    "a repeated key in JSON may be written in two ways": Refused(
        '{"k": 1,\n"\\u006b": 2}', 'file:2: key "k" is repeated: it is set on line 1 already'
    ),
    "a key is quoted so that it cannot move the cursor": Refused(
        '"\\e[2J": 1\n"\\e[2J": 2',
        'file:2: key "\\u001b[2J" is repeated: it is set on line 1 already',
    ),
    "a tab is named as such": Refused(
        "a:\n\tb: 1\n",
        "file:2: found character that cannot start any token (a tab: YAML indents with spaces)",
    ),
    "a syntax error has its line": Refused(
        "a: 1\n---\nb: 2\nc: [1, 2\n",
        "file:5: while parsing a flow sequence: did not find expected ',' or ']'",
    ),
    "a control character has its line": Refused(
        "a: 1\nb: é\x07\n", 'file:2: the character "\\u0007" may not stand in YAML'
    ),
    "bytes that are not UTF-8 have their line": Refused(
        b"a: 1\nb: \xff\n", "file:2: not UTF-8 text: invalid start byte"
    ),
    "infinity has no form in JSON": Refused("a:\n- .inf", "file:2: .inf has no form in JSON"),
    "not a number has none either": Refused("a: .nan", "file:1: .nan has no form in JSON"),
    "a number too large for JSON": Refused(
        '{"a": 1e400}', "file:1: a number is too large for JSON"
    ),
    "null is no key": Refused("a: 1\n~: 2", "file:2: null cannot be a key: write it in quotes"),
    "a list is no key": Refused("[a]: 2", "file:1: a key must be a string, not a map or a list"),
    "an alias of a list is no key": Refused(
        "a: &x [1]\n*x : 2", "file:2: a key must be a string, not a map or a list"
    ),
    "a tag must fit": Refused("a: !!int yes", 'file:1: "yes" is not a !!int'),
    "binary must be base64": Refused("a: !!binary '@'", 'file:1: "@" is not base64 of UTF-8 text'),
    "an anchor must exist": Refused("a: *x", 'file:1: no anchor "x" before this alias'),
    "an anchor may not contain itself": Refused(
        "a: &x\n  b: *x", 'file:2: the value of anchor "x" contains itself'
    ),
    "a merge wants maps": Refused("a: 1\n<<: 2", "file:2: `<<` wants a map or a list of maps"),
    "text behind the end of a document is not lost silently": Refused(
        "a: 1\n...\nb: 1\n",
        "file:3: text behind the end of the document, which kubectl would not read",
    ),
    "a separator stands alone": Refused(
        "a: 1\n--- b: 2\n", "file:2: only a comment may follow --- on its line"
    ),
    "behind JSON comes a new line": Refused('{"a": 1} b: 2', "file:1: not JSON: Expecting value"),
    "after two JSON values the text is JSON": Refused(
        '{"a": 1}{"b": 2}\n---\nc: 1', "file:2: not JSON: Expecting value"
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_named_with_its_line(case: Refused) -> None:
    assert refusal(case.text) == case.want


def nested(levels: int, opening: str, closing: str) -> str:
    return opening * levels + closing * levels


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
HEAVY = {
    "a billion laughs": Refused(LAUGHS, "file:4: aliases expand to too much"),
    "one long string, many times": Refused(
        f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 100_000)}]",
        "file:2: aliases expand to too much",
    ),
    "aliases that nest": Refused(
        "x0: &x0 []\n" + "".join(f"x{i + 1}: &x{i + 1} [*x{i}]\n" for i in range(300)),
        f"file:200: nested deeper than {MAX_DEPTH} levels",
    ),
    "lists in YAML": Refused(
        nested(201, "[", "]"), f"file:1: nested deeper than {MAX_DEPTH} levels"
    ),
    "lists beyond libyaml's own limit": Refused(
        nested(50_000, "[", "]"), f"file:1: nested deeper than {MAX_DEPTH} levels"
    ),
    "maps in YAML": Refused(
        "".join(" " * i + "a:\n" for i in range(300)),
        f"file:201: nested deeper than {MAX_DEPTH} levels",
    ),
    "maps in JSON": Refused(
        nested(201, '{"a":', "}").replace(":}", ":1}"),
        f"file:1: nested deeper than {MAX_DEPTH} levels",
    ),
    "maps beyond orjson's own limit": Refused(
        '{"a":' * 50_000 + "1" + "}" * 50_000, f"file:1: nested deeper than {MAX_DEPTH} levels"
    ),
    "more than 8 MiB of bytes": Refused(b"#" * (MAX_BYTES + 1), "file: larger than 8 MiB"),
    "more than 8 MiB of text": Refused("é" * (MAX_BYTES // 2 + 1), "file: larger than 8 MiB"),
    "an integer that Python would not read": Refused(
        '{"k": ' + "1" * 1_000_000 + "}", "file:1: a number is too large for JSON"
    ),
    "a million braces": Refused("{" * 1_000_000, f"file:1: nested deeper than {MAX_DEPTH} levels"),
}


@pytest.mark.parametrize("case", HEAVY.values(), ids=HEAVY)
def test_input_past_the_bounds_is_refused_at_once(case: Refused) -> None:
    with no_hang():
        assert refusal(case.text) == case.want


@pytest.mark.parametrize(
    "text",
    [
        nested(200, "[", "]"),
        '{"a":' * 200 + "1" + "}" * 200,
        "k: " + "1" * 100_000,
        "---\n" * 100_000,
    ],
    ids=["lists", "maps", "digits", "separators"],
)
def test_input_within_the_bounds_is_read(text: str) -> None:
    read(text, "file")


def test_documents_know_their_first_lines() -> None:
    text = "# a comment\n\na: 1\n---\n---\n\n# another\nb:\n  c: 1\n---\nnull\n---\n- d\n"
    assert read(text, "f.yaml") == [
        Document(obj={"a": 1}, source="f.yaml", line=3),
        Document(obj={"b": {"c": 1}}, source="f.yaml", line=8),
        Document(obj=["d"], source="f.yaml", line=13),
    ]


def test_json_values_know_their_first_lines() -> None:
    assert [d.line for d in read('\n{"a": 1}\n{\n"b": 2}\n\n{"c": 3}', "f")] == [2, 3, 6]
    assert [d.line for d in read('\n{"a": 1}\n---\nb: 1\n', "f")] == [2, 4]


def test_a_broken_document_does_not_hide_the_others() -> None:
    text = "a: 1\n---\nb: [\n---\nc: 1\nc: 2\n--- x\n---\nd: 1\n"
    shown = [str(d) if isinstance(d, BadInput) else d.obj for d in read_each(text, "f")]
    assert shown == [
        {"a": 1},
        "f:4: while parsing a flow node: did not find expected node content",
        'f:6: key "c" is repeated: it is set on line 5 already',
        "f:7: only a comment may follow --- on its line",
        {"d": 1},
    ]


def test_a_place_is_shown_for_editors() -> None:
    document = Document(obj={}, source="dir/a.yaml", line=3)
    assert document.where == "dir/a.yaml:3"
    assert Document(obj={}, source="a", line=1, item="items[2]").where == "a:1 items[2]"


DATES = {
    "2024-02-29": True,
    "2023-02-29": False,
    "1900-02-29": False,
    "2024-04-31": False,
    "2024-1-1": True,
    "24-01-01": False,
    "2024-01-01T25:00:00Z": False,
    "2024-01-01T1:2:3+05:00": True,
    "2024-01-01 1:2:3.5": True,
    "2024-01-01T00:00:00": False,
}


@pytest.mark.parametrize(("date", "quoted"), DATES.items())
def test_what_goyaml_takes_for_a_date_is_printed_in_quotes(date: str, quoted: bool) -> None:
    assert dump(date) == (f'"{date}"\n' if quoted else f"{date}\n")
    assert load(date) == date


PLACES = {
    "spec": 3,
    "spec.trainer.env[1].value": 8,
    "spec.trainer.env": 5,
    "spec.trainer.env[7].value": 5,
    "spec.trainer.image": 4,
    "metadata.labels[app.kubernetes.io/name]": 2,
    "spec.copy.a": 11,
    "spec.merged.a": 10,
    "spec.text.deeper": 12,
    "status": 1,
    "": 1,
}


@pytest.mark.parametrize(("path", "line"), PLACES.items())
def test_a_document_knows_the_line_of_a_path(path: str, line: int) -> None:
    text = (
        "kind: A\nmetadata: {labels: {app.kubernetes.io/name: x}}\nspec:\n  trainer:\n    env:\n"
        "    - name: A\n    - name: B\n      value: 1\n  base: &b {a: 1}\n  merged: {<<: *b}\n  copy: *b\n"
        "  text: x\n"
    )
    (document,) = read_each(text, "f", with_lines=True)
    assert isinstance(document, Document)
    assert document.line_of(path) == line


def test_a_document_knows_the_line_of_what_a_review_holds() -> None:
    (document,) = read_each("request:\n  object:\n    spec: 1\n", "f", with_lines=True)
    assert isinstance(document, Document)
    assert document.line_of("spec", document.obj["request"]["object"]) == 3
    assert read("a:\n  b: 1", "f")[0].line_of("a.b") == 1


def test_text_in_utf_16_is_read_as_windows_writes_it() -> None:
    assert load("a: é\r\nb: 2\r\n".encode("utf-16")) == {"a": "é", "b": 2}


def test_an_alias_is_a_copy() -> None:
    value = load("a: &x {k: [1]}\nb: *x\n")
    value["a"]["k"].append(2)
    assert value["b"] == {"k": [1]}


def test_one_value_is_expected() -> None:
    assert load("") is None
    with pytest.raises(BadInput, match="f:3: one document was expected"):
        load("a: 1\n---\nb: 2\n", "f")


def test_documents_are_printed_with_separators() -> None:
    assert dump_all([{"a": 1}, {"b": 2}]) == "a: 1\n---\nb: 2\n"
    assert dump_all([]) == ""


def test_a_long_key_is_printed_so_that_it_can_be_read() -> None:
    value = {
        "k" * 2000: {"a": [1, {"b": "x\ny\n"}]},
        "s" * 1500: [1, [2]],
        "t" * 1100: "v",
        "u" * 1200: {},
    }
    assert load(dump(value)) == value


@pytest.mark.parametrize("value", [float("inf"), float("nan"), {"a": [float("-inf")]}])
def test_what_is_no_json_is_not_printed(value: Any) -> None:
    with pytest.raises(ValueError, match="has no form in JSON"):
        dump(value)


def test_objects_are_not_printed() -> None:
    with pytest.raises(TypeError, match="object has no form in JSON"):
        dump({"a": object()})


text = st.text(st.characters(codec="utf-8"), max_size=12)
tricky = st.lists(
    st.sampled_from(
        [*"a10 \n\t:#-'\"\\[{,&*!|>%@`?=\r\x85\u2028\ufeff", "~", "yes", "null", "<<", "---", "..."]
    ),
    max_size=5,
).map("".join)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(
    allow_nan=False, allow_infinity=False
).filter(
    lambda x: not 2**53 <= abs(x) < 2**63  # where Go prints an integer that is not the float
)
values = st.recursive(
    st.none() | st.booleans() | numbers | text | tricky,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text | tricky, inner, max_size=4),
    max_leaves=12,
)


@given(values)
@example({"a": [[], {}, [[]], [{}]], "b": "\n", "c": " \n x\n"})
@example(["- |\n  x", {"\n": "\n\n"}])
@example("\n\n a\n")
def test_what_is_printed_reads_back_the_same(value: Any) -> None:
    assert load(dump(value)) == value


@given(values.filter(lambda value: value is not None))
def test_json_reads_the_same_in_both_ways(value: Any) -> None:
    assert objects(json.dumps({"k": value})) == objects(f"# YAML\n{dump({'k': value})}")


@given(st.lists(st.sampled_from(list("ab:-?[]{}&*!|>'\"%@`#,~ \n\t1.<")), max_size=30).map("".join))
def test_any_text_is_read_or_refused(soup: str) -> None:
    for item in read_each(soup, "f"):
        assert isinstance(item, Document | BadInput)


def test_yaml_is_imported_only_to_read_yaml() -> None:
    script = (
        "import sys, webhook.yamlio as y; y.dump(y.load('{}')); sys.exit('yaml' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
