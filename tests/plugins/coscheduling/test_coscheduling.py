"""Gang scheduling by the coscheduling plugin: the PodGroup as the controller writes it, and what it runs into."""

from __future__ import annotations

import pytest

from tests.builders import Json, MakeRuntime, container, make_runtime, make_train_job, resources
from tests.plugins.kit import (
    LINES,
    Built,
    Case,
    RuntimeCase,
    built,
    check,
    check_runtime,
    forbidden,
    invalid,
    table,
)

PLAIN = make_runtime().plain()
JOB = make_train_job()
GANG = {"schedulerName": "gang"}
POLICY = "spec.podGroupPolicy"
NEVER = "waits for others by dependsOn: the gang is never complete and no pod starts"
IGNORED = "names no schedulerName: the default scheduler ignores the PodGroup"


def cpu(amount: str, **more: str) -> Json:
    return resources(requests={"cpu": amount, **more})


def runtime(*, timeout: int | None = None) -> MakeRuntime:
    """Two initializers and a trainer, of one CPU each."""
    out = PLAIN
    for name in ("dataset-initializer", "model-initializer"):
        out = out.job(name, name, containers=[container(name, resources=cpu("1"))], pod=GANG)
    out = out.node(container("node", resources=cpu("1")), pod=GANG)
    return out.coscheduling(**({} if timeout is None else {"scheduleTimeoutSeconds": timeout}))


def group(made: Built) -> Json:
    [found] = made.of_kind("PodGroup")
    assert found["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    spec: Json = found["spec"]
    return spec


@pytest.mark.parametrize("line", LINES)
def test_g01_members_resources_and_timeout(line: str) -> None:
    made = built(JOB.nodes(30), runtime(timeout=120), line=line)
    assert group(made) == {
        "minMember": 32,
        "minResources": {"cpu": "32"},
        "scheduleTimeoutSeconds": 120,
    }
    [found] = made.of_kind("PodGroup")
    assert found["metadata"]["name"] == "test-job"


def test_g01_every_pod_is_labelled() -> None:
    made = built(JOB.nodes(30), runtime())
    for job in made.jobs:
        labels = made.pod_template(job)["metadata"]["labels"]
        assert labels == {"scheduling.x-k8s.io/pod-group": "test-job"}


@pytest.mark.parametrize(("given", "wanted"), [(None, 60), (0, 0), (5, 5)])
def test_the_timeout(given: int | None, wanted: int) -> None:
    assert group(built(JOB, runtime(timeout=given)))["scheduleTimeoutSeconds"] == wanted


def test_g02_amounts_are_added_exactly() -> None:
    small = container("main", resources=cpu("250m", memory="512Mi"))
    runtime_ = (
        PLAIN.node(container("node", resources=cpu("500m", memory="1Gi")))
        .job("x", containers=[small])
        .coscheduling()
    )
    found = group(built(JOB.nodes(2), runtime_))
    assert found["minMember"] == 3
    assert found["minResources"] == {"cpu": "1250m", "memory": "2560Mi"}


def test_g04_a_hundred_nodes() -> None:
    big = container("node", resources=cpu("1", memory="4Gi"))
    out = PLAIN
    for name in ("dataset-initializer", "model-initializer"):
        out = out.job(name, name, containers=[container(name, resources=cpu("1", memory="4Gi"))])
    found = group(built(JOB.nodes(100), out.node(big).coscheduling()))
    assert (found["minMember"], found["minResources"]) == (102, {"cpu": "102", "memory": "408Gi"})


SEEN: list[tuple[str, str]] = [("2.0", "2"), ("2.1", "2"), ("2.2", "8"), ("2.3", "8")]


@pytest.mark.parametrize(("line", "wanted"), SEEN)
def test_b025_the_trainjobs_resources_are_seen_since_2_2(line: str, wanted: str) -> None:
    runtime_ = PLAIN.node(container("node", resources=cpu("1"))).coscheduling()
    found = group(built(JOB.nodes(2).resources(requests={"cpu": "4"}), runtime_, line=line))
    assert found["minResources"] == {"cpu": wanted}


def test_g23_replicas_do_not_count_and_limits_alone_neither() -> None:
    """The controller's faults: what the gang needs is in the annotation of PodGroupTotals."""
    limits = resources(limits={"nvidia.com/gpu": "2"})
    runtime_ = (
        PLAIN.node(container("node", resources=limits))
        .job("x", replicas=3, job_spec={"parallelism": 2})
        .coscheduling()
    )
    found = group(built(JOB.nodes(2), runtime_))
    assert found["minMember"] == 4
    assert found.get("minResources", {}) == {}


def test_g03_without_the_policy_there_is_no_pod_group() -> None:
    made = built(JOB, PLAIN.node())
    assert made.of_kind("PodGroup") == []
    assert made.pod_template().get("metadata") in (None, {})


def waiting(status: str) -> MakeRuntime:
    return (
        PLAIN.job("first", pod=GANG)
        .node(depends_on={"first": status}, pod=GANG)
        .coscheduling(scheduleTimeoutSeconds=60)
    )


WARNINGS: dict[str, tuple[MakeRuntime, tuple[str, ...]]] = {
    "G23 a job that waits by dependsOn": (waiting("Complete"), (f"but node {NEVER}",)),
    "G23 also for Ready": (waiting("Ready"), (f"but node {NEVER}",)),
    "no schedulerName": (PLAIN.node().coscheduling(), (f"job node {IGNORED}",)),
    "nothing": (runtime(), ()),
}


@table(WARNINGS)
def test_jobs_and_runtimes_are_warned(case: tuple[MakeRuntime, tuple[str, ...]]) -> None:
    check(Case(job=JOB.nodes(1), runtime=case[0], warns=case[1]))
    check_runtime(RuntimeCase(runtime=case[0], warns=case[1]))


RUNTIMES: dict[str, RuntimeCase] = {
    "both gang policies are refused": RuntimeCase(
        runtime=runtime().volcano(),
        refused=(forbidden(POLICY, "only one of coscheduling and volcano"),),
    ),
    "one passes": RuntimeCase(runtime=runtime()),
    "B033 a negative timeout is refused": RuntimeCase(
        runtime=runtime(timeout=-5),
        refused=(invalid(f"{POLICY}.coscheduling.scheduleTimeoutSeconds", "-5", "at least 0"),),
    ),
    "B033 a timeout of 0 is not the default, which is a warning": RuntimeCase(
        runtime=runtime(timeout=0), warns=("scheduleTimeoutSeconds is 0",)
    ),
    "B033 a huge timeout is a warning": RuntimeCase(
        runtime=runtime(timeout=99999999), warns=("scheduleTimeoutSeconds is 99999999",)
    ),
    "what is stored is no reason to refuse": RuntimeCase(
        old=runtime().volcano(), runtime=runtime().volcano().nodes(2)
    ),
}


@table(RUNTIMES)
def test_runtimes(case: RuntimeCase) -> None:
    check_runtime(case)


def test_updates_of_both_kinds_are_judged() -> None:
    refused = (forbidden(POLICY),)
    old, new = runtime(), runtime().volcano()
    check_runtime(RuntimeCase(old=old, runtime=new, refused=refused))
    check_runtime(RuntimeCase(old=old.namespaced(), runtime=new.namespaced(), refused=refused))
