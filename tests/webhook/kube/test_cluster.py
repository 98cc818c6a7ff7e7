"""The server before a cluster: start, readiness, metrics, leaving."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from certs import authority
from plugins.framework.errors import ConfigError
from tests.certs.handshake import client_context
from tests.webhook.fakes import LIMIT
from tests.webhook.kube import test_live, test_owners
from tests.webhook.kube.apiserver import ApiServer, status
from tests.webhook.kube.fake_calls import FakeCalls
from tests.webhook.running import Running, serving
from webhook.config import ServeOptions, StalePolicy
from webhook.kube import client as kube
from webhook.kube.arming import ANNOTATION
from webhook.kube.client import ApiError
from webhook.kube.events import Mirror
from webhook.kube.shared import CONFIGURATIONS, WEBHOOK, Shared
from webhook.server import Server


@pytest.fixture
def options(server: ApiServer, tmp_path: Path) -> ServeOptions:
    file = tmp_path / "config"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"token": "s3cr3t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(config))
    return ServeOptions(
        kubeconfig=file,
        listen=("127.0.0.1", 0),
        health_listen=("127.0.0.1", 0),
        cert_dir=tmp_path / "certs",
        drain_seconds=0.0,
    )


async def test_it_becomes_ready_and_says_what_it_follows(
    server: ApiServer, options: ServeOptions
) -> None:
    async def story(running: Running) -> None:
        await running.until("/readyz/caches", "ok")
        status, text = await running.ask("/metrics")
        assert status == 200
        assert 'stationmaster_cache_synced{kind="Namespace"} 1.0' in text
        watched = 'stationmaster_cache_cut_off_seconds{kind="TrainingRuntime"} 0.0\n'
        await running.until("/metrics", watched)  # the watch begins after the list has been read

    log = (await serving(options, story)).log.getvalue()

    assert orjson.loads(log.splitlines()[0])["cluster"] == server.url
    assert b"s3cr3t" not in log
    assert not any("secrets" in seen.path for seen in server.requests)
    asked = [seen for seen in server.requests if "configmaps" in seen.path]
    assert {seen.path for seen in asked} == {"/api/v1/namespaces/stationmaster-system/configmaps"}
    assert {seen.query["fieldSelector"] for seen in asked} == {"metadata.name=stationmaster-mode"}


async def test_the_switch_of_our_namespace_is_followed(
    server: ApiServer, options: ServeOptions
) -> None:
    metadata = {"name": "stationmaster-mode", "namespace": "elsewhere"}
    server.put({"metadata": metadata, "data": {"mode": "warn"}})

    async def story(running: Running) -> None:
        await running.until("/readyz/mode", "ok")
        await running.until("/metrics", 'stationmaster_mode{mode="warn"} 1.0')
        await running.until("/metrics", 'stationmaster_cache_cut_off_seconds{kind="mode"} 0.0\n')
        server.change({"metadata": metadata, "data": {"mode": "off"}}, "MODIFIED")
        await running.until("/metrics", 'stationmaster_mode{mode="off"} 1.0')

    await serving(replace(options, namespace="elsewhere"), story)

    asked = {seen.path for seen in server.requests if "configmaps" in seen.path}
    assert asked == {"/api/v1/namespaces/elsewhere/configmaps"}


@pytest.mark.parametrize("stale", ["serve", "fail"])
async def test_switched_off_it_is_ready_though_the_cluster_cannot_be_read(
    server: ApiServer, options: ServeOptions, stale: StalePolicy
) -> None:
    """Nobody is reached who is not ready, and what fails closed would refuse all."""
    metadata = {"name": "stationmaster-mode", "namespace": "stationmaster-system"}

    async def answer(request: web.Request) -> web.StreamResponse:
        if "configmaps" not in request.path:
            return await unreadable(request)
        return await (server.watch if "watch" in request.query else server.list)(request)

    server.get_trick = answer

    async def story(running: Running) -> None:
        await running.until("/metrics", 'stationmaster_cache_cut_off_seconds{kind="mode"} 0.0\n')
        checks = ["caches", "contact"] if stale == "fail" else ["caches"]
        for mode, want in (("enforce", 503), ("off", 200), ("warn", 503)):
            server.change({"metadata": metadata, "data": {"mode": mode}}, "MODIFIED")
            await running.until("/metrics", f'stationmaster_mode{{mode="{mode}"}} 1.0')
            found = {check: await running.health(f"/readyz/{check}") for check in checks}
            assert (mode, found) == (mode, dict.fromkeys(checks, want))
            assert await running.health("/readyz") == want

    await serving(replace(options, stale=stale, stale_seconds=0.0), story)


async def test_a_podgroup_is_corrected_by_its_trainjob_in_the_cluster(
    server: ApiServer, options: ServeOptions
) -> None:
    server.put(test_live.runtime(3))
    server.others[test_owners.JOB] = test_owners.job()

    async def story(running: Running) -> None:
        await running.until("/readyz/caches", "ok")
        client = await running.connect()
        answer = await client.post(
            "/mutate-podgroups?timeout=5s", orjson.dumps(test_owners.review())
        )
        client.close()
        assert test_owners.members(answer.json["response"]) == 3

    await serving(replace(options, pod_groups=True), story)


async def test_while_the_api_server_does_not_answer_it_lives_and_is_not_ready(
    options: ServeOptions, server: ApiServer
) -> None:
    assert options.kubeconfig is not None
    text = options.kubeconfig.read_text()
    options.kubeconfig.write_text(text.replace(server.url, "http://127.0.0.1:1"))

    async def story(running: Running) -> None:
        await running.until("/readyz", "cannot connect")
        assert (await running.ask("/healthz"))[0] == 200
        assert (await running.ask("/readyz"))[0] == 503

    log = (await serving(options, story)).log.getvalue()

    lines = [orjson.loads(line) for line in log.splitlines()]
    told = [line["kind"] for line in lines if line["msg"] == "cannot follow"]
    assert len(told) == len(set(told)) > 0


async def test_a_kubeconfig_that_cannot_be_used_ends_the_start(options: ServeOptions) -> None:
    async def nothing(_running: Running) -> None:
        raise AssertionError

    assert options.kubeconfig is not None
    options.kubeconfig.write_text("{}")

    with pytest.raises(ConfigError, match="config"):
        await serving(options, nothing)


LEASE = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/stationmaster"
SECRETS = "/api/v1/namespaces/ns/secrets"
DEPLOYMENT = "/apis/apps/v1/namespaces/ns/deployments/stationmaster"
OURS = (LEASE.rpartition("/")[0], SECRETS, DEPLOYMENT, "/apis/admissionregistration.k8s.io/")


@pytest.fixture
def around(
    server: ApiServer, options: ServeOptions, monkeypatch: pytest.MonkeyPatch
) -> ServeOptions:
    """In a pod of that cluster."""
    login = kube.kubeconfig(options.kubeconfig or Path())
    monkeypatch.setattr(kube, "in_cluster", lambda: login)
    monkeypatch.setenv("POD_NAMESPACE", "ns")
    monkeypatch.setenv("POD_NAME", "pod-1")
    server.get_trick = unreadable
    return replace(options, kubeconfig=None, in_cluster=True, cert_dir=None)


unreadable = status(503)
"""The cluster cannot be read: what does not depend on it goes on."""


@pytest.fixture
def ours(server: ApiServer, around: ServeOptions) -> FakeCalls:
    """The single objects that are ours, behind the API server."""
    assert around.in_cluster
    fake = FakeCalls()
    for each in CONFIGURATIONS:
        webhook = {
            "name": WEBHOOK,
            "clientConfig": {"service": {"name": "s"}},
            "failurePolicy": "Ignore",
        }
        metadata = {"name": each.name, "annotations": {ANNOTATION: "2"}}
        fake.put(each.path, {"metadata": metadata, "webhooks": [webhook]})
    fake.put(DEPLOYMENT, {"spec": {"replicas": 2}, "status": {"readyReplicas": 2}})

    async def answer(request: web.Request) -> web.StreamResponse:
        if not request.path.startswith(OURS):
            return await unreadable(request)
        try:
            if request.method == "GET":
                return web.json_response(await fake.get(request.path))
            body = orjson.loads(await request.read())
            kind = (
                "application/json-patch+json" if request.method == "PATCH" else "application/json"
            )
            assert request.content_type == kind
            assert request.method in {"POST", "PUT", "PATCH"}
            return web.json_response(await fake.send(request.method, request.path, body))  # type: ignore[arg-type]
        except ApiError as error:
            return await status(error.status)(request)

    server.get_trick = answer
    return fake


async def test_in_a_cluster_it_shares_the_certificate_before_anything_is_read(
    around: ServeOptions, ours: FakeCalls
) -> None:
    async def story(running: Running) -> None:
        await running.until("/readyz/certificate", "ok")
        assert (await running.ask("/readyz/caches"))[0] == 503
        entry = ours.objects[CONFIGURATIONS[0].path]["webhooks"][0]["clientConfig"]
        tls = client_context(base64.b64decode(entry["caBundle"]))
        _reader, writer = await asyncio.open_connection(
            "127.0.0.1", running.service.port, ssl=tls, server_hostname="stationmaster.ns.svc"
        )
        writer.close()
        assert ours.objects[LEASE]["spec"]["holderIdentity"].startswith("pod-1_")

    log = (await serving(around, story)).log.getvalue()

    # Given back on the way out, which takes a client that is still open.
    assert ours.objects[LEASE]["spec"]["holderIdentity"] == ""
    assert "ca" not in orjson.loads(log.splitlines()[0])
    for value in ours.objects[f"{SECRETS}/stationmaster-certs"]["data"].values():
        assert value.encode() not in log
    assert b"PRIVATE" not in log


async def test_in_a_cluster_what_fails_closed_no_longer_does_when_the_last_one_leaves(
    around: ServeOptions, ours: FakeCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reviews are answered until then: here the drain goes on for as long."""
    real_drain = Server.drain

    async def drain(self: Server, seconds: float) -> None:
        while policies() != ["Ignore", "Ignore"]:  # noqa: ASYNC110  # only the objects tell
            await asyncio.sleep(0.01)
        await real_drain(self, seconds)

    def policies() -> list[str]:
        return [ours.objects[each.path]["webhooks"][0]["failurePolicy"] for each in CONFIGURATIONS]

    async def story(running: Running) -> None:
        async with asyncio.timeout(LIMIT):
            while policies() != ["Fail", "Fail"]:  # noqa: ASYNC110  # only the objects tell
                await asyncio.sleep(0.01)
        assert (await running.ask("/healthz?verbose"))[1] == (
            "[+]certificate ok\n[+]events ok\n[+]chores ok\nhealthz check passed\n"
        )
        monkeypatch.setattr(Server, "drain", drain)
        ours.put(DEPLOYMENT, {"spec": {"replicas": 0}, "status": {"readyReplicas": 2}})

    await serving(around, story)

    assert policies() == ["Ignore", "Ignore"]
    assert ours.objects[LEASE]["spec"]["holderIdentity"] == ""


async def test_in_a_cluster_a_chore_that_has_stopped_shows_in_healthz(
    around: ServeOptions, ours: FakeCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ours.objects
    monkeypatch.setattr(Shared, "stalled", lambda _self: "nobody has looked")

    async def story(running: Running) -> None:
        status, text = await running.ask("/healthz")
        assert status == 503
        assert "[-]certificate failed: nobody has looked" in text

    await serving(around, story)


@pytest.mark.parametrize("variable", ["POD_NAMESPACE", "POD_NAME"])
@pytest.mark.parametrize("value", [None, ""])
async def test_a_pod_that_does_not_know_itself_is_told_what_to_set(
    around: ServeOptions, monkeypatch: pytest.MonkeyPatch, variable: str, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, value)

    async def nothing(_running: Running) -> None:
        raise AssertionError

    with pytest.raises(ConfigError, match=f"set the environment variable {variable} "):
        await serving(around, nothing)


async def test_in_a_cluster_the_holder_writes_events_whoever_makes_the_certificate(
    ours: FakeCalls, files: ServeOptions
) -> None:
    async def story(running: Running) -> None:
        await running.until(
            "/metrics", 'stationmaster_cache_failures_total{kind="JobSet events"} 1'
        )
        assert ours.objects[LEASE]["spec"]["holderIdentity"].startswith("pod-1_")
        assert (await running.ask("/healthz?verbose"))[1] == (
            "[+]certificate ok\n[+]events ok\n[+]chores ok\nhealthz check passed\n"
        )

    await serving(files, story)

    assert ours.objects[LEASE]["spec"]["holderIdentity"] == ""
    assert {path for _, path in ours.calls} == {LEASE, LEASE.rpartition("/")[0]}


@pytest.mark.usefixtures("ours")
async def test_in_a_cluster_nobody_asks_for_events_that_are_not_to_be_written(
    server: ApiServer, around: ServeOptions
) -> None:
    async def story(running: Running) -> None:
        await running.until("/readyz/certificate", "ok")
        assert "events" not in re.sub(
            "stationmaster_(worker_)?events", "", (await running.ask("/metrics"))[1]
        )
        assert "events" not in (await running.ask("/healthz?verbose"))[1]

    await serving(replace(around, events=False), story)

    assert not any("events" in seen.path for seen in server.requests)


async def test_outside_of_a_cluster_nobody_writes_events(
    server: ApiServer, options: ServeOptions
) -> None:
    async def story(running: Running) -> None:
        await running.until("/readyz/caches", "ok")
        assert "events" not in (await running.ask("/healthz?verbose"))[1]

    assert options.events
    await serving(options, story)

    assert not any("events" in seen.path for seen in server.requests)


async def test_in_a_cluster_events_that_nobody_looks_after_show_in_healthz(
    around: ServeOptions, ours: FakeCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ours.objects
    monkeypatch.setattr(Mirror, "stalled", lambda _self: "nobody has looked")

    async def story(running: Running) -> None:
        status, text = await running.ask("/healthz")
        assert status == 503
        assert "[-]events failed: nobody has looked" in text

    await serving(around, story)


@pytest.fixture
def files(around: ServeOptions, tmp_path: Path) -> ServeOptions:
    """With a certificate that somebody else made."""
    now = datetime.now(UTC)
    pair = authority.issue(authority.create(now), ["localhost"], now)
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    return replace(around, cert_files=tmp_path)


async def test_in_a_cluster_files_of_a_certificate_and_no_events_need_the_lease_alone(
    ours: FakeCalls, files: ServeOptions
) -> None:
    """cert-manager's: of ours nothing is written then but who of the replicas says how policies fare."""

    async def story(running: Running) -> None:
        await running.until("/readyz/certificate", "ok")
        await running.until("/readyz/caches", "not yet read")
        async with asyncio.timeout(LIMIT):
            while LEASE not in ours.objects:  # noqa: ASYNC110  # a state, not an event
                await asyncio.sleep(0.01)

    await serving(replace(files, events=False), story)

    assert {path for _, path in ours.calls} == {LEASE, LEASE.rpartition("/")[0]}
