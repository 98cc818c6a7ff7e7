"""The server before a cluster: start, readiness, metrics, leaving."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import pytest

from plugins.framework.errors import ConfigError
from tests.webhook.fakes import LIMIT, Client
from tests.webhook.kube.apiserver import ApiServer
from webhook import wiring
from webhook.config import ServeOptions
from webhook.wiring import Service


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


async def serving(options: ServeOptions, story: Callable[[Service], Awaitable[None]]) -> bytes:
    log = io.BytesIO()
    begun: asyncio.Future[Service] = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(LIMIT * 4):
        task = asyncio.create_task(wiring.serve(options, log, started=begun.set_result))
        task.add_done_callback(lambda _: begun.done() or begun.cancel())
        await asyncio.wait([begun])
        if begun.cancelled():
            await task
        service = begun.result()
        try:
            await story(service)
        finally:
            service.stop(0.0)
            await task
    return log.getvalue()


async def ask(service: Service, path: str) -> tuple[int, str]:
    client = await Client.connect(service.health_port, None)
    answer = await client.ask("GET", path)
    client.close()
    return answer.status, answer.body.decode()


async def until(service: Service, path: str, said: str) -> None:
    async with asyncio.timeout(LIMIT):
        while said not in (await ask(service, path))[1]:  # noqa: ASYNC110  # only the answer tells
            await asyncio.sleep(0.01)


async def test_it_becomes_ready_and_says_what_it_follows(
    server: ApiServer, options: ServeOptions
) -> None:
    async def story(service: Service) -> None:
        await until(service, "/readyz/caches", "ok")
        status, text = await ask(service, "/metrics")
        assert status == 200
        assert 'stationmaster_cache_synced{kind="Namespace"} 1.0' in text
        assert 'stationmaster_cache_cut_off_seconds{kind="TrainingRuntime"} 0.0' in text

    log = await serving(options, story)

    assert orjson.loads(log.splitlines()[0])["cluster"] == server.url
    assert b"s3cr3t" not in log
    assert not any("secrets" in s.path or "configmaps" in s.path for s in server.requests)


async def test_while_the_api_server_does_not_answer_it_lives_and_is_not_ready(
    options: ServeOptions, server: ApiServer
) -> None:
    assert options.kubeconfig is not None
    text = options.kubeconfig.read_text()
    options.kubeconfig.write_text(text.replace(server.url, "http://127.0.0.1:1"))

    async def story(service: Service) -> None:
        await until(service, "/readyz", "cannot connect")
        assert (await ask(service, "/healthz"))[0] == 200
        assert (await ask(service, "/readyz"))[0] == 503

    log = await serving(options, story)

    lines = [orjson.loads(line) for line in log.splitlines()]
    told = [line["kind"] for line in lines if line["msg"] == "cannot follow"]
    assert len(told) == len(set(told)) > 0


async def test_a_kubeconfig_that_cannot_be_used_ends_the_start(options: ServeOptions) -> None:
    async def nothing(_service: Service) -> None:
        raise AssertionError

    assert options.kubeconfig is not None
    options.kubeconfig.write_text("{}")

    with pytest.raises(ConfigError, match="config"):
        await serving(options, nothing)
