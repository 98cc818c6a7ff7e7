"""The released SDK against the real API server, the Trainer and us: ``train`` with options, then ``get_job``."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.e2e import jobs, sdk
from tests.e2e.conftest import MakeNamespace
from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.labels import ADMISSION

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("standalone")]

TOTALS: Final = "stationmaster.dev/podgroup-totals"

NODES: Final = {"defaults": 1, "function": 2, "gpus": 2, "container": 3, "options": 1, "mpi": 2}
"""How many nodes the SDK says that each of its calls got."""


@pytest.fixture
def session(plane: ControlPlane, make_namespace: MakeNamespace) -> tuple[str, Object]:
    """The namespace, and what the SDK said to a user who may do what data scientists may."""
    namespace = make_namespace(ADMISSION)
    said: Object = sdk.run(plane, "session.py", namespace)
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
