from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.webhook.fakes import Client
from webhook import server
from webhook.metrics import Recorder
from webhook.routes import Check, Health
from webhook.server import PlainServer

Problems = dict[str, str | None]


@pytest.fixture
def problems() -> Problems:
    return {"certificate": None, "leaving": None}


@pytest.fixture
def ills() -> Problems:
    return {"chores": None}


def checks(problems: Problems) -> dict[str, Check]:
    return {name: partial(problems.get, name) for name in problems}


@pytest.fixture
async def client(problems: Problems, ills: Problems) -> AsyncIterator[Client]:
    health = Health(Recorder(), ready=checks(problems), alive=checks(ills))
    plain = PlainServer(health.handle)
    sockets = server.listen(("127.0.0.1", 0))
    await plain.start(sockets)
    client = await Client.connect(sockets[0].getsockname()[1], None)
    yield client
    client.close()
    plain.close()


async def test_who_is_not_ready_is_alive(client: Client, problems: Problems) -> None:
    problems["certificate"] = "is not valid"

    assert (await client.ask("GET", "/healthz")).body == b"ok"


async def test_what_only_a_restart_mends_is_told_and_takes_no_review_away(
    client: Client, ills: Problems
) -> None:
    ills["chores"] = "ended: cluster"

    response = await client.ask("GET", "/healthz")

    assert response.status == 503
    assert response.body == b"[-]chores failed: ended: cluster\nhealthz check failed\n"
    assert (await client.ask("GET", "/healthz/chores")).status == 503
    assert (await client.ask("GET", "/readyz")).status == 200


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


@pytest.mark.parametrize(
    "path", ["/", "/mutate", "/readyz/unknown", "/healthz/x", "/healthz/leaving"]
)
async def test_there_is_nothing_else(client: Client, path: str) -> None:
    assert (await client.ask("GET", path)).status == 404


async def test_nothing_can_be_changed(client: Client) -> None:
    response = await client.ask("POST", "/healthz")

    assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")
