"""Applying the same manifest again, with real Kueue: before, and with Stationmaster.

Without us a user's second ``kubectl apply`` of an unchanged manifest is refused where Kueue has added
its patch entry or rewritten a number (webhook-server.md A.8). With us it is a no-op in every way to apply.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pytest

from tests.e2e import jobs
from tests.e2e.conftest import MakeNamespace
from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.labels import ADMISSION, KUEUE
from tests.e2e.standalone import Standalone

pytestmark = pytest.mark.e2e

IMMUTABLE: Final = "spec.trainer: Invalid value: field is immutable"
FROZEN: Final = "RuntimePatches can only be modified when the TrainJob is suspended"
Done = subprocess.CompletedProcess[str]

LABELLED: Final[Object] = {
    "manager": "example.com/alice",
    "trainingRuntimeSpec": {
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "spec": {"template": {"metadata": {"labels": {"team": "vision"}}}}
                        },
                    }
                ]
            }
        }
    },
}
NUMBER: Final[Object] = {"resourcesPerNode": {"requests": {"cpu": 2}}}
TEXT: Final[Object] = {"resourcesPerNode": {"requests": {"cpu": "2"}}}

MANIFESTS: Final[Mapping[str, Object]] = {
    "plain": {"trainer": TEXT},
    "with a number": {"trainer": NUMBER},
    "with runtimePatches": {"trainer": TEXT, "runtimePatches": [LABELLED]},
    "with both": {"trainer": NUMBER, "runtimePatches": [LABELLED]},
    "without a trainer": {},
}


def client_side(plane: ControlPlane, job: Object) -> Done:
    return plane.kubectl("apply", "-f", "-", user="alice", input=job)


def server_side(plane: ControlPlane, job: Object) -> Done:
    return plane.kubectl("apply", "--server-side", "-f", "-", user="alice", input=job)


def like_argo(plane: ControlPlane, job: Object) -> Done:
    flags = ("--server-side", "--force-conflicts", "--field-manager=argocd-controller")
    return plane.kubectl("apply", *flags, "-f", "-", user="alice", input=job)


def replace(plane: ControlPlane, job: Object) -> Done:
    verb = ("replace", "-f", "-")
    found = plane.admin.find(jobs.TRAINER_API, "TrainJob", "job", job["metadata"]["namespace"])
    return plane.kubectl(*(verb if found else ("create", "-f", "-")), user="alice", input=job)


WAYS: Final[Mapping[str, Callable[[ControlPlane, Object], Done]]] = {
    "client-side": client_side,
    "server-side": server_side,
    "like Argo CD": like_argo,
    "replace": replace,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What happens today: for which manifest, sent how, and what the user reads."""

    manifest: str
    way: str
    says: str


BEFORE: Final = (
    Refused(manifest="with a number", way="client-side", says=IMMUTABLE),
    Refused(manifest="with a number", way="server-side", says=IMMUTABLE),
    Refused(manifest="with runtimePatches", way="client-side", says=FROZEN),
)


def running_job(plane: ControlPlane, namespace: str, manifest: str, way: str) -> Object:
    """Send the manifest once; the job runs, admitted by Kueue."""
    queue = jobs.queue(plane, namespace)
    job = jobs.in_queue(jobs.train_job(namespace, "job", **MANIFESTS[manifest]), queue)
    first = WAYS[way](plane, job)
    assert first.returncode == 0, first.stderr
    jobs.wait_for_pods(plane, namespace, "job")
    # `kubectl replace` reads, then writes: a status write in between is a conflict.
    jobs.settle(plane, namespace, "job")
    return job


@pytest.mark.parametrize("row", BEFORE, ids=lambda row: f"{row.manifest}, {row.way}")
def test_without_us_the_second_apply_is_refused(
    plane: ControlPlane, make_namespace: MakeNamespace, row: Refused
) -> None:
    job = running_job(plane, make_namespace(KUEUE), row.manifest, row.way)

    second = WAYS[row.way](plane, job)

    assert second.returncode != 0
    assert row.says in second.stderr


@pytest.mark.parametrize("way", ["client-side", "server-side"])
def test_without_us_a_plain_manifest_applies_again(
    plane: ControlPlane, make_namespace: MakeNamespace, way: str
) -> None:
    job = running_job(plane, make_namespace(KUEUE), "plain", way)

    second = WAYS[way](plane, job)

    assert second.returncode == 0, second.stderr


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("manifest", MANIFESTS)
def test_with_us_the_second_apply_changes_nothing(
    plane: ControlPlane,
    standalone: Standalone,
    make_namespace: MakeNamespace,
    manifest: str,
    way: str,
) -> None:
    namespace = make_namespace(KUEUE, ADMISSION)
    job = running_job(plane, namespace, manifest, way)
    before = jobs.get(plane, namespace, "job")

    second = WAYS[way](plane, job)

    assert second.returncode == 0, second.stderr
    after = jobs.get(plane, namespace, "job")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert ours(after) == ours(before)
    assert standalone.component.running


def test_with_us_a_suspended_job_applies_again_too(
    plane: ControlPlane, standalone: Standalone, make_namespace: MakeNamespace
) -> None:
    namespace = make_namespace(KUEUE, ADMISSION)
    queue = jobs.queue(plane, namespace, cpu="1")
    job = jobs.in_queue(jobs.train_job(namespace, "job", **MANIFESTS["with both"]), queue)
    assert client_side(plane, job).returncode == 0
    before = jobs.get(plane, namespace, "job")
    assert before["spec"]["suspend"] is True

    second = client_side(plane, job)

    assert second.returncode == 0, second.stderr
    assert jobs.get(plane, namespace, "job")["spec"] == before["spec"]
    assert standalone.component.running


def ours(job: Object) -> Object:
    """The annotations that Stationmaster wrote."""
    annotations: Mapping[str, str] = job["metadata"].get("annotations", {})
    found = {k: v for k, v in annotations.items() if k.startswith("stationmaster.dev/")}
    assert found, json.dumps(job["metadata"])
    return found
