"""The one Secret of certificates that the replicas share: read by name, written if nobody else has."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from webhook.kube.calls import Calls, find
from webhook.kube.client import ApiError

MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "stationmaster"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The Secret as it was read; ``obj`` is None where there is none."""

    obj: Mapping[str, Any] | None = field(repr=False)

    @property
    def data(self) -> dict[str, bytes] | None:
        """What it holds."""
        if self.obj is None:
            return None
        data: Mapping[str, str] = self.obj.get("data") or {}
        return {key: base64.b64decode(value) for key, value in data.items()}


class SecretStore:
    """Reads and writes the Secret."""

    def __init__(self, calls: Calls, *, namespace: str, name: str) -> None:
        """Of this name."""
        self._calls = calls
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"
        self._namespace = namespace
        self._name = name

    async def read(self) -> Found:
        """What is there now."""
        return Found(obj=await find(self._calls, f"{self._collection}/{self._name}"))

    async def write(self, data: Mapping[str, bytes], found: Found) -> bool:
        """Replace what was ``found``, or create it; False if that is not what is there any more."""
        try:
            if found.obj is None:
                await self._calls.send("POST", self._collection, self._filled(_NEW, data))
            else:
                # With it goes the resourceVersion that was read, so a writer in between is a conflict.
                path = f"{self._collection}/{self._name}"
                await self._calls.send("PUT", path, self._filled(found.obj, data))
        except ApiError as error:
            if error.status == 409 or (error.status == 404 and found.obj is not None):
                return False
            raise
        return True

    def _filled(self, obj: Mapping[str, Any], data: Mapping[str, bytes]) -> dict[str, Any]:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        metadata = {**obj["metadata"], "name": self._name, "namespace": self._namespace}
        return {**obj, "metadata": metadata, "data": encoded}


_NEW: Final[Mapping[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"labels": MANAGED_BY},
    "type": "Opaque",
}
