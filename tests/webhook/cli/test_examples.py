"""The command line over the shipped examples, with the real engine behind it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plugins.framework.api import names
from tests.webhook.cli.conftest import Run
from webhook.files import read_tree
from webhook.yamlio import load, read

ROOT = Path(__file__).parents[3]
CLUSTER = ROOT / "examples" / "cluster"
JOBS = ROOT / "examples" / "trainjobs"
REFUSED = JOBS / "refused.yaml"
ADMITTED = sorted(path for path in JOBS.iterdir() if path != REFUSED)
RUNTIMES = [d for d in read_tree(CLUSTER) if d.obj["kind"] in names.RUNTIME_KINDS]

TRAIN_JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: NAME, namespace: team-vision}
spec: {runtimeRef: {name: RUNTIME}}
"""


def job(name: str, runtime: str = "plain") -> str:
    return TRAIN_JOB.replace("NAME", name).replace("RUNTIME", runtime)


@pytest.mark.parametrize("policy", ["torch", "mpi", "jax", "xgboost", "flux", ""])
def test_each_ml_policy_has_a_runtime(policy: str) -> None:
    found = [set(d.obj["spec"]["mlPolicy"]) - {"numNodes"} for d in RUNTIMES]
    assert ({policy} if policy else set()) in found


def test_each_runtime_has_a_train_job() -> None:
    jobs = [load(path.read_bytes()) for path in ADMITTED]
    assert {d.obj["metadata"]["name"] for d in RUNTIMES} == {
        j["spec"]["runtimeRef"]["name"] for j in jobs
    }


@pytest.mark.parametrize("document", RUNTIMES, ids=lambda d: d.obj["metadata"]["name"])
def test_each_runtime_is_admitted_without_a_warning(document: Any, run: Run) -> None:
    ran = run("admit", "-f", document.source, "--from", str(CLUSTER), "-o", "patch")
    assert (ran.code, ran.out, ran.err) == (0, "[]\n", [])
    assert document.obj["metadata"]["labels"]["trainer.kubeflow.org/framework"]


@pytest.mark.parametrize("path", ADMITTED, ids=lambda path: path.stem)
def test_each_train_job_is_admitted_and_then_left_alone(path: Path, run: Run) -> None:
    first = run("admit", "-f", str(path), "--from", str(CLUSTER))
    assert (first.code, first.err) == (0, [])
    again = run("admit", "-f", "-", "--from", str(CLUSTER), "-o", "patch", stdin=first.out)
    assert (again.code, again.out, again.err) == (0, "[]\n", [])


@pytest.mark.parametrize("path", ADMITTED, ids=lambda path: path.stem)
def test_each_train_job_renders_the_same_with_and_without_admission(path: Path, run: Run) -> None:
    given = run("render", "-f", str(path), "--from", str(CLUSTER))
    assert (given.code, given.err) == (0, [])
    kinds = [document.obj["kind"] for document in read(given.out, "stdout")]
    assert kinds.count("JobSet") == 1
    if (
        "defaults" not in path.stem
    ):  # which is not what the Trainer builds for a job without spec.trainer
        admitted = run("render", "-f", str(path), "--from", str(CLUSTER), "--admitted")
        assert admitted.out == given.out


def test_the_refused_train_job_hears_all_of_its_mistakes_with_their_lines(run: Run) -> None:
    ran = run("admit", "-f", str(REFUSED), "--from", str(CLUSTER))
    assert (ran.code, ran.out) == (1, "")
    errors = [line for line in ran.err if line.startswith("Error: TrainJob team-vision/refused: ")]
    text = REFUSED.read_text().splitlines()
    places = {}
    for error in errors:
        place, _, number = error.rstrip(")").rpartition(" (")[2].rpartition(":")
        assert place == str(REFUSED)
        places[text[int(number) - 1].strip()] = error
    assert list(places) == [
        "numNodes: 0",
        "- manager: resnet",
        "- name: worker",
        "- name: sidecar",
        "- name: PET_NNODES",
        "memory: 64Gi",
    ]


@pytest.mark.parametrize("output", ["table", "yaml", "json"])
def test_explain_knows_each_layer_of_the_torch_example(output: str, run: Run) -> None:
    ran = run("explain", "-f", str(JOBS / "torch.yaml"), "--from", str(CLUSTER), "-o", output)
    assert (ran.code, ran.err) == (0, [])
    for word in ("PodGroupTotals", "PET_NNODES", "example.com/pool", "LEARNING_RATE", "runtime"):
        assert word in ran.out


def test_one_bad_document_does_not_hide_the_others(run: Run) -> None:
    """Fault B053 (kubeflow/sdk#797): one good result, two reported errors."""
    text = f"{job('good')}---{job('lost', 'gone')}---\nbroken: [\n"
    ran = run("admit", "-f", "-", "--from", str(CLUSTER), "-o", "json", stdin=text)
    assert ran.code == 2
    assert [item["metadata"]["name"] for item in json.loads(ran.out)["items"]] == ["good"]
    assert [line.split(": ")[1] for line in ran.err] == [
        "standard input:13",
        "TrainJob team-vision/lost",
    ]


def test_yaml_types_are_judged_as_the_api_server_judges_them(run: Run) -> None:
    """Fault B158 (helm/helm#8294): ``no`` and ``0123`` are no strings, ``12:30`` and dates are."""
    text = (
        "apiVersion: trainer.kubeflow.org/v1alpha1\n"
        "kind: TrainJob\n"
        "metadata:\n"
        "  name: typed\n"
        "  labels:\n"
        "    release: no\n"
        "  annotations:\n"
        "    on: yes\n"
        "    date: 2024-01-01\n"
        "spec:\n"
        "  runtimeRef: {name: plain}\n"
        "  trainer:\n"
        "    args: [12:30]\n"
        "    env:\n"
        "    - name: CODE\n"
        "      value: 0123\n"
    )
    ran = run("admit", "-f", "-", "--from", str(CLUSTER), stdin=text)
    assert (ran.code, ran.out) == (1, "")
    assert {line.split(": ")[2]: line.rpartition(" ")[2] for line in ran.err} == {
        "metadata.labels[release]": "input:6)",
        "metadata.annotations[true]": "input:8)",
        "spec.trainer.env[0].value": "input:16)",
    }
    assert all("string" in line for line in ran.err)


def test_the_console_scripts_are_installed() -> None:
    for name in ("stationmaster", "kubectl-stationmaster"):
        script = shutil.which(name, path=str(Path(sys.executable).parent))
        if script is None:
            pytest.skip("not installed, only on the path")
        ran = subprocess.run([script, "--help"], capture_output=True, text=True, check=True)
        assert ran.stdout.startswith(f"Usage: {name.replace('-', ' ')} [OPTIONS]")
