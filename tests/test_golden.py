"""The golden cases: files that a user could have written, and all that is said and done about them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from plugins.framework import interface
from plugins.framework.api import names
from plugins.framework.draft import ABSENT
from plugins.framework.interface import Plugin
from plugins.registry import in_tree, opt_in, registry
from tests.builders import Json
from tests.folder import Folder, texts
from tests.reviews.desk import create
from webhook import yamlio
from webhook.offline import Outcome

FOLDER: Final = Path(__file__).parent / "golden" / "admission"
OURS: Final = ("/metadata/annotations/stationmaster.dev~1",)
CHANGES: Final = (
    interface.DefaultTrainJobPlugin,
    interface.OverrideTrainJobPlugin,
    interface.ReconcileUpdatePlugin,
    interface.EnforceMLPolicyPlugin,
    interface.EnforcePodGroupPolicyPlugin,
    interface.PreBuildSyncPlugin,
    interface.RecordResolutionPlugin,
    interface.CorrectPodGroupPlugin,
    interface.ComponentBuilderPlugin,
)
"""Points at which a plugin changes a TrainJob or PodGroup, or what is built of it."""
REFUSES: Final = (interface.CustomValidationPlugin, interface.ValidateRuntimePlugin)

CASES: Final = sorted(path.stem for path in FOLDER.glob("[0-9]*.yaml"))


@lru_cache(maxsize=64)
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def load(case: str) -> Json:
    """A case, fresh."""
    found: Json = yamlio.load(_text(FOLDER / f"{case}.yaml"))
    return found


def cluster_of(given: Json) -> list[Json]:
    """The objects of a case's cluster, fresh."""
    files = [FOLDER / "cluster" / f"{name}.yaml" for name in given.get("cluster", [])]
    return [*(yamlio.load(_text(path)) for path in files), *given.get("objects", [])]


def folder_of(given: Json) -> Folder:
    """The engine over the cluster of a case."""
    return Folder.of(
        *cluster_of(given),
        line=given.get("line", "2.3"),
        pod_groups=given.get("podgroups", False),
    )


def sent(given: Json) -> Json:
    """What is sent."""
    if "podGroup" in given:
        return create(given["podGroup"])
    [found] = [given[key] for key in ("job", "runtime", "review") if key in given]
    return dict(found)


def changed(outcome: Outcome) -> Json:
    """What was changed, our own annotations left out."""
    if not outcome.allowed:
        return {}
    return {
        change.pointer: None if change.after is ABSENT else change.after
        for change in outcome.changes
        if not change.pointer.startswith(OURS)
    }


def totals(outcome: Outcome) -> Json:
    """What the annotation counts."""
    assert outcome.after is not None
    said: Json = orjson.loads(outcome.after["metadata"]["annotations"][names.TOTALS_ANNOTATION])
    assert said.pop("runtime").startswith("sha256:")
    return said


def misses(found: Any, wanted: Any, at: str = "") -> list[str]:
    """Where ``found`` lacks what is wanted: objects may hold more, items of lists are found by their name."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            m for key, value in wanted.items() for m in misses(found.get(key), value, f"{at}/{key}")
        ]
    if isinstance(wanted, list) and isinstance(found, list) and _is_named(wanted):
        known = {item["name"]: item for item in found}
        return [
            m
            for item in wanted
            for m in misses(known.get(item["name"]), item, f"{at}/{item['name']}")
        ]
    return [] if found == wanted else [f"{at}: {found!r} is not {wanted!r}"]


def _is_named(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) and "name" in item for item in items)


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    document = load(case)
    given, want = document["given"], document["want"]
    assert document.keys() == {"description", "plugin", "given", "want"}
    assert want.keys() <= {"findings", "warnings", "changed", "totals", "built"}
    folder = folder_of(given)
    outcome = folder.admit(sent(given), given.get("old"))
    assert texts(outcome.findings.errors) == want.get("findings", [])
    assert outcome.findings.warnings == want.get("warnings", [])
    assert changed(outcome) == want.get("changed", {})
    if "totals" in want:
        assert totals(outcome) == want["totals"]
    if "built" in want:
        objects = folder.render(sent(given)).objects
        built = {f"{o['kind']}/{o['metadata']['name']}": o for o in objects}
        assert misses(built, want["built"]) == []


def verdict(case: str) -> str:
    """What a case is an example of."""
    want = load(case)["want"]
    if want.get("findings"):
        return "refused"
    return "changed" if want.keys() & {"changed", "totals", "built"} else "allowed"


@pytest.mark.parametrize("name", [spec.name for spec in (*in_tree(), *opt_in())])
def test_every_plugin_has_its_cases(name: str) -> None:
    plugin: Plugin = registry().build(name, {})
    wanted = {"allowed"}
    wanted |= {"changed"} if isinstance(plugin, CHANGES) else set()
    wanted |= {"refused"} if isinstance(plugin, REFUSES) else set()
    has = {verdict(case) for case in CASES if load(case)["plugin"] == name}
    assert has >= wanted


def test_the_numbers_are_in_order_and_each_is_there_once() -> None:
    assert [int(case.split("-")[0]) for case in CASES] == list(range(1, len(CASES) + 1))


def test_a_difference_is_seen() -> None:
    """The comparison itself: more is fine, less and other is not."""
    found = {"a": [{"name": "x", "v": 1}, {"name": "y"}], "b": [1, 2], "c": 3}
    assert misses(found, {"a": [{"name": "x", "v": 1}], "c": 3}) == []
    assert misses(found, {"a": [{"name": "x", "v": 2}]}) == ["/a/x/v: 1 is not 2"]
    assert misses(found, {"a": [{"name": "z", "v": 2}]}) == [
        "/a/z: None is not {'name': 'z', 'v': 2}"
    ]
    assert misses(found, {"b": [1]}) == ["/b: [1, 2] is not [1]"]
    assert misses(found, {"d": {"e": 1}}) == ["/d: None is not {'e': 1}"]
