"""The Deployment of the manifests, with a kubelet that is played: its replicas run beside the cluster."""

from __future__ import annotations

from typing import Final

from tests.e2e import jobs
from tests.e2e.controlplane import ControlPlane, Object
from webhook.install.settings import NAMESPACE, Settings, manifests

LABELS: Final = "app.kubernetes.io/name=stationmaster"


def deploy(plane: ControlPlane) -> None:
    """Apply the Deployment, and say of its Pods what a kubelet would once they serve."""
    plane.apply([obj for obj in manifests(Settings()) if obj["kind"] == "Deployment"])

    def are_counted() -> bool:
        waiting = [pod for pod in pods(plane) if pod["status"]["phase"] == "Pending"]
        jobs.play_kubelet(plane, waiting, "Running")
        found = plane.admin.get("apps/v1", "Deployment", "stationmaster", NAMESPACE)
        return bool(found.get("status", {}).get("readyReplicas") == found["spec"]["replicas"])

    plane.wait_for(are_counted, "the Deployment's replicas to be Ready")


def pods(plane: ControlPlane) -> list[Object]:
    """The Pods of the Deployment."""
    return plane.admin.list("v1", "Pod", NAMESPACE, labels=LABELS)
