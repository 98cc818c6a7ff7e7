from __future__ import annotations

import ast
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.conformance.build import LINES
from tests.conformance.dice import Json, SeededDice
from tests.conformance.generate import cases, seeded_case
from tests.conformance.strategies import cases as drawn_cases

PRODUCT = {"webhook", "policies", "plugins", "certs"}
GENERATOR = (
    "dice", "shapes", "runtimes", "trainjobs", "overrides", "spoilers", "generate", "strategies",
)  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_the_same_seed_gives_the_same_corpus(line: str) -> None:
    assert list(cases(line, 7, 50)) == list(cases(line, 7, 50))


def test_another_seed_gives_another_corpus() -> None:
    assert list(cases("2.3", 7, 5)) != list(cases("2.3", 8, 5))


def test_a_case_can_be_had_alone_by_its_index() -> None:
    assert list(cases("2.1", 3, 10))[7] == seeded_case("2.1", 3, 7)


@pytest.mark.parametrize("line", LINES)
def test_cases_are_json_and_name_what_they_exercise(line: str) -> None:
    for case in cases(line, 11, 200):
        assert json.loads(json.dumps(case)) == case
        assert case["tags"] == sorted(set(case["tags"]))
        assert f"operation:{case['operation']}" in case["tags"]
        assert ("trainJob" in case) == (case["operation"] != "VALIDATE_RUNTIME")


def test_each_line_has_its_own_form_of_overrides() -> None:
    forms = ("podSpecOverrides", "podTemplateOverrides", "runtimePatches", "runtimePatches")
    for line, form in zip(LINES, forms, strict=True):
        used = {
            field
            for case in cases(line, 1, 100)
            for field in case.get("trainJob", {}).get("spec", {})
            if field in forms
        }
        assert used == {form}


def test_shipped_runtimes_take_part_when_they_are_given() -> None:
    shipped = [{"kind": "ClusterTrainingRuntime", "metadata": {"name": "theirs"}, "spec": {}}]
    tags = itertools.chain.from_iterable(case["tags"] for case in cases("2.3", 1, 100, shipped))
    assert "shipped:theirs" in set(tags)


def test_the_dice_are_the_same_on_every_python() -> None:
    dice = SeededDice("2.3", "seed")
    assert [dice.below(1000) for _ in range(6)] == [138, 236, 865, 286, 43, 965]


@given(case=drawn_cases("2.3"))
@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_hypothesis_can_draw_cases(case: Json) -> None:
    assert case["tags"]


def test_the_generator_knows_nothing_of_the_product() -> None:
    for name in GENERATOR:
        tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
        modules = {
            module.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for module in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
            )
        }
        assert not modules & PRODUCT
