"""Known faults of the admission protocol: B098 to B110."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tests.builders import MakeTrainJob, make_runtime
from tests.faults.kit import p, rt_torch, tj
from tests.reviews.apiserver import ApiServer, with_status
from tests.reviews.desk import (
    GARBAGE_COLLECTOR,
    ONE_WARNING,
    PHASES,
    WHOLE_BUDGET,
    Desk,
    create,
    delete,
    review,
    update,
)
from webhook.review import Phase

BAD = tj(rt_torch()).nodes(-1)
"""What no rule would let in."""


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
@pytest.mark.parametrize("old", [None, "set", "absent"])
@pytest.mark.parametrize("phase", PHASES)
def test_b098_what_has_no_object_is_allowed(operation: str, old: str | None, phase: Phase) -> None:
    asked = review(None, BAD.obj if old == "set" else None, operation=operation, name="demo")
    if old == "absent":
        del asked["request"]["object"], asked["request"]["oldObject"]
    reply = Desk.of(rt_torch()).post(phase, asked)
    assert (reply.allowed, reply.warnings) == (True, [])


def test_b098_a_deleted_object_is_named_by_what_was_stored() -> None:
    asked = delete(BAD.obj)
    del asked["request"]["name"]
    assert Desk.of(rt_torch()).mutate(asked).answer.name == "demo"


@pytest.mark.parametrize("user", ["alice@example.com", GARBAGE_COLLECTOR])
def test_b101_a_finalizer_may_always_be_taken_off(user: str) -> None:
    old = BAD.field(["a.example/f", "b.example/f"], "metadata", "finalizers").obj
    new = deepcopy(old)
    new["metadata"]["finalizers"] = ["a.example/f"]
    desk = Desk.of(rt_torch())
    for phase in PHASES:
        reply = desk.post(phase, update(old, new, user=user))
        assert (reply.allowed, reply.patch) == (True, None)


def test_b101_the_field_that_breaks_the_rule_may_not_be_made_worse() -> None:
    old = p(tj(rt_torch()), "q.example/m", "nodee", {"nodeSelector": {"a": "1"}}).obj
    desk = Desk.of(rt_torch())
    relabelled = MakeTrainJob(old).label("a", "b").obj
    assert desk.validate(update(old, relabelled)).allowed
    more = p(MakeTrainJob(old), "r.example/m", "nod", {"nodeSelector": {"a": "1"}}).obj
    reply = desk.validate(update(old, more))
    [(path, _)] = reply.causes
    assert path.startswith("spec.runtimePatches[1]."), "the stored one is let be"


def test_b103_a_generated_name_is_shown_by_its_prefix() -> None:
    job = BAD.without("metadata", "name").field("nightly-", "metadata", "generateName")
    reply = Desk.of(rt_torch()).mutate(create(job.obj))
    assert reply.message.startswith('TrainJob "nightly-" is invalid: ')
    assert reply.status["details"]["name"] == "nightly-"
    good = job.nodes(1)
    assert Desk.of(rt_torch()).mutate(create(good.obj)).allowed


def test_b103_the_suffix_counts_for_the_length() -> None:
    prefix = "a" * 43 + "-"
    job = tj(rt_torch()).without("metadata", "name").field(prefix, "metadata", "generateName")
    reply = Desk.of(rt_torch()).mutate(create(job.obj))
    assert reply.causes == [("metadata.name", "FieldValueTooLong")]


@pytest.mark.parametrize("subresource", ["status", "scale"])
@pytest.mark.parametrize("phase", PHASES)
def test_b105_subresources_are_somebody_elses(subresource: str, phase: Phase) -> None:
    new = with_status(BAD.obj)
    reply = Desk.of(rt_torch()).post(phase, update(BAD.obj, new, subresource=subresource))
    assert (reply.allowed, reply.patch, reply.warnings) == (True, None, [])


def test_b107_a_dry_run_is_answered_as_the_real_one_and_leaves_nothing() -> None:
    desk = Desk.of(rt_torch())
    obj = tj(rt_torch()).obj
    dry = desk.mutate(create(obj, dryRun=True))
    real = desk.mutate(create(obj))
    assert dry.patch == real.patch
    assert dry.warnings == real.warnings
    assert (dry.answer.dry_run, real.answer.dry_run) == (True, False)
    again = Desk.of(rt_torch()).mutate(create(obj))
    assert again.patch == real.patch


def test_b108_more_warnings_than_fit_are_counted() -> None:
    """Each has at most 256 characters, all of them 4,096, and the last says how many are missing."""
    long = "m" * 80
    job = tj(rt_torch())
    for i in range(11):
        # Each manager disagrees with the one before it in four keys.
        selector = {key: str(i) for key in "abcd"}
        job = p(job, f"{i:02}.example/{long}", "node", {"nodeSelector": selector})
    reply = Desk.of(rt_torch()).mutate(create(job.obj))
    *shown, last = reply.warnings
    assert {len(w) for w in shown} == {154}, (
        "long names are shortened, so that the key is still there"
    )
    assert len(shown) == (WHOLE_BUDGET - ONE_WARNING) // 154
    assert last == f"{40 - len(shown)} more warnings were left out"


def test_b108_what_refuses_is_not_cut() -> None:
    job = tj(rt_torch())
    for i in range(40):
        job = job.env(f"PET_NNODES{i}", "1").env("PET_NNODES", "x" * 300)
    reply = Desk.of(rt_torch()).mutate(create(job.obj))
    assert len(reply.causes) == 40
    assert reply.message.count("\n* ") == 40


def test_b110_a_review_of_two_megabytes_is_answered() -> None:
    runtime = make_runtime("base-torch").torch().node()
    server = ApiServer(Desk.of(runtime))
    long = [f"{i:03}" + "x" * 8000 for i in range(120)]
    stored = server.create(tj(runtime).args(*long).obj)
    new = deepcopy(stored)
    new["spec"]["suspend"] = False
    assert server.update(stored, new)["spec"]["trainer"]["args"] == long
