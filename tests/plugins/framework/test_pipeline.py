"""The order of points, and what becomes of a plugin that raises: named, counted, with the profile's effect."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import pytest

from plugins.framework import profile, registry
from plugins.framework.api import names
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.context import Context
from plugins.framework.draft import Draft
from plugins.framework.errors import BuildError, DeadlineExceeded, PluginFault
from plugins.framework.field import Findings, Path, forbidden
from plugins.framework.info import Info
from plugins.framework.interface import (
    ComponentBuilderPlugin,
    CustomValidationPlugin,
    DefaultTrainJobPlugin,
    EnforceMLPolicyPlugin,
    EnforcePodGroupPolicyPlugin,
    OverrideTrainJobPlugin,
    PreBuildSyncPlugin,
    ReconcileUpdatePlugin,
    RecordResolutionPlugin,
    ValidateRuntimePlugin,
)
from plugins.framework.pipeline import Pipeline, Result
from plugins.framework.registry import PluginSpec, Registry
from plugins.framework.runtime import CompiledRuntime
from plugins.registry import in_tree
from tests.builders import MakeTrainJob, make_runtime, make_train_job
from tests.plugins.kit import (
    Case,
    admit,
    assert_found,
    cluster_of,
    compiled,
    make_context,
    run,
    stored,
    table,
)
from tests.plugins.kit import (
    forbidden as want_forbidden,
)
from tests.plugins.kit import invalid as want_invalid
from tests.plugins.kit import not_found as want_not_found

RUNTIME = make_runtime().plain().node()
JOB = make_train_job()
PLACE = Path("metadata", "annotations").key("probe")
Hook = Callable[[str], None]


class Probe(
    DefaultTrainJobPlugin,
    OverrideTrainJobPlugin,
    ReconcileUpdatePlugin,
    EnforceMLPolicyPlugin,
    EnforcePodGroupPolicyPlugin,
    PreBuildSyncPlugin,
    RecordResolutionPlugin,
    CustomValidationPlugin,
    ValidateRuntimePlugin,
    ComponentBuilderPlugin,
):
    """Calls a hook with the name of each method as it runs; edits where it may."""

    name: ClassVar[str] = "Probe"

    def __init__(self, hook: Hook) -> None:
        self.hook = hook

    def default_train_job(self, ctx: Context, draft: Draft) -> None:
        del ctx
        draft.set(PLACE, "default")
        self.hook("default_train_job")

    def override_train_job(self, ctx: Context, draft: Draft) -> None:
        del ctx
        draft.set(PLACE, "override")
        self.hook("override_train_job")

    def reconcile_update(self, ctx: Context, draft: Draft, old: TrainJob) -> None:
        del ctx, old
        draft.set(PLACE, "reconcile")
        self.hook("reconcile_update")

    def enforce_ml_policy(self, ctx: Context, info: Info) -> None:
        del ctx, info
        self.hook("enforce_ml_policy")

    def enforce_pod_group_policy(self, ctx: Context, info: Info) -> None:
        del ctx, info
        self.hook("enforce_pod_group_policy")

    def pre_build_sync(self, ctx: Context, info: Info) -> None:
        del ctx, info
        self.hook("pre_build_sync")

    def record_resolution(self, ctx: Context, draft: Draft) -> None:
        del ctx
        draft.set(PLACE, "record")
        self.hook("record_resolution")

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        del ctx, info, old, new
        self.hook("validate")
        return Findings(warnings=["judged"])

    def validate_runtime(
        self, ctx: Context, old: CompiledRuntime | None, new: CompiledRuntime
    ) -> Findings:
        del ctx, old, new
        self.hook("validate_runtime")
        return Findings()

    def build(self, ctx: Context, info: Info) -> list[dict[str, Any]]:
        del ctx, info
        self.hook("build")
        return []


@dataclass
class Counter:
    """A recorder that remembers."""

    faults: list[tuple[str, str]] = field(default_factory=list)

    def fault(self, plugin: str, point: str) -> None:
        self.faults.append((plugin, point))


def quiet(_point: str) -> None: ...


def pipeline(
    hook: Hook = quiet,
    *,
    on_fault: str = "Warn",
    recorder: Counter | None = None,
    in_front: bool = False,
) -> Pipeline:
    """The in-tree plugins and a probe behind them (or in front)."""
    probe = PluginSpec(name="Probe", build=lambda _args, _handle: Probe(hook))
    tree = [spec.name for spec in in_tree()]
    order = ["Probe", *tree] if in_front else [*tree, "Probe"]
    document = {
        "apiVersion": profile.API_VERSION,
        "kind": profile.KIND,
        "pluginConfig": [{"name": "Probe", "onFault": on_fault}],
    }
    found = profile.decode(document, order)
    return Pipeline(Registry((*in_tree(), probe)), found, recorder)


def create(
    pipe: Pipeline, job: MakeTrainJob = JOB, *, call: str = "mutate", **context: Any
) -> Result:
    raw = stored(job)
    ctx = make_context(cluster_of(RUNTIME), obj=raw)
    for name, value in context.items():
        setattr(ctx, name, value)
    result: Result = run(getattr(pipe, call)(ctx, raw))
    return result


def update(
    pipe: Pipeline, old: MakeTrainJob, new: MakeTrainJob, *, call: str = "mutate", user: str = "me"
) -> Result:
    raw = stored(new)
    ctx = make_context(cluster_of(RUNTIME), operation="UPDATE", obj=raw, old=stored(old), user=user)
    result: Result = run(getattr(pipe, call)(ctx, raw))
    return result


# Order


RESOLVE = ["enforce_ml_policy", "enforce_pod_group_policy", "pre_build_sync"]


def without_repeats(calls: list[str]) -> list[str]:
    return [point for point, _ in itertools.groupby(calls)]


def test_a_created_job_meets_the_points_in_their_order() -> None:
    calls: list[str] = []
    create(pipeline(calls.append))
    steps = ["default_train_job", "override_train_job", *RESOLVE, "validate", "record_resolution"]
    assert [c for c in without_repeats(calls) if c in steps] == steps


def test_an_updated_job_meets_fewer() -> None:
    calls: list[str] = []
    update(pipeline(calls.append), JOB.suspended(), JOB.suspended().patch("a.io/x"))
    assert calls[0] == "reconcile_update"
    assert {"default_train_job", "override_train_job", "build"}.isdisjoint(calls)
    assert calls.index("record_resolution") < calls.index("validate")


def test_the_validating_call_edits_nothing() -> None:
    calls: list[str] = []
    result = create(pipeline(calls.append), call="validate")
    assert calls == [*RESOLVE, "validate"]
    assert result.patch == []


def test_overrides_come_after_all_defaults() -> None:
    """Even of plugins that stand behind."""
    result = create(pipeline(in_front=True), JOB.annotation("probe", "mine"))
    values = [c.after for c in result.changes if c.path[-1] == "probe"]
    assert values == ["default", "override", "record"]


def test_the_patch_is_the_last_word() -> None:
    result = create(pipeline(), JOB.annotation("probe", "mine"))
    assert {
        "op": "replace",
        "path": "/metadata/annotations/probe",
        "value": "record",
    } in result.patch


# Faults


class Broken(RuntimeError):
    pass


def raising(at: str, error: Exception) -> Hook:
    def hook(point: str) -> None:
        if point == at:
            raise error

    return hook


CREATE_POINTS = [
    "default_train_job",
    "override_train_job",
    *RESOLVE,
    "validate",
    "record_resolution",
]
VALIDATE_POINTS = [*RESOLVE, "validate"]
CALLS = [("mutate", p) for p in CREATE_POINTS] + [("validate", p) for p in VALIDATE_POINTS]
SECRET: Final = "a user's secret value"


@pytest.mark.parametrize(("call", "point"), CALLS)
def test_a_fault_is_a_warning_by_default_and_there_is_no_patch(call: str, point: str) -> None:
    counter = Counter()
    hook = raising(point, Broken(SECRET))
    result = create(pipeline(hook, recorder=counter), call=call)
    assert result.allowed
    assert result.patch == []
    assert set(counter.faults) == {("Probe", point)}
    assert [(f.plugin, f.point) for f in result.faults] == counter.faults
    [warning] = [w for w in result.findings.warnings if "failed" in w]
    assert f"plugin Probe failed in {point}: Broken" in warning
    assert SECRET not in warning


@pytest.mark.parametrize(("call", "point"), CALLS)
def test_a_fault_refuses_where_the_profile_says_so(call: str, point: str) -> None:
    result = create(pipeline(raising(point, Broken(SECRET)), on_fault="Refuse"), call=call)
    [error] = result.findings.errors
    assert error.type.reason == "InternalError"
    assert f"plugin Probe failed in {point}: Broken" in str(error)
    assert SECRET not in str(error)
    assert result.patch == []


@pytest.mark.parametrize("point", ["reconcile_update", *RESOLVE, "record_resolution", "validate"])
@pytest.mark.parametrize("effect", ["Warn", "Refuse"])
def test_faults_on_update(point: str, effect: str) -> None:
    pipe = pipeline(raising(point, Broken()), on_fault=effect)
    result = update(pipe, JOB.suspended(), JOB.suspended().patch("a.io/x"))
    assert result.allowed == (effect == "Warn")
    assert result.patch == []


def test_a_fault_does_not_keep_the_others_from_being_heard() -> None:
    job = JOB.nodes(0)
    result = create(pipeline(raising("validate", Broken()), in_front=True), job)
    assert_found(result.findings, (want_invalid("spec.trainer.numNodes"),), None)


@pytest.mark.parametrize("effect", ["Warn", "Refuse"])
def test_a_fault_while_a_runtime_is_judged(effect: str) -> None:
    pipe = pipeline(raising("validate_runtime", Broken()), on_fault=effect)
    ctx = make_context(cluster_of(), kind="ClusterTrainingRuntime")
    result = run(pipe.validate_runtime(ctx, None, compiled(RUNTIME)))
    assert result.allowed == (effect == "Warn")
    assert [(f.plugin, f.point) for f in result.faults] == [("Probe", "validate_runtime")]


def resolved(pipe: Pipeline, job: MakeTrainJob = JOB) -> tuple[Context, Info]:
    ctx = make_context(cluster_of(RUNTIME))
    info = pipe.resolve(ctx, stored(job))
    assert info is not None
    return ctx, info


def test_whoever_renders_gets_the_fault_itself() -> None:
    pipe = pipeline(raising("build", Broken()))
    ctx, info = resolved(pipe)
    with pytest.raises(PluginFault, match="plugin Probe failed in build: Broken"):
        pipe.build(ctx, info)
    with pytest.raises(PluginFault, match="plugin Probe failed in pre_build_sync"):
        resolved(pipeline(raising("pre_build_sync", Broken())))


# What the controller cannot build


@pytest.mark.parametrize("point", RESOLVE)
def test_a_build_error_is_a_finding(point: str) -> None:
    pipe = pipeline(raising(point, BuildError("it would panic")))
    for call in ("mutate", "validate"):
        result = create(pipe, call=call)
        says = ("fails on this job in every reconcile: it would panic",)
        assert_found(result.findings, (want_invalid("spec.runtimeRef", *says),), None)
        assert result.faults == []


def test_a_build_error_gives_way_to_a_finding_that_says_more() -> None:
    pipe = pipeline(raising("enforce_ml_policy", BuildError("it would panic")))
    result = create(pipe, JOB.nodes(0))
    assert_found(result.findings, (want_invalid("spec.trainer.numNodes"),), None)


def test_a_build_error_that_is_stored_is_no_reason_to_refuse() -> None:
    pipe = pipeline(raising("enforce_ml_policy", BuildError("it would panic")))
    assert update(pipe, JOB.suspended(), JOB.suspended().patch("a.io/x")).allowed


@pytest.mark.parametrize("point", ["enforce_ml_policy", "build"])
def test_whoever_renders_gets_the_build_error(point: str) -> None:
    pipe = pipeline(raising(point, BuildError("it would panic")))
    ctx, info = resolved(pipe)
    with pytest.raises(BuildError, match="it would panic"):
        pipe.build(ctx, info)


# The deadline


@pytest.mark.parametrize("point", ["default_train_job", "validate"])
def test_past_the_deadline_nothing_is_answered(point: str) -> None:
    now = [0.0]

    def slow(at: str) -> None:
        if at == point:
            now[0] = 11.0

    with pytest.raises(DeadlineExceeded):
        create(pipeline(slow), clock=lambda: now[0], deadline=10.0)


def test_a_deadline_is_no_fault_of_the_plugin_that_notices_it() -> None:
    counter = Counter()
    pipe = pipeline(raising("validate", DeadlineExceeded("late")), recorder=counter)
    with pytest.raises(DeadlineExceeded):
        create(pipe)
    assert counter.faults == []


def test_in_time_nothing_is_said() -> None:
    assert create(pipeline(), clock=lambda: 9.0, deadline=10.0).allowed


# What is left alone


LEFT: dict[str, tuple[MakeTrainJob, MakeTrainJob, str]] = {
    "a terminating job": (JOB, JOB.nodes(0).terminating(), "me"),
    "a job that was terminating": (JOB.terminating(), JOB.nodes(0), "me"),
    "a complete job": (JOB.condition("Complete"), JOB.nodes(0).condition("Complete"), "me"),
    "a failed job": (JOB.condition("Failed"), JOB.nodes(0).condition("Failed"), "me"),
    "a controller": (
        JOB,
        JOB.nodes(0),
        "system:serviceaccount:kueue-system:kueue-controller-manager",
    ),
}


@table(LEFT)
def test_left_alone(case: tuple[MakeTrainJob, MakeTrainJob, str]) -> None:
    old, new, user = case
    calls: list[str] = []
    for call in ("mutate", "validate"):
        result = update(pipeline(calls.append), old, new, call=call, user=user)
        assert (result.allowed, result.patch, calls) == (True, [], [])


def test_a_new_job_is_never_left_alone() -> None:
    result = create(pipeline(), JOB.nodes(0).condition("Complete"))
    assert not result.allowed


ONLY: dict[str, MakeTrainJob] = {
    "labels": JOB.nodes(0).label("a", "b"),
    "suspend": JOB.nodes(0).suspended(),
    "finalizers": JOB.nodes(0).field(["a.io/x"], "metadata", "finalizers"),
}


@table(ONLY)
def test_an_update_of_metadata_or_suspend_is_not_judged(case: MakeTrainJob) -> None:
    calls: list[str] = []
    for call in ("mutate", "validate"):
        assert update(pipeline(calls.append), JOB.nodes(0), case, call=call).allowed
    assert "validate" not in calls


# Runtimes that are not there, and the ratchet


def test_without_a_runtime_defaults_do_not_run_and_the_name_is_refused() -> None:
    calls: list[str] = []
    raw = stored(JOB.runtime("nope"))
    result = run(pipeline(calls.append).mutate(make_context(cluster_of(RUNTIME)), raw))
    assert calls == ["validate"]
    assert_found(result.findings, (want_not_found("spec.runtimeRef.name"),), None)


class Strict(ValidateRuntimePlugin, CustomValidationPlugin):
    """Refuses everything, at a place and with a value that the object chooses."""

    name: ClassVar[str] = "Strict"

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        del ctx, info, old
        found = Findings()
        for key, value in new.annotations.items():
            found.error(forbidden(Path("metadata", "annotations").key(key), str(value)))
        return found

    def validate_runtime(
        self, ctx: Context, old: CompiledRuntime | None, new: CompiledRuntime
    ) -> Findings:
        del ctx, old
        found = Findings()
        for key, value in new.jobset_annotations.items():
            found.error(forbidden(Path("spec", "template").key(key), str(value)))
        return found


def strict() -> Pipeline:
    spec = PluginSpec(name="Strict", build=lambda _args, _handle: Strict())
    return Pipeline(Registry((spec,)), profile.default(["Strict"]))


def annotated(**annotations: str) -> MakeTrainJob:
    """Of which no two are the same in ``spec``: only such updates are judged."""
    job = JOB.suspended().patch("a.io/" + "-".join(f"{k}{v}" for k, v in annotations.items()))
    for key, value in annotations.items():
        job = job.annotation(key, value)
    return job


RATCHET: dict[str, tuple[MakeTrainJob, MakeTrainJob, tuple[str, ...]]] = {
    "what stays is excused": (annotated(a="1"), annotated(a="1", b="2"), ("b",)),
    "what changes is not": (annotated(a="1"), annotated(a="2"), ("a",)),
    "what goes is gone": (annotated(a="1", b="2"), annotated(a="1"), ()),
}


@table(RATCHET)
def test_the_ratchet(case: tuple[MakeTrainJob, MakeTrainJob, tuple[str, ...]]) -> None:
    old, new, refused = case
    result = update(strict(), old, new, call="validate")
    wanted = [want_forbidden(f"metadata.annotations[{key}]") for key in refused]
    assert_found(result.findings, wanted, None)


def test_the_ratchet_of_runtimes() -> None:
    def runtime(**annotations: str) -> CompiledRuntime:
        return compiled(RUNTIME.jobset_metadata(annotations=annotations))

    ctx = make_context(cluster_of(), operation="UPDATE", kind="ClusterTrainingRuntime")
    result = run(strict().validate_runtime(ctx, runtime(a="1"), runtime(a="1", b="2")))
    assert_found(result.findings, (want_forbidden("spec.template[b]"),), None)


# Fidelity of what is returned


def test_the_object_given_is_what_the_patch_makes_of_the_one_that_was_sent() -> None:
    """And nothing else is touched: unknown fields survive."""
    raw = stored(JOB)
    raw["spec"]["noSuchField"] = {"deep": [1, {"a": None}]}
    raw["noSuchField"] = "x"
    sent = deepcopy(raw)
    run(pipeline().mutate(make_context(cluster_of(RUNTIME)), raw))
    assert raw["spec"]["noSuchField"] == sent["spec"]["noSuchField"]
    assert raw["noSuchField"] == "x"


def test_the_same_input_gives_the_same_patch() -> None:
    patches = [create(pipeline()).patch for _ in range(3)]
    assert patches[0] == patches[1] == patches[2]


def test_whoever_asks_gets_the_resolved_job() -> None:
    result = create(pipeline(), JOB.nodes(3))
    assert result.info is not None
    assert result.info.pod_sets[0].count == 3


def test_a_dry_pipeline_has_no_plugins_and_allows_everything() -> None:
    pipe = Pipeline(registry.Registry(), profile.default([]))
    assert create(pipe, JOB.nodes(0)).allowed


def test_changes_are_recorded_by_plugin() -> None:
    admitted = admit(Case(job=JOB, runtime=RUNTIME))
    assert {c.by for c in admitted.mutated.changes} == {
        "RuntimeDefaults",
        "PodGroupTotals",
        "Stationmaster",
    }
    annotations = admitted.raw["metadata"]["annotations"]
    assert annotations.keys() == {names.TOTALS_ANNOTATION, names.APPLIED_ANNOTATION}
