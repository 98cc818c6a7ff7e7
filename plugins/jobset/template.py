"""What is wrong with a runtime's template: the Trainer's ancestor rules, and what JobSet refuses later.

The Trainer checks some of this, when a runtime is created and not when it changes (G4); JobSet's webhook
checks the rest, but only once a TrainJob uses the runtime, where nobody sees it (semantics 6.4, 10.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import field, values
from plugins.framework.api import names
from plugins.framework.field import FieldError, Findings, Path
from plugins.jobset import coordinator, template_pods

if TYPE_CHECKING:
    from plugins.framework.lines import Line
    from plugins.framework.runtime import CompiledRuntime, Job

JOBS: Final = Path("spec", "template", "spec", "replicatedJobs")
_SPEC: Final = Path("spec", "template", "spec")
_POD: Final = ("template", "spec", "template", "spec")

_LABEL_1123: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_RENDEZVOUS: Final = ("torch", "jax", "xgboost", "flux")
"""Policies whose addresses are fixed to a job ``node`` and a subdomain equal to the TrainJob's name (G11)."""
_SET_BY_CONTROLLER: Final[Mapping[str, frozenset[str]]] = {
    "torch": frozenset(
        f"PET_{name}"
        for name in ("NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
    ),
    "jax": frozenset({"JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"}),
    "xgboost": frozenset(
        f"DMLC_{name}" for name in ("TRACKER_URI", "TRACKER_PORT", "TASK_ID", "NUM_WORKER")
    ),
    "mpi": frozenset(
        {
            *("OMPI_MCA_orte_default_hostfile", "OMPI_MCA_orte_keep_fqdn_hostnames"),
            *("OMPI_MCA_orte_set_default_slots", "OMPI_MCA_plm_rsh_args"),
        }
    ),
}
"""Variables of container ``node``, by policy (semantics 7.4): what a template says of them is lost."""


def problems(runtime: CompiledRuntime) -> Findings:
    """Everything about the runtime itself."""
    found = Findings()
    nodes = values.obj(runtime.ml_policy).get("numNodes")
    if type(nodes) is int and nodes < 1:
        found.error(
            field.invalid(Path("spec", "mlPolicy", "numNodes"), nodes, "must be at least 1")
        )
    written = values.objects(values.at(runtime.raw, "spec", "template", "spec", "replicatedJobs"))
    for i, (job, raw) in enumerate(zip(runtime.jobs, written, strict=False)):
        path = JOBS.index(i)
        found.error(*_ancestor(path, job, raw.get("replicas", 1), runtime.line))
        found.error(*_depends_on(path, i, job, runtime), *_names(path, job))
        found.warn(*_job_warnings(path, job), *_lost_env(path, job, runtime))
    found.error(*_policies(runtime), *coordinator.problems(runtime))
    found.error(*_network(runtime), *_claims(runtime))
    found.add(template_pods.problems(runtime))
    found.warn(*_rendezvous(runtime))
    return found


def _ancestor(path: Path, job: Job, replicas: Any, line: Line) -> Iterator[FieldError]:
    """``replicas`` as written: the Go types that ``job`` went through lose a 0."""
    single = job.ancestor in names.ANCESTORS
    if replicas != 1 and (single or (line.single_launcher and job.name == names.LAUNCHER)):
        yield field.invalid(path.child("replicas"), replicas, "always must be 1")
    if not single:
        return
    wanted = names.NODE if job.ancestor == names.TRAINER else job.ancestor
    if wanted not in job.names:
        there = ", ".join(sorted(job.names)) or "none"
        detail = (
            f"must contain the required container for the ancestor: {job.ancestor} (named {wanted}; "
            f"there are: {there})"
        )
        yield field.invalid(path.child(*_POD, "containers"), sorted(job.names), detail)


def _depends_on(path: Path, i: int, job: Job, runtime: CompiledRuntime) -> Iterator[FieldError]:
    earlier = runtime.job_names[:i]
    for k, (name, _) in enumerate(job.depends_on):
        at = path.child("dependsOn").index(k).child("name")
        if i == 0:
            yield field.invalid(at, name, "the first job cannot depend on another")
        elif name == job.name:
            yield field.invalid(at, name, "a job cannot wait for itself: it would never start")
        elif name not in earlier:
            yield field.not_found(
                at, name, f"must be a job that stands earlier: {', '.join(earlier)}"
            )


def _names(path: Path, job: Job) -> Iterator[FieldError]:
    # The Job's name begins with the TrainJob's; the name alone is the value of a label.
    if not _LABEL_1123.fullmatch(job.name):
        detail = "must be lower-case letters, digits and '-', with a letter or digit at both ends"
        yield field.invalid(path.child("name"), job.name, detail)
    group = job.raw.get("groupName")
    if type(group) is str and not _LABEL_1035.fullmatch(group):
        yield field.invalid(path.child("groupName"), group, "must be an RFC 1035 label")


def _job_warnings(path: Path, job: Job) -> Iterator[str]:
    template = values.obj(job.raw.get("template"))
    if job.ancestor is not None and job.ancestor not in names.ANCESTORS:
        known = ", ".join(names.ANCESTORS)
        yield (
            f"{path}: label {names.ANCESTOR_LABEL} is {field.show(job.ancestor)}, which the Trainer does not "
            f"know; it knows: {known}"
        )
    pod_labels = values.at_obj(template, "spec", "template", "metadata", "labels")
    if names.ANCESTOR_LABEL in pod_labels:
        yield f"{path}: label {names.ANCESTOR_LABEL} has no effect on the pod template; set it on the job template"
    if values.at(template, "spec", "activeDeadlineSeconds") is not None:
        yield f"{path}: activeDeadlineSeconds of the job template runs beside the TrainJob's own"


def _lost_env(path: Path, job: Job, runtime: CompiledRuntime) -> Iterator[str]:
    """MPI sets its variables in the job ``launcher``, the other policies in the trainer's."""
    target = (
        job.name == names.LAUNCHER if runtime.policy == "mpi" else job.ancestor == names.TRAINER
    )
    lost = _SET_BY_CONTROLLER.get(runtime.policy, frozenset())
    container = job.container(names.NODE) if target else None
    for entry in values.objects((container or {}).get("env")):
        if entry.get("name") in lost:
            yield f"{path}: container {names.NODE} sets {entry['name']}, which the controller replaces"


def _policies(runtime: CompiledRuntime) -> Iterator[FieldError]:
    known = runtime.job_names
    success = values.obj(runtime.template.get("successPolicy"))
    at = _SPEC.child("successPolicy", "targetReplicatedJobs")
    yield from _targets(at, success.get("targetReplicatedJobs"), known)
    failure = values.obj(runtime.template.get("failurePolicy"))
    for i, rule in enumerate(values.objects(failure.get("rules"))):
        at = _SPEC.child("failurePolicy", "rules").index(i).child("targetReplicatedJobs")
        yield from _targets(at, rule.get("targetReplicatedJobs"), known)


def _targets(at: Path, targets: Any, known: list[str]) -> Iterator[FieldError]:
    for i, name in enumerate(values.items(targets)):
        if name not in known:
            yield field.not_found(at.index(i), name, _jobs_of_template(known))


def _jobs_of_template(known: list[str]) -> str:
    return f"jobs of the template: {', '.join(known) or 'none'}"


def _network(runtime: CompiledRuntime) -> Iterator[FieldError]:
    subdomain = runtime.subdomain
    if type(subdomain) is not str:
        return
    at = _SPEC.child("network", "subdomain")
    if (
        not _SUBDOMAIN.fullmatch(subdomain) or len(subdomain) > 253 or not subdomain[:1].isalpha()
    ):  # DNS
        yield field.invalid(at, subdomain, "must be a DNS label that begins with a letter")


def _claims(runtime: CompiledRuntime) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, policy in enumerate(values.objects(runtime.template.get("volumeClaimPolicies"))):
        at = _SPEC.child("volumeClaimPolicies").index(i).child("templates")
        if not policy.get("templates"):
            yield field.required(at, "a policy must have at least one claim")
        for k, template in enumerate(values.objects(policy.get("templates"))):
            name = values.text(values.at(template, "metadata", "name"))
            here = at.index(k).child("metadata", "name")
            if name in seen:
                yield field.duplicate(here, name)
            seen.add(name)
            if not any(_mounts(job, name) for job in runtime.jobs):
                yield field.invalid(here, name, "no container of the template mounts this claim")
            for job in runtime.jobs:
                if any(v.get("name") == name for v in values.objects(job.pod.get("volumes"))):
                    yield field.invalid(here, name, f"job {job.name} has a volume of the same name")


def _mounts(job: Job, name: str) -> bool:
    return any(
        mount.get("name") == name
        for container in (*job.containers, *job.init_containers)
        for mount in values.objects(container.get("volumeMounts"))
    )


def _rendezvous(runtime: CompiledRuntime) -> Iterator[str]:
    trainers = [job.name for job in runtime.jobs if job.ancestor == names.TRAINER]
    if len(trainers) > 1:
        yield (
            f"jobs {', '.join(trainers)} all have the ancestor trainer: image, command and env go to each, "
            f"numNodes only to {trainers[0]}"
        )
    if runtime.ml_policy is not None and not trainers:
        yield "no job has the ancestor trainer: spec.trainer of every TrainJob will be ignored"
    if runtime.policy not in _RENDEZVOUS:
        return
    if trainers and trainers[0] != names.NODE:
        yield (
            f"the trainer's job is named {trainers[0]}: with policy {runtime.policy} processes look for "
            f"rank 0 in a job named {names.NODE} and hang"
        )
    if runtime.subdomain is not None:
        yield (
            f"network.subdomain is {field.show(runtime.subdomain)}: with policy {runtime.policy} processes "
            "look for rank 0 under the TrainJob's own name and hang"
        )
