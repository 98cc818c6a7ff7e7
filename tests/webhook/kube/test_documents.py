"""Policies, exceptions and params of a cluster: followed while there can be any, and compiled before they count."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from plugins.framework.cluster import Documents
from tests.webhook.kube.apiserver import ApiServer, status
from tests.webhook.kube.conftest import Time
from tests.webhook.kube.test_source import CRDS, definition, during
from webhook.kube.client import Client
from webhook.kube.resources import DEFINITIONS, PARAMS, POLICIES
from webhook.kube.source import Source

POLICY, NAMESPACED, EXCEPTION = POLICIES
MAPS = "configmaps.api"
"""What the fake calls the collection."""

Key = tuple[str, str, str]
RULES: Key = ("TrainJobPolicy", "", "rules")


def policy(name: str = "rules", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "TrainJobPolicy",
        "metadata": {"name": name, "generation": 1},
        "spec": spec or {"priority": 1},
    }


def params(name: str, namespace: str = "a") -> dict[str, Any]:
    labels = {"stationmaster.dev/params": ""}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "data": {"maxNodes": "8"},
    }


@dataclass
class Compiler:
    """Compiles when it is let, in whatever thread; remembers what."""

    open: threading.Event = field(default_factory=threading.Event)
    given: list[Documents] = field(default_factory=list)
    done: list[Documents] = field(default_factory=list)
    fails: int = 0

    def __post_init__(self) -> None:
        self.open.set()

    def __call__(self, documents: Documents) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.given.append(documents)
        assert self.open.wait(10)
        if self.fails:
            self.fails -= 1
            raise RuntimeError("compiler")
        self.done.append(documents)


@dataclass
class World:
    server: ApiServer
    source: Source
    compiler: Compiler
    told: list[tuple[str, str]]

    @property
    def keys(self) -> set[Key]:
        return set(self.source.snapshot.documents)


@pytest.fixture
def world(server: ApiServer, client: Client, time: Time) -> World:
    compiler, told = Compiler(), list[tuple[str, str]]()
    source = Source(
        client,
        [DEFINITIONS, *POLICIES, PARAMS],
        around=time.around(),
        prepare=compiler,
        on_problem=lambda title, problem: told.append((title, problem)),
    )
    server.collections[CRDS] = {}
    return World(server, source, compiler, told)


def serve(world: World) -> None:
    for resource in POLICIES:
        world.server.put(definition(resource.crd), CRDS)
        world.server.collections.setdefault(resource.crd, {})
    world.server.collections.setdefault(MAPS, {})


async def test_without_their_kinds_nobody_asks_for_them_nor_for_config_maps(world: World) -> None:
    async def story() -> None:
        await world.server.until(lambda: len(world.server.watching(CRDS)) == 1)
        assert world.source.unsynced() is None

    await during(world.source, story)

    assert {seen.path for seen in world.server.requests} == {DEFINITIONS.path}


async def test_config_maps_are_asked_for_by_their_label_alone(world: World) -> None:
    serve(world)
    world.server.put(params("gpu-rules"), MAPS)

    async def story() -> None:
        await world.server.until(lambda: len(world.server.watching(MAPS)) == 1)
        await world.server.until(lambda: world.keys == {("ConfigMap", "a", "gpu-rules")})

    await during(world.source, story)

    asked = [seen.query for seen in world.server.requests if seen.path == PARAMS.path]
    assert len(asked) == 2
    assert {query["labelSelector"] for query in asked} == {"stationmaster.dev/params"}


async def test_it_is_ready_once_all_that_was_there_is_read_and_compiled(world: World) -> None:
    serve(world)
    world.server.put(policy(), POLICY.crd)
    world.server.put(params("gpu-rules"), MAPS)
    world.compiler.open.clear()

    async def story() -> None:
        await world.server.until(lambda: bool(world.compiler.given))
        await world.server.until(
            lambda: world.source.unsynced() == "not yet compiled: the policies"
        )
        assert world.keys == set()
        world.compiler.open.set()
        await world.server.until(lambda: world.source.unsynced() is None)
        assert world.keys == {RULES, ("ConfigMap", "a", "gpu-rules")}

    await during(world.source, story)


async def test_what_changes_is_swapped_when_it_is_compiled_and_all_at_once(world: World) -> None:
    serve(world)
    world.server.put(policy(), POLICY.crd)
    compiler, server, source = world.compiler, world.server, world.source

    async def story() -> None:
        await server.until(lambda: len(server.watching(POLICY.crd)) == 1 and world.keys == {RULES})
        await server.until(lambda: source.unsynced() is None)
        before = source.snapshot
        compiler.open.clear()
        server.change(policy("second"), of=POLICY.crd)
        await server.until(lambda: len(compiler.given) == len(compiler.done) + 1)
        for number in range(5):
            server.change(policy(f"p{number}"), of=POLICY.crd)
        server.change(policy(priority=2), "MODIFIED", of=POLICY.crd)
        await server.until(
            lambda: source.drafted.documents.get(RULES, {}).get("spec") == {"priority": 2}
        )
        assert source.snapshot.documents is before.documents
        assert source.unsynced() is None
        compiler.open.set()
        await server.until(lambda: len(world.keys) == 7)
        assert source.snapshot.documents[RULES]["spec"] == {"priority": 2}
        assert source.snapshot.documents is compiler.done[-1]

    await during(source, story)

    assert [len(each) for each in compiler.done][-2:] == [2, 7]


async def test_a_status_is_no_change_and_a_list_that_says_the_same_neither(world: World) -> None:
    serve(world)
    world.server.put(policy(), POLICY.crd)
    server, source = world.server, world.source

    async def story() -> None:
        await server.until(lambda: len(server.watching(POLICY.crd)) == 1 and world.keys == {RULES})
        kept = source.snapshot.documents
        compiled = len(world.compiler.given)
        ready = {**policy(), "status": {"conditions": [{"type": "Ready"}]}}
        server.change(ready, "MODIFIED", of=POLICY.crd)
        [first] = server.watching(POLICY.crd)
        first.send("ERROR", {"code": 410, "reason": "Expired"})
        first.end()
        await server.until(lambda: server.watching(POLICY.crd) not in ([], [first]))
        server.change(policy("other"), of=POLICY.crd)
        await server.until(lambda: len(world.keys) == 2)
        assert source.snapshot.documents[RULES] is kept[RULES]
        assert len(world.compiler.given) == compiled + 1

    await during(source, story)


async def test_they_go_with_their_kind(world: World) -> None:
    serve(world)
    world.server.put(policy(), POLICY.crd)
    world.server.put(params("gpu-rules"), MAPS)

    async def story() -> None:
        await world.server.until(lambda: len(world.keys) == 2)
        for resource in POLICIES:
            world.server.remove(resource.crd, CRDS)
        await world.server.until(lambda: world.keys == set())
        assert world.source.unsynced() is None

    await during(world.source, story)


async def test_one_that_may_not_be_read_is_waited_for_and_old_ones_are_told(
    world: World, time: Time
) -> None:
    """Policies decide: unlike advice, they are no policies that nobody could read."""
    serve(world)
    server, source = world.server, world.source
    time.most = 8

    async def story() -> None:
        await server.until(lambda: source.unsynced() is None)
        await server.until(lambda: len(server.watching(POLICY.crd)) == 1)
        server.list_tricks.extend([status(403, "Forbidden")] * 40)
        server.watch_tricks.extend([status(403, "Forbidden")] * 40)
        server.watching(POLICY.crd)[0].end()
        await server.until(lambda: len(time.slept) > time.most)
        assert "TrainJobPolicy for" in (source.stale() or "")

    await during(source, story)


@pytest.mark.parametrize("resource", [*POLICIES, PARAMS])
async def test_at_the_beginning_each_is_waited_for(world: World, time: Time, resource: Any) -> None:
    serve(world)
    time.most = 8
    forbidden = status(403, "Forbidden")

    async def trick(request: Any) -> Any:
        return await (forbidden if request.path == resource.path else world.server.list)(request)

    world.server.list_tricks.extend([trick] * 60)

    async def story() -> None:
        await world.server.until(lambda: len(time.slept) > time.most)
        said = f"not yet read: {resource.kind} (403 Forbidden: no)"
        assert world.source.unsynced(advice=False) == said

    await during(world.source, story)


async def test_a_fault_of_the_compiler_keeps_what_is_known_until_the_next_change(
    world: World,
) -> None:
    serve(world)
    world.server.put(policy(), POLICY.crd)
    server = world.server

    async def story() -> None:
        await server.until(lambda: len(server.watching(POLICY.crd)) == 1 and world.keys == {RULES})
        await server.until(lambda: world.source.unsynced() is None)
        world.compiler.fails = 1
        server.change(policy("second"), of=POLICY.crd)
        fault = ("policies", "internal fault (RuntimeError)")
        await server.until(lambda: fault in world.told)
        assert world.keys == {RULES}
        server.change(policy("third"), of=POLICY.crd)
        await server.until(lambda: len(world.keys) == 3)
        assert ("policies", "") in world.told

    await during(world.source, story)
