"""Follows the ConfigMap that is our switch: the one of that name in our namespace, never any other.

Lists and watches that name one object by a field selector can be granted by its name
(kubernetes ``RequestInfoFactory.NewRequestInfo``), so this needs no right to read other ConfigMaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

from webhook import mode
from webhook.kube.reflector import Reflector, Surroundings, Tell
from webhook.kube.resources import Resource

if TYPE_CHECKING:
    from webhook.kube.client import Requests


class ModeFollower:
    """Throws the switch as the ConfigMap says; what cannot be read leaves it where it is."""

    def __init__(
        self,
        switch: mode.Switch,
        requests: Requests,
        *,
        namespace: str,
        around: Surroundings,
        tell: Tell,
    ) -> None:
        """Follow the ConfigMap of this namespace."""
        resource = Resource(
            kind=mode.KIND, plural="configmaps", label="mode", namespace=namespace, only=mode.NAME
        )
        self.reflector = Reflector(resource, requests, _Lever(switch), around, tell)

    def unread(self) -> str | None:
        """For readiness: a replica that starts must not enforce for a while what was switched off.

        To be refused is an answer too. Who installs a new image before its rights is not held up by it.
        """
        reflector = self.reflector
        if reflector.synced or reflector.refused:
            return None
        return f"not yet read: {mode.NAME} ({reflector.problem or 'being listed'})"


class _Lever:
    """Hands on what the ConfigMap says."""

    def __init__(self, switch: mode.Switch) -> None:
        self._switch = switch

    def swap(self, kept: Sequence[bytes]) -> None:
        objects = (orjson.loads(data) for data in kept)
        self._switch.read(next(filter(mode.is_ours, objects), None))

    def put(self, obj: dict[str, Any]) -> None:
        if mode.is_ours(obj):
            self._switch.read(obj)

    def drop(self, namespace: str, name: str) -> None:
        del namespace
        if name == mode.NAME:
            self._switch.read(None)
