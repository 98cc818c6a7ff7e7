"""One kind through every fault that a watch can have; no test waits for real time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from tests.webhook.kube.apiserver import ApiServer, event, failure, says, status
from tests.webhook.kube.conftest import Time
from webhook.kube import lines
from webhook.kube.backoff import Backoff
from webhook.kube.client import Client, Query, Requests, Unreachable
from webhook.kube.reflector import GOOD_SECONDS, Reflector, Surroundings
from webhook.kube.resources import RUNTIMES, Resource

RESOURCE = RUNTIMES["ClusterTrainingRuntime"]


class Shelf:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.swaps = 0

    def swap(self, kept: Sequence[bytes]) -> None:
        self.swaps += 1
        self.objects = {}
        for data in kept:
            self.put(orjson.loads(data))

    def put(self, obj: dict[str, Any]) -> None:
        metadata = obj["metadata"]
        self.objects[metadata.get("namespace", ""), metadata["name"]] = obj

    def drop(self, namespace: str, name: str) -> None:
        self.objects.pop((namespace, name), None)

    @property
    def names(self) -> list[str]:
        return sorted(name for _, name in self.objects)

    def spec(self, name: str) -> Any:
        return self.objects["", name].get("spec")


def runtime(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def at(version: int, name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "spec": spec}


class Quiet:
    """Requests whose watches say nothing, until somebody says that this takes too long."""

    def __init__(self, client: Client) -> None:
        self.get = client.get
        self.is_too_long = asyncio.Event()
        self._client = client

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, *, accept: str, silence_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async def nothing() -> AsyncIterator[bytes]:
            yield b""  # makes this a generator, and no event
            await self.is_too_long.wait()
            self.is_too_long.clear()
            raise TimeoutError

        opened = self._client.stream(path, query, accept=accept, silence_seconds=silence_seconds)
        async with opened:
            yield nothing()


class Following:
    def __init__(
        self, client: Requests, around: Surroundings, resource: Resource = RESOURCE
    ) -> None:
        self.shelf = Shelf()
        self.reflector = Reflector(resource, client, self.shelf, around)

    async def during(self, story: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self.reflector.run())
        try:
            await story()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_list_in_pages_then_a_watch_with_bookmarks(
    server: ApiServer, client: Client, time: Time
) -> None:
    for i in range(7):
        server.put(runtime(f"r{i}"))
    server.page_size = 3
    following = Following(client, time.around())

    async def story() -> None:
        await server.until(lambda: len(server.watchers) == 1)
        server.change(runtime("new", a=1))
        server.change(runtime("r0", b=2), "MODIFIED")
        server.remove("r6")
        await server.until(lambda: following.shelf.names == ["new", *(f"r{i}" for i in range(6))])

    await following.during(story)

    assert following.shelf.swaps == 1
    assert following.shelf.spec("r0") == {"b": 2}
    assert [seen.query.get("continue") for seen in server.lists] == [None, "3", "6"]
    assert {seen.query["limit"] for seen in server.lists} == {"500"}
    watch = server.watches[0].query
    assert watch["allowWatchBookmarks"] == "true"
    assert watch["resourceVersion"] == "107"
    assert watch["timeoutSeconds"] == "600"
    assert time.slept == []


async def test_what_is_kept_has_neither_status_nor_managed_fields(
    server: ApiServer, client: Client, time: Time
) -> None:
    metadata = {"name": "r", "managedFields": [1], "annotations": {"a": "b"}, "labels": {"l": "1"}}
    server.put({"metadata": metadata, "spec": {"a": 1}, "status": {"big": 1}})
    following = Following(client, time.around())

    async def story() -> None:
        await server.until(lambda: following.reflector.synced)

    await following.during(story)

    assert following.shelf.objects["", "r"] == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "r", "labels": {"l": "1"}},
        "spec": {"a": 1},
    }


async def test_an_expired_version_in_the_stream_lists_again(
    server: ApiServer, client: Client, time: Time
) -> None:
    """B113: deleted runtimes disappear, within seconds."""
    server.put(runtime("gone"))
    following = Following(client, time.around())

    async def story() -> None:
        await server.until(lambda: bool(server.watchers))
        for name in ("a", "b", "c"):
            server.change(runtime(name))
        del server.objects["gone"]
        server.watchers[0].send("ERROR", failure(410, "Expired"))
        await server.until(lambda: following.shelf.names == ["a", "b", "c"])

    await following.during(story)

    assert following.shelf.swaps == 2
    assert sum(time.slept) <= 5
    assert "None" not in [seen.query.get("resourceVersion") for seen in server.requests]


async def test_an_expired_version_as_a_status_lists_again(
    server: ApiServer, client: Client, time: Time
) -> None:
    server.watch_tricks.append(status(410, "Expired"))
    following = Following(client, time.around())

    async def story() -> None:
        await server.until(lambda: len(server.watchers) == 1)

    await following.during(story)

    assert (len(server.lists), len(server.watches)) == (2, 2)


async def test_a_list_whose_continue_expires_begins_again(
    server: ApiServer, client: Client, time: Time
) -> None:
    for i in range(4):
        server.put(runtime(f"r{i}"))
    server.page_size = 2
    server.list_tricks.extend([server.list, status(410, "Expired")])
    following = Following(client, time.around())

    async def story() -> None:
        await server.until(lambda: following.reflector.synced)

    await following.during(story)

    assert [seen.query.get("continue") for seen in server.lists] == [None, "2", None, "2"]
    assert following.shelf.names == ["r0", "r1", "r2", "r3"]


async def test_the_end_of_a_watch_goes_on_from_the_last_version(
    server: ApiServer, client: Client, time: Time
) -> None:
    server.watch_tricks.append(
        says(
            event("ADDED", at(120, "a")),
            event("BOOKMARK", {"metadata": {"resourceVersion": "150"}}),
        )
    )
    following = Following(client, time.around())

    async def story() -> None:
        await server.until(lambda: len(server.watches) == 2)

    await following.during(story)

    assert [seen.query["resourceVersion"] for seen in server.watches] == ["100", "150"]
    assert following.shelf.names == ["a"]
    assert following.shelf.swaps == 1


async def test_a_watch_that_is_cut_at_once_is_not_a_tight_loop(
    server: ApiServer, client: Client, time: Time
) -> None:
    server.watch_tricks.extend([says()] * 12)
    following = Following(client, time.around())

    async def story() -> None:
        await server.until(lambda: len(server.watchers) == 1)

    await following.during(story)

    assert time.slept == [1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30, 30]
    assert len(server.lists) == 1


async def test_a_good_minute_forgets_earlier_failures(
    server: ApiServer, client: Client, time: Time
) -> None:
    following = Following(client, time.around())

    async def lives_long(request: web.Request) -> web.StreamResponse:
        response = await says(event("BOOKMARK", {"metadata": {"resourceVersion": "101"}}))(request)
        await server.until(lambda: not following.reflector.problem)  # the head has arrived
        time.now += GOOD_SECONDS
        return response

    server.watch_tricks.extend([says(), says(), says(), lives_long, says()])

    async def story() -> None:
        await server.until(lambda: len(server.watchers) == 1)

    await following.during(story)

    assert time.slept == [1, 2, 4, 1]


async def test_errors_of_the_list_are_waited_out(
    server: ApiServer, client: Client, time: Time
) -> None:
    server.list_tricks.extend([status(500), status(503), status(429)])
    following = Following(client, time.around())

    async def story() -> None:
        await server.until(lambda: following.reflector.synced)

    await following.during(story)

    assert time.slept == [1, 2, 4]
    assert following.reflector.failures == 3


async def test_errors_of_the_watch_keep_what_is_known(
    server: ApiServer, client: Client, time: Time
) -> None:
    server.put(runtime("a"))
    server.watch_tricks.extend([status(500)] * 3)
    following = Following(client, time.around())
    known: list[tuple[bool, list[str]]] = []

    async def story() -> None:
        await server.until(lambda: len(server.watchers) == 1 and not following.reflector.problem)

    time.watched.append(lambda: known.append((following.reflector.synced, following.shelf.names)))
    await following.during(story)

    assert len(server.lists) == 1
    assert known == [(True, ["a"])] * 3


async def test_a_silent_watch_is_left_and_listed_again(
    server: ApiServer, client: Client, time: Time
) -> None:
    """B115: what happened during the silence is seen."""
    quiet = Quiet(client)
    following = Following(quiet, time.around())

    async def story() -> None:
        await server.until(lambda: not following.reflector.problem)
        server.put(runtime("unheard-of"))
        time.now += 90
        quiet.is_too_long.set()
        await server.until(lambda: following.shelf.names == ["unheard-of"])

    await following.during(story)

    assert following.reflector.failures == 0


async def test_a_silence_that_no_list_ends_was_part_of_the_cut(
    server: ApiServer, client: Client, time: Time
) -> None:
    time.most = 0
    quiet = Quiet(client)
    following = Following(quiet, time.around())

    async def story() -> None:
        await server.until(lambda: not following.reflector.problem)
        server.list_tricks.append(status(503))
        time.now += 90
        quiet.is_too_long.set()
        await server.until(lambda: following.reflector.failures == 1)
        assert following.reflector.cut_off_seconds == 90

    await following.during(story)


@pytest.mark.parametrize("code", [403, 404])
async def test_a_kind_that_cannot_be_read_is_tried_again_for_ever(
    server: ApiServer, client: Client, time: Time, code: int
) -> None:
    """B121 and B122: a permission granted, or a CRD installed, after the start."""
    server.list_tricks.extend([status(code, "Nope")] * 3)
    server.put(runtime("a"))
    following = Following(client, time.around())
    reflector = following.reflector
    problems: list[tuple[bool, str]] = []
    time.watched.append(lambda: problems.append((reflector.synced, reflector.problem)))

    async def story() -> None:
        await server.until(lambda: following.shelf.names == ["a"])

    await following.during(story)

    assert problems == [(False, f"{code} Nope: no")] * 3
    # Once is what an API server says that has just started.
    assert time.slept == [1, 30, 30]


async def test_a_kind_that_is_awaited_is_read_at_once_when_woken(
    server: ApiServer, client: Client
) -> None:
    server.list_tricks.append(status(404, "NotFound"))
    asleep = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        asleep.set()
        await asyncio.Event().wait()

    around = Surroundings(clock=lambda: 0.0, sleep=sleep, uniform=lambda _low, high: high)
    following = Following(client, around)

    async def story() -> None:
        await asleep.wait()
        assert following.reflector.absent
        following.reflector.wake()
        await server.until(lambda: following.reflector.synced)

    await following.during(story)

    assert not following.reflector.absent


EVENTS = {
    "the same event twice": (
        [("ADDED", at(201, "a", v=1)), ("ADDED", at(201, "a", v=1))],
        {"a": {"v": 1}},
    ),
    "an older state after a newer one": (
        [("ADDED", at(202, "a", v=2)), ("MODIFIED", at(201, "a", v=1))],
        {"a": {"v": 2}},
    ),
    "an older deletion": (
        [("ADDED", at(202, "a", v=2)), ("DELETED", at(201, "a"))],
        {"a": {"v": 2}},
    ),
    "an older state after the deletion": (
        [("ADDED", at(201, "a")), ("DELETED", at(203, "a")), ("MODIFIED", at(202, "a"))],
        {},
    ),
    "a new object of an old name": (
        [("ADDED", at(201, "a", v=1)), ("DELETED", at(202, "a")), ("ADDED", at(203, "a", v=3))],
        {"a": {"v": 3}},
    ),
    "another object's event with an older version": (
        [("ADDED", at(205, "a", v=1)), ("ADDED", at(204, "b", v=2))],
        {"a": {"v": 1}, "b": {"v": 2}},
    ),
    "versions that are no numbers": (
        [("ADDED", {"metadata": {"name": "a", "resourceVersion": "x"}, "spec": {"v": 1}})],
        {"a": {"v": 1}},
    ),
    "the deletion of what was never there": ([("DELETED", at(201, "a"))], {}),
    "an event without a name, and one of a kind that nobody knows": (
        [("ADDED", {"metadata": {}}), ("PARTY", at(202, "b"))],
        {},
    ),
}


@pytest.mark.parametrize(("events", "want"), EVENTS.values(), ids=EVENTS)
async def test_events_twice_or_out_of_order(
    server: ApiServer,
    client: Client,
    time: Time,
    events: list[tuple[str, dict[str, Any]]],
    want: dict[str, Any],
) -> None:
    server.watch_tricks.append(says(*(event(kind, obj) for kind, obj in events)))
    following = Following(client, time.around())

    async def story() -> None:
        await server.until(lambda: len(server.watches) == 2)

    await following.during(story)

    assert {name: following.shelf.spec(name) for name in following.shelf.names} == want


async def test_an_object_larger_than_any_buffer(
    server: ApiServer, client: Client, time: Time
) -> None:
    following = Following(client, time.around())
    text = "x" * 5_000_000

    async def story() -> None:
        await server.until(lambda: len(server.watchers) == 1)
        server.change(runtime("huge", text=text))
        await server.until(lambda: following.shelf.names == ["huge"])

    await following.during(story)

    assert following.shelf.spec("huge") == {"text": text}


BROKEN = {
    "an error in the stream": event("ERROR", failure(500, "InternalError")),
    "a line that is not JSON": b'{"type": "ADDED", \n',
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
async def test_a_broken_stream_lists_again(
    server: ApiServer, client: Client, time: Time, line: bytes
) -> None:
    server.watch_tricks.append(says(line))
    following = Following(client, time.around())

    async def story() -> None:
        await server.until(lambda: len(server.watchers) == 1)

    await following.during(story)

    assert len(server.lists) == 2
    assert time.slept == [1]


async def test_half_an_event_at_the_end_is_none(
    server: ApiServer, client: Client, time: Time
) -> None:
    server.watch_tricks.append(
        says(event("ADDED", at(201, "a")), event("ADDED", at(202, "b"))[:-9])
    )
    following = Following(client, time.around())

    async def story() -> None:
        await server.until(lambda: len(server.watchers) == 1)

    await following.during(story)

    assert following.shelf.names == ["a"]
    assert server.watches[1].query["resourceVersion"] == "201"


async def test_a_list_without_a_version_is_not_believed(
    server: ApiServer, client: Client, time: Time
) -> None:
    async def page(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"items": [runtime("a")]})

    server.list_tricks.append(page)
    following = Following(client, time.around())

    async def story() -> None:
        await server.until(lambda: following.reflector.synced)

    await following.during(story)

    assert following.shelf.names == []


async def test_a_fault_of_ours_is_survived(server: ApiServer, client: Client, time: Time) -> None:
    following = Following(client, time.around())
    good = following.shelf.swap

    def swap(kept: Sequence[bytes]) -> None:
        following.shelf.swap = good  # type: ignore[method-assign]  # a fault that happens once
        raise KeyError(len(kept))

    following.shelf.swap = swap  # type: ignore[method-assign]  # a fault that happens once

    async def story() -> None:
        await server.until(lambda: following.reflector.synced)

    await following.during(story)

    assert following.reflector.failures == 1


async def test_how_long_we_are_cut_off_is_counted_from_the_end_of_the_watch(
    server: ApiServer, client: Client, time: Time
) -> None:
    following = Following(client, time.around())
    reflector = following.reflector
    cut: list[float] = []

    async def story() -> None:
        await server.until(lambda: not reflector.problem)
        time.now += 50
        assert (reflector.cut_off_seconds, reflector.last_contact_seconds) == (0, 50)
        server.watch_tricks.extend([status(500)] * 3)
        time.watched.append(lambda: cut.append(reflector.cut_off_seconds))
        server.watchers[0].end()
        await server.until(lambda: len(cut) == 4 and reflector.cut_off_seconds == 0)

    await following.during(story)

    assert cut == [0, 1, 3, 7]


async def test_metadata_alone_is_asked_for_as_such(
    server: ApiServer, client: Client, time: Time
) -> None:
    resource = Resource(kind="Namespace", plural="namespaces", metadata_only=True, only="a")
    following = Following(client, time.around(), resource)

    async def story() -> None:
        await server.until(lambda: len(server.watchers) == 1)

    await following.during(story)

    accepts = [seen.headers["Accept"] for seen in server.requests]
    assert accepts == [
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    ]
    assert {seen.path for seen in server.requests} == {"/api/v1/namespaces"}
    assert {seen.query["fieldSelector"] for seen in server.requests} == {"metadata.name=a"}


async def test_an_endless_line_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_BYTES", 10)

    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b"abc\nde", b"f\n", b"x" * 8, b"y" * 8):
            yield chunk

    found = lines.split(chunks())

    assert [await anext(found), await anext(found)] == [b"abc", b"def"]
    with pytest.raises(Unreachable):
        await anext(found)


def test_waits_are_never_shorter_than_half_a_second() -> None:
    drawn: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        drawn.append((low, high))
        return low

    backoff = Backoff(uniform)
    for _ in range(20):
        backoff.next()

    assert {low for low, _ in drawn} == {0.5}
    assert drawn[0][1] == 1
    assert drawn[-1][1] == 30
    assert backoff.long() == 15
