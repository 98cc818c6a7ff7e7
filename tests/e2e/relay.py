"""A TCP port that hands each connection on to one of several others, and can be cut, or stalled.

It stands for the address of a Service, which the control plane of the tests does not have, and for the
network between a replica and the API server.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

CHUNK: Final = 1 << 16


@dataclass(eq=False, slots=True)
class _Pair:
    """A connection, and the one that it is handed on by."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    is_stalled: bool = False
    swallowed: int = 0
    """Bytes from afar that were not handed on."""

    def abort(self) -> None:
        self.near.transport.abort()
        self.far.transport.abort()


class Relay:
    """Runs in a thread of its own from ``with`` on."""

    def __init__(self, backends: Callable[[], Sequence[int]]) -> None:
        """Hand on to one of the ports of loopback that ``backends`` names when a connection comes."""
        self._backends = backends
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._open: set[_Pair] = set()
        self._is_cut = False
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.cuts = 0
        """How many connections were cut while they were open."""
        self.stalled: list[_Pair] = []
        """Those that were, open or not."""

    def __enter__(self) -> Self:
        """Accept connections."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cut what is open, and end."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def cut(self) -> None:
        """Break all connections, and refuse new ones until ``heal``."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def heal(self) -> None:
        """Let connections pass again."""
        self._is_cut = False

    def stall(self) -> None:
        """Let nothing more pass on the connections that are open, and leave them open; new ones are whole.

        As where a firewall between the two has forgotten what it had let pass: neither side can tell.
        """
        asyncio.run_coroutine_threadsafe(self._stall(), self._loop).result()

    @property
    def open_connections(self) -> int:
        """How many there are now."""
        return len(self._open)

    @property
    def swallowed(self) -> int:
        """Bytes that the other side sent on connections that were stalled."""
        return sum(pair.swallowed for pair in self.stalled)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._relay, sock=self._socket))
        self._loop.run_forever()
        server.close()
        self._break_all()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _cut(self) -> None:
        self._is_cut = True
        self.cuts += len(self._open)
        self._break_all()

    async def _stall(self) -> None:
        for pair in self._open:
            pair.is_stalled = True
        self.stalled += self._open

    def _break_all(self) -> None:
        for pair in self._open:
            pair.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports = () if self._is_cut else self._backends()
        try:
            if not ports:
                raise ConnectionRefusedError
            source, target = await asyncio.open_connection("127.0.0.1", random.choice(ports))
        except OSError:
            writer.transport.abort()  # a caller sees a reset: nobody listens
            return
        pair = _Pair(near=writer, far=target)
        self._open.add(pair)
        try:
            if not self._is_cut:  # it may have been while we connected
                await asyncio.gather(_send(pair, reader), _receive(pair, source))
        finally:
            self._open.discard(pair)
            pair.abort()


async def _send(pair: _Pair, reader: asyncio.StreamReader) -> None:
    """Hand on what comes until its end, and then the end: also of one that is stalled, for whom it is over."""
    try:
        while chunk := await reader.read(CHUNK):
            if not pair.is_stalled:
                pair.far.write(chunk)
                await pair.far.drain()
        pair.far.write_eof()
    except OSError:
        pair.far.transport.abort()


async def _receive(pair: _Pair, source: asyncio.StreamReader) -> None:
    """Hand on what comes back; of one that is stalled not even the end."""
    try:
        while chunk := await source.read(CHUNK):
            if pair.is_stalled:
                pair.swallowed += len(chunk)
            else:
                pair.near.write(chunk)
                await pair.near.drain()
        if not pair.is_stalled:
            pair.near.write_eof()
    except OSError:
        if not pair.is_stalled:
            pair.near.transport.abort()
