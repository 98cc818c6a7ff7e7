"""A worker: reads questions from its standard input, writes answers to its standard output, until the input ends.

Started by ``webhook.workers`` as a process of its own, which may be killed at any moment. It bounds itself as well: its
memory, and the seconds of one question by an alarm that no evaluation can hold up, so that none outlives a server that
was killed.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from typing import BinaryIO, Final

from policies.cel.asking import ask
from policies.cel.protocol import (
    HEADER,
    Ask,
    Question,
    Reply,
    decode_question,
    encode_reply,
    frame,
)
from policies.cel.values import EvaluationError

READY: Final = b"ready"
NICENESS: Final = 5
"""Behind the server, which answers others meanwhile."""
RETIRE_AT: Final = 0.5
"""The share of its memory from which on a worker asks to be replaced."""
ALARM_AFTER: Final = 2.0
"""Seconds beyond its time after which a question ends the process, if nobody has by then."""


def main(bytes_of_memory: int) -> None:
    """Serve until the input ends."""
    _limit(bytes_of_memory)
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    # What a library prints must not end up between the frames.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    _warm_up()
    _write(sink, frame(READY))
    while (body := _read(source)) is not None:
        _write(sink, _answer(body, bytes_of_memory))


def _limit(bytes_of_memory: int) -> None:
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (bytes_of_memory, bytes_of_memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # The server is stopped first, and its workers by it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _warm_up() -> None:
    """Make the environments, so that the first question does not wait for them."""
    ask(Question(policy="", digest="", expressions=(Ask("", "'a' == 'a'"),)))


def _answer(body: bytes, bytes_of_memory: int) -> bytes:
    received = decode_question(body)
    started = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, received.seconds + ALARM_AFTER)
    try:
        answers = ask(
            received.question,
            faults=received.faults,
            is_late=lambda: time.monotonic() - started > received.seconds,
        )
        return encode_reply(Reply(answers, retire=_has_grown(bytes_of_memory)))
    except (MemoryError, ValueError):
        error = EvaluationError("took too much memory", "limit")
        failed = {one.path: error for one in received.question.expressions}
        return encode_reply(Reply(failed, retire=True))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _has_grown(bytes_of_memory: int) -> bool:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return peak > bytes_of_memory * RETIRE_AT


def _read(source: BinaryIO) -> bytes | None:
    header = source.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (size,) = HEADER.unpack(header)
    body = source.read(size)
    return body if len(body) == size else None


def _write(sink: BinaryIO, data: bytes) -> None:
    sink.write(data)
    sink.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
