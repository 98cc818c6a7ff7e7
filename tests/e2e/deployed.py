"""Stationmaster as its own manifests install it; processes stand for the containers, which nobody runs here.

The Deployment's pods are there, made by Kubernetes' own controllers. ``Deployed`` does for them what a kubelet
would: starts a process with the token of the pod's service account, says when it is Ready, and stops it when its
pod is deleted. The Service leads to those that are Ready (``controlplane/network.py``).
"""

from __future__ import annotations

import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from tests.deploy.tools import DEPLOY, NAMESPACE
from tests.e2e import jobs
from tests.e2e.controlplane import ApiError, Component, ControlPlane, Object
from tests.e2e.controlplane.client import MERGE
from tests.e2e.controlplane.network import Network
from tests.e2e.controlplane.process import free_port
from webhook.kube import shared

OVERLAY: Final = str(DEPLOY / "kustomize" / "overlays" / "self-managed")
HOST: Final = shared.names_of(NAMESPACE)[0]
SECRET: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets/{shared.SECRET}"
ACCOUNT: Final = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/stationmaster"
USER: Final = f"system:serviceaccount:{NAMESPACE}:stationmaster"
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{shared.DEPLOYMENT}"
LABELS: Final = "app.kubernetes.io/name=stationmaster"

REPAIR_SECONDS: Final = 180.0
"""A rotation waits for a minute by design; several compiles may run on the same cores."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One process, for one pod."""

    component: Component
    port: int
    health: str

    def says(self, path: str) -> tuple[int, str]:
        """What its plain port answers."""
        try:
            with urllib.request.urlopen(f"{self.health}/{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


class Deployed:
    """The installation, and the processes that run by pod."""

    def __init__(self, plane: ControlPlane, network: Network, folder: Path) -> None:
        """Install."""
        self.plane = plane
        self.replicas: dict[str, Replica] = {}
        self._network = network
        self._folder = folder
        done = plane.kubectl("apply", "-k", OVERLAY)
        assert done.returncode == 0, done.stderr
        self._mount_account()

    def scale(self, replicas: int) -> None:
        """Scale the Deployment, and see it done."""
        change = {"spec": {"replicas": replicas}}
        self.plane.admin.request(
            "PATCH", f"{DEPLOYMENT}/scale", change, content_type=MERGE
        ).checked()
        self._see_done()

    def restart(self) -> None:
        """Replace all pods by new ones, as the Deployment's strategy has it."""
        done = self.plane.kubectl(
            *("rollout", "restart", f"deployment/{shared.DEPLOYMENT}", "--namespace", NAMESPACE)
        )
        assert done.returncode == 0, done.stderr
        self._see_done()

    def _see_done(self) -> None:
        """Be the kubelet until the Deployment is as it should be."""

        def is_done() -> bool:
            self._be_kubelet()
            found = self.plane.admin.request("GET", DEPLOYMENT).checked().json()
            wanted, status = found["spec"]["replicas"], found["status"]
            counts = ("replicas", "updatedReplicas", "readyReplicas")
            return (
                status.get("observedGeneration") == found["metadata"]["generation"]
                and {status.get(count, 0) for count in counts} == {wanted}
                and len(self.replicas) == wanted
            )

        self.plane.wait_for(is_done, "the Deployment", timeout_seconds=REPAIR_SECONDS)

    def _be_kubelet(self) -> None:
        found = self.plane.admin.list("v1", "Pod", NAMESPACE, labels=LABELS)
        names = {pod["metadata"]["name"] for pod in found}
        self._stop(sorted(set(self.replicas) - names))
        for name in sorted(names - set(self.replicas)):
            self.replicas[name] = self._start(name)
        self._lead(self.replicas.values())
        jobs.play_kubelet(self.plane, found, "Running")

    def policies(self) -> list[str]:
        """Of the two entries that are armed."""
        return [
            webhook["failurePolicy"]
            for each in shared.CONFIGURATIONS
            for webhook in self._configuration(each.path)["webhooks"]
            if webhook["name"] == shared.WEBHOOK
        ]

    def wait_until_armed(self) -> None:
        """For the holder's next rounds, and for the API server to act by it."""
        self.plane.wait_for(
            lambda: self.policies() == ["Fail", "Fail"], "Fail", timeout_seconds=REPAIR_SECONDS
        )
        self.plane.settle_webhooks()

    def bundles(self) -> set[str]:
        """All that differ; an empty text for an entry without one."""
        return {
            webhook["clientConfig"].get("caBundle", "")
            for each in shared.CONFIGURATIONS
            for webhook in self._configuration(each.path)["webhooks"]
        }

    def _configuration(self, path: str) -> Object:
        return self.plane.admin.request("GET", path).checked().json()

    def _start(self, pod: str) -> Replica:
        port, health_port = free_port(), free_port()
        health = f"http://127.0.0.1:{health_port}"
        api = urlsplit(self.plane.server)
        command = [
            *(sys.executable, "-m", "tests.e2e.in_pod", str(self._folder)),
            *("serve", "--in-cluster", "--log-level=debug"),
            f"--listen=127.0.0.1:{port}",
            f"--health-listen=127.0.0.1:{health_port}",
        ]
        environ = {
            "POD_NAME": pod,
            "POD_NAMESPACE": NAMESPACE,
            "KUBERNETES_SERVICE_HOST": str(api.hostname),
            "KUBERNETES_SERVICE_PORT": str(api.port),
        }

        def is_ready() -> bool:
            try:
                return replica.says("readyz")[0] == 200
            except OSError:
                return False

        component = self.plane.add(pod, command, ready=is_ready, environ=environ)
        replica = Replica(component, port, health)
        component.start()
        return replica

    def _stop(self, names: Sequence[str]) -> None:
        """All at once. Where all that there are leave, kube-proxy goes on leading to them."""
        leaving = [self.replicas.pop(name) for name in names]
        self._lead(self.replicas.values() or leaving)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda each: each.component.stop(), leaving))
        self._lead(self.replicas.values())

    def _lead(self, replicas: Iterable[Replica]) -> None:
        self._network.route(f"{HOST}:443", *(each.port for each in replicas))

    def _mount_account(self) -> None:
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        answer = self.plane.admin.request("POST", f"{ACCOUNT}/token", asked).checked().json()
        self._folder.mkdir(parents=True, exist_ok=True)
        token = self._folder / "token"
        token.touch(mode=0o600)
        token.write_text(answer["status"]["token"])
        (self._folder / "ca.crt").write_bytes(self.plane.authority.pem)


class Load:
    """Creates TrainJobs (dry runs) one after the other, and notes what was refused or not completed by us."""

    def __init__(self, plane: ControlPlane) -> None:
        """``__enter__`` begins."""
        self._plane = plane
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.reviewed = 0
        self.refused: list[str] = []
        self.unseen = 0

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End, after the one that is under way."""
        self._leave.set()
        self._thread.join()

    def wait_for_more(self, count: int = 20) -> None:
        """Until that many were tried from now on."""
        wanted = self.tried + count
        self._plane.wait_for(lambda: self.tried >= wanted, "more reviews")

    @property
    def tried(self) -> int:
        """How many were sent."""
        return self.reviewed + self.unseen + len(self.refused)

    def _run(self) -> None:
        job = jobs.train_job("default", "load")
        while not self._leave.wait(0.02):
            try:
                made = self._plane.admin.create(job, dry_run=True)
            except ApiError as error:
                self.refused.append(error.message)
            else:
                if "numNodes" in made["spec"].get("trainer", {}):
                    self.reviewed += 1
                else:
                    self.unseen += 1
