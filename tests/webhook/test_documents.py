"""Reviews of policies and exceptions, as bytes: what is refused with all its causes, what is said, what passes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from plugins.framework import lines
from plugins.framework.cluster import Snapshot
from policies.engine import Engine
from tests.builders import Json, make_runtime
from tests.reviews.desk import Reply, read, review
from webhook.assembly import build_pipeline
from webhook.review import Reviewer

NOW = datetime(2027, 1, 1, tzinfo=UTC)
RESOURCES = {
    "TrainJobPolicy": "trainjobpolicies",
    "NamespacedTrainJobPolicy": "namespacedtrainjobpolicies",
    "PolicyException": "policyexceptions",
}
NAMESPACE = "team-vision"
RUNTIME = make_runtime("torch-vision").torch().node()


@dataclass
class Cluster:
    """A Reviewer in a cluster that holds some objects."""

    objects: list[Json] = field(default_factory=list)
    line: str | None = "2.3"

    def reviewer(self) -> Reviewer:
        snapshot = Snapshot.of([RUNTIME.obj, *self.objects])
        return Reviewer(
            build_pipeline(None),
            lambda: snapshot,
            line=lines.LINES[self.line] if self.line else None,
            clock=time.monotonic,
            now=lambda: NOW,
        )

    def ask(self, obj: Json, old: Json | None = None, **changes: Any) -> Reply:
        asked = about(obj, old, **changes)
        call = self.reviewer().validate(orjson.dumps(asked), deadline=time.monotonic() + 30)
        return read("validate", asked, asyncio.run(call))


def about(obj: Json, old: Json | None = None, **changes: Any) -> Json:
    """The review of an object of ours."""
    kind = obj["kind"]
    operation = "CREATE" if old is None else "UPDATE"
    asked = review(obj, old, operation=operation, **changes)
    group = {"group": "stationmaster.dev", "version": "v1alpha1"}
    asked["request"] |= {
        "kind": {**group, "kind": kind},
        "resource": {**group, "resource": RESOURCES[kind]},
        "namespace": obj["metadata"].get("namespace", ""),
    }
    return asked


def document(kind: str, name: str, spec: Json, **metadata: Any) -> Json:
    namespaced = {} if kind == "TrainJobPolicy" else {"namespace": NAMESPACE}
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, **namespaced, **metadata},
        "spec": spec,
    }


def policy(name: str = "rules", **spec: Any) -> Json:
    return document("TrainJobPolicy", name, spec)


SOUND = policy(
    limits=[{"name": "nodes", "nodes": {"max": 4}}],
    exceptions={"rules": ["nodes"], "longest": "720h"},
)


def exception(name: str = "run", **spec: Any) -> Json:
    whole = {
        "policies": [{"name": "rules", "rules": ["nodes"]}],
        "match": {"names": ["a"]},
        "owner": "team",
        "reason": "a run",
        "expiresAt": "2027-01-02T00:00:00Z",
        **spec,
    }
    return document("PolicyException", name, whole, creationTimestamp="2027-01-01T00:00:00Z")


def test_a_sound_one_passes_without_a_word() -> None:
    reply = Cluster().ask(SOUND)

    assert (reply.allowed, reply.warnings) == (True, [])
    assert reply.answer.kind == "TrainJobPolicy"


def test_all_that_is_wrong_is_said_at_once_by_its_path() -> None:
    wrong = policy(
        limitz=[],
        limits=[{"name": "nodes", "nodes": {"max": "many"}}],
        validations=[{"name": "v"}],
    )

    reply = Cluster().ask(wrong)

    assert reply.status["code"] == 422
    assert reply.message.startswith('TrainJobPolicy "rules" is invalid:')
    assert {path for path, _ in reply.causes} == {
        "spec.limitz",
        "spec.limits[0].nodes.max",
        "spec.validations[0].expression",
    }


def test_expressions_are_compiled_and_a_misspelt_field_is_named_with_what_was_meant() -> None:
    wrong = policy(
        validations=[
            {"name": "a", "expression": "object.spec.trainer.numNode < 3"},
            {"name": "b", "expression": "1 +"},
            {"name": "c", "expression": "1"},
        ]
    )

    reply = Cluster().ask(wrong)

    assert [path for path, _ in reply.causes] == [
        f"spec.validations[{i}].expression" for i in range(3)
    ]
    assert 'has no field "numNode"' in reply.message
    assert "numNodes" in reply.message


def test_the_same_is_asked_of_namespaced_ones_and_of_exceptions() -> None:
    namespaced = document("NamespacedTrainJobPolicy", "own", {"overrides": {"suspend": True}})
    endless = exception(expiresAt=None)

    assert [path for path, _ in Cluster().ask(namespaced).causes] == ["spec.overrides"]
    assert [path for path, _ in Cluster().ask(endless).causes] == ["spec.expiresAt"]


BROKEN: Json = policy(validations=[{"name": "v", "expression": "nothing.there"}])

PASSING: dict[str, Callable[[], tuple[Json, Json | None, dict[str, Any]]]] = {
    "only metadata change": lambda: (
        {**BROKEN, "metadata": {"name": "rules", "labels": {"a": "b"}}},
        BROKEN,
        {},
    ),
    "only the status changes": lambda: ({**BROKEN, "status": {"counts": {}}}, BROKEN, {}),
    "it is being deleted": lambda: (
        {
            **BROKEN,
            "metadata": {"name": "rules", "deletionTimestamp": "2027-01-01T00:00:00Z"},
            "spec": {**BROKEN["spec"], "priority": 1},
        },
        BROKEN,
        {},
    ),
    "the status is written": lambda: (BROKEN, SOUND, {"subResource": "status"}),
}


@pytest.mark.parametrize("name", PASSING)
def test_a_stored_one_that_is_broken_is_let_be_where(name: str) -> None:
    obj, old, more = PASSING[name]()
    asked = about(obj, old)
    asked["request"] |= more
    call = Cluster().reviewer().validate(orjson.dumps(asked), deadline=time.monotonic() + 30)

    reply = read("validate", asked, asyncio.run(call))

    assert (reply.allowed, reply.warnings) == (True, [])


def test_a_deletion_passes() -> None:
    asked = about(BROKEN)
    asked["request"] |= {"operation": "DELETE", "object": None, "oldObject": BROKEN}
    call = Cluster().reviewer().validate(orjson.dumps(asked), deadline=time.monotonic() + 30)

    assert read("validate", asked, asyncio.run(call)).allowed


def test_a_change_of_the_spec_must_mend_it() -> None:
    worse = policy(validations=[{"name": "v", "expression": "nothing.else"}])

    assert not Cluster([BROKEN]).ask(worse, BROKEN).allowed
    assert Cluster([BROKEN]).ask(SOUND, BROKEN).allowed


def test_one_with_a_generated_name_is_judged_too() -> None:
    nameless = {**SOUND, "metadata": {"generateName": "rules-"}}

    assert Cluster().ask(nameless).allowed
    assert not Cluster().ask({**BROKEN, "metadata": {"generateName": "rules-"}}).allowed


# What is allowed, and seldom meant


def overrides(job: str) -> list[Json]:
    return [{"targetJobs": [{"name": job}], "spec": {"nodeSelector": {"pool": "h100"}}}]


TORCH = {"kind": "ClusterTrainingRuntime", "name": "torch-vision"}

SAID: dict[str, tuple[Json, str]] = {
    "a job that the named runtime lacks": (
        policy(
            match={"runtimes": [TORCH]},
            defaults={"podTemplateOverrides": overrides("worker")},
        ),
        "spec.defaults.podTemplateOverrides[0].targetJobs[0]",
    ),
    "a later stage that is stricter": (
        policy(
            limits=[{"name": "nodes", "nodes": {"max": 4}}],
            rollout=[{"percent": 10, "actions": ["Warn"]}],
        ),
        "spec.rollout[0] (Warn) is less strict than spec.actions (Deny)",
    ),
    "an exception for a policy that is not there": (
        exception(policies=[{"name": "rulez"}]),
        "spec.policies[0]: there is no TrainJobPolicy rulez",
    ),
    "an exception for a rule that is not offered": (
        exception(policies=[{"name": "rules", "rules": ["gpus"]}]),
        "spec.policies[0]: gpus: rules does not offer it to exceptions; it offers nodes",
    ),
    "an exception that is over": (
        exception(expiresAt="2026-12-31T00:00:00Z"),
        "spec.expiresAt: 2026-12-31T00:00:00Z is over: it loosens nothing",
    ),
    "an exception that ends before it says": (
        exception(expiresAt="2027-06-01T00:00:00Z"),
        "spec.policies[0]: ends at 2027-01-31T00:00:00Z already: rules offers no more",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_it_is_said(name: str) -> None:
    obj, said = SAID[name]

    reply = Cluster([SOUND]).ask(obj)

    assert reply.allowed, reply.message
    [warning] = [w for w in reply.warnings if w.startswith(said)]
    assert warning


def test_a_pattern_may_mean_a_runtime_of_tomorrow() -> None:
    obj = policy(
        match={"runtimes": [{"name": "torch-*"}]},
        defaults={"podTemplateOverrides": overrides("worker")},
    )

    assert Cluster().ask(obj).warnings == []


@pytest.mark.parametrize(("line", "is_said"), [("2.0", True), ("2.3", False), (None, False)])
def test_what_the_served_generation_has_no_words_for_is_said(
    line: str | None, is_said: bool
) -> None:
    obj = policy(defaults={"podTemplateOverrides": overrides("node")})

    reply = Cluster(line=line).ask(obj)

    assert reply.allowed
    assert bool(reply.warnings) is is_said
    assert all(
        "each job that this policy is about will be a fault of it" in w for w in reply.warnings
    )


# On the event loop


async def test_compiling_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    compiled = Engine.compiled

    def slow(*args: Any, **named: Any) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        assert release.wait(10)
        return compiled(*args, **named)

    monkeypatch.setattr(Engine, "compiled", staticmethod(slow))
    reviewer = Cluster().reviewer()
    asking = asyncio.create_task(call(reviewer, SOUND, 30.0))
    await asyncio.sleep(0.01)
    assert not asking.done()
    release.set()
    assert (await asking).allowed


async def test_one_that_takes_too_long_is_let_in_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Our kinds fail open; what was not judged here is judged when it is compiled to be in force."""
    release = threading.Event()
    monkeypatch.setattr(Engine, "compiled", staticmethod(lambda *_, **__: release.wait(10)))
    try:
        reply = await call(Cluster().reviewer(), SOUND, 0.05)
    finally:
        release.set()

    assert reply.allowed
    [warning] = reply.warnings
    assert "it took too long to compile; its condition Ready will say" in warning


async def call(reviewer: Reviewer, obj: Json, seconds: float) -> Reply:
    asked = about(obj)
    judging: Awaitable[Any] = reviewer.validate(
        orjson.dumps(asked), deadline=time.monotonic() + seconds
    )
    return read("validate", asked, await judging)
