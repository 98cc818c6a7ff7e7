"""The side of a worker that is alike for all kinds: bounds on the process, frames on its pipes.

A frame is a length (four bytes, the highest first) and a body. Standard library only: a worker may run in another
interpreter than the server's.
"""

from __future__ import annotations

import os
import resource
import signal
import struct
from dataclasses import dataclass
from typing import BinaryIO, Final

HEADER: Final = struct.Struct(">I")
READY: Final = b"ready"
NICENESS: Final = 5
"""Behind the server, which answers others meanwhile."""
RETIRE_AT: Final = 0.5
"""The share of its memory from which on a worker asks to be replaced."""
ALARM_AFTER: Final = 2.0
"""Seconds beyond its time after which a question ends the process, if nobody has by then."""


def limit(bytes_of_memory: int) -> None:
    """Bound the memory of this process, and have an alarm end it."""
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (bytes_of_memory, bytes_of_memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # The server is stopped first, and its workers by it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def alarm(seconds: float) -> None:
    """End this process so long after a question's own time; no evaluation can hold that up. 0 calls it off."""
    signal.setitimer(signal.ITIMER_REAL, seconds + ALARM_AFTER if seconds else 0)


def has_grown(bytes_of_memory: int) -> bool:
    """Whether this process has used so much that it should be replaced."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return peak > bytes_of_memory * RETIRE_AT


@dataclass(frozen=True, slots=True)
class Pipes:
    """Where questions come from, and where answers go."""

    source: BinaryIO
    sink: BinaryIO

    @classmethod
    def take(cls) -> Pipes:
        """Standard input and output, which nobody else has from then on: what a library prints goes nowhere."""
        source = os.fdopen(os.dup(0), "rb")
        sink = os.fdopen(os.dup(1), "wb")
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        return cls(source, sink)

    def read(self) -> bytes | None:
        """The next question; None at the end."""
        header = self.source.read(HEADER.size)
        if len(header) < HEADER.size:
            return None
        (size,) = HEADER.unpack(header)
        body = self.source.read(size)
        return body if len(body) == size else None

    def write(self, frame: bytes) -> None:
        """Send a frame."""
        self.sink.write(frame)
        self.sink.flush()


def framed(body: bytes) -> bytes:
    """The length, and the body."""
    return HEADER.pack(len(body)) + body
