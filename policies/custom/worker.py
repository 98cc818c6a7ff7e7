"""A worker: calls options of outside packages, which it imports when it starts. Standard library only.

Started by ``webhook.workers`` as a process of its own, which may be killed at any moment.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any, Final

from policies import pipes
from policies.custom.declaration import CustomOption
from policies.custom.loading import Unusable, load, told
from policies.custom.standins import Cast

MOST_LEVELS: Final = 64
MOST_VALUES: Final = 10_000
"""Of what one call may write. A TrainJob with every field set has some thousand."""
MOST_BYTES: Final = 1024 * 1024
"""Of the same as JSON: etcd takes 1.5 MiB for the whole object."""
_LEAST, _MOST = -(2**63), 2**63 - 1


class Nonsense(Exception):
    """A job_spec that is none; the text says why."""


def main(bytes_of_memory: str, *names: str) -> None:
    """Load the options, then serve until the input ends."""
    size = int(bytes_of_memory)
    pipes.limit(size)
    ends = pipes.Pipes.take()
    loaded = Loaded(names)
    ends.write(pipes.framed(pipes.READY))
    while (body := ends.read()) is not None:
        question = json.loads(body)
        pipes.alarm(question["seconds"])
        answers = [[call["path"], *loaded.called(call, question)] for call in question["calls"]]
        reply = {"answers": answers, "retire": pipes.has_grown(size)}
        pipes.alarm(0)
        ends.write(pipes.framed(json.dumps(reply).encode()))


class Loaded:
    """The options of this process, ready to be called."""

    def __init__(self, names: Iterable[str]) -> None:
        """Import them; one that cannot be is remembered with the reason."""
        self._options = {name: _loaded(name) for name in names}
        self._cast = Cast()

    def called(self, call: dict[str, Any], question: dict[str, Any]) -> tuple[Any, Any]:
        """What one option wrote, or the error: a message and its reason."""
        found = self._options.get(call["name"], "is not loaded")
        if isinstance(found, str):
            return None, [found, "error"]
        job_spec: dict[str, Any] = {}
        try:
            option = found.make(**call["args"])
            backend = self._cast.backend(question["namespace"], copy.deepcopy(question["trainJob"]))
            option(job_spec, self._cast.trainer(call["trainer"]), backend)
            return _plain(job_spec), None
        except Nonsense as nonsense:
            return None, [f"wrote what is no part of a TrainJob: {nonsense}", "type"]
        except MemoryError:
            return None, ["took too much memory", "memory"]
        except BaseException as error:  # noqa: BLE001  # whatever it raises, SystemExit too, is its answer
            return None, [f"raised {told(error)}", "error"]


def _loaded(name: str) -> CustomOption | str:
    try:
        return load(name)
    except Unusable as unusable:
        return str(unusable)


def _plain(job_spec: dict[str, Any]) -> Any:
    """As JSON, copied: what an option writes may be its own attributes, or go on changing."""
    budget = [MOST_VALUES]
    plain = _copied(job_spec, 0, budget)
    size = len(json.dumps(plain))
    if size > MOST_BYTES:
        raise Nonsense(f"{size} bytes, and at most {MOST_BYTES} are taken")
    return plain


def _copied(value: Any, level: int, budget: list[int]) -> Any:
    budget[0] -= 1
    if budget[0] < 0:
        raise Nonsense(f"more than {MOST_VALUES} values")
    if level > MOST_LEVELS:
        raise Nonsense(f"more than {MOST_LEVELS} levels")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise Nonsense("a key that is not a string")
        return {str(key): _copied(item, level + 1, budget) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(item, level + 1, budget) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace").decode()
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # the SDK has quantities as floats
    if isinstance(value, int):
        if not _LEAST <= value <= _MOST:
            raise Nonsense("an integer beyond 64 bits")
        return int(value)
    if isinstance(value, float) and value == value and abs(value) != float("inf"):  # noqa: PLR0124  # NaN
        return value
    raise Nonsense(f"a value of type {type(value).__name__}")
