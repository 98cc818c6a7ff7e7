"""What policies did, counted request by request.

Plain numbers, added to on the way of each review: those who show them (metrics, the status of policies) ask for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from policies.document import Key
    from policies.run import Run

Outcome = Literal[
    "matched", "changed", "denied", "warned", "audited", "excepted", "faults", "conflicts"
]
"""Each request counts once for an outcome of a policy, whatever the number of its rules; ``faults`` and ``conflicts``
are counted in each of the two calls that a request is."""

_OF_ACTIONS: Final[dict[str, Outcome]] = {"Deny": "denied", "Warn": "warned", "Audit": "audited"}


class Conflicted(NamedTuple):
    """The last time that a policy wanted what another one wants otherwise."""

    text: str
    generation: int
    """Of the policy, as it was."""
    at: float
    """In seconds of the counts' clock."""


class Counts:
    """Totals since the process began, by policy."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` tells when a conflict was found."""
        self._clock = clock
        self.totals: dict[Key, Counter[Outcome]] = {}
        self.conflicts: dict[Key, Conflicted] = {}

    def add(self, run: Run, *, is_last: bool) -> None:
        """Count one call; ``is_last`` where the request ends with it, refused or judged for the last time."""
        if run.effects:
            self._count("changed", {key for effect in run.effects for key in effect.keys})
        for matched in run.candidates if run.conflicts else ():
            key = matched.key
            if key in run.conflicts and key in run.failed:
                text, generation = run.failed[key], matched.policy.generation
                self.conflicts[key] = Conflicted(text, generation, self._clock())
                self._count("conflicts", (key,))
        self._count("faults", run.failed)
        if not is_last:
            return
        self._count("matched", (matched.key for matched in run.matched))
        for action, outcome in _OF_ACTIONS.items():
            self._count(outcome, {key for key, actions in run.acted if action in actions})
        self._count("excepted", {matched.key for matched, _, _ in run.excepted})

    def retain(self, keys: Iterable[Key]) -> None:
        """Forget policies that are no more."""
        known = set(keys)
        for gone in self.totals.keys() - known:
            del self.totals[gone]
        for gone in self.conflicts.keys() - known:
            del self.conflicts[gone]

    def _count(self, outcome: Outcome, keys: Iterable[Key]) -> None:
        for key in keys:
            counter = self.totals.get(key)
            if counter is None:
                counter = self.totals[key] = Counter()
            counter[outcome] += 1
