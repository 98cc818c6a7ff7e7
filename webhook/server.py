"""How connections live and die: listening, TLS, time limits, and the way out.

aiohttp parses and writes HTTP; this module owns what it leaves to the application:

- connections are accepted one by one, because a loop's own server swallows failed handshakes, and
  "the caller does not trust our CA" is the one fact that an operator needs then;
- a request has a limited time from its first byte to the last byte of its answer;
- leaving takes three steps, measured without a lost call (see ``Server.drain``).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from aiohttp import HttpVersion11, web

from plugins.framework.errors import ConfigError

if TYPE_CHECKING:
    from webhook.config import Address

IDLE_SECONDS: Final = 120.0
"""Above the 90 s after which an API server drops an idle connection: were ours shorter, we would close
just as a POST is sent, and POSTs are not retried (aio-libs/aiohttp#2682)."""

REQUEST_SECONDS: Final = 40.0
"""An API server waits 30 s at most (``timeoutSeconds``); whoever takes longer is not one."""

HANDSHAKE_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 1.0
"""How long we wait for the other side's part of a TLS goodbye."""

MOST_CONNECTIONS: Final = 800
"""Below the 1,024 files that a process may open by default. An API server keeps up to 25 idle
connections for each of our two paths, so this is enough for sixteen of them."""

BACKLOG: Final = 1024
"""All API servers connect anew at once when a ``caBundle`` changes, and a handshake takes 2 ms."""

PROBE_IDLE_SECONDS: Final = 15.0

SWEEP_SECONDS: Final = 1.0

NO_FILES_SECONDS: Final = 0.2
"""How long to leave the listener alone when the process can open no more files."""

# The way out takes 5 s at most (with 2 s of draining), also where idle connections do not say goodbye:
# a pod has 30 s, an impatient operator less.
AFTER_CLOSING_SECONDS: Final = 1.0
FINISH_SECONDS: Final = 1.2
GOODBYE_SECONDS: Final = 0.5


class Observer(Protocol):
    """Who wants to know of what happens below HTTP."""

    def handshake_failed(self, reason: str) -> None:
        """A connection ended before TLS was agreed on."""

    def rejected(self, reason: str) -> None:
        """A request got no answer of the application's."""


class Server:
    """The TLS port: accepts connections, bounds them, and lets them go without losing a call."""

    def __init__(self, handler: Handler, *, tls: ssl.SSLContext, observer: Observer) -> None:
        """Prepare to hand requests to ``handler``; must be called on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._manager = _Manager(handler, observer)
        self._tls = tls
        self._observer = observer
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._shaking: set[asyncio.Task[None]] = set()
        self._hurry = asyncio.Event()

    @property
    def is_draining(self) -> bool:
        """Whether we are on the way out."""
        return self._manager.is_draining

    @property
    def open_connections(self) -> int:
        """How many connections there are, idle ones included."""
        return len(self._manager.connections)

    def connections(self) -> list[Connection]:
        """All of them."""
        return [c for c in self._manager.connections if isinstance(c, Connection)]

    @property
    def port(self) -> int:
        """The port that we listen on, once started."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    def start(self, sockets: list[socket.socket]) -> None:
        """Accept connections from these listening sockets."""
        self._sockets = sockets
        for listener in sockets:
            _spawn(self._accept(listener), self._tasks)
        _spawn(self._sweep(), self._tasks)

    def sweep(self) -> None:
        """Drop whoever takes too long with a request: its head, its body, or reading the answer."""
        late = time.monotonic() - REQUEST_SECONDS
        for connection in self.connections():
            if connection.is_busy and connection.since < late:
                self._observer.rejected("timeout")
                connection.abort()

    async def drain(self, seconds: float) -> None:
        """Leave: say ``Connection: close`` for a while, stop listening, finish what has begun.

        API servers go on using open connections to a pod that is leaving. Closing at once, or after a
        pause in which they stay busy, loses calls (EOF, which is not retried for a POST); telling them
        with each answer lost none in six runs. Idle connections do not hold us up
        (aio-libs/aiohttp#1221). ``seconds`` 0 skips the waiting, for a person at a terminal.
        """
        self._manager.is_draining = True
        await self._pause(seconds)
        await self._stop_listening()
        if seconds:
            await self._pause(AFTER_CLOSING_SECONDS)
        await self._finish()
        await self._close()

    def hurry(self) -> None:
        """Skip the waiting of ``drain``."""
        self._hurry.set()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    async def _stop_listening(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        # First they let go of the sockets: the loop would mistake the next file for a closed one.
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._sockets:
            listener.close()

    async def _finish(self) -> None:
        until = self._loop.time() + FINISH_SECONDS
        # An event would cost each request a call, for the sake of the one time that we leave.
        while self._loop.time() < until and self._has_begun_something():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for task in self._shaking:
            task.cancel()

    def _has_begun_something(self) -> bool:
        return bool(self._shaking) or any(c.is_busy for c in self.connections())

    async def _close(self) -> None:
        for connection in self.connections():
            if connection.is_busy:
                connection.abort()
            else:
                connection.force_close()
        until = self._loop.time() + GOODBYE_SECONDS
        while self._loop.time() < until and self.open_connections:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(listener)
            except ConnectionError:
                continue  # it left before its turn came
            except OSError:
                self._observer.rejected("no_files")
                await asyncio.sleep(NO_FILES_SECONDS)
                continue
            if len(self._manager.connections) >= MOST_CONNECTIONS:
                self._make_room()
            _spawn(self._shake_hands(connection), self._shaking)

    async def _shake_hands(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._manager,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=CLOSE_SECONDS,
            )
        except OSError as exc:  # SSLError, resets and the time limit are all of this kind
            self._observer.handshake_failed(_why(exc))

    def _make_room(self) -> None:
        """Close the connection that has been idle longest, so that idle strangers cannot lock us."""
        idle = [c for c in self.connections() if not c.is_busy]
        if idle:
            self._observer.rejected("too_many_connections")
            min(idle, key=_since).abort()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()


class PlainServer:
    """The port without TLS: for probes and metrics, which tell nothing of anybody's objects."""

    def __init__(self, handler: Handler) -> None:
        """Prepare to hand requests to ``handler``; must be called on the running loop."""
        self._manager = web.Server(handler, access_log=None, keepalive_timeout=PROBE_IDLE_SECONDS)
        self._servers: list[asyncio.Server] = []

    async def start(self, sockets: list[socket.socket]) -> None:
        """Accept connections from these listening sockets."""
        loop = asyncio.get_running_loop()
        self._servers = [await loop.create_server(self._manager, sock=s) for s in sockets]

    def close(self) -> None:
        """Stop at once: nobody loses anything."""
        for listener in self._servers:
            listener.close()
        for connection in self._manager.connections:
            connection.force_close()


def _spawn(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    """Start ``work``, and hold on to it: the loop itself keeps tasks by weak references only."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


def listen(address: Address) -> list[socket.socket]:
    """Sockets that listen on all that the host's name stands for, at one port."""
    host, port = address
    sockets: list[socket.socket] = []
    try:
        for family, kind, proto, _, where in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            listener = socket.socket(family, kind, proto)
            sockets.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.settimeout(0)
            # With port 0 the first socket chooses for the others.
            listener.bind((where[0], port, *where[2:]))
            listener.listen(BACKLOG)
            port = listener.getsockname()[1]
    except OSError as exc:
        for listener in sockets:
            listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
    return sockets


Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _Manager(web.Server):
    """aiohttp's factory of protocols, making ours."""

    def __init__(self, handler: Handler, observer: Observer) -> None:
        super().__init__(handler)
        self.observer = observer
        self.is_draining = False

    def __call__(self) -> Connection:
        return Connection(self)


class Connection(web.RequestHandler):
    """aiohttp's protocol for one connection, and since when it has been at what it does."""

    __slots__ = ("is_busy", "manager", "since")

    def __init__(self, manager: _Manager) -> None:
        """Begin idle."""
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # None is aiohttp's own way to switch it off
            # Nobody compresses a request of a few KiB, but an attacker would.
            auto_decompress=False,
            keepalive_timeout=IDLE_SECONDS,
            # For how long to read on after a refusal, so that the other side gets to see it.
            lingering_time=2.0,
        )
        self.manager = manager
        self.is_busy = False
        self.since = time.monotonic()

    def data_received(self, data: bytes) -> None:
        """Take bytes; the first ones of a request start its clock."""
        if not self.is_busy:
            self.is_busy = True
            self.since = time.monotonic()
        super().data_received(data)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer; its last byte stops the clock."""
        if self.manager.is_draining:
            resp.force_close()
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self.is_busy = bool(self._messages)
            self.since = time.monotonic()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer bytes that are not HTTP. aiohttp would log them, and they may hold a secret."""
        del request, exc, message
        self.manager.observer.rejected("not_http")
        response = refuse(status, "the request is not valid HTTP")
        response.force_close()
        return response

    def abort(self) -> None:
        """Drop the connection now."""
        if self.transport is not None:
            self.transport.abort()


def _since(connection: Connection) -> float:
    return connection.since


def refuse(status: int, message: str, **headers: str) -> web.Response:
    """A short JSON body for a request that is not answered with a review."""
    return web.json_response({"code": status, "message": message}, status=status, headers=headers)


class Reply(web.StreamResponse):
    """A 200 with a JSON body, in one write.

    ``web.Response`` builds a map of headers that are the same in each answer; without it a call costs
    a quarter less (docs/adr/0001). The base's ``__init__`` is part of that cost and is not called: of
    a response, ``web.RequestHandler`` uses what is here and ``keep_alive``.
    """

    def __init__(self, body: bytes) -> None:
        """Answer ``body``."""
        self._keep_alive = True
        self._reply = body
        self._to: web.BaseRequest | None = None

    async def prepare(self, request: web.BaseRequest) -> None:
        """Note where to write."""
        self._to = request
        if not request.keep_alive or request.version < HttpVersion11:
            self._keep_alive = False

    async def write_eof(self, data: bytes = b"") -> None:
        """Write head and body; wait only if the other side does not read."""
        del data
        request, body = self._to, self._reply
        transport = request.transport if request is not None else None
        if request is None or transport is None or transport.is_closing():
            raise ConnectionResetError
        head = _HEAD if self._keep_alive else _HEAD_CLOSE
        date = _date(int(time.time()))
        transport.write(b"%b%b\r\nContent-Length: %d\r\n\r\n%b" % (head, date, len(body), body))
        if request.protocol.writing_paused:
            await request.writer.drain()


_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: "
_HEAD_CLOSE: Final = _HEAD.replace(b"Date", b"Connection: close\r\nDate")


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()


def _why(exc: OSError) -> str:
    """Why a handshake failed, as one of a few words that an operator can act on."""
    if not isinstance(exc, ssl.SSLError):
        # uvloop and asyncio say "taking longer than ... seconds" by ConnectionAbortedError.
        return "timeout" if isinstance(exc, ConnectionAbortedError | TimeoutError) else "closed"
    reason = exc.reason or ""
    if "HTTP_REQUEST" in reason or "HTTPS_PROXY" in reason:
        return "plain_http"
    if "UNKNOWN_CA" in reason or "CERTIFICATE" in reason:
        return "untrusted"
    if "PROTOCOL" in reason or "CIPHER" in reason:
        return "no_common_protocol"
    return "not_tls"  # "wrong version number" is what OpenSSL says of any other bytes
