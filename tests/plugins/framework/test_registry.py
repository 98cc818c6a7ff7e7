"""Which plugins exist: names once, args checked, outside plugins only where a profile names them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, ClassVar, Final

import pytest

from plugins.framework import registry as module
from plugins.framework.errors import ConfigError
from plugins.framework.registry import Args, Handle, PluginSpec, Registry, add_outside
from plugins.registry import in_tree, opt_in, registry

NAME: Final = "Acme"


class AcmeArgs(Args, frozen=True):
    default_queue: str
    limit: int = 3


@dataclass(frozen=True)
class Acme:
    name: ClassVar[str] = NAME
    args: AcmeArgs


SPEC: Final = PluginSpec(name=NAME, build=lambda args, _handle: Acme(args), args=AcmeArgs)
OTHER: Final = PluginSpec(name="Other", build=lambda args, _handle: Acme(args), args=AcmeArgs)
NO_SPEC: Final = object()


def test_a_plugin_is_built_with_its_args() -> None:
    built = Registry((SPEC,)).build(NAME, {"defaultQueue": "a"})
    assert isinstance(built, Acme)
    assert (built.args.default_queue, built.args.limit) == ("a", 3)


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ConfigError, match="a plugin named Acme is already registered"):
        Registry((SPEC, SPEC))


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "an unknown name, with those that exist": (
        "Nope",
        {},
        "no plugin named Nope; there are: Acme, Other",
    ),
    "a missing arg": (
        NAME,
        {},
        "args of plugin Acme: .*defaultQueue.*known args: defaultQueue, limit",
    ),
    "an unknown arg": (
        NAME,
        {"defaultQueue": "a", "x": 1},
        "args of plugin Acme: .*unknown field `x`",
    ),
    "an arg of the wrong type, with its place": (
        NAME,
        {"defaultQueue": "a", "limit": "3"},
        r"args of plugin Acme: Expected `int`, got `str` - at `\$.limit`",
    ),
    "the Python spelling of a name": (NAME, {"default_queue": "a"}, "args of plugin Acme"),
}


@pytest.mark.parametrize("rule", BAD)
def test_errors_can_be_read(rule: str) -> None:
    name, args, message = BAD[rule]
    with pytest.raises(ConfigError, match=message):
        Registry((SPEC, OTHER)).build(name, args)


def test_a_plugin_without_args_takes_none() -> None:
    plain = Registry((PluginSpec(name="Plain", build=lambda _args, _handle: Acme(AcmeArgs("a"))),))
    with pytest.raises(ConfigError, match="known args: none"):
        plain.build("Plain", {"x": 1})
    assert isinstance(plain.build("Plain", {}), Acme)


# In tree


def test_every_plugin_in_tree_is_built_without_args_and_carries_its_name() -> None:
    found = registry()
    assert found.names == [spec.name for spec in (*in_tree(), *opt_in())]
    for name in found.names:
        assert found.build(name, {}).name == name


def test_a_plugin_is_the_same_whoever_builds_it() -> None:
    """Nothing depends on what was built before: no state of modules."""
    for spec in (*in_tree(), *opt_in()):
        assert spec.build(spec.args(), Handle()) == spec.build(spec.args(), Handle())


# Outside


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=module.GROUP)


THIS = __name__


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """Entry points of packages that are not there."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda *, group: [p for p in points if p.group == group]
    )
    return points


def test_an_outside_plugin_is_registered_where_the_profile_names_it(
    installed: list[EntryPoint],
) -> None:
    installed.append(point(NAME, f"{THIS}:SPEC"))
    found = Registry()
    add_outside(found, frozenset({NAME}))
    assert found.names == [NAME]
    assert isinstance(found.build(NAME, {"defaultQueue": "q"}), Acme)


def test_others_are_not_even_imported(installed: list[EntryPoint]) -> None:
    installed.append(point("Broken", "no_such_package:SPEC"))
    found = Registry()
    add_outside(found, frozenset({NAME}))
    assert found.names == []


WRONG: dict[str, tuple[str, str, str]] = {
    "a package that cannot be imported": (
        NAME,
        "no_such_package:SPEC",
        "plugin Acme .*cannot be loaded",
    ),
    "an object that is not there": (NAME, f"{THIS}:NOPE", "plugin Acme .*cannot be loaded"),
    "no spec": (NAME, f"{THIS}:NO_SPEC", "must be a PluginSpec named Acme"),
    "a spec of another name": (NAME, f"{THIS}:OTHER", "must be a PluginSpec named Acme"),
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_outside_plugin_is_a_readable_error(rule: str, installed: list[EntryPoint]) -> None:
    name, value, message = WRONG[rule]
    installed.append(point(name, value))
    with pytest.raises(ConfigError, match=message):
        add_outside(Registry(), frozenset({name}))


def test_an_outside_plugin_cannot_take_a_name_in_tree(installed: list[EntryPoint]) -> None:
    name = in_tree()[0].name
    installed.append(point(name, "plugins.registry:in_tree"))
    spec = f"{in_tree()[0].build.__module__}:SPEC"
    installed[0] = point(name, spec)
    with pytest.raises(ConfigError, match=f"a plugin named {name} is already registered"):
        add_outside(registry(), frozenset({name}))


def test_without_wishes_nothing_happens(installed: list[EntryPoint]) -> None:
    installed.append(point(NAME, f"{THIS}:SPEC"))
    found = Registry()
    add_outside(found, frozenset())
    assert found.names == []
