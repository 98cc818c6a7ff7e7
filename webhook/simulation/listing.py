"""Lists of an API server, page by page, at a pace that nobody minds.

The API server of a large cluster is everybody's: one page at a time, no more calls a second than a person makes, a
longer pause each time it says that it is busy. Only GETs are sent.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from plugins.framework import values
from webhook.kube.client import JSON, ApiError, Query, Unreachable

PAGE: Final = 100
"""Objects a page: a TrainJob has some 5 KiB, and at most 1.5 MiB."""
CALLS_A_SECOND: Final = 5.0
"""What client-go granted a program by default for years."""
PAUSES: Final = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each further try of a call that failed."""

_GONE: Final = 410
_BUSY: Final = frozenset({429, 500, 502, 503, 504})


class ApiServer(Protocol):
    """What is asked of an API server; ``kube.client.Client`` is one."""

    @abstractmethod
    async def get(self, path: str, query: Query | None = None, *, accept: str = JSON) -> Any:
        """GET and decode. Raises ApiError or Unreachable."""


class Page(NamedTuple):
    """Some objects, and how many there are behind them, where the API server says so."""

    items: list[dict[str, Any]]
    left: int | None


@dataclass(slots=True, kw_only=True)
class Lists:
    """Reads lists. ``clock`` in seconds, as ``sleep`` waits."""

    api: ApiServer
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    page: int = PAGE
    calls: int = 0
    _next: float = field(default=0.0)

    async def all(
        self, path: str, query: Mapping[str, str] | None = None, *, accept: str = JSON
    ) -> list[dict[str, Any]]:
        """Every object of a collection. Raises ApiError or Unreachable."""
        return [
            item async for page in self.pages(path, query, accept=accept) for item in page.items
        ]

    async def pages(
        self, path: str, query: Mapping[str, str] | None = None, *, accept: str = JSON
    ) -> AsyncIterator[Page]:
        """The pages of a collection. Raises ApiError or Unreachable.

        A list that takes longer than the API server remembers (410, some five minutes) begins anew behind the last
        object that was seen: the API server lists in the order of namespace and name, so no object comes twice. One
        that was made before that place in the meantime is not seen, as with any list.
        """
        more, last = "", ""
        while True:
            asked = {**(query or {}), "limit": str(self.page)}
            if more:
                asked["continue"] = more
            try:
                found = values.obj(await self._get(path, asked, accept))
            except ApiError as error:
                if error.status != _GONE or not more:
                    raise
                more = ""
                continue
            items = [i for i in values.objects(found.get("items")) if _place(i) > last]
            last = max((_place(item) for item in items), default=last)
            about = values.obj(found.get("metadata"))
            more = values.text(about.get("continue"))
            left = about.get("remainingItemCount")
            yield Page(items, left if type(left) is int and more else None if more else 0)
            if not more:
                return

    async def _get(self, path: str, query: Query, accept: str) -> Any:
        for pause in (*PAUSES, None):
            await self._wait()
            try:
                return await self.api.get(path, query, accept=accept)
            except ApiError as error:
                if error.status not in _BUSY or pause is None:
                    raise
            except Unreachable:
                if pause is None:
                    raise
            await self.sleep(pause)
        raise AssertionError("the last try returns or raises")  # pragma: no cover

    async def _wait(self) -> None:
        now = self.clock()
        if now < self._next:
            await self.sleep(self._next - now)
        self._next = max(now, self._next) + 1.0 / CALLS_A_SECOND
        self.calls += 1


def _place(obj: Mapping[str, Any]) -> str:
    """The key under which it is stored, which lists are sorted by."""
    metadata = values.obj(obj.get("metadata"))
    namespace = values.text(metadata.get("namespace"))
    name = values.text(metadata.get("name"))
    return f"{namespace}/{name}" if namespace else name
