"""The client: sends pairs of a mutating and a validating review, as the API server does, and times them.

A process of its own, so that its CPU time is not the server's. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson
import uvloop

from benchmarks import process, review

VARIANTS: Final = 100
"""Different runtimes that the reviews name, where there are that many."""

WARM_UP: Final = 200


@dataclass(frozen=True, slots=True)
class Result:
    """What one round measured."""

    cpu_us: float
    """CPU time of the server a pair."""
    p50_ms: float
    p99_ms: float
    """Of single calls."""
    calls_per_second: float


class Client(asyncio.Protocol):
    """One connection; as little work as can be, since it shares the machine with the server."""

    def __init__(self) -> None:
        """Begin unconnected."""
        self.transport: asyncio.Transport
        self.answer: asyncio.Future[bytes]
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note where to write."""
        self.transport = transport  # type: ignore[assignment]  # a TLS transport reads and writes

    def data_received(self, data: bytes) -> None:
        """Collect an answer."""
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) >= length:
            self.received = b""
            if head[9:12] == b"200":
                self.answer.set_result(body)
            else:
                self.answer.set_exception(RuntimeError(head.decode() + body.decode()))

    async def call(self, request: bytes) -> bytes:
        """Send a request, wait for its answer's body."""
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.answer


def request(path: str, body: bytes) -> bytes:
    """A POST as the API server writes it."""
    head = (
        f"POST {path}?timeout=10s HTTP/1.1\r\nHost: localhost\r\n"
        "User-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\nAccept: application/json, */*\r\n"
        "Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


async def prepare(client: Client, runtimes: int) -> list[tuple[bytes, bytes]]:
    """The pairs to send; what validates is what the server itself made of the job."""
    pairs = []
    for number in range(min(runtimes, VARIANTS)):
        body = review.create_review("mnist", review.runtime_name(number))
        answer = await client.call(request("/mutate", body))
        pairs.append((request("/mutate", body), request("/validate", review.after(body, answer))))
    return pairs


async def send(
    client: Client, pairs: list[tuple[bytes, bytes]], count: int, rate: float
) -> list[float]:
    """Send that many pairs, at ``rate`` calls a second (0: as fast as they are answered)."""
    times: list[float] = []
    begin = time.perf_counter()
    for number in range(count):
        for call in pairs[number % len(pairs)]:
            if rate:
                due = begin + len(times) / rate
                await asyncio.sleep(max(due - time.perf_counter(), 0))
            sent = time.perf_counter()
            await client.call(call)
            times.append(time.perf_counter() - sent)
    return times


async def measure(options: argparse.Namespace) -> Result:
    """Connect, warm up, send, and account."""
    tls = ssl.create_default_context(cafile=str(options.ca))
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(options.connections):
        _, client = await loop.create_connection(
            Client, "127.0.0.1", options.port, ssl=tls, server_hostname="localhost"
        )
        clients.append(client)
    pairs = await prepare(clients[0], options.runtimes)
    await send(clients[0], pairs, WARM_UP, 0)
    cpu, begin = process.cpu_seconds(options.pid), time.perf_counter()
    share = options.pairs // len(clients)
    parts = await asyncio.gather(*(send(c, pairs, share, options.rate) for c in clients))
    spent, took = process.cpu_seconds(options.pid) - cpu, time.perf_counter() - begin
    times = sorted(seconds for part in parts for seconds in part)
    return Result(
        cpu_us=spent / (len(times) / 2) * 1e6,
        p50_ms=times[len(times) // 2] * 1e3,
        p99_ms=times[int(len(times) * 0.99)] * 1e3,
        calls_per_second=len(times) / took,
    )


def main() -> None:
    """Read the arguments, print the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--ca", type=Path, required=True)
    parser.add_argument("--runtimes", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0.0)
    result = uvloop.run(measure(parser.parse_args()))
    sys.stdout.write(orjson.dumps(asdict(result)).decode())


if __name__ == "__main__":
    main()
