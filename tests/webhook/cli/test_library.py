"""``stationmaster library``: the policies that come with it."""

from __future__ import annotations

import pytest

from tests.webhook.cli.conftest import Run
from webhook.cli import library

NAMES = library.names()


def test_the_command_lists_them(run: Run) -> None:
    done = run("library")
    assert (done.code, done.err) == (0, [])
    heading, *rows = done.out.splitlines()
    assert heading.split() == ["NAME", "WHAT", "IT", "DOES"]
    assert [row.split()[0] for row in rows] == NAMES
    assert all(row.endswith(library.summary(name)) for row, name in zip(rows, NAMES, strict=True))


def test_the_command_prints_a_policy_and_its_tests_as_they_are(run: Run) -> None:
    assert run("library", "gpu-caps").out == library.read("gpu-caps")
    assert run("library", "--test", "gpu-caps").out == library.read("gpu-caps_test")


@pytest.mark.parametrize("words", [("nope",), ("gpu-caps_test",), ("../document",), ("--test",)])
def test_the_command_knows_no_others(run: Run, words: tuple[str, ...]) -> None:
    done = run("library", *words)
    assert (done.code, done.out) == (2, "")
