"""What is asked of the API server, and that an answer of 403 costs no more than itself."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from certs import stored
from tests.webhook.doctor import good as g
from webhook.doctor.checks import examine
from webhook.doctor.facts import Right, Unread
from webhook.doctor.reading import NOBODY, needs, read
from webhook.kube.client import ApiError, Query, Tried, Unreachable

HERE = f"namespaces/{g.NAMESPACE}"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = "/apis/stationmaster.dev/v1alpha1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def stored_in(facts: Any) -> Iterator[tuple[str, Any]]:
    """A good installation, as an API server holds it."""
    certificates = {**facts.secret, "ca.key": b"never to be seen", "tls.key": b"nor this"}
    data = {name: base64.b64encode(each).decode() for name, each in certificates.items()}
    yield f"{REGISTRATION}/mutatingwebhookconfigurations", {"items": facts.mutating}
    yield f"{REGISTRATION}/validatingwebhookconfigurations", {"items": facts.validating}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    yield f"{crds}/trainjobs.trainer.kubeflow.org", facts.crd
    yield f"/apis/apps/v1/{HERE}/deployments/stationmaster", facts.deployment
    yield f"/api/v1/{HERE}/pods", {"items": facts.pods}
    yield f"/apis/coordination.k8s.io/v1/{HERE}/leases/stationmaster", facts.lease
    yield f"/api/v1/{HERE}/secrets/stationmaster-certs", {"data": data}
    for plural in ("trainjobpolicies", "namespacedtrainjobpolicies"):
        items = [
            {key: value for key, value in each.items() if key != "kind"}
            for each in facts.policies
            if plural == f"{each['kind'].lower()[:-1]}ies"
        ]
        yield f"{POLICIES}/{plural}", {"items": items}
    labels = {"kubernetes.io/metadata.name": "team", "a": "b"}
    yield "/api/v1/namespaces/team", {"metadata": {"labels": labels}}


@dataclass
class Server:
    """Answers from what it holds; what is ``closed`` is forbidden."""

    objects: dict[str, Any] = field(default_factory=lambda: dict(stored_in(g.good())))
    closed: set[str] = field(default_factory=set)
    is_down: bool = False
    is_stranger: bool = False
    refused: set[str] = field(default_factory=set)
    """Rights that our service account has not."""
    reviews: list[dict[str, Any]] = field(default_factory=list)
    tried: list[tuple[str, Any]] = field(default_factory=list)
    queries: dict[str, Query | None] = field(default_factory=dict)

    async def get(self, path: str, query: Query | None = None) -> Any:
        if self.is_down:
            raise Unreachable("cannot connect")
        if self.is_stranger:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        self.queries[path] = query
        if path in self.closed:
            raise ApiError(403, "Forbidden", "no")
        if path not in self.objects:
            raise ApiError(404, "NotFound", path)
        return self.objects[path]

    async def send(self, method: str, path: str, body: Any) -> Any:
        assert (method, path) == ("POST", REVIEWS), "nothing is written"
        if path in self.closed:
            raise ApiError(403, "Forbidden", "no")
        self.reviews.append(body["spec"])
        asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": asked["resource"] not in self.refused}}

    async def try_create(self, path: str, body: Any) -> Tried:
        self.tried.append((path, body))
        return Tried(422, {"message": g.REFUSAL})


async def seen(server: Server, **said: Any) -> Any:
    return await read(server, now=lambda: g.NOW, **{"namespace": None, "try_in": "team", **said})


async def test_all_is_read_and_no_key() -> None:
    facts = await seen(Server())

    assert facts == replace(
        g.good(),
        secret={stored.CA: g.pem(g.SIGNER), stored.LEAF: facts.secret[stored.LEAF]},
        trial=replace(
            g.trial(namespace="team"), labels={"kubernetes.io/metadata.name": "team", "a": "b"}
        ),
    )
    assert {finding.level for finding in examine(facts)} == {"ok"}
    assert "secret=" not in repr(facts)


async def test_pods_are_ours_only() -> None:
    server = Server()

    await seen(server)

    wanted = {"labelSelector": "app.kubernetes.io/name=stationmaster"}
    assert server.queries[f"/api/v1/{HERE}/pods"] == wanted


async def test_the_job_that_is_tried_names_no_runtime_that_there_is() -> None:
    server = Server()

    await seen(server)

    ((path, job),) = server.tried
    assert path == "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs"
    assert job["metadata"]["namespace"] == "team"
    assert job["spec"] == {"runtimeRef": {"name": NOBODY}}


async def test_our_account_is_asked_about_each_right_of_the_manifests() -> None:
    server = Server(refused={"secrets"})

    facts = await seen(server)

    account = f"system:serviceaccount:{g.NAMESPACE}:stationmaster"
    assert {each["user"] for each in server.reviews} == {account}
    assert f"system:serviceaccounts:{g.NAMESPACE}" in server.reviews[0]["groups"]
    assert {
        Right(**{k: v for k, v in each["resourceAttributes"].items() if k != "version"})
        for each in server.reviews
    } == set(facts.rights)
    assert [str(right) for right, is_allowed in facts.rights.items() if not is_allowed] == [
        f"{verb} in {g.NAMESPACE}"
        for verb in (
            *("get secrets stationmaster-certs", "update secrets stationmaster-certs"),
            "create secrets",
        )
    ]


async def test_our_namespace_is_the_registered_one_unless_it_is_said() -> None:
    server = Server()
    for configuration in ("mutating", "validating"):
        found = server.objects[f"{REGISTRATION}/{configuration}webhookconfigurations"]
        for webhook in found["items"][0]["webhooks"]:
            webhook["clientConfig"]["service"]["namespace"] = "elsewhere"

    assert (await seen(server)).namespace == "elsewhere"
    assert (await seen(server, namespace="said")).namespace == "said"

    found["items"].clear()
    assert (await seen(server)).namespace == "elsewhere"
    server.objects[f"{REGISTRATION}/mutatingwebhookconfigurations"]["items"].clear()
    assert (await seen(server)).namespace == g.NAMESPACE


async def test_with_cert_manager_its_secret_is_read_and_fewer_rights_are_needed() -> None:
    server = Server(objects=dict(stored_in(g.by_cert_manager())))
    secrets = f"/api/v1/{HERE}/secrets"
    server.objects[f"{secrets}/stationmaster-serving"] = server.objects.pop(
        f"{secrets}/stationmaster-certs"
    )

    facts = await seen(server)

    assert facts.certificates == "cert-manager"
    assert facts.secret is not None
    assert set(facts.rights) == set(needs(g.NAMESPACE, "cert-manager"))


async def test_with_pod_groups_the_right_to_read_their_train_job_is_needed() -> None:
    facts = await seen(Server(objects=dict(stored_in(g.with_pod_groups()))))

    added = set(facts.rights) - set(needs(g.NAMESPACE, "self-managed"))
    assert [str(right) for right in added] == ["get trainjobs.trainer.kubeflow.org"]
    (said,) = [each for each in examine(facts) if each.check == "podgroups"]
    assert said.message == "corrected: registered, and replicas run with --podgroups"


async def test_where_no_events_are_written_no_right_to_is_needed() -> None:
    server = Server()
    deployment = f"/apis/apps/v1/{HERE}/deployments/stationmaster"
    said = server.objects[deployment]
    container = {"name": "stationmaster", "args": ["serve", "--no-events"]}
    spec = {**said["spec"], "template": {"spec": {"containers": [container]}}}
    server.objects[deployment] = {**said, "spec": spec}

    facts = await seen(server)

    assert set(facts.rights) == set(needs(g.NAMESPACE, "self-managed", events=False))
    assert not any(right.resource == "events" for right in facts.rights)
    assert any(right.resource == "events" for right in needs(g.NAMESPACE, "self-managed"))


CLOSED = {
    f"{REGISTRATION}/mutatingwebhookconfigurations": (
        "mutating",
        "may list mutatingwebhookconfigurations",
    ),
    f"/apis/apps/v1/{HERE}/deployments/stationmaster": (
        "deployment",
        f"may get deployments stationmaster in {g.NAMESPACE}",
    ),
    f"/api/v1/{HERE}/pods": ("pods", f"may list pods in {g.NAMESPACE}"),
    f"/api/v1/{HERE}/secrets/stationmaster-certs": (
        "secret",
        f"may get secrets stationmaster-certs in {g.NAMESPACE}",
    ),
    f"{POLICIES}/namespacedtrainjobpolicies": (
        "policies",
        "may list namespacedtrainjobpolicies",
    ),
    REVIEWS: ("rights", "may create subjectaccessreviews"),
}


@pytest.mark.parametrize("path", CLOSED)
async def test_what_may_not_be_read_says_which_right_is_missing(path: str) -> None:
    name, needed = CLOSED[path]

    facts = await seen(Server(closed={path}))

    found = getattr(facts, name)
    assert isinstance(found, Unread)
    assert (found.why, found.needs) == ("403 Forbidden", needed)
    others = {"crd", "deployment", "pods", "lease", "mode", "secret", "rights", "policies"} - {name}
    assert not [each for each in others if isinstance(getattr(facts, each), Unread)]


async def test_policies_of_which_there_is_no_kind_are_none() -> None:
    server = Server()
    del server.objects[f"{POLICIES}/namespacedtrainjobpolicies"]

    assert (await seen(server)).policies is None


async def test_a_namespace_that_may_not_be_read_is_known_by_its_name() -> None:
    facts = await seen(Server(closed={"/api/v1/namespaces/team"}))

    assert facts.trial.labels == {"kubernetes.io/metadata.name": "team"}


async def test_a_server_that_does_not_answer_is_told_once() -> None:
    with pytest.raises(Unreachable, match="cannot connect"):
        await seen(Server(is_down=True))


async def test_who_is_not_known_is_told_once() -> None:
    with pytest.raises(ApiError, match="401 Unauthorized"):
        await seen(Server(is_stranger=True))


async def test_who_may_not_even_ask_for_the_version_is_answered() -> None:
    assert (await seen(Server(closed={"/version"}))).namespace == g.NAMESPACE


async def test_a_secret_that_is_no_base64_holds_no_certificate() -> None:
    server = Server()
    server.objects[f"/api/v1/{HERE}/secrets/stationmaster-certs"]["data"]["tls.crt"] = "?"

    facts = await seen(server)

    assert [f.message for f in examine(facts) if f.level != "ok"] == [
        f"the Secret {g.NAMESPACE}/stationmaster-certs holds no tls.crt: nothing can be served"
    ]
