"""Reads an installation: GETs, lists, access reviews and one dry run. Nothing is changed by any of them."""

from __future__ import annotations

import asyncio
import base64
import binascii
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

from certs import stored
from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.cluster import TRAIN_JOB_CRD
from webhook import mode
from webhook.doctor.facts import Facts, Many, Object, One, Right, Trial, Unread
from webhook.doctor.installed import calls_for_pod_groups, ours
from webhook.doctor.policies import KINDS
from webhook.doctor.trust import secret_of
from webhook.doctor.workload import is_without_events
from webhook.install.settings import (
    NAMESPACE,
    NAMESPACE_NAME,
    Certificates,
    Settings,
    manifests,
)
from webhook.kube.calls import Failure
from webhook.kube.client import ApiError, Query, Tried
from webhook.kube.resources import POLICIES
from webhook.kube.shared import CONFIGURATIONS, LEASE, SERVICE

T = TypeVar("T")

MOST_AT_ONCE: Final = 8
"""Access reviews in flight: there are some thirty, and an API server counts per user."""

INJECTED: Final = "cert-manager.io/inject-ca-from"
NOBODY: Final = "stationmaster-doctor-asks-who-answers"
"""The runtime of the TrainJob that is tried. There is none, so that we refuse the job; the name is for whoever
reads the API server's log."""

_REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class ApiServer(Protocol):
    """What is asked of an API server; ``kube.client.Client`` is one."""

    @abstractmethod
    async def get(self, path: str, query: Query | None = None) -> Any:
        """GET and decode. Raises ApiError or Unreachable."""

    @abstractmethod
    async def send(self, method: str, path: str, body: Any) -> Any:
        """POST an access review, which is answered and not kept. Raises ApiError or Unreachable."""

    @abstractmethod
    async def try_create(self, path: str, body: Any) -> Tried:
        """POST as a dry run. Raises Unreachable."""


async def read(
    api: ApiServer, *, now: Callable[[], datetime], namespace: str | None, try_in: str
) -> Facts:
    """All that the checks want to know; without a ``namespace``, ours is the one that is registered.

    Raises:
        Unreachable: nobody answers.
        ApiError: it does not know who asks.
    """
    # By itself: where nothing can be asked, this tells it once.
    await _answered(api)
    mutating, validating = await asyncio.gather(
        _list(api, f"{_REGISTRATION}/mutatingwebhookconfigurations"),
        _list(api, f"{_REGISTRATION}/validatingwebhookconfigurations"),
    )
    home = namespace or _registered(mutating) or _registered(validating) or NAMESPACE
    certificates = _certificates(mutating)
    here = f"namespaces/{home}"
    query = {"labelSelector": f"app.kubernetes.io/name={SERVICE}"}
    async with asyncio.TaskGroup() as asked:
        crd = asked.create_task(_get(api, f"{_CRDS}/{TRAIN_JOB_CRD}"))
        deployment = asked.create_task(_get(api, f"/apis/apps/v1/{here}/deployments/{SERVICE}"))
        pods = asked.create_task(_list(api, f"/api/v1/{here}/pods", query))
        lease = asked.create_task(_get(api, f"/apis/coordination.k8s.io/v1/{here}/leases/{LEASE}"))
        switch = asked.create_task(_get(api, f"/api/v1/{here}/configmaps/{mode.NAME}"))
        secret = asked.create_task(_get(api, f"/api/v1/{here}/secrets/{secret_of(certificates)}"))
        policies = asked.create_task(_policies(api))
        trial = asked.create_task(_trial(api, try_in))
        rights = asked.create_task(_rights(api, home, certificates, mutating, deployment))
    return Facts(
        now=now(),
        namespace=home,
        certificates=certificates,
        mutating=mutating,
        validating=validating,
        crd=crd.result(),
        deployment=deployment.result(),
        pods=pods.result(),
        lease=lease.result(),
        mode=switch.result(),
        secret=_public(secret.result()),
        trial=trial.result(),
        policies=policies.result(),
        rights=rights.result(),
    )


async def _answered(api: ApiServer) -> None:
    try:
        await api.get("/version")
    except ApiError as error:
        if error.status == 401:
            raise


async def _get(api: ApiServer, path: str) -> One:
    async def find() -> Object | None:
        try:
            found: Object = await api.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    return await _or_unread(find(), "get", path)


async def _list(api: ApiServer, path: str, query: Query | None = None) -> Many:
    async def items() -> Sequence[Object]:
        return values.objects((await api.get(path, query)).get("items"))

    return await _or_unread(items(), "list", path)


async def _policies(api: ApiServer) -> Many | None:
    found: list[Object] = []
    for resource in POLICIES:
        if resource.kind not in KINDS:
            continue
        listed = await _list_or_none(api, resource.path)
        if listed is None or isinstance(listed, Unread):
            return listed
        found += ({**each, "kind": resource.kind} for each in listed)  # lists leave it out
    return found


async def _list_or_none(api: ApiServer, path: str) -> Many | None:
    """The same as ``_list``; None where there is no such kind."""

    async def items() -> Sequence[Object] | None:
        try:
            return values.objects((await api.get(path)).get("items"))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    return await _or_unread(items(), "list", path)


async def _or_unread(asked: Awaitable[T], verb: str, path: str) -> T | Unread:
    *_, collection, name = path.split("/")
    plural = f"{collection} {name}" if verb == "get" else name
    inside = path.partition("/namespaces/")[2].partition("/")[0]
    needs = f"may {verb} {plural}" + (f" in {inside}" if inside else "")
    try:
        return await asked
    except Failure as error:
        # The API server's words for it are long, and say what ``needs`` says.
        is_forbidden = isinstance(error, ApiError) and error.status == 403
        why = "403 Forbidden" if is_forbidden else str(error) or "no answer in time"
        return Unread(what=plural, why=why, needs=needs)


def _registered(configurations: Many) -> str:
    """The namespace of the Service that our configuration calls."""
    for entry in ours(configurations):
        if namespace := values.text(values.at(entry, "clientConfig", "service", "namespace")):
            return namespace
    return ""


def _certificates(mutating: Many) -> Certificates:
    """Who fills the bundle, by the annotation that cert-manager's injector goes by."""
    for each in () if isinstance(mutating, Unread) else mutating:
        annotations = values.at_obj(each, "metadata", "annotations")
        if (
            values.at(each, "metadata", "name") == CONFIGURATIONS[0].name
            and INJECTED in annotations
        ):
            return "cert-manager"
    return "self-managed"


def _public(secret: One) -> Mapping[str, bytes] | Unread | None:
    """Without its keys: they are nobody's business here."""
    if secret is None or isinstance(secret, Unread):
        return secret
    data = values.obj(secret.get("data"))
    return {name: _decoded(data[name]) for name in (stored.CA, stored.LEAF) if name in data}


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(values.text(value), validate=True)
    except binascii.Error:
        return b""


async def _trial(api: ApiServer, namespace: str) -> Trial:
    path = f"/apis/{names.API_VERSION}/namespaces/{namespace}/trainjobs"
    job = {
        "apiVersion": names.API_VERSION,
        "kind": names.TRAIN_JOB,
        "metadata": {"name": "stationmaster-doctor", "namespace": namespace},
        "spec": {"runtimeRef": {"name": NOBODY}},
    }
    found, tried = await asyncio.gather(
        _get(api, f"/api/v1/namespaces/{namespace}"),
        _or_unread(api.try_create(path, job), "create", path),
    )
    labels = {} if isinstance(found, Unread) else values.at_obj(found, "metadata", "labels")
    return Trial(namespace=namespace, labels={NAMESPACE_NAME: namespace, **labels}, tried=tried)


async def _rights(
    api: ApiServer,
    namespace: str,
    certificates: Certificates,
    mutating: Many,
    deployment: asyncio.Task[One],
) -> Mapping[Right, bool] | Unread:
    """What of all that the manifests grant our service account is granted."""
    needed = list(
        dict.fromkeys(
            needs(
                namespace,
                certificates,
                pod_groups=calls_for_pod_groups(mutating),
                events=not is_without_events(await deployment),
            )
        )
    )
    turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def ask(right: Right) -> bool:
        async with turns:
            answer = await api.send("POST", _REVIEWS, _review(right, namespace))
        return values.at(answer, "status", "allowed") is True

    async def ask_all() -> Mapping[Right, bool]:
        # One first: who may not ask, is told so once.
        first = await ask(needed[0])
        rest = await asyncio.gather(*map(ask, needed[1:]))
        return dict(zip(needed, [first, *rest], strict=True))

    return await _or_unread(ask_all(), "create", _REVIEWS)


def needs(
    namespace: str, certificates: Certificates, *, pod_groups: bool = False, events: bool = True
) -> Iterator[Right]:
    """Each verb that the manifests grant."""
    settings = Settings(
        namespace=namespace, certificates=certificates, podgroups=pod_groups, events=events
    )
    for role in manifests(settings):
        within = role["metadata"].get("namespace", "")
        for rule in role.get("rules", ()):
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for name in rule.get("resourceNames", ("",)):
                            yield Right(
                                verb=verb,
                                group=group,
                                resource=resource,
                                name=name,
                                namespace=within,
                            )


def _review(right: Right, namespace: str) -> dict[str, Any]:
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "version": "*",
        "resource": right.resource,
        "name": right.name,
        "namespace": right.namespace,
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "resourceAttributes": attributes,
            "user": f"system:serviceaccount:{namespace}:{SERVICE}",
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{namespace}",
                "system:authenticated",
            ],
        },
    }
