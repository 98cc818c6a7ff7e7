"""Checks of what runs: replicas, their versions, who of them holds the Lease, and what they may do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from plugins.framework import values
from webhook.doctor.facts import Facts, Object, One, Unread
from webhook.doctor.finding import Finding, fail, ok, unread, warn
from webhook.doctor.installed import again
from webhook.install.settings import NO_EVENTS
from webhook.kube.shared import LEASE, SERVICE

DEPLOYMENT: Final = "deployment"
VERSIONS: Final = "versions"
LEASE_HOLDER: Final = "lease"
RBAC: Final = "rbac"

GONE: Final = timedelta(seconds=60)
"""A holder renews every two seconds and is replaced after fifteen; the rest is for clocks that differ."""

MOST_NAMED: Final = 5


def deployment(facts: Facts) -> Iterator[Finding]:
    """As many replicas are Ready as there should be, and more than one should be."""
    found = facts.deployment
    if isinstance(found, Unread):
        yield unread(DEPLOYMENT, found)
        return
    where = f"--namespace {facts.namespace}"
    if found is None:
        yield fail(DEPLOYMENT, f"there is none in {facts.namespace}", again(facts))
        return
    wanted = values.at(found, "spec", "replicas")
    wanted = wanted if isinstance(wanted, int) else 1
    ready = values.at(found, "status", "readyReplicas") or 0
    look = f"kubectl {where} describe pods; kubectl {where} logs deployment/{SERVICE}"
    message = f"{ready} of {wanted} replicas are Ready"
    if ready == 0:
        yield fail(DEPLOYMENT, message, look)
    elif ready < wanted:
        yield warn(DEPLOYMENT, message, look)
    elif wanted == 1:
        yield warn(DEPLOYMENT, f"{message}: each restart is an outage", "run two or more")
    else:
        yield ok(DEPLOYMENT, message)


def versions(facts: Facts) -> Iterator[Finding]:
    """All replicas run the same image, so that they answer alike."""
    if isinstance(facts.pods, Unread):
        yield unread(VERSIONS, facts.pods)
        return
    images = sorted({image for pod in facts.pods if not _is_leaving(pod) for image in _images(pod)})
    if len(images) > 1:
        yield warn(
            VERSIONS,
            f"replicas differ: {', '.join(images)}",
            f"fine during an upgrade: kubectl --namespace {facts.namespace} rollout status"
            f" deployment/{SERVICE}",
        )
    elif images:
        yield ok(VERSIONS, f"all replicas run {images[0]}")


def lease(facts: Facts) -> Iterator[Finding]:
    """Somebody holds it, and has renewed it lately: certificates are looked after, and Events written."""
    found = facts.lease
    look = (
        f"kubectl --namespace {facts.namespace} logs deployment/{SERVICE}: why does nobody take it?"
    )
    if isinstance(found, Unread):
        yield unread(LEASE_HOLDER, found)
        return
    holder = values.text(values.at(found, "spec", "holderIdentity"))
    renewed = _time(values.at(found, "spec", "renewTime"))
    by_cert_manager = facts.certificates == "cert-manager"
    lost = warn if by_cert_manager else fail  # Events alone are no certificates
    if found is None and by_cert_manager and is_without_events(facts.deployment):
        yield ok(LEASE_HOLDER, "not needed: cert-manager looks after the certificates")
    elif not holder or renewed is None:
        state = "does not exist" if found is None else "is held by nobody"
        yield lost(LEASE_HOLDER, f"the Lease {facts.namespace}/{LEASE} {state}", look)
    elif facts.now - renewed > GONE:
        yield lost(LEASE_HOLDER, f"{holder} has not renewed it since {renewed:%F %T} UTC", look)
    elif renewed - facts.now > GONE:
        yield warn(
            LEASE_HOLDER,
            f"{holder} has renewed it at {renewed:%F %T} UTC, which is in the future",
            "compare the clocks of the nodes with this machine's",
        )
    else:
        yield ok(LEASE_HOLDER, f"held by {holder}")


def rbac(facts: Facts) -> Iterator[Finding]:
    """Our service account may do what the manifests give it."""
    if isinstance(facts.rights, Unread):
        yield unread(RBAC, facts.rights)
        return
    refused = [str(right) for right, is_allowed in facts.rights.items() if not is_allowed]
    if refused:
        more = len(refused) - MOST_NAMED
        named = "; ".join(refused[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
        yield fail(RBAC, f"our service account may not: {named}", f"{again(facts)} grants it")
    else:
        yield ok(RBAC, "our service account may do all that it needs")


def is_without_events(deployment: One) -> bool:
    """Whether it was installed so that none are written."""
    if deployment is None or isinstance(deployment, Unread):
        return False
    containers = values.at_obj(deployment, "spec", "template", "spec").get("containers")
    return any(NO_EVENTS in values.items(each.get("args")) for each in values.objects(containers))


def _is_leaving(pod: Object) -> bool:
    return "deletionTimestamp" in values.obj(pod.get("metadata"))


def _images(pod: Object) -> Sequence[str]:
    """What really runs where the kubelet says so: a tag may mean two things on two nodes."""
    running = values.objects(values.at(pod, "status", "containerStatuses"))
    ours = [each for each in running if each.get("name") == SERVICE and each.get("imageID")]
    if ours:
        return [f"{each.get('image')} ({each['imageID']})" for each in ours]
    specified = values.objects(values.at(pod, "spec", "containers"))
    return [values.text(each.get("image")) for each in specified if each.get("name") == SERVICE]


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
