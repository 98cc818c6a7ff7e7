"""The annotation with what a TrainJob's pods need together, and what no pod can have."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import orjson
import pytest

from plugins.framework.api import names
from plugins.framework.interface import WatchExtensionPlugin
from plugins.framework.registry import Args, Handle
from plugins.podgroup_totals import SPEC
from tests.builders import (
    NAMESPACE,
    Builder,
    Json,
    MakeRuntime,
    MakeTrainJob,
    container,
    job_patch,
    make_object,
    make_runtime,
    make_train_job,
    patched,
    resources,
)
from tests.plugins.kit import (
    LINES,
    Admitted,
    Case,
    admit,
    check,
    invalid,
    stored,
    table,
)

PLAIN = make_runtime().plain()
JOB = make_train_job()
AT = "spec.trainer.resourcesPerNode"


def cpu(amount: Any, **more: Any) -> Json:
    return resources(requests={"cpu": amount, **more})


def node(given: Json, **pod: Any) -> MakeRuntime:
    return PLAIN.node(container("node", resources=given), pod=pod)


def read(admitted: Admitted) -> Json:
    text = admitted.raw["metadata"]["annotations"][names.TOTALS_ANNOTATION]
    document: Json = json.loads(text)
    assert orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode() == text, "compact, sorted"
    return document


def totals(
    job: MakeTrainJob, runtime: MakeRuntime, *others: Builder | Json, line: str = "2.3"
) -> Json:
    return read(admit(Case(job=job, runtime=runtime, others=others, line=line)))


# The document


@pytest.mark.parametrize("line", LINES)
def test_members_pod_sets_resources_and_the_runtime(line: str) -> None:
    runtime = node(cpu("500m", memory="1Gi")).job(
        "side",
        replicas=2,
        job_spec={"parallelism": 3},
        containers=[container("x", resources=cpu("1"))],
    )
    spec = orjson.dumps(stored(runtime, line)["spec"], option=orjson.OPT_SORT_KEYS)
    assert totals(JOB.nodes(3), runtime, line=line) == {
        "members": 9,
        "podSets": {
            "node": {"count": 3, "resources": {"cpu": "1500m", "memory": "3Gi"}},
            "side": {"count": 6, "resources": {"cpu": "6"}},
        },
        "resources": {"cpu": "7500m", "memory": "3Gi"},
        "runtime": f"sha256:{hashlib.sha256(spec).hexdigest()}",
    }


def test_a_change_of_the_runtimes_metadata_is_none() -> None:
    assert totals(JOB, node({})) == totals(JOB, node({}).label("a", "b"))


def test_what_was_sent_is_replaced() -> None:
    sent = JOB.annotation(names.TOTALS_ANNOTATION, '{"members":1000}')
    assert totals(sent, node(cpu("1"))) == totals(JOB, node(cpu("1")))


def test_nothing_is_asked_for() -> None:
    assert totals(JOB, node({}))["resources"] == {}


SUMS: dict[str, tuple[MakeTrainJob, MakeRuntime, Json]] = {
    "B025 the TrainJob's resources over the runtime's": (
        JOB.nodes(3).resources(requests={"cpu": 6, "memory": "10Gi"}),
        node(resources(requests={"cpu": 4, "memory": "8Gi"}, limits={"nvidia.com/gpu": 4})),
        {"cpu": "18", "memory": "30Gi", "nvidia.com/gpu": "12"},
    ),
    "B027 a sidecar among the init containers is added": (
        JOB.nodes(4),
        node(
            cpu("1"),
            initContainers=[container("proxy", restartPolicy="Always", resources=cpu("200m"))],
        ),
        {"cpu": "4800m"},
    ),
    "an init container counts where it is the larger": (
        JOB.nodes(2),
        node(cpu("1"), initContainers=[container("setup", resources=cpu("3"))]),
        {"cpu": "6"},
    ),
    "B029 limits without requests are requests": (
        JOB.nodes(2),
        node(resources(limits={"cpu": 3, "nvidia.com/gpu": 1})),
        {"cpu": "6", "nvidia.com/gpu": "2"},
    ),
    "B029 a request of 0 is one": (
        JOB.nodes(2).resources(requests={"cpu": 0}, limits={"cpu": 3}),
        node({}),
        {"cpu": "0"},
    ),
    "B031 overhead in the template": (
        JOB.nodes(4),
        node(cpu("1"), overhead={"cpu": "250m", "memory": "64Mi"}),
        {"cpu": "5", "memory": "256Mi"},
    ),
    "halves are exact": (
        JOB.nodes(3),
        node(cpu("0.5", memory="0.5Gi")),
        {"cpu": "1500m", "memory": "1536Mi"},
    ),
    "claims cost nothing": (
        JOB.nodes(2).trainer(resourcesPerNode={"claims": [{"name": "g"}]}),
        node(cpu("1")),
        {"cpu": "2"},
    ),
}


@table(SUMS)
def test_sums(case: tuple[MakeTrainJob, MakeRuntime, Json]) -> None:
    job, runtime, wanted = case
    found = totals(job, runtime)
    assert found["resources"] == found["podSets"]["node"]["resources"] == wanted


def limit_range(**kinds: Json) -> Json:
    return make_object(
        "LimitRange", "l", NAMESPACE, spec={"limits": [{"type": "Container", **kinds}]}
    )


SANDBOXED = {**make_object("RuntimeClass", "sandboxed"), "overhead": {"podFixed": {"cpu": "250m"}}}
AROUND: dict[str, tuple[MakeRuntime, Json, Json]] = {
    "F024 default requests of the namespace": (
        node({}),
        limit_range(defaultRequest={"cpu": "2"}),
        {"cpu": "4"},
    ),
    "F024 default limits are requests too": (
        node({}),
        limit_range(default={"cpu": "3"}),
        {"cpu": "6"},
    ),
    "B029 limits of the container come before defaults of the namespace": (
        node(resources(limits={"cpu": "3"})),
        limit_range(defaultRequest={"cpu": "1"}),
        {"cpu": "6"},
    ),
    "B031 the overhead of the RuntimeClass": (
        node(cpu("1"), runtimeClassName="sandboxed"),
        SANDBOXED,
        {"cpu": "2500m"},
    ),
}


@table(AROUND)
def test_what_the_cluster_adds(case: tuple[MakeRuntime, Json, Json]) -> None:
    runtime, other, wanted = case
    assert totals(JOB.nodes(2), runtime, other)["resources"] == wanted


def test_a_limit_range_of_another_namespace_adds_nothing() -> None:
    other = make_object(
        "LimitRange",
        "l",
        "other",
        spec={"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}]},
    )
    assert totals(JOB, node({}), other)["resources"] == {}


# What runs at one time


def waiting(status: str) -> MakeRuntime:
    first = container("x", resources=cpu("8", memory="1Gi"))
    last = container("node", resources=cpu("1", memory="4Gi"))
    return PLAIN.job("first", containers=[first]).node(last, depends_on={"first": status})


def test_a_job_that_waits_for_the_end_of_another_does_not_count_with_it() -> None:
    found = totals(JOB.nodes(2), waiting("Complete"))
    assert found["members"] == 2
    assert found["resources"] == {"cpu": "8", "memory": "8Gi"}
    assert found["podSets"]["first"]["resources"] == {"cpu": "8", "memory": "1Gi"}


def test_a_job_that_waits_for_another_to_be_ready_does() -> None:
    found = totals(JOB.nodes(2), waiting("Ready"))
    assert found["members"] == 3
    assert found["resources"] == {"cpu": "10", "memory": "9Gi"}


# Counts


MPI = make_runtime().mpi(runLauncherAsNode=True).job("node").job("launcher", "trainer")
COUNTS: dict[str, tuple[MakeTrainJob, MakeRuntime, int]] = {
    "B022 the runtime's nodes, with an empty trainer": (JOB.trainer(), node({}).nodes(3), 3),
    "B022 the runtime's nodes, without trainer": (JOB, node({}).nodes(3), 3),
    "B022 the TrainJob's nodes": (JOB.nodes(5), node({}).nodes(3), 5),
    "MPI: the launcher and the workers": (JOB.nodes(10), MPI, 10),
    "the template's parallelism": (JOB, make_runtime().node(job_spec={"parallelism": 7}), 7),
}


@table(COUNTS)
def test_members(case: tuple[MakeTrainJob, MakeRuntime, int]) -> None:
    job, runtime, wanted = case
    assert totals(job, runtime)["members"] == wanted


# Updates


def test_b032_a_patch_that_may_change_renews_the_totals() -> None:
    sidecar = container("side", resources=cpu("1"), restartPolicy="Always")
    runtime = node(cpu("1"), initContainers=[sidecar])
    first = admit(Case(job=JOB.nodes(2).suspended(), runtime=runtime))
    old = JOB.nodes(2).suspended().annotation(names.TOTALS_ANNOTATION, "stale")
    job = old.patch(
        "a.io/m", job_patch("node", pod={"initContainers": [patched("side", {"A": "1"})]})
    )
    assert read(admit(Case(old=old, job=job, runtime=runtime))) == read(first)


def test_other_updates_keep_them() -> None:
    old = JOB.nodes(2).annotation(names.TOTALS_ANNOTATION, "kept")
    for job in (
        old.label("a", "b"),
        old.suspended(),
        old.annotation(names.TOTALS_ANNOTATION, "forged"),
    ):
        admitted = admit(Case(old=old, job=job, runtime=node({})))
        assert admitted.raw["metadata"]["annotations"][names.TOTALS_ANNOTATION] == "kept"


# Validation


GPUS = resources(limits={"nvidia.com/gpu": 2})
MERGED = "after merging with the runtime's own resources of job node"
CASES: dict[str, Case] = {
    "G16b a request above the runtime's limit is refused": Case(
        job=JOB.resources(requests={"cpu": "4"}),
        runtime=node(resources(limits={"cpu": "2"})),
        refused=(invalid(f"{AT}.requests[cpu]", '"4"', "at most the limit of 2", MERGED),),
    ),
    "G16b GPUs that differ are refused": Case(
        job=JOB.resources(requests={"nvidia.com/gpu": 4}),
        runtime=node(GPUS),
        refused=(invalid(f"{AT}.requests[nvidia.com/gpu]", "must be equal to the limit of 2"),),
    ),
    "G16b a GPU without a limit is refused": Case(
        job=JOB.resources(requests={"nvidia.com/gpu": 4}),
        runtime=node({}),
        refused=(
            invalid(f"{AT}.limits[nvidia.com/gpu]", "must be set, and equal to the request of 4"),
        ),
    ),
    "G16b hugepages alone are refused": Case(
        job=JOB.resources(limits={"hugepages-2Mi": "2Mi"}),
        runtime=node({}),
        refused=(invalid(AT, "cpu or memory beside hugepages"),),
    ),
    "a request at the limit passes": Case(
        job=JOB.resources(requests={"cpu": "2"}), runtime=node(resources(limits={"cpu": "2"}))
    ),
    "up to 2.2 the runtime's are replaced, and do not clash": Case(
        line="2.2",
        job=JOB.resources(requests={"cpu": "4"}),
        runtime=node(resources(limits={"cpu": "2"})),
    ),
    "a default limit of the namespace clashes too": Case(
        job=JOB.resources(requests={"cpu": "4"}),
        runtime=node({}),
        others=(limit_range(default={"cpu": "2"}),),
        refused=(invalid(f"{AT}.requests[cpu]", "at most the limit of 2"),),
    ),
    "a total that no 64-bit number holds is refused": Case(
        job=JOB.nodes(2**31 - 1).resources(requests={"memory": "8Ei"}),
        runtime=node({}),
        refused=(invalid(AT, "memory of the whole job is more than a 64-bit number holds"),),
    ),
    "the runtime's own faults are not the TrainJob's": Case(
        job=JOB.nodes(1), runtime=node(resources(requests={"cpu": "4"}, limits={"cpu": "2"}))
    ),
    "what is stored is no reason to refuse": Case(
        old=JOB.resources(requests={"cpu": "4"}).suspended(),
        job=JOB.resources(requests={"cpu": "4"}).suspended().patch("a.io/x"),
        runtime=node(resources(limits={"cpu": "2"})),
    ),
}


@table(CASES)
def test_validation(case: Case) -> None:
    check(case)


def test_a_refused_job_gets_no_patch() -> None:
    case = CASES["G16b a request above the runtime's limit is refused"]
    assert admit(case).patch == []


WARNINGS: dict[str, Case] = {
    "an unknown RuntimeClass, and those that exist are named": Case(
        job=JOB,
        runtime=node({}, runtimeClassName="nosuch"),
        others=(SANDBOXED,),
        warns=("names RuntimeClass nosuch, which does not exist (there are: sandboxed)",),
    ),
    "B031 a RuntimeClass where none is known": Case(
        job=JOB,
        runtime=node({}, runtimeClassName="sandboxed"),
        warns=("names RuntimeClass sandboxed, of which nothing is known here",),
    ),
    "a known one": Case(
        job=JOB, runtime=node({}, runtimeClassName="sandboxed"), others=(SANDBOXED,), warns=()
    ),
}


@table(WARNINGS)
def test_warnings(case: Case) -> None:
    check(case)


def test_it_asks_for_what_changes_the_totals() -> None:
    plugin = SPEC.build(Args(), Handle())
    assert isinstance(plugin, WatchExtensionPlugin)
    assert list(plugin.watches()) == ["LimitRange.", "RuntimeClass.node.k8s.io"]
