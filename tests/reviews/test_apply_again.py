"""Applying a manifest a second time (webhook-server A.8), row by row, with and without us.

``ApiServer(None)`` shows the fault of a stock installation; the same with a desk shows the cure. Three ways
of applying: client-side (a merge patch, lists whole), server-side (keyed lists merged), and replacing
everything, as some GitOps tools do.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import orjson
import pytest

from plugins.framework import profile
from plugins.framework.context import Context
from plugins.framework.draft import Draft
from plugins.framework.field import Path
from plugins.framework.interface import DefaultTrainJobPlugin
from plugins.framework.pipeline import Pipeline
from plugins.framework.registry import PluginSpec, Registry
from plugins.framework.values import same
from plugins.registry import in_tree
from tests.builders import Json, MakeTrainJob, job_patch, make_train_job
from tests.reviews import recorded
from tests.reviews.apiserver import (
    QUEUE,
    ApiServer,
    Refused,
    client_side_apply,
    kueue_admits,
    kueue_starts,
    replace_whole,
    server_side_apply,
    with_status,
)
from tests.reviews.desk import Desk, create, update

Apply = Callable[[Json, Json], Json]
WAYS: dict[str, Apply] = {
    "client-side": client_side_apply,
    "server-side": server_side_apply,
    "replace": replace_whole,
}
SSD = {"nodeSelector": {"disk": "ssd"}}
APPLIED = "stationmaster.dev/applied"
TOTALS = "stationmaster.dev/podgroup-totals"


def base() -> MakeTrainJob:
    """A queued job of the recorded runtime."""
    return make_train_job("mnist").runtime("torch-distributed").label(QUEUE, "lq")


MANIFESTS = {
    "runtimePatches": base().patch("example.com/alice", job_patch("node", pod=SSD)),
    "number quantities": base().resources({"cpu": 2}, {"cpu": 2}),
    "neither": base(),
    "an empty trainer": base().trainer(),
    "trainer.env": base().env("EPOCHS", "3"),
    "as recorded": MakeTrainJob(
        {
            key: recorded.review(1)["request"]["object"][key]
            for key in ("apiVersion", "kind", "metadata", "spec")
        }
    ),
}
# What its user had not written.
for _steps in (("metadata", "managedFields"), ("spec", "suspend"), ("spec", "managedBy")):
    MANIFESTS["as recorded"] = MANIFESTS["as recorded"].without(*_steps)

UNCHANGED = "unchanged"
IMMUTABLE = "schema: spec.trainer: Invalid value: field is immutable"
FORBIDDEN = "trainer: spec.runtimePatches: Forbidden: RuntimePatches can only be modified"

# What happens to a running job where only Kueue is installed: the first rows of the table.
STOCK: dict[tuple[str, str], str] = {
    ("runtimePatches", "client-side"): FORBIDDEN,
    ("runtimePatches", "server-side"): UNCHANGED,
    ("number quantities", "client-side"): IMMUTABLE,
    ("number quantities", "server-side"): IMMUTABLE,
    ("neither", "client-side"): UNCHANGED,
    ("neither", "server-side"): UNCHANGED,
    ("trainer.env", "client-side"): UNCHANGED,
    ("trainer.env", "server-side"): UNCHANGED,
}


def outcome(server: ApiServer, stored: Json, again: Json) -> str:
    """What the second apply comes to, in a word or in the words of who refuses it."""
    try:
        after = server.update(stored, again)
    except Refused as error:
        return str(error)
    return UNCHANGED if same(after, stored) else "changed"


def run(server: ApiServer, manifest: Json) -> Json:
    """Create the job and have Kueue start it."""
    suspended = with_status(kueue_admits(server.create(manifest)))
    return with_status(kueue_starts(suspended), status="False")


@pytest.fixture
def desk() -> Desk:
    """A desk in the recorded cluster."""
    return Desk.of(*recorded.cluster())


@pytest.mark.parametrize(("manifest", "way"), STOCK)
def test_a_stock_installation_refuses_what_the_table_says(manifest: str, way: str) -> None:
    server = ApiServer(None, kueue=True)
    obj = MANIFESTS[manifest].obj
    stored = run(server, obj)
    assert outcome(server, stored, WAYS[way](stored, obj)).startswith(STOCK[manifest, way])


@pytest.mark.parametrize("manifest", MANIFESTS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kueue", [True, False], ids=["with Kueue", "without Kueue"])
def test_with_us_a_running_job_is_left_unchanged(
    desk: Desk, manifest: str, way: str, kueue: bool
) -> None:
    server = ApiServer(desk, kueue=kueue)
    obj = MANIFESTS[manifest].obj
    stored = run(server, obj) if kueue else with_status(server.create(obj), status="False")
    assert outcome(server, stored, WAYS[way](stored, obj)) == UNCHANGED


@pytest.mark.parametrize("manifest", MANIFESTS)
@pytest.mark.parametrize("way", WAYS)
def test_with_us_a_waiting_job_keeps_all_but_suspend(desk: Desk, manifest: str, way: str) -> None:
    """Replacing says ``suspend: false``, which is the user's to say; Kueue suspends it again."""
    server = ApiServer(desk, kueue=True)
    obj = MANIFESTS[manifest].obj
    stored = server.create(obj)
    after = server.update(stored, WAYS[way](stored, obj))
    assert same(after, kueue_starts(stored) if way == "replace" else stored)


@pytest.mark.parametrize("way", WAYS)
def test_a_changed_manifest_is_not_taken_for_the_same(desk: Desk, way: str) -> None:
    server = ApiServer(desk, kueue=True)
    for manifest, other in (
        (base().env("A", "1"), base().env("A", "2")),
        (base().resources({"cpu": 2}), base().resources({"cpu": 3})),
        (base().nodes(2), base().nodes(3)),
    ):
        stored = run(server, manifest.obj)
        assert outcome(server, stored, WAYS[way](stored, other.obj)) == IMMUTABLE


def test_an_added_field_of_the_trainer_is_not_taken_back_in_silence(desk: Desk) -> None:
    server = ApiServer(desk, kueue=True)
    stored = run(server, base().nodes(2).obj)
    again = client_side_apply(stored, base().nodes(2).trainer(image="other:2").obj)
    assert outcome(server, stored, again) == IMMUTABLE


@pytest.mark.parametrize("way", WAYS)
def test_a_real_change_of_patches_passes_while_suspended(desk: Desk, way: str) -> None:
    server = ApiServer(desk, kueue=True)
    stored = server.create(MANIFESTS["runtimePatches"].obj)
    other = base().patch(
        "example.com/alice", job_patch("node", pod={"nodeSelector": {"disk": "hdd"}})
    )
    after = server.update(stored, {**WAYS[way](stored, other.suspended().obj)})
    selectors = [
        job["template"]["spec"]["template"]["spec"]["nodeSelector"]["disk"]
        for entry in after["spec"]["runtimePatches"]
        for job in entry["trainingRuntimeSpec"]["template"]["spec"].get("replicatedJobs", [])
    ]
    assert selectors == ["hdd"]


def test_the_old_order_comes_back_too(desk: Desk) -> None:
    server = ApiServer(desk, kueue=True)
    stored = run(server, base().env("A", "1").env("B", "2").obj)
    shuffled = deepcopy(stored)
    shuffled["spec"]["trainer"]["env"].reverse()
    assert outcome(server, stored, shuffled) == UNCHANGED


def test_time_alone_is_no_change(desk: Desk) -> None:
    server = ApiServer(desk)
    stored = with_status(server.create(MANIFESTS["runtimePatches"].obj), status="False")
    again = deepcopy(stored)
    again["spec"]["runtimePatches"][0]["time"] = "2030-01-01T00:00:00Z"
    assert outcome(server, stored, again) == UNCHANGED


# What a plugin of the platform adds: the other rows


@dataclass(frozen=True)
class Platform(DefaultTrainJobPlugin):
    """Adds what platforms add: a variable, a deadline, a label."""

    name: ClassVar[str] = "Platform"

    def default_train_job(self, ctx: Context, draft: Draft) -> None:
        del ctx
        draft.default_item(Path("spec", "trainer", "env"), "name", {"name": "SITE", "value": "b1"})
        draft.default(Path("spec", "activeDeadlineSeconds"), 3600)
        draft.setdefault(Path("metadata", "labels").key("acme.example/team"), "nlp")


@pytest.fixture
def platform(desk: Desk) -> Desk:
    """The same desk with that plugin."""
    specs = (*in_tree(), PluginSpec(name="Platform", build=lambda _args, _handle: Platform()))
    pipeline = Pipeline(Registry(specs), profile.default([spec.name for spec in specs]))
    return replace(desk, pipeline=pipeline)


@pytest.mark.parametrize("manifest", MANIFESTS)
@pytest.mark.parametrize("way", WAYS)
def test_what_a_plugin_added_survives_the_second_apply(
    platform: Desk, manifest: str, way: str
) -> None:
    server = ApiServer(platform, kueue=True)
    obj = MANIFESTS[manifest].obj
    stored = run(server, obj)
    assert {"name": "SITE", "value": "b1"} in stored["spec"]["trainer"]["env"]
    assert stored["spec"]["activeDeadlineSeconds"] == 3600
    after = server.update(stored, WAYS[way](stored, obj))
    assert same(after["spec"], stored["spec"])
    # A label that a replacing client leaves out is gone: metadata is the user's at any time.
    assert same(after, stored) == (way != "replace")


def test_what_a_plugin_adds_is_added_once(platform: Desk) -> None:
    first = platform.mutate(create(MANIFESTS["trainer.env"].obj))
    assert platform.mutate(create(first.after)).patch is None
    names = [e["name"] for e in first.after["spec"]["trainer"]["env"]]
    assert names == ["EPOCHS", "SITE"]
    assert orjson.loads(first.after["metadata"]["annotations"][APPLIED]).keys() == {
        "/spec/activeDeadlineSeconds",
        "/spec/trainer/env/SITE",
        "/spec/trainer/numNodes",
        "/spec/trainer/numProcPerNode",
    }


def test_a_users_own_entry_of_that_name_is_the_users(platform: Desk) -> None:
    server = ApiServer(platform, kueue=True)
    stored = run(server, base().env("SITE", "mine").env("A", "1").obj)
    assert stored["spec"]["trainer"]["env"][0] == {"name": "SITE", "value": "mine"}
    again = client_side_apply(stored, base().env("A", "1").obj)
    assert outcome(server, stored, again) == IMMUTABLE


def test_an_entry_of_ours_in_runtime_patches_survives(desk: Desk) -> None:
    server = ApiServer(desk, kueue=True)
    for manifest in ("runtimePatches", "neither"):
        obj = MANIFESTS[manifest].obj
        stored = run(server, obj)
        ours = {"manager": "stationmaster.dev/defaults", "trainingRuntimeSpec": {"template": {}}}
        stored["spec"]["runtimePatches"].insert(0, ours)
        for way in WAYS.values():
            assert outcome(server, stored, way(stored, obj)) == UNCHANGED


# Our own annotations


def forged(obj: Json, record: dict[str, str]) -> Json:
    """The same with a record of its own writing."""
    out = deepcopy(obj)
    out["metadata"].setdefault("annotations", {})[APPLIED] = orjson.dumps(record).decode()
    return out


FORGERIES: dict[str, Any] = {
    "removed": lambda notes: notes.clear(),
    "record removed": lambda notes: notes.pop(APPLIED),
    "record emptied": lambda notes: notes.update({APPLIED: "{}"}),
    "record of something else": lambda notes: notes.update({APPLIED: "[1]"}),
    "totals of somebody": lambda notes: notes.update({TOTALS: '{"members":1}'}),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_our_annotations_come_back_on_an_update(desk: Desk, forge: Any) -> None:
    server = ApiServer(desk, kueue=True)
    stored = run(server, MANIFESTS["as recorded"].obj)
    again = deepcopy(stored)
    forge(again["metadata"]["annotations"])
    again["metadata"]["annotations"]["acme.example/note"] = "kept"
    after = server.update(stored, again)
    notes = after["metadata"]["annotations"]
    assert notes.pop("acme.example/note") == "kept"
    assert notes == stored["metadata"]["annotations"]


def test_annotations_that_a_job_never_had_cannot_be_smuggled_in(desk: Desk) -> None:
    """A job from before us: no record, and none may be written by its user."""
    stored = ApiServer(None).create(MANIFESTS["number quantities"].obj)
    again = forged(stored, {"/spec/trainer/resourcesPerNode": "RuntimeDefaults:00000000"})
    again["metadata"]["annotations"][TOTALS] = "{}"
    after = ApiServer(desk).update(stored, again)
    assert not after["metadata"].get("annotations")


def test_totals_are_counted_whatever_was_sent(desk: Desk) -> None:
    job = MANIFESTS["as recorded"].annotation(TOTALS, '{"members":9000}')
    notes = desk.mutate(create(job.obj)).after["metadata"]["annotations"]
    assert orjson.loads(notes[TOTALS])["members"] == 2


def test_a_forged_record_gives_no_rights(desk: Desk) -> None:
    """It may claim what we would have written; nothing else of it is believed."""
    mark = "RuntimeDefaults:6b86b273"
    claims = {
        "/spec/trainer/numNodes": mark,
        "/spec/trainer/image": mark,
        "/metadata/labels/x": mark,
    }
    job = base().nodes(1).trainer(image="user:1")
    made = ApiServer(desk).create(forged(job.obj, claims))
    record = orjson.loads(made["metadata"]["annotations"][APPLIED])
    assert record.keys() == {"/spec/trainer/numNodes", "/spec/trainer/numProcPerNode"}
    without = deepcopy(made)
    del without["spec"]["trainer"]["image"]
    assert outcome(ApiServer(desk), made, without) == IMMUTABLE


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "{", '{"/spec": 1}', '{"a":"b"}', "\u2028" * 70000]
)
def test_a_record_that_is_none_is_written_anew(desk: Desk, text: str) -> None:
    job = base().annotation(APPLIED, text)
    made = desk.mutate(create(job.obj)).after
    clean = desk.mutate(create(base().obj)).after
    assert made["metadata"]["annotations"] == clean["metadata"]["annotations"]


def test_the_record_in_the_new_object_counts_for_nothing(desk: Desk) -> None:
    """Only what is stored does: a user cannot explain a removal by a record of his own."""
    stored = ApiServer(desk).create(base().trainer(image="user:1").nodes(2).obj)
    without = deepcopy(stored)
    del without["spec"]["trainer"]["numNodes"]
    mark = "RuntimeDefaults:d4735e3a"
    reply = desk.mutate(update(stored, forged(without, {"/spec/trainer/numNodes": mark})))
    assert "numNodes" not in reply.after["spec"]["trainer"]
    assert reply.after["metadata"]["annotations"] == stored["metadata"]["annotations"]


def test_a_forged_record_hides_nothing_from_the_validating_call(desk: Desk) -> None:
    """A limit below the request would be refused pod by pod, whoever is said to have written it."""
    job = base().resources({"cpu": 4}, {"cpu": 2})
    claims = {"/spec/trainer/resourcesPerNode": "RuntimeDefaults:00000000"}
    with pytest.raises(Refused, match=r"spec\.trainer\.resourcesPerNode\.requests\[cpu\]"):
        ApiServer(desk).create(forged(job.obj, claims))
