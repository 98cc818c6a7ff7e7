from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance.build import LINES
from tests.conformance.generate import cases
from tests.conformance.tags import by_kind, possible
from tests.conformance.test_generate import GENERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator

POD = {"spec": {"containers": [{"name": "node", "image": "x"}]}}
JOB = {"name": "node", "template": {"spec": {"template": POD}}}
SPEC = {"template": {"spec": {"replicatedJobs": [JOB]}}}
SHIPPED = [{"kind": "ClusterTrainingRuntime", "metadata": {"name": "theirs"}, "spec": SPEC}]


@pytest.mark.parametrize("line", LINES)
def test_every_tag_that_comes_is_known(line: str) -> None:
    seen = {tag for case in cases(line, 1, 1000, SHIPPED) for tag in case["tags"]}
    assert seen - possible(line, SHIPPED) == set()
    assert len(seen) > 0.95 * len(possible(line, SHIPPED))
    spoilt = {name for name in possible(line) if name.startswith("spoil:")}
    assert spoilt <= seen, "the rules take turns: 1,000 cases meet all"


def test_every_tag_in_the_sources_is_known() -> None:
    known = {tag for line in LINES for tag in possible(line, SHIPPED)}
    written = set(_written())
    assert len(written) > 80
    assert written - known == set()


def _written() -> Iterator[str]:
    """The texts that the generator hands to ``dice.tag``; what it puts together has a table or a test run."""
    for name in GENERATOR:
        tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "tag"
            ):
                for argument in node.args:
                    if isinstance(argument, ast.Constant):
                        yield str(argument.value)


def test_a_line_has_only_what_it_has() -> None:
    assert "plugin:flux" in possible("2.2")
    assert "plugin:flux" not in possible("2.1")
    assert "field:spec.labels" in possible("2.1")
    assert "field:spec.labels" not in possible("2.2")
    assert "shipped" not in possible("2.3")


def test_tags_are_grouped_by_what_stands_before_the_colon() -> None:
    assert by_kind({"b:y", "b:x:1", "a"}) == {"a": ["a"], "b": ["b:x:1", "b:y"]}
