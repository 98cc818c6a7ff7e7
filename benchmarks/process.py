"""Servers as processes, and what they cost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

START_SECONDS: Final = 120.0
CA: Final = "stationmaster-ca.crt"


@dataclass(frozen=True, slots=True)
class Server:
    """A server under test."""

    name: str
    pid: int
    port: int
    ca: Path


@contextmanager
def bare(folder: Path) -> Iterator[Server]:
    """The yardstick."""
    folder.mkdir()
    command = [sys.executable, "-m", "benchmarks.bare", str(folder)]
    with _running(command, subprocess.DEVNULL) as process:
        port = folder / "port"
        _wait_for(process, lambda: port.exists() and port.read_text().isdigit())
        yield Server("bare aiohttp", process.pid, int(port.read_text()), folder / CA)


@contextmanager
def stationmaster(name: str, cluster: Path, folder: Path) -> Iterator[Server]:
    """The real server, started by its command line; its log goes to a file, as it would to a node's disk."""
    folder.mkdir()
    log = folder / "log"
    command = [
        *(sys.executable, "-m", "webhook.cli", "serve", "--from", str(cluster)),
        *("--listen", "127.0.0.1:0", "--health-listen", "127.0.0.1:0", "--cert-dir", str(folder)),
    ]
    with log.open("wb") as stream, _running(command, stream.fileno()) as process:
        _wait_for(process, lambda: b"\n" in log.read_bytes())
        first = orjson.loads(log.read_bytes().splitlines()[0])
        port = int(first["webhook"].rpartition(":")[2])
        yield Server(name, process.pid, port, folder / CA)


@contextmanager
def _running(command: list[str], stderr: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stderr=stderr)
    try:
        yield process
    finally:
        process.kill()  # nothing to say good-bye to
        process.wait()


def _wait_for(process: subprocess.Popen[bytes], condition: object) -> None:
    if not callable(condition):
        raise TypeError
    until = time.monotonic() + START_SECONDS
    while not condition():
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the server did not start: {process.args!r}")
        time.sleep(0.02)


def cpu_seconds(pid: int) -> float:
    """CPU time of a process: to the nanosecond where the scheduler tells, else to a tick of 10 ms."""
    tasks = Path(f"/proc/{pid}/task")
    try:
        return sum(int((t / "schedstat").read_text().split()[0]) for t in tasks.iterdir()) / 1e9
    except (OSError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
