"""All kinds together: readiness, staleness, what the cluster can do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from plugins.framework.cluster import Snapshot
from plugins.framework.errors import ConfigError
from plugins.framework.interface import WatchExtensionPlugin
from plugins.framework.lines import LINES
from tests.webhook.kube.apiserver import ApiServer, status
from tests.webhook.kube.conftest import Time
from webhook.assembly import build_pipeline
from webhook.kube.capabilities import Capabilities
from webhook.kube.client import Client
from webhook.kube.resources import (
    ALWAYS,
    ASKED,
    DEFINITIONS,
    RUNTIMES,
    TRAIN_JOB_DEFINITION,
    asked_for,
)
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


# Kinds that only warnings are made of

JOB_SETS = next(r for r in ASKED if r.kind == "JobSet")
CRDS = DEFINITIONS.crd


def definition(name: str = JOB_SETS.crd, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


def job_set(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "a"}}


def has(source: Source, name: str) -> bool:
    return source.snapshot.owner("JobSet", "a", name) is not None


@dataclass
class World:
    """An API server with CRDs, and perhaps JobSets; and who follows both."""

    server: ApiServer
    source: Source
    told: list[tuple[str, str]]

    def crds(self, *names: str) -> None:
        self.server.collections[CRDS] = {}
        for name in names:
            self.server.put(definition(name), CRDS)

    def asked(self) -> int:
        return sum(seen.path == JOB_SETS.path for seen in self.server.requests)


@pytest.fixture
def world(server: ApiServer, client: Client, time: Time) -> World:
    told: list[tuple[str, str]] = []
    source = Source(
        client,
        [DEFINITIONS, JOB_SETS],
        around=time.around(),
        on_problem=lambda title, problem: told.append((title, problem)),
    )
    return World(server, source, told)


async def test_a_kind_that_the_cluster_does_not_have_is_neither_asked_for_nor_waited_for(
    world: World,
) -> None:
    world.crds("podgroups.scheduling.volcano.sh")

    async def story() -> None:
        await world.server.until(lambda: world.source.unsynced() is None)
        assert len(world.server.watching(CRDS)) <= 1
        assert world.asked() == 0
        assert all(
            r.cut_off_seconds == 0 for r in world.source.reflectors if r.resource is JOB_SETS
        )

    await during(world.source, story)

    assert world.told == []


async def test_one_that_comes_is_followed_and_one_that_goes_is_forgotten(world: World) -> None:
    world.crds()
    server, source = world.server, world.source

    async def story() -> None:
        await server.until(lambda: len(server.watching(CRDS)) == 1)
        server.put(job_set("old"), JOB_SETS.crd)
        server.change(definition(), of=CRDS)
        await server.until(lambda: has(source, "old"))
        await server.until(lambda: len(server.watching(JOB_SETS.crd)) == 1)
        server.change(job_set("new"), of=JOB_SETS.crd)
        await server.until(lambda: has(source, "new"))
        server.remove(JOB_SETS.crd, CRDS)
        await server.until(lambda: not has(source, "old") and not has(source, "new"))
        assert source.unsynced() is None
        await server.until(lambda: server.watching(JOB_SETS.crd) == [])
        server.change(definition(), of=CRDS)
        await server.until(lambda: has(source, "old") and has(source, "new"))

    await during(source, story)

    assert world.told == []


async def test_one_that_is_there_is_waited_for(world: World) -> None:
    world.crds(JOB_SETS.crd)
    server, source = world.server, world.source
    slow = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == JOB_SETS.path:
            await slow.wait()
        return await server.list(request)

    server.put(job_set("a"), JOB_SETS.crd)
    server.list_tricks.extend([answer] * 2)

    async def story() -> None:
        await server.until(lambda: world.asked() == 1)
        assert source.unsynced() == "not yet read: JobSet (not listed yet)"
        assert source.unsynced(advice=False) is None
        slow.set()
        await server.until(lambda: source.unsynced() is None)
        assert has(source, "a")

    await during(source, story)


async def test_one_is_told_of_before_it_can_be_listed(world: World, time: Time) -> None:
    """The API server tells of a CRD at once, and of its being established with the next event."""
    world.crds(JOB_SETS.crd)
    server, source = world.server, world.source
    time.most = 1

    async def story() -> None:
        await server.until(lambda: ("JobSet", "404 NotFound: no") in world.told)
        assert source.unsynced() is None
        await server.until(lambda: len(time.slept) > time.most)
        await server.until(lambda: len(server.watching(CRDS)) == 1)
        server.put(job_set("a"), JOB_SETS.crd)
        server.change(definition(labels={"established": "yes"}), "MODIFIED", of=CRDS)
        await server.until(lambda: has(source, "a"))

    await during(source, story)


async def test_one_that_may_not_be_read_is_a_reason_to_wait_but_none_to_refuse(
    world: World, time: Time
) -> None:
    world.crds(JOB_SETS.crd)
    server, source = world.server, world.source
    time.most = 8

    async def answer(request: web.Request) -> web.StreamResponse:
        trick = status(403, "Forbidden") if request.path == JOB_SETS.path else server.list
        return await trick(request)

    server.list_tricks.extend([answer] * 40)

    async def story() -> None:
        await server.until(lambda: len(time.slept) > time.most)
        assert source.unsynced() == "not yet read: JobSet (403 Forbidden: no)"
        assert (source.unsynced(advice=False), source.stale()) == (None, None)

    await during(source, story)


async def test_who_taps_a_kind_hears_all_of_it_and_nothing_else(
    server: ApiServer, client: Client, time: Time
) -> None:
    heard: list[object] = []

    class Tap:
        def swap(self, kept: Sequence[bytes]) -> None:
            heard.extend(orjson.loads(each)["metadata"]["name"] for each in kept)

        def put(self, obj: dict[str, Any]) -> None:
            heard.append(obj["metadata"]["name"])

        def drop(self, namespace: str, name: str) -> None:
            heard.append((namespace, name))

    server.collections[CRDS] = {}
    server.put(definition(), CRDS)
    server.put(job_set("old"), JOB_SETS.crd)
    source = Source(client, [DEFINITIONS, JOB_SETS], around=time.around(), taps={"JobSet": Tap()})

    async def story() -> None:
        await server.until(lambda: len(server.watching(JOB_SETS.crd)) == 1)
        server.change(job_set("new"), of=JOB_SETS.crd)
        server.remove("old", JOB_SETS.crd)
        await server.until(lambda: ("a", "old") in heard)
        assert has(source, "new")
        assert not has(source, "old")

    await during(source, story)

    assert heard == ["old", "new", ("a", "old")]


async def test_a_status_that_nobody_keeps_makes_no_snapshot(
    server: ApiServer, client: Client, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_jobs = next(r for r in ASKED if r.kind == "TrainJob")
    job = {"metadata": {"name": "j", "namespace": "a"}, "spec": {"runtimeRef": {"name": "r"}}}
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    server.collections[CRDS] = {}
    server.put(definition(train_jobs.crd), CRDS)
    server.put(job, train_jobs.crd)
    source = Source(client, [DEFINITIONS, train_jobs], around=time.around())
    taken: list[Snapshot] = []

    async def story() -> None:
        await server.until(lambda: len(server.watching(train_jobs.crd)) == 1)
        assert users(source) == 1
        take = source.take

        def counted(snapshot: Snapshot) -> None:
            taken.append(snapshot)
            take(snapshot)

        monkeypatch.setattr(source, "take", counted)
        for active in range(3):
            busy = {**job, "status": {"jobsStatus": [{"active": active}]}}
            server.change(busy, "MODIFIED", of=train_jobs.crd)
        server.change({**job, "status": done}, "MODIFIED", of=train_jobs.crd)
        await server.until(lambda: users(source) == 0)

    await during(source, story)

    assert len(taken) == 1


def users(source: Source) -> int:
    return source.snapshot.users("ClusterTrainingRuntime", "", "r", most=0).total


# What plugins ask for


def test_what_is_always_watched_may_be_asked_for() -> None:
    assert asked_for(["LimitRange.", "RuntimeClass.node.k8s.io"]) == ALWAYS


def test_what_is_asked_for_is_watched_too_each_once() -> None:
    wanted = ["PodGroup.scheduling.volcano.sh", "TrainJob.trainer.kubeflow.org"]

    more = asked_for([*wanted, *wanted])[len(ALWAYS) :]

    assert [r.path for r in more] == [
        "/apis/trainer.kubeflow.org/v1alpha1/trainjobs",
        "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    ]


def test_the_built_in_profile_asks_for_all_there_is() -> None:
    pipeline = build_pipeline(None)
    plugins = map(pipeline.plugins.__getitem__, pipeline.order("watches"))
    watches = [w for p in plugins if isinstance(p, WatchExtensionPlugin) for w in p.watches()]

    assert asked_for(watches) == (*ALWAYS, *ASKED)


@pytest.mark.parametrize("kind", ["Secret.", "Pod.", "LimitRange", "PodGroup."])
def test_what_must_not_or_cannot_be_watched_is_an_error(kind: str) -> None:
    with pytest.raises(ConfigError, match="a plugin asks to watch"):
        asked_for([kind])
