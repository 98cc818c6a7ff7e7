"""Ties our registration to our namespace, so that it cannot outlive us.

Whoever deletes only the namespace leaves webhook configurations behind that fail closed with nobody to
answer. As dependents of the Namespace (both are cluster-scoped) they are collected with it, by
Kubernetes itself, our server dead or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.kube.calls import Calls, Failure, find
from webhook.kube.injector import Configuration


class Tie:
    """Makes configurations dependents of a namespace; to be asked for by the Lease's holder only."""

    def __init__(
        self, calls: Calls, configurations: Sequence[Configuration], *, namespace: str
    ) -> None:
        """Tie these to this namespace."""
        self._calls = calls
        self._configurations = tuple(configurations)
        self._namespace = namespace

    async def look(self) -> tuple[str, ...]:
        """Tie what is not tied; what went wrong. A cluster may forbid it, and goes without."""
        problems: list[str] = []
        try:
            owner = await find(self._calls, f"/api/v1/namespaces/{self._namespace}")
        except Failure as error:
            return (f"namespace {self._namespace}: {error}",)
        if owner is None or "deletionTimestamp" in owner["metadata"]:
            return ()
        for configuration in self._configurations:
            try:
                await self._tie(configuration, owner["metadata"]["uid"])
            except Failure as error:
                problems.append(f"{configuration.kind}/{configuration.name}: {error}")
        return tuple(problems)

    async def _tie(self, configuration: Configuration, uid: str) -> None:
        obj = await find(self._calls, configuration.path)
        if obj is None:
            return
        metadata: Mapping[str, Any] = obj["metadata"]
        # One of our namespace that was there before is left out: it would do no harm, and no good.
        others = [
            each
            for each in metadata.get("ownerReferences") or []
            if (each["kind"], each["name"]) != ("Namespace", self._namespace) or each["uid"] == uid
        ]
        if any(each["uid"] == uid for each in others):
            return
        reference = {"apiVersion": "v1", "kind": "Namespace", "name": self._namespace, "uid": uid}
        await self._calls.send(
            "PATCH",
            configuration.path,
            [
                {
                    "op": "test",
                    "path": "/metadata/resourceVersion",
                    "value": metadata["resourceVersion"],
                },
                {"op": "add", "path": "/metadata/ownerReferences", "value": [*others, reference]},
            ],
        )
