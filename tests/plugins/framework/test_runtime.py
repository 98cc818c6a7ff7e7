"""A runtime compiled: its policy, its jobs, and which of them take what of a TrainJob."""

from __future__ import annotations

import pytest

from plugins.framework.lines import LINES as FACTS
from plugins.framework.runtime import CompiledRuntime
from tests.builders import Json, MakeRuntime, container, make_runtime
from tests.plugins.kit import LINES, compiled, table

PLAIN = make_runtime().plain()


POLICIES: dict[str, tuple[MakeRuntime, str]] = {
    "torch": (make_runtime().torch().node(), "torch"),
    "mpi": (make_runtime().mpi().node(), "mpi"),
    "jax": (make_runtime().jax().node(), "jax"),
    "xgboost": (make_runtime().xgboost().node(), "xgboost"),
    "flux": (make_runtime().flux().node(), "flux"),
    "an empty mlPolicy": (PLAIN.node(), ""),
    "no mlPolicy": (make_runtime().node(), ""),
}


@table(POLICIES)
def test_the_policy(case: tuple[MakeRuntime, str]) -> None:
    assert compiled(case[0]).policy == case[1]


@pytest.mark.parametrize(("given", "wanted"), [(None, 1), (0, 0), (-3, -3), (5, 5)])
def test_num_nodes_are_1_where_they_are_unset(given: int | None, wanted: int) -> None:
    runtime = PLAIN.node() if given is None else PLAIN.nodes(given).node()
    assert compiled(runtime).num_nodes == wanted


def test_jobs_are_found_by_name_in_the_order_of_the_template() -> None:
    runtime = compiled(PLAIN.job("a").job("node", "trainer").job("more", "trainer"))
    assert runtime.job_names == ["a", "node", "more"]
    assert runtime.job("node") is runtime.trainer_job
    assert runtime.job("nope") is None


def test_g43_an_ancestor_on_pods_is_none() -> None:
    label = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    runtime = compiled(PLAIN.job("node", pod_metadata=label))
    assert runtime.trainer_job is None
    assert runtime.jobs[0].ancestor is None


def test_a_job_knows_its_counts_names_and_what_it_waits_for() -> None:
    runtime = PLAIN.job(
        "x",
        containers=[container("a"), container("b")],
        pod={"initContainers": [container("i")]},
        depends_on={"y": "Ready", "z": "Complete"},
        replicas=2,
        job_spec={"parallelism": 3},
    )
    [job] = compiled(runtime).jobs
    assert (job.replicas, job.parallelism) == (2, 3)
    assert (sorted(job.names), sorted(job.init_names)) == (["a", "b"], ["i"])
    assert job.depends_on == (("y", "Ready"), ("z", "Complete"))
    assert job.container("b") == job.containers[1]
    assert job.container("i") is None


def test_0_1_5_replicas_0_are_1() -> None:
    assert compiled(PLAIN.job("x", replicas=0)).jobs[0].replicas == 1


# Who takes resourcesPerNode (3.6)

BOTH = make_runtime().mpi(runLauncherAsNode=True).job("node").job("launcher", "trainer").job("x")
APART = make_runtime().mpi().job("node").job("launcher", "trainer").job("x")
TAKERS: dict[str, tuple[MakeRuntime, str, list[str]]] = {
    "2.3 the trainer": (APART, "2.3", ["launcher"]),
    "2.3 workers where the launcher is a node": (BOTH, "2.3", ["node", "launcher"]),
    "2.2 the same": (BOTH, "2.2", ["node", "launcher"]),
    "2.1 the same": (BOTH, "2.1", ["node", "launcher"]),
    "2.0 the trainer only": (BOTH, "2.0", ["launcher"]),
    "2.3 nobody without an mlPolicy": (make_runtime().node(), "2.3", []),
    "2.2 the trainer without an mlPolicy": (make_runtime().node(), "2.2", ["node"]),
}


@table(TAKERS)
def test_who_takes_resources(case: tuple[MakeRuntime, str, list[str]]) -> None:
    runtime = compiled(case[0], case[1])
    assert [job.name for job in runtime.jobs if runtime.takes_resources(job)] == case[2]


# Digest


def test_the_digest_is_that_of_the_spec_alone() -> None:
    runtime = PLAIN.node()
    digest = compiled(runtime).digest
    assert digest.startswith("sha256:")
    assert len(digest) == len("sha256:") + 64
    assert compiled(runtime.label("a", "b")).digest == digest
    assert compiled(runtime.namespaced()).digest == digest
    assert compiled(runtime.nodes(2)).digest != digest


def test_the_order_of_keys_is_nothing_to_the_digest() -> None:
    a = make_runtime().torch().nodes(2).node()
    b = make_runtime().nodes(2).torch().node()
    assert compiled(a).digest == compiled(b).digest


@pytest.mark.parametrize("line", LINES)
def test_a_runtime_without_a_template_has_no_jobs(line: str) -> None:
    shapes: list[Json] = [
        {},
        {"spec": None},
        {"spec": {"template": {}}},
        {"spec": {"template": {"spec": []}}},
    ]
    for raw in shapes:
        runtime = CompiledRuntime(raw, FACTS[line])
        assert runtime.jobs == ()
        assert runtime.trainer_job is None
        assert runtime.subdomain is None
