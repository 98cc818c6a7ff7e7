"""Reads the bundles of our webhook configurations, and repairs those that differ (certs/injection)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from certs import injection
from webhook.kube.calls import Calls, Failure, find, is_conflict
from webhook.kube.client import ApiError

Kind: TypeAlias = Literal["mutating", "validating"]

UNREAD: Final = "?"
"""Stands for the webhooks of a configuration that could not be read. They may well trust an old
authority only, so they count as having no bundle, and no new one signs before they were seen."""


class Configuration(NamedTuple):
    """One of our webhook configurations."""

    kind: Kind
    name: str

    @property
    def path(self) -> str:
        """Where it is."""
        plural = f"{self.kind}webhookconfigurations"
        return f"/apis/admissionregistration.k8s.io/v1/{plural}/{self.name}"

    def place(self, webhook: str) -> str:
        """What one of its webhooks is called here."""
        return f"{self.kind}/{self.name}/{webhook}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What was read."""

    objects: Mapping[Configuration, Mapping[str, Any]] = field(repr=False)
    bundles: Mapping[str, bytes] = field(repr=False)
    problems: tuple[str, ...] = ()


class Injector:
    """Keeps the ``caBundle`` of some configurations, as it is told to."""

    def __init__(self, calls: Calls, configurations: Sequence[Configuration]) -> None:
        """Keep these; one that does not exist is a problem to report, no fault."""
        self._calls = calls
        self._configurations = tuple(configurations)

    async def read(self) -> Published:
        """Read all; one that cannot be read does not keep us from the others (cert-manager#3251)."""
        objects: dict[Configuration, Mapping[str, Any]] = {}
        bundles: dict[str, bytes] = {}
        problems: list[str] = []
        for configuration in self._configurations:
            try:
                found = await find(self._calls, configuration.path)
            except Failure as error:
                problems.append(f"{configuration.place(UNREAD)}: {error}")
                bundles[configuration.place(UNREAD)] = b""
                continue
            if found is None:
                problems.append(f"{configuration.kind}/{configuration.name} does not exist")
                continue
            objects[configuration] = found
            for webhook, bundle in injection.bundles(found).items():
                bundles[configuration.place(webhook)] = bundle
        return Published(objects=objects, bundles=bundles, problems=tuple(problems))

    async def publish(
        self, bundle: bytes, places: Sequence[str], published: Published
    ) -> tuple[str, ...]:
        """Give these places the bundle if they are still as they were read; what went wrong.

        A place that somebody has changed meanwhile is left as it is: look again.
        """
        problems: list[str] = []
        for configuration, patch in self._patches(bundle, places, published):
            try:
                await self._calls.send("PATCH", configuration.path, patch)
            except Failure as error:
                if not (isinstance(error, ApiError) and is_conflict(error)):
                    problems.append(f"{configuration.kind}/{configuration.name}: {error}")
        return tuple(problems)

    @staticmethod
    def _patches(
        bundle: bytes, places: Sequence[str], published: Published
    ) -> Iterator[tuple[Configuration, list[dict[str, Any]]]]:
        for configuration, obj in published.objects.items():
            wanted = {
                name for name in injection.bundles(obj) if configuration.place(name) in places
            }
            if patch := injection.patch(obj, bundle, wanted):
                yield configuration, patch
