"""Replicas of two versions, as in a rolling upgrade or while a profile is rolled out, answer for the same object.

The API server asks whichever replica it reaches: one of them first and another when a webhook behind us has
changed the object, and yet another at the next update. They must come to rest, and what one has written must be
no fault to the other. Versions stand for each other here by what they do: their profile and their plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Final

import orjson
import pytest

from plugins import podgroup_totals
from plugins.framework import applied, profile, schema, totals
from plugins.framework.api import names
from plugins.framework.cluster import Snapshot
from plugins.framework.context import Context
from plugins.framework.draft import Draft
from plugins.framework.field import Path
from plugins.framework.interface import DefaultTrainJobPlugin
from plugins.framework.pipeline import Pipeline
from plugins.framework.registry import PluginSpec, Registry
from plugins.framework.values import same
from plugins.podgroup_totals import PodGroupTotals
from plugins.registry import in_tree
from tests import test_golden as golden
from tests.builders import Json, job_patch
from tests.reviews import recorded, samples
from tests.reviews.apiserver import (
    NOW,
    ApiServer,
    kueue_admits,
    kueue_creates,
    kueue_starts,
    stamp,
    with_status,
)
from tests.reviews.desk import KUEUE, USER, Desk, Reply, create, pipeline_of, snapshot_of, update
from tests.reviews.test_apply_again import IMMUTABLE, MANIFESTS, UNCHANGED, WAYS, base, outcome

APPLIED: Final = "/metadata/annotations/stationmaster.dev~1applied"
TOTALS: Final = "/metadata/annotations/stationmaster.dev~1podgroup-totals"

# The versions


@dataclass(frozen=True)
class Platform(DefaultTrainJobPlugin):
    """What a platform adds to every job; the versions add other values."""

    name: ClassVar[str] = "Platform"
    site: str
    seconds: int

    def default_train_job(self, ctx: Context, draft: Draft) -> None:
        del ctx
        item = {"name": "SITE", "value": self.site}
        draft.default_item(Path("spec", "trainer", "env"), "name", item)
        draft.default(Path("spec", "activeDeadlineSeconds"), self.seconds)
        draft.setdefault(Path("metadata", "labels").key("acme.example/site"), self.site)


@dataclass(frozen=True)
class Recount(PodGroupTotals):
    """Counts otherwise, and writes it in another form."""

    def record_resolution(self, ctx: Context, draft: Draft) -> None:
        del ctx
        members = totals.of(draft.info).members
        draft.set(podgroup_totals.PATH, orjson.dumps({"version": 2, "members": members}).decode())


def shows(*fields: str) -> Pipeline:
    """With RuntimeDefaults for these fields."""
    return pipeline_of({"pluginConfig": [{"name": "RuntimeDefaults", "args": {"fields": fields}}]})


def without(name: str) -> Pipeline:
    """With one plugin less."""
    return pipeline_of({"plugins": {"multiPoint": {"disabled": [{"name": name}]}}})


def with_specs(*specs: PluginSpec) -> Pipeline:
    return Pipeline(Registry(specs), profile.default([spec.name for spec in specs]))


def platform(site: str, seconds: int) -> Pipeline:
    """With one plugin more."""
    made = PluginSpec(name="Platform", build=lambda _args, _handle: Platform(site, seconds))
    return with_specs(*in_tree(), made)


def recounting() -> Pipeline:
    made = PluginSpec(name=podgroup_totals.NAME, build=lambda _args, _handle: Recount())
    return with_specs(*(made if spec.name == made.name else spec for spec in in_tree()))


LATER: Final = [{"name": name} for name in ("RuntimeDefaults", "KeepOldForm")]
VERSIONS: Final[Mapping[str, Pipeline]] = {
    "this": pipeline_of(),
    "shows all": shows(
        *("numNodes", "numProcPerNode", "image", "command", "args", "resourcesPerNode")
    ),
    "shows nothing": shows(),
    "without RuntimeDefaults": without("RuntimeDefaults"),
    "without KeepOldForm": without("KeepOldForm"),
    "another order": pipeline_of({"plugins": {"multiPoint": {"enabled": LATER}}}),
    "a platform": platform("b1", 3600),
    "another platform": platform("b2", 7200),
    "without totals": without("PodGroupTotals"),
    "recounting": recounting(),
}
COUNTING_OTHERWISE: Final = {"without totals", "recounting"}
PAIRS: Final = [
    *(pair for each in VERSIONS if each != "this" for pair in (("this", each), (each, "this"))),
    *[("shows all", "shows nothing"), ("shows nothing", "shows all")],
    *[("a platform", "another platform"), ("another platform", "a platform")],
]
ALIKE: Final = [pair for pair in PAIRS if not COUNTING_OTHERWISE & set(pair)]
OTHERWISE: Final = [pair for pair in PAIRS if COUNTING_OTHERWISE & set(pair)]
KNOWN_TO_BOTH: Final = [
    pair
    for pair in ALIKE
    if all(each.startswith(("this", "shows", "another order")) for each in pair)
]
"""Where each knows all that the other may write, whether it would write it or not."""


# What they are asked


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A review of a TrainJob, and the cluster in which it is asked."""

    review: Json
    snapshot: list[Snapshot]
    line: str

    def answer(self, version: str, obj: Json) -> Reply:
        """What a version says, once the object is ``obj``."""
        desk = Desk(snapshot=self.snapshot, pipeline=VERSIONS[version], line=self.line)
        request = {**self.review["request"], "object": deepcopy(obj)}
        return desk.mutate({**self.review, "request": request})


@lru_cache(maxsize=1)
def asked() -> Mapping[str, Asked]:
    """The recorded reviews, the samples and the golden cases."""
    return dict(_asked())


def _asked() -> Iterator[tuple[str, Asked]]:
    snapshot = samples.desk().snapshot
    for i, review in enumerate(samples.reviews()):
        request = review["request"]
        if request["kind"]["kind"] == names.TRAIN_JOB and request["operation"] != "DELETE":
            yield f"review {i}", Asked(review=review, snapshot=snapshot, line="2.3")
    for case in golden.CASES:
        given = golden.load(case)["given"]
        if "job" in given:
            job, old = given["job"], given.get("old")
            yield (
                case,
                Asked(
                    review=create(job) if old is None else update(old, job),
                    snapshot=[snapshot_of(*golden.cluster_of(given))],
                    line=given.get("line", "2.3"),
                ),
            )


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What became of an object that two versions were asked about in turns."""

    replies: list[Reply]

    @property
    def refusals(self) -> list[str]:
        """After the first, which is about what the user sent."""
        return [reply.message for reply in self.replies[1:] if not reply.allowed]

    @property
    def unrest(self) -> set[str]:
        """Where anything was changed once each had seen what the other made of it."""
        return {operation["path"] for reply in self.replies[3:] for operation in reply.patch or ()}


def chain(about: Asked, first: str, second: str, behind: Callable[[Json], Json]) -> Chain:
    """Five answers; ``behind`` is what other webhooks make of a new object after the first."""
    obj, replies = about.review["request"]["object"], []
    for i in range(5):
        reply = about.answer((first, second)[i % 2], obj)
        replies.append(reply)
        if not reply.allowed:
            break
        obj = reply.after
        if i == 0 and about.review["request"]["operation"] == "CREATE":
            obj = behind(obj)
    return Chain(replies=replies)


def nobody(obj: Json) -> Json:
    return obj


def kueue(obj: Json) -> Json:
    """The Trainer's webhook and Kueue's."""
    return kueue_creates(stamp(None, obj, NOW)) if isinstance(obj.get("spec"), dict) else obj


BEHIND: Final = {"nobody": nobody, "Kueue": kueue}


def chains(pair: tuple[str, str], behind: str) -> dict[str, Chain]:
    """By review; of all that the first version lets pass."""
    found = {name: chain(about, *pair, BEHIND[behind]) for name, about in asked().items()}
    passed = {name: each for name, each in found.items() if each.replies[0].allowed}
    assert len(passed) > len(found) / 2
    return passed


# Coming to rest


def test_there_is_something_to_come_to_rest() -> None:
    """The versions do differ, and so do the two calls: else the rest would prove nothing."""
    for first, second in PAIRS:
        assert "order" in first + second or any(
            about.answer(first, about.review["request"]["object"]).patch
            != about.answer(second, about.review["request"]["object"]).patch
            for about in asked().values()
        ), (first, second)


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("pair", ALIKE, ids=" then ".join)
def test_nothing_changes_once_each_has_seen_what_the_other_made(
    pair: tuple[str, str], behind: str
) -> None:
    restless = {n: found.unrest for n, found in chains(pair, behind).items() if found.unrest}
    assert restless == {}


@pytest.mark.parametrize("pair", ALIKE, ids=" then ".join)
def test_what_the_user_sees_is_settled_by_the_second_answer(pair: tuple[str, str]) -> None:
    """What may follow is the record alone, which the first takes back as far as it cannot vouch for it."""
    for name, found in chains(pair, "Kueue").items():
        paths = {o["path"] for reply in found.replies[2:] for o in reply.patch or ()}
        assert paths <= {APPLIED}, name


@pytest.mark.parametrize("pair", KNOWN_TO_BOTH, ids=" then ".join)
def test_the_record_is_settled_by_the_second_answer_where_both_know_what_was_written(
    pair: tuple[str, str],
) -> None:
    for name, found in chains(pair, "Kueue").items():
        assert all(reply.patch is None for reply in found.replies[2:] if reply.allowed), name


@pytest.mark.parametrize("pair", KNOWN_TO_BOTH, ids=" then ".join)
def test_what_one_has_written_is_no_fault_to_the_other(pair: tuple[str, str]) -> None:
    """A job whose runtime asks for more than a LimitRange allows is among them: it is not the user's fault."""
    refused = {n: found.refusals for n, found in chains(pair, "Kueue").items() if found.refusals}
    assert refused == {}


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("pair", OTHERWISE, ids=" then ".join)
def test_of_versions_that_count_otherwise_the_totals_are_all_that_differs(
    pair: tuple[str, str], behind: str
) -> None:
    """Of a request that has them counted, which asks each of us twice at most: the later answer holds."""
    for name, found in chains(pair, behind).items():
        assert found.unrest <= {TOTALS}, name


# What is stored


def desk(version: str) -> Desk:
    return replace(Desk.of(*recorded.cluster()), pipeline=VERSIONS[version])


def stored_by(first: str, second: str, manifest: Json) -> Json:
    """A job that the first version was asked about, and the second after Kueue had changed it; it runs."""
    sent = schema.load("2.3").admit(names.TRAIN_JOB, manifest).obj
    left = kueue(desk(first).mutate(create(sent)).after)
    made = desk(second).mutate(create(left)).after
    made["metadata"] |= {"uid": "u", "generation": 1, "creationTimestamp": NOW}
    made["metadata"]["resourceVersion"] = "1"
    return with_status(kueue_starts(with_status(kueue_admits(made))), status="False")


def touched(old: Json, **spec: Any) -> Json:
    """The same, labelled, with these fields of its spec."""
    new = deepcopy(old)
    new["metadata"].setdefault("labels", {})["example.com/touched"] = "yes"
    new["spec"] |= spec
    return new


UPDATES: Final[Mapping[str, tuple[str, Callable[[Json], Json]]]] = {
    "nothing": (USER, deepcopy),
    "a label": (USER, touched),
    "suspended by its user": (USER, lambda old: touched(old, suspend=True)),
    "suspended by Kueue": (KUEUE, lambda old: touched(old, suspend=True)),
    "finalizers": (
        USER,
        lambda old: {**old, "metadata": {**old["metadata"], "finalizers": ["a.b/c"]}},
    ),
}


@pytest.mark.parametrize("pair", PAIRS, ids=" then ".join)
@pytest.mark.parametrize("change", UPDATES)
def test_what_is_stored_is_changed_by_neither(pair: tuple[str, str], change: str) -> None:
    user, made = UPDATES[change]
    for manifest in MANIFESTS.values():
        stored = stored_by(*pair, manifest.obj)
        for version in pair:
            reply = desk(version).mutate(update(stored, made(stored), user=user))
            assert (reply.allowed, reply.patch) == (True, None)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if "without KeepOldForm" not in pair], ids=" then ".join
)
def test_what_one_version_stored_is_no_news_to_the_other(pair: tuple[str, str], way: str) -> None:
    """The upgrade itself: made by the one, its manifest applied again to the other."""
    first, second = pair
    for name, manifest in MANIFESTS.items():
        stored = stored_by(first, first, manifest.obj)
        server = ApiServer(desk(second), kueue=True)
        after = server.update(stored, WAYS[way](stored, manifest.obj))
        assert same(after["spec"], stored["spec"]), name
        assert same(after["metadata"]["annotations"], stored["metadata"]["annotations"]), name


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pair", KNOWN_TO_BOTH, ids=" then ".join)
def test_what_both_versions_stored_is_no_news_to_either(pair: tuple[str, str], way: str) -> None:
    for name, manifest in MANIFESTS.items():
        stored = stored_by(*pair, manifest.obj)
        for version in pair:
            server = ApiServer(desk(version), kueue=True)
            again = WAYS[way](stored, manifest.obj)
            assert outcome(server, stored, again) == UNCHANGED, (name, version)


def test_what_only_the_first_knows_of_is_the_users_to_the_second() -> None:
    """The limit (docs/annotations.md): nobody vouches for what was written, so it cannot be told from a claim."""
    manifest = base().env("EPOCHS", "3").obj
    stored = stored_by("a platform", "this", manifest)
    again = WAYS["client-side"](stored, manifest)
    assert {"name": "SITE", "value": "b1"} in stored["spec"]["trainer"]["env"]
    for version in ("a platform", "this"):
        assert outcome(ApiServer(desk(version), kueue=True), stored, again) == IMMUTABLE


def test_a_claim_gives_no_rights_because_another_profile_would_have_written_it() -> None:
    """Only what the runtime gives anyway is confirmed: another image is the user's, whatever is claimed."""
    job = base().nodes(1).trainer(image="user:1").resources({"cpu": 4}, {"cpu": 2})
    claims = {
        f"/spec/trainer/{name}": applied.mark("RuntimeDefaults", value)
        for name, value in job.obj["spec"]["trainer"].items()
    }
    assert len(claims) == 3
    forged = job.annotation(names.APPLIED_ANNOTATION, applied.write(claims))
    for version in ("shows nothing", "this"):
        reply = desk(version).mutate(create(forged.obj))
        assert not reply.allowed
        assert "spec.trainer.resourcesPerNode.requests[cpu]" in reply.message


def test_overrides_that_change_are_counted_anew_by_whoever_is_asked() -> None:
    """So the totals of a stored job are always of one version, and of the job as it is."""
    manifest = base().patch(
        "example.com/alice", job_patch("node", pod={"nodeSelector": {"a": "b"}})
    )
    stored = touched(stored_by("this", "this", manifest.obj), suspend=True)
    other = deepcopy(stored)
    for entry in other["spec"]["runtimePatches"]:
        if entry["manager"] == "example.com/alice":
            entry["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"] = []
    first = desk("recounting").mutate(update(stored, other)).after
    assert first["metadata"]["annotations"][names.TOTALS_ANNOTATION].startswith('{"version":2')
    again = desk("this").mutate(update(first, first))
    assert again.patch is None
