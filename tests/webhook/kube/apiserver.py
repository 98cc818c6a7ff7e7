"""An API server that does as it is told: lists, watches, and every fault of the field on demand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.webhook.fakes import LIMIT

Object: TypeAlias = dict[str, Any]
Trick: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query


@dataclass
class Watcher:
    """A watch that is open: what is put here is sent."""

    events: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    of: str = ""
    """The name of the kind's CRD."""

    def send(self, kind: str, obj: Object) -> None:
        self.events.put_nowait(orjson.dumps({"type": kind, "object": obj}) + b"\n")

    def send_bytes(self, data: bytes) -> None:
        self.events.put_nowait(data)

    def end(self) -> None:
        self.events.put_nowait(None)


class ApiServer:
    """One collection at any path, unless there are ``collections``; single objects by name; tricks before all else."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.collections: dict[str, dict[str, Object]] = {}
        """Where a test needs several kinds: each by the name of its CRD (events by their selector), and no other is served."""
        self.others: dict[str, Object] = {}
        """What GET of a path gives, for single objects."""
        self.version = 100
        self.requests: list[Seen] = []
        self.list_tricks: deque[Trick] = deque()
        self.watch_tricks: deque[Trick] = deque()
        self.get_trick: Trick | None = None
        self.watchers: list[Watcher] = []
        self.page_size = 500
        self.url = ""
        self._news = asyncio.Event()

    @property
    def lists(self) -> list[Seen]:
        return [seen for seen in self.requests if not seen.is_watch]

    @property
    def watches(self) -> list[Seen]:
        return [seen for seen in self.requests if seen.is_watch]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ApiServer]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        server = TestServer(app)
        await server.start_server()
        self.url = str(server.make_url("")).rstrip("/")
        try:
            yield self
        finally:
            for watcher in self.watchers:
                watcher.end()
            await server.close()

    def put(self, obj: Object, of: str = "") -> Object:
        """Store an object under the next version, and tell nobody."""
        self.version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self._stored(of)[obj["metadata"]["name"]] = obj
        return obj

    def change(self, obj: Object, kind: str = "ADDED", of: str = "") -> None:
        """Store it, and tell all who watch."""
        stored = self.put(obj, of)
        for watcher in self.watching(of):
            watcher.send(kind, stored)

    def remove(self, name: str, of: str = "") -> None:
        self.version += 1
        obj = self._stored(of).pop(name)
        obj["metadata"]["resourceVersion"] = str(self.version)
        for watcher in self.watching(of):
            watcher.send("DELETED", obj)

    def watching(self, of: str = "") -> list[Watcher]:
        """Who watches a kind; all who watch anything where none is named."""
        return [watcher for watcher in self.watchers if of in {"", watcher.of}]

    def _stored(self, of: str) -> dict[str, Object]:
        return self.collections.setdefault(of, {}) if of else self.objects

    def _served(self, request: web.Request) -> dict[str, Object] | None:
        return self.collections.get(_collection(request)) if self.collections else self.objects

    async def until(self, what: Callable[[], bool]) -> None:
        """Until it is so; looked at after each request and each wait of the reflector."""
        async with asyncio.timeout(LIMIT):
            while not what():  # noqa: ASYNC110  # what is waited for is a state of several objects
                await asyncio.sleep(0.002)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        seen = Seen(request.path, dict(request.query), dict(request.headers))
        self.requests.append(seen)
        if request.path in self.others or self.get_trick is not None:
            if self.get_trick is not None:
                return await self.get_trick(request)
            return web.json_response(self.others[request.path])
        if seen.is_watch:
            return await (self.watch_tricks.popleft() if self.watch_tricks else self.watch)(request)
        return await (self.list_tricks.popleft() if self.list_tricks else self.list)(request)

    async def list(self, request: web.Request) -> web.StreamResponse:
        begin = int(request.query.get("continue", "0"))
        size = min(int(request.query.get("limit", "500")), self.page_size)
        objects = self._served(request)
        if objects is None:
            return await status(404, "NotFound")(request)
        names = sorted(objects)
        metadata: Object = {"resourceVersion": str(self.version)}
        if begin + size < len(names):
            metadata["continue"] = str(begin + size)
        items = [objects[name] for name in names[begin : begin + size]]
        return web.json_response({"kind": "List", "metadata": metadata, "items": items})

    async def watch(self, request: web.Request) -> web.StreamResponse:
        if self._served(request) is None:
            return await status(404, "NotFound")(request)
        response = web.StreamResponse()
        watcher = Watcher(of=_collection(request))
        self.watchers.append(watcher)  # whoever has seen the head misses nothing
        try:
            await response.prepare(request)
            while (data := await watcher.events.get()) is not None:
                await response.write(data)
        finally:
            self.watchers.remove(watcher)
        return response


def _collection(request: web.Request) -> str:
    """``/apis/GROUP/VERSION/PLURAL`` -> ``PLURAL.GROUP``; for events, which of them are selected."""
    group, _, plural = ["", "", *request.path.split("/")][-3:]
    return request.query["fieldSelector"] if plural == "events" else f"{plural}.{group}"


def status(code: int, reason: str = "Broken") -> Trick:
    """Answers with an error."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response(failure(code, reason), status=code)

    return answer


def failure(code: int, reason: str = "Broken") -> Object:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"}


def says(*lines: bytes) -> Trick:
    """A watch that says this and ends."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line)
        return response

    return answer


def event(kind: str, obj: Object) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"
