"""The runtime that a TrainJob names: kind, group, existence, deprecation."""

from __future__ import annotations

import pytest

from plugins.framework.api import names
from plugins.framework.cluster import Snapshot
from tests.builders import make_runtime, make_train_job
from tests.plugins.kit import (
    Case,
    Refusal,
    RuntimeCase,
    admit,
    assert_found,
    check,
    check_runtime,
    cluster_of,
    default_pipeline,
    invalid,
    make_context,
    not_found,
    not_supported,
    required,
    run,
    table,
)

TORCH = make_runtime("torch").plain().node()
NAMESPACED = TORCH.namespaced()
JOB = make_train_job().runtime("torch")
NAMESPACED_JOB = make_train_job().runtime("torch", names.TRAINING_RUNTIME)
DEPRECATED = ("trainer.kubeflow.org/support", "deprecated")
WARNING = (
    'Referenced ClusterTrainingRuntime "torch" is deprecated and will be removed in a future release of '
    "Kubeflow Trainer. See runtime deprecation policy: https://"
)
NAME = "spec.runtimeRef.name"

CASES = {
    "W01 a TrainingRuntime of the namespace is found": Case(job=NAMESPACED_JOB, runtime=NAMESPACED),
    "W01 a ClusterTrainingRuntime is found": Case(job=JOB, runtime=TORCH),
    "W02 a TrainingRuntime that is missing is refused, and those of the namespace are named": Case(
        job=NAMESPACED_JOB,
        others=(make_runtime("mine").plain().node().namespaced(),),
        refused=(not_found(NAME, '"torch"', "must be created before", "in namespace team: mine"),),
    ),
    "W02 a TrainingRuntime of another namespace is none": Case(
        job=NAMESPACED_JOB,
        others=(TORCH.namespaced("other"),),
        refused=(not_found(NAME, "there is no TrainingRuntime in namespace team"),),
    ),
    "W03 a ClusterTrainingRuntime that is missing is refused, and those that exist are named": Case(
        job=make_train_job().runtime("nope"),
        others=(TORCH, make_runtime("jax").jax().node()),
        refused=(not_found(NAME, '"nope"', "there are: jax, torch"),),
    ),
    "W03 where there is none at all, that is said": Case(
        job=JOB, refused=(not_found(NAME, "there is no ClusterTrainingRuntime"),)
    ),
    "W03 a runtime of the other kind with this name is pointed at": Case(
        job=JOB,
        others=(NAMESPACED,),
        refused=(
            not_found(NAME, "there is a TrainingRuntime of this name: set spec.runtimeRef.kind"),
        ),
    ),
    "W04 a kind that the Trainer does not know is refused with those that it does": Case(
        job=make_train_job().runtime("torch", "ClusterTrainingRuntimeX"),
        runtime=TORCH,
        refused=(
            not_supported(
                "spec.runtimeRef.kind",
                '"ClusterTrainingRuntimeX"',
                '"ClusterTrainingRuntime", "TrainingRuntime"',
            ),
        ),
    ),
    "W04 an empty kind is not defaulted": Case(
        job=make_train_job().runtime("torch", ""),
        runtime=TORCH,
        refused=(not_supported("spec.runtimeRef.kind", '""'),),
    ),
    "W04 kinds are compared exactly": Case(
        job=make_train_job().runtime("torch", "trainingruntime"),
        runtime=NAMESPACED,
        refused=(not_supported("spec.runtimeRef.kind"),),
    ),
    "W04 another API group is refused": Case(
        job=make_train_job().runtime("torch", group="kubeflow.org"),
        runtime=TORCH,
        refused=(
            not_supported("spec.runtimeRef.apiGroup", '"kubeflow.org"', '"trainer.kubeflow.org"'),
        ),
    ),
    "W04 both at once are both named": Case(
        job=make_train_job().runtime("torch", "X", "y.io"),
        runtime=TORCH,
        refused=(not_supported("spec.runtimeRef.kind"), not_supported("spec.runtimeRef.apiGroup")),
    ),
    "W05 a deprecated ClusterTrainingRuntime is a warning that names it": Case(
        job=JOB, runtime=TORCH.label(*DEPRECATED), warns=(WARNING,)
    ),
    "W06 a deprecated TrainingRuntime is no warning": Case(
        job=NAMESPACED_JOB, runtime=NAMESPACED.label(*DEPRECATED), warns=()
    ),
    "R15 another value of the label is no deprecation": Case(
        job=JOB, runtime=TORCH.label(DEPRECATED[0], "deprecated-extra"), warns=()
    ),
    "R15 an empty value of the label is no deprecation": Case(
        job=JOB, runtime=TORCH.label(DEPRECATED[0], ""), warns=()
    ),
    "R15 the value under another label is no deprecation": Case(
        job=JOB, runtime=TORCH.label("support", "deprecated"), warns=()
    ),
    "W07 a job whose runtime is gone can be suspended": Case(old=JOB, job=JOB.suspended()),
    "W07 a job whose runtime is gone can be resumed": Case(
        old=JOB.suspended(), job=JOB.suspended(False)
    ),
    "W07 a job whose runtime is gone can be labelled": Case(old=JOB, job=JOB.label("a", "b")),
    "W07 a job whose runtime is gone can lose a finalizer": Case(
        old=JOB.field(["a.io/x"], "metadata", "finalizers"), job=JOB
    ),
    "a job whose runtime is gone can get a patch while suspended": Case(
        old=JOB.suspended(), job=JOB.suspended().patch("a.io/x")
    ),
    "a patch does not bring back what was wrong with the kind": Case(
        old=make_train_job().runtime("torch", "X").suspended(),
        job=make_train_job().runtime("torch", "X").suspended().patch("a.io/x"),
    ),
}


@table(CASES)
def test_a_train_job(case: Case) -> None:
    check(case)


RUNTIME_CASES = {
    "R14 creating a deprecated ClusterTrainingRuntime is a warning": RuntimeCase(
        runtime=TORCH.label(*DEPRECATED), warns=('ClusterTrainingRuntime "torch" is deprecated',)
    ),
    "R14 updating it is none": RuntimeCase(
        runtime=TORCH.label(*DEPRECATED).label("a", "b"), old=TORCH.label(*DEPRECATED), warns=()
    ),
    "R14 one without the label is no warning": RuntimeCase(runtime=TORCH, warns=()),
    "R15 the label beside others counts": RuntimeCase(
        runtime=TORCH.label("a", "b").label(*DEPRECATED), warns=("is deprecated",)
    ),
    "W06 a TrainingRuntime is never a warning": RuntimeCase(
        runtime=NAMESPACED.label(*DEPRECATED), warns=()
    ),
}


@table(RUNTIME_CASES)
def test_a_runtime(case: RuntimeCase) -> None:
    check_runtime(case)


def test_the_warning_of_the_first_sentence_is_the_trainers_own() -> None:
    case = CASES["W05 a deprecated ClusterTrainingRuntime is a warning that names it"]
    [warning] = admit(case).findings.warnings
    assert warning.endswith("operator-guides/runtime.html#runtime-deprecation-policy")


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ("2.0", "in a future release of Kubeflow Trainer."),
        ("2.1", "https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/#{}"),
        ("2.2", "https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/#{}"),
        ("2.3", "https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#{}"),
    ],
)
def test_each_line_points_to_its_own_policy(line: str, end: str) -> None:
    case = Case(line=line, job=JOB, runtime=TORCH.label(*DEPRECATED))
    [warning] = [w for w in admit(case).findings.warnings if "deprecated" in w]
    assert warning.endswith(end.format("runtime-deprecation-policy"))


def test_of_a_thousand_runtimes_some_are_named_and_the_others_counted() -> None:
    many = [make_runtime(f"r{i:04}").plain().node().obj for i in range(1000)]
    ctx = make_context(cluster_of(*many))
    raw = make_train_job().runtime("nope").obj
    [error] = run(default_pipeline().validate(ctx, raw)).findings.errors
    assert "r0000, r0001" in str(error)
    assert "and 980 more" in str(error)
    assert len(str(error)) < 600


def test_a_runtime_without_a_name_is_asked_for() -> None:
    raw = make_train_job().runtime("").obj
    result = run(default_pipeline().validate(make_context(cluster_of(TORCH)), raw))
    assert_found(result.findings, [required(NAME, "there are: torch")], None)


def test_a_runtime_that_the_api_server_would_not_store_is_named_with_the_reason() -> None:
    two = make_runtime("torch").torch().jax().node()
    ctx = make_context(Snapshot.of([two.obj], admit=True))
    result = run(default_pipeline().validate(ctx, JOB.obj))
    wanted: list[Refusal] = [invalid(NAME, "Only one of the policy can be configured")]
    assert_found(result.findings, wanted, None)
