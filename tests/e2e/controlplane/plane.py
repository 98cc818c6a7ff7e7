"""The control plane: etcd, kube-apiserver and kube-controller-manager, and the controllers beside them.

::

    with ControlPlane(folder) as plane:
        plane.start_jobset()
        plane.start_trainer()
        plane.install_runtimes()
        plane.kubectl("create", "-f", "job.yaml", user="alice")
        plane.wait_for(lambda: plane.admin.list("v1", "Pod", "default"), "pods")

All listen on loopback, on free ports. Each program is a Component (``plane.etcd``, ``plane.apiserver``,
``plane.controller_manager``, ``plane.trainer``, ...) that can be paused, killed and started again.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tests.e2e.controlplane import certificates, manifests, users
from tests.e2e.controlplane.build import KUEUE_METRICS_VARIABLE, Programs
from tests.e2e.controlplane.client import ApiError, Client, Object
from tests.e2e.controlplane.manifests import CRD, Endpoint
from tests.e2e.controlplane.process import Component, Guard, free_port
from tests.e2e.controlplane.users import User
from tests.e2e.controlplane.waiting import WAIT_SECONDS, wait_for

T = TypeVar("T")

KUBECTL_SECONDS: Final = 300.0
CRD_SECONDS: Final = 300.0

KUEUE_FRAMEWORKS: Final = ("batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob")
KUEUE_RESOURCES: Final = frozenset(
    {
        "batch/jobs",
        "jobset.x-k8s.io/jobsets",
        "trainer.kubeflow.org/trainjobs",
        "kueue.x-k8s.io/clusterqueues",
        "kueue.x-k8s.io/cohorts",
        "kueue.x-k8s.io/resourceflavors",
        "kueue.x-k8s.io/workloads",
        "kueue.x-k8s.io/workloads/status",
    }
)
"""Its own kinds and those of the frameworks above; the webhooks of others would panic."""


class ControlPlane:
    """A context manager that starts the three programs of Kubernetes and stops all that was started."""

    def __init__(
        self,
        folder: Path,
        *,
        programs: Programs | None = None,
        extra_users: Sequence[User] = (),
        apiserver_flags: Sequence[str] = (),
        apiserver_environ: Mapping[str, str] | None = None,
        durable: bool = False,
    ) -> None:
        """Prepare the folder, which holds certificates, logs and etcd's data.

        ``durable`` makes etcd write through to the disk, for tests about losing it.
        """
        self.folder = folder
        self.programs = programs or Programs()
        self.users = {**users.standard_users(), **{user.alias: user for user in extra_users}}
        self.authority = certificates.Authority()
        self.components: dict[str, Component] = {}
        self._apiserver_flags = tuple(apiserver_flags)
        self._apiserver_environ = apiserver_environ
        self._durable = durable
        self._stack = ExitStack()
        self._clients: dict[str, Client] = {}

    def __enter__(self) -> Self:
        """Start, install the CRDs, and hand out the plane."""
        with ExitStack() as stack:
            stack.callback(self.stop)
            self._start()
            stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop everything."""
        self.stop()

    def stop(self) -> None:
        """Stop what runs, the last started first."""
        self._stack.close()

    # --- the programs -------------------------------------------------------------------------

    @property
    def etcd(self) -> Component:
        """The store."""
        return self.components["etcd"]

    @property
    def apiserver(self) -> Component:
        """The API server."""
        return self.components["kube-apiserver"]

    @property
    def controller_manager(self) -> Component:
        """Kubernetes' own controllers: Jobs, garbage collection, namespaces."""
        return self.components["kube-controller-manager"]

    @property
    def trainer(self) -> Component:
        """The Trainer's controller and webhooks."""
        return self.components["trainer-controller-manager"]

    @property
    def jobset(self) -> Component:
        """The JobSet controller and webhooks."""
        return self.components["jobset-controller-manager"]

    @property
    def kueue(self) -> Component:
        """Kueue's controller and webhooks."""
        return self.components["kueue-controller-manager"]

    @property
    def server(self) -> str:
        """The address of the API server."""
        return f"https://127.0.0.1:{self._apiserver_port}"

    @property
    def port(self) -> int:
        """The port of the API server."""
        return self._apiserver_port

    def add(
        self,
        name: str,
        command: Sequence[str],
        *,
        ready: Callable[[], bool],
        environ: Mapping[str, str] | None = None,
    ) -> Component:
        """Describe a program that is stopped with the plane; it is not started here."""
        component = Component(
            name,
            command,
            log=self.folder / "logs" / f"{name}.log",
            guard=self._guard,
            ready=ready,
            environ=environ,
        )
        self.components[name] = component
        self._stack.callback(component.stop)
        return component

    def _start(self) -> None:
        self._write_files()
        self._guard = Guard()
        self._stack.callback(self._guard.close)
        self._add_etcd().start()
        self._add_apiserver().start()
        self.apply(manifests.load(manifests.FOLDER / "people.yaml"))
        self._add_controller_manager().start(wait=False)
        self._install_crds()
        self.controller_manager.wait_ready()

    def _write_files(self) -> None:
        for name in ("logs", "tmp", "kubectl"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "ca.crt").write_bytes(self.authority.pem)
        key = self.folder / "service-accounts.key"
        key.touch(mode=0o600)
        key.write_bytes(certificates.service_account_key())
        self._apiserver_port = free_port()
        users.write_tokens(self.users.values(), self.folder / "tokens.csv")
        for user in self.users.values():
            file = self.kubeconfig(user.alias)
            users.write_kubeconfig(user, server=self.server, ca=self.authority.pem, file=file)

    def _add_etcd(self) -> Component:
        client, peer = free_port(), free_port()
        self._etcd_url = f"http://127.0.0.1:{client}"
        peer_url = f"http://127.0.0.1:{peer}"
        command = [
            str(self.programs.path("etcd")),
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            "--log-level=warn",
        ]
        if not self._durable:
            command.append("--unsafe-no-fsync")
        return self.add("etcd", command, ready=lambda: self._says_ok(f"{self._etcd_url}/health"))

    def _add_apiserver(self) -> Component:
        certificate, key = self.authority.write(
            self.folder / "apiserver", (*certificates.LOOPBACK, "kubernetes.default.svc")
        )
        command = [
            str(self.programs.path("kube-apiserver")),
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._apiserver_port}",
            f"--cert-dir={self.folder / 'apiserver'}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'service-accounts.key'}",
            f"--service-account-signing-key-file={self.folder / 'service-accounts.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Loopback cannot be the address of the Service `kubernetes`, and nobody asks it.
            "--endpoint-reconciler-type=none",
            # Pods with a service account that nobody made are to exist all the same.
            "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={manifests.FOLDER / 'audit.yaml'}",
            f"--audit-log-path={self.audit_log}",
            *self._apiserver_flags,
        ]
        return self.add(
            "kube-apiserver",
            command,
            ready=self._apiserver_ready,
            environ=self._apiserver_environ,
        )

    def _add_controller_manager(self) -> Component:
        port = free_port()
        command = [
            str(self.programs.path("kube-controller-manager")),
            f"--kubeconfig={self.kubeconfig(users.CONTROLLER_MANAGER)}",
            "--controllers=*,-serviceaccount-token-controller",
            "--use-service-account-credentials",
            "--leader-elect=false",
            f"--service-account-private-key-file={self.folder / 'service-accounts.key'}",
            f"--root-ca-file={self.folder / 'ca.crt'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'controller-manager'}",
        ]
        url = f"https://127.0.0.1:{port}/healthz"
        return self.add("kube-controller-manager", command, ready=lambda: self._says_ok(url))

    def _install_crds(self) -> None:
        self._create_crds(
            [
                *manifests.of_kind(self._install_manifests("trainer"), {CRD}),
                *manifests.of_kind(self._install_manifests("jobset"), {CRD}),
                *manifests.load(self.programs.manifests("trainer") / "podgroups.json"),
                *manifests.load(manifests.FOLDER / "volcano-podgroup.yaml"),
            ]
        )

    def _create_crds(self, crds: Sequence[Object]) -> None:
        """Create CRDs once and as they stay.

        To check a large one takes the API server a second, and a busy machine half a minute: applying
        it, or changing it later, would do that over again.
        """
        for crd in crds:
            what = f"{crd['metadata']['name']} to be created"
            self.wait_for(partial(self._exists_now, crd), what, timeout_seconds=CRD_SECONDS)
        for crd in crds:
            self.wait_established(crd["metadata"]["name"])

    def _exists_now(self, crd: Object) -> bool:
        if self.admin.find(crd["apiVersion"], CRD, crd["metadata"]["name"]) is None:
            self.admin.create(crd)
        return True

    # --- the controllers ----------------------------------------------------------------------

    def start_jobset(self) -> Component:
        """Install JobSet as its manifests do, and run its controller and webhooks."""
        port, health = free_port(), free_port()
        config: Object = {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": port},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
        }
        return self._start_controller(users.JOBSET, config, port=port, health=health)

    def start_trainer(self, *, feature_gates: Mapping[str, bool] | None = None) -> Component:
        """Install the Trainer as its manifests do, and run its controller and webhooks."""
        port, health = free_port(), free_port()
        config: Object = {
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": port},
            "leaderElection": {"leaderElect": False},
            "certManagement": {"enable": False},
            "statusServer": {"port": free_port()},
            "featureGates": dict(feature_gates or {}),
        }
        return self._start_controller(users.TRAINER, config, port=port, health=health)

    def start_kueue(
        self,
        *,
        selector: Mapping[str, str] | None = None,
        frameworks: Sequence[str] = KUEUE_FRAMEWORKS,
        resources: Collection[str] = KUEUE_RESOURCES,
    ) -> Component:
        """Install Kueue as its manifests do, and run its controller and webhooks.

        Its webhooks act on every TrainJob, queue or not. With ``selector`` only in the namespaces
        with these labels, so that one plane serves tests with it and without.
        """
        port, health = free_port(), free_port()
        config: Object = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": "kueue-system",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {
                "host": "127.0.0.1",
                "port": port,
                # Unlike the others' its default does not follow TMPDIR.
                "certDir": str(self._certificates_of(users.KUEUE)),
            },
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "integrations": {"frameworks": list(frameworks)},
        }
        return self._start_controller(
            users.KUEUE,
            config,
            port=port,
            health=health,
            resources=resources,
            selector=selector,
            flags=("--feature-gates=VisibilityOnDemand=false",),
        )

    def install_runtimes(self) -> list[Object]:
        """Apply the runtimes that the Trainer ships, and return them."""
        self.apply(shipped := self.shipped_runtimes())
        return shipped

    def shipped_runtimes(self) -> list[Object]:
        """The runtimes that the Trainer ships, as its manifests render them."""
        return manifests.load(self.programs.manifests("trainer") / "runtimes.json")

    def _start_controller(
        self,
        module: str,
        config: Object,
        *,
        port: int,
        health: int,
        resources: Collection[str] | None = None,
        selector: Mapping[str, str] | None = None,
        flags: Sequence[str] = (),
    ) -> Component:
        objects = manifests.without(self._install_manifests(module), manifests.RUN_IN_PODS)
        webhooks = manifests.of_kind(objects, manifests.WEBHOOK_KINDS)
        endpoint = Endpoint(port=port, ca=self.authority.pem)
        self.apply(
            list(
                manifests.in_install_order(
                    manifests.without(objects, manifests.WEBHOOK_KINDS | {CRD})
                )
            )
        )
        crds = manifests.of_kind(objects, {CRD})
        self._create_crds([manifests.with_conversion(crd, endpoint) for crd in crds])
        component = self._add_controller(module, config, health=health, flags=flags).start()
        self.register(
            *(
                manifests.at_endpoint(each, endpoint, resources=resources, selector=selector)
                for each in webhooks
            )
        )
        return component

    def _add_controller(
        self, module: str, config: Object, *, health: int, flags: Sequence[str]
    ) -> Component:
        name = f"{module}-controller-manager"
        home = self.folder / "tmp" / module
        self.authority.write(self._certificates_of(module))
        file = home / "config.json"
        file.write_text(json.dumps(config))
        command = [
            str(self.programs.path(name)),
            f"--kubeconfig={self.kubeconfig(module)}",
            f"--config={file}",
            *flags,
        ]
        if module == users.KUEUE:
            del command[1]  # it has no such flag, and reads the variable as the others do too
        environ = {
            "TMPDIR": str(home),
            "KUBECONFIG": str(self.kubeconfig(module)),
            KUEUE_METRICS_VARIABLE: str(self._certificates_of(module)),
        }
        url = f"http://127.0.0.1:{health}/readyz"
        return self.add(name, command, ready=lambda: self._says_ok(url), environ=environ)

    def _certificates_of(self, module: str) -> Path:
        """Where controller-runtime looks for them, in a temporary folder of the controller's own."""
        return self.folder / "tmp" / module / "k8s-webhook-server" / "serving-certs"

    def _install_manifests(self, module: str) -> list[Object]:
        return manifests.load(self.programs.manifests(module) / "install.json")

    # --- what tests do with it ----------------------------------------------------------------

    @property
    def admin(self) -> Client:
        """The API server, as a member of system:masters."""
        return self.client(users.ADMIN)

    def client(self, alias: str) -> Client:
        """The API server, as one of ``users``."""
        if alias not in self._clients:
            token = self.users[alias].token
            self._clients[alias] = Client(self._apiserver_port, self.authority.pem, token)
        return self._clients[alias]

    def kubeconfig(self, alias: str = users.ADMIN) -> Path:
        """The kubeconfig of one of ``users``."""
        return self.folder / "kubeconfigs" / f"{alias}.json"

    def kubectl(
        self,
        *arguments: str,
        user: str = users.ADMIN,
        input: str | Object | Sequence[Object] | None = None,  # noqa: A002  # as subprocess.run names it
        environ: Mapping[str, str] | None = None,
        timeout_seconds: float = KUBECTL_SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as a user would, and return what it printed; a refusal is not raised."""
        if input is not None and not isinstance(input, str):
            objects = [input] if isinstance(input, dict) else input
            input = "\n".join(f"---\n{json.dumps(obj)}" for obj in objects)  # noqa: A001
        variables = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig(user)),
            # Neither the cache nor the preferences of whoever runs the tests.
            "KUBECACHEDIR": str(self.folder / "kubectl"),
            "KUBERC": "off",
            **(environ or {}),
        }
        return subprocess.run(
            [str(self.programs.path("kubectl")), *arguments],
            input=input,
            env=variables,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )

    def apply(self, objects: Object | Sequence[Object]) -> None:
        """Apply objects server-side as the administrator, in their order."""
        for obj in [objects] if isinstance(objects, dict) else objects:
            self.admin.apply(obj)

    def namespace(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """Make a namespace and return its name."""
        metadata: Object = {"name": name, "labels": dict(labels or {})}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        return name

    def register(self, *configurations: Object) -> None:
        """Apply webhook configurations and wait until the API server acts by them."""
        self.apply(configurations)
        self.settle_webhooks()

    def unregister(self, *configurations: Object) -> None:
        """Delete webhook configurations and wait until the API server calls them no more."""
        for configuration in configurations:
            self.admin.delete(configuration)
        self.settle_webhooks()

    def settle_webhooks(self) -> None:
        """Wait until the API server acts by every webhook configuration applied or deleted so far.

        It learns of them by a watch, in their order. So one more is made, which refuses a certain
        ConfigMap since nobody answers for it: once that is refused, those before it are in force.
        """
        for kind in sorted(manifests.WEBHOOK_KINDS):
            sentinel = manifests.sentinel(kind, f"e2e-settled-{secrets.token_hex(4)}")
            self.admin.create(sentinel)
            self.wait_for(partial(self._refuses, sentinel), f"{kind} to be in force")
            self.admin.delete(sentinel)

    def _refuses(self, sentinel: Object) -> bool:
        metadata = {"name": sentinel["metadata"]["name"], "namespace": "default"}
        probe: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        try:
            self.admin.create(probe, dry_run=True)
        except ApiError as error:
            return "failed calling webhook" in error.message
        return False

    def wait_established(self, crd: str) -> None:
        """Wait until the kind is served."""

        def established() -> bool:
            found = self.admin.get("apiextensions.k8s.io/v1", CRD, crd)
            conditions = (found.get("status") or {}).get("conditions") or []
            return {"Established": "True"}.items() <= {
                c["type"]: c["status"] for c in conditions
            }.items()

        self.wait_for(established, f"{crd} to be served")

    def wait_for(
        self, check: Callable[[], T | None], what: str, *, timeout_seconds: float = WAIT_SECONDS
    ) -> T:
        """Call ``check`` until what it returns is true, and return that (``waiting.wait_for``)."""
        return wait_for(check, what, timeout_seconds=timeout_seconds)

    @property
    def audit_log(self) -> Path:
        """Where the API server writes what it was asked."""
        return self.folder / "logs" / "audit.log"

    def audit(self, **wanted: str) -> list[Object]:
        """The audit events whose ``objectRef`` has these values, or whose verb or user is this one."""
        return [event for event in self._audit_events() if _matches(event, wanted)]

    def _audit_events(self) -> Iterator[Object]:
        with self.audit_log.open() as lines:
            for line in lines:
                if line.endswith("\n"):  # else it is being written
                    yield json.loads(line)

    def _apiserver_ready(self) -> bool:
        try:
            return self.admin.request("GET", "/readyz").status == 200
        except OSError:
            return False

    def _says_ok(self, url: str) -> bool:
        tls = None
        if url.startswith("https:"):
            tls = ssl.create_default_context()
            # Its own, self-signed certificate, made while it starts.
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        try:
            with urllib.request.urlopen(url, timeout=2, context=tls) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False


def _matches(event: Object, wanted: Mapping[str, str]) -> bool:
    reference: Mapping[str, Any] = event.get("objectRef", {})
    seen = {**reference, "verb": event.get("verb"), "user": event["user"]["username"]}
    return all(seen.get(key) == value for key, value in wanted.items())
