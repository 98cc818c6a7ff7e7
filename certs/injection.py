"""The ``caBundle`` of webhook configurations: read, and repaired by the smallest patch.

Others write these objects, too (Helm, Argo, a person), and a ``caBundle`` that was written over is an
outage. Only entries that differ are touched, and nothing else of them. Each operation is guarded by
tests: of the entry's name, for whoever reorders the list, and of the object's ``resourceVersion``.
The latter is what makes two writers safe without any trust in a lease: read the configurations
first and the Secret after them, and a patch that is applied was decided on a Secret no older than the
bundle that it replaces.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterator, Mapping
from typing import Any


def bundles(configuration: Mapping[str, Any]) -> dict[str, bytes]:
    """The bundle of each webhook of a configuration, by the webhook's name; empty where there is none."""
    return {name: _bundle(webhook) for _, name, webhook in _webhooks(configuration)}


def patch(
    configuration: Mapping[str, Any], bundle: bytes, webhooks: Collection[str]
) -> list[dict[str, Any]]:
    """A JSON Patch that gives these webhooks the bundle; empty if all have it."""
    encoded = base64.b64encode(bundle).decode()
    operations: list[dict[str, Any]] = []
    for index, name, webhook in _webhooks(configuration):
        if name in webhooks and _bundle(webhook) != bundle:
            path = f"/webhooks/{index}"
            operations += [
                {"op": "test", "path": f"{path}/name", "value": name},
                {"op": "add", "path": f"{path}/clientConfig/caBundle", "value": encoded},
            ]
    if not operations:
        return []
    version = configuration["metadata"]["resourceVersion"]
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": version}, *operations]


def _webhooks(configuration: Mapping[str, Any]) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        yield index, webhook["name"], webhook


def _bundle(webhook: Mapping[str, Any]) -> bytes:
    encoded = webhook["clientConfig"].get("caBundle") or ""
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return b""
