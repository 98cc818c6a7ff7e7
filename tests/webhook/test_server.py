from __future__ import annotations

import asyncio
import errno
import gc
import io
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from certs import authority, keypair
from certs.keypair import Front
from plugins.framework.errors import ConfigError
from tests.certs.handshake import client_context
from tests.webhook.fakes import LIMIT, Client, FakeReviewer, head, review
from webhook import app, logs, server
from webhook.app import Admission
from webhook.metrics import Recorder
from webhook.server import Connection, Server

NOW = datetime.now(UTC)
CA = authority.create(NOW)
PAIR = authority.issue(CA, ["localhost", "127.0.0.1"], NOW)


@dataclass
class Edge:
    """A server on a port of its own, with all that it reports to."""

    reviewer: FakeReviewer = field(default_factory=FakeReviewer)
    recorder: Recorder = field(default_factory=Recorder)
    log: io.BytesIO = field(default_factory=io.BytesIO)
    handshakes: list[str] = field(default_factory=list)
    front: Front = field(default_factory=lambda: Front(keypair.server_context(PAIR)))
    clients: list[Client] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        logger = logs.build(self.log)
        self.admission = Admission(
            self.reviewer, recorder=self.recorder, logger=logger, clock=self.clock
        )
        self.server = Server(self.admission.handle, tls=self.front.context, observer=self)
        self.server.start(server.listen(("127.0.0.1", 0)))

    def handshake_failed(self, reason: str) -> None:
        self.handshakes.append(reason)

    def rejected(self, reason: str) -> None:
        self.recorder.rejected(reason)

    def rejections(self, reason: str) -> float:
        name = "stationmaster_http_requests_rejected_total"
        return self.recorder.registry.get_sample_value(name, {"reason": reason}) or 0.0

    async def connect(self, tls: ssl.SSLContext | None = None) -> Client:
        client = await Client.connect(self.server.port, tls or client_context(CA.pem))
        self.clients.append(client)
        return client

    async def plain(self) -> Client:
        client = await Client.connect(self.server.port, None)
        self.clients.append(client)
        return client


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    made = Edge()
    yield made
    for client in made.clients:
        client.close()
    await made.server.drain(0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not condition():  # noqa: ASYNC110  # what we wait for knows no events
            await asyncio.sleep(0.005)


async def test_a_review_is_answered_with_its_uid(edge: Edge) -> None:
    client = await edge.connect()

    response = await client.post("/mutate?timeout=10s", review("u-7"))

    assert response.status == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json == {"response": {"uid": "u-7", "allowed": True}}


async def test_both_webhooks_share_one_connection(edge: Edge) -> None:
    client = await edge.connect()

    for target in ("/mutate", "/validate", "/mutate"):
        response = await client.post(target, review())
        assert (response.status, response.headers.get("connection")) == (200, None)

    assert edge.reviewer.calls == ["mutate", "validate", "mutate"]


async def test_requests_sent_ahead_are_answered_in_order(edge: Edge) -> None:
    client = await edge.connect()
    bodies = [review(f"u-{n}") for n in range(5)]

    await client.send(b"".join(head("POST", "/mutate", len(b)) + b for b in bodies))

    answers = [await client.receive() for _ in bodies]
    assert [a.json["response"]["uid"] for a in answers] == [f"u-{n}" for n in range(5)]


async def test_an_http_1_0_caller_gets_its_answer_and_the_end(edge: Edge) -> None:
    client = await edge.connect()
    body = review()

    await client.send(head("POST", "/mutate", len(body)).replace(b"HTTP/1.1", b"HTTP/1.0") + body)

    response = await client.receive()
    assert (response.status, response.headers["connection"]) == (200, "close")
    assert await client.ended()


REFUSED = {
    "a path that is not ours": (("POST", "/other", review()), 404),
    "the root": (("POST", "/", review()), 404),
    "another method": (("GET", "/mutate", b""), 405),
    "a body that is not JSON": (("POST", "/mutate", b"no"), 400),
    "JSON that is no review": (("POST", "/validate", b"[]"), 400),
    "no body": (("POST", "/mutate", b""), 400),
}


@pytest.mark.parametrize(("request_", "status"), REFUSED.values(), ids=REFUSED)
async def test_what_is_no_review_gets_a_status_and_a_reason(
    edge: Edge, request_: tuple[str, str, bytes], status: int
) -> None:
    client = await edge.connect()

    response = await client.ask(*request_)

    assert response.status == status
    assert response.json["code"] == status
    assert response.json["message"]
    # The mistake of one request is not the connection's.
    assert (await client.post("/mutate", review())).status == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_another_content_type_is_refused(edge: Edge, kind: str) -> None:
    client = await edge.connect()

    assert (await client.post("/mutate", review(), Content_Type=kind)).status == 415


async def test_the_content_type_may_have_parameters(edge: Edge) -> None:
    client = await edge.connect()

    response = await client.post(
        "/mutate", review(), Content_Type="application/json; charset=utf-8"
    )

    assert response.status == 200


async def test_a_compressed_body_is_refused_unopened(edge: Edge) -> None:
    client = await edge.connect()

    assert (await client.post("/mutate", b"\x1f\x8b", Content_Encoding="gzip")).status == 415
    assert edge.reviewer.calls == []


async def test_a_wrong_method_is_told_the_right_one(edge: Edge) -> None:
    client = await edge.connect()

    assert (await client.ask("PUT", "/mutate", review())).headers["allow"] == "POST"


@pytest.mark.parametrize("size", [2_000_000, 7 * 1024 * 1024, app.BODY_BYTES])
async def test_large_reviews_are_processed(edge: Edge, size: int) -> None:
    client = await edge.connect()
    body = review(size=size)

    response = await client.post("/mutate", body)

    assert (response.status, len(body)) == (200, size)


async def test_a_larger_one_is_refused_before_it_is_read(edge: Edge) -> None:
    client = await edge.connect()

    await client.send(head("POST", "/mutate", app.BODY_BYTES + 1))

    response = await client.receive()
    assert (response.status, response.headers["connection"]) == (413, "close")


async def test_a_larger_one_that_does_not_tell_its_length_is_refused_on_the_way(
    edge: Edge,
) -> None:
    client = await edge.connect()
    await client.send(head("POST", "/mutate", 0, Content_Length="", Transfer_Encoding="chunked"))

    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    for _ in range(app.BODY_BYTES // 0x100000 + 1):
        await client.send(chunk)

    assert (await client.receive()).status == 413
    assert edge.reviewer.calls == []


async def test_a_chunked_body_is_read(edge: Edge) -> None:
    client = await edge.connect()
    body = review("u-9")

    await client.send(head("POST", "/mutate", 0, Content_Length="", Transfer_Encoding="chunked"))
    for half in (body[:9], body[9:]):
        await client.send(b"%x\r\n%b\r\n" % (len(half), half))
    await client.send(b"0\r\n\r\n")

    assert (await client.receive()).json["response"]["uid"] == "u-9"


async def test_a_broken_chunk_is_refused(edge: Edge) -> None:
    client = await edge.connect()
    chunked = head("POST", "/mutate", 0, Content_Length="", Transfer_Encoding="chunked")

    await client.send(chunked + b"not a length\r\n")

    assert (await client.receive()).status == 400


LATE = {
    "a chunk that breaks while we wait for it": b"not a length\r\n",
    "a body that stops in the middle": b"ff\r\nabc",
}


@pytest.mark.parametrize("rest", LATE.values(), ids=LATE)
async def test_a_body_is_waited_for_until_the_deadline(edge: Edge, rest: bytes) -> None:
    client = await edge.connect()
    waits: list[float] = []

    def clock() -> float:
        waits.append(time.monotonic() + 8.9)  # 0.1 s before the default's end
        return waits[-1]

    edge.admission.clock = clock
    await client.send(head("POST", "/mutate", 0, Content_Length="", Transfer_Encoding="chunked"))
    await until(lambda: bool(waits))

    await client.send(rest)

    response = await client.receive()
    assert (response.status, response.headers["connection"]) == (408, "close")


async def test_who_asks_before_sending_is_told_to_go_on(edge: Edge) -> None:
    client = await edge.connect()
    body = review()
    await client.send(head("POST", "/mutate", len(body), Expect="100-continue"))

    assert (await client.receive()).status == 100
    await client.send(body)

    assert (await client.receive()).status == 200


async def test_bodies_that_arrive_together_have_a_common_bound(edge: Edge) -> None:
    slow = [await edge.connect() for _ in range(app.BODIES_BYTES // app.BODY_BYTES)]
    for client in slow:
        await client.send(head("POST", "/mutate", app.BODY_BYTES) + b"{")
    await until(lambda: edge.admission.arriving == app.BODIES_BYTES)
    late = await edge.connect()
    await late.send(head("POST", "/mutate", 1000) + b"{")

    response = await late.receive()

    assert (response.status, response.headers["retry-after"]) == (503, "1")
    # Small reviews come in one piece and are not affected.
    assert (await (await edge.connect()).post("/mutate", review())).status == 200


async def test_bytes_that_are_no_http_are_refused_and_not_logged(edge: Edge) -> None:
    client = await edge.connect()

    await client.send(b"TOKEN secret-in-the-request-line\r\n\r\n")

    assert (await client.receive()).status == 400
    assert await client.ended()
    assert edge.log.getvalue() == b""


async def test_a_fault_is_500_and_logged_by_its_type_only(edge: Edge) -> None:
    edge.reviewer.error = RuntimeError("value of env PASSWORD")
    client = await edge.connect()

    response = await client.post("/mutate", review())

    assert (response.status, response.json["message"]) == (500, "internal error")
    assert b'"error":"RuntimeError"' in edge.log.getvalue()
    assert b"PASSWORD" not in edge.log.getvalue()


TIMEOUTS = {
    "10 s less a tenth": ("?timeout=10s", 9.0),
    "5 s less a tenth": ("?timeout=5s", 4.5),
    "at least 100 ms are kept": ("?timeout=0s", 9.0),
    "1 s": ("?timeout=1s", 0.9),
    "never more than 30 s": ("?timeout=900s", 27.0),
    "10 s where none is given": ("", 9.0),
    "10 s where it cannot be read": ("?timeout=soon", 9.0),
    "10 s where it is not in seconds": ("?timeout=5m", 9.0),
    "among other parameters": ("?a=b&timeout=2s&c=d", 1.8),
}


@pytest.mark.parametrize(("query", "seconds"), TIMEOUTS.values(), ids=TIMEOUTS)
async def test_the_deadline_is_the_callers_with_a_margin(
    edge: Edge, query: str, seconds: float
) -> None:
    client = await edge.connect()
    before = time.monotonic()

    await client.post(f"/mutate{query}", review())

    (deadline,) = edge.reviewer.deadlines
    assert before + seconds <= deadline <= time.monotonic() + seconds


async def test_what_waited_past_its_deadline_is_asked_to_come_back(edge: Edge) -> None:
    client = await edge.connect()
    edge.admission.clock = lambda: time.monotonic() + 60

    response = await client.post("/mutate", review())

    assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert edge.reviewer.calls == []


async def test_more_than_64_in_flight_are_asked_to_come_back(edge: Edge) -> None:
    edge.reviewer.hold = asyncio.Event()
    clients = [await edge.connect() for _ in range(app.MOST_IN_FLIGHT + 1)]
    waiting = [asyncio.create_task(c.post("/mutate", review())) for c in clients[:-1]]
    await until(lambda: edge.admission.in_flight == app.MOST_IN_FLIGHT)

    refused = await clients[-1].post("/mutate", review())
    edge.reviewer.hold.set()
    answers = await asyncio.gather(*waiting)

    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert {a.status for a in answers} == {200}
    assert edge.admission.in_flight == 0


async def test_a_caller_that_leaves_does_not_take_a_place(edge: Edge) -> None:
    client = await edge.connect()
    await client.send(head("POST", "/mutate", 100_000) + b"{")
    await until(lambda: edge.admission.arriving > 0)

    client.close()

    await until(lambda: edge.admission.arriving == 0)
    assert edge.log.getvalue() == b""


# --- time limits -----------------------------------------------------------------------------------


def test_idle_connections_live_longer_than_the_api_servers_90_seconds() -> None:
    assert server.IDLE_SECONDS > 90


async def only_connection(edge: Edge) -> Connection:
    await until(lambda: len(edge.server.connections()) == 1)
    return edge.server.connections()[0]


SLOW = {
    "a head that does not end": b"POST /mutate HTTP/1.1\r\nHost: a\r\n",
    "a body that does not end": head("POST", "/mutate", 1000) + b"{",
}


@pytest.mark.parametrize("begun", SLOW.values(), ids=SLOW)
async def test_a_request_that_does_not_end_is_dropped(edge: Edge, begun: bytes) -> None:
    client = await edge.connect()
    connection = await only_connection(edge)
    await client.send(begun)
    await until(lambda: connection.is_busy)

    connection.since -= server.REQUEST_SECONDS
    edge.server.sweep()

    with pytest.raises((ConnectionError, asyncio.IncompleteReadError, ssl.SSLError)):
        await client.receive()
    assert edge.rejections("timeout") == 1
    await until(lambda: edge.server.connections() == [])


async def test_an_answer_that_nobody_reads_is_dropped(edge: Edge) -> None:
    client = await edge.connect()
    connection = await only_connection(edge)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a read-write transport
    body = review("u" * 4_000_000)
    for _ in range(3):
        client.writer.write(head("POST", "/mutate", len(body)) + body)
    await until(lambda: connection.writing_paused)

    connection.since -= server.REQUEST_SECONDS
    edge.server.sweep()

    await until(lambda: edge.server.connections() == [])


async def test_an_idle_connection_is_not_swept(edge: Edge) -> None:
    client = await edge.connect()
    await client.post("/mutate", review())
    connection = await only_connection(edge)

    connection.since -= server.REQUEST_SECONDS * 2
    edge.server.sweep()

    assert (await client.post("/mutate", review())).status == 200


class Stumbling:
    """A loop whose ``accept`` fails a few times before it works."""

    def __init__(self, *errors: OSError) -> None:
        self._loop = asyncio.get_running_loop()
        self._errors = list(errors)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def sock_accept(self, listener: socket.socket) -> Any:
        if self._errors:
            raise self._errors.pop()
        return await self._loop.sock_accept(listener)


async def test_accepting_goes_on_after_errors(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "NO_FILES_SECONDS", 0.0)
    other = Server(edge.admission.handle, tls=edge.front.context, observer=edge)
    stumbling = Stumbling(ConnectionAbortedError(), OSError(errno.EMFILE, "too many open files"))
    monkeypatch.setattr(other, "_loop", stumbling)
    other.start(server.listen(("127.0.0.1", 0)))

    client = await Client.connect(other.port, client_context(CA.pem))

    assert (await client.post("/mutate", review())).status == 200
    assert edge.rejections("no_files") == 1
    client.close()
    await other.drain(0)


async def test_idle_strangers_make_room_for_a_new_caller(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    strangers = [await edge.connect() for _ in range(3)]
    await until(lambda: edge.server.open_connections == 3)
    await strangers[0].post("/mutate", review())

    newcomer = await edge.connect()

    assert (await newcomer.post("/mutate", review())).status == 200
    # The one that was used last stays, of the others the oldest went.
    assert (await strangers[0].post("/mutate", review())).status == 200
    await until(lambda: edge.server.open_connections == 3)


# --- TLS -------------------------------------------------------------------------------------------


async def test_plain_http_on_the_tls_port_is_recognised(edge: Edge) -> None:
    client = await edge.plain()

    await client.send(head("POST", "/mutate", 0))

    await until(lambda: edge.handshakes == ["plain_http"])


def dial(port: int, tls: ssl.SSLContext) -> None:
    """A blocking client: unlike asyncio's, it tells the other side why it leaves, as Go's does."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as plain:
        tls.wrap_socket(plain, server_hostname="localhost").close()


async def test_a_caller_that_does_not_trust_our_ca_is_recognised(edge: Edge) -> None:
    stranger = client_context(authority.create(NOW).pem)

    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(dial, edge.server.port, stranger)

    await until(lambda: edge.handshakes == ["untrusted"])


async def test_bytes_that_are_no_tls_are_recognised(edge: Edge) -> None:
    client = await edge.plain()

    await client.send(b"SSH-2.0-OpenSSH_9.9\r\n")

    await until(lambda: edge.handshakes == ["not_tls"])


async def test_a_caller_that_speaks_old_tls_only_is_recognised(edge: Edge) -> None:
    old = client_context(CA.pem)
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT:@SECLEVEL=0")

    with pytest.raises(ssl.SSLError):
        await asyncio.to_thread(dial, edge.server.port, old)

    await until(lambda: edge.handshakes == ["no_common_protocol"])


async def test_a_caller_that_leaves_in_the_handshake_is_recognised(edge: Edge) -> None:
    client = await edge.plain()

    client.close()

    await until(lambda: edge.handshakes == ["closed"])


async def test_a_handshake_has_a_time_limit(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 0.05)
    client = await edge.plain()

    await until(lambda: edge.handshakes == ["timeout"])
    assert await client.ended()


async def fail_handshakes(edge: Edge, count: int) -> int:
    """Fail that many in two ways; how many objects there are then."""
    edge.handshakes.clear()
    before = asyncio.all_tasks()
    for number in range(count):
        client = await Client.connect(edge.server.port, None)
        if number % 2:
            await client.send(b"GET / HTTP/1.1\r\n\r\n")
        client.close()
    await until(lambda: len(edge.handshakes) == count and asyncio.all_tasks() <= before)
    gc.collect()
    return len(gc.get_objects())


async def test_failed_handshakes_leave_nothing_behind(edge: Edge) -> None:
    before = await fail_handshakes(edge, 100)

    after = await fail_handshakes(edge, 200)

    assert after - before < 200  # python/cpython#109534 left several objects each
    assert edge.server.open_connections == 0
    assert (await (await edge.connect()).post("/mutate", review())).status == 200


async def test_a_new_pair_is_served_to_new_connections_and_old_ones_live_on(edge: Edge) -> None:
    old = await edge.connect()
    edge.front.use(keypair.server_context(authority.issue(CA, ["localhost"], NOW)))
    new = await edge.connect()

    certificates = {
        client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        for client in (old, new)
    }

    assert len(certificates) == 2
    assert (await old.post("/mutate", review())).status == 200
    assert (await new.post("/mutate", review())).status == 200


# --- leaving ---------------------------------------------------------------------------------------


async def test_leaving_finishes_what_has_begun_and_closes_the_rest(edge: Edge) -> None:
    edge.reviewer.hold = asyncio.Event()
    idle = [await edge.connect() for _ in range(20)]
    busy = await edge.connect()
    answer = asyncio.create_task(busy.post("/mutate", review("u-3")))
    await edge.reviewer.entered.wait()

    leaving = asyncio.create_task(edge.server.drain(0))
    await until(lambda: edge.server.is_draining)
    edge.reviewer.hold.set()
    await leaving

    response = await answer
    assert response.json["response"]["uid"] == "u-3"
    assert response.headers["connection"] == "close"
    assert all([await client.ended() for client in idle])


async def test_while_leaving_each_answer_ends_its_connection(edge: Edge) -> None:
    client = await edge.connect()
    leaving = asyncio.create_task(edge.server.drain(60))
    await until(lambda: edge.server.is_draining)

    response = await client.post("/mutate", review())
    newcomer = await edge.connect()  # still listening: not all clients know yet
    refused = await newcomer.post("/nowhere", review())

    assert (response.status, response.headers["connection"]) == (200, "close")
    assert (refused.status, refused.headers["connection"]) == (404, "close")
    assert await client.ended()
    assert await newcomer.ended()
    leaving.cancel()


async def test_after_leaving_nobody_is_let_in(edge: Edge) -> None:
    port = edge.server.port

    await edge.server.drain(0)

    with pytest.raises(ConnectionRefusedError):
        await Client.connect(port, None)


async def test_waiting_while_leaving_can_be_cut_short(edge: Edge) -> None:
    leaving = asyncio.create_task(edge.server.drain(60))
    await until(lambda: edge.server.is_draining)

    edge.server.hurry()

    async with asyncio.timeout(LIMIT):
        await leaving


async def test_what_does_not_end_in_time_is_dropped(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FINISH_SECONDS", 0.05)
    client = await edge.connect()
    connection = await only_connection(edge)
    await client.send(b"POST /mutate HTTP/1.1\r\n")
    await until(lambda: connection.is_busy)
    before = asyncio.all_tasks()
    await edge.plain()  # a handshake that never begins
    await until(lambda: bool(asyncio.all_tasks() - before))
    (handshake,) = asyncio.all_tasks() - before

    async with asyncio.timeout(LIMIT):
        await edge.server.drain(0)

    assert edge.server.open_connections == 0
    await until(handshake.done)


def test_ipv6_is_listened_on_beside_ipv4_at_the_same_port() -> None:
    try:
        sockets = server.listen(("", 0))
    except ConfigError:
        pytest.skip("no IPv6 on this machine")
    assert len({s.getsockname()[1] for s in sockets}) == 1
    for listener in sockets:
        listener.close()


def test_a_taken_port_is_an_error_with_its_address() -> None:
    (taken,) = server.listen(("127.0.0.1", 0))
    port = taken.getsockname()[1]

    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*in use"):
        server.listen(("127.0.0.1", port))
    taken.close()


def test_an_unknown_host_is_an_error_with_its_name() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on no\.such\.host\.invalid:1"):
        server.listen(("no.such.host.invalid", 1))
