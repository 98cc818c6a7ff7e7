"""Keeps one kind of object as the API server has it: a list, then a watch that goes on from there.

What goes wrong and what is done about it:

- the version is too old (410, as a status or in the stream): list again;
- the stream ends or is cut: go on from the last version;
- the stream says nothing for longer than bookmarks come: it may have lost more than that, list again;
- errors, broken answers: wait, longer each time, and go on; after an error inside the stream list again;
- 403, or 404 while a CRD is not there, twice: wait long, say so, and try again for ever.

What is known stays known meanwhile; how old it is can be asked at any time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from plugins.framework import values
from plugins.framework.cluster import keep
from webhook.kube import decoding, lines
from webhook.kube.backoff import Backoff
from webhook.kube.client import ApiError, Unreachable

if TYPE_CHECKING:
    from webhook.kube.client import Requests
    from webhook.kube.resources import Resource

PAGE: Final = 500
"""Objects a page; a page of the largest runtimes is some megabytes while it is read."""

SILENCE_SECONDS: Final = 90.0
"""Bookmarks come once a minute; a watch that says nothing for longer may be half-open. Or the kind is one of which
nothing has happened since the API server started, which gets no bookmarks either (seen with 1.36) until
somebody lists it: so a silence is a reason to list, and not yet a failure."""

WATCH_SECONDS: Final = (300.0, 600.0)
"""How long a watch is asked for; drawn anew each time, so that watches do not all end together."""

GOOD_SECONDS: Final = 60.0
"""A watch that lived so long was a good one: what fails next is a first failure."""

HOPELESS: Final = 2
"""403 or 404 so often in a row are meant. Once is what an API server says that has just started (seen with 1.36:
RBAC and CRDs are read some moments after the port is open)."""

MOST_TOMBSTONES: Final = 1024

GONE: Final = 410
UNLISTED: Final = "not listed yet"


class Sink(Protocol):
    """Where the objects go."""

    def swap(self, kept: Sequence[bytes]) -> None:
        """Take these, each as JSON, in place of all there were."""

    def put(self, obj: dict[str, Any]) -> None:
        """Take this one, in place of the one of its name."""

    def drop(self, namespace: str, name: str) -> None:
        """Forget this one."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Time and chance, passed in."""

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    uniform: Callable[[float, float], float]
    silence_seconds: float = SILENCE_SECONDS


Tell = Callable[[str, str], None]
"""Hears a kind's title and its new problem, empty once there is none any more."""


class _GoneError(Exception):
    """The version that we know is too old to go on from."""


class Reflector:
    """One kind, followed until cancelled."""

    def __init__(
        self,
        resource: Resource,
        requests: Requests,
        sink: Sink,
        around: Surroundings,
        tell: Tell = lambda _title, _problem: None,
        *,
        keep: Callable[[dict[str, Any]], dict[str, Any]] = keep,
    ) -> None:
        """Follow ``resource`` into ``sink``; ``tell`` hears of failures once each, and of their end.

        ``keep`` takes of an object what the sink gets.
        """
        self._keep = keep
        self._tell = tell
        self._told = ""
        self.resource = resource
        self._requests = requests
        self._sink = sink
        self._around = around
        self._backoff = Backoff(around.uniform)
        self._wake = asyncio.Event()
        self._version = ""
        self._seen: dict[tuple[str, str], int] = {}
        self._tombstones: dict[tuple[str, str], int] = {}
        self.synced = False
        """Whether a list was read, ever."""
        self.problem = UNLISTED
        """Why we are not watching; empty while we are."""
        self.absent = False
        """Whether the API server does not know the kind."""
        self.lists = 0
        self.failures = 0
        self._last_contact = around.clock()
        self._cut_since: float | None = self._last_contact
        self._watching_since: float | None = None
        self._silent_since: float | None = None
        self._refusals = 0

    @property
    def count(self) -> int:
        """How many objects there are."""
        return len(self._seen)

    @property
    def refused(self) -> bool:
        """Whether we were told that we may not read it, or that there is no such kind, and it was meant."""
        return self._refusals >= HOPELESS

    @property
    def last_contact_seconds(self) -> float:
        """Since the API server said something of this kind; up to a minute where nothing happens."""
        return self._around.clock() - self._last_contact

    @property
    def cut_off_seconds(self) -> float:
        """Since when we do not watch; 0 while we do."""
        return 0.0 if self._cut_since is None else self._around.clock() - self._cut_since

    def wake(self) -> None:
        """Do not wait any longer: what failed may work now."""
        self._wake.set()

    def rest(self) -> None:
        """Forget all there was: there is nothing to follow now, and that is no failure."""
        self._version = ""
        self._seen, self._tombstones = {}, {}
        self._sink.swap([])
        self.synced = self.absent = False
        self._refusals = 0
        self._backoff.reset()
        self.problem, self._cut_since, self._silent_since = UNLISTED, None, None
        self._tell_once("")

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            self._watching_since = None
            try:
                is_hopeless = await self._turn()
            except Exception as error:  # noqa: BLE001  # one kind's fault must not end the others
                self._version = ""
                self._fail(f"internal fault ({type(error).__name__})")
                is_hopeless = False
            if is_hopeless:
                await self._pause(self._backoff.long())
            elif self._was_good():
                self._backoff.reset()
            else:
                await self._pause(self._backoff.next())

    def _was_good(self) -> bool:
        since = self._watching_since
        return since is not None and self._around.clock() - since >= GOOD_SECONDS

    async def _turn(self) -> bool:
        """One list, if need be, and one watch; whether only people can help with what ended it."""
        try:
            if not self._version:
                await self._list()
            await self._watch()
        except _GoneError:
            self._cut(f"version {self._version} is too old")
            self._version = ""
        except ApiError as error:
            self._fail(str(error))
            self.absent = error.status == 404
            if error.status not in {403, 404}:
                self._refusals = 0
                return False
            self._refusals += 1
            if self.refused:
                self._version = ""  # what happens meanwhile may be anything
                return True
        except Unreachable as error:
            self._fail(str(error))
        except TimeoutError:
            self._version = ""  # who is silent may have lost events as well
            self._silent_since = self._last_contact
        else:
            self._cut("the watch has ended")
        return False

    async def _pause(self, seconds: float) -> None:
        self._wake.clear()
        waits = {
            asyncio.ensure_future(self._around.sleep(seconds)),
            asyncio.ensure_future(self._wake.wait()),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    # List

    async def _list(self) -> None:
        self.lists += 1
        kept: list[bytes] = []
        seen: dict[tuple[str, str], int] = {}
        version, more = "", ""
        while True:
            page = values.obj(await self._page(more))
            for item in values.objects(page.get("items")):
                obj = self._named(item)
                kept.append(values.packed(self._keep(obj)))
                seen[_key(obj)] = _number(values.at(item, "metadata", "resourceVersion"))
            about = values.obj(page.get("metadata"))
            version, more = (
                values.text(about.get("resourceVersion")),
                values.text(about.get("continue")),
            )
            self._touch()
            if not more:
                break
            del page  # before the next one is there as well
            await asyncio.sleep(0)  # a page takes milliseconds; reviews come between two
        if not version:
            raise Unreachable("the list has no version")
        self._seen, self._tombstones = seen, {}
        self._version = version
        self._sink.swap(kept)
        self.synced, self.absent = True, False

    async def _page(self, more: str) -> Any:
        # No resourceVersion: what the store has now, not what some API server's cache had.
        query = {**self.resource.selection, "limit": str(PAGE)}
        if more:
            query["continue"] = more
        accept = self.resource.accept(is_list=True)
        try:
            return await self._requests.get(
                self.resource.path, query, accept=accept, decode=decoding.page
            )
        except ApiError as error:
            if error.status == GONE:
                raise _GoneError from error
            raise

    # Watch

    async def _watch(self) -> None:
        query = {
            **self.resource.selection,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(int(self._around.uniform(*WATCH_SECONDS))),
        }
        try:
            async with self._requests.stream(
                self.resource.path,
                query,
                accept=self.resource.accept(is_list=False),
                silence_seconds=self._around.silence_seconds,
            ) as chunks:
                self._touch()
                self._watching_since = self._last_contact
                self._refusals = 0
                self._cut_since, self.problem = None, ""
                self._tell_once("")
                async for line in lines.split(chunks):
                    self._touch()
                    if line:
                        self._take(line)
        except ApiError as error:
            if error.status == GONE:
                raise _GoneError from error
            raise

    def _take(self, line: bytes) -> None:
        try:
            event = values.obj(decoding.event(line))
        except ValueError as error:
            self._version = ""
            raise Unreachable("an event is not JSON") from error
        kind, obj = values.text(event.get("type")), values.obj(event.get("object"))
        if kind == "ERROR":
            self._refuse(obj)
        version = values.text(values.at(obj, "metadata", "resourceVersion"))
        number = _number(version)
        if kind in {"ADDED", "MODIFIED", "DELETED"}:
            self._apply(kind, self._named(obj), number)
        if version and number >= _number(self._version):
            self._version = version

    def _refuse(self, status: dict[str, Any]) -> None:
        code = status.get("code")
        if code == GONE or status.get("reason") in {"Expired", "Gone"}:
            raise _GoneError
        self._version = ""
        raise Unreachable(f"the watch says {code} {values.text(status.get('reason'))}")

    def _apply(self, kind: str, obj: dict[str, Any], number: int) -> None:
        key = _key(obj)
        if not key[1] or number < max(self._seen.get(key, 0), self._tombstones.get(key, 0)):
            return  # older than what we know: some proxies repeat
        if kind == "DELETED":
            self._seen.pop(key, None)
            if len(self._tombstones) >= MOST_TOMBSTONES:
                del self._tombstones[next(iter(self._tombstones))]
            self._tombstones[key] = number
            self._sink.drop(*key)
        else:
            self._seen[key] = number
            self._sink.put(self._keep(obj))

    def _named(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Items of lists have no kind, and metadata alone has one of its own."""
        resource = self.resource
        return {**obj, "kind": resource.kind, "apiVersion": resource.api_version}

    # State

    def _touch(self) -> None:
        self._last_contact = self._around.clock()
        self._silent_since = None

    def _fail(self, why: str) -> None:
        self.failures += 1
        self._cut(why)
        self._tell_once(why)

    def _tell_once(self, problem: str) -> None:
        if problem != self._told:
            self._told = problem
            self._tell(self.resource.title, problem)

    def _cut(self, why: str) -> None:
        """We do not watch. If the API server does not answer after a silence, the silence was part of it."""
        self.problem = why
        if self._cut_since is None:
            silent = self._silent_since
            self._cut_since = self._around.clock() if silent is None else silent


def _key(obj: dict[str, Any]) -> tuple[str, str]:
    metadata = values.obj(obj.get("metadata"))
    namespace = sys.intern(values.text(metadata.get("namespace")))  # many have the same
    return namespace, values.text(metadata.get("name"))


def _number(version: object) -> int:
    """Versions are numbers that grow in every API server there is; where not, none is older than another."""
    return int(version) if type(version) is str and version.isascii() and version.isdigit() else 0
