"""An installation in which nothing is wrong, as the doctor reads it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from certs import authority, bundle, keypair, stored
from certs.authority import Authority
from plugins.framework.api import names
from webhook.doctor import reading
from webhook.doctor.facts import Facts, Trial, Unread
from webhook.install.settings import CLOSED, NAMESPACE_NAME, Certificates, Settings, manifests
from webhook.kube.client import Tried
from webhook.kube.shared import names_of

Object = dict[str, Any]

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMESPACE = "stationmaster-system"
RENEWED = "2026-03-01T11:59:58.123456Z"
TRAINER = "defaulter.trainer.kubeflow.org"
KUEUE = "kueue-mutating-webhook-configuration"

REFUSAL = (
    'admission webhook "trainjobs.stationmaster.dev" denied the request: '
    'TrainJob "stationmaster-doctor" is invalid: spec.runtimeRef.name: Not found'
)


def make_authority(now: datetime = NOW, **life: float) -> Authority:
    return authority.create(now, life=timedelta(**(life or {"days": 365})))


def leaf(
    signer: Authority,
    *,
    names: tuple[str, ...] = names_of(NAMESPACE),
    now: datetime = NOW,
    days: float = 30,
) -> keypair.KeyPair:
    return authority.issue(signer, names, now, life=timedelta(days=days))


def pem(*authorities: Authority) -> bytes:
    return bundle.compose(each.certificate for each in authorities)


SIGNER = make_authority()


def configurations(
    kind: str,
    *,
    ca: bytes = pem(SIGNER),
    certificates: Certificates = "self-managed",
    pod_groups: bool = False,
) -> list[Object]:
    settings = Settings(certificates=certificates, podgroups=pod_groups)
    found = [o for o in manifests(settings) if o["kind"] == kind]
    for entry in found[0]["webhooks"]:
        config = {**entry["clientConfig"], "caBundle": base64.b64encode(ca).decode()}
        entry["clientConfig"] = config
        if entry["name"] == CLOSED:
            entry["failurePolicy"] = "Fail"
    return found


def other(
    name: str, *, group: str = names.GROUP, resource: str = "trainjobs", service: str = "service"
) -> Object:
    """A webhook configuration of somebody else."""
    rule = {"apiGroups": [group], "resources": [resource], "operations": ["CREATE"]}
    config = {"service": {"name": service, "namespace": "elsewhere", "port": 443}}
    webhook = {"name": "a.example.com", "clientConfig": config, "rules": [rule]}
    return {"metadata": {"name": name}, "webhooks": [webhook]}


def crd(field: str = "runtimePatches", version: str = "v1alpha1") -> Object:
    """Of the Trainer 2.3, which is told by that deep field, or of none."""
    patches: Object = {"properties": {"terminationGracePeriodSeconds": {}}}
    properties: Object = {"spec": {"properties": {field: patches}}}
    served = {
        "name": version,
        "served": True,
        "schema": {"openAPIV3Schema": {"properties": properties}},
    }
    return {"spec": {"names": {"kind": names.TRAIN_JOB}, "versions": [served]}}


def pods(*images: str, image_id: str = "") -> Iterator[Object]:
    for i, image in enumerate(images):
        container = {"name": "stationmaster", "image": image}
        statuses = [{**container, "imageID": image_id}] if image_id else []
        yield {
            "metadata": {"name": f"stationmaster-{i}"},
            "spec": {"containers": [container, {"name": "sidecar", "image": f"other:{i}"}]},
            "status": {"containerStatuses": statuses},
        }


def ready(count: int, *, of: int, flags: tuple[str, ...] = ()) -> Object:
    """The Deployment; a count of none is left out, as Kubernetes does."""
    status = {"readyReplicas": count} if count else {}
    sidecar = {"name": "sidecar", "args": ["--podgroups"]}
    container = {"name": "stationmaster", "args": ["serve", "--in-cluster", *flags]}
    spec = {"replicas": of, "template": {"spec": {"containers": [sidecar, container]}}}
    return {"metadata": {"name": "stationmaster"}, "spec": spec, "status": status}


def trial(message: str = REFUSAL, *, status: int = 422, namespace: str = "default") -> Trial:
    return Trial(
        namespace=namespace,
        labels={NAMESPACE_NAME: namespace},
        tried=Tried(status, {"message": message} if message else {}),
    )


def policy(
    name: str = "gpus",
    *,
    namespace: str = "",
    why: tuple[str, str] | None = None,
    conflict: str = "",
    failure_policy: str = "Fail",
    told: int = 1,
    made: str = "2026-02-01T00:00:00Z",
) -> Object:
    """One that is Ready, or is not for a reason and a message; its status is about generation ``told`` of 1."""
    metadata = {"name": name, "generation": 1, "creationTimestamp": made}
    ready: Object = {"type": "Ready", "status": "True", "reason": "InForce", "message": ""}
    if why is not None:
        ready |= {"status": "False", "reason": why[0], "message": why[1]}
    met: Object = {"type": "Conflict", "status": str(bool(conflict)), "message": conflict}
    conditions = [{**each, "observedGeneration": told} for each in (ready, met)]
    return {
        "kind": names.NAMESPACED_POLICY if namespace else names.POLICY,
        "metadata": {**metadata, "namespace": namespace} if namespace else metadata,
        "spec": {"failurePolicy": failure_policy},
        "status": {"conditions": conditions if told else []},
    }


def good() -> Facts:
    pair = leaf(SIGNER)
    return Facts(
        now=NOW,
        namespace=NAMESPACE,
        certificates="self-managed",
        mutating=[*configurations("MutatingWebhookConfiguration"), other(TRAINER), other(KUEUE)],
        validating=configurations("ValidatingWebhookConfiguration"),
        crd=crd(),
        deployment=ready(2, of=2),
        pods=list(pods("stationmaster:0.1.0", "stationmaster:0.1.0")),
        lease={"spec": {"holderIdentity": "stationmaster-0_ab", "renewTime": RENEWED}},
        mode=None,
        secret={stored.CA: pem(SIGNER), stored.LEAF: pair.certificate},
        trial=trial(),
        policies=[policy(), policy("team", namespace="team-vision")],
        rights=dict.fromkeys(reading.needs(NAMESPACE, "self-managed"), True),
    )


def by_cert_manager() -> Facts:
    """The same with cert-manager."""
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    mutating, validating = (configurations(kind, certificates="cert-manager") for kind in kinds)
    return replace(good(), certificates="cert-manager", mutating=mutating, validating=validating)


def with_pod_groups() -> Facts:
    """The same with PodGroups corrected."""
    facts = good()
    assert not isinstance(facts.mutating, Unread)
    ours = configurations("MutatingWebhookConfiguration", pod_groups=True)
    return replace(
        facts,
        mutating=[*ours, *facts.mutating[1:]],
        deployment=ready(2, of=2, flags=("--podgroups",)),
        rights=dict.fromkeys(reading.needs(NAMESPACE, "self-managed", pod_groups=True), True),
    )
