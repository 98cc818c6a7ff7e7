"""Known faults of validation and messages, and of missing or partial data: B035 to B053."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, MakeRuntime, container, job_patch, make_runtime, patched
from tests.faults.kit import p, rt_torch, tj
from tests.folder import Folder, texts
from tests.reviews.desk import Desk, create

POD = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("9lives", "RFC 1035"),
        ("a.b", "RFC 1035"),
        ("Caps", "RFC 1035"),
        ("-a", "RFC 1035"),
        ("a-", "RFC 1035"),
        ("a" * 64, "no more than 63 characters"),
        ("a" * 49, "may not be more than 48 bytes with this runtime: the pod names of job node"),
    ],
)
def test_b035_a_name_that_its_children_could_not_have(name: str, rule: str) -> None:
    outcome = Folder.of(rt_torch()).admit(tj(rt_torch()).field(name, "metadata", "name"))
    assert {e.field for e in outcome.findings.errors} == {"metadata.name"}
    assert any(rule in str(e) for e in outcome.findings.errors)


def test_b035_the_longest_name_that_fits_is_admitted() -> None:
    job = tj(rt_torch()).field("a" * 48, "metadata", "name")
    assert Folder.of(rt_torch()).admit(job).allowed


@pytest.mark.parametrize("jobs", [None, [], "node"], ids=["null", "empty", "text"])
def test_b037_one_bad_runtime_refuses_nobody_elses_job(jobs: Any) -> None:
    bad = make_runtime("bad").torch().template(jobs, "replicatedJobs")
    desk = Desk.of(rt_torch(), bad)
    assert desk.mutate(create(tj(rt_torch()).obj)).allowed
    # Who names it gets an answer, not a fault.
    reply = desk.mutate(create(tj(bad).obj))
    assert reply.answer.decision != "error"
    assert reply.allowed == (jobs != "node")


def test_b038_empty_lists_have_no_first_element() -> None:
    runtime = make_runtime("empty").torch().template([], "replicatedJobs")
    job = tj(runtime).field([], "spec", "runtimePatches").command()
    outcome = Folder.of(runtime, rt_torch()).admit(job)
    assert texts(outcome.findings.errors) == []
    [warning] = outcome.findings.warnings
    assert warning.startswith("spec.trainer (command) has no effect: no job of runtime empty")
    on_torch = tj(rt_torch()).field([], "spec", "runtimePatches").command()
    assert Folder.of(rt_torch()).admit(on_torch).findings.warnings == []


def test_b040_all_mistakes_in_one_answer_and_always_in_one_order() -> None:
    job = tj(rt_torch()).field("9x", "metadata", "name").nodes(-1).env("PET_NNODES", "1")
    desk = Desk.of(rt_torch())
    reply = desk.mutate(create(p(job, "team.example/x", "nodee", {}).obj))
    assert reply.causes == [
        ("spec.trainer.numNodes", "FieldValueInvalid"),
        (f"{POD.removesuffix('.template.spec.template')}.name", "FieldValueNotFound"),
        ("spec.trainer.env[0].name", "FieldValueForbidden"),
        ("metadata.name", "FieldValueInvalid"),
    ]
    assert desk.mutate(create(p(job, "team.example/x", "nodee", {}).obj)).message == reply.message


LABELS: dict[str, tuple[Json, str]] = {
    "a key with a blank": ({"bad key": "v"}, "labels[bad key]"),
    "a key with two slashes": ({"a/b/c": "v"}, "labels[a/b/c]"),
    "a value with a blank": ({"ok": "has space"}, "labels[ok]"),
    "a value of 64 characters": ({"ok": "x" * 64}, "labels[ok]"),
    "a number": ({"ok": 7}, "labels.ok"),
}


@pytest.mark.parametrize(("labels", "at"), LABELS.values(), ids=LABELS)
def test_b044_a_label_that_no_pod_could_have(labels: Json, at: str) -> None:
    job = tj(rt_torch()).patch("a.example/m", job_patch("node", pod_metadata={"labels": labels}))
    [error] = Folder.of(rt_torch()).admit(job).findings.errors
    assert error.field == f"{POD}.metadata.{at}"


def test_b044_annotations_past_the_limit_of_a_pod() -> None:
    metadata = {"annotations": {"k": "x" * 300 * 1024}}
    job = tj(rt_torch()).patch("a.example/m", job_patch("node", pod_metadata=metadata))
    [error] = Folder.of(rt_torch()).admit(job).findings.errors
    assert str(error) == f"{POD}.metadata.annotations: Too long: may not be more than 262144 bytes"


def test_b044_a_null_value_is_dropped_by_the_api_server() -> None:
    metadata = {"labels": {"gone": None, "kept": "1"}}
    job = tj(rt_torch()).patch("a.example/m", job_patch("node", pod_metadata=metadata))
    outcome = Folder.of(rt_torch()).admit(job)
    assert outcome.after is not None
    assert "gone" not in str(outcome.after)


@pytest.mark.parametrize("value", ["1", {"fieldRef": {"fieldPath": "metadata.name"}}])
def test_b045_a_reserved_name_is_refused_with_the_whole_list(value: Any) -> None:
    job = tj(rt_torch()).env("PET_MASTER_ADDR", value)
    [text] = texts(Folder.of(rt_torch()).admit(job).findings.errors)
    assert text == (
        "spec.trainer.env[0].name: Forbidden: PET_MASTER_ADDR is set by the Torch runtime; remove it from "
        "the env (reserved are PET_MASTER_ADDR, PET_MASTER_PORT, PET_NNODES, PET_NODE_RANK and "
        "PET_NPROC_PER_NODE)"
    )


@pytest.mark.parametrize("name", ["PET_MY_FLAG", "pet_nnodes", "XPET_NNODES"])
def test_b045_names_beside_the_list_are_free(name: str) -> None:
    assert Folder.of(rt_torch()).admit(tj(rt_torch()).env(name, "1")).findings.errors == []


def test_b045_a_patch_cannot_reserve_its_way_around() -> None:
    own = [patched("node", {"PET_NNODES": "1"})]
    job = p(tj(rt_torch()), "a.example/m", "node", {"containers": own})
    [error] = Folder.of(rt_torch()).admit(job).findings.errors
    assert (error.field, error.type.reason) == (
        f"{POD}.spec.containers[0].env",
        "FieldValueForbidden",
    )


def test_b049_a_runtime_without_a_trainer_is_answered() -> None:
    runtime = make_runtime("base-torch").torch().nodes(2).job("node")
    reply = Desk.of(runtime).mutate(create(tj(runtime).nodes(2).obj))
    [warning] = reply.warnings
    assert warning.startswith("spec.trainer (numNodes) has no effect: no job of runtime base-torch")


PARTS: dict[str, MakeRuntime] = {
    "no containers": make_runtime("odd").torch().job("node", "trainer", containers=[]),
    "init containers only": make_runtime("odd")
    .torch()
    .job("node", "trainer", containers=[], pod={"initContainers": [container("x")]}),
    "a container without a name": make_runtime("odd")
    .torch()
    .job("node", "trainer", containers=[{"image": "i"}]),
}


@pytest.mark.parametrize("runtime", PARTS.values(), ids=PARTS)
def test_b051_a_runtime_with_parts_missing_is_reported_and_harms_nobody(
    runtime: MakeRuntime,
) -> None:
    desk = Desk.of(runtime, rt_torch())
    assert desk.mutate(create(tj(rt_torch()).obj)).allowed
    refused = desk.mutate(create(runtime.obj))
    assert not refused.allowed
    assert any("containers" in path for path, _ in refused.causes)
    told = desk.mutate(create(tj(runtime).obj))
    assert told.answer.decision != "error"
    assert "containers" in told.message + " ".join(told.warnings)


@pytest.mark.parametrize("nodes", [1, -1])
def test_b052_an_object_without_its_defaults_is_judged_alike(nodes: int) -> None:
    whole = tj(rt_torch()).nodes(nodes).suspended(value=False).obj
    whole["spec"]["managedBy"] = "trainer.kubeflow.org/trainjob-controller"
    whole["spec"]["runtimeRef"]["apiGroup"] = "trainer.kubeflow.org"
    bare = tj(rt_torch()).nodes(nodes).without("spec", "suspend").obj
    bare["spec"]["runtimeRef"] = {"name": "base-torch"}
    desk = Desk.of(rt_torch())
    one, other = desk.validate(create(whole)), desk.validate(create(bare))
    assert (one.allowed, one.message, one.warnings) == (
        other.allowed,
        other.message,
        other.warnings,
    )
    assert one.allowed == (nodes > 0)


def test_b053_a_missing_runtime_is_one_jobs_fault_alone() -> None:
    folder = Folder.of(rt_torch())
    jobs = [tj(rt_torch()), tj(rt_torch()).runtime("gone"), tj(rt_torch()).nodes(3)]
    assert [folder.admit(job).allowed for job in jobs] == [True, False, True]
