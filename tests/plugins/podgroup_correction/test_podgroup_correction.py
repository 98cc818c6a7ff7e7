"""What a PodGroup is corrected to: the pods that exist first, and what they need together."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import jsonpatch
import pytest

from plugins import podgroup_correction
from plugins.framework import interface, profile
from plugins.framework.api import names
from plugins.framework.context import Context
from plugins.framework.draft import Draft
from plugins.framework.errors import DeadlineExceeded
from plugins.framework.field import Findings, invalid
from plugins.framework.field import Path as At
from plugins.framework.info import Info
from plugins.framework.pipeline import Pipeline, Result
from plugins.framework.registry import Args, Handle, PluginSpec, Registry
from plugins.registry import in_tree, opt_in
from tests.builders import (
    Builder,
    Json,
    MakeRuntime,
    MakeTrainJob,
    container,
    make_object,
    make_runtime,
    make_train_job,
    resources,
)
from tests.plugins.kit import (
    LINES,
    Case,
    admit,
    assert_found,
    build,
    cluster_of,
    compiled,
    default_pipeline,
    make_context,
    pipeline_with,
    run,
    stored,
    table,
)
from webhook.files import read_tree

ENABLED: Final[Json] = {
    "plugins": {"multiPoint": {"enabled": [{"name": podgroup_correction.NAME}]}}
}
JOB: Final = make_train_job()
WAITS: Final = {"dataset-initializer": "Complete", "model-initializer": "Complete"}
EXAMPLES: Final = Path(__file__).parents[3] / "examples" / "cluster"


def pipeline() -> Pipeline:
    """The in-tree plugins, and the one that corrects."""
    return pipeline_with(ENABLED)


def cpu(amount: str, **more: str) -> Json:
    return resources(requests={"cpu": amount, **more})


def group(members: Any = 9, amounts: Any = None, **spec: Any) -> Json:
    """A PodGroup as the Trainer would make it, with counts that are certainly wrong."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "test-job"},
        "spec": {"minMember": members, "minResources": amounts or {"cpu": "9000"}, **spec},
    }


def correct(case: Case, raw: Json | None = None) -> tuple[Json, Result]:
    """The PodGroup as it is after, held to be what the patch makes of it, and a fixed point."""
    before = group() if raw is None else raw
    cluster, job = case.cluster(), stored(case.job, case.line)

    def once(obj: Json) -> Result:
        ctx = make_context(cluster, line=case.line)
        return run(pipeline().correct_pod_group(ctx, obj, job))

    after = deepcopy(before)
    result = once(after)
    assert jsonpatch.apply_patch(before, result.patch) == after
    assert result.allowed, "a PodGroup is never refused"
    assert once(deepcopy(after)).patch == []
    return after, result


# What is counted


@dataclass(frozen=True, kw_only=True)
class Count:
    """A TrainJob, and what its gang is."""

    runtime: MakeRuntime
    members: int
    amounts: Json
    job: MakeTrainJob = JOB
    others: tuple[Builder | Json, ...] = ()
    warns: tuple[str, ...] = ()
    line: str = "2.3"


def sequence(node_pod: Json | None = None) -> MakeRuntime:
    """Two initializers of one and two CPUs, and a trainer of eight that waits for them."""
    out = make_runtime().torch()
    for name, amount in (("dataset-initializer", "1"), ("model-initializer", "2")):
        out = out.job(name, name, containers=[container(name, resources=cpu(amount))])
    return out.node(container("node", resources=cpu("8")), depends_on=WAITS, pod=node_pod)


def mpi(*, as_node: bool) -> MakeRuntime:
    """A launcher that waits until the workers are ready, as every shipped runtime has it."""
    out = make_runtime().mpi(mpiImplementation="OpenMPI", runLauncherAsNode=as_node)
    out = out.job("node", containers=[container("node", resources=cpu("4"))])
    return out.job(
        "launcher",
        names.TRAINER,
        containers=[container("node", resources=cpu("1"))],
        depends_on={"node": "Ready"},
    )


def replicated(replicas: int, parallelism: int) -> MakeRuntime:
    return (
        make_runtime()
        .torch()
        .node(container("node", resources=cpu("4")))
        .job(
            "eval",
            containers=[container("eval", resources=cpu("1"))],
            replicas=replicas,
            job_spec={"parallelism": parallelism},
        )
    )


LATER: Final = "come later, and are not scheduled all or nothing"
DEFAULTS: Final = {"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "1Gi"}}
LIMIT_RANGE: Final = make_object(
    "LimitRange", "defaults", "team", apiVersion="v1", spec={"limits": [DEFAULTS]}
)
SANDBOX: Final = make_object("RuntimeClass", "sandboxed", overhead={"podFixed": {"cpu": "250m"}})

COUNTS: Final = {
    "without dependencies all pods": Count(
        runtime=make_runtime().torch().node(container("node", resources=cpu("4"))),
        job=JOB.nodes(3),
        members=3,
        amounts={"cpu": "12"},
    ),
    "initializers that others wait for, and nobody else": Count(
        runtime=sequence(),
        job=JOB.nodes(30),
        members=2,
        amounts={"cpu": "3"},
        warns=(f"the gang is 2 of dataset-initializer, model-initializer, .* node {LATER}",),
    ),
    "no warning where the trainer's job is no larger than the gang": Count(
        runtime=sequence(), job=JOB.nodes(2), members=2, amounts={"cpu": "3"}
    ),
    "MPI: the workers, without a launcher that is a node": Count(
        runtime=mpi(as_node=True), job=JOB.nodes(4), members=3, amounts={"cpu": "12"}
    ),
    "MPI: the workers, without a launcher that is none": Count(
        runtime=mpi(as_node=False), job=JOB.nodes(4), members=4, amounts={"cpu": "16"}
    ),
    "replicas": Count(runtime=replicated(2, 3), job=JOB.nodes(2), members=8, amounts={"cpu": "14"}),
    "limits stand in for requests": Count(
        runtime=make_runtime().torch().node(container("node")),
        job=JOB.nodes(4).resources(limits={"cpu": 4, "nvidia.com/gpu": 8}),
        members=4,
        amounts={"cpu": "16", "nvidia.com/gpu": "32"},
    ),
    "the defaults of a LimitRange": Count(
        runtime=make_runtime().torch().node(container("node", resources=cpu("4"))),
        others=(LIMIT_RANGE,),
        job=JOB.nodes(2),
        members=2,
        amounts={"cpu": "8", "memory": "2Gi"},
    ),
    "the overhead of a RuntimeClass": Count(
        runtime=make_runtime()
        .torch()
        .node(container("node", resources=cpu("4")), pod={"runtimeClassName": "sandboxed"}),
        others=(SANDBOX,),
        job=JOB.nodes(4),
        members=4,
        amounts={"cpu": "17"},
    ),
    "pods that ask for nothing": Count(
        runtime=make_runtime().torch().node(container("node")),
        job=JOB.nodes(2),
        members=2,
        amounts={},
    ),
    "in order: the first job": Count(
        runtime=replicated(2, 3).template({"startupPolicyOrder": "InOrder"}, "startupPolicy"),
        job=JOB.nodes(2),
        members=2,
        amounts={"cpu": "8"},
    ),
    "in any order: all jobs": Count(
        runtime=replicated(2, 3).template({"startupPolicyOrder": "AnyOrder"}, "startupPolicy"),
        job=JOB.nodes(2),
        members=8,
        amounts={"cpu": "14"},
    ),
}


@table(COUNTS)
def test_a_gang_is(case: Count) -> None:
    about = Case(runtime=case.runtime, job=case.job, others=case.others, line=case.line)
    after, result = correct(about)
    assert after["spec"] == {"minMember": case.members, "minResources": case.amounts}
    assert len(result.findings.warnings) == len(case.warns)
    for text, wanted in zip(result.findings.warnings, case.warns, strict=True):
        assert all(piece in text for piece in wanted.split(".*"))


@pytest.mark.parametrize("line", LINES)
def test_every_line_is_counted_alike(line: str) -> None:
    case = Case(runtime=replicated(2, 3), job=JOB.nodes(2), line=line)
    after, _ = correct(case)
    assert after["spec"] == {"minMember": 8, "minResources": {"cpu": "14"}}


SHIPPED: Final[dict[str, tuple[int, Json]]] = {
    "flux-distributed": (3, {"cpu": "6", "memory": "12Gi"}),
    "jax-distributed": (3, {"cpu": "24", "memory": "96Gi", "nvidia.com/gpu": "12"}),
    "mpi-distributed": (2, {"cpu": "8", "memory": "16Gi"}),
    "plain": (3, {"cpu": "1500m", "memory": "3Gi"}),
    "torch-coscheduling": (3, {"cpu": "24", "memory": "96Gi", "nvidia.com/gpu": "24"}),
    "torch-distributed": (3, {"cpu": "24", "memory": "96Gi", "nvidia.com/gpu": "6"}),
    "torch-sandboxed": (3, {"cpu": "13050m", "memory": "7008Mi"}),
    "torch-volcano": (3, {"cpu": "24", "memory": "96Gi", "nvidia.com/gpu": "24"}),
    "torchtune-llama3.2-1b": (2, {"cpu": "2", "memory": "6Gi"}),
    "xgboost-distributed": (3, {"cpu": "12", "memory": "48Gi"}),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_an_example_runtime_with_three_nodes(name: str) -> None:
    objects = [document.obj for document in read_tree(EXAMPLES)]
    [kind] = [o["kind"] for o in objects if o["metadata"]["name"] == name]
    namespace = "team-vision" if kind == names.TRAINING_RUNTIME else "team"
    ctx = make_context(cluster_of(*objects))
    ctx.namespace = namespace
    raw, job = group(), stored(JOB.nodes(3).runtime(name, kind=kind))
    run(pipeline().correct_pod_group(ctx, raw, job))
    members, amounts = SHIPPED[name]
    assert raw["spec"] == {"minMember": members, "minResources": amounts}


def test_all_examples_are_tried() -> None:
    runtimes = {
        document.obj["metadata"]["name"]
        for document in read_tree(EXAMPLES)
        if document.obj["kind"] in names.RUNTIME_KINDS
    }
    assert set(SHIPPED) == runtimes


# How it is written

PLAIN: Final = Case(
    runtime=make_runtime().torch().node(container("node", resources=cpu("4", memory="1Gi"))),
    job=JOB.nodes(2),
)
WANTED: Final = {"cpu": "8", "memory": "2Gi"}


@dataclass(frozen=True, kw_only=True)
class Written:
    """What the PodGroup says, and which of the two fields are written."""

    spec: Any
    writes: tuple[str, ...] = ()
    wanted: Json = field(default_factory=lambda: {"minMember": 2, "minResources": WANTED})


MEMBERS, AMOUNTS = "/spec/minMember", "/spec/minResources"
FORMS: Final = {
    "what is right is left alone": Written(spec={"minMember": 2, "minResources": WANTED}),
    "an amount in another form is right": Written(
        spec={"minMember": 2, "minResources": {"cpu": "8000m", "memory": "2048Mi"}},
        wanted={"minMember": 2, "minResources": {"cpu": "8000m", "memory": "2048Mi"}},
    ),
    "a number is an amount": Written(
        spec={"minMember": 2, "minResources": {"cpu": 8, "memory": "2Gi"}},
        wanted={"minMember": 2, "minResources": {"cpu": 8, "memory": "2Gi"}},
    ),
    "a count": Written(spec={"minMember": 3, "minResources": WANTED}, writes=(MEMBERS,)),
    "a count as a number of another type": Written(
        spec={"minMember": 2.0, "minResources": WANTED}, writes=(MEMBERS,)
    ),
    "an amount": Written(
        spec={"minMember": 2, "minResources": {"cpu": "4", "memory": "2Gi"}}, writes=(AMOUNTS,)
    ),
    "a resource that is missing": Written(
        spec={"minMember": 2, "minResources": {"cpu": "8"}}, writes=(AMOUNTS,)
    ),
    "a resource too many": Written(
        spec={"minMember": 2, "minResources": {**WANTED, "nvidia.com/gpu": "1"}}, writes=(AMOUNTS,)
    ),
    "an amount that cannot be read": Written(
        spec={"minMember": 2, "minResources": {"cpu": "a lot", "memory": "2Gi"}}, writes=(AMOUNTS,)
    ),
    "no amounts at all": Written(spec={"minMember": 2}, writes=(AMOUNTS,)),
    "null": Written(spec={"minMember": 2, "minResources": None}, writes=(AMOUNTS,)),
    "both": Written(spec={"minMember": 1, "minResources": {}}, writes=(MEMBERS, AMOUNTS)),
    "whatever else is there stays": Written(
        spec={"minMember": 1, "minResources": WANTED, "queue": "q", "minTaskMember": {"a": 1}},
        writes=(MEMBERS,),
        wanted={"minMember": 2, "minResources": WANTED, "queue": "q", "minTaskMember": {"a": 1}},
    ),
    "neither is set: it is not the controller's": Written(
        spec={"queue": "q"}, wanted={"queue": "q"}
    ),
}


@table(FORMS)
def test_it_writes(case: Written) -> None:
    after, result = correct(PLAIN, {**group(), "spec": case.spec})
    assert after["spec"] == case.wanted
    assert tuple(operation["path"] for operation in result.patch) == case.writes
    assert {change.by for change in result.changes} <= {podgroup_correction.NAME}


@pytest.mark.parametrize("spec", [None, [], "minMember", 7, True])
def test_a_spec_of_another_shape_is_left_to_the_api_server(spec: object) -> None:
    raw = {**group(), "spec": spec}
    after, result = correct(PLAIN, raw)
    assert (after, result.patch) == (raw, [])


def test_the_same_amounts_come_out_as_the_same_bytes() -> None:
    texts = [str(correct(PLAIN)[1].patch) for _ in range(3)]
    assert len(set(texts)) == 1


# What is left as it is

LEFT: Final = "the PodGroup is left as it is: "


@dataclass(frozen=True, kw_only=True)
class Left:
    """A TrainJob that is no help, and what is said of it."""

    case: Case
    says: str


ODD: Final = {
    "the runtime does not exist": Left(
        case=Case(job=JOB.runtime("gone")), says="the runtime gone of its TrainJob does not exist"
    ),
    "the controller cannot build the job": Left(
        case=Case(runtime=make_runtime().flux().node(), job=JOB),
        says="its TrainJob cannot be built",
    ),
    "no pod exists first: the CRD of the scheduler-plugins wants one": Left(
        case=Case(runtime=make_runtime().torch().node(), job=JOB.nodes(0)),
        says="a gang of 0 pods cannot be asked for",
    ),
    "more pods than the field holds": Left(
        case=Case(
            runtime=make_runtime().torch().node().job("b", job_spec={"parallelism": 2**31 - 1}),
            job=JOB.nodes(1),
        ),
        says="a gang of 2147483648 pods cannot be asked for",
    ),
    "more than a 64-bit number holds": Left(
        case=Case(
            runtime=make_runtime().torch().node(container("node", resources=cpu("1", memory="8E"))),
            job=JOB.nodes(2),
        ),
        says="memory is more than a 64-bit number holds",
    ),
}


@table(ODD)
def test_it_leaves_alone(case: Left) -> None:
    after, result = correct(case.case)
    assert after == group()
    [text] = result.findings.warnings
    assert text.startswith(LEFT)
    assert case.says in text


# What the user hears, who creates the TrainJob

NEVER: Final = "the gang is never complete and no pod starts"


def gang_of(runtime: MakeRuntime, policy: str) -> MakeRuntime:
    return runtime.coscheduling() if policy == "coscheduling" else runtime.volcano()


@pytest.mark.parametrize("policy", ["coscheduling", "volcano"])
def test_a_gang_that_would_never_be_complete_is_warned_of_unless_it_is_corrected(
    policy: str,
) -> None:
    runtime = gang_of(sequence({"schedulerName": "s"}), policy)
    case = Case(runtime=runtime, job=JOB.nodes(30))
    assert any(NEVER in text for text in admit(case).findings.warnings)
    warnings = admit(case, pipeline()).findings.warnings
    assert not any(NEVER in text for text in warnings)
    assert sum(LATER in text for text in warnings) == 1
    assert any("names no schedulerName" in text for text in warnings), "this stays true"


@pytest.mark.parametrize("policy", ["coscheduling", "volcano"])
def test_a_gang_that_holds_the_workers_is_not_warned_of(policy: str) -> None:
    runtime = gang_of(mpi(as_node=True), policy)
    warnings = admit(Case(runtime=runtime, job=JOB.nodes(4)), pipeline()).findings.warnings
    assert not any(NEVER in text or LATER in text for text in warnings)


def test_a_runtime_is_not_told_that_its_gang_is_never_complete() -> None:
    new = compiled(sequence().coscheduling())
    ctx = make_context(cluster_of(), kind=new.kind)
    result = run(pipeline().validate_runtime(ctx, None, new))
    assert_found(result.findings, (), ("names no schedulerName",))


@pytest.mark.parametrize("policy", ["coscheduling", "volcano"])
def test_what_the_controller_makes_is_predicted_all_the_same(policy: str) -> None:
    case = Case(runtime=gang_of(mpi(as_node=True), policy), job=JOB.nodes(4))
    ctx = make_context(case.cluster())
    info = pipeline().resolve(ctx, stored(case.job))
    assert info is not None
    assert pipeline().build(ctx, info) == build(case).objects


# In a Pipeline


def test_it_runs_only_where_it_is_asked_for() -> None:
    assert not default_pipeline().corrects_pod_groups
    assert pipeline().corrects_pod_groups
    assert [spec.name for spec in opt_in()] == [podgroup_correction.NAME]


def test_it_may_be_disabled_at_its_point() -> None:
    found = pipeline_with(
        {
            "plugins": {
                "multiPoint": {"enabled": [{"name": podgroup_correction.NAME}]},
                "correctPodGroup": {"disabled": [{"name": podgroup_correction.NAME}]},
            }
        }
    )
    assert not found.corrects_pod_groups
    case = Case(runtime=sequence().coscheduling(), job=JOB.nodes(30))
    assert any(NEVER in text for text in admit(case, found).findings.warnings)


class Stumbles(interface.CorrectPodGroupPlugin):
    """Fails, or finds an error, or takes too long."""

    name = "Stumbles"

    def __init__(self, outcome: Exception | Findings) -> None:
        self._outcome = outcome

    def correct_pod_group(self, ctx: Context, info: Info, draft: Draft) -> Findings:
        del ctx, info
        draft.set(At("spec", "minMember"), 77)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def stumbling(outcome: Exception | Findings, on_fault: str = "Warn") -> Pipeline:
    spec = PluginSpec(name="Stumbles", build=lambda _args, _handle: Stumbles(outcome))
    document = {
        "apiVersion": profile.API_VERSION,
        "kind": profile.KIND,
        "pluginConfig": [{"name": "Stumbles", "onFault": on_fault}],
    }
    order = [*(s.name for s in in_tree()), "Stumbles"]
    return Pipeline(Registry((*in_tree(), spec)), profile.decode(document, order))


@pytest.mark.parametrize("on_fault", ["Warn", "Refuse"])
def test_a_plugin_that_fails_changes_nothing_and_refuses_nothing(on_fault: str) -> None:
    ctx = make_context(PLAIN.cluster())
    found = stumbling(ValueError("secret"), on_fault)
    result = run(found.correct_pod_group(ctx, group(), stored(PLAIN.job)))
    assert (result.allowed, result.patch) == (True, [])
    [text] = result.findings.warnings
    assert "plugin Stumbles failed in correct_pod_group: ValueError" in text
    assert "secret" not in text


def test_an_error_that_a_plugin_finds_is_a_warning() -> None:
    ctx = make_context(PLAIN.cluster())
    findings = Findings()
    findings.error(invalid(At("spec", "queue"), "q", "must be another"))
    result = run(stumbling(findings).correct_pod_group(ctx, group(), stored(PLAIN.job)))
    assert result.allowed
    assert result.findings.warnings == ['spec.queue: Invalid value: "q": must be another']


def test_it_ends_with_its_time() -> None:
    ctx = make_context(PLAIN.cluster())
    found = stumbling(DeadlineExceeded("used up"))
    with pytest.raises(DeadlineExceeded):
        run(found.correct_pod_group(ctx, group(), stored(PLAIN.job)))


def test_it_is_the_same_whoever_builds_it() -> None:
    spec = podgroup_correction.SPEC
    assert spec.build(Args(), Handle()) == spec.build(Args(), Handle())
