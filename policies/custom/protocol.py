"""Calls of options, and what came of them: as values, and as bytes between the server and its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from policies.cel import Answers, EvaluationError
from policies.cel.protocol import Unsendable, frame


class Call(NamedTuple):
    """One option; ``path`` is where it stands in its policy, and names the answer."""

    path: str
    name: str
    args: Mapping[str, Any]
    """As keywords."""
    trainer: Mapping[str, Any]
    """What the job's trainer is taken for: ``kind``, and its fields in the SDK's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionQuestion:
    """The options of one policy, for one job."""

    policy: str
    """Key of the policy: what is quarantined."""
    digest: str
    """Of what the policy has evaluated and called: as long as it stays, a quarantine stays."""
    calls: Sequence[Call]
    namespace: str
    train_job: Mapping[str, Any]

    def encode(self, seconds: float) -> bytes:
        """A frame; ``seconds`` is what the worker has for all of it. Raises Unsendable."""
        raw = {
            "calls": [call._asdict() for call in self.calls],
            "namespace": self.namespace,
            "trainJob": self.train_job,
            "seconds": seconds,
        }
        try:
            return frame(orjson.dumps(raw))
        except TypeError as error:
            words = "is not called: the job holds what is not JSON (an integer beyond 64 bits, half a character)"
            raise Unsendable(EvaluationError(words, "data")) from error

    def failed(self, error: EvaluationError) -> Answers:
        """The same error for every call."""
        return {call.path: error for call in self.calls}
