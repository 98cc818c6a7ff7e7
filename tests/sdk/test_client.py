"""The released SDK, whole, against a server with our webhook: nothing changes for its users."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json
from tests.sdk import bodies, environments
from tests.sdk.kubeapi import Cluster, served

SESSION = Path(__file__).with_name("session.py")
VERSION = "0.5.0"

pytestmark = [
    pytest.mark.skipif(
        not environments.is_asked_for() or not environments.is_installed(VERSION),
        reason="runs the whole SDK: make sdk",
    ),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """The server's memory, full after the session."""
    return Cluster(bodies.runtimes("2.3"))


@pytest.fixture(scope="module")
def session(cluster: Cluster) -> Json:
    """All that the SDK said."""
    with served(cluster) as url:
        done = subprocess.run(
            [environments.python(VERSION), SESSION, url],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    said: Json = json.loads(done.stdout)
    return said


# What the SDK calls a device follows the pod's limits; how many there are, PET_NPROC_PER_NODE.
NODES: dict[str, tuple[int, list[Any]]] = {
    "defaults": (1, [["node-0", "Running", "Unknown", "1"]]),
    "function": (2, [[f"node-{i}", "Running", "cpu", "2"] for i in range(2)]),
    "gpus": (2, [[f"node-{i}", "Running", "gpu", "4"] for i in range(2)]),
    "container": (3, [[f"node-{i}", "Running", "Unknown", "1"] for i in range(3)]),
    "options": (1, [["node-0", "Running", "Unknown", "1"]]),
    "mpi": (2, [["node-0", "Running", "gpu", "1"], ["node-1", "Running", "gpu", "1"]]),
}


@pytest.mark.parametrize("call", NODES)
def test_a_job_is_trained_and_read_back(session: Json, call: str) -> None:
    said = session["calls"][call]
    assert (said["nodes"], said["steps"]) == NODES[call]


def test_a_builtin_trainer_is_read_back_with_its_initializers(session: Json) -> None:
    steps = [step[0] for step in session["calls"]["torchtune"]["steps"]]
    assert steps == ["dataset-initializer", "model-initializer", "node-0"]


def test_all_of_them_are_listed(session: Json, cluster: Cluster) -> None:
    assert session["listed"] == sorted(cluster.jobs)
    assert len(session["listed"]) == len(session["calls"]) - 1
    assert "torch-distributed" in session["runtimes"]


def test_every_stored_job_was_completed_by_us(session: Json, cluster: Cluster) -> None:
    assert session
    for job in cluster.jobs.values():
        assert "stationmaster.dev/podgroup-totals" in job["metadata"]["annotations"]
        assert "trainer" in job["spec"]


def test_a_name_that_the_user_chose_is_kept(session: Json, cluster: Cluster) -> None:
    assert session["calls"]["options"]["name"] == "named"
    assert cluster.jobs["named"]["metadata"]["labels"] == {"team": "nlp"}


def test_a_refusal_is_whole_in_the_body(session: Json) -> None:
    """The error itself says little; what it carries can be read alone."""
    refused = session["calls"]["reserved"]
    assert refused["error"].startswith("Failed to create TrainJob: team-a/")
    assert "spec.trainer.env[0].name: Forbidden: PET_NNODES is set by" in refused["body"]["message"]
    assert refused["body"]["reason"] == "Invalid"
