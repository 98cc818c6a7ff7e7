"""What an override leaves in the finished pod: mounts, tolerations, sources of variables, references to resources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import (
    MakeTrainJob,
    container,
    job_patch,
    make_runtime,
    make_train_job,
    mount,
    patched,
)
from tests.plugins.kit import Case, check, invalid, not_found, not_supported, table

RUNTIME = (
    make_runtime()
    .plain()
    .node(
        container("node"),
        container(
            "side",
            {
                "PLAIN": "1",
                "NAME": {"fieldRef": {"fieldPath": "metadata.name"}},
                "CPU": {"resourceFieldRef": {"resource": "limits.cpu"}},
            },
        ),
        pod={"tolerations": [{"key": "pool", "operator": "Exists"}]},
    )
    .job("other")
)
JOB = make_train_job().nodes(1).suspended()
POD = (
    "spec.runtimePatches[{}].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec"
    ".template.spec"
)
FIRST, SECOND = POD.format(0), POD.format(1)
SCRATCH = {"name": "scratch", "emptyDir": {}}
NOWHERE = mount("nosuch", "/x")
SOMEWHERE = mount("scratch", "/x")


def patch(on: MakeTrainJob = JOB, *, job: str = "node", **pod: Any) -> MakeTrainJob:
    return on.patch(f"acme.io/{job}{len(str(on.raw))}", job_patch(job, pod=pod))


def side(variables: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"containers": [patched("side", variables, **fields)]}


# Mounts


MPI = make_runtime().mpi(sshAuthMountPath="/keys").job("node", containers=[container("node")])
MPI = MPI.job("launcher", "trainer", containers=[container("node"), container("side")])
FLUX = make_runtime().flux().node(container("node"), container("side"))


def mounting(path: str, *, job: str = "node", name: str = "node") -> MakeTrainJob:
    return patch(job=job, containers=[patched(name, volumeMounts=[mount("nosuch", path)])])


NOT_THERE = not_found(f"{FIRST}.containers[0].volumeMounts[0].name", '"nosuch"')
MOUNTS: dict[str, Case] = {
    "one that a later patch replaces by a volume that is there passes": Case(
        job=patch(
            patch(**side(volumeMounts=[NOWHERE])),
            **side(volumeMounts=[SOMEWHERE]),
            volumes=[SCRATCH],
        ),
        runtime=RUNTIME,
    ),
    "one that an earlier patch meant to replace stays, and is refused": Case(
        job=patch(
            patch(**side(volumeMounts=[SOMEWHERE]), volumes=[SCRATCH]),
            **side(volumeMounts=[NOWHERE]),
        ),
        runtime=RUNTIME,
        refused=(not_found(f"{SECOND}.containers[0].volumeMounts[0].name", '"nosuch"'),),
    ),
    "one that a later patch mounts at another path stays": Case(
        job=patch(
            patch(**side(volumeMounts=[NOWHERE])),
            **side(volumeMounts=[mount("scratch", "/y")]),
            volumes=[SCRATCH],
        ),
        runtime=RUNTIME,
        refused=(NOT_THERE,),
    ),
    "one that is replaced in another job stays": Case(
        job=patch(
            patch(**side(volumeMounts=[NOWHERE])),
            job="other",
            containers=[patched("node", volumeMounts=[SOMEWHERE])],
            volumes=[SCRATCH],
        ),
        runtime=RUNTIME,
        refused=(NOT_THERE,),
    ),
    "of two that nobody declares the later one is refused": Case(
        job=patch(
            patch(**side(volumeMounts=[NOWHERE])), **side(volumeMounts=[mount("neither", "/x")])
        ),
        runtime=RUNTIME,
        refused=(not_found(f"{SECOND}.containers[0].volumeMounts[0].name", '"neither"'),),
    ),
    "MPI mounts its keys there": Case(job=mounting("/keys"), runtime=MPI),
    "MPI mounts the hostfile there, in the launcher": Case(
        job=mounting("/etc/mpi", job="launcher"), runtime=MPI
    ),
    "MPI mounts no hostfile in the workers": Case(
        job=mounting("/etc/mpi"), runtime=MPI, refused=(NOT_THERE,)
    ),
    "MPI mounts nothing in other containers": Case(
        job=mounting("/keys", job="launcher", name="side"), runtime=MPI, refused=(NOT_THERE,)
    ),
    "Flux mounts its scripts there": Case(job=mounting("/etc/flux-config"), runtime=FLUX),
    "Flux mounts nothing in other containers": Case(
        job=mounting("/etc/flux-config", name="side"), runtime=FLUX, refused=(NOT_THERE,)
    ),
}


@table(MOUNTS)
def test_mounts(case: Case) -> None:
    check(case)


# Tolerations


WHATEVER = {"operator": "Equal", "value": "x"}
EXISTS = {"key": "a", "operator": "Exists"}
AT = f"{FIRST}.tolerations[0]"
TOLERATIONS: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "every taint": ({"operator": "Exists"}, ()),
    "a key and a value": ({"key": "a.io/b", "value": "c", "effect": "NoSchedule"}, ()),
    "seconds of NoExecute": ({**EXISTS, "effect": "NoExecute", "tolerationSeconds": 0}, ()),
    "numbers are compared where the API server can": ({"key": "a", "operator": "Lt"}, ()),
    "no key, and a value": (
        WHATEVER,
        (
            invalid(
                f"{AT}.operator",
                '"Equal": operator must be Exists when `key` is empty, which means "match all values',
            ),
        ),
    ),
    "no key, and no operator": ({"effect": "NoSchedule"}, (invalid(f"{AT}.operator", '""'),)),
    "seconds of another effect": (
        {**EXISTS, "effect": "NoSchedule", "tolerationSeconds": 5},
        (
            invalid(
                f"{AT}.effect",
                "\"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            ),
        ),
    ),
    "seconds of no effect": ({**EXISTS, "tolerationSeconds": 5}, (invalid(f"{AT}.effect", '""'),)),
    "a value of Exists": (
        {**EXISTS, "value": "x"},
        (invalid(f"{AT}.value", "value must be empty when `operator` is 'Exists'"),),
    ),
    "an unknown operator": (
        {"key": "a", "operator": "In"},
        (not_supported(f"{AT}.operator", '"In": supported values: "Equal", "Exists"'),),
    ),
    "an unknown effect": (
        {**EXISTS, "effect": "Never"},
        (not_supported(f"{AT}.effect", '"NoSchedule", "PreferNoSchedule", "NoExecute"'),),
    ),
    "a key that is no label's": (
        {"key": "a b", "operator": "Exists"},
        (invalid(f"{AT}.key", "name part must consist of alphanumeric characters"),),
    ),
    "a value that is no label's": (
        {"key": "a", "value": "x y"},
        (invalid(f"{AT}.value", "a valid label must be an empty string"),),
    ),
}


@table(TOLERATIONS)
def test_tolerations(case: tuple[dict[str, Any], tuple[Any, ...]]) -> None:
    one, refused = case
    check(Case(job=patch(tolerations=[one]), runtime=RUNTIME, refused=refused))


@pytest.mark.parametrize(
    ("line", "at"),
    [("2.0", "spec.podSpecOverrides[0]"), ("2.1", "spec.podTemplateOverrides[0].spec")],
)
def test_tolerations_of_the_older_generations(line: str, at: str) -> None:
    pod = {"tolerations": [WHATEVER]}
    older = {
        "2.0": JOB.pod_spec_override("node", **pod),
        "2.1": JOB.pod_template_override("node", pod=pod),
    }
    refused = (invalid(f"{at}.tolerations[0].operator", "must be Exists when `key` is empty"),)
    check(Case(line=line, job=older[line], runtime=RUNTIME, refused=refused))


def test_of_several_lists_of_tolerations_the_last_is_judged() -> None:
    replaced = patch(patch(tolerations=[WHATEVER]), tolerations=[EXISTS])
    check(Case(job=replaced, runtime=RUNTIME))
    empty = patch(patch(tolerations=[WHATEVER]), tolerations=[])
    check(Case(job=empty, runtime=RUNTIME, refused=(invalid(f"{AT}.operator"),)))
    of_another = patch(patch(tolerations=[WHATEVER]), job="other", tolerations=[EXISTS])
    check(Case(job=of_another, runtime=RUNTIME, refused=(invalid(f"{AT}.operator"),)))


# Variables


SOURCE = f"{FIRST}.containers[0].env[0].valueFrom"
NONE = invalid(SOURCE, '"": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`')


def amount(resource: str, divisor: Any) -> dict[str, Any]:
    return {"resourceFieldRef": {"resource": resource, "divisor": divisor}}


ENV: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "from nowhere": ({"NEW": {}}, (NONE,)),
    "from nowhere over a value of the runtime": ({"PLAIN": {}}, (NONE,)),
    "from nowhere over a source of the runtime, which stays": ({"NAME": {}}, ()),
    "from a null": ({"NEW": {"fieldRef": None}}, (NONE,)),
    "from the downward API": ({"NEW": {"fieldRef": {"fieldPath": "metadata.name"}}}, ()),
    "a divisor of the runtime's resource": (
        {"CPU": amount("limits.cpu", "7")},
        (invalid(f"{SOURCE}.resourceFieldRef.divisor", "values 1m and 1 are supported"),),
    ),
    "an unknown resource": (
        {"NEW": amount("limits.gpu", "1")},
        (not_supported(f"{SOURCE}.resourceFieldRef.resource", '"limits.gpu"', '"limits.cpu"'),),
    ),
    "a resource of nothing": (
        {"NEW": amount("cpu", "1")},
        (not_supported(f"{SOURCE}.resourceFieldRef.resource", '"cpu"'),),
    ),
}


@table(ENV)
def test_sources_of_variables(case: tuple[dict[str, Any], tuple[Any, ...]]) -> None:
    variables, refused = case
    check(Case(job=patch(**side(variables)), runtime=RUNTIME, refused=refused))


def test_the_last_override_to_name_a_source_answers_for_it() -> None:
    mended = patch(patch(**side({"NEW": {}})), **side({"NEW": amount("limits.cpu", "1")}))
    check(Case(job=mended, runtime=RUNTIME))
    twice = patch(patch(**side({"NEW": {}})), **side({"NEW": {}}))
    check(Case(job=twice, runtime=RUNTIME, refused=(invalid(SOURCE.replace(FIRST, SECOND)),)))


BYTES = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"]
DIVISORS: dict[str, tuple[str, list[Any], list[Any]]] = {
    "cpu": ("limits.cpu", ["1", "1m", "1000m", "0", 1], ["5", "1k", "1Ki", "+1", "01", 2]),
    "memory": ("requests.memory", [*BYTES, "1000"], ["1m", "1024", "1e0", "1e3", "2Mi"]),
    "ephemeral-storage": ("limits.ephemeral-storage", BYTES, ["1m", "2"]),
    "hugepages": ("requests.hugepages-2Mi", BYTES, ["1m", "2Mi"]),
}


@table(DIVISORS)
def test_divisors(case: tuple[str, list[Any], list[Any]]) -> None:
    """As Go prints them: ``1000m`` is 1, while ``+1`` and ``1e3`` stay what they are."""
    resource, right, wrong = case
    for divisor in right:
        check(Case(job=patch(**side({"NEW": amount(resource, divisor)})), runtime=RUNTIME))
    refused = (invalid(f"{SOURCE}.resourceFieldRef.divisor", "only divisor's values 1"),)
    for divisor in wrong:
        job = patch(**side({"NEW": amount(resource, divisor)}))
        check(Case(job=job, runtime=RUNTIME, refused=refused))


# Volumes


def items(divisor: str) -> dict[str, Any]:
    ref = {"containerName": "side", **amount("limits.cpu", divisor)["resourceFieldRef"]}
    return {"items": [{"path": "a", "resourceFieldRef": ref}]}


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


ITEM = "downwardAPI.items[0].resourceFieldRef.divisor"
VOLUMES: dict[str, Case] = {
    "of the downward API": Case(
        job=patch(**volume(downwardAPI=items("7"))),
        refused=(invalid(f"{FIRST}.volumes[0].{ITEM}", '"7": only divisor'),),
    ),
    "of a projection": Case(
        job=patch(**volume(projected={"sources": [{}, {"downwardAPI": items("7")}]})),
        refused=(invalid(f"{FIRST}.volumes[0].projected.sources[1].{ITEM}"),),
    ),
    "that suits": Case(job=patch(**volume(downwardAPI=items("1m")))),
    "of a list that a later override replaces": Case(
        job=patch(patch(**volume(downwardAPI=items("7"))), **volume(downwardAPI=items("1")))
    ),
}


@table(VOLUMES)
def test_divisors_in_volumes(case: Case) -> None:
    check(Case(job=case.job, runtime=RUNTIME, refused=case.refused))
