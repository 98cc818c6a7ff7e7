"""What is wrong with a runtime: the Trainer's rules for ancestors, on update too, and what JobSet refuses later."""

from __future__ import annotations

from typing import Any

from plugins.framework.api import names
from tests.builders import MakeRuntime, container, make_runtime, make_train_job, mount
from tests.plugins.kit import (
    Case,
    RuntimeCase,
    check,
    check_runtime,
    duplicate,
    invalid,
    not_found,
    required,
    table,
)

PLAIN = make_runtime().plain()
GOOD = PLAIN.node()
THREE = PLAIN.initializers().node()
JOBS = "spec.template.spec.replicatedJobs"
SPEC = "spec.template.spec"
CONTAINERS = "template.spec.template.spec.containers"
MAIN = container("main")


def on_policy(policy: str) -> MakeRuntime:
    return make_runtime().policy(policy)


def waiting(job: str, *targets: str, status: str = "Complete") -> MakeRuntime:
    """Jobs ``a``, ``b`` and ``node``, of which one waits."""
    out = PLAIN
    for name in ("a", "b"):
        out = out.job(name, depends_on=dict.fromkeys(targets, status) if name == job else None)
    return out.node(depends_on=dict.fromkeys(targets, status) if job == "node" else None)


PASSES = {
    "R01 a runtime with a trainer": GOOD,
    "R10 ancestors with one replica and their containers": THREE,
    "R11 an unknown ancestor may have two replicas and any container": GOOD.job(
        "x", "launcher", containers=[MAIN], replicas=2
    ),
    "a job without ancestor may have replicas": GOOD.job("x", containers=[MAIN], replicas=3),
    "a launcher may have replicas since 2.1": GOOD.job("launcher", containers=[MAIN], replicas=3),
    "dependsOn an earlier job": waiting("node", "a", "b"),
    "dependsOn Ready": waiting("b", "a", status="Ready"),
    "policies that name jobs": THREE.template(
        {"operator": "All", "targetReplicatedJobs": ["node"]}, "successPolicy"
    ).template(
        {"rules": [{"name": "r", "action": "FailJobSet", "targetReplicatedJobs": ["node"]}]},
        "failurePolicy",
    ),
    "a coordinator that is a job": GOOD.template({"replicatedJob": "node"}, "coordinator"),
    "a group name": PLAIN.node(groupName="workers"),
    "a job's name that begins with a digit": GOOD.job("2nd"),
    "a claim that is mounted": PLAIN.node(
        container("node", volumeMounts=[mount("c", "/c")])
    ).claims("c"),
    "a claim that an init container mounts": PLAIN.node(
        pod={"initContainers": [container("i", volumeMounts=[mount("c", "/c")])]}
    ).claims("c"),
    "no jobs at all": PLAIN.template({}, "network"),
}


@table(PASSES)
def test_passes(case: MakeRuntime) -> None:
    check_runtime(RuntimeCase(runtime=case))
    check_runtime(RuntimeCase(runtime=case.namespaced()))


REFUSED: dict[str, RuntimeCase] = {
    "R12 ancestors with two replicas, one refusal a job": RuntimeCase(
        runtime=PLAIN.job("dataset-initializer", names.DATASET_INITIALIZER, replicas=2).node(
            replicas=2
        ),
        refused=(
            invalid(f"{JOBS}[0].replicas", "2", "always must be 1"),
            invalid(f"{JOBS}[1].replicas", "2", "always must be 1"),
        ),
    ),
    "R12 the Trainer of 2.0 looks at a job called launcher too": RuntimeCase(
        runtime=GOOD.job("launcher", containers=[MAIN], replicas=2),
        line="2.0",
        refused=(invalid(f"{JOBS}[1].replicas", "2", "always must be 1"),),
    ),
    "R12 no replicas are not one": RuntimeCase(
        runtime=PLAIN.node(replicas=0), refused=(invalid(f"{JOBS}[0].replicas", "0"),)
    ),
    "R13 a trainer without container node, and its containers are named": RuntimeCase(
        runtime=PLAIN.node(MAIN),
        refused=(
            invalid(
                f"{JOBS}[0].{CONTAINERS}",
                "must contain the required container for the ancestor: trainer",
                "named node; there are: main",
            ),
        ),
    ),
    "R13 an initializer without its container": RuntimeCase(
        runtime=GOOD.job("x", names.MODEL_INITIALIZER, containers=[MAIN]),
        refused=(
            invalid(
                f"{JOBS}[1].{CONTAINERS}", "ancestor: model-initializer (named model-initializer"
            ),
        ),
    ),
    "R13 node among the init containers is not enough": RuntimeCase(
        runtime=PLAIN.node(MAIN, pod={"initContainers": [container("node")]}),
        refused=(invalid(f"{JOBS}[0].{CONTAINERS}"),),
    ),
    "mlPolicy.numNodes below 1": RuntimeCase(
        runtime=GOOD.nodes(0), refused=(invalid("spec.mlPolicy.numNodes", "0", "at least 1"),)
    ),
    "the first job depends on another": RuntimeCase(
        runtime=waiting("a", "b"),
        refused=(invalid(f"{JOBS}[0].dependsOn[0].name", '"b"', "the first job cannot depend"),),
    ),
    "G40 a job depends on itself, which JobSet does not notice": RuntimeCase(
        runtime=waiting("b", "b"),
        refused=(invalid(f"{JOBS}[1].dependsOn[0].name", '"b"', "never start"),),
    ),
    "a job depends on a later one, and the earlier ones are named": RuntimeCase(
        runtime=waiting("b", "node"),
        refused=(not_found(f"{JOBS}[1].dependsOn[0].name", '"node"', "stands earlier: a"),),
    ),
    "a job depends on an unknown one": RuntimeCase(
        runtime=waiting("node", "a", "nosuch"),
        refused=(not_found(f"{JOBS}[2].dependsOn[1].name", '"nosuch"', "stands earlier: a, b"),),
    ),
    "a success policy names an unknown job": RuntimeCase(
        runtime=GOOD.template(
            {"operator": "All", "targetReplicatedJobs": ["node", "launcher"]}, "successPolicy"
        ),
        refused=(
            not_found(
                f"{SPEC}.successPolicy.targetReplicatedJobs[1]",
                '"launcher"',
                "jobs of the template: node",
            ),
        ),
    ),
    "a failure policy names an unknown job": RuntimeCase(
        runtime=GOOD.template(
            {"rules": [{"name": "r", "action": "FailJobSet", "targetReplicatedJobs": ["x"]}]},
            "failurePolicy",
        ),
        refused=(
            not_found(f"{SPEC}.failurePolicy.rules[0].targetReplicatedJobs[0]", "template: node"),
        ),
    ),
    "a coordinator that is no job": RuntimeCase(
        runtime=GOOD.template({"replicatedJob": "x"}, "coordinator"),
        refused=(not_found(f"{SPEC}.coordinator.replicatedJob", '"x"', "template: node"),),
    ),
    "a subdomain that is no DNS label": RuntimeCase(
        runtime=GOOD.template("No_Domain", "network", "subdomain"),
        refused=(invalid(f"{SPEC}.network.subdomain", '"No_Domain"'),),
    ),
    "a group name that is no DNS label": RuntimeCase(
        runtime=PLAIN.node(groupName="No_Group"),
        refused=(invalid(f"{JOBS}[0].groupName", '"No_Group"'),),
    ),
    "a job's name that ends in a hyphen": RuntimeCase(
        runtime=GOOD.job("job-"), refused=(invalid(f"{JOBS}[1].name", '"job-"', "both ends"),)
    ),
    "a job's name that is no DNS label": RuntimeCase(
        runtime=GOOD.job("No_Job"), refused=(invalid(f"{JOBS}[1].name", '"No_Job"'),)
    ),
    "a claim that nobody mounts": RuntimeCase(
        runtime=GOOD.claims("c"),
        refused=(
            invalid(f"{SPEC}.volumeClaimPolicies[0].templates[0].metadata.name", '"c"', "mounts"),
        ),
    ),
    "a claim twice": RuntimeCase(
        runtime=PLAIN.node(container("node", volumeMounts=[mount("c", "/c")])).claims("c", "c"),
        refused=(duplicate(f"{SPEC}.volumeClaimPolicies[0].templates[1].metadata.name", '"c"'),),
    ),
    "claims without a template": RuntimeCase(
        runtime=GOOD.template([{"templates": []}], "volumeClaimPolicies"),
        refused=(
            required(f"{SPEC}.volumeClaimPolicies[0].templates", "must have at least one claim"),
        ),
    ),
    "a claim beside a volume of its name": RuntimeCase(
        runtime=PLAIN.node(
            container("node", volumeMounts=[mount("c", "/c")]),
            pod={"volumes": [{"name": "c", "emptyDir": {}}]},
        ).claims("c"),
        refused=(
            invalid(
                f"{SPEC}.volumeClaimPolicies[0].templates[0].metadata.name", "job node has a volume"
            ),
        ),
    ),
}


@table(REFUSED)
def test_refused_on_create(case: RuntimeCase) -> None:
    check_runtime(case)


@table(REFUSED)
def test_refused_on_update_of_either_kind(case: RuntimeCase) -> None:
    """R16, G4: the Trainer does not look at updates of TrainingRuntimes at all."""
    for old, new in ((GOOD, case.runtime), (GOOD.namespaced(), case.runtime.namespaced())):
        check_runtime(RuntimeCase(runtime=new, old=old, line=case.line, refused=case.refused))


@table(REFUSED)
def test_what_is_stored_and_stays_is_no_reason_to_refuse(case: RuntimeCase) -> None:
    check_runtime(RuntimeCase(runtime=case.runtime.coscheduling(), old=case.runtime))


@table(REFUSED)
def test_a_train_job_of_a_faulty_runtime_is_warned(case: RuntimeCase) -> None:
    warns = ("ClusterTrainingRuntime runtime has a fault: spec.",)
    check(Case(job=make_train_job().nodes(1), runtime=case.runtime, line=case.line, warns=warns))


def test_a_second_fault_of_the_same_kind_is_refused() -> None:
    old = PLAIN.node(MAIN)
    new = old.job("more", names.TRAINER, containers=[MAIN])
    check_runtime(RuntimeCase(runtime=new, old=old, refused=(invalid(f"{JOBS}[1].{CONTAINERS}"),)))


ANCESTOR = names.ANCESTOR_LABEL


def with_env(policy: str, job: str, ancestor: str | None, **variables: str) -> MakeRuntime:
    node = container("node", variables)
    runtime = on_policy(policy).job(job, ancestor, containers=[node])
    return runtime if job == "node" else runtime.job("node")


WARNED: dict[str, tuple[MakeRuntime, tuple[str, ...]]] = {
    "an ancestor that the Trainer does not know, with those that it does": (
        GOOD.job("x", "Trainer"),
        (f'{JOBS}[1]: label {ANCESTOR} is "Trainer"',),
    ),
    "G43 the ancestor label on pods": (
        GOOD.job("x", pod_metadata={"labels": {ANCESTOR: "trainer"}}),
        ("has no effect on the pod template",),
    ),
    "G37 a deadline of the Job": (
        PLAIN.node(job_spec={"activeDeadlineSeconds": 1}),
        (f"{JOBS}[0]: activeDeadlineSeconds",),
    ),
    "G27 two trainers": (
        GOOD.job("more", names.TRAINER),
        ("jobs node, more all have the ancestor trainer",),
    ),
    "G27 no trainer": (PLAIN.job("node"), ("no job has the ancestor trainer",)),
    "G11 torch with a trainer of another name": (
        on_policy("torch").job("worker", names.TRAINER),
        ("the trainer's job is named worker: with policy torch",),
    ),
    "G11 jax with a subdomain": (
        on_policy("jax").node().template("net", "network", "subdomain"),
        ('network.subdomain is "net": with policy jax',),
    ),
    "G22 torch: a variable that the controller sets": (
        with_env("torch", "node", "trainer", PET_NNODES="1"),
        (f"{JOBS}[0]: container node sets PET_NNODES",),
    ),
    "G22 mpi: a variable that the controller sets": (
        with_env("mpi", "launcher", "trainer", OMPI_MCA_plm_rsh_args="x"),
        (f"{JOBS}[0]: container node sets OMPI_MCA_plm_rsh_args",),
    ),
}


@table(WARNED)
def test_warned(case: tuple[MakeRuntime, tuple[str, ...]]) -> None:
    check_runtime(RuntimeCase(runtime=case[0], warns=case[1]))


NOT_WARNED: dict[str, MakeRuntime] = {
    "a trainer of another name without a fixed address": PLAIN.job("worker", names.TRAINER),
    "MPI knows the subdomain": on_policy("mpi")
    .job("node")
    .job("launcher", names.TRAINER)
    .template("net", "network", "subdomain"),
    "a variable of another policy": with_env("torch", "node", "trainer", JAX_PROCESS_ID="1"),
    "a variable in a job that the controller leaves alone": on_policy("torch")
    .node()
    .job("x", containers=[container("x", {"PET_NNODES": "1"})]),
    "a variable of MPI in the workers": on_policy("mpi")
    .job("node", containers=[container("node", {"OMPI_MCA_plm_rsh_args": "x"})])
    .job("launcher", names.TRAINER),
    "no mlPolicy and no trainer": make_runtime().job("x", containers=[MAIN]),
}


@table(NOT_WARNED)
def test_not_warned(case: MakeRuntime) -> None:
    check_runtime(RuntimeCase(runtime=case, warns=()))


POLICIES: dict[str, Any] = {
    policy: on_policy(policy) for policy in ("torch", "jax", "xgboost", "flux")
}


@table(POLICIES)
def test_g11_every_policy_with_a_fixed_address_is_warned(case: MakeRuntime) -> None:
    runtime = case.job("worker", names.TRAINER).template("net", "network", "subdomain")
    check_runtime(RuntimeCase(runtime=runtime, warns=("is named worker", "network.subdomain is")))
