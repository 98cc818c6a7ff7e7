"""TrainJobs, and what became of them on the plane."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from tests.e2e.controlplane import ControlPlane, Object

TRAINER_API: Final = "trainer.kubeflow.org/v1alpha1"
JOBSET_API: Final = "jobset.x-k8s.io/v1alpha2"
KUEUE_API: Final = "kueue.x-k8s.io/v1beta2"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
IMAGE: Final = "example.test/train:1"
QUIET_SECONDS: Final = 1.5


def train_job(
    namespace: str, name: str, *, runtime: str = "torch-distributed", **spec: Any
) -> Object:
    """A TrainJob as a user would write it."""
    return {
        "apiVersion": TRAINER_API,
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"runtimeRef": {"name": runtime}, **spec},
    }


def in_queue(job: Object, queue: str) -> Object:
    """The same job, sent to a queue."""
    metadata = job["metadata"]
    labels = {**metadata.get("labels", {}), QUEUE: queue}
    return {**job, "metadata": {**metadata, "labels": labels}}


def get(plane: ControlPlane, namespace: str, name: str) -> Object:
    """The TrainJob as it is stored."""
    return plane.admin.get(TRAINER_API, "TrainJob", name, namespace)


def jobset(plane: ControlPlane, namespace: str, name: str) -> Object:
    """The JobSet of a TrainJob, once it is there."""
    return plane.wait_for(
        lambda: plane.admin.find(JOBSET_API, "JobSet", name, namespace), f"JobSet {name}"
    )


def pods(plane: ControlPlane, namespace: str, *, job: str = "") -> list[Object]:
    """The Pods of a JobSet, or all."""
    labels = f"jobset.sigs.k8s.io/jobset-name={job}" if job else ""
    return plane.admin.list("v1", "Pod", namespace, labels=labels)


def wait_for_pods(plane: ControlPlane, namespace: str, job: str, *, count: int = 1) -> list[Object]:
    """The Pods of a JobSet, once that many are there."""

    def found() -> list[Object] | None:
        made = pods(plane, namespace, job=job)
        return made if len(made) == count else None

    return plane.wait_for(found, f"{count} pods of {job}")


def play_kubelet(plane: ControlPlane, chosen: Sequence[Object], phase: str) -> None:
    """Say of Pods what a kubelet would: there are no nodes, and what depends on them goes on."""
    running = phase == "Running"
    status = {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": "True" if running else "False"}],
    }
    for pod in chosen:
        plane.admin.merge(pod, {"status": status}, subresource="status")


def settle(plane: ControlPlane, namespace: str, *names: str) -> None:
    """Wait until nobody has written to any of the TrainJobs for a while."""
    seen: dict[tuple[str, ...], float] = {}

    def quiet() -> bool:
        found = (get(plane, namespace, name) for name in names)
        versions = tuple(each["metadata"]["resourceVersion"] for each in found)
        since = seen.setdefault(versions, time.monotonic())
        return time.monotonic() - since > QUIET_SECONDS

    plane.wait_for(quiet, f"TrainJob {', '.join(names)} to settle")


def finish(plane: ControlPlane, namespace: str, name: str) -> None:
    """Let the Pods of a TrainJob succeed, whenever they come, and wait until it is complete."""

    def complete() -> bool:
        pending = [p for p in pods(plane, namespace, job=name) if p["status"]["phase"] == "Pending"]
        play_kubelet(plane, pending, "Succeeded")
        conditions = get(plane, namespace, name).get("status", {}).get("conditions", [])
        return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)

    plane.wait_for(complete, f"TrainJob {name} to complete")


def queue(plane: ControlPlane, namespace: str, name: str = "queue", *, cpu: str = "100") -> str:
    """A LocalQueue with a ClusterQueue of its own, which admits that many CPUs; its name."""
    group = f"{namespace}-{name}"
    resources = [
        {"name": each, "nominalQuota": amount}
        for each, amount in (("cpu", cpu), ("memory", "1000Gi"), ("nvidia.com/gpu", "100"))
    ]
    plane.apply(
        [
            {
                "apiVersion": KUEUE_API,
                "kind": "ResourceFlavor",
                "metadata": {"name": group},
                "spec": {"nodeLabels": {"e2e.stationmaster.dev/flavor": "a"}},
            },
            {
                "apiVersion": KUEUE_API,
                "kind": "ClusterQueue",
                "metadata": {"name": group},
                "spec": {
                    "namespaceSelector": {},
                    "resourceGroups": [
                        {
                            "coveredResources": [each["name"] for each in resources],
                            "flavors": [{"name": group, "resources": resources}],
                        }
                    ],
                },
            },
            {
                "apiVersion": KUEUE_API,
                "kind": "LocalQueue",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"clusterQueue": group},
            },
        ]
    )
    return name
