"""Refused later: by JobSet's own webhook and the API server's own validation, where the program is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance import build, ledger
from tests.conformance.build import build_later, later_is_built
from tests.conformance.later import (
    MENDS,
    PROOFS,
    STAGES,
    UNDONE,
    Json,
    Later,
    Proof,
    Samples,
    prove,
)
from tests.conformance.oracle import Oracle
from tests.conformance.tally import Tally

needs_later = pytest.mark.skipif(
    not later_is_built(), reason="the program is not built: python -m tests.conformance.build"
)


def job_set(**container: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "node", "image": "x"} | container]}
    counts = {"parallelism": 1, "completions": 1}
    job = {"name": "node", "template": {"spec": counts | {"template": {"spec": pod}}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"replicatedJobs": [job]},
    }


def named(name: str) -> dict[str, Any]:
    made = job_set()
    made["metadata"]["name"] = name
    return made


def counting(count: int) -> dict[str, Any]:
    made = job_set()
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] = count
    return made


def of_class(name: str) -> dict[str, Any]:
    made = job_set()
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["priorityClassName"] = name
    return made


def suspended(**container: Any) -> dict[str, Any]:
    made = job_set(**container)
    made["spec"]["suspend"] = True
    return made


def without_containers() -> dict[str, Any]:
    made = job_set()
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] = {}
    return made


MOUNTS = [{"name": "v", "mountPath": "/v"}]
CASES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a sound JobSet passes": ({"objects": [job_set()]}, {}),
    "a pod without containers": (
        {"objects": [without_containers()]},
        {
            "jobSetSchema": "spec.replicatedJobs[0].template.spec.template.spec.containers",
            "jobs": "spec.template.spec.containers",
            "pods": "spec.containers",
        },
    ),
    "a name at the limit passes": ({"objects": [named("x" * 48)]}, {}),
    "a name past the limit": (
        {"objects": [named("x" * 49)]},
        {"jobSet": "spec.replicatedJobs[0].name"},
    ),
    "no image": (
        {"objects": [job_set(image="")]},
        {"jobs": "spec.template.spec.containers[0].image", "pods": "spec.containers[0].image"},
    ),
    "a mount of nothing": (
        {"objects": [job_set(volumeMounts=MOUNTS)]},
        {
            "jobs": "spec.template.spec.containers[0].volumeMounts[0].name",
            "pods": "spec.containers[0].volumeMounts[0].name",
        },
    ),
    "less than no pods": ({"objects": [counting(-1)]}, {"jobs": "spec.parallelism"}),
    "a class that nobody made": ({"objects": [of_class("high")]}, {"pods": ""}),
    "a class that is there": (
        {
            "objects": [of_class("high")],
            "cluster": [
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": "high"},
                    "value": 1000,
                }
            ],
        },
        {},
    ),
    "a class of the system's own": ({"objects": [of_class("system-node-critical")]}, {}),
    "a new image in a JobSet that exists": (
        {"objects": [suspended(image="y")], "old": [suspended()]},
        {"jobSet": "spec.replicatedJobs"},
    ),
    "a ConfigMap past 1 MiB": (
        {
            "objects": [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "a", "namespace": "default"},
                    "data": {"hostfile": "x" * (1 << 20) + "x"},
                }
            ]
        },
        {"configMaps": "[]"},
    ),
}


@needs_later
@pytest.mark.parametrize("name", CASES)
def test_who_refuses(name: str) -> None:
    case, wanted = CASES[name]
    [answer] = Later().run([{"id": "a", "old": [], "cluster": [], **case}])
    found = {stage: answer[stage][0]["field"] for stage in STAGES if stage in answer}
    assert found == wanted


@needs_later
def test_it_is_built_from_the_versions_that_the_design_names() -> None:
    text = build_later().crd.read_text(encoding="utf-8")
    assert "jobsets.jobset.x-k8s.io" in text
    module = (build.SOURCES / "later" / "go.mod").read_text(encoding="utf-8")
    assert "k8s.io/kubernetes v1.36.3" in module
    assert "sigs.k8s.io/jobset v0.12.0" in module


def test_a_row_that_names_somebody_can_be_proven_and_no_other() -> None:
    for row in ledger.ALL_ROWS:
        assert bool(row.later) == bool(row.proof), row.id
    assert MENDS.keys() | UNDONE.keys() <= PROOFS.keys()


def test_only_some_cases_of_a_row_are_kept() -> None:
    samples = Samples()
    for number in range(60):
        samples.add({"S10-derived-names", "S12-totals-past-int64"}, {"id": str(number)}, {})
        samples.add({"S10-derived-names"}, {"id": str(number)}, {"runtime": {}, "objects": []})
        answer = {"runtime": {"spec": {}}, "objects": []}
        samples.add({"S10-derived-names"}, {"id": str(number)}, answer)
    assert samples.kept.keys() == {"S10-derived-names"}
    assert len(samples.kept["S10-derived-names"]) == 50


@dataclass(frozen=True, slots=True)
class FakeOracle(Oracle):
    """Builds what a function makes of a case; a text is the error that the controller ends with."""

    made: Callable[[Json], Json | str]

    def run(self, cases: Iterable[Json]) -> list[Json]:
        answers = [self.made(case) for case in cases]
        return [{"buildError": a} if isinstance(a, str) else {"objects": [a]} for a in answers]


class Nobody(Later):
    """Refuses nothing."""

    def run(self, cases: Sequence[Json]) -> list[Json]:
        return [{} for _ in cases]


def mpi_runtime(*jobs: str) -> Json:
    template = {"spec": {"replicatedJobs": [{"name": name} for name in jobs]}}
    spec = {"mlPolicy": {"mpi": {"mpiImplementation": ""}}, "template": template}
    return {"kind": "TrainingRuntime", "metadata": {"name": "r"}, "spec": spec}


def mpi_built(case: Json) -> Json | str:
    """As the Trainer does: the implementation matters where there is a launcher to set it up."""
    spec = case["runtime"]["spec"]
    jobs = [job["name"] for job in spec["template"]["spec"]["replicatedJobs"]]
    implementation = spec["mlPolicy"]["mpi"]["mpiImplementation"]
    if "launcher" in jobs and not implementation:
        return "MPI implementation for  doesn't supported"
    return job_set()


JOB = {
    "metadata": {"name": "long"},
    "spec": {
        "runtimePatches": [
            {"containers": [{"volumeMounts": [{"mountPath": "/a", "name": "missing"}]}]}
        ]
    },
}


def mount_built(case: Json) -> Json:
    """As a patch has it, if there is one."""
    patches = case["trainJob"]["spec"].get("runtimePatches", ())
    return job_set(volumeMounts=[m for p in patches for m in p["containers"][0]["volumeMounts"]])


def volume_built(*sources: str) -> Callable[[Json], Json]:
    """Make a volume of these sources of a patch, if there is one."""

    def made(case: Json) -> Json:
        patched = "runtimePatches" in case["trainJob"]["spec"]
        made = job_set()
        pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        pod["volumes"] = [{"name": "v"} | {key: {} for key in sources}] if patched else []
        return made

    return made


Reasoned = tuple[str, Json, Json | None, Callable[[Json], Json | str], str]
REASONS: dict[str, Reasoned] = {
    "an implementation that nobody knows is refused with a launcher": (
        "S22-runtimes-for-the-controller",
        mpi_runtime("launcher"),
        None,
        mpi_built,
        "later refused 1 (the Trainer's controller 1)",
    ),
    "an implementation that nobody knows harms no job without a launcher": (
        "S22-runtimes-for-the-controller",
        mpi_runtime("node"),
        None,
        mpi_built,
        "later refused 0, undone 1",
    ),
    "where the controller fails on something else, there is nothing to refuse": (
        "S22-runtimes-for-jobset",
        mpi_runtime("launcher"),
        None,
        mpi_built,
        "later refused 0, not built 1",
    ),
    "the second source of a volume is refused as such": (
        "S25-pieces-of-pods",
        mpi_runtime(),
        JOB,
        volume_built("secret", "downwardAPI"),
        "later refused 0, undone 1",
    ),
    "what is in the only source must be refused": (
        "S25-pieces-of-pods",
        mpi_runtime(),
        JOB,
        volume_built("downwardAPI"),
        "later refused 0, NOT refused 1: a",
    ),
    "where it is built, somebody must refuse it": (
        "S2-mount-of-nothing",
        mpi_runtime(),
        JOB,
        mount_built,
        "later refused 0, NOT refused 1: a",
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_what_nobody_refuses_needs_a_reason(name: str) -> None:
    row, runtime, job, made, wanted = REASONS[name]
    case = {"id": "a", "runtime": runtime, "objects": []}
    proofs = prove(FakeOracle("2.3", made), Nobody(), {row: [(case, {"trainJob": job})]})
    assert {row: str(proof) for row, proof in proofs.items()} == {row: f"asked 1, {wanted}"}


def test_one_case_without_a_reason_fails_the_run() -> None:
    proof = Proof(anyway=1, idle=1, undone=1)
    proof.by["JobSet's webhook"] += 9
    tally = Tally(line="2.3", proofs={"S10-derived-names": proof})
    assert tally.failed == 0
    proof.passed.append("a")
    assert tally.unproven == ["S10-derived-names"]
    assert tally.failed == 1
