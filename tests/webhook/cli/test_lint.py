from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.webhook.cli.conftest import Run

EXAMPLES = Path(__file__).parents[3] / "examples" / "cluster"
SOUND = """apiVersion: stationmaster.dev/v1alpha1
kind: TrainJobPolicy
metadata: {name: sound}
spec:
  limits:
  - {name: nodes, nodes: {max: 2}}
"""
BROKEN = """# a comment
apiVersion: stationmaster.dev/v1alpha1
kind: TrainJobPolicy
metadata: {name: broken}
spec:
  macth: {}
  validations:
  - name: long
    message: m
    expression: |
      true &&
        object.spec.trainer.numNode > 8
"""
WARNED = """apiVersion: stationmaster.dev/v1alpha1
kind: TrainJobPolicy
metadata: {name: warned}
spec:
  match: {runtimes: [{name: torch-distribute}]}
  overrides:
    podTemplateOverrides:
    - targetJobs:
      - name: nodes
      spec: {nodeSelector: {a: b}}
  rollout:
  - percent: 10
    actions: [Warn]
"""


def write(**files: str) -> None:
    Path("p").mkdir()
    for name, text in files.items():
        Path(f"p/{name}.yaml").write_text(text)


def test_sound_policies(run: Run) -> None:
    write(a=SOUND)
    ran = run("lint", "p")
    assert (ran.code, ran.out, ran.err) == (0, "no mistakes in 1 document\n", [])


def test_mistakes_stand_with_file_line_and_caret(run: Run) -> None:
    write(a=SOUND, b=BROKEN)
    ran = run("lint", "p")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        'p/b.yaml:6: error: spec.macth: Forbidden: unknown field; did you mean "match"? [document]',
        "    macth: {}",
        "p/b.yaml:10: error: spec.validations[0].expression: object.spec.trainer has no field "
        '"numNode": did you mean "numNodes"? [expression]',
        "      object.spec.trainer.numNode > 8",
        "                         ^",
        "2 errors in 2 documents",
    ]


def test_the_same_for_machines(run: Run) -> None:
    write(b=BROKEN)
    ran = run("lint", "p", "-o", "json")
    assert ran.code == 1
    first, second = json.loads(ran.out)
    assert first == {
        "file": "p/b.yaml",
        "line": 6,
        "object": "TrainJobPolicy broken",
        "path": "spec.macth",
        "severity": "error",
        "rule": "document",
        "message": 'Forbidden: unknown field; did you mean "match"?',
    }
    assert second["expression"] == "true &&\n  object.spec.trainer.numNode > 8\n"
    assert second["column"] == 30


def test_warnings_fail_only_if_they_shall(run: Run) -> None:
    write(c=WARNED)
    ran = run("lint", "p")
    assert ran.code == 0
    assert ran.out.splitlines()[0].startswith(
        "p/c.yaml:11: warning: spec.rollout: rollout[0] (Warn)"
    )
    assert ran.out.endswith("1 warning in 1 document\n")
    assert run("lint", "p", "--strict").code == 1


def test_beside_a_cluster_what_is_named_must_be_there(run: Run) -> None:
    write(c=WARNED.replace("torch-distribute}", "torch-distributed}"))
    ran = run("lint", "p", "--from", str(EXAMPLES))
    assert ran.code == 1
    assert (
        "p/c.yaml:9: error: spec.overrides.podTemplateOverrides[0].targetJobs[0].name: "
        'Not found: "nodes": jobs of the runtimes: node [target]'
    ) in ran.out
    missing = run("lint", "p", "--from", "cluster")
    assert (
        'spec.match.runtimes[0]: no runtime is named "torch-distributed"; there are: none [runtime]'
        in missing.out
    )


def test_what_an_older_trainer_has_no_words_for(run: Run) -> None:
    write(c=WARNED)
    assert "[line]" not in run("lint", "p").out
    ran = run("lint", "p", "--trainer-version", "2.0")
    assert ran.code == 1
    assert "Trainer 2.0 takes each job once in podSpecOverrides" in ran.out


def test_policies_of_the_cluster_count_beside_those_that_are_judged(run: Run) -> None:
    label = "spec: {overrides: {labels: {q: %s}}}\n"
    head = SOUND.partition("spec:")[0]
    write(a=head + label % "a")
    Path("cluster/b.yaml").write_text(head.replace("sound", "other") + label % "b")
    ran = run("lint", "p", "--from", "cluster")
    assert ran.code == 1
    assert ran.out.count("[conflict]") == 1
    assert "TrainJobPolicy other has the same priority (0)" in ran.out
    # The same policy in the cluster, as it is before the change, is not another one.
    Path("cluster/b.yaml").write_text(head + label % "b")
    assert run("lint", "p", "--from", "cluster").code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x: [\n", "Error: p/a.yaml:2: "),
        (SOUND + "---\n" + SOUND, "Error: TrainJobPolicy sound is there twice: p/a.yaml:1 and "),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "Error: no policies in p"),
        (
            "apiVersion: kyverno.io/v2\nkind: PolicyException\nmetadata: {name: a}\n",
            "Error: no policies in p",
        ),
    ],
)
def test_what_cannot_be_judged(run: Run, text: str, said: str) -> None:
    write(a=text)
    ran = run("lint", "p")
    assert ran.code == 2
    assert ran.err[0].startswith(said)


def test_a_file_that_cannot_be_read_hides_no_other(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(a=SOUND, b=BROKEN)

    def opened(path: Path, *said: Any, **named: Any) -> Any:
        if path.name == "a.yaml":
            raise PermissionError(13, "Permission denied")
        return open_file(path, *said, **named)

    open_file = Path.open
    monkeypatch.setattr(Path, "open", opened)
    ran = run("lint", "p")
    assert (ran.code, ran.err) == (2, ["Error: p/a.yaml: Permission denied"])
    assert "spec.macth" in ran.out


def test_a_pipe_is_read_once(run: Run) -> None:
    """``stationmaster lint <(kustomize build)``; the line of a mistake cannot be shown."""
    read, write = os.pipe()
    os.write(write, BROKEN.encode())
    os.close(write)
    ran = run("lint", f"/dev/fd/{read}")
    os.close(read)
    assert ran.code == 1
    assert ran.out.splitlines()[0].startswith(f"/dev/fd/{read}:6: error: spec.macth")
    assert "macth: {}" not in ran.out


def test_a_kind_of_our_group_that_does_not_exist(run: Run) -> None:
    write(a=SOUND.replace("TrainJobPolicy", "TrainJobPolcy"))
    ran = run("lint", "p")
    assert ran.code == 1
    assert 'did you mean "TrainJobPolicy"?' in ran.out


def test_expired_exceptions(run: Run) -> None:
    text = SOUND + "  exceptions: {rules: [nodes], longest: 720h}\n"
    text += """---
apiVersion: stationmaster.dev/v1alpha1
kind: PolicyException
metadata: {name: e, namespace: team}
spec:
  policies: [{name: sound}]
  match: {names: [a]}
  owner: o
  reason: r
  expiresAt: "2027-01-01T00:00:00Z"
"""
    write(a=text)
    assert run("lint", "p", "--strict", "--now", "2026-12-31T00:00:00Z").code == 0
    ran = run("lint", "p", "--strict", "--now", "2027-01-01T00:00:00Z")
    assert ran.code == 1
    assert ran.out.splitlines()[0] == (
        "p/a.yaml:17: warning: spec.expiresAt: it expired at 2027-01-01T00:00:00Z [exception]"
    )
