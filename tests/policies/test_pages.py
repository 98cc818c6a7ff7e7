"""What docs/policies says of documents is what is read, and what its examples are said to do is what they do."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from policies import options
from policies.document import EXCEPTION, NAMESPACED_POLICY, POLICY
from policies.options import trainer
from policies.reading import exception, match, policy, read, rules
from policies.view import _MAKERS
from tests.builders import Json
from tests.folder import Folder, texts
from webhook import yamlio
from webhook.files import read_tree
from webhook.suites import coverage, reading, running

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs" / "policies"
EXAMPLES: Final = ROOT / "examples" / "policies"
CLUSTER: Final = ROOT / "examples" / "cluster"
PAGES: Final = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
README: Final = PAGES["README.md"]

JOB: Final[Json] = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "llm", "namespace": "team-vision"},
    "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 9}},
}


def blocks(kind: str, text: str) -> dict[str, str]:
    """The fenced blocks behind ``<!-- kind: name -->``, by name."""
    found = re.findall(rf"<!-- {kind}: (\S+) -->\n```\w*\n(.*?)\n```", text, re.DOTALL)
    assert len(found) == len(dict(found))
    return dict(found)


FILES: Final = blocks("file", README)
REFUSALS: Final = blocks("refused", README)
VAPS: Final = blocks("vap", PAGES["from-validating-admission-policy.md"])
KYVERNO: Final = blocks("kyverno", PAGES["from-kyverno.md"])
ANEW: Final = {
    **blocks("example", PAGES["from-validating-admission-policy.md"]),
    **blocks("example", PAGES["from-kyverno.md"]),
}


def documents(text: str) -> list[Json]:
    """The objects of a block."""
    return [document.obj for document in yamlio.read(text, "page")]


# README.md


@pytest.mark.parametrize("name", FILES)
def test_an_example_of_the_first_page_is_sound(name: str) -> None:
    for one in documents(FILES[name]):
        found = read(one)
        assert (list(map(str, found.errors)), found.warnings) == ([], [])
    engine = Folder.of(*(d.obj for d in read_tree(CLUSTER)), *documents(FILES[name])).engine
    assert list(engine.policies.problems()) == []


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_of_the_first_page_is_what_comes(name: str) -> None:
    cluster = [document.obj for document in read_tree(CLUSTER)]
    outcome = Folder.of(*cluster, *documents(FILES[name])).admit(JOB)
    assert texts(outcome.findings.errors) == REFUSALS[name].split("\n")


def rows(heading: str) -> list[str]:
    """First cells of the table below a heading."""
    part = README.partition(f"\n### {heading}\n")[2].partition("\n### ")[0]
    return re.findall(r"^\| `([^`]+)` \|", part, re.MULTILINE)


def paths(at: str, known: Mapping[str, Any]) -> list[str]:
    """The fields of a tree in order, depth first; a list below a field stands for a list of objects."""
    out = []
    for name, below in known.items():
        out.append(f"{at}.{name}")
        if isinstance(below, list):
            out += paths(f"{at}.{name}[]", dict.fromkeys(below[0]) | below[1])
        elif isinstance(below, tuple):
            out += paths(f"{at}.{name}", dict.fromkeys(below[0]) | below[1])
    return out


def test_every_field_of_a_policy_is_described_and_no_other() -> None:
    named = ("name", "expression")
    nested: Json = {
        "match": (
            match._MATCH,
            {"runtimes": [match._RUNTIME, {}], "subjects": (match._SUBJECTS, {})},
        ),
        "matchConditions": [named, {}],
        "params": (policy._PARAMS, {"configMapRef": (("name", "namespace"), {})}),
        "variables": [named, {}],
        "limits": [rules._LIMIT, {"images": (rules._IMAGES, {})}],
        "validations": [rules._VALIDATION, {}],
        "rollout": [policy._STAGE, {}],
        "exceptions": (("rules", "longest"), {}),
        "auditAnnotations": [("key", "valueExpression"), {}],
    }
    wanted = paths("spec", dict.fromkeys(policy.SPEC) | nested)
    assert sorted(rows(f"{POLICY}, {NAMESPACED_POLICY}")) == sorted(wanted)


def test_every_field_of_an_exception_is_described_and_no_other() -> None:
    nested: Json = {"policies": [exception._TARGET, {}], "match": (exception._MATCH, {})}
    assert sorted(rows(EXCEPTION)) == sorted(paths("spec", dict.fromkeys(exception.SPEC) | nested))


def test_every_key_of_defaults_and_overrides_is_described_and_no_other() -> None:
    keys = rows("What can be written")
    assert keys == list(options.KEYS)
    part = README.partition("\n### What can be written\n")[2].partition("\n### ")[0]
    for name in trainer.FIELDS:
        assert f"`{name}" in part
    lines = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", part, re.MULTILINE))
    for option in options.OPTIONS:
        refused = [name for name, how in option.facts.lines if how == "refused"]
        text = lines[option.key.partition(".")[0]]
        assert (text == "all") == (not refused), option.key
        overrides_only = option.facts.modes == ("overrides",)
        assert overrides_only == bool(
            re.search(rf"^\| `{option.key}` \| overrides only", part, re.MULTILINE)
        )


def test_every_variable_is_described() -> None:
    part = README.partition("\n### What expressions see\n")[2]
    for name in (*_MAKERS, "params", "variables"):
        assert f"`{name}`" in part


def test_the_library_is_as_large_as_is_said() -> None:
    count = len(list((ROOT / "policies" / "library").glob("*_test.yaml")))
    assert f"{count} policies to begin with" in README


# The two for those who come from elsewhere


def test_three_policies_of_the_api_server_and_one_of_kyverno_are_shown() -> None:
    assert len(VAPS) == 3
    assert [*VAPS, *KYVERNO] == list(ANEW)
    assert sorted(ANEW) == sorted(p.stem for p in EXAMPLES.glob("*.yaml") if "_test" not in p.stem)


@pytest.mark.parametrize("name", ANEW)
def test_what_a_page_shows_is_the_file(name: str) -> None:
    text = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")
    comment, _, rest = text.partition("\n")
    assert comment.startswith("# From ")
    assert ANEW[name] == rest.rstrip("\n")


@pytest.mark.parametrize("name", VAPS)
def test_expressions_are_pasted_as_they_are(name: str) -> None:
    """But for ``params.data``: everything that the API server's policy says is in ours word for word."""
    vap, binding = (one["spec"] for one in yaml.safe_load_all(VAPS[name]))
    [document] = documents(ANEW[name])
    spec = document["spec"]
    assert spec["failurePolicy"] == vap["failurePolicy"]
    for there, here in zip(vap["validations"], spec["validations"], strict=False):
        for key, value in there.items():
            assert here[key] == value.replace("params.data.", "params.")
    for key in ("variables", "matchConditions", "auditAnnotations"):
        assert spec.get(key) == vap.get(key)
    assert spec["match"]["operations"] == vap["matchConstraints"]["resourceRules"][0]["operations"]
    assert spec["actions"] == binding["validationActions"]
    selector = binding.get("matchResources", {}).get("namespaceSelector")
    assert spec["match"].get("namespaceSelector") == selector


@pytest.mark.parametrize("name", ANEW)
def test_an_example_passes_its_tests_and_every_rule_goes_both_ways(name: str) -> None:
    found = reading.read([EXAMPLES / f"{name}_test.yaml"])
    assert found.problems == []
    [suite] = found.suites
    done = running.run(suite, suite.cases, None, time.perf_counter)
    assert done.problems == []
    assert [(c.case.name, c.error, c.missed) for c in done.ran if not c.is_ok] == []
    assert coverage.measure([done]).percent == 100
