"""``spec.initializer`` needs a job, a container, a mount and a label to act on."""

from __future__ import annotations

import pytest

from plugins.framework.api import names
from tests.builders import MakeRuntime, container, make_runtime, make_train_job, mount
from tests.plugins.kit import Case, check, invalid, table

DATASET, MODEL = names.DATASET_INITIALIZER, names.MODEL_INITIALIZER
JOB = make_train_job()
KINDS = [("dataset", DATASET), ("model", MODEL)]
BARE = make_runtime().plain().node()


def with_initializer(
    name: str, *, own: str | None = None, mounts: str = "initializer", ancestor: str | None = ""
) -> MakeRuntime:
    """A runtime with one initializer, of which anything may be wrong."""
    entry = container(own or name, volumeMounts=[mount(mounts, "/workspace")])
    return BARE.job(name, name if ancestor == "" else ancestor, containers=[entry])


@pytest.mark.parametrize(("key", "name"), KINDS)
def test_j01_a_job_without_initializer_needs_nothing(key: str, name: str) -> None:
    del key
    check(Case(job=JOB, runtime=with_initializer(name, own="other", ancestor=None)))


@pytest.mark.parametrize(("key", "name"), KINDS)
class TestEach:
    def test_j05_a_job_a_container_and_a_mount_pass(self, key: str, name: str) -> None:
        check(Case(job=JOB.initializer(key, storageUri="hf://a/b"), runtime=with_initializer(name)))

    def test_j05_a_claim_of_the_jobset_passes(self, key: str, name: str) -> None:
        runtime = with_initializer(name).claims("initializer")
        check(Case(job=JOB.initializer(key, storageUri="hf://a/b"), runtime=runtime))

    def test_j02_a_runtime_without_the_job_is_refused_and_its_jobs_are_named(
        self, key: str, name: str
    ) -> None:
        says = (
            f"must have {name} job when trainJob is configured with input {key}Config",
            "runtime runtime has the jobs: node",
        )
        refused = (invalid(f"spec.initializer.{key}", *says),)
        check(Case(job=JOB.initializer(key, storageUri="hf://a/b"), runtime=BARE, refused=refused))

    def test_an_empty_object_is_refused_as_well(self, key: str, name: str) -> None:
        del name
        refused = (invalid(f"spec.initializer.{key}"),)
        check(Case(job=JOB.initializer(key), runtime=BARE, refused=refused))

    def test_j03_a_job_without_the_container_is_refused_and_its_containers_are_named(
        self, key: str, name: str
    ) -> None:
        runtime = with_initializer(name, own="fetch", ancestor=None)
        says = f"must have container with name - {name} in the {name} job; it has: fetch"
        refused = (invalid(f"spec.initializer.{key}", says),)
        check(
            Case(job=JOB.initializer(key, storageUri="hf://a/b"), runtime=runtime, refused=refused)
        )

    def test_j04_a_container_without_the_mount_is_refused(self, key: str, name: str) -> None:
        runtime = with_initializer(name, mounts="elsewhere")
        says = f"must have volumeMount with name - initializer in container {name}"
        refused = (invalid(f"spec.initializer.{key}", says),)
        job = JOB.initializer(key, storageUri="hf://a/b")
        check(Case(job=job, runtime=runtime, refused=refused))

    @pytest.mark.parametrize("line", ["2.0", "2.1", "2.2"])
    def test_j04_up_to_2_2_nobody_asks_for_the_mount(self, line: str, key: str, name: str) -> None:
        runtime = with_initializer(name, mounts="elsewhere")
        job = JOB.initializer(key, storageUri="hf://a/b")
        check(Case(line=line, job=job, runtime=runtime))

    def test_g27_a_job_of_that_name_without_the_label_would_be_passed_over(
        self, key: str, name: str
    ) -> None:
        runtime = with_initializer(name, ancestor=None)
        says = ("has no effect", f"{names.ANCESTOR_LABEL}: {name}")
        refused = (invalid(f"spec.initializer.{key}", *says),)
        check(
            Case(job=JOB.initializer(key, storageUri="hf://a/b"), runtime=runtime, refused=refused)
        )

    def test_what_is_stored_is_no_reason_to_refuse(self, key: str, name: str) -> None:
        del name
        old = JOB.initializer(key, storageUri="hf://a/b").suspended()
        check(Case(old=old, job=old.patch("a.io/x"), runtime=BARE))


def test_j05_both_initializers_pass() -> None:
    job = JOB.initializer("dataset", storageUri="hf://a/b").initializer(
        "model", storageUri="hf://c/d"
    )
    check(Case(job=job, runtime=BARE.initializers()))


def test_both_are_refused_at_once() -> None:
    job = JOB.initializer("dataset").initializer("model")
    refused = (invalid("spec.initializer.dataset"), invalid("spec.initializer.model"))
    check(Case(job=job, runtime=BARE, refused=refused))


def test_a_container_that_is_an_init_container_has_no_mount_for_the_trainer() -> None:
    entry = container(DATASET, volumeMounts=[mount("initializer", "/workspace")])
    runtime = BARE.job(DATASET, containers=[container("x")], pod={"initContainers": [entry]})
    refused = (invalid("spec.initializer.dataset", "must have volumeMount"),)
    check(Case(job=JOB.initializer("dataset"), runtime=runtime, refused=refused))


LABEL_ELSEWHERE = {
    "the label on another job acts there, but the Trainer looks for the name": Case(
        job=JOB.initializer("dataset"),
        runtime=BARE.job("fetch", DATASET, containers=[container(DATASET)]),
        refused=(invalid("spec.initializer.dataset", f"must have {DATASET} job"),),
    ),
}


@table(LABEL_ELSEWHERE)
def test_names_and_labels(case: Case) -> None:
    check(case)
