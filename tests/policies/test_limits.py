from __future__ import annotations

from typing import Any

import pytest

from plugins.framework.context import Context
from plugins.framework.info import Info
from plugins.runtime_defaults import NAME as PLUGIN
from policies import sources
from policies.document import Bounds, Expression, Images, Limit
from policies.faults import ExpressionFault
from policies.grants import Grant
from policies.limits import Violation, check, worse
from tests.builders import (
    MakeRuntime,
    MakeTrainJob,
    container,
    job_patch,
    make_object,
    make_runtime,
    make_train_job,
    resources,
)
from tests.policies.make import expression, least, limit, most, mutated, no_value

GPU = "nvidia.com/gpu"
SHA = "sha256:" + "a" * 64
TORCH = (
    make_runtime("torch")
    .torch()
    .nodes(2)
    .node(container("node", resources=resources(limits={GPU: "2"})))
)
JOB = make_train_job().runtime("torch")
GPUS = limit("gpus", resource=GPU, total=most(8), per_node=most("4"))


def violations(
    rule: Limit,
    job: MakeTrainJob = JOB,
    runtime: MakeRuntime = TORCH,
    *others: Any,
    line: str = "2.3",
    evaluate: Any = no_value,
    grants: tuple[Grant, ...] = (),
) -> list[Violation]:
    info, ctx = mutated(job, runtime, *others, line=line)
    return check(rule, info, ctx, evaluate=evaluate, grants=grants)


def texts(*args: Any, **more: Any) -> list[str]:
    return [str(v.error) for v in violations(*args, **more)]


# Amounts


def test_what_is_within_a_limit_passes() -> None:
    assert texts(GPUS) == []
    assert texts(GPUS, JOB.nodes(4)) == []


def test_too_many_nodes_for_a_total() -> None:
    assert texts(GPUS, JOB.nodes(5)) == [
        "spec.trainer.numNodes: Forbidden: nvidia.com/gpu of all pods that run at one time is 10 (node: 5 pods with 2), "
        "and at most 8 is allowed"
    ]


def test_too_much_on_one_node_is_named_there_and_in_the_total() -> None:
    rule = limit("gpus", resource=GPU, total=most(8), per_node=most(4), fix="ask the platform team")
    assert texts(rule, JOB.nodes(1).resources(limits={GPU: "16"})) == [
        "spec.trainer.resourcesPerNode: Forbidden: nvidia.com/gpu of all pods that run at one time is 16 (node: 1 pod "
        "with 16), and at most 8 is allowed; ask the platform team",
        "spec.trainer.resourcesPerNode: Forbidden: nvidia.com/gpu of one pod of job node is 16, and at most 4 is "
        "allowed; ask the platform team",
    ]


def test_what_comes_from_the_runtime_is_said_to() -> None:
    found = texts(limit(resource=GPU, total=most(3), per_node=most(1), nodes=most(1)))
    where = "spec.runtimeRef.name: Forbidden: "
    assert found == [
        f"{where}the job has 2 nodes (from ClusterTrainingRuntime torch), and at most 1 is allowed",
        f"{where}nvidia.com/gpu of all pods that run at one time is 4 (node: 2 pods with 2) (from "
        "ClusterTrainingRuntime torch), and at most 3 is allowed",
        f"{where}nvidia.com/gpu of one pod of job node is 2 (from ClusterTrainingRuntime torch), and at most 1 is allowed",
    ]


def test_what_a_policy_wrote_is_said_to() -> None:
    info, ctx = mutated(JOB.nodes(4), TORCH)
    ctx.written = {"/spec/trainer": "team:defaults:0123abcd"}
    [found] = check(limit(nodes=most(3)), info, ctx, evaluate=no_value)
    assert "the job has 4 nodes (written by team:defaults), and" in str(found.error)


def test_the_plugin_that_copies_the_runtime_is_known_by_its_name() -> None:
    assert sources.RUNTIME_DEFAULTS == PLUGIN


def test_minima() -> None:
    assert texts(limit(nodes=least(3))) == [
        "spec.runtimeRef.name: Forbidden: the job has 2 nodes (from ClusterTrainingRuntime torch), and at least 3 is needed"
    ]
    rule = limit(resource="memory", per_node=least("1Gi"))
    assert [v.part for v in violations(rule)] == [("perNode", "min", "node")]
    assert texts(rule, JOB.resources(requests={"memory": "1024Mi"})) == []


def test_a_minimum_per_node_is_for_pods_that_train() -> None:
    runtime = make_runtime("torch").torch().initializers().node()
    found = violations(limit(resource="cpu", per_node=Bounds(min=1)), JOB, runtime)
    assert [v.part for v in found] == [("perNode", "min", "node")]


def test_a_maximum_per_node_is_for_every_pod() -> None:
    side = container("x", resources=resources(limits={GPU: 9}))
    found = violations(GPUS, JOB, TORCH.job("side", containers=[side]))
    assert [v.part for v in found] == [("total", "max"), ("perNode", "max", "side")]
    assert found[0].error.field == "spec.runtimeRef.name"


@pytest.mark.parametrize("line", ["2.0", "2.1", "2.2", "2.3"])
def test_nodes_are_counted_on_every_line(line: str) -> None:
    assert texts(limit(nodes=most(2)), JOB.nodes(3), line=line) == [
        "spec.trainer.numNodes: Forbidden: the job has 3 nodes, and at most 2 is allowed"
    ]


@pytest.mark.parametrize(("as_node", "nodes"), [(True, 4), (False, 4)])
def test_with_mpi_the_launcher_is_a_node_where_it_runs_as_one(as_node: bool, nodes: int) -> None:
    runtime = make_runtime("torch").mpi(runLauncherAsNode=as_node, mpiImplementation="OpenMPI")
    runtime = runtime.job("launcher", "trainer", containers=[container("node")]).job("node")
    [found] = violations(limit(nodes=most(1), pods=most(99)), JOB.nodes(4), runtime)
    assert f"the job has {nodes} nodes" in str(found.error)


def test_pods_are_all_pods() -> None:
    runtime = TORCH.job("side", replicas=2, job_spec={"parallelism": 3, "completions": 3})
    assert texts(limit(pods=most(7)), JOB, runtime) == [
        "spec.runtimeRef.name: Forbidden: the job has 8 pods at one time (node: 2, side: 6) (from ClusterTrainingRuntime "
        "torch), and at most 7 is allowed"
    ]


def test_pods_that_never_run_together_are_not_added() -> None:
    runtime = make_runtime("torch").torch().job("dataset-initializer", "dataset-initializer")
    runtime = runtime.node(depends_on={"dataset-initializer": "Complete"})
    assert texts(limit(pods=most(2)), JOB.nodes(2), runtime) == []
    assert texts(limit(pods=most(1)), JOB.nodes(2), runtime) != []


def test_sidecars_init_containers_and_overhead_count() -> None:
    node = container("node", resources=resources(requests={"cpu": "1"}))
    side = container("side", restartPolicy="Always", resources=resources(requests={"cpu": "500m"}))
    runtime = (
        make_runtime("torch")
        .torch()
        .node(node, pod={"initContainers": [side], "runtimeClassName": "kata"})
    )
    kata = make_object(
        "RuntimeClass", "kata", handler="kata", overhead={"podFixed": {"cpu": "250m"}}
    )
    [found] = violations(limit(resource="cpu", total=most("3499m")), JOB.nodes(2), runtime, kata)
    assert "cpu of all pods that run at one time is 3500m (node: 2 pods with 1750m)" in str(
        found.error
    )
    assert found.excess == 10**6, "exactly one thousandth"


def test_a_glob_over_resources_adds_what_matches() -> None:
    slices = {"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-2g.10gb": "1", GPU: 8}
    runtime = (
        make_runtime("torch").torch().node(container("node", resources=resources(limits=slices)))
    )
    [found] = violations(limit(resource="nvidia.com/mig-*", total=most(5)), JOB.nodes(2), runtime)
    assert "nvidia.com/mig-* of all pods that run at one time is 6" in str(found.error)


@pytest.mark.parametrize(
    ("bound", "passes"),
    [("0.5", True), ("500m", True), ("499999999n", False), ("5e-1", True), (1, True), (0, False)],
)
def test_amounts_are_exact_whatever_their_form_b084(bound: Any, passes: bool) -> None:
    job = JOB.nodes(1).resources(requests={"cpu": "500m"})
    assert (texts(limit(resource="cpu", total=most(bound)), job) == []) is passes


def test_an_amount_that_nobody_can_read_is_never_within_a_limit() -> None:
    info, ctx = mutated(JOB, TORCH)
    info.pod_sets[0].node_resources = {"limits": {GPU: "many"}}
    info.pod_sets[0]._requests = None
    info.notes.clear()
    rule = limit(resource=GPU, total=most(64), per_node=most(8), pods=most(2))
    [found] = check(rule, info, ctx, evaluate=no_value)
    assert found.part == ("unreadable",)
    assert (
        "nvidia.com/gpu cannot be counted: the runtime asks for an amount that cannot be read"
        in str(found.error)
    )


# Expressions


def given(value: Any) -> Any:
    def evaluate(asked: Expression) -> Any:
        assert asked.text == "params.most"
        return value

    return evaluate


@pytest.mark.parametrize("value", [3, "3", 3.0, "3000m"])
def test_a_bound_may_be_an_expression(value: Any) -> None:
    rule = limit(resource=GPU, total=most(expression("params.most")))
    assert "at most 3 is allowed" in texts(rule, evaluate=given(value))[0]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (0.5, "0.5"),
        (float("nan"), "null"),
        ([3], "[3]"),
        ({}, "{}"),
        ("many", '"many"'),
        ("10GB", '"10GB"'),
        ("1K", '"1K"'),
        ("", '""'),
    ],
)
def test_an_expression_that_gives_no_amount_is_a_fault_by_name_b087(value: Any, shown: str) -> None:
    rule = limit(resource=GPU, total=most(expression("params.most")))
    with pytest.raises(ExpressionFault) as fault:
        texts(rule, evaluate=given(value))
    assert str(fault.value) == (
        f"spec.limits[0].total.max.expression: gives {shown}, and a limit needs a whole number or a quantity such as 16Gi"
    )


def test_an_expression_without_a_value_is_its_own_fault() -> None:
    with pytest.raises(ExpressionFault, match="no value: x"):
        texts(limit(nodes=most(expression("x"))))


# Images

INSIDE = limit("images", images=Images(allow=("registry.example.com/**",)))


def with_image(image: str) -> MakeTrainJob:
    return JOB.trainer(image=image)


def test_the_trainers_image() -> None:
    assert texts(INSIDE, with_image("registry.example.com/a:1")) == []
    assert texts(INSIDE, with_image("a/b")) == [
        'spec.trainer.image: Forbidden: image "a/b" of container "node" of job node is read as docker.io/a/b:latest, and '
        "allowed are registry.example.com/**"
    ]


@pytest.mark.parametrize(
    "image",
    [
        "evil.test/registry.example.com/a",
        "registry.example.com.evil.test/a",
        "registry.example.com/../a",
        "registry.example.com",
        "registry.example.com:1/a",
        "registry.example.com/a b",
        "\u202eregistry.example.com/a",
    ],
)
def test_no_spelling_walks_past_the_list(image: str) -> None:
    assert texts(INSIDE, with_image(image)) != []


def test_every_image_of_every_pod_is_judged() -> None:
    bad = "quay.io/bad"
    pod = {
        "initContainers": [container("first", image=bad)],
        "volumes": [{"name": "files", "image": {"reference": bad}}],
    }
    runtime = (
        make_runtime("torch")
        .torch()
        .node(
            container("node", image="registry.example.com/a"), container("side", image=bad), pod=pod
        )
        .job("other", containers=[container("x", image=bad)])
    )
    assert [v.part for v in violations(INSIDE, JOB, runtime)] == [
        ("images", "allow", "node", "container", "side", bad),
        ("images", "allow", "node", "init container", "first", bad),
        ("images", "allow", "node", "volume", "files", bad),
        ("images", "allow", "other", "container", "x", bad),
    ]
    assert {v.error.field for v in violations(INSIDE, JOB, runtime)} == {"spec.runtimeRef.name"}


def test_an_image_volume_that_a_user_adds_is_judged_and_found_in_the_override() -> None:
    volume = {"name": "files", "image": {"reference": "quay.io/bad"}}
    job = with_image("registry.example.com/a").patch(
        "me.example.com/x", job_patch("node", pod={"volumes": [volume]})
    )
    assert [v.error.field for v in violations(INSIDE, job)] == ["spec.runtimePatches"]


def test_an_image_that_a_plugin_reads_from_env_is_judged() -> None:
    runtime = make_runtime("torch").flux().node(container("node", image="registry.example.com/a"))
    job = JOB.nodes(1).env("FLUX_VIEW_IMAGE", "quay.io/bad")
    [found] = violations(INSIDE, job, runtime)
    assert found.error.field == "spec.trainer.env"
    assert 'image "quay.io/bad" of init container "flux-installer" of job node' in str(found.error)
    assert [v.error.field for v in violations(INSIDE, JOB.nodes(1), runtime)] == [
        "spec.runtimeRef.name"
    ]


def test_denied_images() -> None:
    rule = limit(images=Images(deny=("**:latest", "quay.io/**")))
    assert texts(rule, with_image("quay.io/a:1")) == [
        'spec.trainer.image: Forbidden: image "quay.io/a:1" of container "node" of job node is denied: quay.io/**'
    ]
    assert "is denied: **:latest" in texts(rule, with_image("a"))[0]
    assert texts(rule, with_image("a:1")) == []
    assert texts(rule, with_image(f"a@{SHA}")) == []


def test_digests() -> None:
    rule = limit(images=Images(require_digest=True))
    assert texts(rule, with_image(f"a:1@{SHA}")) == []
    assert texts(rule, with_image("a:1")) == [
        'spec.trainer.image: Forbidden: image "a:1" of container "node" of job node must be named by its digest '
        "(@sha256:...), not by a tag that can be moved"
    ]
    assert "cannot be read: it has no digest" in texts(rule, with_image("a@sha256:abc"))[0]


def test_a_pattern_that_cannot_be_used_is_a_fault_of_the_policy() -> None:
    with pytest.raises(
        ExpressionFault,
        match=r"spec.limits\[0\]: has a pattern that cannot be used: it does not say",
    ):
        texts(limit(images=Images(allow=("*/a",))))


# Labels, annotations, runtimes


def test_required_labels_and_annotations() -> None:
    rule = limit(
        "team",
        require_labels=("team", "cost"),
        require_annotations=("a.example/b",),
        fix="see the wiki",
    )
    assert texts(rule, JOB.label("team", "x").label("cost", "")) == [
        "metadata.labels[cost]: Required value: every TrainJob must have the label cost, with a value; see the wiki",
        "metadata.annotations[a.example/b]: Required value: every TrainJob must have the annotation a.example/b, with a "
        "value; see the wiki",
    ]


def test_allowed_runtimes() -> None:
    assert texts(limit(runtimes=("jax", "torch*"))) == []
    assert texts(limit(runtimes=("jax-*",))) == [
        'spec.runtimeRef.name: Forbidden: the job runs on ClusterTrainingRuntime "torch", and allowed are jax-*'
    ]


def test_a_kind_in_front_keeps_out_runtimes_that_tenants_write() -> None:
    rule = limit(runtimes=("ClusterTrainingRuntime/torch*",))
    mine = make_train_job().runtime("torch", kind="TrainingRuntime")
    assert texts(rule) == []
    assert "runs on TrainingRuntime" in texts(rule, mine, TORCH.namespaced())[0]


# Updates


def changed(rule: Limit, old: MakeTrainJob, new: MakeTrainJob) -> list[tuple[str, ...]]:
    return [v.part for v in worse(violations(rule, old), violations(rule, new))]


STRICT = limit(
    resource=GPU, total=most(1), require_labels=("team",), images=Images(deny=("quay.io/**",))
)
STORED = with_image("quay.io/a").nodes(2).label("owner", "x")


@pytest.mark.parametrize(
    ("new", "wanted"),
    [
        (STORED, []),
        (STORED.label("owner", "y"), []),
        (STORED.suspended(), []),
        (STORED.nodes(1), []),
        (STORED.nodes(3), [("total", "max")]),
        (STORED.label("team", "x"), []),
        (STORED.trainer(image="a/b"), []),
        (STORED.trainer(image="quay.io/b"), [("images", "deny", "node", "container", "node", "quay.io/b")]),
    ],
)  # fmt: skip
def test_a_stricter_rule_blocks_only_what_makes_it_worse_b101(
    new: MakeTrainJob, wanted: list[tuple[str, ...]]
) -> None:
    assert changed(STRICT, STORED, new) == wanted


def test_taking_a_required_label_away_is_worse() -> None:
    labelled = STORED.label("team", "x")
    assert changed(STRICT, labelled, labelled.without("metadata", "labels", "team")) == [
        ("labels", "team")
    ]


def test_falling_further_below_a_minimum_is_worse() -> None:
    rule = limit(nodes=least(8))
    assert changed(rule, STORED.nodes(4), STORED.nodes(5)) == []
    assert changed(rule, STORED.nodes(4), STORED.nodes(3)) == [("nodes", "min")]


def resolved(nodes: int) -> tuple[Info, Context]:
    return mutated(JOB.nodes(nodes), TORCH)


def test_a_bound_that_moved_with_the_job_is_compared_as_it_was() -> None:
    """The old job is judged by the bound it had: what an update takes away from itself, it makes worse."""
    rule = limit(nodes=most(expression("params.most")))
    info, ctx = resolved(4)
    before = check(rule, info, ctx, evaluate=given(4))
    now = check(rule, info, ctx, evaluate=given(2))
    assert [v.part for v in worse(before, now)] == [("nodes", "max")]
