"""PodGroups that the real Trainer makes, corrected by the manifests' own registration and rights.

On a control plane of its own, without Kueue. Stationmaster acts in the namespaces with the labels `ADMISSION`
only, so that what the Trainer makes by itself stands beside what it is corrected to.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.deploy import tools
from tests.e2e import jobs
from tests.e2e.conftest import MakeNamespace
from tests.e2e.controlplane import Component, ControlPlane, Object, manifests, users
from tests.e2e.controlplane.manifests import Endpoint
from tests.e2e.controlplane.process import free_port
from tests.e2e.labels import ADMISSION

pytestmark = pytest.mark.e2e

TRAINER: Final = "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager"
COSCHEDULING: Final = "scheduling.x-k8s.io/v1alpha1"
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
APIS: Final = {"coscheduling": COSCHEDULING, "volcano": VOLCANO}
ENTRY: Final = "podgroups.stationmaster.dev"

INSTALLED: Final = frozenset(
    {
        *("Namespace", "ServiceAccount"),
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    }
)
"""Of the manifests; the program runs beside the cluster, with a certificate of the plane's."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("podgroups-plane")) as plane:
        plane.start_jobset()
        plane.start_trainer()
        for policy in APIS:
            for name in ("deepspeed-distributed", "torchtune-llama3.2-1b", "torch-distributed"):
                plane.apply(gang(plane, name, policy))
        yield plane


@dataclass(frozen=True, slots=True)
class Served:
    """The webhook beside the cluster."""

    component: Component


@pytest.fixture(scope="module", autouse=True)
def served(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Installed by the manifests, with the component."""
    home = tmp_path_factory.mktemp("podgroups")
    kubectl = str(plane.programs.path("kubectl"))
    rendered = tools.with_components(kubectl, home, "self-managed", "podgroups")
    plane.apply(manifests.of_kind(rendered, INSTALLED))
    certificates, port, health = home / "certificates", free_port(), free_port()
    plane.authority.write(certificates)
    command = [
        *(sys.executable, "-m", "webhook.cli", "serve"),
        f"--kubeconfig={plane.kubeconfig(users.STATIONMASTER)}",
        f"--listen=127.0.0.1:{port}",
        f"--health-listen=127.0.0.1:{health}",
        f"--cert-files={certificates}",
        "--podgroups",
        "--log-level=debug",
    ]
    component = plane.add(
        "stationmaster", command, ready=lambda: _answers(f"http://127.0.0.1:{health}/readyz")
    )
    endpoint = Endpoint(port=port, ca=plane.authority.pem)
    configurations = [
        manifests.at_endpoint(each, endpoint, selector=ADMISSION)
        for each in manifests.of_kind(rendered, manifests.WEBHOOK_KINDS)
    ]
    with component:
        plane.register(*configurations)
        yield Served(component)
        plane.unregister(*configurations)


@pytest.fixture
def namespace(make_namespace: MakeNamespace) -> str:
    """A namespace in which PodGroups are corrected."""
    return make_namespace(ADMISSION)


@pytest.fixture
def uncorrected(make_namespace: MakeNamespace) -> str:
    """One in which they are not."""
    return make_namespace()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def gang(plane: ControlPlane, name: str, policy: str) -> Object:
    """A shipped runtime with a gang policy, whose containers have a limit and ask for no CPU."""
    [shipped] = [r for r in plane.shipped_runtimes() if r["metadata"]["name"] == name]
    runtime = named(shipped, title(name, policy))
    runtime["spec"]["podGroupPolicy"] = {policy: {}}
    for pod in pods_of(runtime):
        for container in pod["containers"]:
            container["resources"] = {"limits": {"cpu": "2"}}
    return runtime


def named(runtime: Object, name: str) -> Object:
    """A copy under another name."""
    return {
        "apiVersion": jobs.TRAINER_API,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": deepcopy(runtime["spec"]),
    }


def pods_of(runtime: Object) -> list[Object]:
    """The pod specs of a runtime."""
    listed = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    return [job["template"]["spec"]["template"]["spec"] for job in listed]


def title(name: str, policy: str) -> str:
    """In front, since the end of the name tells the Trainer which model torchtune is to tune."""
    return f"{policy}-{name}"


def group(
    plane: ControlPlane, namespace: str, policy: str = "coscheduling", *, name: str = "job"
) -> Object:
    """The PodGroup of a job, once it is there."""
    return plane.wait_for(
        lambda: plane.admin.find(APIS[policy], "PodGroup", name, namespace), "the PodGroup"
    )


def asked(podgroup: Object) -> tuple[int, Object]:
    """What it asks for."""
    spec = podgroup["spec"]
    return spec["minMember"], spec.get("minResources", {})


def submit(plane: ControlPlane, namespace: str, runtime: str, nodes: int, **spec: Any) -> None:
    """Create the TrainJob ``job``."""
    job = jobs.train_job(namespace, "job", runtime=runtime, trainer={"numNodes": nodes}, **spec)
    plane.admin.create(job)


def sent(plane: ControlPlane, namespace: str) -> list[Object]:
    """What was written to PodGroups, as the audit log has it."""
    return [
        event
        for event in plane.audit(namespace=namespace, resource="podgroups")
        if event["verb"] in {"create", "update", "patch"}
    ]


def is_changed_by_us(event: Object) -> bool:
    """Whether our entry was called, and wrote."""
    said = [json.loads(v) for v in event.get("annotations", {}).values() if ENTRY in v]
    return any(each.get("mutated") for each in said)


def is_seen_by_us(event: Object) -> bool:
    """Whether our entry was called."""
    return any(ENTRY in value for value in event.get("annotations", {}).values())


def reapply(plane: ControlPlane, namespace: str) -> None:
    """Have the Trainer apply the PodGroup of a suspended job again: a LimitRange has changed, of volumes."""
    before = len(sent_by_trainer(plane, namespace))
    plane.apply(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": f"volumes-{before}", "namespace": namespace},
            "spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Ti"}}]},
        }
    )
    plane.wait_for(
        lambda: len(sent_by_trainer(plane, namespace)) > before, "the Trainer to apply it again"
    )


def sent_by_trainer(plane: ControlPlane, namespace: str) -> list[Object]:
    """The same, as far as the Trainer wrote it."""
    return [event for event in sent(plane, namespace) if event["user"]["username"] == TRAINER]


@pytest.mark.parametrize("policy", APIS)
def test_an_mpi_gang_can_be_complete(
    plane: ControlPlane, namespace: str, uncorrected: str, policy: str
) -> None:
    """The launcher's pod is made once the workers are ready: who waits for it waits for ever."""
    runtime = title("deepspeed-distributed", policy)
    for each in (namespace, uncorrected):
        submit(plane, each, runtime, 3)
        jobs.wait_for_pods(plane, each, "job", count=2)

    assert asked(group(plane, uncorrected, policy))[0] == 3
    assert asked(group(plane, namespace, policy)) == (2, {"cpu": "4"})
    # With the gang complete, its pods run, and the launcher comes: as many pods as the Trainer had counted.
    jobs.play_kubelet(plane, jobs.pods(plane, namespace, job="job"), "Running")
    jobs.wait_for_pods(plane, namespace, "job", count=3)
    assert asked(group(plane, namespace, policy)) == (2, {"cpu": "4"})


def test_initializers_are_a_gang_without_the_trainer(
    plane: ControlPlane, namespace: str, uncorrected: str
) -> None:
    runtime = title("torchtune-llama3.2-1b", "coscheduling")
    job = jobs.train_job(namespace, "job", runtime=runtime)
    made = plane.kubectl("create", "-f", "-", user="alice", input=job)
    assert made.returncode == 0, made.stderr
    assert "the gang is never complete" not in made.stderr
    plane.admin.create(jobs.train_job(uncorrected, "job", runtime=runtime))

    first = jobs.wait_for_pods(plane, namespace, "job", count=2)
    assert asked(group(plane, uncorrected)) == (3, {})
    assert asked(group(plane, namespace)) == (2, {"cpu": "4"})
    jobs.play_kubelet(plane, first, "Succeeded")
    jobs.wait_for_pods(plane, namespace, "job", count=3)


def test_a_user_hears_that_the_gang_is_smaller_than_the_trainers_job(
    plane: ControlPlane, namespace: str
) -> None:
    initialized = named(gang(plane, "torchtune-llama3.2-1b", "coscheduling"), "initialized")
    for pod in pods_of(initialized):
        for container in pod["containers"]:
            container.pop("command", None)  # that of torchtune takes one node only
    plane.apply(initialized)
    job = jobs.train_job(namespace, "job", runtime="initialized", trainer={"numNodes": 4})

    made = plane.kubectl("create", "-f", "-", user="alice", input=job)

    assert made.returncode == 0, made.stderr
    assert "Warning: the gang is 2 of dataset-initializer, model-initializer" in made.stderr
    assert asked(group(plane, namespace))[0] == 2


def test_what_the_trainer_applies_again_is_no_change(plane: ControlPlane, namespace: str) -> None:
    submit(plane, namespace, title("deepspeed-distributed", "coscheduling"), 3, suspend=True)
    made = group(plane, namespace)
    assert asked(made) == (2, {"cpu": "4"})
    jobs.settle(plane, namespace, "job")
    before = group(plane, namespace)

    for _ in range(3):
        reapply(plane, namespace)

    after = group(plane, namespace)
    for key in ("resourceVersion", "generation", "managedFields"):
        assert after["metadata"][key] == before["metadata"][key], key
    assert after["spec"] == before["spec"]
    events = sent_by_trainer(plane, namespace)
    assert len(events) >= 4
    assert all(event["responseStatus"]["code"] < 300 for event in events)
    assert all(is_changed_by_us(event) for event in events), "each had the Trainer's own numbers"
    managers = {
        (entry["manager"], "f:minMember" in entry["fieldsV1"].get("f:spec", {}))
        for entry in after["metadata"]["managedFields"]
    }
    assert managers == {("trainer", True)}


def test_a_job_is_counted_by_the_runtime_that_it_was_made_from(
    plane: ControlPlane, namespace: str
) -> None:
    """The Trainer keeps a copy for each job, and builds from that whatever becomes of the runtime."""
    moving = named(gang(plane, "deepspeed-distributed", "coscheduling"), "moving")
    plane.apply(moving)
    submit(plane, namespace, "moving", 3, suspend=True)
    group(plane, namespace)

    sidecar = {
        "name": "sidecar",
        "image": jobs.IMAGE,
        "restartPolicy": "Always",
        "resources": {"requests": {"cpu": "1"}},
    }
    for pod in pods_of(moving):
        pod["initContainers"] = [sidecar]
    plane.apply(moving)
    reapply(plane, namespace)
    assert asked(group(plane, namespace)) == (2, {"cpu": "4"})

    later = jobs.train_job(
        namespace, "later", runtime="moving", trainer={"numNodes": 3}, suspend=True
    )
    plane.admin.create(later)
    assert asked(group(plane, namespace, name="later")) == (2, {"cpu": "6"})


def test_whoever_changes_a_count_is_put_right_and_whoever_labels_is_not_heard(
    plane: ControlPlane, namespace: str
) -> None:
    submit(plane, namespace, title("torch-distributed", "coscheduling"), 2)
    made = group(plane, namespace)
    assert asked(made) == (2, {"cpu": "4"})

    labelled = plane.admin.merge(made, {"metadata": {"labels": {"seen": "true"}}})
    changed = plane.admin.merge(made, {"spec": {"minMember": 1, "minResources": {"cpu": "1"}}})

    assert labelled["metadata"]["labels"] == {"seen": "true"}
    assert asked(changed) == (2, {"cpu": "4"})
    label, change = [e for e in sent(plane, namespace) if e["user"]["username"] == "admin"]
    assert not is_seen_by_us(label)
    assert is_changed_by_us(change)


def test_other_podgroups_are_not_sent_to_us(plane: ControlPlane, namespace: str) -> None:
    for api in APIS.values():
        plane.admin.create(
            {
                "apiVersion": api,
                "kind": "PodGroup",
                "metadata": {"name": "of-somebody", "namespace": namespace},
                "spec": {"minMember": 7},
            }
        )

    events = sent(plane, namespace)
    assert len(events) == 2
    assert not any(is_seen_by_us(event) for event in events)


def test_without_us_podgroups_are_as_the_trainer_makes_them_and_later_put_right(
    plane: ControlPlane, served: Served, namespace: str
) -> None:
    submit(plane, namespace, title("deepspeed-distributed", "coscheduling"), 3, suspend=True)
    made = group(plane, namespace)
    uid = made["metadata"]["uid"]
    served.component.stop()
    plane.admin.delete(made)

    def anew() -> Object | None:
        found = plane.admin.find(COSCHEDULING, "PodGroup", "job", namespace)
        return found if found and found["metadata"]["uid"] != uid else None

    without = plane.wait_for(anew, "the Trainer to make it anew")
    assert asked(without)[0] == 3
    served.component.start()

    reapply(plane, namespace)

    plane.wait_for(
        lambda: asked(group(plane, namespace)) == (2, {"cpu": "4"}), "the PodGroup to be put right"
    )


def test_we_may_read_single_trainjobs(plane: ControlPlane) -> None:
    client = plane.client(users.STATIONMASTER)
    path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs"
    assert client.request("GET", f"{path}/none").status == 404
