from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.webhook.fakes import Client
from webhook import server
from webhook.metrics import Recorder
from webhook.routes import Health
from webhook.server import PlainServer

Problems = dict[str, str | None]


@pytest.fixture
def problems() -> Problems:
    return {"certificate": None, "leaving": None}


@pytest.fixture
async def client(problems: Problems) -> AsyncIterator[Client]:
    checks = {name: lambda name=name: problems[name] for name in problems}
    plain = PlainServer(Health(checks, Recorder()).handle)
    sockets = server.listen(("127.0.0.1", 0))
    await plain.start(sockets)
    client = await Client.connect(sockets[0].getsockname()[1], None)
    yield client
    client.close()
    plain.close()


async def test_alive_is_whoever_answers(client: Client, problems: Problems) -> None:
    problems["certificate"] = "is not valid"

    assert (await client.ask("GET", "/healthz")).body == b"ok"


async def test_ready_is_whoever_passes_all_checks(client: Client) -> None:
    response = await client.ask("GET", "/readyz")

    assert (response.status, response.body) == (200, b"ok")


async def test_not_ready_says_which_check_failed(client: Client, problems: Problems) -> None:
    problems["leaving"] = "leaving"

    response = await client.ask("GET", "/readyz")

    assert response.status == 503
    assert response.body == (
        b"[+]certificate ok\n[-]leaving failed: leaving\nreadyz check failed\n"
    )


async def test_verbose_lists_the_checks(client: Client) -> None:
    response = await client.ask("GET", "/readyz?verbose")

    assert response.body == b"[+]certificate ok\n[+]leaving ok\nreadyz check passed\n"


async def test_one_check_can_be_asked_for(client: Client, problems: Problems) -> None:
    problems["leaving"] = "leaving"

    assert (await client.ask("GET", "/readyz/certificate")).status == 200
    assert (await client.ask("GET", "/readyz/leaving")).status == 503


async def test_metrics_are_prometheus_text(client: Client) -> None:
    response = await client.ask("GET", "/metrics")

    assert response.headers["content-type"].startswith("text/plain; version=")
    assert b"# TYPE stationmaster_admission_requests_total counter" in response.body


@pytest.mark.parametrize("path", ["/", "/mutate", "/readyz/unknown", "/healthz/x"])
async def test_there_is_nothing_else(client: Client, path: str) -> None:
    assert (await client.ask("GET", path)).status == 404


async def test_nothing_can_be_changed(client: Client) -> None:
    response = await client.ask("POST", "/healthz")

    assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")
