from __future__ import annotations

import json
from pathlib import Path

import pytest

from plugins.framework import field
from plugins.framework.api import names
from plugins.framework.field import Findings, invalid
from tests.webhook.cli.conftest import Run, job, review
from tests.webhook.cli.fakes import UID, Engine, Outcome, complete
from webhook.yamlio import Document, read

ADMIT = ("admit", "-f", "-", "--from", "cluster")
RUNTIME = (
    "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: {name: r}\n"
)


def refusing(*refused: str) -> Engine:
    """An engine that refuses the jobs of these names."""

    def admit(document: Document, old: Document | None) -> Outcome:
        outcome = complete(document, old)
        if outcome.name not in refused:
            return outcome
        error = invalid(field.Path("spec", "trainer", "numNodes"), 0, "must be at least 1")
        findings = Findings([error], ["the runtime is deprecated"])
        return Outcome(name=outcome.name, allowed=False, findings=findings, before=document.obj)

    return Engine(on_admit=admit)


def objects(text: str) -> list[object]:
    return [document.obj for document in read(text, "stdout")]


def test_the_completed_job_is_printed_as_yaml(run: Run, engine: Engine) -> None:
    del engine
    ran = run(*ADMIT, stdin=job())
    assert (ran.code, ran.err) == (0, [])
    assert ran.out == (
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata:\n  name: a\n"
        "  namespace: team\nspec:\n  trainer:\n    numNodes: 1\n"
    )


def test_the_engine_gets_the_folder_the_line_and_the_profile(run: Run, engine: Engine) -> None:
    Path("cluster/r.yaml").write_text(RUNTIME)
    ran = run(*ADMIT, "--trainer-version", "2.1", "--profile", "p.yaml", stdin=job())
    assert ran.code == 0
    assert engine.loaded is not None
    documents, line, profile = engine.loaded
    assert [d.where for d in documents] == ["cluster/r.yaml:1"]
    assert (line, profile) == ("2.1", Path("p.yaml"))


def test_a_refusal_prints_all_findings_and_no_object(run: Run, engine: Engine) -> None:
    engine.on_admit = refusing("a").on_admit
    ran = run(*ADMIT, stdin=job())
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == [
        "Warning: TrainJob team/a: the runtime is deprecated",
        "Error: TrainJob team/a: spec.trainer.numNodes: Invalid value: 0: must be at least 1 (standard input:1)",
    ]


def test_all_documents_are_judged_and_the_highest_code_wins(run: Run, engine: Engine) -> None:
    engine.on_admit = refusing("b").on_admit
    text = "---\n".join([job("a"), job("b"), "x: [\n", job("c")])
    ran = run(*ADMIT, stdin=text)
    assert ran.code == 2
    assert [line.split(":")[0:2] for line in ran.err] == [
        ["Error", " standard input"],
        ["Warning", " TrainJob team/b"],
        ["Error", " TrainJob team/b"],
    ]
    assert [obj["metadata"]["name"] for obj in objects(ran.out)] == ["a", "c"]  # type: ignore[index]  # JSON


def test_one_object_is_printed_as_itself_in_json(run: Run, engine: Engine) -> None:
    del engine
    ran = run(*ADMIT, "-o", "json", stdin=job())
    assert json.loads(ran.out)["kind"] == "TrainJob"


def test_several_objects_are_printed_as_a_list_in_json(run: Run, engine: Engine) -> None:
    engine.on_admit = refusing("b").on_admit
    ran = run(*ADMIT, "-o", "json", stdin=job("a") + "---\n" + job("b"))
    printed = json.loads(ran.out)
    assert (printed["apiVersion"], printed["kind"]) == ("v1", "List")
    assert [item["metadata"]["name"] for item in printed["items"]] == ["a"]


def test_a_patch_is_one_line_an_object(run: Run, engine: Engine) -> None:
    engine.on_admit = refusing("b").on_admit
    ran = run(*ADMIT, "-o", "patch", stdin=job("a") + "---\n" + job("b"))
    assert ran.code == 1
    assert ran.out.splitlines() == [
        '[{"op":"add","path":"/spec/trainer","value":{"numNodes":1}}]',
        "[]",
    ]


def test_a_diff_shows_what_admission_changes(run: Run, engine: Engine) -> None:
    ran = run(*ADMIT, "-o", "diff", stdin=job())
    assert ran.out == (
        "--- TrainJob team/a as sent\n+++ TrainJob team/a as admitted\n@@ -3,3 +3,6 @@\n"
        " metadata:\n   name: a\n   namespace: team\n+spec:\n+  trainer:\n+    numNodes: 1\n"
    )
    engine.on_admit = lambda d, _old: Outcome(before=d.obj, after=d.obj)
    assert run(*ADMIT, "-o", "diff", stdin=job()).out == ""


def test_a_diff_is_coloured_on_a_terminal(
    run: Run, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engine
    monkeypatch.setattr("webhook.cli.output.wants_colour", lambda _stream: True)
    lines = run(*ADMIT, "-o", "diff", stdin=job()).out.splitlines()
    assert lines[1] == "\x1b[1m+++ TrainJob team/a as admitted\x1b[0m"
    assert lines[2:4] == ["\x1b[36m@@ -3,3 +3,6 @@\x1b[0m", " metadata:"]
    assert lines[-1] == "\x1b[32m+    numNodes: 1\x1b[0m"


def test_a_review_holds_the_findings_itself(run: Run, engine: Engine) -> None:
    engine.on_admit = refusing("a").on_admit
    ran = run(*ADMIT, "-o", "review", stdin=job())
    assert (ran.code, ran.err) == (1, [])
    response = json.loads(ran.out)["response"]
    assert response == {"uid": UID, "allowed": False, "warnings": ["the runtime is deprecated"]}


def test_a_delete_has_no_object_to_print(run: Run, engine: Engine) -> None:
    engine.on_admit = lambda _d, _old: Outcome()
    for output in ("yaml", "json", "diff"):
        ran = run(*ADMIT, "-o", output, stdin=review())
        assert (ran.code, ran.out, ran.err) == (0, "", [])


def test_what_is_not_ours_is_skipped_with_a_warning(run: Run, engine: Engine) -> None:
    del engine
    text = "---\n".join(
        [
            "kind: Pod\nmetadata: {name: p}\n",
            "- 1\n",
            job().replace("trainer.kubeflow.org/v1alpha1", "kubeflow.org/v2"),
            job("b"),
            RUNTIME,
            review("c", "Pod"),
        ]
    )
    ran = run(*ADMIT, stdin=text)
    assert ran.code == 0
    kinds = "TrainJob or TrainingRuntime or ClusterTrainingRuntime"
    skipped = "Warning: standard input:"
    assert ran.err == [
        f"{skipped}1: skipped: Pod p is not a {kinds}",
        f"{skipped}4: skipped: it has no kind",
        f'{skipped}6: skipped: TrainJob team/a is of "kubeflow.org/v2", not {names.API_VERSION}',
    ]
    assert len(objects(ran.out)) == 3


@pytest.mark.parametrize(
    "text", ["", "kind: Pod\nmetadata: {name: p}\n", "hello", "kind: List\nitems: []"]
)
def test_a_file_with_nothing_for_us_exits_with_2(run: Run, engine: Engine, text: str) -> None:
    del engine
    ran = run(*ADMIT, stdin=text)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err[-1] == (
        "Error: standard input: no TrainJob or TrainingRuntime or ClusterTrainingRuntime in it"
    )


def test_old_makes_it_an_update(run: Run, engine: Engine) -> None:
    Path("old.yaml").write_text(
        "---\n".join([job("b", "spec: {old: b}\n"), job("a", "spec: {old: a}\n")])
    )
    ran = run(*ADMIT, "--old", "old.yaml", stdin=job("a") + "---\n" + review())
    assert ran.code == 0
    first, second = engine.old
    assert first is not None
    assert first.obj["spec"] == {"old": "a"}
    assert second is None


def test_an_object_that_old_does_not_hold_is_not_taken_for_a_new_one(
    run: Run, engine: Engine
) -> None:
    Path("old.yaml").write_text(job("b"))
    ran = run(*ADMIT, "--old", "old.yaml", stdin=job("a") + "---\n" + job("b"))
    assert ran.code == 2
    assert ran.err == ["Error: TrainJob team/a: old.yaml does not hold it, only TrainJob team/b"]
    assert len(engine.old) == 1


def test_old_must_be_readable(run: Run, engine: Engine) -> None:
    del engine
    assert run(*ADMIT, "--old", "nowhere.yaml", stdin=job()).code == 2


def test_lists_are_taken_apart(run: Run, engine: Engine) -> None:
    del engine
    items = json.dumps([read(job(name), "")[0].obj for name in "ab"])
    ran = run(*ADMIT, stdin=f'{{"apiVersion": "v1", "kind": "List", "items": {items}}}')
    assert (ran.code, len(objects(ran.out))) == (0, 2)


@pytest.mark.parametrize("command", ["admit", "render"])
@pytest.mark.parametrize("given", [True, False])
def test_podgroups_are_corrected_if_that_is_said(
    run: Run, engine: Engine, command: str, *, given: bool
) -> None:
    words = ("--podgroups",) if given else ()
    run(command, "-f", "-", "--from", "cluster", *words, stdin=job())
    assert engine.pod_groups is given
