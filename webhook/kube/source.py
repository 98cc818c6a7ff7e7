"""The cluster behind the answers: one immutable Snapshot, made anew at each event, and how far to trust it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from plugins.framework import values
from plugins.framework.cluster import DOCUMENTS, Snapshot
from webhook.kube.capabilities import Capabilities
from webhook.kube.reflector import Reflector, Surroundings
from webhook.kube.resources import DEFINITIONS

if TYPE_CHECKING:
    from plugins.framework.cluster import Documents
    from webhook.kube.client import Requests
    from webhook.kube.reflector import Sink, Tell
    from webhook.kube.resources import Resource

STALE_SECONDS: Final = 60.0


class Source:
    """Follows all kinds; ``snapshot`` is the cluster as it is known now."""

    def __init__(  # noqa: PLR0913  # who is told what, each by its own name
        self,
        requests: Requests,
        resources: Iterable[Resource],
        *,
        around: Surroundings,
        stale_seconds: float = STALE_SECONDS,
        on_change: Callable[[Capabilities], None] = lambda _: None,
        on_problem: Tell = lambda _title, _problem: None,
        taps: Mapping[str, Sink] | None = None,
        prepare: Callable[[Documents], object] | None = None,
    ) -> None:
        """Follow ``resources``; the objects of a kind also flow into its tap, if it has one.

        ``on_change`` hears what the cluster can do when that becomes known or changes, ``on_problem``
        which kinds cannot be followed, and when they can again. ``prepare`` is called in a thread before policies,
        exceptions and params are swapped: to compile them takes too long for whoever waits for an answer.
        """
        self.snapshot = Snapshot()
        self._prepare = prepare
        self._drafted = self.snapshot
        """Of which only the documents count: as they were told of last, prepared or not."""
        self._prepared = self._drafted.documents
        self._redrafted = asyncio.Event()
        self._settled = False
        """Whether all that was there at the beginning has been prepared."""
        self._on_problem = on_problem
        self.capabilities = Capabilities()
        self._stale_seconds = stale_seconds
        self._on_change = on_change
        self._served_else = asyncio.Event()
        self._taps = taps or {}
        self.reflectors = tuple(
            Reflector(resource, requests, self._sink(resource), around, on_problem)
            for resource in resources
        )

    def _sink(self, resource: Resource) -> Sink:
        if resource is DEFINITIONS:
            return _Names(self)
        objects: Sink = _Objects(self, resource.kept_as)
        if resource.kept_as in DOCUMENTS:
            objects = _Drafts(self, resource.kept_as)
        tap = self._taps.get(resource.kept_as)
        return objects if tap is None else _Both(objects, tap)

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                follow = self._while_served if reflector.resource.optional else Reflector.run
                group.create_task(follow(reflector), name=f"reflector {reflector.resource.title}")
            group.create_task(self._prepare_drafts(), name="policies")

    async def _while_served(self, reflector: Reflector) -> None:
        """Follow a kind whenever the cluster has its CRD, and know nothing of it while it has not."""
        while True:
            reflector.rest()
            await self._until(reflector.resource, is_served=True)
            following = asyncio.create_task(reflector.run())
            try:
                await self._until(reflector.resource, is_served=False)
            finally:
                following.cancel()
                await asyncio.wait([following])

    async def _until(self, resource: Resource, *, is_served: bool) -> None:
        while self._is_served(resource) is not is_served:
            await self._served_else.wait()

    def _is_served(self, resource: Resource) -> bool:
        return resource.is_of_use(self.snapshot.served or ())

    def unsynced(self, *, advice: bool = True) -> str | None:
        """Which kinds have not been listed yet, and why; None once all are.

        A kind that the cluster does not have is not waited for. ``advice`` False asks only for what answers
        depend on by more than a warning.
        """
        missing = [
            f"{r.resource.title} ({r.problem or 'being listed'})"
            for r in self.reflectors
            if not r.synced and self._is_awaited(r) and (advice or not r.resource.advisory)
        ]
        if missing:
            return "not yet read: " + ", ".join(missing)
        if not self._settled:
            # What changes later is judged by what was before, until it has been compiled.
            self._settled = self._drafted.documents is self._prepared
        return None if self._settled else "not yet compiled: the policies"

    def is_synced(self, resource: Resource) -> bool:
        """Whether a kind that is followed has been listed."""
        return any(r.resource is resource and r.synced for r in self.reflectors)

    def _is_awaited(self, reflector: Reflector) -> bool:
        """Whether there is something to be read; a CRD may also be there without the version that we read."""
        if not reflector.resource.optional:
            return True
        return self._is_served(reflector.resource) and not reflector.absent

    def stale(self) -> str | None:
        """Which kinds we have been cut off from for longer than the bound; None if none.

        Old advice is no reason to distrust an answer, let alone to refuse one.
        """
        cut = [
            f"{r.resource.title} for {r.cut_off_seconds:.0f} s ({r.problem})"
            for r in self.reflectors
            if not r.resource.advisory and r.cut_off_seconds > self._stale_seconds
        ]
        return "cut off from the API server: " + ", ".join(cut) if cut else None

    def draft(self, drafted: Snapshot) -> None:
        """Take these documents, as soon as they are prepared."""
        if drafted.documents is self._drafted.documents:
            return
        self._drafted = drafted
        if self._prepare is None:
            self._publish(drafted.documents)
        else:
            self._redrafted.set()

    def _publish(self, documents: Documents) -> None:
        self._prepared = documents
        self.take(self.snapshot.with_documents(documents))

    @property
    def drafted(self) -> Snapshot:
        """The documents as they were told of last."""
        return self._drafted

    async def _prepare_drafts(self) -> None:
        """Swap what has been told of meanwhile all at once; a change that comes while another is prepared comes after it."""
        broken = ""
        while True:
            await self._redrafted.wait()
            self._redrafted.clear()
            documents = self._drafted.documents
            if documents is self._prepared or self._prepare is None:
                continue
            try:
                await asyncio.to_thread(self._prepare, documents)
            except Exception as error:  # noqa: BLE001  # what is known stays known
                broken = f"internal fault ({type(error).__name__})"
                self._on_problem("policies", broken)
                continue
            if broken:
                broken = ""
                self._on_problem("policies", broken)
            self._publish(documents)

    def take(self, snapshot: Snapshot) -> None:
        """Swap the snapshot, and tell if the cluster can now do other things."""
        self.snapshot = snapshot
        found = Capabilities.of(snapshot)
        if found != self.capabilities:
            self.capabilities = found
            self._on_change(found)

    def serve(self, served: frozenset[str]) -> None:
        """Know these CRDs, and have whoever waits for one look again.

        Also where it had been there: a CRD is told of before its kind can be listed, and once more when it can.
        """
        if served != self.snapshot.served:
            self.take(self.snapshot.serving(served))
            self._served_else.set()
            self._served_else = asyncio.Event()
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
        before = self._source.snapshot
        after = before.replaced(obj)
        if after is not before:
            self._source.take(after)

    def drop(self, namespace: str, name: str) -> None:
        self._source.take(self._source.snapshot.without(self._kind, namespace, name))


class _Drafts:
    """Puts one kind of documents among those that are to be prepared."""

    def __init__(self, source: Source, kind: str) -> None:
        self._source = source
        self._kind = kind

    def swap(self, kept: Sequence[bytes]) -> None:
        objects = (orjson.loads(data) for data in kept)
        self._source.draft(self._source.drafted.with_all(self._kind, objects))

    def put(self, obj: dict[str, Any]) -> None:
        self._source.draft(self._source.drafted.replaced(obj))

    def drop(self, namespace: str, name: str) -> None:
        self._source.draft(self._source.drafted.without(self._kind, namespace, name))


class _Both:
    """Two who hear the same."""

    def __init__(self, first: Sink, second: Sink) -> None:
        self._sinks = (first, second)

    def swap(self, kept: Sequence[bytes]) -> None:
        for sink in self._sinks:
            sink.swap(kept)

    def put(self, obj: dict[str, Any]) -> None:
        for sink in self._sinks:
            sink.put(obj)

    def drop(self, namespace: str, name: str) -> None:
        for sink in self._sinks:
            sink.drop(namespace, name)


class _Names:
    """Keeps the names of the CustomResourceDefinitions."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def swap(self, kept: Sequence[bytes]) -> None:
        self._source.serve(frozenset(_name(orjson.loads(data)) for data in kept))

    def put(self, obj: dict[str, Any]) -> None:
        self._source.serve((self._source.snapshot.served or frozenset()) | {_name(obj)})

    def drop(self, namespace: str, name: str) -> None:
        del namespace
        self._source.serve((self._source.snapshot.served or frozenset()) - {name})


def _name(obj: dict[str, Any]) -> str:
    return values.text(values.at(obj, "metadata", "name"))
