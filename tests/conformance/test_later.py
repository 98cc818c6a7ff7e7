"""Refused later: by JobSet's own webhook and the API server's own validation, where the program is built."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import build, ledger
from tests.conformance.build import build_later, later_is_built
from tests.conformance.later import FEW, MENDS, PROOFS, STAGES, Later, Proof, Samples

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
    assert MENDS.keys() <= PROOFS.keys()


def test_only_some_cases_of_a_row_are_kept() -> None:
    samples = Samples()
    for number in range(60):
        samples.add({"S10-derived-names", "S12-totals-past-int64"}, {"id": str(number)}, {})
        samples.add({"S10-derived-names"}, {"id": str(number)}, {"runtime": {}, "objects": []})
        answer = {"runtime": {"spec": {}}, "objects": []}
        samples.add({"S10-derived-names"}, {"id": str(number)}, answer)
    assert samples.kept.keys() == {"S10-derived-names"}
    assert len(samples.kept["S10-derived-names"]) == 50


def test_a_row_holds_while_nearly_all_are_refused() -> None:
    proof = Proof(passed=["a"])
    proof.by["JobSet's webhook"] += 9
    assert proof.holds
    assert str(proof) == "asked 10, later refused 9 (JobSet's webhook 9), NOT refused 1: a"
    proof.passed.append("b")
    assert not proof.holds


def test_too_few_cases_have_no_share() -> None:
    assert Proof(passed=["a"]).holds
    assert not Proof(passed=["a"] * FEW).holds
