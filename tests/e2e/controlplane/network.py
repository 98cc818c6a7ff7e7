"""The Service network, for the API server: the names of Services lead to processes on loopback.

There is no kube-proxy and there are no addresses of pods. But Go's HTTP client, with which the API server calls
webhooks, asks a proxy for every host that is not loopback, Services included. So one that knows where a Service's
processes listen stands in for the network, and webhook configurations stay as they are installed.
"""

from __future__ import annotations

import random
import select
import socket
import socketserver
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

CHUNK: Final = 65536
CONNECT_SECONDS: Final = 5.0


class Network:
    """A proxy that tunnels (``CONNECT``) to one of the ports that a Service has been given."""

    def __init__(self) -> None:
        """Listen on a free port of loopback; ``__enter__`` serves."""
        self._routes: dict[str, tuple[int, ...]] = {}
        network = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                network.tunnel(self)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        """Serve."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop; tunnels end with their clients."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def environ(self) -> Mapping[str, str]:
        """What the API server is started with."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return {"HTTPS_PROXY": url, "https_proxy": url, "NO_PROXY": "", "no_proxy": ""}

    def route(self, service: str, *ports: int) -> None:
        """Lead new connections to ``HOST:PORT`` to one of these, or nowhere."""
        self._routes[service] = ports

    def tunnel(self, handler: socketserver.StreamRequestHandler) -> None:
        """Answer one connection."""
        _, service, _ = handler.rfile.readline().decode("latin-1").split(" ", 2)
        while handler.rfile.readline().strip():
            pass  # the headers tell nothing
        ports = self._routes.get(service)
        if not ports:
            handler.wfile.write(b"HTTP/1.1 503 No endpoints\r\n\r\n")
            return
        try:
            address = ("127.0.0.1", random.choice(ports))
            backend = socket.create_connection(address, timeout=CONNECT_SECONDS)
        except OSError:
            handler.wfile.write(b"HTTP/1.1 502 Connection refused\r\n\r\n")
            return
        with backend:
            handler.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            _join(handler.connection, backend)


def _join(one: socket.socket, other: socket.socket) -> None:
    """Copy what each says to the other, until one ends."""
    others = {one: other, other: one}
    while True:
        readable, _, _ = select.select([one, other], [], [])
        for source in readable:
            try:
                data = source.recv(CHUNK)
                others[source].sendall(data)
            except OSError:
                return
            if not data:
                return
