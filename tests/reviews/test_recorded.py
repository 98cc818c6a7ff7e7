"""The reviews that a real API server sent, answered as bytes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import orjson
import pytest

from plugins.framework.values import same
from tests.builders import Json
from tests.reviews import recorded
from tests.reviews.apiserver import NOW, kueue_creates, stamp
from tests.reviews.desk import PHASES, Desk, apply
from webhook.review import Phase

NUMBERS = range(1, 16)
CREATES = (1, 2, 3, 4, 5, 6, 7)
TOTALS = "stationmaster.dev/podgroup-totals"
APPLIED = "stationmaster.dev/applied"
FOREGROUND = 10
"""A user deletes an unfinished job in the foreground, which is warned of (G47)."""


@pytest.fixture
def desk() -> Desk:
    """A desk that knows the runtimes, in a cluster of Trainer 2.3."""
    return Desk.of(*recorded.cluster())


def annotations_of(patch: list[Json]) -> dict[str, Any]:
    """What our two annotations say, in an object that had none."""
    [added] = [o["value"] for o in patch if o["path"] == "/metadata/annotations"]
    return {name: orjson.loads(text) for name, text in added.items()}


def test_all_reviews_are_here() -> None:
    assert [name[:2] for name in recorded.names()] == [f"{n:02}" for n in NUMBERS]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("phase", PHASES)
def test_each_is_allowed_without_a_word_but_the_foreground_deletion(
    desk: Desk, number: int, phase: Phase
) -> None:
    reply = desk.post(phase, recorded.review(number))
    assert reply.allowed
    if number == FOREGROUND and phase == "validate":
        assert len(reply.warnings) == 2
    else:
        assert reply.warnings == []


@pytest.mark.parametrize("number", sorted(set(NUMBERS) - set(CREATES)))
def test_updates_deletions_runtimes_and_podgroups_are_left_as_they_are(
    desk: Desk, number: int
) -> None:
    assert desk.mutate(recorded.review(number)).patch is None


@pytest.mark.parametrize("number", CREATES)
def test_a_new_trainjob_gets_exactly_our_defaults(desk: Desk, number: int) -> None:
    reply = desk.mutate(recorded.review(number))
    assert reply.patch is not None
    assert [(o["op"], o["path"]) for o in reply.patch] == [
        ("add", "/spec/trainer/numProcPerNode"),
        ("add", "/metadata/annotations"),
    ]
    assert reply.patch[0]["value"] == 2, "two CPUs, no GPU: as many processes as CPUs"
    said = annotations_of(reply.patch)
    assert said[TOTALS].pop("runtime").startswith("sha256:")
    both = {"cpu": "4", "memory": "8Gi"}
    assert said == {
        TOTALS: {
            "members": 2,
            "podSets": {"node": {"count": 2, "resources": both}},
            "resources": both,
        },
        APPLIED: {"/spec/trainer/numProcPerNode": "RuntimeDefaults:d4735e3a"},
    }


def test_the_form_of_a_quantity_changes_nothing_in_the_answer(desk: Desk) -> None:
    """01 has numbers, 02 the texts that Kueue makes of them."""
    assert desk.mutate(recorded.review(1)).patch == desk.mutate(recorded.review(2)).patch


def test_what_kueue_and_the_trainer_do_is_what_was_recorded() -> None:
    """The two functions that stand for them turn 01 into 02."""
    sent, again = (recorded.review(n)["request"]["object"] for n in (1, 2))
    behind = kueue_creates(stamp(None, sent, NOW))
    for obj in (behind, again):
        del obj["metadata"]["managedFields"]
    assert same(behind, again)


def test_the_reinvoked_review_is_answered_without_a_patch(desk: Desk) -> None:
    """02 as it is sent in a cluster where 01 got our patch."""
    first, second = recorded.review(1), recorded.review(2)
    reply = desk.mutate(first)
    left = kueue_creates(stamp(None, reply.after, NOW))
    again = desk.mutate({**second, "request": {**second["request"], "object": left}})
    assert (again.allowed, again.patch, again.warnings) == (True, None, [])
    # The same with the object of 02 itself, once it has what 01 was given.
    given = apply(second["request"]["object"], reply.patch)
    assert desk.mutate({**second, "request": {**second["request"], "object": given}}).patch is None


@pytest.mark.parametrize("number", [1, 4, 5, 6])
def test_the_validating_call_judges_what_the_others_left(desk: Desk, number: int) -> None:
    review = recorded.review(number)
    left = kueue_creates(stamp(None, desk.mutate(review).after, NOW))
    left["metadata"] |= {"uid": "u", "generation": 1, "creationTimestamp": NOW}
    reply = desk.validate({**review, "request": {**review["request"], "object": left}})
    assert (reply.allowed, reply.warnings) == (True, [])


@pytest.mark.parametrize("number", [8, 9])
@pytest.mark.parametrize("user", ["kueue", "somebody"])
def test_what_kueue_writes_stays_whoever_writes_it(desk: Desk, number: int, user: str) -> None:
    """In an object that we completed: Kueue's entry and ``suspend`` pass, our annotations stay."""
    review = deepcopy(recorded.review(number))
    request = review["request"]
    ours = desk.mutate(recorded.review(2)).patch
    request["object"], request["oldObject"] = (
        apply(request[key], ours) for key in ("object", "oldObject")
    )
    if user == "somebody":
        request["userInfo"] = {"username": "alice@example.com"}
    for phase in PHASES:
        reply = desk.post(phase, review)
        assert reply.allowed
        assert same(reply.after["spec"], request["object"]["spec"])
        annotations = reply.after["metadata"]["annotations"]
        assert annotations.keys() == {TOTALS, APPLIED}


@pytest.mark.parametrize("number", [11, 12, 13, 14])
def test_a_broken_runtime_is_refused_where_the_whole_one_is_not(desk: Desk, number: int) -> None:
    review = deepcopy(recorded.review(number))
    [job] = review["request"]["object"]["spec"]["template"]["spec"]["replicatedJobs"]
    job["replicas"] = 2
    for phase in PHASES:
        reply = desk.post(phase, review)
        assert reply.causes == [
            ("spec.template.spec.replicatedJobs[0].replicas", "FieldValueInvalid")
        ]


@pytest.mark.parametrize("number", CREATES)
def test_a_missing_runtime_refuses_already_the_mutating_call(number: int) -> None:
    reply = Desk.of().mutate(recorded.review(number))
    assert reply.causes == [("spec.runtimeRef.name", "FieldValueNotFound")]


@pytest.mark.parametrize("number", NUMBERS)
def test_the_log_knows_what_was_asked(desk: Desk, number: int) -> None:
    request = recorded.review(number)["request"]
    answer = desk.mutate(recorded.review(number)).answer
    assert answer.uid == request["uid"]
    assert answer.user == request["userInfo"]["username"]
    assert answer.kind == request["kind"]["kind"]
    assert answer.operation == request["operation"]
    assert answer.name == (request.get("name") or "mnist-")
    assert answer.decision == ("patched" if number in CREATES else "allowed")
