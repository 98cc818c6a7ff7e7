"""The TrainJobs of a cluster, as far as a warning needs them: which there are, and which runtimes they use."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterable
from typing import Literal, NamedTuple, Self

from plugins.framework.api import names
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.shards import Shards

RuntimeKey = tuple[str, str, str]
"""Kind, namespace ("" for a ClusterTrainingRuntime), name."""

Name = tuple[str, str]
"""Namespace and name of what has both."""

State = Literal["running", "suspended", "finished"]


class Use(NamedTuple):
    """What is kept of a TrainJob."""

    runtime: RuntimeKey
    state: State


class Users(NamedTuple):
    """The unfinished TrainJobs that use a runtime."""

    total: int
    suspended: int
    """How many of them."""
    first: list[Name]
    """Some of them, the first in the order of their names."""


_Users = Shards[Name, bool]


class Usage:
    """Which TrainJobs there are, and which unfinished ones use a runtime. Never changed: a change makes the next."""

    __slots__ = ("_users", "_uses")

    def __init__(self, uses: Iterable[tuple[Name, Use]] = ()) -> None:
        """Hold these TrainJobs."""
        self._uses: Shards[Name, Use] = Shards(uses)
        users: dict[RuntimeKey, list[tuple[Name, bool]]] = {}
        for name, use in self._uses.items():
            if use.state != "finished":
                users.setdefault(use.runtime, []).append((name, use.state == "suspended"))
        self._users: Shards[RuntimeKey, _Users] = Shards(
            (runtime, Shards(found)) for runtime, found in users.items()
        )

    def get(self, name: Name) -> Use | None:
        """What a TrainJob uses; None where there is no such TrainJob."""
        return self._uses.get(name)

    def having(self, name: Name, use: Use) -> Self:
        """With a TrainJob, in place of the one of its name if there is one."""
        users = self._users_without(name)
        if use.state != "finished":
            found = users.get(use.runtime) or Shards[Name, bool]()
            users = users.having(use.runtime, found.having(name, use.state == "suspended"))
        return self._next(self._uses.having(name, use), users)

    def lacking(self, name: Name) -> Self:
        """Without a TrainJob."""
        return self._next(self._uses.lacking(name), self._users_without(name))

    def users(self, runtime: RuntimeKey, *, most: int) -> Users:
        """The unfinished TrainJobs that use a runtime, ``most`` of them by name. There may be thousands."""
        found = self._users.get(runtime) or Shards[Name, bool]()
        suspended = sum(is_suspended for _, is_suspended in found.items())
        return Users(len(found), suspended, heapq.nsmallest(most, found))

    def _users_without(self, name: Name) -> Shards[RuntimeKey, _Users]:
        use = self._uses.get(name)
        found = self._users.get(use.runtime) if use else None
        if use is None or found is None:
            return self._users
        left = found.lacking(name)
        return (
            self._users.having(use.runtime, left) if len(left) else self._users.lacking(use.runtime)
        )

    def _next(self, uses: Shards[Name, Use], users: Shards[RuntimeKey, _Users]) -> Self:
        successor = type(self).__new__(type(self))  # without filling it first
        successor._uses, successor._users = uses, users  # noqa: SLF001  # one of us
        return successor


def use_of(job: TrainJob, namespace: str) -> Use:
    """What is kept of a TrainJob. Strings that many jobs have alike are kept once."""
    kind = job.runtime_kind
    scope = "" if kind == names.CLUSTER_TRAINING_RUNTIME else namespace
    runtime = (sys.intern(kind), sys.intern(scope), sys.intern(job.runtime_name))
    if job.is_finished:
        return Use(runtime, "finished")
    return Use(runtime, "suspended" if job.is_suspended else "running")
