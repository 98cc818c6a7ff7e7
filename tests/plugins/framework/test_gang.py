"""The arithmetic of the controller's PodGroups, faults included (semantics 5.1)."""

from __future__ import annotations

import pytest

from plugins.framework import gang
from plugins.framework.errors import BuildError
from tests.builders import Json, MakeRuntime, container, make_runtime, make_train_job, resources
from tests.plugins.kit import Case, compiled, resolve, table

JOB = make_train_job()
PLAIN = make_runtime().plain()


def cpu(amount: str) -> Json:
    return resources(requests={"cpu": amount})


def node(given: Json, **pod: object) -> MakeRuntime:
    return PLAIN.node(container("node", resources=given), pod=dict(pod))


SUMS: dict[str, tuple[MakeRuntime, dict[str, str]]] = {
    "count times requests": (node(cpu("500m")), {"cpu": "1"}),
    "limits alone are nothing": (node(resources(limits={"cpu": "1"})), {}),
    "an init container that asks for more": (
        node(cpu("1"), initContainers=[container("i", resources=cpu("3"))]),
        {"cpu": "6"},
    ),
    "a sidecar": (
        node(cpu("1"), initContainers=[container("s", resources=cpu("1"), restartPolicy="Always")]),
        {"cpu": "4"},
    ),
    "overhead": (node(cpu("1"), overhead={"cpu": "500m"}), {"cpu": "3"}),
    "0.1.7 pod-level requests replace the sum for cpu and memory only": (
        node(
            resources(requests={"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1}),
            resources={"requests": {"cpu": "3"}},
        ),
        {"cpu": "6", "memory": "2Gi", "nvidia.com/gpu": "2"},
    ),
    "replicas do not count": (
        PLAIN.node(container("node")).job(
            "x", replicas=5, containers=[container("x", resources=cpu("1"))]
        ),
        {"cpu": "1"},
    ),
}


@pytest.mark.parametrize("line", ["2.0", "2.1", "2.2", "2.3"])
@table(SUMS)
def test_sums(line: str, case: tuple[MakeRuntime, dict[str, str]]) -> None:
    runtime, wanted = case
    info = resolve(Case(job=JOB.nodes(2), runtime=runtime, line=line))
    assert gang.controller_gang(info).resources == wanted


@pytest.mark.parametrize(("line", "wanted"), [("2.0", "4Mi"), ("2.1", "8Mi"), ("2.3", "8Mi")])
def test_0_1_7_hugepages_at_pod_level_count_from_2_1(line: str, wanted: str) -> None:
    own = resources(requests={"cpu": "1", "hugepages-2Mi": "2Mi"})
    runtime = node(own, resources={"requests": {"hugepages-2Mi": "4Mi"}})
    info = resolve(Case(job=JOB.nodes(2), runtime=runtime, line=line))
    assert gang.controller_gang(info).resources == {"cpu": "2", "hugepages-2Mi": wanted}


def test_an_amount_that_cannot_be_read_is_no_fault_of_ours() -> None:
    info = resolve(Case(job=JOB, runtime=node(cpu("1e102"))))
    with pytest.raises(BuildError, match="1e102"):
        gang.controller_gang(info)


def test_members_are_the_counts_whatever_the_replicas() -> None:
    runtime = PLAIN.initializers().node().job("x", replicas=5, job_spec={"parallelism": 2})
    info = resolve(Case(job=JOB.nodes(4), runtime=runtime))
    assert gang.controller_gang(info).members == 1 + 1 + 4 + 2


def test_asking_twice_gives_the_same() -> None:
    info = resolve(Case(job=JOB.nodes(2), runtime=node(resources(requests={"memory": "0.5Gi"}))))
    assert gang.controller_gang(info) == gang.controller_gang(info)


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ({}, []),
        ({"volcano": {}}, ["volcano"]),
        ({"volcano": {}, "coscheduling": {}}, ["coscheduling", "volcano"]),
        ({"coscheduling": None}, []),
    ],
)
def test_policies(policy: Json, wanted: list[str]) -> None:
    assert gang.policies(policy) == wanted


def test_every_job_that_waits_or_names_no_scheduler_is_named() -> None:
    runtime = (
        PLAIN.job("a", pod={"schedulerName": "gang"})
        .job("b", depends_on={"a": "Complete"})
        .node(depends_on={"b": "Ready"})
    )
    jobs = compiled(runtime).jobs
    waits, scheduler = gang.warn_about_gang(jobs, corrected=False)
    assert "but b, node waits" in waits
    assert scheduler.startswith("job b, node names no schedulerName")
    assert gang.warn_about_gang(jobs, corrected=True) == [scheduler]
