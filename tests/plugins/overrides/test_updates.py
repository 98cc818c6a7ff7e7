"""Which changes of overrides an update may make: the Trainer's suspend rule, and what JobSet takes afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    MakeTrainJob,
    container,
    job_patch,
    make_runtime,
    make_train_job,
    mount,
    patched,
)
from tests.plugins.kit import USER, Case, admit, check, forbidden, table

RUNTIME = make_runtime().plain().node(container("node"), container("side")).job("other")
RUNNING = make_train_job().nodes(1).suspended(False)
SUSPENDED = RUNNING.suspended()
PATCHES = "spec.runtimePatches"
RULE = (
    "RuntimePatches can only be modified when the TrainJob is suspended before or after the update"
)
ENTRY = f"{PATCHES}[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
FOR_EVER = "the TrainJob would stay suspended for ever"
KUEUE = "system:serviceaccount:kueue-system:kueue-controller-manager"


def selecting(value: str, on: MakeTrainJob, *, manager: str = "a.io/m") -> MakeTrainJob:
    return patch(on, manager=manager, nodeSelector={"zone": value})


def patch(on: MakeTrainJob, *, manager: str = "a.io/m", **pod: Any) -> MakeTrainJob:
    return on.patch(manager, job_patch("node", pod=pod))


SUSPEND = {
    "J12 a running job may be updated without a change of its patches": Case(
        old=selecting("a", RUNNING), job=selecting("a", RUNNING).label("x", "y")
    ),
    "J13 a patch may not be changed while the job runs before and after": Case(
        old=selecting("a", RUNNING),
        job=selecting("b", RUNNING),
        refused=(forbidden(PATCHES, RULE),),
    ),
    "J13 a patch may not be added while the job runs": Case(
        old=RUNNING, job=selecting("a", RUNNING), refused=(forbidden(PATCHES, RULE),)
    ),
    "J13 a patch may not be removed while the job runs": Case(
        old=selecting("a", RUNNING), job=RUNNING, refused=(forbidden(PATCHES, RULE),)
    ),
    "J13 patches may not change places while the job runs": Case(
        old=selecting("b", selecting("a", RUNNING), manager="b.io/m"),
        job=selecting("a", selecting("b", RUNNING, manager="b.io/m")),
        refused=(forbidden(PATCHES, RULE),),
    ),
    "J14 a suspended job without a JobSet may change": Case(
        old=selecting("a", SUSPENDED), job=selecting("b", SUSPENDED)
    ),
    "J15 a patch may change as the job is resumed": Case(
        old=selecting("a", SUSPENDED), job=selecting("b", RUNNING)
    ),
    "J16 a patch may change as the job is suspended": Case(
        old=selecting("a", RUNNING), job=selecting("b", SUSPENDED)
    ),
    "J17 what JobSet lets change may change once it exists": Case(
        old=selecting("a", SUSPENDED).with_jobset(), job=selecting("b", SUSPENDED)
    ),
    "a job that was never told to suspend is one that runs": Case(
        old=make_train_job(),
        job=selecting("a", make_train_job()),
        refused=(forbidden(PATCHES, RULE),),
    ),
    "time alone is no change, since the Trainer puts it back": Case(
        old=RUNNING.patch("a.io/m", time="2026-01-01T00:00:00Z"),
        job=RUNNING.patch("a.io/m", time="2026-02-02T00:00:00Z"),
    ),
    "Kueue may change what it likes": Case(
        old=selecting("a", RUNNING), job=selecting("b", RUNNING), user=KUEUE
    ),
    "a job that is being deleted may change": Case(
        old=selecting("a", RUNNING).terminating(), job=selecting("b", RUNNING).terminating()
    ),
    "a finished job may change": Case(
        old=selecting("a", RUNNING).condition("Complete"),
        job=selecting("b", RUNNING).condition("Complete"),
    ),
    "a job whose Complete condition is False is not finished": Case(
        old=selecting("a", RUNNING).condition("Complete", "False"),
        job=selecting("b", RUNNING).condition("Complete", "False"),
        refused=(forbidden(PATCHES, RULE),),
    ),
}


@table(SUSPEND)
def test_the_suspend_rule(case: Case) -> None:
    check(Case(old=case.old, job=case.job, user=case.user, runtime=RUNTIME, refused=case.refused))


OLD_PATHS = {"2.1": "spec.podTemplateOverrides", "2.0": "spec.podSpecOverrides"}


def overridden(line: str, on: MakeTrainJob, value: str) -> MakeTrainJob:
    selector = {"nodeSelector": {"zone": value}}
    if line == "2.0":
        return on.pod_spec_override("node", **selector)
    return on.pod_template_override("node", pod=selector)


@pytest.mark.parametrize("line", ["2.0", "2.1"])
def test_up_to_2_1_only_the_new_state_counts(line: str) -> None:
    """1.9: only if the *new* object is suspended."""
    a, b = (overridden(line, SUSPENDED, v) for v in "ab")
    running_b = overridden(line, RUNNING, "b")
    path, says = OLD_PATHS[line], "can only be modified when the TrainJob is suspended"
    check(Case(line=line, old=a, job=b, runtime=RUNTIME))
    check(Case(line=line, old=overridden(line, RUNNING, "a"), job=b, runtime=RUNTIME))
    refused = (forbidden(path, says),)
    check(Case(line=line, old=a, job=running_b, runtime=RUNTIME, refused=refused))


# Once the JobSet exists


FROZEN: dict[str, tuple[MakeTrainJob, str]] = {
    "G25 affinity": (patch(SUSPENDED, affinity={"podAffinity": {}}), "affinity"),
    "G25 the service account": (patch(SUSPENDED, serviceAccountName="x"), "serviceAccountName"),
    "G25 volumes": (patch(SUSPENDED, volumes=[{"name": "v", "emptyDir": {}}]), "volumes"),
    "G25 env of a sidecar": (
        patch(SUSPENDED, containers=[patched("side", {"A": "1"})]),
        "containers",
    ),
    "G25 image pull secrets": (
        patch(SUSPENDED, imagePullSecrets=[{"name": "p"}]),
        "imagePullSecrets",
    ),
    "G25 the security context": (
        patch(SUSPENDED, securityContext={"runAsUser": 1}),
        "securityContext",
    ),
    "G25 metadata of the Job": (
        SUSPENDED.patch("a.io/m", job_patch("node", job_metadata={"labels": {"a": "b"}})),
        "the Job's metadata",
    ),
}
TUNABLE = {
    "nodeSelector": patch(SUSPENDED, nodeSelector={"a": "b"}),
    "tolerations": patch(SUSPENDED, tolerations=[{"key": "a", "operator": "Exists"}]),
    "scheduling gates": patch(SUSPENDED, schedulingGates=[{"name": "a.io/g"}]),
    "labels of pods": SUSPENDED.patch(
        "a.io/m", job_patch("node", pod_metadata={"labels": {"a": "b"}})
    ),
    "annotations of pods": SUSPENDED.patch(
        "a.io/m", job_patch("node", pod_metadata={"annotations": {"a": "b"}})
    ),
    "labels of the JobSet": SUSPENDED.patch("a.io/m", metadata={"labels": {"a": "b"}}),
}


@table(FROZEN)
def test_what_jobset_refuses_is_refused_here(case: tuple[MakeTrainJob, str]) -> None:
    job, what = case
    says = (f"changes {what} of job node", FOR_EVER)
    check(
        Case(
            old=SUSPENDED.with_jobset(),
            job=job,
            runtime=RUNTIME,
            refused=(forbidden(ENTRY, *says),),
        )
    )


@table(FROZEN)
def test_before_the_jobset_exists_it_passes(case: tuple[MakeTrainJob, str]) -> None:
    check(Case(old=SUSPENDED, job=case[0], runtime=RUNTIME))


@table(FROZEN)
def test_a_job_that_multikueue_runs_elsewhere_has_no_jobset_here(
    case: tuple[MakeTrainJob, str],
) -> None:
    elsewhere = ("kueue.x-k8s.io/multikueue", "spec", "managedBy")
    old = SUSPENDED.field(*elsewhere).with_jobset()
    check(Case(old=old, job=case[0].field(*elsewhere), runtime=RUNTIME))


@pytest.mark.parametrize(("line", "key"), [("2.0", "podSpecOverrides"), ("2.2", "runtimePatches")])
def test_before_2_3_the_controller_runs_multikueues_jobs_too(line: str, key: str) -> None:
    """G42: so there is a JobSet, which refuses what it always refuses."""
    elsewhere = SUSPENDED.field("kueue.x-k8s.io/multikueue", "spec", "managedBy")
    if line == "2.0":
        job, at = elsewhere.pod_spec_override("node", serviceAccountName="x"), f"spec.{key}[0]"
    else:
        job, at = patch(elsewhere, serviceAccountName="x"), ENTRY
    refused = (forbidden(at, "changes serviceAccountName of job node", FOR_EVER),)
    check(Case(line=line, old=elsewhere.with_jobset(), job=job, runtime=RUNTIME, refused=refused))


@table(TUNABLE)
def test_what_jobset_takes_passes(case: MakeTrainJob) -> None:
    check(Case(old=SUSPENDED.with_jobset(), job=case, runtime=RUNTIME))


def test_taking_back_what_jobset_froze_is_refused_at_the_list() -> None:
    old = patch(SUSPENDED, serviceAccountName="x").with_jobset()
    refused = (forbidden(PATCHES, "changes serviceAccountName of job node"),)
    check(Case(old=old, job=SUSPENDED, runtime=RUNTIME, refused=refused))


def test_the_same_pods_said_by_another_manager_are_no_change() -> None:
    old = patch(SUSPENDED, serviceAccountName="x").with_jobset()
    check(
        Case(
            old=old, job=patch(SUSPENDED, manager="b.io/m", serviceAccountName="x"), runtime=RUNTIME
        )
    )


def test_the_place_is_that_of_the_entry_about_the_job() -> None:
    other = SUSPENDED.patch("a.io/first", job_patch("other", pod={"nodeSelector": {"a": "b"}}))
    mounts = [patched("side", volumeMounts=[mount("v", "/v")])]
    job = patch(other, containers=mounts, volumes=[{"name": "v", "emptyDir": {}}])
    at = ENTRY.replace("runtimePatches[0]", "runtimePatches[1]")
    refused = (forbidden(at, "changes containers"), forbidden(at, "changes volumes"))
    check(Case(old=other.with_jobset(), job=job, runtime=RUNTIME, refused=refused))


def test_the_place_in_the_older_generations_is_the_entry() -> None:
    job = SUSPENDED.pod_template_override("other", pod={"nodeSelector": {"a": "b"}})
    job = job.pod_template_override("other", "node", pod={"serviceAccountName": "x"})
    case = Case(
        line="2.1",
        old=SUSPENDED.with_jobset(),
        job=job,
        runtime=RUNTIME,
        refused=(
            forbidden("spec.podTemplateOverrides[0]", "changes serviceAccountName of job other"),
            forbidden("spec.podTemplateOverrides[1]", "changes serviceAccountName of job node"),
        ),
    )
    check(case)


# What always passes


INVALID = RUNNING.nodes(0).env("PET_NNODES", "1").patch("foo", job_patch("nosuch"))
ALWAYS = {
    "an update of labels": INVALID.label("a", "b"),
    "an update of annotations": INVALID.annotation("a", "b"),
    "the removal of a finalizer": INVALID,
    "suspending": INVALID.suspended(),
    "nothing at all": INVALID.field(["a.io/x"], "metadata", "finalizers"),
}


@table(ALWAYS)
def test_always_passes(case: MakeTrainJob) -> None:
    """Whatever is wrong with what is stored, and without a patch of ours."""
    old = INVALID.field(["a.io/x"], "metadata", "finalizers")
    admitted = admit(Case(old=old, job=case, runtime=RUNTIME, user=USER))
    assert not admitted.findings.errors
    assert admitted.patch == []


def test_resuming_passes() -> None:
    admitted = admit(Case(old=INVALID.suspended(), job=INVALID, runtime=RUNTIME))
    assert not admitted.findings.errors
    assert admitted.patch == []
