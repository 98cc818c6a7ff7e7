from __future__ import annotations

import json

import pytest

from plugins.framework.field import Findings, required
from tests.webhook.cli.conftest import Run, job, review
from tests.webhook.cli.fakes import Engine, Rendered, Row
from webhook.cli import tables

RENDER = ("render", "-f", "-", "--from", "cluster")


def built(*kinds: str, findings: Findings | None = None) -> Rendered:
    return Rendered(
        objects=[{"kind": kind} for kind in kinds],
        findings=findings or Findings(),
        pod_sets=[Row(name="launcher", ancestor="", count=1), Row()],
        members=3,
        resources={"memory": "3Gi", "cpu": "12"},
    )


def test_objects_are_printed_in_the_order_in_which_they_are_applied(
    run: Run, engine: Engine
) -> None:
    engine.on_render = lambda _d, _a: built("PodGroup", "JobSet")
    ran = run(*RENDER, stdin=job("a") + "---\n" + job("b"))
    assert (ran.code, ran.err) == (0, [])
    assert ran.out == "---\n".join(["kind: PodGroup\n", "kind: JobSet\n"] * 2)


@pytest.mark.parametrize("kinds", [("JobSet",), ("PodGroup", "JobSet"), ()])
def test_json_is_always_a_list(run: Run, engine: Engine, kinds: tuple[str, ...]) -> None:
    engine.on_render = lambda _d, _a: built(*kinds)
    ran = run(*RENDER, "-o", "json", stdin=job())
    assert json.loads(ran.out) == {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{"kind": kind} for kind in kinds],
    }


def test_a_refused_job_is_shown_with_its_findings(run: Run, engine: Engine) -> None:
    findings = Findings([required("spec.runtimeRef")], ["totals differ"])
    engine.on_render = lambda _d, _a: built("JobSet", findings=findings)
    ran = run(*RENDER, stdin=job())
    assert (ran.code, ran.out) == (1, "kind: JobSet\n")
    assert ran.err == [
        "Warning: TrainJob team/a: totals differ",
        "Error: TrainJob team/a: spec.runtimeRef: Required value (standard input:1)",
    ]


@pytest.mark.parametrize("output", ["yaml", "table"])
def test_nothing_is_shown_where_the_controller_fails(run: Run, engine: Engine, output: str) -> None:
    engine.on_render = lambda _d, _a: Rendered(findings=Findings(warnings=["it fails"]))
    ran = run(*RENDER, "-o", output, stdin=job())
    assert (ran.code, ran.out, ran.err) == (1, "", ["Warning: TrainJob team/a: it fails"])


@pytest.mark.parametrize("words", [(), ("--admitted",)])
def test_jobs_are_rendered_as_given_or_as_admitted(
    run: Run, engine: Engine, words: tuple[str, ...]
) -> None:
    engine.on_render = lambda _d, admitted: built("Admitted" if admitted else "AsGiven")
    ran = run(*RENDER, *words, stdin=job())
    assert ran.out == ("kind: Admitted\n" if words else "kind: AsGiven\n")


def test_the_table_shows_counts_requests_and_totals(run: Run, engine: Engine) -> None:
    engine.on_render = lambda _d, _a: built("JobSet")
    ran = run(*RENDER, "-o", "table", stdin=job("a") + "---\n" + job("b"))
    table = (
        "POD SET    ANCESTOR   COUNT   REQUESTS PER POD   TOTAL\n"
        "launcher   -              1   cpu=4 memory=1Gi   cpu=8 memory=2Gi\n"
        "node       trainer        2   cpu=4 memory=1Gi   cpu=8 memory=2Gi\n"
        "at once                   3                      cpu=12 memory=3Gi\n"
    )
    assert ran.out == f"TrainJob team/a\n{table}\nTrainJob team/b\n{table}"


def test_rows_stay_whole_in_a_pipe_and_fold_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ("x" * 300, "\x1b[2J[red]")
    assert tables.table(("A", "B"), [row]) == f"A{' ' * 302}B\n{'x' * 300}   \\u001b[2J[red]\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    lines = tables.table(("A", "B"), [row]).splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 80


def test_names_stay_whole_on_a_terminal_where_words_beside_them_can_give_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    row = ("validations.no-host-network", "no case breaks it")
    assert tables.table(("RULE", "MISSING"), [row]) == (
        "RULE                          MISSING\n"
        "validations.no-host-network   no case\n"
        "                              breaks it\n"
    )


def test_only_train_jobs_are_rendered(run: Run, engine: Engine) -> None:
    engine.on_render = lambda _d, _a: built("JobSet")
    runtime = job().replace("TrainJob", "TrainingRuntime")
    ran = run(*RENDER, stdin="---\n".join([runtime, review("p", "Pod"), review("b")]))
    assert (ran.code, ran.out) == (0, "kind: JobSet\n")
    assert ran.err == [
        "Warning: standard input:1: skipped: TrainingRuntime team/a is not a TrainJob",
        'Warning: standard input:5: skipped: it reviews "Pod"',
    ]
