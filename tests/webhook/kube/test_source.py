"""All kinds together: readiness, staleness, what the cluster can do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from plugins.framework.errors import ConfigError
from plugins.framework.lines import LINES
from tests.webhook.kube.apiserver import ApiServer, status
from tests.webhook.kube.conftest import Time
from webhook.kube.capabilities import Capabilities
from webhook.kube.client import Client
from webhook.kube.resources import ALWAYS, DEFINITIONS, RUNTIMES, TRAIN_JOB_DEFINITION, asked_for
from webhook.kube.source import Source

if TYPE_CHECKING:
    from aiohttp import web

RUNTIME = RUNTIMES["ClusterTrainingRuntime"]
LINE = LINES["2.3"]


async def during(source: Source, story: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.create_task(source.run())
    try:
        await story()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def runtime(name: str, nodes: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"mlPolicy": {"numNodes": nodes}}}


def nodes(source: Source, name: str) -> int | None:
    found = source.snapshot.runtime("ClusterTrainingRuntime", "", name, LINE)
    return None if found is None else found.num_nodes


async def test_it_is_not_ready_until_all_is_read(
    server: ApiServer, client: Client, time: Time
) -> None:
    """B117: a slow list."""
    slow = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        await slow.wait()
        return await server.list(request)

    server.put(runtime("a", 3))
    server.list_tricks.append(answer)
    source = Source(client, [RUNTIME], around=time.around())

    async def story() -> None:
        await server.until(lambda: len(server.lists) == 1)
        assert source.unsynced() == "not yet read: ClusterTrainingRuntime (not listed yet)"
        slow.set()
        await server.until(lambda: source.unsynced() is None)
        assert nodes(source, "a") == 3

    await during(source, story)


async def test_events_make_a_new_snapshot_and_leave_the_old_one(
    server: ApiServer, client: Client, time: Time
) -> None:
    server.put(runtime("a", 1))
    server.put(runtime("b", 1))
    source = Source(client, [RUNTIME], around=time.around())

    async def story() -> None:
        await server.until(lambda: len(server.watchers) == 1)
        before = source.snapshot
        kept = before.runtime("ClusterTrainingRuntime", "", "b", LINE)
        server.change(runtime("a", 5), "MODIFIED")
        await server.until(lambda: nodes(source, "a") == 5)
        old = before.runtime("ClusterTrainingRuntime", "", "a", LINE)
        assert old is not None
        assert old.num_nodes == 1
        assert source.snapshot.runtime("ClusterTrainingRuntime", "", "b", LINE) is kept
        server.remove("a")
        await server.until(lambda: nodes(source, "a") is None)

    await during(source, story)


async def test_it_is_stale_once_it_is_cut_off_for_longer_than_the_bound(
    server: ApiServer, client: Client, time: Time
) -> None:
    """B116: known runtimes go on being served, and the age is told."""
    server.put(runtime("a"))
    source = Source(client, [RUNTIME], around=time.around(), stale_seconds=60)
    time.most = 8

    async def story() -> None:
        await server.until(lambda: len(server.watchers) == 1)
        assert source.stale() is None
        server.watch_tricks.extend([status(503, "Down")] * 20)
        server.watchers[0].end()
        await server.until(lambda: len(time.slept) > time.most)
        assert source.stale() == (
            "cut off from the API server: ClusterTrainingRuntime for 121 s (503 Down: no)"
        )
        assert nodes(source, "a") == 1
        assert source.unsynced() is None

    await during(source, story)


async def test_a_crd_that_comes_later_is_noticed(
    server: ApiServer, client: Client, time: Time
) -> None:
    told: list[Capabilities] = []
    source = Source(client, [DEFINITIONS], around=time.around(), on_change=told.append)

    async def story() -> None:
        await server.until(lambda: len(server.watchers) == 1)
        name = "podgroups.scheduling.volcano.sh"
        server.change({"kind": "PartialObjectMetadata", "metadata": {"name": name}})
        await server.until(lambda: source.capabilities.gangs == ("volcano",))
        server.remove(name)
        await server.until(lambda: source.capabilities.gangs == ())

    await during(source, story)

    assert [found.gangs for found in told] == [("volcano",), ()]
    assert source.snapshot.served == frozenset()


def crd(field: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"properties": {"spec": {"properties": {field: {}}}}}
    return {
        "metadata": {"name": "trainjobs.trainer.kubeflow.org"},
        "spec": {
            "names": {"kind": "TrainJob"},
            "versions": [{"schema": {"openAPIV3Schema": spec}}],
        },
    }


async def test_the_line_follows_the_crd(server: ApiServer, client: Client, time: Time) -> None:
    server.put(crd("podSpecOverrides"))
    source = Source(client, [TRAIN_JOB_DEFINITION], around=time.around())
    generations: list[str] = []

    async def story() -> None:
        for kind in ("podTemplateOverrides", "runtimePatches"):
            await server.until(lambda: len(server.watchers) == 1)
            generations.append(source.capabilities.generation)
            server.change(crd(kind), "MODIFIED")
            await server.until(lambda: source.capabilities.generation == kind)  # noqa: B023  # awaited at once
        generations.append(source.capabilities.generation)
        server.remove("trainjobs.trainer.kubeflow.org")
        await server.until(lambda: source.capabilities.line is None)

    await during(source, story)

    assert generations == ["podSpecOverrides", "podTemplateOverrides", "runtimePatches"]


def test_what_plugins_ask_for_is_watched_already() -> None:
    assert asked_for(["LimitRange.", "RuntimeClass.node.k8s.io"]) == ALWAYS


@pytest.mark.parametrize("kind", ["Secret.", "ConfigMap.", "Pod.", "LimitRange"])
def test_what_must_not_or_cannot_be_watched_is_an_error(kind: str) -> None:
    with pytest.raises(ConfigError, match="a plugin asks to watch"):
        asked_for([kind])
