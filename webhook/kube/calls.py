"""What those who write need of an API server; ``client.Client`` is one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, Protocol, TypeAlias

from webhook.kube.client import ApiError, Unreachable

Method: TypeAlias = Literal["POST", "PUT", "PATCH"]

Failure: Final = (ApiError, Unreachable, TimeoutError)
"""What a call may end in; the next one may do better."""


class Calls(Protocol):
    """Reads and writes single objects. All raise ApiError or Unreachable."""

    async def get(self, path: str) -> Any:
        """The object."""

    async def send(self, method: Method, path: str, body: object) -> Any:
        """Create (POST), replace (PUT) or change by a JSON Patch (PATCH); the object as it is now."""

    def server_time(self) -> datetime | None:
        """What time it was for the API server when it answered last, if it said so."""


async def find(calls: Calls, path: str) -> Mapping[str, Any] | None:
    """The object, or None where there is none."""
    try:
        found: Mapping[str, Any] = await calls.get(path)
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    return found


def is_conflict(error: ApiError) -> bool:
    """Whether somebody else was faster: it exists already, is another version, or is gone.

    A JSON Patch whose ``test`` fails is answered with 422.
    """
    return error.status in {404, 409, 422}
