"""What controllers send about a TrainJob (A.9), and jobs that are over: never refused and never changed.

Also not where the stored job breaks every rule that there is.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from plugins.framework.profile import CONTROLLERS
from tests.builders import Json, MakeRuntime, MakeTrainJob, job_patch, make_runtime, make_train_job
from tests.reviews import recorded
from tests.reviews.apiserver import (
    ApiServer,
    kueue_admits,
    kueue_creates,
    kueue_starts,
    with_status,
)
from tests.reviews.desk import (
    GARBAGE_COLLECTOR,
    KUEUE,
    NAMESPACE_CONTROLLER,
    PHASES,
    TRAINER,
    USER,
    Desk,
    create,
    delete,
    update,
)

BROKEN = (
    make_train_job("broken")
    .runtime("torch-distributed")
    .nodes(-1)
    .env("PET_NNODES", "1")
    .patch("no-domain", job_patch("nobody", pod={"nodeSelector": {"a": "1"}}))
    .suspended()
)
"""A job that no rule lets in, as it may be stored from before us."""


def whole() -> Json:
    """A job as we, the Trainer and Kueue stored it."""
    job = (
        make_train_job("whole")
        .runtime("torch-distributed")
        .label("kueue.x-k8s.io/queue-name", "lq")
        .patch("example.com/alice", job_patch("node", pod={"nodeSelector": {"disk": "ssd"}}))
        .resources({"cpu": 2}, {"cpu": 2})
    )
    return ApiServer(Desk.of(*recorded.cluster()), kueue=True).create(job.obj)


def broken() -> Json:
    """The broken job with Kueue's entry."""
    return kueue_creates(BROKEN.obj)


STORED: dict[str, Callable[[], Json]] = {"whole": whole, "broken": broken}


def _filled(old: Json) -> Json:
    return kueue_admits(old)


def _emptied(old: Json) -> Json:
    out = deepcopy(old)
    for entry in out["spec"]["runtimePatches"]:
        if entry["manager"].startswith("kueue"):
            entry["trainingRuntimeSpec"] = {"template": {"spec": {}}}
    return out


def _suspend(value: bool) -> Callable[[Json], Json]:
    def flip(old: Json) -> Json:
        out = deepcopy(old)
        out["spec"]["suspend"] = value
        return out

    return flip


def _finalizers(*left: str) -> Callable[[Json], Json]:
    def take(old: Json) -> Json:
        out = deepcopy(old)
        out["metadata"]["finalizers"] = list(left)
        return out

    return take


def _with_status(old: Json) -> Json:
    return with_status(old)


WRITES: dict[str, tuple[str, str, Callable[[Json], Json]]] = {
    "the Trainer writes the status": (TRAINER, "status", _with_status),
    "Kueue fills its entry in": (KUEUE, "", _filled),
    "Kueue empties its entry": (KUEUE, "", _emptied),
    "Kueue starts the job": (KUEUE, "", _suspend(value=False)),
    "Kueue stops the job": (KUEUE, "", _suspend(value=True)),
    "Kueue sends what is stored": (KUEUE, "", deepcopy),
    "the garbage collector takes its finalizer off": (GARBAGE_COLLECTOR, "", _finalizers()),
    "a user takes a finalizer off": (USER, "", _finalizers("acme.example/keep")),
    "a user resumes the job": (USER, "", _suspend(value=False)),
    "a user labels the job": (USER, "", lambda old: MakeTrainJob(old).label("a", "b").obj),
    "a user annotates the job": (USER, "", lambda old: MakeTrainJob(old).annotation("a", "b").obj),
}
CLUSTERS: dict[str, list[Any]] = {
    "with its runtime": recorded.cluster(),
    "without its runtime": [],
    "with another runtime of that name": [make_runtime("torch-distributed").mpi().job("x")],
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("state", STORED)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_it_passes_as_it_was_sent(write: str, state: str, cluster: str) -> None:
    user, subresource, change = WRITES[write]
    old = STORED[state]()
    old["metadata"]["finalizers"] = ["foregroundDeletion", "acme.example/keep"]
    desk = Desk.of(*CLUSTERS[cluster])
    for phase in PHASES:
        asked = update(old, change(old), user=user, subresource=subresource)
        reply = desk.post(phase, asked)
        assert (reply.allowed, reply.patch) == (True, None)


@pytest.mark.parametrize("state", STORED)
def test_a_foreground_deletion_comes_to_its_end_without_the_runtime(state: str) -> None:
    """The runtime is gone; the Trainer's own webhook refuses this for as long as it is (G5)."""
    old = STORED[state]()
    old["metadata"] |= {
        "finalizers": ["foregroundDeletion"],
        "deletionTimestamp": "2026-11-30T19:00:00Z",
        "deletionGracePeriodSeconds": 0,
    }
    new = deepcopy(old)
    new["metadata"]["finalizers"] = []
    desk = Desk.of()
    for user in (GARBAGE_COLLECTOR, USER):
        for phase in PHASES:
            reply = desk.post(phase, update(old, new, user=user))
            assert (reply.allowed, reply.patch, reply.warnings) == (True, None, [])


@pytest.mark.parametrize("user", [USER, NAMESPACE_CONTROLLER])
def test_deletions_pass_by_name_and_without(user: str) -> None:
    asked = delete(broken(), user=user)
    if user == NAMESPACE_CONTROLLER:
        del asked["request"]["name"]
    for phase in PHASES:
        reply = Desk.of().post(phase, asked)
        assert (reply.allowed, reply.patch, reply.warnings) == (True, None, [])


def _patched(old: Json) -> Json:
    selector = {"nodeSelector": {"zone": "z1"}}
    return MakeTrainJob(old).patch("z.example/m", job_patch("nobody", pod=selector)).obj


def _terminating(old: Json) -> Json:
    return MakeTrainJob(old).terminating().obj


ENDED: dict[str, Callable[[Json], Json]] = {
    "terminating": _terminating,
    "complete": lambda old: with_status(old, kind="Complete"),
    "failed": lambda old: with_status(old, kind="Failed"),
}


@pytest.mark.parametrize("end", ENDED)
@pytest.mark.parametrize("state", STORED)
def test_a_job_that_is_over_is_neither_judged_nor_changed(end: str, state: str) -> None:
    old = ENDED[end](STORED[state]())
    new = _patched(old)
    new["metadata"].pop("annotations", None)
    desk = Desk.of(*recorded.cluster())
    for phase in PHASES:
        reply = desk.post(phase, update(old, new))
        assert (reply.allowed, reply.patch, reply.warnings) == (True, None, [])


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_a_condition_that_is_false_ends_nothing(kind: str) -> None:
    old = with_status(whole(), kind=kind, status="False")
    reply = Desk.of(*recorded.cluster()).mutate(update(old, _patched(old)))
    assert not reply.allowed


@pytest.mark.parametrize("user", CONTROLLERS)
def test_exempt_users_may_write_anything(user: str) -> None:
    old = whole()
    new = _patched(old)
    new["metadata"].pop("annotations")
    desk = Desk.of(*recorded.cluster())
    for phase in PHASES:
        reply = desk.post(phase, update(old, new, user=user))
        assert (reply.allowed, reply.patch, reply.warnings) == (True, None, [])


def test_who_is_exempt_is_the_profiles_to_say() -> None:
    old = whole()
    asked = update(old, _patched(old), user="system:serviceaccount:acme:controller")
    cluster = recorded.cluster()
    assert not Desk.of(*cluster).mutate(asked).allowed
    own = {"exemptUsers": ["system:serviceaccount:acme:controller"]}
    assert Desk.of(*cluster, profile_document=own).mutate(asked).allowed
    kueues = update(old, _patched(old), user=KUEUE)
    assert not Desk.of(*cluster, profile_document=own).mutate(kueues).allowed


def test_nobody_is_exempt_from_the_rules_for_a_new_job() -> None:
    asked = update(BROKEN.obj, BROKEN.obj, user=KUEUE)
    asked["request"] |= {"operation": "CREATE", "oldObject": None}
    assert not Desk.of(*recorded.cluster()).mutate(asked).allowed


def test_kueues_entry_is_its_own_also_under_another_name() -> None:
    """Kueue may run in another namespace: an admission must not be undone as if it were a stale copy."""
    old = with_status(whole())
    new = kueue_starts(kueue_admits(old))
    asked = update(old, new, user="system:serviceaccount:kueue:kueue-controller")
    reply = Desk.of(*recorded.cluster()).mutate(asked)
    assert (reply.allowed, reply.patch) == (True, None)


@pytest.mark.parametrize("write", ["a user labels the job", "a user resumes the job"])
def test_what_changes_nothing_that_is_built_is_not_warned_of_again(write: str) -> None:
    runtime = make_runtime("warned").torch().node().coscheduling()
    desk = Desk.of(runtime)
    job = make_train_job().runtime("warned").suspended()
    stored = ApiServer(desk).create(job.obj)
    assert desk.validate(create(stored)).warnings
    _, _, change = WRITES[write]
    for phase in PHASES:
        assert desk.post(phase, update(stored, change(stored))).warnings == []


RUNTIMES: dict[str, MakeRuntime] = {
    "cluster": make_runtime("odd").torch().node(replicas=2),
    "namespaced": make_runtime("odd").torch().node(replicas=2).namespaced(),
}


@pytest.mark.parametrize("scope", RUNTIMES)
def test_a_broken_runtime_can_still_be_labelled_and_deleted(scope: str) -> None:
    old = RUNTIMES[scope].obj
    labelled = RUNTIMES[scope].label("a", "b").obj
    going = deepcopy(old)
    going["metadata"] |= {"deletionTimestamp": "2026-11-30T19:00:00Z", "finalizers": []}
    desk = Desk.of()
    for asked in (update(old, labelled), update(old, going), delete(old)):
        for phase in PHASES:
            assert desk.post(phase, asked).allowed


@pytest.mark.parametrize("scope", RUNTIMES)
def test_a_fault_that_a_runtime_had_before_does_not_refuse_its_update(scope: str) -> None:
    old = RUNTIMES[scope].obj
    new = RUNTIMES[scope].nodes(2).obj
    assert Desk.of().validate(update(old, new)).allowed
    worse = RUNTIMES[scope].nodes(0).obj
    assert Desk.of().validate(update(old, worse)).causes == [
        ("spec.mlPolicy.numNodes", "FieldValueInvalid")
    ]
