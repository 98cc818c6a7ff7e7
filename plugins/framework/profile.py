"""A profile: which plugins run, in which order, at which extension points, with which args.

The shape is that of KubeSchedulerConfiguration::

    apiVersion: config.stationmaster.dev/v1alpha1
    kind: PipelineProfile
    plugins:
      multiPoint:
        disabled: [{name: RuntimeDefaults}]
        enabled: [{name: AcmeQueue}]
      customValidation:
        disabled: [{name: Volcano}]
    pluginConfig:
      - name: RuntimeDefaults
        args: {fields: [numNodes, image]}
        onFault: Refuse
    exemptUsers: [system:serviceaccount:kueue-system:kueue-controller-manager]

``multiPoint`` starts from the in-tree plugins in their order; ``disabled`` takes away (``*``: all),
``enabled`` appends. A named extension point starts from what multiPoint left and does the same there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import msgspec

from plugins.framework.errors import ConfigError
from plugins.framework.interface import EXTENSION_POINTS

API_VERSION: Final = "config.stationmaster.dev/v1alpha1"
KIND: Final = "PipelineProfile"
MULTI_POINT: Final = "multiPoint"

OnFault = Literal["Refuse", "Warn"]

CONTROLLERS: Final = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kueue-system:kueue-controller-manager",
)
"""Users whose updates of a TrainJob are never changed and never refused (webhook-server A.9)."""


class _Name(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class _Set(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: list[_Name] = []
    disabled: list[_Name] = []


class _Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: str
    args: dict[str, Any] = {}
    on_fault: OnFault = "Warn"


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_version: str
    kind: str
    metadata: dict[str, Any] = {}
    plugins: dict[str, _Set] = {}
    plugin_config: list[_Config] = []
    exempt_users: tuple[str, ...] = CONTROLLERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile, decoded: names per extension point, args and fault policy per plugin."""

    points: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Extension point -> the names that may run there, in order; a missing point means ``plugins``."""
    plugins: tuple[str, ...] = ()
    args: dict[str, dict[str, Any]] = field(default_factory=dict)
    on_fault: dict[str, OnFault] = field(default_factory=dict)
    exempt_users: frozenset[str] = frozenset(CONTROLLERS)

    @property
    def named(self) -> frozenset[str]:
        """Every plugin that runs anywhere."""
        return (
            frozenset(self.plugins).union(*self.points.values())
            if self.points
            else frozenset(self.plugins)
        )

    def with_plugin(self, name: str) -> Profile:
        """The same with one more plugin, at every point, last; as it is where that one runs already."""
        if name in self.named:
            return self
        points = {point: (*names, name) for point, names in self.points.items()}
        return replace(self, plugins=(*self.plugins, name), points=points)

    def at(self, point: str) -> tuple[str, ...]:
        """The names that may run at a point, in order."""
        return self.points.get(point, self.plugins)


def default(in_tree: Sequence[str]) -> Profile:
    """The profile that runs every in-tree plugin at every point, in the registry's order."""
    return Profile(plugins=tuple(in_tree))


def decode(document: Any, in_tree: Sequence[str]) -> Profile:
    """A profile from its YAML document. Raises ConfigError with the path of what is wrong."""
    try:
        doc = msgspec.convert(document, type=_Document)
    except msgspec.ValidationError as error:
        raise ConfigError(f"profile: {error}") from error
    if doc.api_version != API_VERSION or doc.kind != KIND:
        raise ConfigError(
            f"profile: must be {API_VERSION}, kind {KIND}, not {doc.api_version}, kind {doc.kind}"
        )
    points = [name for name, _, _ in EXTENSION_POINTS]
    for name in doc.plugins:
        if name != MULTI_POINT and name not in points:
            known = ", ".join([MULTI_POINT, *points])
            raise ConfigError(f"profile: plugins.{name} is no extension point; there are: {known}")
    everywhere = _edit(in_tree, doc.plugins.get(MULTI_POINT, _Set()))
    _no_strangers(doc.plugins, in_tree)
    _no_repeats(doc.plugin_config)
    return Profile(
        plugins=everywhere,
        points={n: _edit(everywhere, s) for n, s in doc.plugins.items() if n != MULTI_POINT},
        args={c.name: c.args for c in doc.plugin_config},
        on_fault={c.name: c.on_fault for c in doc.plugin_config},
        exempt_users=frozenset(doc.exempt_users),
    )


def _edit(start: Iterable[str], change: _Set) -> tuple[str, ...]:
    gone = {n.name for n in change.disabled}
    added = [n.name for n in change.enabled]
    if "*" in gone:
        start = ()
    kept = [name for name in start if name not in gone and name not in added]
    return (*kept, *dict.fromkeys(added))


def _no_strangers(sets: Mapping[str, _Set], in_tree: Iterable[str]) -> None:
    """A misspelt name to disable would leave the plugin running, and nobody would see it."""
    known = {*in_tree, *(n.name for s in sets.values() for n in s.enabled)}
    for point, change in sets.items():
        for name in (n.name for n in change.disabled):
            if name not in known and name != "*":
                there = ", ".join(sorted(known))
                raise ConfigError(
                    f"profile: plugins.{point}.disabled names {name}, which is no plugin; there are: {there}"
                )


def _no_repeats(configs: Iterable[_Config]) -> None:
    seen: set[str] = set()
    for config in configs:
        if config.name in seen:
            raise ConfigError(f"profile: pluginConfig names {config.name} twice")
        seen.add(config.name)
