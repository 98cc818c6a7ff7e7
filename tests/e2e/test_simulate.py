"""``stationmaster simulate --cluster`` of a real API server: what it says, and that it only reads.

On a control plane of its own, without controllers and without a Stationmaster: who asks is the command alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.builders import Json
from tests.e2e.controlplane import ControlPlane
from tests.e2e.controlplane.users import MASTERS, User

pytestmark = pytest.mark.e2e

ENGINEER: Final = "engineer"
NOBODY: Final = "visitor"
NAMESPACE: Final = "team-vision"
JOBS: Final = 230
"""More than two pages."""
CRDS: Final = Path(__file__).parents[2] / "deploy" / "kustomize" / "base" / "crds"


def policy(most: int) -> Json:
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "TrainJobPolicy",
        "metadata": {"name": "rules"},
        "spec": {
            "limits": [{"name": "nodes", "nodes": {"max": most}}],
            "match": {"namespaceSelector": {"matchLabels": {"tier": "research"}}},
        },
    }


def job(number: int) -> Json:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": f"job-{number:03}", "namespace": NAMESPACE},
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {"numNodes": 4 if number % 10 == 0 else 1},
        },
    }


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    users = [
        User(alias=ENGINEER, name=ENGINEER, groups=(MASTERS,)),
        User(alias=NOBODY, name=NOBODY, groups=()),
    ]
    with ControlPlane(tmp_path_factory.mktemp("simulate"), extra_users=users) as plane:
        for file in sorted(CRDS.glob("*.yaml")):
            crd = yaml.safe_load(file.read_text())
            plane.admin.apply(crd)
            plane.wait_established(crd["metadata"]["name"])
        plane.apply(plane.shipped_runtimes())
        plane.namespace(NAMESPACE, {"tier": "research"})
        plane.admin.create(policy(8))
        for number in range(JOBS):
            plane.admin.create(job(number))
        yield plane


def simulate(
    plane: ControlPlane, file: Path, *flags: str, user: str = ENGINEER
) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig(user))}
    command = [
        sys.executable,
        "-m",
        "webhook.cli",
        "simulate",
        "-p",
        str(file),
        "--cluster",
        *flags,
    ]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def written(folder: Path, document: Json) -> Path:
    file = folder / "new.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def test_every_train_job_is_judged_and_nothing_is_written(
    plane: ControlPlane, tmp_path: Path
) -> None:
    done = simulate(plane, written(tmp_path, policy(2)), "-o", "json")

    assert (done.returncode, done.stderr) == (1, "")
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["policies"]["changed"] == ["TrainJobPolicy rules"]
    assert found["trainJobs"] == JOBS
    assert found["ifCreatedAgain"] == {
        "trainJobs": {"newly refused": JOBS // 10},
        "byPolicy": [
            {
                "namespace": NAMESPACE,
                "policy": "rules/nodes",
                "what": "newly refused",
                "trainJobs": JOBS // 10,
            }
        ],
    }
    assert found["withNextChange"] == {"trainJobs": {}, "byPolicy": []}
    # Reads are not in the audit log. What that user writes is, and this comes after all that the command did.
    plane.client(ENGINEER).create(job(JOBS), dry_run=True)
    plane.wait_for(lambda: bool(plane.audit(user=ENGINEER)), "the audit log")
    assert [event["verb"] for event in plane.audit(user=ENGINEER)] == ["create"]


def test_what_is_stored_already_changes_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    """Also as the API server gives it back, with its defaults in it."""
    done = simulate(plane, written(tmp_path, policy(8)))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("POLICIES\nthe same (1)\n")
    assert f"{JOBS} TrainJobs judged" in done.stdout


def test_who_may_not_read_hears_which_right_is_missing(plane: ControlPlane, tmp_path: Path) -> None:
    done = simulate(plane, written(tmp_path, policy(2)), user=NOBODY)
    assert (done.returncode, done.stdout) == (2, "")
    assert "may not list customresourcedefinitions in all namespaces: 403" in done.stderr
