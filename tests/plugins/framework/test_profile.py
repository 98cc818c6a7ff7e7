"""A profile: which plugins run where, in which order, with which args; and what is wrong with one."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework import profile
from plugins.framework.errors import ConfigError
from plugins.framework.interface import EXTENSION_POINTS
from plugins.framework.pipeline import Pipeline
from plugins.framework.profile import Profile
from plugins.registry import in_tree, registry
from tests.builders import Json

TREE = ("A", "B", "C")


def decode(**fields: Any) -> Profile:
    return profile.decode({"apiVersion": profile.API_VERSION, "kind": profile.KIND, **fields}, TREE)


def chosen(*, enabled: tuple[str, ...] = (), disabled: tuple[str, ...] = ()) -> Json:
    return {"enabled": [{"name": n} for n in enabled], "disabled": [{"name": n} for n in disabled]}


# Order


MULTI: dict[str, tuple[Json, tuple[str, ...]]] = {
    "nothing said: all in tree, in their order": ({}, ("A", "B", "C")),
    "one less": (chosen(disabled=("B",)), ("A", "C")),
    "one more, at the end": (chosen(enabled=("X",)), ("A", "B", "C", "X")),
    "several more, as they are listed": (chosen(enabled=("Y", "X")), ("A", "B", "C", "Y", "X")),
    "none at all": (chosen(disabled=("*",)), ()),
    "another order": (chosen(disabled=("*",), enabled=("C", "A")), ("C", "A")),
    "one that is there, moved to the end": (chosen(enabled=("A",)), ("B", "C", "A")),
    "one named twice": (chosen(enabled=("X", "X")), ("A", "B", "C", "X")),
}


@pytest.mark.parametrize("rule", MULTI)
def test_multi_point(rule: str) -> None:
    change, wanted = MULTI[rule]
    found = decode(plugins={"multiPoint": change})
    assert found.plugins == wanted
    assert all(found.at(point) == wanted for point, _, _ in EXTENSION_POINTS)


def test_a_point_starts_from_what_multi_point_leaves() -> None:
    found = decode(
        plugins={
            "multiPoint": chosen(disabled=("B",), enabled=("X",)),
            "customValidation": chosen(disabled=("A",), enabled=("Y",)),
        }
    )
    assert found.at("customValidation") == ("C", "X", "Y")
    assert found.at("componentBuilder") == ("A", "C", "X")
    assert found.named == {"A", "C", "X", "Y"}


def test_an_outside_plugin_that_is_enabled_may_be_disabled_at_a_point() -> None:
    found = decode(
        plugins={
            "multiPoint": chosen(enabled=("X",)),
            "componentBuilder": chosen(disabled=("X", "*")),
        }
    )
    assert found.at("componentBuilder") == ()


def test_a_plugin_may_run_at_one_point_only() -> None:
    found = decode(
        plugins={"multiPoint": chosen(disabled=("*",)), "preBuildSync": chosen(enabled=("A",))}
    )
    assert found.at("preBuildSync") == ("A",)
    assert found.at("customValidation") == ()
    assert found.named == {"A"}


def test_the_default_runs_everything_everywhere() -> None:
    found = profile.default(TREE)
    assert found.plugins == TREE
    assert found.at("componentBuilder") == TREE
    assert found == decode()


def test_args_and_the_effect_of_faults() -> None:
    found = decode(
        pluginConfig=[{"name": "A", "args": {"x": [1]}, "onFault": "Refuse"}, {"name": "B"}]
    )
    assert found.args == {"A": {"x": [1]}, "B": {}}
    assert found.on_fault == {"A": "Refuse", "B": "Warn"}


def test_whose_updates_are_left_alone() -> None:
    assert "system:serviceaccount:kueue-system:kueue-controller-manager" in decode().exempt_users
    assert decode(exemptUsers=["me"]).exempt_users == {"me"}
    assert decode(exemptUsers=[]).exempt_users == frozenset()


def test_one_more_plugin_runs_last_at_every_point() -> None:
    found = decode(plugins={"preBuildSync": chosen(disabled=("B",))}).with_plugin("X")
    assert found.plugins == (*TREE, "X")
    assert found.at("preBuildSync") == ("A", "C", "X")
    assert found.at("componentBuilder") == (*TREE, "X")


def test_a_plugin_that_runs_already_stays_where_it_is() -> None:
    found = decode(plugins={"preBuildSync": chosen(enabled=("X",))})
    assert found.with_plugin("X") is found
    assert found.with_plugin("A") is found


# Errors


WRONG: dict[str, tuple[Any, str]] = {
    "no document": (None, "profile: .*object"),
    "a list": ([], "profile: "),
    "another version": (
        {"apiVersion": "v1", "kind": profile.KIND},
        f"must be {profile.API_VERSION}, kind {profile.KIND}, not v1, kind {profile.KIND}",
    ),
    "another kind": ({"apiVersion": profile.API_VERSION, "kind": "X"}, "not .*, kind X"),
    "no kind": ({"apiVersion": profile.API_VERSION}, "kind"),
}
FIELDS: dict[str, tuple[Json, str]] = {
    "an unknown field": ({"plugin": {}}, "unknown field `plugin`"),
    "an unknown extension point, with those that exist": (
        {"plugins": {"validate": {}}},
        "plugins.validate is no extension point; there are: multiPoint, watchExtension, defaultTrainJob",
    ),
    "a plugin without a name": (
        {"plugins": {"multiPoint": {"enabled": [{}]}}},
        r"missing required field `name` - at `\$.plugins\[...\].enabled\[0\]`",
    ),
    "an unknown effect": (
        {"pluginConfig": [{"name": "A", "onFault": "Panic"}]},
        r"'Panic' - at `\$.pluginConfig\[0\].onFault`",
    ),
    "a misspelt name to disable, which would leave the plugin running": (
        {"plugins": {"customValidation": chosen(disabled=("a",))}},
        "plugins.customValidation.disabled names a, which is no plugin; there are: A, B, C",
    ),
    "args twice": ({"pluginConfig": [{"name": "A"}, {"name": "A"}]}, "pluginConfig names A twice"),
    "args that are none": ({"pluginConfig": [{"name": "A", "args": []}]}, "Expected `object`"),
}


@pytest.mark.parametrize("rule", WRONG)
def test_what_is_no_profile_is_a_readable_error(rule: str) -> None:
    document, message = WRONG[rule]
    with pytest.raises(ConfigError, match=message):
        profile.decode(document, TREE)


@pytest.mark.parametrize("rule", FIELDS)
def test_a_wrong_field_is_a_readable_error(rule: str) -> None:
    fields, message = FIELDS[rule]
    with pytest.raises(ConfigError, match=message):
        decode(**fields)


# In a Pipeline


def pipeline(**fields: Any) -> Pipeline:
    document = {"apiVersion": profile.API_VERSION, "kind": profile.KIND, **fields}
    return Pipeline(registry(), profile.decode(document, [spec.name for spec in in_tree()]))


def test_args_of_a_plugin_that_does_not_run_are_an_error() -> None:
    config = [{"name": "RuntimeDefaults"}]
    with pytest.raises(ConfigError, match="pluginConfig names RuntimeDefaults, which do not run"):
        pipeline(plugins={"multiPoint": chosen(disabled=("RuntimeDefaults",))}, pluginConfig=config)


def test_a_plugin_that_does_not_exist_is_an_error_that_names_those_that_do() -> None:
    with pytest.raises(ConfigError, match=r"no plugin named Nope; there are: .*Torch"):
        pipeline(plugins={"multiPoint": chosen(enabled=("Nope",))})


def test_plugins_run_in_the_order_of_the_profile_where_they_have_something_to_do() -> None:
    found = pipeline(
        plugins={
            "multiPoint": chosen(disabled=("Flux",)),
            "componentBuilder": chosen(disabled=("*",), enabled=("Volcano", "JobSet", "Torch")),
        }
    )
    assert found.order("build") == ["Volcano", "JobSet"]
    assert "Flux" not in found.plugins
    names = [spec.name for spec in in_tree()]
    order = found.order("validate")
    assert order == sorted(order, key=names.index)
