"""A TCP port that hands each connection on to one of several others, and can be cut.

It stands for the address of a Service, which the control plane of the tests does not have, and for the
network between a replica and the API server.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

CHUNK: Final = 1 << 16


class Relay:
    """Runs in a thread of its own from ``with`` on."""

    def __init__(self, backends: Callable[[], Sequence[int]]) -> None:
        """Hand on to one of the ports of loopback that ``backends`` names when a connection comes."""
        self._backends = backends
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._open: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.cuts = 0
        """How many connections were cut while they were open."""

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
        self.cuts += len(self._open) // 2
        self._break_all()

    def _break_all(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports = () if self._is_cut else self._backends()
        try:
            if not ports:
                raise ConnectionRefusedError
            source, target = await asyncio.open_connection("127.0.0.1", random.choice(ports))
        except OSError:
            writer.transport.abort()  # a caller sees a reset: nobody listens
            return
        both = {writer, target}
        self._open |= both
        try:
            if not self._is_cut:  # it may have been while we connected
                await asyncio.gather(_pump(reader, target), _pump(source, writer))
        finally:
            self._open -= both
            for each in both:
                each.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes until its end, and then the end; what breaks is broken on both sides."""
    try:
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
        await writer.drain()
    except OSError:
        writer.transport.abort()
