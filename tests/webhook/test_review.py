"""The contract of ``admission.k8s.io/v1`` beyond what each answer is held to in ``tests/reviews/desk.py``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec
import orjson
import pytest

from plugins.framework import field, lines, profile
from plugins.framework.api.admission import AdmissionRequest
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.cluster import Snapshot
from plugins.framework.context import Context
from plugins.framework.draft import Draft
from plugins.framework.errors import BadReview
from plugins.framework.field import FieldError, Findings, Path
from plugins.framework.info import Info
from plugins.framework.interface import (
    CustomValidationPlugin,
    DefaultTrainJobPlugin,
    EnforceMLPolicyPlugin,
    ReconcileUpdatePlugin,
    RecordResolutionPlugin,
    ValidateRuntimePlugin,
)
from plugins.framework.pipeline import Pipeline, Result
from plugins.framework.registry import PluginSpec, Registry
from plugins.framework.runtime import CompiledRuntime
from plugins.registry import in_tree
from tests.builders import Json, job_patch, make_runtime, make_train_job
from tests.reviews import samples
from tests.reviews.desk import PHASES, Desk, create, delete, review, update
from webhook.review import (
    MOST_CAUSES,
    Phase,
    Reviewer,
    Verdict,
    decode,
    fit_warnings,
    request_of,
    review_of,
    status_of,
)

RUNTIME = make_runtime().torch().node()
JOB = make_train_job()


# What is asked


def test_a_request_is_read_field_by_field() -> None:
    asked = review(
        samples.stored(JOB),
        samples.stored(JOB.label("a", "b")),
        user="bob",
        subresource="status",
        dryRun=True,
        options={"fieldManager": "kubectl"},
    )
    asked["request"]["userInfo"] |= {"uid": "7", "groups": ["g", 1], "extra": {"k": ["v"]}}
    request = decode(orjson.dumps(asked))
    assert request.uid == asked["request"]["uid"]
    assert (request.group, request.resource, request.kind) == (
        "trainer.kubeflow.org",
        "trainjobs",
        "TrainJob",
    )
    assert (request.operation, request.subresource) == ("UPDATE", "status")
    assert (request.namespace, request.name) == ("team", "test-job")
    assert request.dry_run is True
    assert request.options == {"fieldManager": "kubectl"}
    user = request.user
    assert (user.username, user.uid, user.groups, user.extra) == ("bob", "7", ("g",), {"k": ["v"]})
    assert request.object == asked["request"]["object"]
    assert request.old_object == asked["request"]["oldObject"]


NAMES: dict[str, tuple[Json, str]] = {
    "the request's own": ({"name": "a", "object": {"metadata": {"name": "b"}}}, "a"),
    "the object's": ({"object": {"metadata": {"name": "b"}}}, "b"),
    "its prefix": ({"object": {"metadata": {"generateName": "b-"}}}, "b-"),
    "the old object's": ({"object": None, "oldObject": {"metadata": {"name": "c"}}}, "c"),
    "none": ({"object": {"metadata": []}}, ""),
}


@pytest.mark.parametrize(("parts", "name"), NAMES.values(), ids=NAMES)
def test_the_name_comes_from(parts: Json, name: str) -> None:
    asked = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
    assert request_of({**asked, "request": {"uid": "u", **parts}}).name == name


@pytest.mark.parametrize("kind", [None, "", 7, {}, {"kind": ["x"]}])
def test_a_kind_that_is_none_is_taken_from_the_resource(kind: Any) -> None:
    asked = create(JOB.nodes(-1).obj)
    asked["request"]["kind"] = kind
    assert Desk.of(RUNTIME).mutate(asked).message.startswith('TrainJob "test-job" is invalid')


def test_what_is_no_review_names_what_is_missing() -> None:
    with pytest.raises(BadReview, match="must be an admission"):
        request_of({"kind": "Pod"})
    good = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
    with pytest.raises(BadReview, match="has no request"):
        request_of(good)
    with pytest.raises(BadReview, match="has no uid"):
        request_of({**good, "request": {}})


FOREIGN: dict[str, Callable[[Json], Any]] = {
    "another group": lambda r: r["resource"].update(group="example.com"),
    "another resource": lambda r: r["resource"].update(resource="pods"),
    "a resource that is none": lambda r: r.update(resource=None),
    "another operation": lambda r: r.update(operation="CONNECT"),
    "an operation that is none": lambda r: r.update(operation=["CREATE"]),
    "a subresource": lambda r: r.update(subResource="status"),
    "no object": lambda r: r.update(object=None),
    "an object that is none": lambda r: r.update(object=["a"]),
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("phase", PHASES)
def test_what_is_not_for_us_is_allowed_as_it_is(change: Any, phase: Phase) -> None:
    asked = create(JOB.nodes(-1).obj)
    change(asked["request"])
    reply = Desk.of(RUNTIME).post(phase, asked)
    assert (reply.allowed, reply.patch, reply.warnings) == (True, None, [])


def test_an_object_that_the_api_server_never_sends_to_be_validated_is_refused() -> None:
    """It has not met the schema; where a plugin stumbles over it, the schema says why."""
    asked = create(JOB.patch("a.example/m").field(["x"], "spec", "runtimePatches").obj)
    asked["request"]["object"]["spec"]["runtimePatches"] = [
        {
            "manager": "a.example/m",
            "trainingRuntimeSpec": {
                "template": {"spec": {"replicatedJobs": [{"name": {"a": 1}, "template": []}]}}
            },
        }
    ]
    reply = Desk.of(RUNTIME).validate(asked)
    assert not reply.allowed
    assert all("replicatedJobs[0]" in path for path, _ in reply.causes)


# What goes back


def errors_of(*paths: str, origin: str = "") -> list[FieldError]:
    """Findings at these paths."""
    found = [field.invalid(Path(*path.split(".")), 0, "must be more") for path in paths]
    return [replace(error, origin=origin) for error in found]


ASKED = AdmissionRequest(
    uid="u",
    operation="CREATE",
    group="trainer.kubeflow.org",
    resource="trainjobs",
    kind="TrainJob",
    name="j1",
)


def test_one_finding_is_one_line() -> None:
    status = status_of(ASKED, errors_of("spec.a"))
    assert status == {
        "status": "Failure",
        "reason": "Invalid",
        "code": 422,
        "message": 'TrainJob "j1" is invalid: spec.a: Invalid value: 0: must be more',
        "details": {
            "kind": "TrainJob",
            "group": "trainer.kubeflow.org",
            "name": "j1",
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "message": "Invalid value: 0: must be more",
                    "field": "spec.a",
                }
            ],
        },
    }


def test_several_findings_are_a_line_each() -> None:
    message = status_of(ASKED, errors_of("spec.a", "spec.b"))["message"]
    assert message.split("\n") == [
        'TrainJob "j1" is invalid: ',
        "* spec.a: Invalid value: 0: must be more",
        "* spec.b: Invalid value: 0: must be more",
    ]


def test_findings_of_policies_alone_are_forbidden() -> None:
    status = status_of(ASKED, errors_of("spec.a", "spec.b", origin="acme/limits"))
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].split("\n") == [
        "spec.a: [acme/limits] Invalid value: 0: must be more",
        "spec.b: [acme/limits] Invalid value: 0: must be more",
    ]


def test_a_policys_finding_among_others_names_the_policy() -> None:
    mixed = errors_of("spec.a") + errors_of("spec.b", origin="acme/limits")
    status = status_of(ASKED, mixed)
    assert status["code"] == 422
    assert status["details"]["causes"][1]["message"].startswith("[acme/limits] ")


def test_an_object_without_a_name_is_called_by_its_kind() -> None:
    status = status_of(msgspec.structs.replace(ASKED, name=""), errors_of("spec.a"))
    assert status["message"].startswith("TrainJob is invalid: spec.a")
    assert "name" not in status["details"]


def test_more_findings_than_anybody_reads_are_counted() -> None:
    status = status_of(ASKED, errors_of(*(f"spec.f{i}" for i in range(MOST_CAUSES + 7))))
    assert len(status["details"]["causes"]) == MOST_CAUSES
    assert status["message"].endswith("\n* and 7 more")


@pytest.mark.parametrize("phase", PHASES)
def test_the_answer_has_nothing_to_spare(phase: Phase) -> None:
    response = Desk.of(RUNTIME).post(phase, delete(JOB.obj)).response
    assert response.keys() == {"uid", "allowed"}


def test_a_refusal_carries_warnings_and_no_patch() -> None:
    findings = Findings(errors=errors_of("spec.a"), warnings=["careful"])
    result = Result(findings=findings, patch=[{"op": "remove", "path": "/spec/a"}])
    response = review_of(Verdict(request=ASKED, result=result))["response"]
    assert response.keys() == {"uid", "allowed", "status", "warnings"}


LONG = [f"{i:02}" + "x" * 254 for i in range(20)]
WARNINGS: dict[str, tuple[list[str], list[str]]] = {
    "none": ([], []),
    "as they are": (["a", "b"], ["a", "b"]),
    "other letters stay": (["größer \u2265 1"], ["größer \u2265 1"]),
    "a line break would lose it": (["a\nb\x1b[0m"], ["a\\u000ab\\u001b[0m"]),
    "a long one is cut": (["x" * 300], ["x" * 253 + "..."]),
    "256 characters are not": (["x" * 256], ["x" * 256]),
    "what does not fit is counted": (LONG, [*LONG[:15], "5 more warnings were left out"]),
    "the last word fits too": (LONG[:15], LONG[:15]),
    "what is the same once it is cut is said once": (
        ["x" * 300 + "a", "x" * 300 + "b"],
        ["x" * 253 + "..."],
    ),
}


@pytest.mark.parametrize(("said", "shown"), WARNINGS.values(), ids=WARNINGS)
def test_warnings(said: list[str], shown: list[str]) -> None:
    assert fit_warnings(said) == shown
    assert sum(map(len, shown)) <= 4096


# Faults of ours


@dataclass
class Counter:
    """Remembers what was counted."""

    seen: list[tuple[str, str]]

    def fault(self, plugin: str, point: str) -> None:
        self.seen.append((plugin, point))


SECRET = "hunter2"  # stands for whatever a message may hold


class _Breaks:
    """Fails with a user's value in its message."""

    name: ClassVar[str] = "Breaks"

    def _fail(self, *_: Any) -> Any:
        raise RuntimeError(SECRET)


class BreaksDefault(_Breaks, DefaultTrainJobPlugin):
    def default_train_job(self, ctx: Context, draft: Draft) -> None:
        draft.set(Path("spec", "half"), "done")
        self._fail(ctx)


class BreaksRecord(_Breaks, RecordResolutionPlugin):
    def record_resolution(self, ctx: Context, draft: Draft) -> None:
        self._fail(ctx, draft)


class BreaksEnforce(_Breaks, EnforceMLPolicyPlugin):
    def enforce_ml_policy(self, ctx: Context, info: Info) -> None:
        self._fail(ctx, info)


class BreaksValidate(_Breaks, CustomValidationPlugin):
    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        found: Findings = self._fail(ctx, info, old, new)
        return found


class BreaksUpdate(_Breaks, ReconcileUpdatePlugin):
    def reconcile_update(self, ctx: Context, draft: Draft, old: TrainJob) -> None:
        self._fail(ctx, draft, old)


class BreaksRuntime(_Breaks, ValidateRuntimePlugin):
    def validate_runtime(
        self, ctx: Context, old: CompiledRuntime | None, new: CompiledRuntime
    ) -> Findings:
        found: Findings = self._fail(ctx, old, new)
        return found


def with_plugin(plugin: Any, on_fault: str = "Warn") -> tuple[Desk, Counter]:
    """A desk whose profile runs one more plugin, behind all others."""
    specs = (*in_tree(), PluginSpec(name=plugin.name, build=lambda _args, _handle: plugin()))
    document = {
        "apiVersion": profile.API_VERSION,
        "kind": profile.KIND,
        "plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}},
        "pluginConfig": [{"name": plugin.name, "onFault": on_fault}],
    }
    counter = Counter([])
    chosen = profile.decode(document, [spec.name for spec in specs])
    return replace(Desk.of(RUNTIME), pipeline=Pipeline(Registry(specs), chosen, counter)), counter


STORED = samples.stored(JOB)
WAITING = samples.stored(JOB.suspended())
PATCHED = samples.stored(
    JOB.suspended().patch("a.example/m", job_patch("node", pod={"nodeSelector": {"a": "1"}}))
)
BREAKS: list[tuple[type[_Breaks], Phase, Json, str]] = [
    (BreaksDefault, "mutate", create(STORED), "default_train_job"),
    (BreaksRecord, "mutate", create(STORED), "record_resolution"),
    (BreaksEnforce, "mutate", create(STORED), "enforce_ml_policy"),
    (BreaksEnforce, "validate", create(STORED), "enforce_ml_policy"),
    (BreaksValidate, "mutate", create(STORED), "validate"),
    (BreaksValidate, "validate", create(STORED), "validate"),
    (BreaksUpdate, "mutate", update(WAITING, PATCHED), "reconcile_update"),
    (BreaksRuntime, "mutate", create(samples.stored(RUNTIME)), "validate_runtime"),
    (BreaksRuntime, "validate", create(samples.stored(RUNTIME)), "validate_runtime"),
]
IDS = [f"{plugin.__name__}-{phase}" for plugin, phase, _, _ in BREAKS]


@pytest.mark.parametrize(("plugin", "phase", "asked", "point"), BREAKS, ids=IDS)
def test_a_plugin_that_fails_is_named_counted_and_takes_nobody_down(
    plugin: type[_Breaks], phase: Phase, asked: Json, point: str
) -> None:
    desk, counter = with_plugin(plugin)
    reply = desk.post(phase, asked)
    assert counter.seen[0] == ("Breaks", point)
    assert (reply.allowed, reply.patch) == (True, None), "half a mutation is none"
    assert any(f"plugin Breaks failed in {point}: RuntimeError" in w for w in reply.warnings)
    assert SECRET not in reply.answer.body.decode()


@pytest.mark.parametrize(("plugin", "phase", "asked", "point"), BREAKS, ids=IDS)
def test_a_profile_may_refuse_what_a_plugin_could_not_judge(
    plugin: type[_Breaks], phase: Phase, asked: Json, point: str
) -> None:
    desk, _ = with_plugin(plugin, on_fault="Refuse")
    reply = desk.post(phase, asked)
    assert not reply.allowed
    assert ("", "InternalError") in reply.causes
    assert f"plugin Breaks failed in {point}" in reply.message


@pytest.mark.parametrize("phase", PHASES)
def test_what_cannot_be_judged_in_time_passes_and_is_told(phase: Phase) -> None:
    desk = Desk.of(RUNTIME)
    desk.clock[0] = 10.0
    reply = desk.post(phase, create(STORED), deadline=9.0)
    assert (reply.allowed, reply.patch) == (True, None)
    assert reply.answer.decision == "error"
    [warning] = reply.warnings
    assert warning.startswith(
        "Stationmaster could not judge this object and lets it pass: the time"
    )


@pytest.mark.parametrize("phase", PHASES)
def test_a_source_that_fails_is_answered(phase: Phase) -> None:
    def broken() -> Snapshot:
        raise KeyError(SECRET)

    desk = Desk.of(RUNTIME)
    reviewer = Reviewer(desk.pipeline, broken, line=lines.NEWEST, clock=lambda: 0.0)
    call = reviewer.mutate if phase == "mutate" else reviewer.validate
    answer = asyncio.run(call(orjson.dumps(create(STORED)), deadline=1.0))
    assert answer.decision == "error"
    assert b"an internal fault (KeyError)" in answer.body
    assert SECRET.encode() not in answer.body


# Whose semantics


def test_the_line_is_the_one_that_was_given_else_the_clusters_else_the_jobs_own() -> None:
    overrides = JOB.pod_template_override("nobody", pod={"nodeSelector": {"a": "1"}})
    asked = create(samples.stored(overrides, "2.1"))
    crd = {
        "kind": "CustomResourceDefinition",
        "spec": {
            "names": {"kind": "TrainJob"},
            "versions": [{"schema": _schema_with("runtimePatches")}],
        },
    }
    # 2.3 does not know the field, so nobody is missed in it.
    assert Desk.of(RUNTIME, line="2.3").mutate(asked).allowed
    assert Desk.of(RUNTIME, crd, line=None).mutate(asked).allowed
    assert not Desk.of(RUNTIME, line="2.1").mutate(asked).allowed
    assert not Desk.of(RUNTIME, line=None).mutate(asked).allowed


def _schema_with(name: str) -> Json:
    spec: Json = {"properties": {name: {"terminationGracePeriodSeconds": {}}}}
    return {"openAPIV3Schema": {"properties": {"spec": spec}}}


def test_a_runtime_whose_spec_stays_is_not_judged_again() -> None:
    broken = samples.stored(make_runtime().torch().node(replicas=2))
    labelled = {**broken, "metadata": {**broken["metadata"], "labels": {"a": "b"}}}
    assert not Desk.of().validate(create(broken)).allowed
    assert Desk.of().validate(update(broken, labelled)).allowed


def test_no_label_of_a_runtime_keeps_it_from_being_judged() -> None:
    """R17: the Trainer's own webhooks are not called for a runtime with this label (G28)."""
    runtime = make_runtime().torch().node(replicas=2)
    label = ("trainer.kubeflow.org/webhook-validation", "disabled")
    asked = create(samples.stored(runtime.label(*label)))
    for phase in PHASES:
        assert not Desk.of().post(phase, asked).allowed


def test_the_same_review_gives_the_same_bytes() -> None:
    for asked in samples.reviews():
        one, other = samples.desk(), samples.desk()
        for phase in PHASES:
            assert one.post(phase, asked).answer.body == other.post(phase, asked).answer.body
