"""The cluster behind the answers: one immutable Snapshot, made anew at each event, and how far to trust it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from plugins.framework import values
from plugins.framework.cluster import Snapshot
from webhook.kube.capabilities import Capabilities
from webhook.kube.reflector import Reflector, Surroundings
from webhook.kube.resources import DEFINITIONS

if TYPE_CHECKING:
    from webhook.kube.client import Requests
    from webhook.kube.reflector import Sink, Tell
    from webhook.kube.resources import Resource

STALE_SECONDS: Final = 60.0


class Source:
    """Follows all kinds; ``snapshot`` is the cluster as it is known now."""

    def __init__(
        self,
        requests: Requests,
        resources: Iterable[Resource],
        *,
        around: Surroundings,
        stale_seconds: float = STALE_SECONDS,
        on_change: Callable[[Capabilities], None] = lambda _: None,
        on_problem: Tell = lambda _title, _problem: None,
    ) -> None:
        """Follow ``resources``.

        ``on_change`` hears what the cluster can do when that becomes known or changes, ``on_problem``
        which kinds cannot be followed, and when they can again.
        """
        self.snapshot = Snapshot()
        self.capabilities = Capabilities()
        self._stale_seconds = stale_seconds
        self._on_change = on_change
        self.reflectors = tuple(
            Reflector(resource, requests, self._sink(resource), around, on_problem)
            for resource in resources
        )

    def _sink(self, resource: Resource) -> Sink:
        return _Names(self) if resource is DEFINITIONS else _Objects(self, resource.kind)

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"reflector {reflector.resource.title}")

    def unsynced(self) -> str | None:
        """Which kinds have not been listed yet, and why; None once all are."""
        missing = [
            f"{r.resource.title} ({r.problem or 'being listed'})"
            for r in self.reflectors
            if not r.synced
        ]
        return "not yet read: " + ", ".join(missing) if missing else None

    def stale(self) -> str | None:
        """Which kinds we have been cut off from for longer than the bound; None if none."""
        cut = [
            f"{r.resource.title} for {r.cut_off_seconds:.0f} s ({r.problem})"
            for r in self.reflectors
            if r.cut_off_seconds > self._stale_seconds
        ]
        return "cut off from the API server: " + ", ".join(cut) if cut else None

    def take(self, snapshot: Snapshot) -> None:
        """Swap the snapshot, and tell if the cluster can now do other things."""
        self.snapshot = snapshot
        found = Capabilities.of(snapshot)
        if found != self.capabilities:
            self.capabilities = found
            self._on_change(found)

    def wake_absent(self) -> None:
        """Some CRD came or went: whoever waits for one looks again."""
        for reflector in self.reflectors:
            if reflector.absent:
                reflector.wake()


class _Objects:
    """Puts one kind into the snapshot."""

    def __init__(self, source: Source, kind: str) -> None:
        self._source = source
        self._kind = kind

    def swap(self, kept: Sequence[bytes]) -> None:
        objects = (orjson.loads(data) for data in kept)
        self._source.take(self._source.snapshot.with_all(self._kind, objects))

    def put(self, obj: dict[str, Any]) -> None:
        self._source.take(self._source.snapshot.replaced(obj))

    def drop(self, namespace: str, name: str) -> None:
        self._source.take(self._source.snapshot.without(self._kind, namespace, name))


class _Names:
    """Keeps the names of the CustomResourceDefinitions."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def swap(self, kept: Sequence[bytes]) -> None:
        self._serve(frozenset(_name(orjson.loads(data)) for data in kept))

    def put(self, obj: dict[str, Any]) -> None:
        self._serve((self._source.snapshot.served or frozenset()) | {_name(obj)})

    def drop(self, namespace: str, name: str) -> None:
        del namespace
        self._serve((self._source.snapshot.served or frozenset()) - {name})

    def _serve(self, served: frozenset[str]) -> None:
        if served != self._source.snapshot.served:
            self._source.take(self._source.snapshot.serving(served))
            self._source.wake_absent()


def _name(obj: dict[str, Any]) -> str:
    return values.text(values.at(obj, "metadata", "name"))
