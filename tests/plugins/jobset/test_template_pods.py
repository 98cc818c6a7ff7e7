"""What no container of a runtime may have: resources that the API server refuses, ports that end up twice."""

from __future__ import annotations

from typing import Any

from tests.builders import Json, MakeRuntime, container, make_runtime, make_train_job, resources
from tests.plugins.kit import (
    LINES,
    Case,
    RuntimeCase,
    build,
    check,
    check_runtime,
    invalid,
    table,
)

POD = "spec.template.spec.replicatedJobs[0].template.spec.template.spec"
FIRST = f"{POD}.containers[0]"


def port(number: int, name: str | None = None, protocol: str | None = None) -> Json:
    fields = {"containerPort": number, "name": name, "protocol": protocol}
    return {key: value for key, value in fields.items() if value is not None}


def listening(*ports: Json, policy: str = "torch", name: str = "node") -> MakeRuntime:
    own = container(name, ports=list(ports))
    others = [] if name == "node" else [container("node")]
    return make_runtime().policy(policy).node(own, *others)


def starting(*ports: Json) -> MakeRuntime:
    return make_runtime().plain().node(pod={"initContainers": [container("i", ports=list(ports))]})


def twice(what: str, where: str = FIRST) -> tuple[Any, ...]:
    return (invalid(f"{where}.ports", f'"{what}": the Trainer would make two of this one'),)


WITH = ("a TrainJob with spec.trainer gets 29500/TCP twice",)
WITHOUT = ("a TrainJob without spec.trainer gets 80/TCP twice",)
PORTS: dict[str, RuntimeCase] = {
    "one of each": RuntimeCase(runtime=listening(port(80, "a"), port(81, "b"), port(82)), warns=()),
    "the rendezvous port": RuntimeCase(
        runtime=listening(port(29500, "r"), port(80, "a")), warns=()
    ),
    "one unnamed port, whose place the rendezvous takes": RuntimeCase(
        runtime=listening(port(80)), warns=()
    ),
    "two without a name": RuntimeCase(
        runtime=listening(port(80), port(81)), refused=twice("81/TCP")
    ),
    "two of a name": RuntimeCase(
        runtime=listening(port(80, "a"), port(81, "a"), policy="mpi", name="side"),
        refused=twice("81/TCP"),
    ),
    "two protocols of a number, which the Trainer takes for one": RuntimeCase(
        runtime=listening(port(80, "a", "TCP"), port(80, "b", "UDP")), refused=twice("80/UDP")
    ),
    "the rendezvous port in the place of an unnamed one, beside one of its number": RuntimeCase(
        runtime=listening(port(80), port(29500, "r")), warns=WITH
    ),
    "JAX adds the port too": RuntimeCase(
        runtime=listening(port(80), port(29500, "r"), policy="jax"), warns=WITH
    ),
    "MPI adds no port": RuntimeCase(
        runtime=listening(port(80), port(29500, "r"), policy="mpi"), warns=()
    ),
    "other containers get no port": RuntimeCase(
        runtime=listening(port(80), port(29500, "r"), name="side"), warns=()
    ),
    "the rendezvous port in the place of one of two of a name": RuntimeCase(
        runtime=listening(port(29500, "a"), port(80, "a")), warns=WITHOUT
    ),
    "two unnamed ones of an init container": RuntimeCase(
        runtime=starting(port(80), port(81)), refused=twice("81/TCP", f"{POD}.initContainers[0]")
    ),
    "up to 2.2 those stay as they are": RuntimeCase(
        line="2.2", runtime=starting(port(80), port(81)), warns=()
    ),
}


@table(PORTS)
def test_ports(case: RuntimeCase) -> None:
    check_runtime(case)


@table({rule: case for rule, case in PORTS.items() if case.refused})
def test_a_stored_fault_is_no_reason_to_refuse(case: RuntimeCase) -> None:
    check_runtime(RuntimeCase(old=case.runtime, runtime=case.runtime.label("a", "b")))


@table(
    {
        rule: case
        for rule, case in PORTS.items()
        if case.line == "2.3" and "mpi" not in case.runtime.raw["spec"]["mlPolicy"]
    }
)
def test_what_is_said_of_ports_is_what_is_built(case: RuntimeCase) -> None:
    """With ``spec.trainer`` and without it, as the error or the warning says."""
    fails = {
        words
        for words, job in (
            ("with", make_train_job().nodes(1)),
            ("without", make_train_job()),
        )
        if _has_twins(build(Case(job=job, runtime=case.runtime)).pod())
    }
    said = {"with", "without"} if case.refused else {w.split()[2] for w in case.warns or ()}
    assert fails == said


def _has_twins(pod: Json) -> bool:
    for kind in ("containers", "initContainers"):
        for one in pod.get(kind) or ():
            keys = [(p["containerPort"], p.get("protocol", "TCP")) for p in one.get("ports") or ()]
            if len(keys) != len(set(keys)):
                return True
    return False


def asking(**amounts: Json) -> MakeRuntime:
    return make_runtime().plain().node(container("side", resources=resources(**amounts)))


RESOURCES: dict[str, tuple[Json, str, str]] = {
    "requests above the limits": (
        {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
        "requests[cpu]",
        '"2": must be at most the limit of 1',
    ),
    "a device without a limit": (
        {"requests": {"nvidia.com/gpu": 1}},
        "limits[nvidia.com/gpu]",
        "must be set, and equal to the request of 1",
    ),
    "a device in halves": (
        {"limits": {"nvidia.com/gpu": "0.5"}},
        "limits[nvidia.com/gpu]",
        "must be a whole number",
    ),
    "a negative amount": ({"limits": {"cpu": "-1"}}, "limits[cpu]", "must be 0 or more"),
    "a name without a domain": ({"limits": {"gpu": 1}}, "limits[gpu]", "such as nvidia.com/gpu"),
    "an amount that is none": ({"limits": {"cpu": "1e999"}}, "limits[cpu]", "must be a number"),
}


@table(RESOURCES)
def test_resources(case: tuple[Json, str, str]) -> None:
    amounts, where, says = case
    runtime = asking(**amounts).job("other")
    refused = (
        invalid(f"{FIRST}.resources.{where}", says),
        invalid(f"{POD}.containers", "must contain the required container"),
    )
    for line in LINES:
        check_runtime(RuntimeCase(line=line, runtime=runtime, refused=refused))
    check_runtime(RuntimeCase(old=runtime, runtime=runtime.label("a", "b")))
    worse = runtime.job("more", containers=[container("x", resources=resources(**amounts))])
    again = f"{FIRST}.resources.{where}".replace("Jobs[0]", "Jobs[2]")
    check_runtime(RuntimeCase(old=runtime, runtime=worse, refused=(invalid(again, says),)))


def test_resources_of_init_containers_are_judged_too() -> None:
    own = container("i", resources=resources({"cpu": "2"}, {"cpu": "1"}))
    runtime = make_runtime().plain().node(pod={"initContainers": [own]})
    at = f"{POD}.initContainers[0].resources.requests[cpu]"
    check_runtime(RuntimeCase(runtime=runtime, refused=(invalid(at, "at most the limit"),)))


def test_a_trainjob_of_such_a_runtime_is_warned() -> None:
    own = container("side", resources=resources({"cpu": "2"}, {"cpu": "1"}))
    runtime = make_runtime().plain().node(container("node"), own)
    check(Case(job=make_train_job(), runtime=runtime, warns=("has a fault: spec.template",)))
