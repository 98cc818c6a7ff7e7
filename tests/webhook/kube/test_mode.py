"""The switch in a cluster: one ConfigMap of ours, followed by its name."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from tests.webhook.kube.apiserver import ApiServer, failure, status
from tests.webhook.kube.conftest import Time
from webhook import logs
from webhook.kube.client import Client
from webhook.kube.mode import ModeFollower
from webhook.metrics import Recorder
from webhook.mode import NAME, Switch

PATH = "/api/v1/namespaces/ours/configmaps"


def config_map(mode: str) -> dict[str, Any]:
    return {"metadata": {"name": NAME, "namespace": "ours"}, "data": {"mode": mode}}


@dataclass
class World:
    """A follower before an API server, and what it told."""

    server: ApiServer
    client: Client
    time: Time
    told: list[tuple[str, str]] = field(default_factory=list)
    log: io.BytesIO = field(default_factory=io.BytesIO)

    def __post_init__(self) -> None:
        self.switch = Switch(recorder=Recorder(), logger=logs.build(self.log))
        self.follower = ModeFollower(
            self.switch,
            self.client,
            namespace="ours",
            around=self.time.around(),
            tell=lambda title, problem: self.told.append((title, problem)),
        )

    async def during(self, story: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self.follower.reflector.run())
        try:
            await story()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until(self, mode: str) -> None:
        await self.server.until(lambda: self.switch.mode == mode)

    async def watched(self) -> None:
        await self.server.until(lambda: len(self.server.watchers) == 1)


@pytest.fixture
def world(server: ApiServer, client: Client, time: Time) -> World:
    return World(server, client, time)


async def test_only_the_one_of_that_name_in_our_namespace_is_asked_for(world: World) -> None:
    await world.during(world.watched)

    assert {seen.path for seen in world.server.requests} == {PATH}
    assert {seen.query["fieldSelector"] for seen in world.server.requests} == {
        f"metadata.name={NAME}"
    }


async def test_it_is_followed_from_its_creation_to_its_end(world: World) -> None:
    async def story() -> None:
        await world.watched()
        assert world.switch.mode == "enforce"
        world.server.change(config_map("off"))
        await world.until("off")
        world.server.change(config_map("warn"), "MODIFIED")
        await world.until("warn")
        world.server.remove(NAME)
        await world.until("enforce")

    await world.during(story)


async def test_one_that_is_there_already_is_read_before_we_are_ready(world: World) -> None:
    world.server.put(config_map("off"))
    assert world.follower.unread() == f"not yet read: {NAME} (not listed yet)"

    async def story() -> None:
        await world.server.until(lambda: world.follower.unread() is None)
        assert world.switch.mode == "off"

    await world.during(story)


async def test_without_one_we_are_ready_and_enforce(world: World) -> None:
    async def story() -> None:
        await world.server.until(lambda: world.follower.unread() is None)
        assert world.switch.mode == "enforce"

    await world.during(story)


async def test_what_is_not_ours_is_nothing_to_us(world: World) -> None:
    """Not every API server between us and the real one knows field selectors."""
    other = {"metadata": {"name": "other"}, "data": {"mode": "enforce"}}
    world.server.put(other)
    world.server.put(config_map("warn"))

    async def story() -> None:
        await world.until("warn")
        await world.watched()
        world.server.change(other, "MODIFIED")
        world.server.remove("other")
        world.server.change(config_map("off"), "MODIFIED")
        await world.until("off")

    await world.during(story)

    modes = [orjson.loads(line)["mode"] for line in world.log.getvalue().splitlines()]
    assert modes == ["warn", "off"]


async def test_cut_off_it_stays_where_it_was(world: World) -> None:
    world.server.put(config_map("off"))

    async def story() -> None:
        await world.until("off")
        await world.watched()
        world.server.watch_tricks.append(status(500))
        world.server.list_tricks.extend([status(500)] * 3)
        world.server.watchers[0].send("ERROR", failure(500))
        await world.server.until(lambda: world.follower.reflector.failures > 3)
        assert world.switch.mode == "off"
        assert world.follower.unread() is None

    await world.during(story)


async def test_what_happened_while_we_were_cut_off_is_read_afterwards(world: World) -> None:
    world.server.put(config_map("off"))

    async def story() -> None:
        await world.until("off")
        await world.watched()
        del world.server.objects[NAME]
        world.server.watchers[0].send("ERROR", failure(410, "Expired"))
        await world.until("enforce")

    await world.during(story)


async def test_a_mistake_stays_without_effect_until_it_is_mended(world: World) -> None:
    world.server.put(config_map("warn"))

    async def story() -> None:
        await world.watched()
        world.server.change(config_map("of"), "MODIFIED")
        await world.server.until(lambda: b"not understood" in world.log.getvalue())
        assert world.switch.mode == "warn"
        world.server.change(config_map("off"), "MODIFIED")
        await world.until("off")

    await world.during(story)

    read = [orjson.loads(line).get("read") for line in world.log.getvalue().splitlines()]
    assert read == [None, '"of"', None]


async def test_without_the_right_to_read_it_we_enforce_and_say_so(world: World) -> None:
    """A new image may come before its rights, and must not be held up by that."""
    world.server.list_tricks.extend([status(403, "Forbidden")] * 2)

    async def story() -> None:
        await world.server.until(lambda: world.follower.unread() is None)
        assert world.switch.mode == "enforce"

    world.time.most = 1  # the first pause ends by itself, the second does not
    await world.during(story)

    [(title, problem)] = world.told
    assert title == "mode"
    assert problem.startswith("403 Forbidden")


async def test_refused_once_is_no_answer_yet(world: World) -> None:
    """An API server that has just started does not know its rules yet."""
    world.server.list_tricks.append(status(403, "Forbidden"))
    world.time.most = 0

    async def story() -> None:
        await world.server.until(lambda: bool(world.time.slept))
        assert "403" in (world.follower.unread() or "")

    await world.during(story)


async def test_a_right_that_is_granted_later_is_used(world: World) -> None:
    world.server.put(config_map("off"))
    world.server.list_tricks.extend([status(403, "Forbidden")] * 4)
    await world.during(lambda: world.until("off"))
