"""Totals of whole TrainJobs: against the record of Trainer and kueue, and against every set of jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import lines
from plugins.framework import totals as module
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.info import Info
from plugins.framework.quantity import BINARY_SI, DECIMAL_SI, Quantity, add, canonical, mul, parse
from plugins.framework.resolve import resolve
from plugins.framework.resources import compile_pod, template_requests
from plugins.framework.runtime import CompiledRuntime
from plugins.framework.totals import MOST_PEAKS, Part, Totals, totals
from tests.builders import make_runtime, make_train_job
from tests.hangs import no_hang

DATA = Path(__file__).parents[2] / "data" / "vectors"
VECTORS: list[dict[str, Any]] = json.loads(
    (DATA / "trainjob-podgroup-today.json").read_text("utf-8")
)["vectors"]
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"


def texts(amounts: Any) -> dict[str, str]:
    return {name: canonical(amount) for name, amount in amounts.items()}


def everything(result: Totals) -> dict[str, Quantity]:
    """The sum over all jobs, whenever they run: what kueue reserves."""
    out: dict[str, Quantity] = {}
    for own in result.per_part.values():
        for name, amount in own.items():
            out[name] = add(out[name], amount) if name in out else amount
    return out


def part(name: str, count: int = 1, *after: str, **requests: str) -> Part:
    """``after`` as ``job:Complete``; ``requests`` of one pod."""
    return Part(
        name=name,
        count=count,
        requests={resource: parse(text) for resource, text in requests.items()},
        depends_on=tuple((link.split(":")[0], link.split(":")[1]) for link in after),
    )


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One replicated job of a vector: its pod with the TrainJob's resources merged in, and its counts."""

    name: str
    pod: dict[str, Any]
    own: dict[str, Any] | None
    depends_on: tuple[tuple[str, str], ...]
    counts: dict[str, int]


def recorded(vector: dict[str, Any]) -> list[Recorded]:
    spec = vector["runtime"]["spec"]
    policy = spec.get("mlPolicy")
    per_node = vector["trainJob"]["spec"].get("trainer", {}).get("resourcesPerNode", {})
    jobs = []
    for job, counts in zip(
        spec["template"]["spec"]["replicatedJobs"], vector["jobSet"], strict=True
    ):
        labels = job["template"].get("metadata", {}).get("labels", {})
        takes = policy is not None and (
            labels.get(ANCESTOR) == "trainer" or policy.get("mpi", {}).get("runLauncherAsNode")
        )
        pod = job["template"]["spec"]["template"]["spec"]
        first = pod["containers"][0]
        own = None
        if takes and first["name"] == "node":
            base = first.get("resources", {})
            own = {k: {**base.get(k, {}), **per_node.get(k, {})} for k in ("limits", "requests")}
            pod = {**pod, "containers": [{**first, "resources": own}, *pod["containers"][1:]]}
        links = tuple((d["name"], d["status"]) for d in job.get("dependsOn", []))
        jobs.append(Recorded(name=job["name"], pod=pod, own=own, depends_on=links, counts=counts))
    return jobs


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_the_sum_of_all_jobs_is_what_kueue_reserves(vector: dict[str, Any]) -> None:
    parts = []
    for job, pod_set in zip(recorded(vector), vector["kueuePodSets"], strict=True):
        compiled = compile_pod(job.pod)
        requests = (
            compiled.requests if job.own is None else compiled.with_container("node", job.own)
        )
        assert texts(requests) == pod_set["requests"]
        pods = job.counts["replicas"] * min(job.counts["parallelism"], job.counts["completions"])
        assert pods == pod_set["count"]
        parts.append(Part(name=job.name, count=pods, requests=requests, depends_on=job.depends_on))
    result = totals(parts)
    assert texts(everything(result)) == vector["kueueTotal"]
    if not any(status == "Complete" for p in parts for _, status in p.depends_on):
        assert result.members == sum(pod_set["count"] for pod_set in vector["kueuePodSets"])
        assert result.resources == everything(result)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_the_trainers_own_sum_can_be_foretold(vector: dict[str, Any]) -> None:
    """It leaves replicas out, limits too, and adds up jobs that never run together."""
    parts = [
        Part(name=job.name, count=job.counts["parallelism"], requests=template_requests(job.pod))
        for job in recorded(vector)
    ]
    group = vector["trainerPodGroup"]["spec"]
    result = totals(parts)
    assert result.members == group["minMember"]
    assert texts(result.resources) == group["minResources"]


def test_the_vectors_are_all_there() -> None:
    assert len(VECTORS) == 26


@dataclass(frozen=True, kw_only=True)
class Case:
    parts: list[Part]
    members: int
    resources: dict[str, str] = field(default_factory=dict)


DATASET = part("dataset-initializer", 1, cpu="1", memory="2Gi")
MODEL = part("model-initializer", 1, cpu="2", memory="8Gi")
CASES = {
    "initializers are over before the nodes start": Case(
        parts=[
            DATASET,
            MODEL,
            part(
                "node",
                30,
                "dataset-initializer:Complete",
                "model-initializer:Complete",
                cpu="4",
                memory="16Gi",
            ),
        ],
        members=30,
        resources={"cpu": "120", "memory": "480Gi"},
    ),
    "initializers can be the peak": Case(
        parts=[
            DATASET,
            MODEL,
            part(
                "node",
                1,
                "dataset-initializer:Complete",
                "model-initializer:Complete",
                cpu="2",
                memory="9Gi",
            ),
        ],
        members=2,
        resources={"cpu": "3", "memory": "10Gi"},
    ),
    "each resource has its own peak": Case(
        parts=[
            part("prep", 1, memory="64Gi", cpu="1"),
            part("node", 2, "prep:Complete", cpu="4", memory="1Gi"),
        ],
        members=2,
        resources={"memory": "64Gi", "cpu": "8"},
    ),
    "with Ready the earlier job still runs": Case(
        parts=[part("node", 4, cpu="4"), part("launcher", 1, "node:Ready", cpu="500m")],
        members=5,
        resources={"cpu": "16500m"},
    ),
    "the last link decides: over through a Ready in between": Case(
        parts=[
            part("prep", 8, cpu="1"),
            part("node", 4, "prep:Complete", cpu="1"),
            part("launcher", 1, "node:Ready", cpu="1"),
        ],
        members=8,
        resources={"cpu": "8"},
    ),
    "the last link decides: Ready at the end of a chain keeps the first job running": Case(
        parts=[
            part("server", 8, cpu="1"),
            part("node", 4, "server:Ready", cpu="1"),
            part("eval", 5, "node:Complete", cpu="1"),
        ],
        members=13,
        resources={"cpu": "13"},
    ),
    "of two links to one job the stronger counts": Case(
        parts=[part("a", 2), part("b", 3, "a:Ready", "a:Complete")], members=3
    ),
    "jobs that do not know each other run together": Case(
        parts=[part("a", 2, cpu="1"), part("b", 3, cpu="1"), part("c", 1, "a:Complete", cpu="1")],
        members=5,
        resources={"cpu": "5"},
    ),
    "the text follows the jobs of the peak, not those before it": Case(
        parts=[part("prep", 1, memory="500M"), part("node", 2, "prep:Complete", memory="1Gi")],
        members=2,
        resources={"memory": "2Gi"},
    ),
    "the text of a sum follows the first job": Case(
        parts=[part("prep", 1, memory="500M"), part("node", 2, memory="1Gi")],
        members=3,
        resources={"memory": "2647483648"},
    ),
    "a request of 0 stays in the total": Case(
        parts=[part("prep", 1, cpu="0"), part("node", 1, "prep:Complete", memory="0Ki", gpu="1")],
        members=1,
        resources={"cpu": "0", "memory": "0", "gpu": "1"},
    ),
    "no pods": Case(
        parts=[part("prep"), part("node", 0, "prep:Complete", cpu="4")],
        members=1,
        resources={"cpu": "0"},
    ),
    "links to itself, to a later and to an unknown job make nothing smaller": Case(
        parts=[
            part("a", 2, "b:Complete", cpu="1"),
            part("b", 3, "b:Complete", "x:Complete", cpu="1"),
        ],
        members=5,
        resources={"cpu": "5"},
    ),
    "no jobs": Case(parts=[], members=0),
}


@pytest.mark.parametrize("most_sets", [module.MOST_SETS, 0], ids=["set by set", "by the flow"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_peaks(case: Case, most_sets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SETS", most_sets)
    result = totals(case.parts)
    assert result.members == case.members
    assert texts(result.resources) == case.resources
    assert result.exact


def test_each_job_has_its_own_total() -> None:
    result = totals([DATASET, part("node", 4, "dataset-initializer:Complete", cpu="1500m")])
    assert {name: texts(own) for name, own in result.per_part.items()} == {
        "dataset-initializer": {"cpu": "1", "memory": "2Gi"},
        "node": {"cpu": "6"},
    }
    assert texts(everything(result)) == {"cpu": "7", "memory": "2Gi"}


def test_huge_counts_stay_exact() -> None:
    biggest = mul(parse("999E"), 2**31 - 1)
    result = totals([part("a", 2**31 - 1, memory="999E"), part("b", 1, "a:Complete", memory="1n")])
    assert result.resources["memory"] == biggest


def is_over(parts: Sequence[Part], earlier: int, later: int) -> bool:
    """Follow every chain of links from the later job back, as the definition says."""
    places = {p.name: i for i, p in enumerate(parts)}
    seen, to_see = set(), [later]
    while to_see:
        here = to_see.pop()
        for name, status in parts[here].depends_on:
            if places[name] == earlier and status == "Complete":
                return True
            if places[name] not in seen:
                seen.add(places[name])
                to_see.append(places[name])
    return False


def peak_of_all_sets(parts: Sequence[Part], weights: Sequence[int]) -> int:
    together = [
        [not is_over(parts, a, b) and not is_over(parts, b, a) for b in range(len(parts))]
        for a in range(len(parts))
    ]
    best = 0
    for mask in range(1 << len(parts)):
        chosen = [i for i in range(len(parts)) if mask >> i & 1]
        if all(together[a][b] for a in chosen for b in chosen):
            best = max(best, sum(weights[i] for i in chosen))
    return best


@st.composite
def job_lists(draw: st.DrawFn, most: int = 7) -> list[Part]:
    parts: list[Part] = []
    amounts = st.builds(Quantity, st.integers(0, 20), st.sampled_from([DECIMAL_SI, BINARY_SI]))
    for i in range(draw(st.integers(0, most))):
        links = st.tuples(
            st.sampled_from([p.name for p in parts] or [""]), st.sampled_from(["Ready", "Complete"])
        )
        parts.append(
            Part(
                name=f"j{i}",
                count=draw(st.integers(0, 4)),
                requests=draw(st.dictionaries(st.sampled_from(["cpu", "memory"]), amounts)),
                depends_on=tuple(draw(st.lists(links, max_size=3))) if parts else (),
            )
        )
    return parts


@pytest.mark.parametrize("most_sets", [module.MOST_SETS, 3, 0])
def test_peaks_are_those_of_the_heaviest_of_all_sets(
    most_sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SETS", most_sets)

    @given(job_lists())
    def check(parts: list[Part]) -> None:
        result = totals(parts)
        assert result.members == peak_of_all_sets(parts, [p.count for p in parts])
        for name in ("cpu", "memory"):
            weights = [p.count * p.requests[name].nano if name in p.requests else 0 for p in parts]
            peak = result.resources.get(name)
            assert (peak.nano if peak else 0) == peak_of_all_sets(parts, weights)
        assert result.resources.keys() == everything(result).keys()

    check()


@given(job_lists(most=16))
def test_both_ways_find_the_same_peak(parts: list[Part]) -> None:
    later = module._later(parts)
    weights = [p.count for p in parts]
    by_flow = module._heaviest(weights, later, [])
    sets: Sequence[Sequence[int]] = module._sets(later) or [by_flow]
    tried = module._heaviest(weights, later, sets)
    assert sum(weights[i] for i in by_flow) == sum(weights[i] for i in tried)
    for chosen in (by_flow, tried):
        assert list(chosen) == sorted(set(chosen))
        assert not any(later[a] >> b & 1 for a in chosen for b in chosen)


def pairs(count: int, resources: int) -> list[Part]:
    """``count`` initializers, each with a successor of its own: 2^count sets of jobs."""
    requests = {f"example.com/r{i}": "1" for i in range(resources)}
    earlier = [part(f"a{i}", i % 7 + 1, **requests) for i in range(count)]
    return [*earlier, *(part(f"b{i}", 4, f"a{i}:Complete", **requests) for i in range(count))]


def test_a_hundred_jobs_are_exact() -> None:
    with no_hang():
        result = totals(pairs(50, resources=5))
    assert result.exact
    assert result.members == sum(max(i % 7 + 1, 4) for i in range(50))
    assert set(texts(result.resources).values()) == {str(result.members)}


def test_beyond_the_bound_the_sum_stands_in_for_the_peak() -> None:
    parts = pairs(50, resources=MOST_PEAKS // 100 + 1)
    result = totals(parts)
    assert not result.exact
    assert result.resources == everything(result)
    assert result.members == sum(max(i % 7 + 1, 4) for i in range(50))


def test_many_resources_of_few_jobs_stay_exact() -> None:
    parts = pairs(1, resources=MOST_PEAKS)
    assert totals(parts).exact


# Kept by runtime


def test_totals_of_one_runtime_are_kept_and_never_those_of_another_job() -> None:
    runtime = CompiledRuntime(make_runtime("r").torch().node().obj, lines.NEWEST)

    def info(nodes: int, cpu: str) -> Info:
        job = make_train_job().nodes(nodes).resources({"cpu": cpu}).obj
        found = resolve(TrainJob(job), runtime)
        found.pod_sets[0].count = nodes
        return found

    first = module.of(info(2, "4"))
    assert module.of(info(2, "4")) is first
    amounts = [
        (asked.members, canonical(asked.resources["cpu"]))
        for asked in (module.of(info(n, cpu)) for n, cpu in ((2, "4"), (3, "4"), (2, "5")))
    ]
    assert amounts == [(2, "8"), (3, "12"), (2, "10")]


def test_no_more_totals_are_kept_than_there_is_room_for() -> None:
    runtime = CompiledRuntime(make_runtime("r").torch().node().obj, lines.NEWEST)
    for cpu in range(1, 200):
        job = make_train_job().resources({"cpu": str(cpu)}).obj
        module.of(resolve(TrainJob(job), runtime))
    [kept] = [v for v in runtime.memo.values() if isinstance(v, dict)]
    assert 0 < len(kept) <= 64
