"""Who of the replicas writes: the holder of a Lease, as client-go's leader election has it.

Two clocks are kept apart. What the Lease says is wall time, for people; whether a holder is gone is
told by our own monotonic clock, since its Lease was last seen to change, so that clocks that disagree
elect nobody twice. A holder that was paused finds its time run out by that clock, before it writes
(kyverno#5984); and as a pause may come between the look and the write, all writes are conditional, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from webhook.kube.calls import Calls, Failure, find
from webhook.kube.client import ApiError

LEASE_SECONDS: Final = 15
RENEW_SECONDS: Final = 10.0
"""A holder that could not renew for this long stops; the others wait for LEASE_SECONDS, so there is time
between the two."""
RETRY_SECONDS: Final = 2.0
STALLED_SECONDS: Final = 60.0
GOODBYE_SECONDS: Final = 2.0
"""For the few calls on the way out, each of which takes milliseconds where it works."""
TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Time, and the passing of it; ``monotonic`` should go on while the machine sleeps (CLOCK_BOOTTIME)."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Elector:
    """Takes part in the election, for as long as ``run`` runs. Losing it is nothing: one goes on trying."""

    def __init__(
        self, calls: Calls, *, namespace: str, name: str, identity: str, clock: Clock
    ) -> None:
        """Take part as ``identity``, which no other process may have: the pod's name and a random part."""
        self._calls = calls
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._path = f"{self._collection}/{name}"
        self.identity = identity
        """What we are called in the Lease."""
        self._clock = clock
        self._until = self._tried_at = clock.monotonic()
        self._seen: tuple[object, ...] = ()
        self._seen_at = clock.monotonic()
        self.last_problem: str | None = None
        """Why the last attempt said nothing."""

    @property
    def is_holder(self) -> bool:
        """Whether we hold the Lease, by our own clock and without asking."""
        return self._clock.monotonic() < self._until

    def problem(self) -> str | None:
        """For liveness: whether the loop has stopped to turn (cert-manager#5889)."""
        age = self._clock.monotonic() - self._tried_at
        if age < STALLED_SECONDS:
            return None
        return f"the election has not been attempted for {age:.0f} s"

    async def confirm(self) -> bool:
        """Ask the API server whether we hold the Lease; to be done before a write."""
        if not self.is_holder:
            return False
        lease = await find(self._calls, self._path)
        return _holder(lease) == self.identity and self.is_holder

    async def run(self) -> None:
        """Take part until cancelled."""
        while True:
            await self.attempt()
            await self._clock.sleep(RETRY_SECONDS)

    async def take_part(self) -> None:
        """Take part until cancelled, and let another replica take over at once."""
        try:
            await self.run()
        finally:
            await self.give_back()

    async def give_back(self) -> None:
        """Release it, unless that takes too long on the way out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self.release()

    async def attempt(self) -> None:
        """Renew, or take the Lease if it is free; a failure is noted, and tried again next time."""
        self._tried_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(RENEW_SECONDS / 2):
                await self._attempt()
            self.last_problem = None
        except Failure as error:
            self.last_problem = str(error) or type(error).__name__
        finally:
            self._tried_at = self._clock.monotonic()

    async def release(self) -> None:
        """On the way out: let another take over at once."""
        if not self.is_holder:
            return
        self._until = self._clock.monotonic()
        try:
            lease = await find(self._calls, self._path)
            if lease is not None and _holder(lease) == self.identity:
                await self._put(lease, {**lease["spec"], "holderIdentity": ""})
        except Failure as error:
            self.last_problem = str(error)

    async def _attempt(self) -> None:
        started = self._clock.monotonic()
        lease = await find(self._calls, self._path)
        if lease is not None and not self._may_take(lease):
            self._until = started
            return
        try:
            if lease is None:
                await self._calls.send("POST", self._collection, self._new())
            else:
                await self._put(lease, self._spec(lease["spec"]))
        except ApiError as error:
            if error.status != 409:
                raise
            # Somebody was faster; whether it was us by another request is seen next time.
            self._until = started
            return
        self._until = started + RENEW_SECONDS

    def _may_take(self, lease: Mapping[str, Any]) -> bool:
        """Whether it is ours, free, or has not changed for as long as it was taken for."""
        spec = lease.get("spec") or {}
        seen = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock.monotonic()
        if _holder(lease) in {"", self.identity}:
            return True
        seconds = spec.get("leaseDurationSeconds") or LEASE_SECONDS
        return bool(self._clock.monotonic() >= self._seen_at + seconds)

    def _new(self) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
            "spec": self._spec({}),
        }

    def _spec(self, old: Mapping[str, Any]) -> dict[str, Any]:
        now = self._clock.now().astimezone(UTC).strftime(TIME)
        spec = {**old, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}
        if old.get("holderIdentity") != self.identity:
            transitions = int(old.get("leaseTransitions") or 0)
            spec |= {
                "holderIdentity": self.identity,
                "acquireTime": now,
                "leaseTransitions": transitions + (1 if old else 0),
            }
        return spec

    async def _put(self, lease: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        """With it goes the resourceVersion that was read: of two who take it, one gets a conflict."""
        await self._calls.send("PUT", self._path, {**lease, "spec": spec})


def _holder(lease: Mapping[str, Any] | None) -> str:
    return ((lease or {}).get("spec") or {}).get("holderIdentity") or ""
