"""Known faults of the command line and of YAML, with the real engine: B053, B063, B080, B157, B158."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from plugins.framework.values import same
from tests.builders import Json, MakeTrainJob, make_runtime
from tests.faults.kit import p, rt_init, rt_mpi, rt_torch, tj
from tests.folder import Folder, texts
from tests.reviews.desk import Desk, apply, create
from webhook import yamlio
from webhook.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that holds ``base-torch``."""
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    (cluster / "runtime.yaml").write_text(yamlio.dump(rt_torch().obj))
    return cluster


def test_b053_one_bad_document_does_not_hide_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = folder.parent / "jobs.yaml"
    good, lost = yamlio.dump(tj(rt_torch()).obj), yamlio.dump(tj(rt_torch()).runtime("gone").obj)
    jobs.write_text(f"{good}---\n{lost}---\n: [ not\n")
    code = main(["admit", "-f", str(jobs), "--from", str(folder), "-o", "json"])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out.count('"kind": "TrainJob"') == 1
    errors = [line for line in captured.err.splitlines() if line.startswith("Error:")]
    assert len(errors) == 2
    assert any("jobs.yaml:" in e for e in errors)
    assert any('Not found: "gone"' in e for e in errors)


def test_b080_the_printed_patch_applies_in_its_order(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = folder.parent / "job.json"
    job.write_bytes(orjson.dumps(tj(rt_torch()).obj))
    words = ["admit", "-f", str(job), "--from", str(folder)]
    assert main([*words, "-o", "patch"]) == 0
    patch = orjson.loads(capsys.readouterr().out)
    outcome = Folder.of(rt_torch()).admit(tj(rt_torch()))
    assert outcome.before is not None
    assert main([*words, "-o", "json"]) == 0
    as_json = orjson.loads(capsys.readouterr().out)
    assert main([*words, "-o", "yaml"]) == 0
    assert same(yamlio.load(capsys.readouterr().out), as_json)
    assert same(apply(outcome.before, patch), as_json)


SAMPLES: dict[str, tuple[Any, MakeTrainJob]] = {
    "allowed": (rt_torch(), tj(rt_torch())),
    "warned": (rt_torch(), tj(rt_torch()).resources(limits={"memory": "64Gi"})),
    "patched by two": (
        rt_torch(),
        p(
            p(tj(rt_torch()), "a.example/m", "node", {"nodeSelector": {"z": "1"}}),
            "b.example/m",
            "node",
            {"nodeSelector": {"z": "2"}},
        ),
    ),
    "refused thrice": (
        rt_torch(),
        p(tj(rt_torch()).nodes(-1).env("PET_NNODES", "1"), "x", "nodee", {}),
    ),
    "without its runtime": (rt_mpi(), tj(rt_torch())),
    "with initializers": (
        rt_init(),
        tj(rt_init()).initializer("dataset", storageUri="hf://a/b"),
    ),
    "with a status": (rt_torch(), tj(rt_torch()).condition("Suspended")),
}


@pytest.mark.parametrize(("runtime", "job"), SAMPLES.values(), ids=SAMPLES)
def test_b157_files_and_the_webhook_are_of_one_mind(runtime: Any, job: MakeTrainJob) -> None:
    outcome = Folder.of(runtime).admit(job)
    assert outcome.before is not None
    reply = Desk.of(runtime).mutate(create(outcome.before))
    assert outcome.allowed == reply.allowed
    assert outcome.findings.warnings == reply.warnings
    assert (outcome.patch or None) == reply.patch
    causes = outcome.review["response"].get("status", {}).get("details", {}).get("causes", [])
    theirs = reply.response.get("status", {}).get("details", {}).get("causes", [])
    # The same findings; in a file the API server's own word comes first.
    assert sorted(map(str, causes)) == sorted(map(str, theirs))


def test_b157_an_object_without_a_namespace_goes_where_kubectl_puts_it() -> None:
    runtime = make_runtime("own").torch().node().namespaced("default")
    job = tj(rt_torch()).runtime("own", "TrainingRuntime").without("metadata", "namespace")
    assert Folder.of(runtime).admit(job).allowed


WORDS = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: demo
  labels:
    release: no
  annotations:
    on: yes
    clock: 12:30
    day: 2024-01-01
spec:
  runtimeRef: {name: base-torch}
  trainer:
    env:
      - {name: A, value: 0123}
    args: [12:30, yes]
"""


def test_b158_words_that_yaml_takes_for_something_else_are_named() -> None:
    raw: Json = yamlio.load(WORDS)
    found = texts(Folder.of(rt_torch()).admit(raw).findings.errors)
    places = [text.split(":", 1)[0] for text in found]
    assert places == [
        "metadata.labels[release]",
        "metadata.annotations[true]",
        "spec.trainer.args[1]",
        "spec.trainer.env[0].value",
    ]
    assert all("string" in text for text in found)
