"""The whole server, run for the length of a story."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson

from tests.certs.handshake import client_context
from tests.webhook.fakes import LIMIT, Client
from webhook import wiring
from webhook.config import ServeOptions
from webhook.wiring import Service


@dataclass
class Running:
    service: Service
    log: io.BytesIO

    async def connect(self) -> Client:
        assert self.service.ca_file is not None
        return await Client.connect(
            self.service.port, client_context(self.service.ca_file.read_bytes())
        )

    async def ask(self, path: str) -> tuple[int, str]:
        """GET from the plain port: the status and what was said."""
        client = await Client.connect(self.service.health_port, None)
        answer = await client.ask("GET", path)
        client.close()
        return answer.status, answer.body.decode()

    async def health(self, path: str) -> int:
        return (await self.ask(path))[0]

    async def until(self, path: str, said: str) -> None:
        """Until the plain port says so."""
        async with asyncio.timeout(LIMIT):
            while said not in (await self.ask(path))[1]:  # noqa: ASYNC110  # an answer, not an event
                await asyncio.sleep(0.01)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.log.getvalue().splitlines()]

    def messages(self) -> list[str]:
        return [line["msg"] for line in self.lines]


async def serving(options: ServeOptions, story: Callable[[Running], Awaitable[None]]) -> Running:
    """Serve while ``story`` is told, and leave; what was written remains."""
    log = io.BytesIO()
    begun: asyncio.Future[Service] = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(LIMIT):
        task = asyncio.create_task(wiring.serve(options, log, started=begun.set_result))
        task.add_done_callback(lambda _: begun.done() or begun.cancel())
        await asyncio.wait([begun])
        if begun.cancelled():
            await task
        running = Running(begun.result(), log)
        try:
            await story(running)
        finally:
            running.service.stop(0.0)
            await task
    return running
