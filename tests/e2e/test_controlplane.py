"""The control plane by itself: what the other e2e tests stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e import jobs
from tests.e2e.conftest import MakeNamespace
from tests.e2e.controlplane import ApiError, ControlPlane, Programs
from tests.e2e.controlplane.waiting import hold_for, wait_for
from tests.e2e.labels import KUEUE

pytestmark = pytest.mark.e2e


def test_a_train_job_becomes_a_job_set_jobs_and_pods(plane: ControlPlane, namespace: str) -> None:
    job = jobs.train_job(namespace, "chain", trainer={"numNodes": 2})

    created = plane.kubectl("create", "-f", "-", user="alice", input=job)

    assert created.stdout == "trainjob.trainer.kubeflow.org/chain created\n", created.stderr
    assert jobs.jobset(plane, namespace, "chain")["spec"]["replicatedJobs"][0]["name"] == "node"
    pods = jobs.wait_for_pods(plane, namespace, "chain", count=2)
    assert {pod["status"]["phase"] for pod in pods} == {"Pending"}
    assert [j["metadata"]["name"] for j in plane.admin.list("batch/v1", "Job", namespace)] == [
        "chain-node-0"
    ]


def test_kueue_holds_a_train_job_until_its_quota_fits(
    plane: ControlPlane, make_namespace: MakeNamespace
) -> None:
    namespace = make_namespace(KUEUE)
    queue = jobs.queue(plane, namespace, cpu="3")
    trainer = {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": 1}}}

    for name in ("first", "second"):
        plane.admin.create(jobs.in_queue(jobs.train_job(namespace, name, trainer=trainer), queue))

    jobs.wait_for_pods(plane, namespace, "first", count=2)
    workloads = plane.admin.list(jobs.KUEUE_API, "Workload", namespace)
    assert {w["metadata"]["ownerReferences"][0]["name"] for w in workloads} == {"first", "second"}
    assert not jobs.get(plane, namespace, "first")["spec"]["suspend"]
    hold_for(
        lambda: jobs.get(plane, namespace, "second")["spec"]["suspend"] is True,
        "no quota is left for the second",
        seconds=2,
    )
    managers = [p["manager"] for p in jobs.get(plane, namespace, "first")["spec"]["runtimePatches"]]
    assert managers == ["kueue.x-k8s.io/manager"]
    jobset = jobs.jobset(plane, namespace, "first")
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"e2e.stationmaster.dev/flavor": "a"}


def test_webhooks_of_the_controllers_are_called_under_their_installed_names(
    plane: ControlPlane, namespace: str
) -> None:
    mutating, validating = (
        [
            found["metadata"]["name"]
            for found in plane.admin.list("admissionregistration.k8s.io/v1", kind)
            if "stationmaster" not in found["metadata"]["name"]
        ]
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    )
    assert mutating == [
        "defaulter.trainer.kubeflow.org",
        "jobset-mutating-webhook-configuration",
        "kueue-mutating-webhook-configuration",
    ]
    assert validating == [
        "jobset-validating-webhook-configuration",
        "kueue-validating-webhook-configuration",
        "validator.trainer.kubeflow.org",
    ]

    with pytest.raises(ApiError) as refused:
        plane.admin.create(jobs.train_job(namespace, "lost", runtime="no-such-runtime"))
    assert 'webhook "validator.trainjob.trainer.kubeflow.org"' in refused.value.message


def test_controllers_show_under_their_own_names(plane: ControlPlane, namespace: str) -> None:
    plane.admin.create(jobs.train_job(namespace, "named"))
    jobs.wait_for_pods(plane, namespace, "named")

    def user_of(resource: str) -> set[str]:
        events = plane.audit(verb="create", resource=resource, namespace=namespace)
        return {event["user"]["username"] for event in events}

    plane.wait_for(lambda: user_of("pods"), "the audit log to tell of the pods")
    assert user_of("jobs") == {"system:serviceaccount:jobset-system:jobset-controller-manager"}
    assert user_of("pods") == {"system:serviceaccount:kube-system:job-controller"}
    (status,) = {
        event["user"]["username"]
        for event in plane.audit(resource="trainjobs", subresource="status", namespace=namespace)
    }
    assert status == ("system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager")


def test_people_may_make_train_jobs_and_no_runtimes(plane: ControlPlane) -> None:
    assert plane.kubectl("auth", "can-i", "create", "trainjobs", user="bob").stdout == "yes\n"
    runtime = plane.shipped_runtimes()[0]
    refused = plane.kubectl("apply", "-f", "-", user="bob", input=runtime)
    assert "(Forbidden)" in refused.stderr, refused


def test_a_job_runs_to_its_end_when_the_kubelet_is_played(
    plane: ControlPlane, namespace: str
) -> None:
    plane.admin.create(jobs.train_job(namespace, "ends", runtime="jax-distributed"))

    jobs.finish(plane, namespace, "ends")

    assert {p["status"]["phase"] for p in jobs.pods(plane, namespace)} == {"Succeeded"}


def test_faults_on_demand(tmp_path: Path) -> None:
    with ControlPlane(tmp_path) as plane:
        namespace = plane.namespace("faults")
        plane.admin.create(jobs.train_job(namespace, "kept"))

        plane.apiserver.kill()
        assert not plane.apiserver.is_ready()
        assert "refused" in plane.kubectl("get", "trainjobs", "-n", namespace).stderr
        plane.apiserver.start()
        assert jobs.get(plane, namespace, "kept")["metadata"]["name"] == "kept"

        plane.etcd.pause()
        stuck = plane.kubectl("get", "trainjobs", "-n", namespace, "--request-timeout=1s")
        assert stuck.returncode != 0, stuck
        plane.etcd.resume()
        plane.wait_for(lambda: jobs.get(plane, namespace, "kept"), "etcd to answer again")

        plane.etcd.restart()
        plane.wait_for(lambda: jobs.get(plane, namespace, "kept"), "etcd to be found again")
        pids = [component.pid for component in plane.components.values()]

    assert not any(map(exists, pids))


def test_nothing_outlives_a_killed_owner(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.e2e.controlplane.process import Component, Guard\n"
        "guard, log = Guard(), Path(sys.argv[1])\n"
        "for name in ('runs', 'paused'):\n"
        "    component = Component(name, ['sleep', '600'], log=log, guard=guard, ready=lambda: True)\n"
        "    print(component.start().pid, flush=True)\n"
        "component.pause()\n"
        "time.sleep(600)\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        pids = [int(owner.stdout.readline()) for _ in range(2)]
        assert all(map(exists, pids))
        owner.send_signal(signal.SIGKILL)

    wait_for(lambda: not any(map(exists, pids)), "the guard to end them")


def test_assets_of_the_user_come_first(tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.touch(mode=0o755)

    programs = Programs(environ={**os.environ, "KUBEBUILDER_ASSETS": str(tmp_path)})

    assert programs.path("kubectl") == kubectl
    assert programs.path("etcd").parent != tmp_path


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
