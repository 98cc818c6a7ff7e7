"""Logging in, staying logged in, and what is said when that fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from plugins.framework.errors import ConfigError
from tests.webhook.kube.apiserver import ApiServer, status
from tests.webhook.kube.conftest import Time
from webhook.kube import client as kube
from webhook.kube.calls import Calls, Method
from webhook.kube.client import ApiError, Client, Login, Unreachable

SECRET = "s3cr3t"


@pytest.fixture
async def connected(time: Time) -> AsyncIterator[Any]:
    made: list[Client] = []

    async def connect(login: Login) -> Client:
        made.append(Client(login, clock=time.clock))
        await made[-1].connect()
        return made[-1]

    yield connect
    for each in made:
        await each.close()


def tokens(server: ApiServer) -> list[str | None]:
    return [seen.headers.get("Authorization") for seen in server.requests]


def kubeconfig(folder: Path, server: str, user: dict[str, Any] | None) -> Path:
    file = folder / "config"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": server}},
            {"name": "d", "cluster": {"server": "https://other.test"}},
        ],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [
            {"name": "first", "context": {"cluster": "c", "user": "u"}},
            {"name": "second", "context": {"cluster": "d", "user": "u"}},
        ],
        "current-context": "first",
    }
    file.write_text(json.dumps(config))
    return file


USERS: dict[str, tuple[dict[str, Any], str]] = {
    "a token": ({"token": SECRET}, f"Bearer {SECRET}"),
    "a name and a password": ({"username": "u", "password": "p"}, "Basic dTpw"),
    "a program": (
        {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "echo",
                "args": [
                    json.dumps(
                        {
                            "apiVersion": "client.authentication.k8s.io/v1",
                            "kind": "ExecCredential",
                            "status": {"token": "made"},
                        }
                    )
                ],
                "interactiveMode": "Never",
            }
        },
        "Bearer made",
    ),
}


@pytest.mark.parametrize(("user", "want"), USERS.values(), ids=USERS)
async def test_a_kubeconfig_logs_in_with(
    server: ApiServer, connected: Any, tmp_path: Path, user: dict[str, Any], want: str
) -> None:
    client = await connected(kube.kubeconfig(kubeconfig(tmp_path, server.url, user)))

    await client.get("/api/v1/namespaces")

    assert tokens(server) == [want]
    assert client.sent_credentials


async def test_another_context_is_another_cluster(connected: Any, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "http://unused.test", {"token": SECRET})

    assert (await connected(kube.kubeconfig(file, "second"))).host == "https://other.test"


async def test_a_context_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "http://unused.test", {"token": SECRET})

    with pytest.raises(ConfigError, match="third"):
        await Client(kube.kubeconfig(file, "third")).connect()


@pytest.mark.parametrize("text", [f"a: [{SECRET}", f"'{SECRET}", f"[{SECRET}]", ""])
async def test_what_is_no_kubeconfig_is_an_error_that_quotes_nothing(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "config"
    file.write_text(text)

    with pytest.raises(ConfigError, match="config") as caught:
        await Client(kube.kubeconfig(file)).connect()

    assert SECRET not in str(caught.value)


async def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing"):
        await Client(kube.kubeconfig(tmp_path / "missing")).connect()


async def test_a_login_with_nothing_to_show_is_an_error(tmp_path: Path) -> None:
    """B137, before anything is sent."""
    file = kubeconfig(tmp_path, "https://127.0.0.1:1", None)

    with pytest.raises(ConfigError, match="neither a token nor a client certificate"):
        await Client(kube.kubeconfig(file)).connect()


async def test_credentials_that_do_not_leave_are_an_error(
    server: ApiServer, connected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B137, seen on the way out: 36.0.0 had a token and sent none."""

    async def login() -> Configuration:
        await asyncio.sleep(0)
        return Configuration(host=server.url, api_key={"BearerToken": "Bearer t"})

    client = await connected(login)
    await client.self_test()
    assert tokens(server) == ["Bearer t"]

    async def none(_configuration: Configuration) -> str:
        await asyncio.sleep(0)
        return ""

    monkeypatch.setattr(kube, "_token", none)
    monkeypatch.setattr(kube, "_needs_none", lambda _: False)

    with pytest.raises(ConfigError, match="neither a token nor a client certificate"):
        await client.self_test()


async def test_an_api_server_that_is_down_does_not_end_the_start(connected: Any) -> None:
    async def login() -> Configuration:
        await asyncio.sleep(0)
        return Configuration(host="http://127.0.0.1:1", api_key={"BearerToken": "Bearer t"})

    client = await connected(login)

    await client.self_test()
    with pytest.raises(Unreachable, match=r"cannot connect to 127\.0\.0\.1:1"):
        await client.get("/version")


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("unused over plain HTTP")
    return tmp_path


async def test_in_cluster_the_token_is_read_again(
    server: ApiServer, account: Path, connected: Any, time: Time
) -> None:
    """A bound token is replaced in its file; the API server refuses the old one."""
    inner = kube.in_cluster(
        account, {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}
    )

    async def login() -> Configuration:
        made: Any = await inner()
        assert made.host == "https://h:1"
        hook = made.refresh_api_key_hook

        def refresh(configuration: Any) -> None:
            """The library's own, which sets all anew; over plain HTTP to our server."""
            hook(configuration)
            configuration.host, configuration.ssl_ca_cert = server.url, None
            configuration.refresh_api_key_hook = refresh

        refresh(made)
        configuration: Configuration = made
        return configuration

    client = await connected(login)
    await client.get("/version")
    (account / "token").write_text("second\n")

    async def once(request: web.Request) -> web.StreamResponse:
        known = request.headers["Authorization"].lower() == "bearer second"
        return await (server.list if known else status(401, "Unauthorized"))(request)

    server.get_trick = once
    time.now += kube.LOGIN_PAUSE_SECONDS
    await client.get("/version")

    assert [(token or "").lower() for token in tokens(server)] == [
        "bearer first",
        "bearer first",
        "bearer second",
    ]


async def test_outside_of_a_cluster_in_cluster_is_an_error(account: Path) -> None:
    with pytest.raises(ConfigError, match="not in a cluster"):
        await Client(kube.in_cluster(account, {})).connect()


async def test_a_login_that_is_refused_for_good_is_not_tried_all_the_time(
    server: ApiServer, connected: Any, time: Time
) -> None:
    logins: list[int] = []

    async def login() -> Configuration:
        await asyncio.sleep(0)
        logins.append(1)
        return Configuration(host=server.url, api_key={"BearerToken": f"Bearer {len(logins)}"})

    client = await connected(login)
    server.get_trick = status(401, "Unauthorized")
    for _ in range(10):
        with pytest.raises(ApiError, match="401"):
            await client.get("/version")
    assert len(logins) == 1

    time.now += kube.LOGIN_PAUSE_SECONDS
    for _ in range(10):
        with pytest.raises(ApiError, match="401"):
            await client.get("/version")

    assert len(logins) == 2


@dataclass(frozen=True)
class Sent:
    method: str
    path: str
    kind: str | None
    token: str | None
    body: Any


@pytest.fixture
def sent(server: ApiServer) -> list[Sent]:
    """What was written; answered as the server does, with what it holds now."""
    seen: list[Sent] = []

    async def take(request: web.Request) -> web.StreamResponse:
        from aiohttp import web  # noqa: PLC0415  # only here at run time

        headers = request.headers
        token = headers.get("Authorization")
        body = json.loads(await request.read())
        seen.append(Sent(request.method, request.path, headers.get("Content-Type"), token, body))
        return web.json_response({"metadata": {"resourceVersion": "7"}}, status=201)

    server.get_trick = take
    return seen


@pytest.mark.parametrize(
    ("method", "kind", "body"),
    [
        ("POST", "application/json", {"metadata": {"name": "ä"}}),
        ("PUT", "application/json", {"metadata": {"name": "a", "resourceVersion": "6"}}),
        ("PATCH", "application/json-patch+json", [{"op": "test", "path": "/a", "value": None}]),
    ],
)
async def test_what_is_written(
    client: Client, sent: list[Sent], method: Method, kind: str, body: object
) -> None:
    calls: Calls = client

    answer = await calls.send(method, "/apis/x/v1/things", body)

    assert answer == {"metadata": {"resourceVersion": "7"}}
    assert sent == [Sent(method, "/apis/x/v1/things", kind, "Bearer t-1", body)]


@pytest.mark.parametrize(("code", "reason"), [(409, "Conflict"), (422, "Invalid")])
async def test_a_write_that_is_refused_is_an_error(
    server: ApiServer, client: Client, code: int, reason: str
) -> None:
    server.get_trick = status(code, reason)

    with pytest.raises(ApiError, match=f"{code} {reason}") as caught:
        await client.send("PUT", "/a", {})

    assert caught.value.status == code


async def test_a_write_whose_token_has_ended_is_sent_again_with_its_body(
    server: ApiServer, connected: Any, sent: list[Sent], time: Time
) -> None:
    logins: list[int] = []

    async def login() -> Configuration:
        await asyncio.sleep(0)
        logins.append(1)
        return Configuration(host=server.url, api_key={"BearerToken": f"Bearer {len(logins)}"})

    client = await connected(login)
    time.now += kube.LOGIN_PAUSE_SECONDS
    taken = server.get_trick
    assert taken is not None

    async def once(request: web.Request) -> web.StreamResponse:
        answer = await taken(request)
        return answer if len(sent) > 1 else await status(401, "Unauthorized")(request)

    server.get_trick = once
    await client.send("POST", "/a", {"b": 1})

    assert [(each.token, each.body) for each in sent] == [
        ("Bearer 1", {"b": 1}),
        ("Bearer 2", {"b": 1}),
    ]


DATES = {
    "none": ("", None),
    "a date": ("Tue, 01 Dec 2026 10:00:00 GMT", datetime(2026, 12, 1, 10, tzinfo=UTC)),
    "one without a zone, which is UTC": (
        "Tue, 01 Dec 2026 10:00:00 -0000",
        datetime(2026, 12, 1, 10, tzinfo=UTC),
    ),
    "nonsense": ("yesterday", None),
}


@pytest.mark.parametrize(("said", "wanted"), DATES.values(), ids=DATES)
async def test_the_api_servers_time_is_that_of_its_last_answer(
    server: ApiServer, client: Client, said: str, wanted: datetime | None
) -> None:
    assert client.server_time() is None

    async def answer(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0)
        return web.json_response({}, headers={"Date": said})

    server.get_trick = answer
    await client.get("/a")

    assert client.server_time() == wanted


async def test_a_write_that_reaches_nobody_is_an_error(connected: Any) -> None:
    async def login() -> Configuration:
        await asyncio.sleep(0)
        return Configuration(host="http://127.0.0.1:1", api_key={"BearerToken": "Bearer t"})

    client = await connected(login)

    with pytest.raises(Unreachable, match=r"cannot connect to 127\.0\.0\.1:1"):
        await client.send("POST", "/a", {})


async def test_an_answer_that_is_not_json_is_none(server: ApiServer, client: Client) -> None:
    async def page(_request: web.Request) -> web.StreamResponse:
        from aiohttp import web  # noqa: PLC0415  # only here at run time

        await asyncio.sleep(0)
        return web.Response(text="<html>a proxy</html>")

    server.get_trick = page

    with pytest.raises(Unreachable, match="not JSON"):
        await client.get("/version")


async def test_a_redirect_is_not_followed_with_our_token(server: ApiServer, client: Client) -> None:
    async def away(_request: web.Request) -> web.StreamResponse:
        from aiohttp import web  # noqa: PLC0415  # only here at run time

        await asyncio.sleep(0)
        return web.Response(status=302, headers={"Location": f"{server.url}/elsewhere"})

    server.get_trick = away

    with pytest.raises(Unreachable):
        await client.get("/version")
    assert [seen.path for seen in server.requests] == ["/version"]


async def test_before_it_is_connected_nothing_can_be_asked() -> None:
    async def login() -> Configuration:
        await asyncio.sleep(0)
        return Configuration()

    with pytest.raises(Unreachable, match="not connected"):
        await Client(login).get("/version")


async def test_a_silent_watch_is_left(server: ApiServer, client: Client) -> None:
    with pytest.raises(TimeoutError):
        async with client.stream(
            "/p", {"watch": "true"}, accept="*/*", silence_seconds=1
        ) as chunks:
            await anext(chunks)
    assert len(server.watches) == 1


@pytest.mark.parametrize("code", [201, 403, 422, 500])
async def test_a_dry_run_leaves_no_trace_and_every_answer_is_one(
    server: ApiServer, client: Client, code: int
) -> None:
    message = "a" * (2 * kube.LONGEST_MESSAGE)

    async def answer(_request: web.Request) -> web.StreamResponse:
        from aiohttp import web  # noqa: PLC0415  # only here at run time

        return web.json_response({"message": message}, status=code)

    server.get_trick = answer

    assert await client.try_create("/a", {}) == kube.Tried(code, {"message": message})
    assert server.requests[-1].query == {"dryRun": "All"}


async def test_a_dry_run_that_a_proxy_answers_says_nothing(
    server: ApiServer, client: Client
) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        from aiohttp import web  # noqa: PLC0415  # only here at run time

        return web.Response(text="<html>", status=502)

    server.get_trick = answer

    assert await client.try_create("/a", {}) == kube.Tried(502, {})


async def test_a_dry_run_that_nobody_answers_is_an_error(connected: Any) -> None:
    async def login() -> Configuration:
        await asyncio.sleep(0)
        return Configuration(host="http://127.0.0.1:1", api_key={"BearerToken": "Bearer t"})

    client = await connected(login)

    with pytest.raises(Unreachable, match=r"cannot connect to 127\.0\.0\.1:1"):
        await client.try_create("/a", {})
