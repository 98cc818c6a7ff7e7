"""What gets installed, adapted to controllers that run beside the cluster instead of in it."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.controlplane.client import Object

FOLDER: Final = Path(__file__).parent / "manifests"
WEBHOOK_KINDS: Final = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
CRD: Final = "CustomResourceDefinition"

RUN_IN_PODS: Final = frozenset(
    {"APIService", "Deployment", "FlowSchema", "PriorityLevelConfiguration", "Secret", "Service"}
)
"""There are no nodes and no Service network; the configuration is written to files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a webhook server of ours listens."""

    port: int
    ca: bytes

    def client_config(self, path: str) -> Object:
        """What replaces ``clientConfig.service``."""
        bundle = base64.b64encode(self.ca).decode()
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": bundle}


def load(file: Path) -> list[Object]:
    """The objects of a JSON list or of a file of YAML documents."""
    if file.suffix == ".json":
        objects: list[Object] = json.loads(file.read_text())
        return objects
    return [obj for obj in yaml.safe_load_all(file.read_text()) if obj]


def of_kind(objects: Iterable[Object], kinds: Collection[str]) -> list[Object]:
    """The objects of these kinds."""
    return [obj for obj in objects if obj["kind"] in kinds]


def without(objects: Iterable[Object], kinds: Collection[str]) -> list[Object]:
    """The objects of all other kinds."""
    return [obj for obj in objects if obj["kind"] not in kinds]


def with_conversion(crd: Object, endpoint: Endpoint) -> Object:
    """The CRD with its conversion webhook at the endpoint, if it has one."""
    webhook = crd["spec"].get("conversion", {}).get("webhook")
    if webhook is None:
        return crd
    config = endpoint.client_config(webhook["clientConfig"]["service"].get("path", "/convert"))
    conversion = {"strategy": "Webhook", "webhook": {**webhook, "clientConfig": config}}
    return {**crd, "spec": {**crd["spec"], "conversion": conversion}}


def at_endpoint(
    configuration: Object,
    endpoint: Endpoint,
    *,
    resources: Collection[str] | None = None,
    selector: Mapping[str, Any] | None = None,
) -> Object:
    """A webhook configuration that calls the endpoint.

    With ``resources`` only for those (``group/plural``), with ``selector`` only in the namespaces
    with these labels.
    """
    webhooks = [
        _narrowed({**each, "clientConfig": _moved(each["clientConfig"], endpoint)}, selector)
        for each in configuration["webhooks"]
        if resources is None or resources_of(each) <= set(resources)
    ]
    return {**configuration, "webhooks": webhooks}


def resources_of(webhook: Object) -> set[str]:
    """What a webhook is called for, as ``group/plural``."""
    return {
        f"{group}/{resource}"
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def sentinel(kind: str, name: str) -> Object:
    """A webhook configuration that refuses to make a ConfigMap of its own name, and nothing else."""
    webhook = {
        "name": "settled.e2e.stationmaster.dev",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/nobody-listens-here"},
        "failurePolicy": "Fail",
        "matchConditions": [{"name": "own", "expression": f"object.metadata.name == '{name}'"}],
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["configmaps"],
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": 1,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [webhook],
    }


def in_install_order(objects: Sequence[Object]) -> Iterator[Object]:
    """Namespaces first: the rest may lie in them."""
    yield from of_kind(objects, {"Namespace"})
    yield from of_kind(objects, {CRD})
    yield from without(objects, {"Namespace", CRD})


def _moved(config: Object, endpoint: Endpoint) -> Object:
    return endpoint.client_config(config["service"]["path"])


def _narrowed(webhook: Object, selector: Mapping[str, Any] | None) -> Object:
    if selector is None:
        return webhook
    old = webhook.get("namespaceSelector") or {}
    labels = {**old.get("matchLabels", {}), **selector}
    return {**webhook, "namespaceSelector": {**old, "matchLabels": labels}}
