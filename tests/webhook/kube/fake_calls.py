"""An API server for single objects: versions, conflicts, JSON Patch, and faults on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonpatch

from webhook.kube.calls import Method
from webhook.kube.client import ApiError

Object = dict[str, Any]
Hook = Callable[[str, str], None]


class FakeCalls:
    """Objects by path. ``before`` is called with the method and the path; it may raise, or write."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.calls: list[tuple[str, str]] = []
        self.before: Hook = lambda _method, _path: None
        self.date: datetime | None = None
        self._version = 0

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path in self.calls if method != "GET"]

    def put(self, path: str, obj: Object) -> None:
        """As somebody else would."""
        self._version += 1
        stored = deepcopy(obj)
        stored.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        self.objects[path] = stored

    async def get(self, path: str) -> Any:
        self._called("GET", path)
        return deepcopy(self._found(path))

    async def send(self, method: Method, path: str, body: object) -> Any:
        self._called(method, path)
        assert isinstance(body, dict | list)
        match method:
            case "POST":
                assert isinstance(body, dict)
                path = f"{path}/{body['metadata']['name']}"
                if path in self.objects:
                    raise ApiError(409, "AlreadyExists", path)
                self.put(path, body)
            case "PUT":
                assert isinstance(body, dict)
                if body["metadata"]["resourceVersion"] != self._version_of(path):
                    raise ApiError(409, "Conflict", path)
                self.put(path, body)
            case "PATCH":
                try:
                    self.put(path, jsonpatch.apply_patch(self._found(path), body))
                except jsonpatch.JsonPatchException as error:
                    raise ApiError(422, "Invalid", "the server rejected our request") from error
        await asyncio.sleep(0)
        return deepcopy(self.objects[path])

    def server_time(self) -> datetime | None:
        return self.date

    def _called(self, method: str, path: str) -> None:
        self.calls.append((method, path))
        self.before(method, path)

    def _found(self, path: str) -> Object:
        if path not in self.objects:
            raise ApiError(404, "NotFound", path)
        return self.objects[path]

    def _version_of(self, path: str) -> str:
        version: str = self._found(path)["metadata"]["resourceVersion"]
        return version


class FakeClock:
    """Both clocks; time passes when somebody says so, or sleeps."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.start = datetime.now(UTC).replace(microsecond=0)

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds - 1000.0)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(0)

    def pass_by(self, seconds: float) -> None:
        self.seconds += seconds
