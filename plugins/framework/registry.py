"""Name -> factory: which plugins exist. A second registration of a name is an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from plugins.framework.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from plugins.framework.interface import Plugin

GROUP: Final = "stationmaster.plugins"
"""The entry-point group under which outside packages publish a ``PluginSpec``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """What the Pipeline lends to a plugin when it is built."""

    at: Callable[[str], Sequence[str]] = lambda _: ()
    """The names of the plugins that may run at an extension point: a plugin may have to say less where another
    does more."""


class Args(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Base of what a profile may set for a plugin; a plugin without args uses it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSpec:
    """How to build one plugin: its name, the type of its args, its factory."""

    name: str
    build: Callable[[Any, Handle], Plugin]
    args: type[Args] = Args


class Registry:
    """The plugins that a profile may name."""

    __slots__ = ("_specs",)

    def __init__(self, specs: tuple[PluginSpec, ...] = ()) -> None:
        """Register the given plugins."""
        self._specs: dict[str, PluginSpec] = {}
        for spec in specs:
            self.register(spec)

    def register(self, spec: PluginSpec) -> None:
        """Add a plugin. Raises ConfigError where the name is taken."""
        if spec.name in self._specs:
            raise ConfigError(f"a plugin named {spec.name} is already registered")
        self._specs[spec.name] = spec

    @property
    def names(self) -> list[str]:
        """All names, in the order of registration."""
        return list(self._specs)

    def build(self, name: str, args: Mapping[str, Any], handle: Handle | None = None) -> Plugin:
        """Make the plugin with args from a profile. Raises ConfigError that says what would be right."""
        spec = self._specs.get(name)
        if spec is None:
            raise ConfigError(
                f"no plugin named {name}; there are: {', '.join(sorted(self._specs))}"
            )
        try:
            decoded = msgspec.convert(dict(args), type=spec.args)
        except msgspec.ValidationError as error:
            known = ", ".join(f.encode_name for f in msgspec.structs.fields(spec.args)) or "none"
            raise ConfigError(f"args of plugin {name}: {error} (known args: {known})") from error
        return spec.build(decoded, handle or Handle())


def add_outside(registry: Registry, wanted: frozenset[str]) -> None:
    """Register the plugins that installed packages publish and the profile names.

    Only named ones are imported: installing a package changes nothing until a profile asks for it.
    """
    # A tenth of the time that a command takes to start, for the few profiles that name one.
    from importlib.metadata import entry_points  # noqa: PLC0415

    for point in entry_points(group=GROUP):
        if point.name in wanted:
            registry.register(_load(point))


def _load(point: EntryPoint) -> PluginSpec:
    try:
        spec = point.load()
    except Exception as error:  # an outside package may fail in any way at import
        raise ConfigError(
            f"plugin {point.name} ({point.value}) cannot be loaded: {error}"
        ) from error
    if not isinstance(spec, PluginSpec) or spec.name != point.name:
        raise ConfigError(f"{point.value} must be a PluginSpec named {point.name}")
    return spec
