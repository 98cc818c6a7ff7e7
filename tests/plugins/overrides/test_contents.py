"""What overrides name must be in the runtime as it is; what they may set; what merging makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework.api import names
from tests.builders import (
    Json,
    MakeRuntime,
    MakeTrainJob,
    container,
    job_patch,
    make_runtime,
    make_train_job,
    mount,
    patched,
)
from tests.plugins.kit import (
    Case,
    Refusal,
    admit,
    check,
    duplicate,
    forbidden,
    invalid,
    not_found,
    table,
)

SECRET_REF = {"secretKeyRef": {"name": "s", "key": "k"}}
FIELD_REF = {"fieldRef": {"fieldPath": "metadata.name"}}
SCRATCH = {"name": "scratch", "emptyDir": {}}
RUNTIME = (
    make_runtime()
    .plain()
    .initializers()
    .node(
        container("node"),
        container(
            "side",
            {"LEVEL": "1", "TOKEN": SECRET_REF, "EMPTY": ""},
            volumeMounts=[mount("data", "/data")],
        ),
        pod={
            "initContainers": [container("setup")],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
            "tolerations": [{"key": "pool", "operator": "Exists"}],
        },
    )
)
JOB = make_train_job().suspended()
AT = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
POD = f"{AT}.template.spec.template.spec"
SECOND = POD.replace("runtimePatches[0]", "runtimePatches[1]")


def patch(
    job: str = "node", *, manager: str = "acme.io/a", on: MakeTrainJob = JOB, **pod: Any
) -> MakeTrainJob:
    """A TrainJob with a patch of the pods of one job."""
    return on.patch(manager, job_patch(job, pod=pod))


def side(variables: dict[str, Any] | None = None, **fields: Any) -> list[Json]:
    return [patched("side", variables, **fields)]


# One refused and one passed case a rule, on create; the same again on update below.
CASES: dict[str, Case] = {
    "J07 a job that the runtime lacks is refused, and its jobs are named": Case(
        job=patch("nodee", nodeSelector={"a": "b"}),
        refused=(
            not_found(
                f"{AT}.name",
                '"nodee"',
                "jobs of runtime runtime: dataset-initializer, model-initializer, node",
            ),
        ),
    ),
    "J24 patches of two jobs by two managers pass": Case(
        job=patch(
            "node", nodeSelector={"a": "b"}, on=patch("model-initializer", manager="acme.io/b")
        )
    ),
    "J08 an init container that the job lacks is refused, and its init containers are named": Case(
        job=patch(initContainers=[patched("nosuch")]),
        refused=(
            not_found(
                f"{POD}.initContainers[0].name", '"nosuch"', "init containers of job node: setup"
            ),
        ),
    ),
    "J08 an init container that is there passes": Case(
        job=patch(initContainers=[patched("setup", {"A": "1"})])
    ),
    "J08 an init container of a job without any is refused": Case(
        job=patch("model-initializer", initContainers=[patched("setup")]),
        refused=(
            not_found(
                f"{POD}.initContainers[0].name", "init containers of job model-initializer: none"
            ),
        ),
    ),
    "J09 a container that the job lacks is refused at its index, and its containers are named": Case(
        job=patch(containers=[patched("side"), patched("trainer")]),
        refused=(
            not_found(
                f"{POD}.containers[1].name", '"trainer"', "containers of job node: node, side"
            ),
        ),
    ),
    "G3 a container under initContainers is refused, and the other list is pointed at": Case(
        job=patch(initContainers=[patched("side")]),
        refused=(
            not_found(
                f"{POD}.initContainers[0].name", "side is one of its containers: patch it there"
            ),
        ),
    ),
    "G3 an init container under containers is refused, and the other list is pointed at": Case(
        job=patch(containers=[patched("setup")]),
        refused=(
            not_found(
                f"{POD}.containers[0].name", "setup is one of its initContainers: patch it there"
            ),
        ),
    ),
    "J10 env of node is refused, with the place where it can be set": Case(
        job=patch(containers=[patched("node", {"A": "1"})]),
        refused=(forbidden(f"{POD}.containers[0].env", "spec.trainer.env"),),
    ),
    "J10 env of both initializers is refused, one by one": Case(
        job=JOB.patch(
            "acme.io/a",
            job_patch(
                "dataset-initializer",
                pod={"containers": [patched("dataset-initializer", {"A": "1"})]},
            ),
            job_patch(
                "model-initializer", pod={"containers": [patched("model-initializer", {"A": "1"})]}
            ),
        ),
        refused=(
            forbidden(f"{POD}.containers[0].env", "spec.initializer"),
            forbidden(f"{POD}.containers[0].env".replace("Jobs[0]", "Jobs[1]"), "spec.initializer"),
        ),
    ),
    "J10 node without env passes": Case(
        job=patch(containers=[patched("node", volumeMounts=[mount("data", "/data")])])
    ),
    "G3 env of node in the wrong list is refused for both": Case(
        job=patch(initContainers=[patched("node", {"A": "1"})]),
        refused=(
            forbidden(f"{POD}.initContainers[0].env"),
            not_found(f"{POD}.initContainers[0].name"),
        ),
    ),
    "J11 env of a sidecar passes": Case(job=patch(containers=side({"NEW": "1", "LEVEL": "2"}))),
    "G9 $patch in a nodeSelector is refused": Case(
        job=patch(nodeSelector={"a": "b", "$patch": "replace"}),
        refused=(forbidden(f"{POD}.nodeSelector[$patch]", "merge directives are not allowed"),),
    ),
    "G9 an unknown $patch, on which the Trainer panics, is refused": Case(
        job=patch(nodeSelector={"$patch": "foo"}),
        refused=(forbidden(f"{POD}.nodeSelector[$patch]", "merge directives are not allowed"),),
    ),
    "directives deep in an affinity are found": Case(
        job=patch(
            affinity={
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "zone",
                            "labelSelector": {"matchLabels": {"$retainKeys": "x"}},
                        }
                    ]
                }
            }
        ),
        refused=(
            forbidden(
                f"{POD}.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
                ".labelSelector.matchLabels[$retainKeys]"
            ),
        ),
    ),
    "directives in labels are refused, which are no label names either": Case(
        job=JOB.patch(
            "acme.io/a", job_patch("node", pod_metadata={"labels": {"$patch": "delete"}})
        ),
        refused=(
            forbidden(f"{AT}.template.spec.template.metadata.labels[$patch]"),
            invalid(f"{AT}.template.spec.template.metadata.labels[$patch]"),
        ),
    ),
    "a dollar inside a key is no directive": Case(
        job=JOB.patch("acme.io/a", job_patch("node", pod_metadata={"annotations": {"a": "$patch"}}))
    ),
    "G31 a finalizer of pods is refused": Case(
        job=JOB.patch(
            "acme.io/a",
            job_patch("node", pod_metadata={"finalizers": ["a.io/x"], "labels": {"a": "b"}}),
        ),
        refused=(
            forbidden(
                f"{AT}.template.spec.template.metadata.finalizers", "only labels and annotations"
            ),
        ),
    ),
    "G31 name and namespace of Jobs are refused": Case(
        job=JOB.patch(
            "acme.io/a", job_patch("node", job_metadata={"name": "x", "namespace": "other"})
        ),
        refused=(
            forbidden(f"{AT}.template.metadata.name"),
            forbidden(f"{AT}.template.metadata.namespace"),
        ),
    ),
    "G31 finalizers of the JobSet are refused, though the Trainer ignores them": Case(
        job=JOB.patch("acme.io/a", metadata={"finalizers": ["a.io/x"]}),
        refused=(
            forbidden("spec.runtimePatches[0].trainingRuntimeSpec.template.metadata.finalizers"),
        ),
    ),
    "labels and annotations at all three levels pass": Case(
        job=JOB.patch(
            "acme.io/a",
            job_patch(
                "node",
                pod_metadata={"labels": {"a": "b"}, "annotations": {"a": "b"}},
                job_metadata={"labels": {"a": "b"}, "annotations": {"a": "b"}},
            ),
            metadata={"labels": {"a": "b"}, "annotations": {"a": "b"}},
        )
    ),
    "a label that Kubernetes would refuse on the pod is refused": Case(
        job=JOB.patch("acme.io/a", job_patch("node", pod_metadata={"labels": {"a": "not good"}})),
        refused=(invalid(f"{AT}.template.spec.template.metadata.labels[a]", '"not good"'),),
    ),
    "G43 the ancestor label of a Job is the runtime's to say": Case(
        job=JOB.patch(
            "acme.io/a",
            job_patch("node", job_metadata={"labels": {names.ANCESTOR_LABEL: "trainer"}}),
        ),
        refused=(forbidden(f"{AT}.template.metadata.labels[{names.ANCESTOR_LABEL}]"),),
    ),
    "G43 on pods it has no effect and passes": Case(
        job=JOB.patch(
            "acme.io/a",
            job_patch("node", pod_metadata={"labels": {names.ANCESTOR_LABEL: "trainer"}}),
        )
    ),
    "M17 a volume with another source under a name of the runtime is refused": Case(
        job=patch(volumes=[SCRATCH, {"name": "data", "emptyDir": {}}]),
        refused=(
            invalid(
                f"{POD}.volumes[1]", '"data"', "persistentVolumeClaim", "emptyDir", "another name"
            ),
        ),
    ),
    "M17 more of the same source passes": Case(
        job=patch(
            volumes=[
                {"name": "data", "persistentVolumeClaim": {"claimName": "d", "readOnly": True}}
            ]
        )
    ),
    "M17 a new volume passes": Case(job=patch(volumes=[SCRATCH])),
    "M17 two patches that give a volume two sources are refused at the later one": Case(
        job=patch(
            volumes=[{"name": "scratch", "hostPath": {"path": "/x"}}],
            manager="acme.io/b",
            on=patch(volumes=[SCRATCH]),
        ),
        refused=(invalid(f"{SECOND}.volumes[0]", "emptyDir", "hostPath"),),
    ),
    "M17 two patches of one volume with one source pass": Case(
        job=patch(volumes=[SCRATCH], manager="acme.io/b", on=patch(volumes=[SCRATCH]))
    ),
    "M17 the same name in the pods of two jobs is no clash": Case(
        job=patch(
            "model-initializer",
            volumes=[{"name": "scratch", "hostPath": {"path": "/x"}}],
            manager="acme.io/b",
            on=patch(volumes=[SCRATCH]),
        )
    ),
    "M17 a volume with two sources of its own is refused": Case(
        job=patch(volumes=[{**SCRATCH, "hostPath": {"path": "/x"}}]),
        refused=(invalid(f"{POD}.volumes[0]", "must have one source, and has emptyDir, hostPath"),),
    ),
    "G19 valueFrom over a value of the runtime is refused": Case(
        job=patch(containers=side({"LEVEL": FIELD_REF})),
        refused=(invalid(f"{POD}.containers[0].env[0]", '"LEVEL"', "both value and valueFrom"),),
    ),
    "G19 a value over valueFrom of the runtime is refused": Case(
        job=patch(containers=side({"A": "1", "TOKEN": "x"})),
        refused=(invalid(f"{POD}.containers[0].env[1]", '"TOKEN"', "both value and valueFrom"),),
    ),
    "G19 another kind of valueFrom is refused": Case(
        job=patch(containers=side({"TOKEN": FIELD_REF})),
        refused=(invalid(f"{POD}.containers[0].env[0]", "fieldRef", "secretKeyRef"),),
    ),
    "G19 another key of the same kind of valueFrom passes": Case(
        job=patch(containers=side({"TOKEN": {"secretKeyRef": {"name": "s", "key": "other"}}}))
    ),
    "G19 valueFrom over an empty value passes, since that is as good as none": Case(
        job=patch(containers=side({"EMPTY": FIELD_REF}))
    ),
    "G19 two patches that clash are refused at the later one": Case(
        job=patch(
            containers=side({"NEW": FIELD_REF}),
            manager="acme.io/b",
            on=patch(containers=side({"NEW": "1"})),
        ),
        refused=(invalid(f"{SECOND}.containers[0].env[0]", '"NEW"'),),
    ),
    "G19 variables of two containers are no clash": Case(
        job=patch(
            initContainers=[patched("setup", {"NEW": FIELD_REF})],
            manager="acme.io/b",
            on=patch(containers=side({"NEW": "1"})),
        )
    ),
    "a mount of a volume that nobody declares is refused, and the volumes are named": Case(
        job=patch(containers=side(volumeMounts=[mount("nosuch", "/x")])),
        refused=(
            not_found(
                f"{POD}.containers[0].volumeMounts[0].name", '"nosuch"', "volumes of job node: data"
            ),
        ),
    ),
    "a mount in an init container is looked at too": Case(
        job=patch(initContainers=[patched("setup", volumeMounts=[mount("nosuch", "/x")])]),
        refused=(
            not_found(f"{POD}.initContainers[0].volumeMounts[0].name", "volumes of job node"),
        ),
    ),
    "a mount of a volume of the same patch passes": Case(
        job=patch(containers=side(volumeMounts=[mount("scratch", "/x")]), volumes=[SCRATCH])
    ),
    "a mount of a volume of a later patch passes": Case(
        job=patch(
            volumes=[SCRATCH],
            manager="acme.io/b",
            on=patch(containers=side(volumeMounts=[mount("scratch", "/x")])),
        )
    ),
    "a mount of a volume of another job is refused": Case(
        job=patch(
            "model-initializer",
            containers=[patched("model-initializer", volumeMounts=[mount("data", "/x")])],
        ),
        refused=(not_found(f"{POD}.containers[0].volumeMounts[0].name", "none"),),
    ),
}


@table(CASES)
def test_on_create(case: Case) -> None:
    check(Case(job=case.job, runtime=RUNTIME, refused=case.refused))


@table({rule: case for rule, case in CASES.items() if case.refused})
def test_on_update(case: Case) -> None:
    """A patch that is added while suspended is judged as on create."""
    check(Case(old=JOB, job=case.job, runtime=RUNTIME, refused=case.refused))


@table({rule: case for rule, case in CASES.items() if case.refused})
def test_what_is_stored_is_no_reason_to_refuse_another_patch(case: Case) -> None:
    more = case.job.patch("acme.io/more", job_patch("node", pod={"nodeSelector": {"a": "b"}}))
    check(Case(old=case.job, job=more, runtime=RUNTIME))


def test_the_same_fault_in_another_entry_is_new() -> None:
    """The ratchet counts: one fault that is stored excuses one."""
    old = patch("nosuch")
    job = patch("nosuch", manager="acme.io/b", on=old)
    place = f"{AT}.name".replace("runtimePatches[0]", "runtimePatches[1]")
    check(Case(old=old, job=job, runtime=RUNTIME, refused=(not_found(place),)))


def test_a_fault_that_moves_in_the_list_is_still_the_stored_one() -> None:
    old = patch("nosuch")
    job = patch("nosuch", on=patch("node", manager="acme.io/first"))
    check(Case(old=old, job=job, runtime=RUNTIME))


MOUNTS: dict[str, tuple[MakeRuntime, str]] = {
    "a claim of volumeClaimPolicies": (
        RUNTIME.claims("initializer"),
        "initializer",
    ),
    "the volumes of MPI": (
        make_runtime()
        .mpi()
        .job("node", containers=[container("node"), container("side")])
        .job("launcher", "trainer"),
        "mpi-ssh-auth",
    ),
    "the volumes of Flux": (
        make_runtime().flux().node(container("node"), container("side")),
        "flux-install",
    ),
}


@table(MOUNTS)
def test_what_can_be_mounted_besides(case: tuple[MakeRuntime, str]) -> None:
    runtime, volume = case
    job = patch(on=JOB.nodes(1), containers=side(volumeMounts=[mount(volume, "/x")]))
    check(Case(job=job, runtime=runtime))


WARNINGS = {
    "G20 a mount over another volume's path replaces it": Case(
        job=patch(containers=side(volumeMounts=[mount("scratch", "/data")]), volumes=[SCRATCH]),
        warns=(
            f"{POD}.containers[0].volumeMounts[0]: replaces the runtime's mount of volume data at /data",
        ),
    ),
    "B001 tolerations replace the runtime's, and the lost ones are named": Case(
        job=patch(tolerations=[{"key": "spot", "operator": "Exists"}]),
        warns=(f"{POD}.tolerations: replaces the runtime's list; lost for pool",),
    ),
    "B001 tolerations that repeat the runtime's lose nothing": Case(
        job=patch(
            tolerations=[
                {"key": "spot", "operator": "Exists"},
                {"key": "pool", "operator": "Exists"},
            ]
        ),
        warns=(),
    ),
}


@table(WARNINGS)
def test_warnings(case: Case) -> None:
    check(Case(job=case.job, runtime=RUNTIME, warns=case.warns))


def test_all_findings_are_told_at_once() -> None:
    job = patch("nosuch").patch("acme.io/b", job_patch("node", pod={"containers": [patched("x")]}))
    found = admit(Case(job=job, runtime=RUNTIME)).findings
    assert len(found.errors) == 2


# The older generations


OLDER = {
    "2.1 a job that the runtime lacks is refused at its place": Case(
        line="2.1",
        job=JOB.pod_template_override("node", "nosuch", pod={"nodeSelector": {"a": "b"}}),
        refused=(
            not_found(
                "spec.podTemplateOverrides[0].targetJobs[1].name",
                "jobs of runtime runtime: dataset-initializer",
            ),
        ),
    ),
    "2.1 a container that a job lacks is refused for that job": Case(
        line="2.1",
        job=JOB.pod_template_override(
            "node", "model-initializer", pod={"containers": [patched("side", {"A": "1"})]}
        ),
        refused=(
            not_found(
                "spec.podTemplateOverrides[0].spec.containers[0].name",
                "containers of job model-initializer",
            ),
        ),
    ),
    "2.1 env of node is refused, once for both jobs": Case(
        line="2.1",
        job=JOB.pod_template_override("node", pod={"containers": [patched("node", {"A": "1"})]}),
        refused=(forbidden("spec.podTemplateOverrides[0].spec.containers[0].env"),),
    ),
    "2.1 other metadata than labels and annotations is refused": Case(
        line="2.1",
        job=JOB.pod_template_override("node", metadata={"finalizers": ["a.io/x"]}),
        refused=(forbidden("spec.podTemplateOverrides[0].metadata.finalizers"),),
    ),
    "B002 2.1 a job may be overridden twice": Case(
        line="2.1",
        job=JOB.pod_template_override(
            "node", pod={"serviceAccountName": "a"}
        ).pod_template_override("node", pod={"nodeSelector": {"zone": "z1"}}),
    ),
    "2.0 a job that the runtime lacks is refused at its place": Case(
        line="2.0",
        job=JOB.pod_spec_override("nosuch"),
        refused=(not_found("spec.podSpecOverrides[0].targetJobs[0].name"),),
    ),
    "2.0 a job may be overridden once": Case(
        line="2.0",
        job=JOB.pod_spec_override("node").pod_spec_override("model-initializer", "node"),
        refused=(duplicate("spec.podSpecOverrides[1].targetJobs[1].name", '"node"'),),
    ),
    "2.0 a volume with another source is refused": Case(
        line="2.0",
        job=JOB.pod_spec_override("node", volumes=[{"name": "data", "emptyDir": {}}]),
        refused=(invalid("spec.podSpecOverrides[0].volumes[0]", "persistentVolumeClaim"),),
    ),
    "2.0 directives are refused": Case(
        line="2.0",
        job=JOB.pod_spec_override("node", nodeSelector={"$patch": "merge"}),
        refused=(forbidden("spec.podSpecOverrides[0].nodeSelector[$patch]"),),
    ),
}


@table(OLDER)
def test_older_generations(case: Case) -> None:
    check(Case(line=case.line, job=case.job, runtime=RUNTIME, refused=case.refused))


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("2.2", (not_found(f"{AT}.name"),)),
        ("2.3", (not_found(f"{AT}.name"),)),
    ],
)
def test_unknown_jobs_in_both_lines_of_patches(line: str, wanted: tuple[Refusal, ...]) -> None:
    check(Case(line=line, job=patch("nosuch"), runtime=RUNTIME, refused=wanted))
