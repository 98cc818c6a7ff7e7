"""The released SDK against the real API server, the Trainer and us: ``train`` with options, then ``get_job``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e import jobs
from tests.e2e.conftest import MakeNamespace
from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.labels import ADMISSION
from tests.gobuild import cache_root

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("standalone")]

SESSION: Final = Path(__file__).parents[1] / "sdk" / "session.py"
SDK: Final = "kubeflow>=0.5,<0.6"
PYTHON_VARIABLE: Final = "STATIONMASTER_SDK_PYTHON"
TOTALS: Final = "stationmaster.dev/podgroup-totals"
SESSION_SECONDS: Final = 600

NODES: Final = {"defaults": 1, "function": 2, "gpus": 2, "container": 3, "options": 1, "mpi": 2}
"""How many nodes the SDK says that each of its calls got."""


@pytest.fixture(scope="module")
def python() -> Path:
    """An interpreter with the SDK, which wants an older Kubernetes client than ours: installed once."""
    if chosen := os.environ.get(PYTHON_VARIABLE):
        return Path(chosen)
    home = cache_root() / "sdk-0.5"
    found, installed = home / "bin" / "python", home / "installed"
    if not installed.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(found), "-m", "pip", "install", "--quiet", SDK], check=True)
        installed.touch()
    return found


@pytest.fixture
def session(plane: ControlPlane, python: Path, make_namespace: MakeNamespace) -> tuple[str, Object]:
    """The namespace, and what the SDK said to a user who may do what data scientists may."""
    namespace = make_namespace(ADMISSION)
    done = subprocess.run(
        [str(python), str(SESSION), str(plane.kubeconfig("alice")), namespace],
        capture_output=True,
        text=True,
        timeout=SESSION_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: Object = json.loads(done.stdout)
    return namespace, said


def test_what_the_sdk_sends_is_completed_runs_and_is_read_back(
    plane: ControlPlane, session: tuple[str, Object]
) -> None:
    namespace, said = session
    calls: dict[str, Any] = said["calls"]

    assert {name: calls[name]["nodes"] for name in NODES} == NODES
    stored = {
        j["metadata"]["name"]: j for j in plane.admin.list(jobs.TRAINER_API, "TrainJob", namespace)
    }
    assert said["listed"] == sorted(stored)
    assert calls["options"]["name"] == "named"
    assert stored["named"]["metadata"]["labels"] == {"team": "nlp"}
    for job in stored.values():
        assert TOTALS in job["metadata"]["annotations"]
    for name, count in NODES.items():
        if name != "mpi":  # its launcher is a pod of its own
            jobs.wait_for_pods(plane, namespace, calls[name]["name"], count=count)
    refused = calls["reserved"]
    assert "spec.trainer.env[0].name: Forbidden: PET_NNODES is set by" in refused["body"]["message"]
