"""Runtimes without a framework of their own: counts and env."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import MakeRuntime, container, make_runtime, make_train_job
from tests.plugins.kit import LINES, built

JOB = make_train_job().nodes(3).env("A", "1")
WITHOUT: dict[str, Callable[[], MakeRuntime]] = {
    "an empty mlPolicy": lambda: make_runtime().plain(),
    "no mlPolicy": make_runtime,
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("policy", WITHOUT)
def test_x07_counts_and_env_of_the_trainjob(line: str, policy: str) -> None:
    runtime = WITHOUT[policy]().node(container("node", {"R": "1"}))
    made = built(JOB, runtime, line=line)
    assert made.counts("node") == (3, 3)
    assert made.env() == {"R": "1", "A": "1"}


@pytest.mark.parametrize("policy", ["xgboost", "flux"])
def test_x07_xgboost_and_flux_leave_both_to_it(policy: str) -> None:
    made = built(JOB, make_runtime().policy(policy).node())
    assert made.counts("node") == (3, 3)
    assert made.env()["A"] == "1"


def test_x07_not_for_mpi_whose_launcher_keeps_its_count() -> None:
    runtime = make_runtime().mpi().job("node").job("launcher", "trainer")
    assert built(JOB, runtime).counts("launcher") == (1, 1)


def test_the_env_of_a_jax_job_is_the_builders_business() -> None:
    """PlainML would put it in front of JAX's own."""
    assert list(built(JOB, make_runtime().jax().node()).env())[-1] == "A"


def test_without_a_trainer_job_nothing_happens() -> None:
    made = built(JOB, make_runtime().plain().job("node"))
    assert made.counts("node") == (1, 1)
    assert made.env() == {}
