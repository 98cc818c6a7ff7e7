"""The recorded corpus: what the Trainer's own code built, line by line, and that breaks are seen in it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance import breaks, compare, judge, ledger
from tests.conformance.record import golden_path, recorded

if TYPE_CHECKING:
    from plugins.framework.pipeline import Pipeline

LINES = ("2.0", "2.1", "2.2", "2.3")
PARTS = 4
"""Slices of a corpus, so that workers share it."""


PIPELINE = compare.pipeline()
"""Made before any break: a Pipeline keeps the methods that its plugins had when it was made."""


@lru_cache(maxsize=4)
def corpus(line: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [
        (case, answer)
        for case, answer in recorded(golden_path(line))
        if case.get("operation") != "VALIDATE_RUNTIME"
        and not judge.is_refused_by_schema(answer)
        and answer.get("runtime") is not None
    ]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("line", LINES)
def test_prediction_and_verdict_equal_the_trainers(line: str, part: int) -> None:
    judged = [
        judge.judge(PIPELINE, line, case, answer) for case, answer in corpus(line)[part::PARTS]
    ]
    assert [
        f"{j.id}: {[str(d) for d in j.differences[:3]] + j.verdict}"
        for j in judged
        if j.unexplained
    ] == []
    assert sum(j.built == "equal" for j in judged) > 0.8 * len(judged)


@pytest.mark.parametrize("line", LINES)
def test_every_refusal_of_ours_has_cases(line: str) -> None:
    found = [judge.rows(PIPELINE, line, *pair) for pair in recorded(golden_path(line))]
    assert ledger.rows_of(line) - set().union(*found) == set()


@pytest.mark.parametrize("line", LINES)
def test_verdicts_on_runtimes_equal_the_trainers(line: str) -> None:
    judged = [
        judge.judge_runtime(PIPELINE, line, case, answer)
        for case, answer in recorded(golden_path(line))
        if case["operation"] == "VALIDATE_RUNTIME"
    ]
    assert [f"{j.id}: {j.verdict}" for j in judged if j.verdict] == []
    assert any(j.rows for j in judged)


@pytest.mark.parametrize("name", breaks.BREAKS)
def test_break_is_seen(name: str) -> None:
    with breaks.broken(name):
        pipe = compare.pipeline()
        seen = any(_differs(pipe, line) for line in reversed(LINES))
    assert seen, f"nothing notices that {name}"


def _differs(pipe: Pipeline, line: str) -> bool:
    for case, answer in corpus(line):
        if compare.has_snapshot(case):
            continue
        try:
            mine = compare.ours(pipe, line, answer["trainJob"], answer["runtime"])
        except Exception:  # noqa: BLE001  # a break may also raise, which nobody could miss
            return True
        if compare.compare(mine, compare.theirs(answer), compare.existing(case)):
            return True
    return False
