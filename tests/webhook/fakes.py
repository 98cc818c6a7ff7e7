"""A reviewer that does as it is told, and a client that speaks HTTP/1.1 over real TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson

from plugins.framework.errors import BadReview
from webhook.review import Answer

LIMIT = 60.0
"""Seconds that a test waits for what must come: a guard against hanging, not a measure, on the busiest machine."""


def make_answer(**changes: Any) -> Answer:
    """A review that was allowed, and what is different this time."""
    plain = Answer(
        body=b"{}",
        decision="allowed",
        uid="u-1",
        operation="CREATE",
        kind="TrainJob",
        namespace="team-a",
        name="demo",
        user="alice@example.com",
        dry_run=False,
        warnings=0,
        findings=0,
    )
    return msgspec.structs.replace(plain, **changes)


@dataclass(slots=True)
class FakeReviewer:
    """Answers with the review's uid, and remembers what it was asked."""

    hold: asyncio.Event | None = None
    error: Exception | None = None
    deadlines: list[float] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    entered: asyncio.Event = field(default_factory=asyncio.Event)

    async def mutate(self, body: bytes, *, deadline: float) -> Answer:
        return await self._answer("mutate", body, deadline)

    async def validate(self, body: bytes, *, deadline: float) -> Answer:
        return await self._answer("validate", body, deadline)

    async def _answer(self, webhook: str, body: bytes, deadline: float) -> Answer:
        self.calls.append(webhook)
        self.deadlines.append(deadline)
        self.entered.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.error is not None:
            raise self.error
        try:
            uid = orjson.loads(body)["request"]["uid"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as exc:
            raise BadReview("the body is not an AdmissionReview") from exc
        return make_answer(body=orjson.dumps({"response": {"uid": uid, "allowed": True}}), uid=uid)


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


class Client:
    """One connection, byte by byte, so that tests can send what no HTTP library would."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, tls: ssl.SSLContext | None) -> Client:
        host = "localhost" if tls is not None else None
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=host))

    async def post(self, target: str, body: bytes, **headers: str) -> Response:
        return await self.ask("POST", target, body, **headers)

    async def ask(self, method: str, target: str, body: bytes = b"", **headers: str) -> Response:
        await self.send(head(method, target, len(body), **headers) + body)
        return await self.receive()

    async def send(self, data: bytes) -> None:
        async with asyncio.timeout(LIMIT):
            self.writer.write(data)
            await self.writer.drain()

    async def receive(self) -> Response:
        async with asyncio.timeout(LIMIT):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            pairs = [line.split(": ", 1) for line in lines[1:] if line]
            headers = {name.lower(): value for name, value in pairs}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Response(int(lines[0].split(" ")[1]), headers, body)

    async def ended(self) -> bool:
        """Whether the server has said goodbye, cleanly."""
        async with asyncio.timeout(LIMIT):
            return await self.reader.read(1) == b""

    def close(self) -> None:
        self.writer.close()


def head(method: str, target: str, length: int, **headers: str) -> bytes:
    """A request's head as the API server writes it."""
    fields = {
        "Host": "localhost",
        "User-Agent": "kube-apiserver-admission",
        "Content-Type": "application/json",
        "Content-Length": str(length),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items() if v)]
    return "\r\n".join([*lines, "", ""]).encode()


def review(uid: str = "u-1", size: int = 0) -> bytes:
    """The smallest review, or one of ``size`` bytes."""
    body = orjson.dumps({"request": {"uid": uid, "filler": ""}})
    return body[:-3] + b"x" * (size - len(body)) + body[-3:]


Connect = Callable[[], Awaitable[Client]]
