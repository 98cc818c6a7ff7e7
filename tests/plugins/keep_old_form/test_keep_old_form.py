"""Applying the same manifest again changes nothing (webhook-server A.8), and what is meant is never taken back."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest

from plugins.framework import applied
from plugins.framework.api import names
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.draft import Draft
from plugins.framework.goform import write_quantity
from plugins.keep_old_form import KeepOldForm
from tests.builders import (
    Json,
    MakeRuntime,
    MakeTrainJob,
    container,
    job_patch,
    make_runtime,
    make_train_job,
    patched,
    resources,
)
from tests.plugins.kit import (
    LINES,
    Case,
    Refusal,
    admit,
    assert_found,
    cluster_of,
    default_pipeline,
    forbidden,
    make_context,
    run,
    stored,
    table,
)

RUNTIME = (
    make_runtime()
    .torch()
    .nodes(2)
    .node(container("node", resources=resources(limits={"cpu": 4})), container("side"))
)
PLAIN = make_runtime().plain().nodes(2).node(container("node"), container("side"))
JOB = make_train_job()
KUEUE: Json = {"manager": names.KUEUE_MANAGER, "trainingRuntimeSpec": {"template": {"spec": {}}}}


def kept(
    manifest: MakeTrainJob, runtime: MakeRuntime, *, kueue: bool = False, line: str = "2.3"
) -> Json:
    """A manifest as it is stored: admitted by us, and by Kueue and the Trainer behind us."""
    raw = admit(Case(job=manifest, runtime=runtime, line=line)).raw
    if kueue:
        raw["spec"]["suspend"] = True
        patches = raw["spec"].setdefault("runtimePatches", [])
        for patch in patches:
            patch["time"] = "2026-01-01T00:00:00Z"
        patches.append(deepcopy(KUEUE))
        own = raw["spec"].get("trainer", {}).get("resourcesPerNode", {})
        for part in own.keys() & {"limits", "requests"}:
            own[part] = {name: write_quantity(amount) for name, amount in own[part].items()}
    return raw


def applied_again(old: Json, manifest: MakeTrainJob) -> Json:
    """What kubectl sends: each list of the manifest whole, maps merged, and what it does not name left alone."""
    new: Json = merged(old, manifest.obj)
    return new


def merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{k: merged(old.get(k), v) for k, v in new.items()}}
    return deepcopy(new)


def replaced(old: Json, manifest: MakeTrainJob, line: str = "2.3") -> Json:
    """What ``kubectl replace`` sends: the manifest alone, to which the API server adds its defaults."""
    del old
    return stored(manifest, line)


def update(
    old: Json,
    new: Json,
    runtime: MakeRuntime,
    *,
    line: str = "2.3",
    refused: tuple[Refusal, ...] = (),
) -> Json:
    """The object after the mutating call of an UPDATE."""
    raw = deepcopy(new)
    ctx = make_context(
        cluster_of(runtime, line=line), line=line, operation="UPDATE", obj=new, old=deepcopy(old)
    )
    assert_found(run(default_pipeline().mutate(ctx, raw)).findings, refused, None)
    return raw


# The rows of A.8: an unchanged manifest, applied a second time


PATCHED = JOB.nodes(2).patch("acme.io/m", job_patch("node", pod={"nodeSelector": {"a": "b"}}))
NUMBERS = JOB.nodes(2).resources(limits={"cpu": 2, "memory": "0.5Gi"})
WITH_ENV = JOB.nodes(2).env("A", "1").env("B", "2")
MANIFESTS: dict[str, MakeTrainJob] = {
    "row 1: runtimePatches, to which Kueue adds its entry": PATCHED,
    "row 2: number quantities, which Kueue rewrites": NUMBERS,
    "row 3: neither": JOB.nodes(2),
    "rows 4 and 5: trainer.env": WITH_ENV,
    "row 6: no runtimePatches": JOB.nodes(2).label("team", "a"),
    "no trainer, which we add": JOB,
    "an empty trainer, which we fill": JOB.trainer(),
    "numbers in requests too": JOB.resources(requests={"cpu": 1}, limits={"cpu": 2}),
    "an initializer": JOB.nodes(1).field(
        {"dataset": {"storageUri": "hf://a/b", "env": [{"name": "A", "value": "1"}]}},
        "spec",
        "initializer",
    ),
}


@pytest.mark.parametrize("kueue", [True, False], ids=["behind Kueue", "alone"])
@pytest.mark.parametrize("send", [applied_again, replaced], ids=["apply", "replace"])
@table(MANIFESTS)
def test_a_second_time_nothing_changes(kueue: bool, send: Any, case: MakeTrainJob) -> None:
    runtime = RUNTIME.initializers()
    old = kept(case, runtime, kueue=kueue)
    new = send(old, case)
    after = update(old, new, runtime)
    if send is replaced:  # which resumes a job that Kueue has suspended
        after["spec"]["suspend"] = old["spec"]["suspend"]
    assert after == old


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("manifest", [JOB, JOB.trainer(), JOB.nodes(2), WITH_ENV])
def test_what_we_added_comes_back_in_every_line_and_for_every_policy(
    line: str, manifest: MakeTrainJob
) -> None:
    mpi = make_runtime().mpi().job("node").job("launcher", "trainer")
    for runtime in (RUNTIME, PLAIN, mpi):
        old = kept(manifest, runtime, line=line)
        assert update(old, replaced(old, manifest, line), runtime, line=line) == old


def test_annotations_of_ours_come_back_whoever_drops_or_forges_them() -> None:
    old = kept(JOB, RUNTIME)
    forged = deepcopy(old)
    forged["metadata"]["annotations"] = {names.APPLIED_ANNOTATION: "{}", "mine": "1"}
    after = update(old, forged, RUNTIME)
    assert after["metadata"]["annotations"] == {**old["metadata"]["annotations"], "mine": "1"}


def test_annotations_of_ours_that_were_never_there_are_not_let_in() -> None:
    old = stored(JOB)
    new = stored(
        JOB.annotation(names.APPLIED_ANNOTATION, '{"/spec/trainer":"RuntimeDefaults:44136fa3"}')
    )
    assert names.APPLIED_ANNOTATION not in update(old, new, RUNTIME)["metadata"]["annotations"]


# Only the form


@dataclass(frozen=True)
class Form:
    """Two ways to say the same, or not."""

    old: MakeTrainJob
    new: MakeTrainJob
    same: bool = True


def limits(**amounts: Any) -> MakeTrainJob:
    return JOB.nodes(2).resources(
        limits={k.replace("gpu", "nvidia.com/gpu"): v for k, v in amounts.items()}
    )


def env(*entries: Json) -> MakeTrainJob:
    return JOB.nodes(2).trainer(env=list(entries))


A, B = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}
FORMS: dict[str, Form] = {
    "a number for a text": Form(limits(cpu="2"), limits(cpu=2)),
    "thousandths": Form(limits(cpu="500m"), limits(cpu="0.5")),
    "another unit": Form(limits(memory="1Gi"), limits(memory="1024Mi")),
    "another amount is meant": Form(limits(cpu="2"), limits(cpu=3), same=False),
    "another resource is meant": Form(limits(cpu="2"), limits(gpu="2"), same=False),
    "one more resource is meant": Form(limits(cpu="2"), limits(cpu="2", gpu="2"), same=False),
    "env in another order": Form(env(A, B), env(B, A)),
    "an empty value left out": Form(env({"name": "A", "value": ""}), env({"name": "A"})),
    "another value is meant": Form(env(A, B), env(A, {"name": "B", "value": "3"}), same=False),
    "one more variable is meant": Form(env(A), env(A, B), same=False),
    "a variable that is gone is meant": Form(env(A, B), env(A), same=False),
    "another number of nodes is meant": Form(JOB.nodes(2), JOB.nodes(3), same=False),
    "another image is meant": Form(JOB.trainer(image="a"), JOB.trainer(image="b"), same=False),
    "args in another order are meant": Form(JOB.args("a", "b"), JOB.args("b", "a"), same=False),
    "another deadline is meant": Form(
        JOB.field(10, "spec", "activeDeadlineSeconds"),
        JOB.field(20, "spec", "activeDeadlineSeconds"),
        same=False,
    ),
}


@table(FORMS)
def test_forms(case: Form) -> None:
    old, new = stored(case.old), stored(case.new)
    after = update(old, new, PLAIN)
    assert after["spec"] == (old["spec"] if case.same else new["spec"])


# Without the record a value is the user's


def test_a_value_of_the_users_does_not_come_back() -> None:
    """A user's own numNodes 2 equals the runtime's; to take it away is then a change, and refused."""
    old = kept(JOB.nodes(2).processes(4), PLAIN)
    new = replaced(old, JOB)
    after = update(old, new, PLAIN, refused=(forbidden("spec.trainer", "cannot be removed"),))
    assert "trainer" not in after["spec"]


def test_a_value_that_is_ours_no_longer_is_not_taken_for_ours() -> None:
    old = kept(JOB, PLAIN)
    old["spec"]["trainer"]["numNodes"] = 7  # the record says 2
    new = replaced(old, JOB)
    after = update(old, new, PLAIN, refused=(forbidden("spec.trainer", "cannot be removed"),))
    assert "trainer" not in after["spec"]


def test_only_the_record_of_the_old_object_counts() -> None:
    old = stored(JOB.nodes(2))
    record = applied.write({"/spec/trainer/numNodes": applied.mark("RuntimeDefaults", 2)})
    new = stored(JOB.annotation(names.APPLIED_ANNOTATION, record))
    after = update(old, new, PLAIN, refused=(forbidden("spec.trainer"),))
    assert "trainer" not in after["spec"]


# runtimePatches


SUSPENDED = JOB.nodes(2).suspended()


def selecting(value: str, on: MakeTrainJob = SUSPENDED, time: str | None = None) -> MakeTrainJob:
    return on.patch("acme.io/m", job_patch("node", pod={"nodeSelector": {"a": value}}), time=time)


def with_kueue(job: MakeTrainJob, **pod: Any) -> MakeTrainJob:
    jobs = [job_patch("node", pod=pod)] if pod else []
    return job.patch(names.KUEUE_MANAGER, *jobs)


def test_another_time_is_put_back() -> None:
    old = stored(selecting("1", time="2026-01-01T00:00:00Z"))
    new = stored(selecting("1", time="2026-02-02T00:00:00Z"))
    assert update(old, new, PLAIN)["spec"] == old["spec"]


def test_a_change_of_the_users_stays_and_kueues_entry_with_it_is_not_restored() -> None:
    old, new = stored(with_kueue(selecting("1"))), stored(selecting("2"))
    assert update(old, new, PLAIN)["spec"]["runtimePatches"] == new["spec"]["runtimePatches"]


def test_what_kueue_decides_stays_under_whatever_name_it_runs() -> None:
    old = stored(with_kueue(selecting("1")))
    for new in (
        stored(with_kueue(selecting("1"), nodeSelector={"flavor": "a100"})),
        stored(with_kueue(selecting("1"), tolerations=[{"key": "x", "operator": "Exists"}])),
    ):
        assert update(old, new, PLAIN)["spec"] == new["spec"]


def test_zeros_that_go_clients_drop_are_form() -> None:
    def patch(**fields: Any) -> Json:
        entry = {"name": "v", "mountPath": "/v", **fields}
        volumes = [{"name": "v", "emptyDir": {}}]
        pod = {"volumes": volumes, "containers": [patched("side", volumeMounts=[entry])]}
        return stored(SUSPENDED.patch("acme.io/m", job_patch("node", pod=pod)))

    old = patch(readOnly=False)
    assert update(old, patch(), PLAIN)["spec"] == old["spec"]
    assert update(old, patch(readOnly=True), PLAIN)["spec"] != old["spec"]


# What is left alone


LEFT: dict[str, tuple[MakeTrainJob, MakeTrainJob, str]] = {
    "a terminating job": (NUMBERS.terminating(), limits(cpu="2").terminating(), "alice"),
    "a finished job": (
        NUMBERS.condition("Complete"),
        limits(cpu="2").condition("Complete"),
        "alice",
    ),
    "Kueue": (
        NUMBERS,
        limits(cpu="2"),
        "system:serviceaccount:kueue-system:kueue-controller-manager",
    ),
    "the garbage collector": (
        NUMBERS,
        limits(cpu="2"),
        "system:serviceaccount:kube-system:generic-garbage-collector",
    ),
}


@table(LEFT)
def test_left_alone(case: tuple[MakeTrainJob, MakeTrainJob, str]) -> None:
    old, new, user = case
    admitted = admit(Case(old=old, job=new, runtime=PLAIN, user=user))
    assert admitted.patch == []


# What policies wrote


@dataclass(frozen=True)
class Wrote:
    """A stored field of ``spec``, what policies wrote in it, what is sent, and whether the stored form comes back."""

    at: tuple[str, ...]
    stored: Any
    record: dict[str, tuple[str, Any]]
    """Pointer below the field -> who, and the value."""
    sent: Any
    back: bool


ENV = ("spec", "trainer", "env")
LIMITS = ("spec", "trainer", "resourcesPerNode", "limits")


@table(
    {
        "a number that an override forced": Wrote(
            ("spec", "trainer", "numNodes"), 4, {"": ("policy/p!", 4)}, 9, True
        ),
        "a default is the user's to change, and the API server's to refuse": Wrote(
            ("spec", "trainer", "numNodes"), 4, {"": ("policy/p", 4)}, 9, False
        ),
        "a default that is left out": Wrote(
            ("spec", "trainer", "numNodes"), 4, {"": ("policy/p", 4)}, None, True
        ),
        "a forced variable": Wrote(
            ENV,
            [{"name": "A", "value": "2"}],
            {"/A": ("policy/p!", {"name": "A", "value": "2"})},
            [{"name": "A", "value": "1"}],
            True,
        ),
        "an amount that a policy added": Wrote(
            LIMITS,
            {"cpu": "1", "memory": "1Gi"},
            {"/memory": ("policy/p", "1Gi")},
            {"cpu": 1},
            True,
        ),
        "an amount that the user takes away": Wrote(
            LIMITS, {"cpu": "1", "memory": "1Gi"}, {"/cpu": ("policy/p", "1")}, {"cpu": 1}, False
        ),
        "a forced amount": Wrote(
            LIMITS, {"cpu": "1"}, {"/cpu": ("policy/p!", "1")}, {"cpu": 9}, True
        ),
        "who manages the job": Wrote(
            ("spec", "managedBy"),
            names.MULTIKUEUE,
            {"": ("policy/p!", names.MULTIKUEUE)},
            "trainer.kubeflow.org/trainjob-controller",
            True,
        ),
    }
)
def test_what_policies_wrote(case: Wrote) -> None:
    root = "/" + "/".join(case.at)
    record = {
        root + below: applied.mark_at(root + below, who, value)
        for below, (who, value) in case.record.items()
    }
    old = (
        JOB.field(case.stored, *case.at)
        .annotation(names.APPLIED_ANNOTATION, applied.write(record))
        .obj
    )
    sent = JOB if case.sent is None else JOB.field(case.sent, *case.at)
    raw = sent.obj
    draft = Draft(raw)
    ctx = make_context(cluster_of(), operation="UPDATE", obj=raw, old=old)
    KeepOldForm().reconcile_update(ctx, draft, TrainJob(deepcopy(old)))
    now: Any = raw
    for step in case.at:
        now = now.get(step) if now else None
    assert (now == case.stored) is case.back
