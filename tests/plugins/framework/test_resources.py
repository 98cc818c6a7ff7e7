"""Effective requests against what Kubernetes' own code answers, and the reasons for which pods are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework.quantity import Quantity, QuantityError, canonical, parse
from plugins.framework.resources import (
    LimitDefaults,
    compile_limit_ranges,
    compile_pod,
    container_problems,
    problems,
    template_requests,
)

DATA = Path(__file__).parents[2] / "data" / "vectors"
VECTORS: list[dict[str, Any]] = json.loads((DATA / "pod-requests-vectors.json").read_text("utf-8"))[
    "vectors"
]


def limits_of(vector: dict[str, Any]) -> LimitDefaults | None:
    return compile_limit_ranges(vector["limitRanges"]) if vector["limitRanges"] else None


def texts(requests: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: canonical(amount) for name, amount in requests.items()}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_requests_are_what_the_scheduler_sees(vector: dict[str, Any]) -> None:
    overhead = vector["runtimeClassOverhead"]
    requests = compile_pod(vector["pod"], limits=limits_of(vector), overhead=overhead).requests
    assert texts(requests) == vector["expected"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_the_template_alone_is_what_the_trainer_counts(vector: dict[str, Any]) -> None:
    assert texts(template_requests(vector["pod"])) == vector["template"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_putting_a_containers_own_resources_in_changes_nothing(vector: dict[str, Any]) -> None:
    overhead = vector["runtimeClassOverhead"]
    pod = compile_pod(vector["pod"], limits=limits_of(vector), overhead=overhead)
    for container in vector["pod"]["containers"]:
        own = container.get("resources", {})
        assert pod.with_container(container["name"], own) == pod.requests


def test_the_vectors_are_all_there() -> None:
    assert len(VECTORS) == 105


# Why the API server refuses some of the vectors, said in our words. Reasons that lie elsewhere in the object
# (restartPolicy, ephemeral containers, a wrong LimitRange) or in the pod as a whole have no entry.
REASONS = {
    "fractional GPU": (
        "containers[0].resources.limits[nvidia.com/gpu]: must be a whole number",
        "containers[0].resources.requests[nvidia.com/gpu]: must be a whole number",
    ),
    "GPU request without a limit": (
        "containers[0].resources.limits[nvidia.com/gpu]: must be set, and equal to the request of 1",
    ),
    "GPU request below its limit": (
        "containers[0].resources.requests[nvidia.com/gpu]: must be equal to the limit of 2",
    ),
    "negative cpu": ("containers[0].resources.requests[cpu]: must be 0 or more",),
    "request above the limit": (
        "containers[0].resources.requests[cpu]: must be at most the limit of 1",
    ),
    "LimitRange default below the request": (
        "containers[0].resources.requests[cpu]: must be at most the limit of 2",
    ),
    "hugepages without cpu or memory": (
        "containers[0].resources: must have cpu or memory beside hugepages",
    ),
    "hugepages not a multiple of the page": tuple(
        f"containers[0].resources.{part}[hugepages-2Mi]: must be a multiple of the page size, "
        "which the name of the resource ends with"
        for part in ("limits", "requests")
    ),
    "bare unknown resource name": tuple(
        f"containers[0].resources.{part}[gpu]: "
        "must be of cpu, memory, ephemeral-storage, hugepages-SIZE or a DOMAIN/NAME such as nvidia.com/gpu"
        for part in ("limits", "requests")
    ),
}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_pods_are_refused_for_the_reasons_of_the_api_server(vector: dict[str, Any]) -> None:
    found = [f"{p.path}: {p.detail}" for p in problems(vector["pod"], limits=limits_of(vector))]
    assert tuple(found) == REASONS.get(vector["name"], ())


def test_every_reason_in_the_vectors_is_found_or_lies_elsewhere() -> None:
    refused = {v["name"] for v in VECTORS if v.get("rejectedByApiServer")}
    assert refused - REASONS.keys() == {
        "ephemeral containers never count",
        "init restartPolicy other than Always is not a sidecar",
        "two Container items in one LimitRange",
        "Pod-type item with defaults and pod-level resources",
        # Pod-level resources:
        "pod-level smaller than a big init",
        "pod-level unsupported resource is ignored",
        "LimitRange default request above the pod-level request",
    }
    assert refused >= REASONS.keys()


@dataclass(frozen=True, kw_only=True)
class Case:
    spec: dict[str, Any]
    want: dict[str, str]
    limit_ranges: list[dict[str, Any]] = field(default_factory=list)
    overhead: dict[str, Any] | None = None


def container(name: str = "node", **resources: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "resources": resources}


def limit_range(**item: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "LimitRange", "spec": {"limits": [{"type": "Container", **item}]}}


CASES = {
    # A Job's template is rounded when the Job is stored, so the pod-level request sees 1m + 1m, not 200u.
    "containers are rounded before pod-level requests are made from them": Case(
        spec={
            "containers": [
                container(requests={"cpu": "100u"}),
                container("b", requests={"cpu": "100u"}),
            ],
            "resources": {"limits": {"cpu": "1"}},
        },
        want={"cpu": "2m"},
    ),
    "the pod's own overhead is rounded": Case(
        spec={"containers": [], "overhead": {"cpu": "100u"}}, want={"cpu": "1m"}
    ),
    "the overhead of the class is not": Case(
        spec={"containers": []}, overhead={"cpu": "100u"}, want={"cpu": "100u"}
    ),
    "the pod's own overhead stays beside that of the class": Case(
        spec={"containers": [], "overhead": {"cpu": "250m"}},
        overhead={"cpu": "250m"},
        want={"cpu": "250m"},
    ),
    "pod-level hugepages come from the containers' limits and bring the other requests along": Case(
        spec={
            "containers": [
                container(
                    requests={"cpu": "1", "memory": "1Gi"},
                    limits={"memory": "2Gi", "hugepages-2Mi": "64Mi"},
                )
            ],
            "resources": {"requests": {"cpu": "4"}},
        },
        want={"cpu": "4", "memory": "1Gi", "hugepages-2Mi": "64Mi"},
    ),
    "a pod-level hugepages request keeps the containers' limits out": Case(
        spec={
            "containers": [container(requests={"cpu": "1"}, limits={"hugepages-2Mi": "64Mi"})],
            "resources": {"requests": {"hugepages-2Mi": "128Mi"}},
        },
        want={"cpu": "1", "hugepages-2Mi": "128Mi"},
    ),
    "LimitRange requests do not reach the pod-level request": Case(
        spec={"containers": [container()], "resources": {"limits": {"memory": "4Gi"}}},
        limit_ranges=[limit_range(defaultRequest={"memory": "8Gi"})],
        want={"memory": "4Gi"},
    ),
    "the first of two LimitRanges wins, name by name": Case(
        spec={"containers": [container()]},
        limit_ranges=[
            limit_range(defaultRequest={"cpu": "1"}),
            limit_range(defaultRequest={"cpu": "2", "memory": "1Gi"}),
        ],
        want={"cpu": "1", "memory": "1Gi"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_requests(case: Case) -> None:
    limits = compile_limit_ranges(case.limit_ranges) if case.limit_ranges else None
    compiled = compile_pod(case.spec, limits=limits, overhead=case.overhead)
    assert texts(compiled.requests) == case.want


AMBIGUOUS = {
    "the same value is no contradiction": ([{"cpu": "1"}, {"cpu": "1000m"}], ()),
    "another value is": (
        [{"cpu": "1", "memory": "1Gi"}, {"memory": "2Gi", "cpu": "2"}],
        ("cpu", "memory"),
    ),
    "one LimitRange never contradicts itself": ([{"cpu": "1"}], ()),
}


@pytest.mark.parametrize(("defaults", "want"), AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_limit_ranges_that_contradict_each_other_are_named(
    defaults: list[dict[str, str]], want: tuple[str, ...]
) -> None:
    assert compile_limit_ranges([limit_range(default=d) for d in defaults]).ambiguous == want


BAD_AMOUNTS = {
    "a container's request": (
        {"containers": [container(), container("b", requests={"cpu": "1K"})]},
        "containers[1].resources.requests[cpu]",
    ),
    "an init container's limit": (
        {"initContainers": [container(limits={"nvidia.com/gpu": 1.5})]},
        "initContainers[0].resources.limits[nvidia.com/gpu]",
    ),
    "a null": (
        {"containers": [container(requests={"cpu": None})]},
        "containers[0].resources.requests[cpu]",
    ),
    "pod-level": ({"resources": {"requests": {"cpu": True}}}, "resources.requests[cpu]"),
    "the pod's overhead": ({"overhead": {"cpu": ""}}, "overhead[cpu]"),
}


@pytest.mark.parametrize(("spec", "path"), BAD_AMOUNTS.values(), ids=BAD_AMOUNTS.keys())
def test_a_wrong_amount_is_named_by_its_path(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(QuantityError) as caught:
        compile_pod(spec)
    assert str(caught.value.field) == path


def test_other_wrong_amounts_are_named_relative_to_what_was_given() -> None:
    with pytest.raises(QuantityError) as caught:
        compile_pod({"containers": [container()]}).with_container("node", {"limits": {"cpu": "x"}})
    assert str(caught.value.field) == "limits[cpu]"
    with pytest.raises(QuantityError) as caught:
        compile_limit_ranges([{}, limit_range(max={"cpu": "x"})])
    assert str(caught.value.field) == "limitRanges[1].spec.limits[0].max[cpu]"
    with pytest.raises(QuantityError) as caught:
        compile_pod({}, overhead={"cpu": "x"})
    assert str(caught.value.field) == "overhead[cpu]"
    with pytest.raises(QuantityError) as caught:
        template_requests({"containers": [container(requests={"cpu": "x"})]})
    assert str(caught.value.field) == "containers[0].resources.requests[cpu]"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "1", "Always"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "containers",
                    "initContainers",
                    "resources",
                    "requests",
                    "limits",
                    "overhead",
                    "name",
                    "cpu",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
keys = st.sampled_from(["containers", "initContainers", "resources", "overhead"])


@given(st.dictionaries(keys, json_values))
def test_any_shape_is_read_or_refused_by_path(spec: dict[str, Any]) -> None:
    problems(spec)
    for read in (compile_pod, template_requests):
        try:
            read(spec)
        except QuantityError as error:
            assert error.field  # noqa: PT017  # either outcome is right


@given(
    st.lists(
        st.fixed_dictionaries(
            {"spec": json_values | st.fixed_dictionaries({"limits": json_values})}
        )
    )
)
def test_any_shape_of_limit_range_is_read(objects: list[dict[str, Any]]) -> None:
    assert compile_limit_ranges(objects).requests == {}


AMOUNTS = ["0", "0Ki", "1", "100u", "500m", "1Gi", "500M", "1e3", "1.5", "64Mi", 3]
NAMES = ["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "ephemeral-storage"]
amounts = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(AMOUNTS), max_size=4)
resources = st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts})
containers = st.lists(resources, min_size=1, max_size=3).map(
    lambda many: [{"name": f"c{i}", "resources": one} for i, one in enumerate(many)]
)
inits = st.lists(
    st.builds(
        lambda one, policy: {"name": "i", "resources": one, "restartPolicy": policy},
        resources,
        st.sampled_from(["Always", "Never"]),
    ),
    max_size=4,
)
pods = st.fixed_dictionaries(
    {"containers": containers, "initContainers": inits},
    optional={"resources": resources, "overhead": amounts},
)
limit_ranges = st.lists(
    st.fixed_dictionaries(
        {}, optional={"default": amounts, "defaultRequest": amounts, "max": amounts, "min": amounts}
    ).map(lambda item: limit_range(**item)),
    max_size=2,
)


@given(pods, limit_ranges, st.none() | amounts, resources, st.integers(0, 2))
def test_with_container_is_a_full_recomputation(
    pod: dict[str, Any],
    ranges: list[dict[str, Any]],
    overhead: dict[str, Any] | None,
    other: dict[str, Any],
    place: int,
) -> None:
    limits = compile_limit_ranges(ranges)
    place %= len(pod["containers"])
    compiled = compile_pod(pod, limits=limits, overhead=overhead)
    before = dict(compiled.requests)
    changed = {**pod, "containers": [dict(c) for c in pod["containers"]]}
    changed["containers"][place]["resources"] = other
    name = changed["containers"][place]["name"]
    fresh = compile_pod(changed, limits=limits, overhead=overhead).requests
    assert compiled.with_container(name, other) == fresh
    assert list(compiled.with_container(name, other)) == list(fresh)  # bytes depend on the order
    assert compiled.requests == before


@given(pods)
def test_the_formula_is_the_one_of_the_documentation(pod: dict[str, Any]) -> None:
    del pod["initContainers"][3:]
    pod.pop("resources", None)
    pod.pop("overhead", None)

    def asks(raw: dict[str, Any], name: str) -> int:
        given = raw["resources"].get("requests", {})
        return parse(given[name]).nano if name in given else 0

    for name, amount in template_requests(pod).items():
        sidecars = [c for c in pod["initContainers"] if c["restartPolicy"] == "Always"]
        steps = [sum(asks(c, name) for c in [*pod["containers"], *sidecars])]
        for i, init in enumerate(pod["initContainers"]):
            before = [c for c in pod["initContainers"][:i] if c["restartPolicy"] == "Always"]
            steps.append(asks(init, name) + sum(asks(c, name) for c in before))
        assert amount.nano == max(steps)


def test_a_name_that_no_container_has_changes_nothing() -> None:
    pod = compile_pod({"containers": [container("main", requests={"cpu": "1"})]})
    assert pod.with_container("node", {"requests": {"cpu": "8"}}) == pod.requests


PROBLEMS: dict[str, tuple[dict[str, Any], list[tuple[str, Any, str]]]] = {
    "nothing is wrong with the usual spelling of a GPU": (
        {"requests": {"cpu": 4}, "limits": {"nvidia.com/gpu": 8}},
        [],
    ),
    "equal values in two spellings are equal": (
        {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1000m"}},
        [],
    ),
    "hugepages as they should be": (
        {"limits": {"memory": "1Gi", "hugepages-2Mi": "64Mi", "hugepages-1Gi": "2Gi"}},
        [],
    ),
    "a name of Kubernetes' own domain may be overcommitted": (
        {"requests": {"kubernetes.io/thing": "500m"}},
        [],
    ),
    "merging can leave a request beside another limit": (
        {"requests": {"nvidia.com/gpu": "4"}, "limits": {"nvidia.com/gpu": "2"}},
        [("requests[nvidia.com/gpu]", "4", "must be equal to the limit of 2")],
    ),
    "hugepages cannot be overcommitted either": (
        {"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}, "limits": {"hugepages-2Mi": "4Mi"}},
        [("requests[hugepages-2Mi]", "2Mi", "must be equal to the limit of 4Mi")],
    ),
    "a limit without request is judged once": (
        {"limits": {"nvidia.com/gpu": "1.5"}},
        [("limits[nvidia.com/gpu]", "1.5", "must be a whole number")],
    ),
    "an amount that cannot be read is not compared": (
        {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1K"}},
        [("limits[nvidia.com/gpu]", "1K", "must be a number, with nothing after it")],
    ),
    "each wrong amount is named": (
        {"requests": {"cpu": "-1", "memory": None}, "limits": {"gpu": "x"}},
        [
            ("limits[gpu]", "x", "must be a number"),
            ("requests[cpu]", "-1", "must be 0 or more"),
            ("requests[memory]", None, "must be a string or an integer"),
        ],
    ),
    "a name with two slashes": (
        {"limits": {"a.b/c/d": 1}},
        [("limits[a.b/c/d]", 1, "must be of a resource named as DOMAIN/NAME")],
    ),
    "a name of a quota": (
        {"limits": {"requests.nvidia.com/gpu": 1}},
        [("limits[requests.nvidia.com/gpu]", 1, "must be of a resource named as DOMAIN/NAME")],
    ),
    "an upper-case domain": (
        {"limits": {"NVIDIA.com/gpu": 1}},
        [("limits[NVIDIA.com/gpu]", 1, "must be of a resource named as DOMAIN/NAME")],
    ),
    "a storage that only claims have": (
        {"requests": {"storage": "1Gi"}},
        [("requests[storage]", "1Gi", "must be of cpu, memory, ephemeral-storage")],
    ),
    "a page size that is none": (
        {"limits": {"cpu": 1, "hugepages-big": "2Mi"}},
        [("limits[hugepages-big]", "2Mi", "must be a multiple of the page size")],
    ),
    "a page size of nothing": (
        {"limits": {"cpu": 1, "hugepages-0": "2Mi"}},
        [("limits[hugepages-0]", "2Mi", "must be a multiple of the page size")],
    ),
    "wrong shapes are for the API server to name": ({"limits": [], "requests": "x"}, []),
}


@pytest.mark.parametrize(("raw", "want"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_what_is_wrong_with_a_container(
    raw: dict[str, Any], want: list[tuple[str, Any, str]]
) -> None:
    found = container_problems(raw)
    assert [(str(p.path), p.value) for p in found] == [(path, wrong) for path, wrong, _ in want]
    for problem, (_, _, detail) in zip(found, want, strict=True):
        assert problem.detail.startswith(detail)


def test_limit_range_defaults_are_compared_too() -> None:
    limits = compile_limit_ranges([limit_range(default={"nvidia.com/gpu": "1", "cpu": "2"})])
    found = container_problems({"requests": {"nvidia.com/gpu": "2", "cpu": "1"}}, limits)
    assert [(str(p.path), p.detail) for p in found] == [
        ("requests[nvidia.com/gpu]", "must be equal to the limit of 1")
    ]
    assert container_problems({"requests": {"nvidia.com/gpu": "1"}}, limits) == []


@given(st.text("azAZ09-./_ ", max_size=400))
def test_any_name_is_judged(name: str) -> None:
    container_problems({"limits": {name: "1"}, "requests": {"hugepages-" + name: "1"}})
