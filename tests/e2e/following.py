"""``stationmaster serve --kubeconfig`` as a process, which follows the plane."""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.controlplane import Component, ControlPlane, Object, users
from tests.e2e.controlplane.manifests import Endpoint
from tests.e2e.controlplane.process import free_port
from tests.e2e.labels import ADMISSION
from tests.e2e.standalone import registration


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The running webhook."""

    component: Component
    plane: ControlPlane
    endpoint: Endpoint
    health: str

    @staticmethod
    @contextmanager
    def start(plane: ControlPlane, home: Path) -> Iterator[Served]:
        """Serve as the service account of the manifests; it may be long from being ready."""
        port, health_port = free_port(), free_port()
        health = f"http://127.0.0.1:{health_port}"
        command = [
            *(sys.executable, "-m", "webhook.cli", "serve"),
            f"--kubeconfig={plane.kubeconfig(users.STATIONMASTER)}",
            f"--listen=127.0.0.1:{port}",
            f"--health-listen=127.0.0.1:{health_port}",
            f"--cert-dir={home}",
            "--log-level=debug",
        ]
        ca = home / "stationmaster-ca.crt"
        component = plane.add(
            "stationmaster", command, ready=lambda: ca.exists() and _lives(health)
        )
        with component:
            yield Served(
                component=component,
                plane=plane,
                endpoint=Endpoint(port=port, ca=ca.read_bytes()),
                health=health,
            )

    @contextmanager
    def registered(self) -> Iterator[None]:
        """Be asked by the API server, about the namespaces with the label ADMISSION."""
        configurations = tuple(registration(self.endpoint, ADMISSION))
        self.plane.register(*configurations)
        yield
        self.plane.unregister(*configurations)

    def lives(self) -> bool:
        return _lives(self.health)

    def ready(self) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self.health}/readyz?verbose", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        with urllib.request.urlopen(f"{self.health}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        wanted = ",".join(f'{k}="{v}"' for k, v in labels.items())
        found = re.search(rf"^{re.escape(f'{name}{{{wanted}}}')} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else -1.0

    def follows(self, kind: str) -> int:
        return int(self.metric("stationmaster_cache_kept_objects", kind=kind))

    def lists(self) -> int:
        return int(self.metric("stationmaster_cache_lists_total", kind="ClusterTrainingRuntime"))

    def log(self) -> list[Object]:
        """What it logged, one event a line."""
        lines = self.component.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


def _lives(health: str) -> bool:
    try:
        with urllib.request.urlopen(f"{health}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
