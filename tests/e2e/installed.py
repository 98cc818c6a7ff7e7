"""Stationmaster as its own manifests install it, with replicas that run beside the cluster.

What a cluster does and the control plane of the tests does not: ``Endpoints`` is kubelet's probe, the
EndpointSlice and kube-proxy in one. The Service is of type ExternalName, which the API server's webhook
client follows, so it asks for ``stationmaster.stationmaster-system.svc`` and checks that name.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from tests.deploy.tools import DEPLOY, NAMESPACE
from tests.e2e import jobs
from tests.e2e.controlplane import Component, ControlPlane, Object, users
from tests.e2e.controlplane.manifests import WEBHOOK_KINDS, of_kind, without
from tests.e2e.controlplane.process import free_port
from tests.e2e.relay import Relay
from webhook.kube import shared

OVERLAY: Final = DEPLOY / "kustomize" / "overlays" / "self-managed"
MUTATING: Final = "00-stationmaster"
VALIDATING: Final = "stationmaster"
REGISTRATION: Final = "admissionregistration.k8s.io/v1"

PROBE_SECONDS: Final = 1.0
"""How often readiness is asked for; the manifests say every 2 s, and a container that dies is seen at once."""

LABELS: Final = "app.kubernetes.io/name=stationmaster"
RIGHTS: Final = frozenset(
    {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One process that serves."""

    component: Component
    home: Path
    port: int
    health_port: int

    def is_ready(self) -> bool:
        """What the readiness probe would find."""
        return self.component.running and self._asked("readyz")[0] == 200

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric; -1 where there is none."""
        wanted = ",".join(f'{k}="{v}"' for k, v in labels.items())
        sample = re.escape(f"{name}{{{wanted}}}" if wanted else name)
        found = re.search(rf"^{sample} (\S+)$", self._asked("metrics")[1], re.MULTILINE)
        return float(found[1]) if found else -1.0

    def followed(self) -> int:
        """How many kinds it has listed, each of which it watches by a connection of its own."""
        return len(self._of_each_kind("synced"))

    def cut_off_seconds(self) -> float:
        """How long it has been cut off from any kind; -1 where it does not say."""
        return max(self._of_each_kind("cut_off_seconds"), default=-1.0)

    def _of_each_kind(self, metric: str) -> list[float]:
        found = rf"^stationmaster_cache_{metric}{{.*}} (\S+)$"
        return [float(v) for v in re.findall(found, self._asked("metrics")[1], re.MULTILINE)]

    def log(self) -> list[Object]:
        """What it logged, one event a line."""
        lines = self.component.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def set_clock(self, *, ahead_seconds: float) -> None:
        """Let its clock be that far ahead of ours."""
        made = self.home / "ahead.new"
        made.write_text(str(ahead_seconds))
        made.rename(self.home / "ahead")

    def _asked(self, path: str) -> tuple[int, str]:
        try:
            url = f"http://127.0.0.1:{self.health_port}/{path}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, ""
        except OSError:
            return 0, ""


class Endpoints:
    """Looks who is ready, again and again; new connections go to those only."""

    def __init__(self) -> None:
        """Know nobody; ``with`` starts to look."""
        self.replicas: list[Replica] = []
        self.ready: tuple[int, ...] = ()
        self._ended = threading.Event()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look until the block ends."""
        thread = threading.Thread(target=self._look, name="endpoints", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _look(self) -> None:
        while not self._ended.wait(PROBE_SECONDS):
            self.ready = tuple(each.port for each in self.replicas if each.is_ready())


class Installed:
    """The installation in a control plane of its own: it acts in all namespaces."""

    def __init__(self, plane: ControlPlane, lives: Mapping[str, float]) -> None:
        """Prepare; see ``installed``."""
        self.plane = plane
        self.endpoints = Endpoints()
        self.service = Relay(lambda: self.endpoints.ready)
        self.gate = Relay(lambda: (plane.port,))
        """Through it the replicas reach the API server."""
        self._lives = dict(lives)

    @property
    def replicas(self) -> list[Replica]:
        """All that were added, whether they run or not."""
        return self.endpoints.replicas

    def add_replica(self, *flags: str) -> Replica:
        """Start another one, and return at once."""
        name = f"stationmaster-{secrets.token_hex(3)}"
        home = self.plane.folder / "pods" / name
        account = home / "account"
        account.mkdir(parents=True)
        (account / "token").write_text(self.plane.users[users.STATIONMASTER].token)
        (account / "ca.crt").write_bytes(self.plane.authority.pem)
        (home / "ahead").write_text("0")
        (home / "lives").write_text(json.dumps(self._lives))
        port, health_port = free_port(), free_port()
        command = [
            *(sys.executable, "-m", "tests.e2e.pod", str(home)),
            f"--listen=127.0.0.1:{port}",
            f"--health-listen=127.0.0.1:{health_port}",
            "--log-level=debug",
            *flags,
        ]
        environ = {
            "POD_NAME": name,
            "POD_NAMESPACE": NAMESPACE,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.gate.port),
        }
        # It has started once its process runs; ``wait_ready`` waits for the rest.
        component = self.plane.add(name, command, ready=lambda: True, environ=environ)
        replica = Replica(component=component, home=home, port=port, health_port=health_port)
        component.start()
        self.replicas.append(replica)
        return replica

    def remove_replica(self, replica: Replica) -> None:
        """Stop it as a pod is stopped, and forget it."""
        replica.component.stop()
        self.replicas.remove(replica)

    def stop(self) -> None:
        """Stop all replicas, as pods are stopped."""
        for replica in self.replicas:
            replica.component.stop()

    def holder(self) -> Replica:
        """The one that holds the Lease."""

        def found() -> Replica | None:
            lease = self.plane.admin.find(
                "coordination.k8s.io/v1", "Lease", "stationmaster", NAMESPACE
            )
            identity = str((lease or {"spec": {}})["spec"].get("holderIdentity") or "")
            matching = [
                each
                for each in self.replicas
                if each.component.running and identity.startswith(f"{each.component.name}_")
            ]
            return matching[0] if matching else None

        return self.plane.wait_for(found, "a holder of the Lease")

    def wait_ready(self) -> None:
        """Wait until every replica is ready and is known to be."""

        def all_ready() -> bool:
            return set(self.endpoints.ready) == {each.port for each in self.replicas}

        self.plane.wait_for(all_ready, "replicas to be ready")

    def wait_in_force(self) -> None:
        """Wait until a job that we refuse is refused, by us, and our outage would be felt.

        ``Fail`` is armed by what the Deployment says of its pods. Here they only stand for processes, whose number
        a test changes as it likes: as many are said to be Ready as are wanted, all the time.
        """

        def refused() -> bool:
            wrong = jobs.train_job("default", "probe", trainer={"numNodes": 0})
            path = self.plane.admin.collection(wrong["apiVersion"], wrong["kind"], "default")
            answer = self.plane.admin.request("POST", path, wrong, query={"dryRun": "All"})
            return answer.status == 422 and b"must be at least 1" in answer.body

        def armed() -> bool:
            jobs.play_kubelet(
                self.plane, self.plane.admin.list("v1", "Pod", NAMESPACE, labels=LABELS), "Running"
            )
            return self.policies() == {"Fail"}

        self.plane.wait_for(armed, "Fail")
        self.plane.settle_webhooks()
        self.plane.wait_for(refused, "the webhooks to be in force")

    def apply(self, *flags: str) -> str:
        """Apply the manifests as a user does; what kubectl printed."""
        done = self.plane.kubectl("apply", "-f", "-", *flags, input=self.manifests())
        assert done.returncode == 0, done.stderr
        return done.stdout

    def delete(self) -> str:
        """Delete what ``apply`` made; what kubectl printed."""
        done = self.plane.kubectl(
            *("delete", "--wait=false", "--ignore-not-found", "-f", "-"), input=self.manifests()
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def manifests(self) -> list[Object]:
        """What ``kubectl apply -k`` sends, with the Service adapted."""
        objects = _rendered(self.plane)
        for configuration in of_kind(objects, WEBHOOK_KINDS):
            for webhook in configuration["webhooks"]:
                webhook["clientConfig"]["service"]["port"] = self.service.port
        metadata = {"name": "stationmaster", "namespace": NAMESPACE}
        spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        return [*without(objects, {"Service"}), service]

    def policies(self) -> set[str]:
        """The failure policies of the entries that are armed."""
        return {
            webhook["failurePolicy"]
            for each in self.configurations()
            for webhook in each["webhooks"]
            if webhook["name"] == shared.WEBHOOK
        }

    def configurations(self) -> list[Object]:
        """Our two webhook configurations, as far as they are there."""
        names = (
            ("MutatingWebhookConfiguration", MUTATING),
            ("ValidatingWebhookConfiguration", VALIDATING),
        )
        found = (self.plane.admin.find(REGISTRATION, kind, name) for kind, name in names)
        return [each for each in found if each]


def rights(plane: ControlPlane) -> list[Object]:
    """Of the manifests only what our service account may do, and the namespace that it is in."""
    return of_kind(_rendered(plane), RIGHTS)


def _rendered(plane: ControlPlane) -> list[Object]:
    command = [str(plane.programs.path("kubectl")), "kustomize", str(OVERLAY)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [each for each in yaml.safe_load_all(text) if each]


@contextmanager
def installed(
    plane: ControlPlane,
    *,
    replicas: int = 2,
    flags: Sequence[str] = (),
    lives: Mapping[str, float] | None = None,
) -> Iterator[Installed]:
    """Install into the plane, start the replicas, and wait until they act; nothing is uninstalled after."""
    made = Installed(plane, lives or {})
    with ExitStack() as stack:
        for each in (made.service, made.gate):
            stack.enter_context(each)
        stack.enter_context(made.endpoints.looking())
        made.apply()
        stack.callback(made.stop)
        for _ in range(replicas):
            made.add_replica(*flags)
        made.wait_ready()
        made.wait_in_force()
        yield made
