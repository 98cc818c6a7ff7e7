"""``stationmaster serve --from DIR`` as a process, registered at the API server by url."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.e2e.controlplane import Component, ControlPlane, Object
from tests.e2e.controlplane.manifests import Endpoint
from tests.e2e.controlplane.process import free_port

MUTATING: Final = "00-stationmaster"
VALIDATING: Final = "stationmaster"
"""As the manifests name them: mutating ones are asked in the order of their names."""

_LIVING: Final = {
    "name": "living",
    "expression": "request.operation == 'DELETE' || !has(object.metadata.deletionTimestamp)",
}
_CHANGED: Final = {
    "name": "changed",
    "expression": (
        "request.operation != 'UPDATE' || object.?spec != oldObject.?spec"
        " || object.metadata.?labels != oldObject.metadata.?labels"
        " || object.metadata.?annotations != oldObject.metadata.?annotations"
    ),
}

POLICED: Final = "policed"
"""How the names of namespaces begin that ``policies`` are about."""


def policies() -> Iterator[Object]:
    """Some that write, and one that every update would break if what it finds were not there before."""
    pods = {"metadata": {"annotations": {"example.com/policed": "yes"}}}
    written = {"labels": {"example.com/policed": "yes"}, "podTemplateOverrides": [pods]}
    yield _policy("writes", defaults=written, overrides={"activeDeadlineSeconds": {"max": 86400}})
    yield _policy(
        "refuses-updates",
        match={"operations": ["UPDATE"]},
        limits=[
            {"name": "no-nodes", "nodes": {"max": 0}},
            {"name": "team", "labels": {"require": ["team"]}},
        ],
        validations=[{"name": "no-pods", "expression": "podSets.all(p, p.count == 0)"}],
    )


def _policy(name: str, **spec: object) -> Object:
    condition = f"request.namespace.startsWith('{POLICED}-')"
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "TrainJobPolicy",
        "metadata": {"name": name},
        "spec": {"matchConditions": [{"name": POLICED, "expression": condition}], **spec},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Standalone:
    """The running webhook, its folder, and what is registered for it."""

    folder: Path
    component: Component
    port: int
    health_port: int
    configurations: tuple[Object, ...]

    @staticmethod
    @contextmanager
    def start(
        plane: ControlPlane,
        home: Path,
        objects: Sequence[Object],
        *,
        selector: Mapping[str, str],
        flags: Sequence[str] = (),
    ) -> Iterator[Standalone]:
        """Serve the objects, act in the namespaces with these labels, and leave no trace after."""
        folder = home / "cluster"
        folder.mkdir()
        for obj in objects:
            write(folder, obj)
        port, health_port = free_port(), free_port()
        command = [
            *(sys.executable, "-m", "webhook.cli", "serve"),
            f"--from={folder}",
            f"--listen=127.0.0.1:{port}",
            f"--health-listen=127.0.0.1:{health_port}",
            f"--cert-dir={home}",
            *flags,
        ]
        component = plane.add(
            "stationmaster",
            command,
            ready=lambda: answers(f"http://127.0.0.1:{health_port}/readyz"),
        )
        with component:
            endpoint = Endpoint(port=port, ca=(home / "stationmaster-ca.crt").read_bytes())
            configurations = tuple(registration(endpoint, selector))
            plane.register(*configurations)
            try:
                yield Standalone(
                    folder=folder,
                    component=component,
                    port=port,
                    health_port=health_port,
                    configurations=configurations,
                )
            finally:
                plane.unregister(*configurations)

    def log(self) -> list[Object]:
        """What it logged, one event a line."""
        lines = self.component.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


def write(folder: Path, obj: Object) -> Path:
    """Put an object into the folder that stands for the cluster."""
    file = folder / f"{obj['kind']}-{obj['metadata']['name']}.json".lower()
    file.write_text(json.dumps(obj))
    return file


def registration(endpoint: Endpoint, selector: Mapping[str, str]) -> Iterator[Object]:
    """The two webhook configurations, for TrainJobs and runtimes."""
    everything = ("trainjobs", "trainingruntimes")
    yield _configuration(
        "MutatingWebhookConfiguration",
        MUTATING,
        [
            _webhook("mutate", endpoint, selector, ("CREATE", "UPDATE"), ("trainjobs",))
            | {"reinvocationPolicy": "IfNeeded", "timeoutSeconds": 3}
        ],
    )
    yield _configuration(
        "ValidatingWebhookConfiguration",
        VALIDATING,
        [
            _webhook("validate", endpoint, selector, ("CREATE", "UPDATE"), everything),
            _webhook("delete", endpoint, selector, ("DELETE",), everything, path="/validate")
            | {"failurePolicy": "Ignore"},
        ],
    )


def _configuration(kind: str, name: str, webhooks: list[Object]) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": webhooks,
    }


def _webhook(
    name: str,
    endpoint: Endpoint,
    selector: Mapping[str, str],
    operations: Sequence[str],
    resources: Sequence[str],
    *,
    path: str = "",
) -> dict[str, Any]:
    rule = {
        "apiGroups": ["trainer.kubeflow.org"],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
    }
    return {
        "name": f"{name}.stationmaster.dev",
        "admissionReviewVersions": ["v1"],
        "clientConfig": endpoint.client_config(path or f"/{name}"),
        "failurePolicy": "Fail",
        "matchConditions": [] if "DELETE" in operations else [_LIVING, _CHANGED],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchLabels": dict(selector)},
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": 5,
    }


def answers(url: str) -> bool:
    """Whether a GET is answered by 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
