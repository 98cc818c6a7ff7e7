"""The golden cases: files that a user could have written, and all that is said and done about them."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from plugins.framework import interface
from plugins.framework.api import names
from plugins.framework.api.admission import UserInfo
from plugins.framework.draft import ABSENT
from plugins.framework.interface import Plugin
from plugins.registry import in_tree, opt_in, registry
from policies import plugin as policies
from policies.document import POLICY_KINDS
from policies.reading import policy
from tests.builders import Json
from tests.folder import Folder, document, texts
from tests.reviews.desk import create
from webhook import yamlio
from webhook.asked import Asked
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


def outcome_of(given: Json) -> Outcome:
    """What comes of what is sent, by whom and when it is sent."""
    user = UserInfo(username=given.get("user", ""), groups=tuple(given.get("groups", ())))
    now = datetime.fromisoformat(given["now"]) if "now" in given else None
    old = document(given["old"]) if "old" in given else None
    engine = folder_of(given).engine
    return engine.admit(document(sent(given)), old, asked=Asked(user=user, now=now))


def audit(outcome: Outcome) -> Json:
    """What is written to the audit log."""
    return {key: text for call in outcome.calls for key, text in call.audit.items()}


def sent(given: Json) -> Json:
    """What is sent."""
    if "podGroup" in given:
        return create(given["podGroup"])
    [found] = [given[key] for key in ("job", "runtime", "review") if key in given]
    return dict(found)


def changed(outcome: Outcome) -> Json:
    """What was changed, our own annotations left out, and the pieces of what was written whole."""
    out: Json = {}
    for change in outcome.changes if outcome.allowed else ():
        at = change.pointer
        if not at.startswith(OURS) and not any(at.startswith(f"{above}/") for above in out):
            out[at] = None if change.after is ABSENT else change.after
    return out


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
    loaded = load(case)
    given, want = loaded["given"], loaded["want"]
    assert loaded.keys() == {"description", "plugin", "given", "want"}
    assert want.keys() <= {"findings", "warnings", "changed", "totals", "built", "audit"}
    outcome = outcome_of(given)
    assert texts(outcome.findings.errors) == want.get("findings", [])
    assert outcome.findings.warnings == want.get("warnings", [])
    assert changed(outcome) == want.get("changed", {})
    assert audit(outcome) == want.get("audit", {})
    if "totals" in want:
        assert totals(outcome) == want["totals"]
    if "built" in want:
        objects = folder_of(given).render(sent(given)).objects
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


@pytest.mark.parametrize("feature", policy.SPEC)
def test_every_feature_of_policies_has_its_case(feature: str) -> None:
    specs = [
        each["spec"]
        for case in CASES
        for each in load(case)["given"].get("objects", [])
        if each["kind"] in POLICY_KINDS
    ]
    assert any(feature in spec for spec in specs)


def test_policies_have_cases_of_every_kind() -> None:
    has = {verdict(case) for case in CASES if load(case)["plugin"] == policies.NAME}
    assert has == {"allowed", "changed", "refused"}


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
