from __future__ import annotations

import asyncio
import base64
import io

import pytest

from tests.certs.handshake import client_context, shake
from tests.webhook.fakes import LIMIT
from tests.webhook.kube.fake_calls import FakeCalls, FakeClock
from webhook import logs
from webhook.kube.lease import Clock, Elector
from webhook.kube.shared import CONFIGURATIONS, Shared, names_of
from webhook.metrics import Recorder

LEASE = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/stationmaster"


@pytest.fixture
def api() -> FakeCalls:
    api = FakeCalls()
    for each in CONFIGURATIONS:
        webhook = {"name": "a.x", "clientConfig": {"service": {"name": "s"}}}
        api.put(each.path, {"metadata": {"name": each.name}, "webhooks": [webhook]})
    return api


@pytest.fixture
def time() -> FakeClock:
    return FakeClock()


@pytest.fixture
def shared(api: FakeCalls, time: FakeClock) -> Shared:
    clock = Clock(now=time.now, monotonic=time.monotonic)
    return Shared(
        api,
        namespace="ns",
        elector=Elector(api, namespace="ns", name="stationmaster", identity="pod-1", clock=clock),
        clock=clock,
        recorder=Recorder(),
        logger=logs.build(io.BytesIO()),
    )


async def test_it_installs_serves_and_leaves_the_lease_to_the_next(
    api: FakeCalls, shared: Shared
) -> None:
    assert "no certificate" in (shared.problem() or "")
    task = asyncio.create_task(shared.keep_valid())
    async with asyncio.timeout(LIMIT):
        while shared.problem():  # noqa: ASYNC110  # a round of calls that never wait
            await asyncio.sleep(0)
    assert api.objects[LEASE]["spec"]["holderIdentity"]
    webhook = api.objects[CONFIGURATIONS[0].path]["webhooks"][0]
    trusted = base64.b64decode(webhook["clientConfig"]["caBundle"])
    for name in names_of("ns"):
        shake(shared.context, client_context(trusted), name)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert api.objects[LEASE]["spec"]["holderIdentity"] == ""


async def test_an_api_server_that_does_not_answer_holds_up_nobodys_end(
    api: FakeCalls, shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.kube.lease.GOODBYE_SECONDS", 0.01)
    task = asyncio.create_task(shared.keep_valid())
    async with asyncio.timeout(LIMIT):
        while shared.problem():  # noqa: ASYNC110  # a round of calls that never wait
            await asyncio.sleep(0)

        async def hang(_path: str) -> object:
            return await asyncio.Event().wait()

        monkeypatch.setattr(api, "get", hang)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_loops_that_have_stopped_show(shared: Shared, time: FakeClock) -> None:
    assert shared.stalled() is None
    time.pass_by(61)
    assert "election" in (shared.stalled() or "")
    time.pass_by(240)
    assert "looked after" in (shared.stalled() or "")
