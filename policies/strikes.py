"""Which policies took their workers down, and must not be tried again until they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

MOST_KILLS: Final = 2
"""After which a policy is quarantined."""
KILLED: Final = f"its worker was killed {MOST_KILLS} times"
NOT_READY: Final = f"the policy is not Ready until it changes: {KILLED}"


class _Struck(NamedTuple):
    digest: str
    kills: int


class Strikes:
    """Counts the kills of each policy: of its expressions and its custom options together.

    By its key and the digest of what workers are asked of it; with another digest it begins anew.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._struck: dict[str, _Struck] = {}
        self._out: dict[str, str] = {}

    @property
    def quarantined(self) -> Mapping[str, str]:
        """Policy -> digest with which it was killed too often."""
        return self._out

    def is_out(self, policy: str, digest: str) -> bool:
        """Whether it must not be evaluated."""
        return self._out.get(policy) == digest

    def is_suspect(self, policy: str) -> bool:
        """Whether a worker was killed for it, and it may be tried again: what is quarantined is refused at once."""
        return policy in self._struck and policy not in self._out

    def add(self, policy: str, digest: str) -> bool:
        """A worker was killed for it; whether it is quarantined for that."""
        known = self._struck.get(policy)
        kills = known.kills + 1 if known is not None and known.digest == digest else 1
        self._set(policy, _Struck(digest, kills))
        return kills == MOST_KILLS

    def quarantine(self, policy: str, digest: str) -> None:
        """Another replica's workers were killed for it."""
        self._set(policy, _Struck(digest, MOST_KILLS))

    def retain(self, policies: Iterable[str]) -> None:
        """Forget the kills of policies that no longer exist."""
        for gone in self._struck.keys() - set(policies):
            del self._struck[gone]
            self._out.pop(gone, None)

    def _set(self, policy: str, struck: _Struck) -> None:
        self._struck[policy] = struck
        if struck.kills >= MOST_KILLS:
            self._out[policy] = struck.digest
        else:
            self._out.pop(policy, None)
