from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from kubernetes.aio.client.configuration import Configuration

from tests.webhook.kube.apiserver import ApiServer
from webhook.kube.client import Client
from webhook.kube.reflector import Surroundings


@dataclass
class Time:
    """A clock that moves when somebody sleeps, and remembers for how long."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)
    most: int = 400
    """Sleeps until everything stops: a loop without a pause would go on for ever."""

    watched: list[Callable[[], None]] = field(default_factory=list)
    """Called before each sleep: what is true then may not be for long."""

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        for look in self.watched:
            look()
        if len(self.slept) > self.most:
            await asyncio.Event().wait()
        self.now += seconds
        await asyncio.sleep(0)

    def around(self, **changes: Any) -> Surroundings:
        return Surroundings(clock=self.clock, sleep=self.sleep, uniform=max, **changes)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer().serving() as server:
        yield server


@pytest.fixture
async def client(server: ApiServer, time: Time) -> AsyncIterator[Client]:
    async def login() -> Configuration:
        await asyncio.sleep(0)
        return Configuration(host=server.url, api_key={"BearerToken": "Bearer t-1"})

    made = Client(login, clock=time.clock)
    await made.connect()
    yield made
    await made.close()
