"""Questions to CEL and their answers: as values, and as bytes between the server and its workers.

A frame is a length (four bytes, the highest first) and JSON. Both sides are of one version, since a worker is started
by the server that asks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from policies.cel.program import Wants
from policies.cel.values import EvaluationError, encode
from policies.pipes import framed

MOST_BYTES: Final = 64 * 1024 * 1024
"""Of a frame. A review has at most 7 MiB, and its resolved form a few times that."""


class Ask(NamedTuple):
    """One expression of a question; ``path`` is where it stands in its policy, and names the answer."""

    path: str
    text: str
    wants: Wants = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Some expressions of one policy, on one request's data."""

    policy: str
    """Key of the policy: what is quarantined."""
    digest: str
    """Of the policy's expressions: as long as it stays, what was compiled stays."""
    expressions: tuple[Ask, ...]
    variables: tuple[tuple[str, str], ...] = ()
    """The policy's own variables: name and text, in document order."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Variable -> JSON value; cut to what is read."""

    def encode(self, seconds: float) -> bytes:
        """``encode_question``. Raises Unsendable."""
        return encode_question(self, seconds)

    def failed(self, error: EvaluationError) -> Answers:
        """The same error for every expression."""
        return {ask.path: error for ask in self.expressions}


Answers: TypeAlias = Mapping[str, Any]
"""Path -> JSON value, or an EvaluationError."""


class Unsendable(ValueError):
    """A question that no worker can be asked; ``error`` is the answer to it."""

    def __init__(self, error: EvaluationError) -> None:
        """Keep the answer."""
        super().__init__(error.message)
        self.error = error


def encode_question(question: Question, seconds: float) -> bytes:
    """A frame; ``seconds`` is what the worker has for all of it.

    Variables that cannot be JSON go as the reason why, so that the answer is the same as in process.

    Raises:
        Unsendable: where the frame would be larger than 64 MiB, or an expression is no text.
    """
    encoded = {name: encode(value) for name, value in question.data.items()}
    raw = {
        "digest": question.digest,
        "variables": question.variables,
        "expressions": [[ask.path, ask.text, ask.wants] for ask in question.expressions],
        "data": {name: orjson.Fragment(b) for name, (b, fault) in encoded.items() if not fault},
        "faults": {name: fault for name, (_, fault) in encoded.items() if fault},
        "seconds": seconds,
    }
    try:
        return frame(orjson.dumps(raw))
    except TypeError as error:
        words = "does not compile: must not have halves of surrogate pairs"
        raise Unsendable(EvaluationError(words)) from error


class Received(NamedTuple):
    """A question as a worker has it."""

    question: Question
    faults: Mapping[str, str]
    seconds: float


def decode_question(body: bytes) -> Received:
    """What the other side encoded."""
    raw = orjson.loads(body)
    question = Question(
        policy="",
        digest=raw["digest"],
        expressions=tuple(Ask(*ask) for ask in raw["expressions"]),
        variables=tuple((name, text) for name, text in raw["variables"]),
        data=raw["data"],
    )
    return Received(question, raw["faults"], raw["seconds"])


class Reply(NamedTuple):
    """What a worker says: the answers, and whether it has grown so much that it wants to be replaced."""

    answers: Answers
    retire: bool


def encode_reply(reply: Reply) -> bytes:
    """A frame."""
    answers = [
        [path, None, [value.message, value.reason]]
        if isinstance(value, EvaluationError)
        else [path, value, None]
        for path, value in reply.answers.items()
    ]
    return frame(orjson.dumps({"answers": answers, "retire": reply.retire}))


def decode_reply(body: bytes) -> Reply:
    """What the other side encoded."""
    raw = orjson.loads(body)
    answers = {
        path: value if error is None else EvaluationError(*error)
        for path, value, error in raw["answers"]
    }
    return Reply(answers, raw["retire"])


def frame(body: bytes) -> bytes:
    """The length, and the body. Raises Unsendable."""
    if len(body) > MOST_BYTES:
        words = (
            f"is not evaluated: has {len(body)} bytes of data, and at most {MOST_BYTES} are sent"
        )
        raise Unsendable(EvaluationError(words, "limit"))
    return framed(body)
