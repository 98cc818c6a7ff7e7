"""Reviews of PodGroups: whose they are, what is answered, and that no shape of theirs is too much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.framework import gang, lines, profile
from plugins.framework.errors import DeadlineExceeded
from tests.builders import Builder, Json, MakeRuntime, make_train_job
from tests.faults.kit import rt_mpi, rt_torch
from tests.folder import Folder
from tests.plugins.kit import stored, table
from tests.reviews import recorded
from tests.reviews.desk import TRAINER, Reply, pipeline_of, read, snapshot_of
from webhook import assembly, yamlio
from webhook.assembly import build_pipeline
from webhook.mode import Fixed, Mode
from webhook.podgroups import Documents, Owned, Owner, Unresolved, owner_of
from webhook.review import Phase, Reviewer, request_of

UID: Final = "85e50952-aebe-402f-a1c0-a6671fdf6811"
"""Of the TrainJob in the recorded review."""

VOLCANO: Final = {"group": "scheduling.volcano.sh", "version": "v1beta1", "resource": "podgroups"}
ENABLED: Final[Json] = {"plugins": {"multiPoint": {"enabled": [{"name": gang.CORRECTION}]}}}
RUNTIME: Final = rt_mpi()
JOB: Final = make_train_job("gang").runtime(RUNTIME.raw["metadata"]["name"]).nodes(3)
"""Two workers and a launcher; the runtime's own two nodes make it two launchers, as with the Trainer."""


def waiting() -> MakeRuntime:
    """As it is shipped: the launcher waits for the workers."""
    runtime = rt_mpi("node")
    containers = [{"name": "node", "image": "example.com/mpi:1"}]
    return runtime.job("launcher", "trainer", containers=containers, depends_on={"node": "Ready"})


def job(**metadata: Any) -> Json:
    raw = stored(JOB)
    raw["metadata"] |= {"name": "gang", "namespace": "team", "uid": UID, **metadata}
    return raw


def review(**changes: Any) -> Json:
    """The recorded review, with other keys in its request."""
    found = deepcopy(recorded.review(15))
    found["request"] |= changes
    return found


def edited(*edits: Callable[[Json], object], **changes: Any) -> Json:
    """The recorded review, with another PodGroup."""
    found = review(**changes)
    for edit in edits:
        edit(found["request"]["object"])
    return found


class Fails:
    """Has no answer."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def owned(self, ctx: object, owner: Owner) -> Owned:
        del ctx, owner
        await asyncio.sleep(0)
        raise self._error


@dataclass
class Desk:
    """A Reviewer with a folder's TrainJobs."""

    reviewer: Reviewer

    @classmethod
    def of(
        cls,
        *objects: Builder | Json,
        profile_document: Json | None = ENABLED,
        line: str | None = "2.3",
        error: Exception | None = None,
        mode: Mode = "enforce",
    ) -> Desk:
        raw = [o.obj if isinstance(o, Builder) else o for o in objects]
        chosen = lines.named(line)
        return cls(
            Reviewer(
                pipeline_of(profile_document),
                lambda: snapshot_of(*raw),
                line=chosen,
                clock=lambda: 0.0,
                owners=Fails(error) if error else Documents(raw, chosen),
                switch=Fixed(mode),
            )
        )

    def ask(self, asked: Json, phase: Phase = "mutate") -> Reply:
        reviewer = self.reviewer
        call = reviewer.mutate if phase == "mutate" else reviewer.validate
        return read(phase, asked, asyncio.run(call(orjson.dumps(asked), deadline=1.0)))


DESK: Final = Desk.of(waiting(), job())
WANTED: Final = {"minMember": 2, "minResources": {}, "scheduleTimeoutSeconds": 120}


# What is answered


def test_what_the_trainer_makes_is_corrected() -> None:
    reply = DESK.ask(review())
    assert (reply.warnings, reply.answer.decision) == ([], "patched")
    assert reply.after["spec"] == WANTED


def test_volcanos_is_corrected_alike() -> None:
    asked = edited(lambda o: o.update(apiVersion="scheduling.volcano.sh/v1beta1"), resource=VOLCANO)
    assert DESK.ask(asked).after["spec"] == WANTED


def test_the_mutating_call_alone_corrects() -> None:
    reply = DESK.ask(review(), "validate")
    assert (reply.patch, reply.warnings, reply.answer.decision) == (None, [], "allowed")


def test_the_answer_is_a_fixed_point() -> None:
    after = DESK.ask(review()).after
    assert DESK.ask(review(object=after)).patch is None


def test_what_the_trainer_applies_again_ends_as_it_is_stored() -> None:
    """The API server sees the stored object come out of the webhook, and writes nothing."""
    after = DESK.ask(review()).after
    again = review(object=recorded.review(15)["request"]["object"], operation="UPDATE")
    again["request"]["oldObject"] = after
    assert DESK.ask(again).after == after


def test_what_was_stored_before_us_is_corrected_when_the_trainer_applies_it_again() -> None:
    old = recorded.review(15)["request"]["object"]
    assert DESK.ask(review(operation="UPDATE", oldObject=old)).after["spec"] == WANTED


def test_the_line_is_the_jobs_own_where_nobody_says_which() -> None:
    """A PodGroup has no fields to tell it by."""
    old = job()
    old["spec"]["podSpecOverrides"] = [{"targetJobs": [{"name": "node"}], "nodeSelector": {}}]
    desk = Desk.of(waiting(), old, line=None)
    assert desk.ask(review()).after["spec"] == WANTED


def test_in_warn_mode_it_is_only_said() -> None:
    reply = Desk.of(waiting(), job(), mode="warn").ask(review())
    assert reply.patch is None
    assert any("would write spec.minMember" in text for text in reply.warnings)


def test_switched_off_nobody_is_asked() -> None:
    desk = Desk.of(waiting(), mode="off", error=AssertionError("nobody is to be asked"))
    reply = desk.ask(review())
    assert (reply.patch, reply.warnings) == (None, [])


# Whose they are


@dataclass(frozen=True)
class Other:
    """A review that has nothing to correct."""

    asked: Json


def owner(**fields: Any) -> Callable[[Json], object]:
    return lambda o: o["metadata"]["ownerReferences"][0].update(fields)


def metadata(**fields: Any) -> Callable[[Json], object]:
    return lambda o: o["metadata"].update(fields)


OBJECT: Final = recorded.review(15)["request"]["object"]
LABELLED: Final = {**OBJECT, "metadata": {**OBJECT["metadata"], "labels": {"a": "b"}}}
BY_ALICE: Final[Json] = {"options": {"fieldManager": "kubectl-label"}}

OTHERS: Final = {
    "nobody owns it": Other(edited(metadata(ownerReferences=[]))),
    "owners are missing": Other(edited(lambda o: o["metadata"].pop("ownerReferences"))),
    "the owner does not control it": Other(edited(owner(controller=False))),
    "a JobSet owns it": Other(edited(owner(kind="JobSet", apiVersion="jobset.x-k8s.io/v1alpha2"))),
    "a TrainJob of another group owns it": Other(edited(owner(apiVersion="example.com/v1"))),
    "it has another name": Other(edited(metadata(name="gang-of-workers"))),
    "it is being deleted": Other(edited(metadata(deletionTimestamp="2026-11-30T00:00:00Z"))),
    "its status": Other(review(subResource="status")),
    "it is deleted": Other(review(operation="DELETE", object=None, oldObject=OBJECT)),
    "somebody labels it": Other(
        review(operation="UPDATE", object=LABELLED, oldObject=OBJECT, **BY_ALICE)
    ),
    "Kubernetes' own, which has no totals": Other(
        review(resource={"group": "scheduling.k8s.io", "version": "v1", "resource": "podgroups"})
    ),
    "a queue of the same group": Other(review(resource={**VOLCANO, "resource": "queues"})),
}


@table(OTHERS)
def test_it_is_let_be(case: Other) -> None:
    desk = Desk.of(waiting(), error=AssertionError("nobody is to be asked"))
    reply = desk.ask(case.asked)
    assert (reply.patch, reply.warnings, reply.answer.decision) == (None, [], "allowed")


def test_whoever_changes_a_count_is_corrected() -> None:
    changed = deepcopy(DESK.ask(review()).after)
    changed["spec"]["minMember"] = 1
    asked = review(operation="UPDATE", object=changed, oldObject=DESK.ask(review()).after)
    assert DESK.ask({**asked, "request": {**asked["request"], **BY_ALICE}}).after["spec"] == WANTED


def test_without_the_plugin_nothing_is_corrected() -> None:
    assert Desk.of(waiting(), job(), profile_document=None).ask(review()).patch is None


# Where there is no TrainJob to go by


@dataclass(frozen=True)
class Lost:
    """Who is asked, and what is said."""

    desk: Desk
    says: str


MISSHAPEN: Final = job()
MISSHAPEN["spec"]["trainer"] = ["numNodes"]

LOST: Final = {
    "it is not there": Lost(Desk.of(waiting()), "TrainJob gang is not in the folder"),
    "it is in another namespace": Lost(
        Desk.of(waiting(), job(namespace="other")), "TrainJob gang is not in the folder"
    ),
    "it is another of that name": Lost(
        Desk.of(waiting(), job(uid="u-2")), f'TrainJob gang is "u-2", not "{UID}"'
    ),
    "it is none": Lost(Desk.of(waiting(), MISSHAPEN), "TrainJob gang is none of Trainer 2.3"),
    "its runtime is not there": Lost(
        Desk.of(job()), "the runtime base-mpi of its TrainJob does not exist"
    ),
    "it cannot be read": Lost(
        Desk.of(waiting(), error=Unresolved("TrainJob gang cannot be read: no answer in time")),
        "could not judge this object and lets it pass: TrainJob gang cannot be read: no answer in time",
    ),
    "the time is used up": Lost(
        Desk.of(waiting(), error=DeadlineExceeded("the time is used up")), "the time is used up"
    ),
    "we fail": Lost(Desk.of(waiting(), error=KeyError("secret")), "an internal fault (KeyError)"),
}


@table(LOST)
def test_it_is_let_in_as_it_is_with_a_warning(case: Lost) -> None:
    reply = case.desk.ask(review(userInfo={"username": TRAINER}))
    assert (reply.allowed, reply.patch) == (True, None)
    [text] = reply.warnings
    assert case.says in text


def test_a_manifest_without_a_uid_is_the_one_that_is_meant() -> None:
    raw = job()
    del raw["metadata"]["uid"]
    assert Desk.of(waiting(), raw).ask(review()).after["spec"] == WANTED


def test_a_manifest_has_the_defaults_of_the_api_server() -> None:
    raw = job()
    raw["spec"]["runtimeRef"] = {"name": "base-mpi"}
    assert Desk.of(waiting(), raw).ask(review()).after["spec"] == WANTED


# Any shape

VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
PLACES: Final = (
    ("object",),
    ("oldObject",),
    ("options",),
    ("userInfo",),
    ("namespace",),
    ("object", "metadata"),
    ("object", "metadata", "name"),
    ("object", "metadata", "ownerReferences"),
    ("object", "spec"),
    ("object", "spec", "minMember"),
    ("object", "spec", "minResources"),
    ("object", "spec", "minResources", "cpu"),
)


@settings(max_examples=150)
@given(place=st.sampled_from(PLACES), value=VALUES, operation=st.sampled_from(["CREATE", "UPDATE"]))
def test_any_shape_is_answered_and_never_refused(
    place: tuple[str, ...], value: Any, operation: str
) -> None:
    asked = review(operation=operation)
    node = asked["request"]
    for step in place[:-1]:
        node = node[step]
    node[place[-1]] = value
    reply = DESK.ask(asked)
    assert reply.allowed
    if reply.patch is not None:
        assert DESK.ask(review(object=reply.after)).patch is None


@given(value=VALUES, key=st.sampled_from(["apiVersion", "kind", "name", "uid", "controller"]))
@settings(max_examples=60)
def test_any_owner_is_somebody_or_nobody(value: Any, key: str) -> None:
    asked = edited(owner(**{key: value}))
    found = owner_of(request_of(asked))
    assert found is None or found.name == "gang"
    assert DESK.ask(asked).allowed


# On the command line


def test_a_review_of_a_podgroup_is_answered_from_the_folder() -> None:
    outcome = Folder.of(waiting(), job(), pod_groups=True).admit(review())
    assert (outcome.kind, outcome.name, outcome.allowed) == ("PodGroup", "gang", True)
    assert outcome.after is not None
    assert outcome.after["spec"] == WANTED
    assert {change.by for change in outcome.changes} == {gang.CORRECTION}


def test_it_is_answered_unchanged_without_the_option() -> None:
    outcome = Folder.of(waiting(), job()).admit(review())
    assert (outcome.allowed, outcome.patch, outcome.findings.warnings) == (True, [], [])


def test_render_shows_the_controllers_and_says_what_becomes_of_it() -> None:
    rendered = Folder.of(waiting().coscheduling(), pod_groups=True).render(JOB)
    [group] = [o for o in rendered.objects if o["kind"] == "PodGroup"]
    assert group["spec"]["minMember"] == 4
    said = "asks for 4 members and no resources; it is corrected to 2 members and no resources"
    assert sum(said in text for text in rendered.findings.warnings) == 1
    assert not any("at most" in text for text in rendered.findings.warnings)


def test_render_says_nothing_of_a_gang_that_is_right() -> None:
    runtime = rt_mpi("node").coscheduling()
    rendered = Folder.of(runtime, pod_groups=True).render(JOB)
    assert not any("corrected" in text for text in rendered.findings.warnings)


def test_render_says_why_a_gang_stays_as_it_is() -> None:
    runtime = rt_torch().coscheduling()
    rendered = Folder.of(runtime, pod_groups=True).render(
        make_train_job().runtime("base-torch").nodes(0)
    )
    assert any("a gang of 0 pods cannot be asked for" in w for w in rendered.findings.warnings)


# Put together


def test_the_option_and_a_profile_that_enables_it_come_to_the_same(tmp_path: Path) -> None:
    whole = {"apiVersion": profile.API_VERSION, "kind": profile.KIND, **ENABLED}
    file = tmp_path / "profile.yaml"
    file.write_text(yamlio.dump(whole), encoding="utf-8")
    orders = [
        list(build_pipeline(path, pod_groups=given).plugins)
        for path, given in ((file, True), (file, False), (None, True))
    ]
    assert orders == [[*assembly.names(), gang.CORRECTION]] * 3
    assert gang.CORRECTION not in build_pipeline(None).plugins
