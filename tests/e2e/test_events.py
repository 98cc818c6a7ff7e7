"""What the Trainer and JobSet fail at, told where ``kubectl describe trainjob`` and the SDK look for it.

Two replicas as our manifests deploy them, on a control plane of its own: the one that holds the Lease writes the Events.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from tests.e2e import jobs, sdk
from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.controlplane.network import Network
from tests.e2e.deployed import USER, Deployed

pytestmark = pytest.mark.e2e

RUNTIME: Final = "one-try"
SEEN_SECONDS: Final = 120.0
"""The condition of a job is told ten seconds after it, if nothing else was; several compiles may run beside."""


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    home = tmp_path_factory.mktemp("events")
    with (
        Network() as network,
        ControlPlane(home / "plane", apiserver_environ=network.environ) as plane,
    ):
        plane.start_jobset()
        plane.start_trainer()
        shipped = plane.install_runtimes()
        plane.admin.create(one_try(shipped))
        made = Deployed(plane, network, home / "account")
        made.scale(2)
        made.wait_until_armed()
        yield made


def one_try(shipped: Sequence[Object]) -> Object:
    """The shipped runtime for torch, whose Job fails with its first Pod."""
    (torch,) = (each for each in shipped if each["metadata"]["name"] == "torch-distributed")
    spec = torch["spec"]
    template = spec["template"]["spec"]
    (job,) = template["replicatedJobs"]
    pods = {**job["template"]["spec"], "backoffLimit": 0}
    job = {**job, "template": {**job["template"], "spec": pods}}
    return {
        **torch,
        "metadata": {"name": RUNTIME, "labels": torch["metadata"]["labels"]},
        "spec": {**spec, "template": {"spec": {**template, "replicatedJobs": [job]}}},
    }


@pytest.fixture
def namespace(deployed: Deployed) -> str:
    return deployed.plane.namespace(f"events-{secrets.token_hex(4)}")


def events_of(plane: ControlPlane, namespace: str, name: str) -> list[Object]:
    """All about a TrainJob or its JobSet."""
    return [
        each
        for each in plane.admin.list("v1", "Event", namespace)
        if each["involvedObject"]["name"] == name
        and each["involvedObject"]["kind"] in {"TrainJob", "JobSet"}
    ]


def ours(plane: ControlPlane, namespace: str, name: str) -> list[Object]:
    return [
        each
        for each in events_of(plane, namespace, name)
        if each["source"].get("component") == "stationmaster"
    ]


def wait_for(plane: ControlPlane, namespace: str, name: str, reason: str) -> Object:
    """The one Event of ours with this reason."""

    def found() -> Object | None:
        with_reason = [e for e in ours(plane, namespace, name) if e["reason"] == reason]
        return with_reason[0] if with_reason else None

    return plane.wait_for(found, f"{reason} of {name}", timeout_seconds=SEEN_SECONDS)


def is_of_the_older_form(event: Object) -> bool:
    return bool(event["firstTimestamp"] and event["lastTimestamp"] and event["count"] >= 1)


@pytest.fixture
def failed(deployed: Deployed, namespace: str) -> str:
    """A namespace with three jobs that fail: in the Trainer, after their deadline, by their Pod."""
    plane = deployed.plane
    snapshot = {"name": "stuck-runtime-snapshot", "namespace": namespace}
    plane.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": snapshot})
    plane.admin.create(jobs.train_job(namespace, "stuck"))
    plane.admin.create(jobs.train_job(namespace, "late", activeDeadlineSeconds=2))
    plane.admin.create(jobs.train_job(namespace, "broken", runtime=RUNTIME))
    jobs.play_kubelet(plane, jobs.wait_for_pods(plane, namespace, "broken"), "Failed")
    return namespace


REASONS: Final = {
    "stuck": "TrainJobResourcesCreationFailed",
    "late": "DeadlineExceeded",
    "broken": "FailedJobs",
}


def test_what_failed_is_told_once_each_and_the_sdk_shows_it(
    deployed: Deployed, failed: str
) -> None:
    plane = deployed.plane
    told = {name: wait_for(plane, failed, name, reason) for name, reason in REASONS.items()}

    for name, event in told.items():
        others = [e for e in events_of(plane, failed, name) if e not in ours(plane, failed, name)]
        assert not any(is_of_the_older_form(each) for each in others), "then we are not needed"
        assert is_of_the_older_form(event)
        involved, job = event["involvedObject"], jobs.get(plane, failed, name)
        assert (involved["kind"], involved["uid"]) == ("TrainJob", job["metadata"]["uid"])
        assert involved["resourceVersion"]
        assert (event["type"], event["reportingComponent"]) == ("Warning", "stationmaster")
        assert ours(plane, failed, name) == [event]
    assert told["broken"]["message"].startswith("JobSet broken: jobset failed")
    assert told["broken"]["related"]["kind"] == "JobSet"

    said = sdk.run(plane, "events.py", failed, *REASONS)
    for name, reason in REASONS.items():
        shown = [each for each in said[name] if each[0] == "TrainJob"]
        assert shown == [["TrainJob", reason, told[name]["message"]]]

    described = plane.kubectl("describe", "trainjob", "broken", "--namespace", failed).stdout
    assert "FailedJobs" in described.partition("Events:")[2]


def test_a_job_that_jobset_cannot_create_is_told_and_counted(
    deployed: Deployed, namespace: str
) -> None:
    plane = deployed.plane
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": namespace},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }
    plane.admin.create(quota)
    plane.wait_for(
        lambda: plane.admin.get("v1", "ResourceQuota", "none", namespace)["status"].get("hard"),
        "the quota",
    )
    plane.admin.create(jobs.train_job(namespace, "full"))
    event = wait_for(plane, namespace, "full", "JobCreationFailed")

    assert "exceeded quota" in event["message"]
    assert event["message"].startswith("JobSet full: ")
    # JobSet tries again at once, and says so by a series.
    plane.wait_for(
        lambda: ours(plane, namespace, "full")[0]["count"] >= 2,
        "the second time",
        timeout_seconds=SEEN_SECONDS,
    )
    assert len(ours(plane, namespace, "full")) == 1


def test_who_takes_over_tells_nothing_twice_and_goes_on(deployed: Deployed, failed: str) -> None:
    plane = deployed.plane
    for name, reason in REASONS.items():
        wait_for(plane, failed, name, reason)
    # Later occurrences of this one are many and come by themselves; the other two are over.
    settled = {name: ours(plane, failed, name) for name in ("late", "broken")}
    before = set(deployed.replicas)

    deployed.restart()
    assert not before & set(deployed.replicas)
    plane.admin.create(jobs.train_job(failed, "later", activeDeadlineSeconds=2))
    event = wait_for(plane, failed, "later", "DeadlineExceeded")

    assert event["reportingInstance"].rpartition("_")[0] in deployed.replicas
    assert {name: ours(plane, failed, name) for name in settled} == settled
    (stuck,) = ours(plane, failed, "stuck")
    assert stuck["reason"] == REASONS["stuck"]


def test_the_rights_of_the_manifests_are_enough(deployed: Deployed, failed: str) -> None:
    wait_for(deployed.plane, failed, "late", REASONS["late"])
    asked = deployed.plane.audit(user=USER, resource="events")

    verbs = {each["verb"] for each in asked}
    assert {"list", "create"} <= verbs <= {"list", "watch", "create", "patch"}
    assert {each["responseStatus"]["code"] for each in asked} <= {200, 201, 409, 422}
    assert all(each.says("healthz")[0] == 200 for each in deployed.replicas.values())
