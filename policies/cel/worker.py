"""A worker: reads questions from its standard input, writes answers to its standard output, until the input ends.

Started by ``webhook.workers`` as a process of its own, which may be killed at any moment. It bounds itself as well: its
memory, and the seconds of one question by an alarm that no evaluation can hold up, so that none outlives a server that
was killed.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from policies import pipes
from policies.cel.asking import ask
from policies.cel.protocol import Ask, Question, Reply, decode_question, encode_reply, frame
from policies.cel.values import EvaluationError
from policies.pipes import Pipes

READY: Final = pipes.READY


def main(bytes_of_memory: int) -> None:
    """Serve until the input ends."""
    pipes.limit(bytes_of_memory)
    ends = Pipes.take()
    _warm_up()
    ends.write(frame(READY))
    while (body := ends.read()) is not None:
        ends.write(_answer(body, bytes_of_memory))


def _warm_up() -> None:
    """Make the environments, so that the first question does not wait for them."""
    ask(Question(policy="", digest="", expressions=(Ask("", "'a' == 'a'"),)))


def _answer(body: bytes, bytes_of_memory: int) -> bytes:
    received = decode_question(body)
    started = time.monotonic()
    pipes.alarm(received.seconds)
    try:
        answers = ask(
            received.question,
            faults=received.faults,
            is_late=lambda: time.monotonic() - started > received.seconds,
        )
        return encode_reply(Reply(answers, retire=pipes.has_grown(bytes_of_memory)))
    except (MemoryError, ValueError):
        error = EvaluationError("took too much memory", "memory")
        failed = {one.path: error for one in received.question.expressions}
        return encode_reply(Reply(failed, retire=True))
    finally:
        pipes.alarm(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
