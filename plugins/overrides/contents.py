"""What an override says about one job: checked by itself, and against the runtime's job of that name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from plugins.framework import field, labels, values
from plugins.framework.api import names
from plugins.framework.field import FieldError, Findings, Path
from plugins.overrides import finished

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.info import Info
    from plugins.framework.lines import Line
    from plugins.framework.runtime import Job

_METADATA: Final = frozenset({"labels", "annotations"})
_SOURCE_FREE: Final = "name"
_MPI_VOLUMES: Final = frozenset({"mpi-ssh-auth", "mpi-hostfile"})
_FLUX_VOLUMES: Final = frozenset({"spack-install", "flux-install", "shared-memory", "flux-curve"})


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One override of one job, whatever the generation: where it stands and what it holds.

    Paths are made when asked for: most reviews find nothing wrong.
    """

    line: Line
    index: int
    """Of the entry in the list."""
    place: int | None
    """Of the job within the entry; None for an entry that names no job."""
    job: str
    pod: dict[str, Any]
    metadata: tuple[tuple[str, dict[str, Any]], ...]
    """Level (JobSet, Job, Pod) and metadata object, where there is one."""
    entry: dict[str, Any]

    @property
    def owner(self) -> str:
        """The manager, or the entry's place in a list without managers."""
        manager = values.text(self.entry.get("manager"))
        return manager or f"{self.line.generation}[{self.index}]"

    @property
    def at_entry(self) -> Path:
        """Where the entry stands."""
        return Path("spec", self.line.generation, self.index)

    @property
    def _at_replicated(self) -> Path:
        at = self.at_entry.child("trainingRuntimeSpec", "template")
        return at if self.place is None else at.child("spec", "replicatedJobs").index(self.place)

    @property
    def at_job(self) -> Path:
        """Where the job's name stands."""
        if self.place is None:
            return self.at_entry
        if self.line.has_managers:
            return self._at_replicated.child("name")
        return self.at_entry.child("targetJobs").index(self.place).child("name")

    @property
    def at(self) -> Path:
        """Where the pod spec stands."""
        match self.line.generation:
            case "runtimePatches":
                return self._at_replicated.child("template", "spec", "template", "spec")
            case "podTemplateOverrides":
                return self.at_entry.child("spec")
            case _:
                return self.at_entry

    def at_metadata(self, level: str) -> Path:
        """Where the metadata of a level stands."""
        if not self.line.has_managers:
            return self.at_entry.child("metadata")
        match level:
            case "JobSet":
                return self.at_entry.child("trainingRuntimeSpec", "template", "metadata")
            case "Job":
                return self._at_replicated.child("template", "metadata")
            case _:
                return self._at_replicated.child("template", "spec", "template", "metadata")


def targets(line: Line, job: TrainJob) -> list[Target]:
    """Every (entry, job) pair, in the order in which they are applied."""
    out: list[Target] = []
    take = _patches if line.has_managers else _overrides
    for i, entry in enumerate(values.items(job.spec.get(line.generation))):
        if type(entry) is dict:
            out.extend(take(line, entry, i))
    return out


def _patches(line: Line, entry: dict[str, Any], i: int) -> Iterator[Target]:
    template = values.at_obj(entry, "trainingRuntimeSpec", "template")
    jobset = values.obj(template.get("metadata"))
    on_jobset = (("JobSet", jobset),) if jobset else ()
    jobs = values.items(values.at(template, "spec", "replicatedJobs"))
    if jobset and not jobs:
        yield Target(
            line=line, index=i, place=None, job="", pod={}, metadata=on_jobset, entry=entry
        )
    for k, raw in enumerate(jobs):
        job_template = values.at_obj(raw, "template")
        pod_template = values.at_obj(job_template, "spec", "template")
        levels = (
            *(on_jobset if k == 0 else ()),
            ("Job", values.obj(job_template.get("metadata"))),
            ("Pod", values.obj(pod_template.get("metadata"))),
        )
        yield Target(
            line=line,
            index=i,
            place=k,
            job=values.text(values.obj(raw).get("name")),
            pod=values.obj(pod_template.get("spec")),
            metadata=tuple(pair for pair in levels if pair[1]),
            entry=entry,
        )


def _overrides(line: Line, entry: dict[str, Any], i: int) -> Iterator[Target]:
    whole = line.generation == "podSpecOverrides"
    metadata = {} if whole else values.obj(entry.get("metadata"))
    for k, raw in enumerate(values.items(entry.get("targetJobs"))):
        yield Target(
            line=line,
            index=i,
            place=k,
            job=values.text(values.obj(raw).get("name")),
            pod=entry if whole else values.obj(entry.get("spec")),
            metadata=(("Pod", metadata),) if metadata else (),
            entry=entry,
        )


def problems(all_targets: list[Target], *, directives: bool) -> Iterator[FieldError]:
    """What is wrong with the entries whatever the runtime: directives, metadata, env of reserved containers."""
    seen: set[int] = set()
    for target in all_targets:
        if id(target.entry) not in seen:
            seen.add(id(target.entry))
            if directives:
                yield from _directives(target.at_entry, target.entry)
        for level, metadata in target.metadata:
            yield from _metadata(target.at_metadata(level), metadata, level)
        for kind in ("containers", "initContainers"):
            for k, container in enumerate(values.objects(target.pod.get(kind))):
                name = container.get("name")
                if name in names.RESERVED_CONTAINERS and container.get("env"):
                    at = target.at.child(kind).index(k).child("env")
                    where = "spec.trainer.env" if name == names.NODE else "spec.initializer"
                    yield field.forbidden(
                        at,
                        f"must not have envs for the {', '.join(names.RESERVED_CONTAINERS)} containers: set "
                        f"them in {where}",
                    )


def _directives(at: Path, value: Any) -> Iterator[FieldError]:
    """Keys that begin with ``$`` are orders to the merge, not data (3.3); no API field begins so."""
    stack: list[tuple[Path, Any]] = [(at, value)]
    while stack:
        path, node = stack.pop()
        if type(node) is dict:
            for key, item in node.items():
                if key.startswith("$"):
                    yield field.forbidden(
                        path.key(key),
                        "merge directives are not allowed: the Trainer would act on them",
                    )
                else:
                    stack.append((path.child(key), item))
        elif type(node) is list:
            stack.extend((path.index(i), item) for i, item in enumerate(node))


def _metadata(path: Path, metadata: dict[str, Any], level: str) -> Iterator[FieldError]:
    for key in metadata:
        if key not in _METADATA:
            yield field.forbidden(path.child(key), "only labels and annotations may be patched")
    yield from labels.problems(path, metadata)
    ancestor = values.obj(metadata.get("labels")).get(names.ANCESTOR_LABEL)
    if ancestor is not None and level == "Job":
        yield field.forbidden(
            path.child("labels").key(names.ANCESTOR_LABEL),
            "the ancestor decides where image, command and counts go; it is the runtime's to say",
        )


def repeated(line: Line, job: TrainJob) -> Iterator[FieldError]:
    """2.0 takes each job once in the whole list."""
    seen: set[str] = set()
    for target in targets(line, job):
        if target.job in seen:
            yield field.duplicate(target.at_job, target.job)
        seen.add(target.job)


def against_runtime(info: Info, target: Target, all_targets: list[Target]) -> Findings:
    """Names that the runtime lacks; volumes and env that end with two sources; mounts of nothing."""
    found = Findings()
    if not target.job and not target.pod:
        return found
    job = info.runtime.job(target.job)
    if job is None:
        there = ", ".join(info.runtime.job_names) or "none"
        detail = f"jobs of runtime {info.runtime.name}: {there}"
        found.error(field.not_found(target.at_job, target.job, detail))
        return found
    if target.pod.keys().isdisjoint(finished.JUDGED):
        return found
    before = _pods_before(target, job, all_targets)
    found.error(*_containers(target, job), *_volumes(target, before))
    for kind in ("containers", "initContainers"):
        for k, container in enumerate(values.objects(target.pod.get(kind))):
            if "env" not in container and "volumeMounts" not in container:
                continue
            name = values.text(container.get("name"))
            base = _base(job, kind, name)
            if "env" in container:
                found.error(*_env(target, (kind, k), container, _env_before(before, kind, name)))
            if container.get("volumeMounts"):
                at = target.at.child(kind).index(k)
                declared = _declared(info, job, all_targets)
                found.error(*_mounts(info, at, (job, kind, container), declared))
                found.warn(*_replaced_mounts(at, container, base))
    found.warn(*_lost_tolerations(target, job))
    return found


def _base(job: Job, kind: str, name: str) -> dict[str, Any]:
    pool = job.containers if kind == "containers" else job.init_containers
    return next((c for c in pool if c.get("name") == name), {})


def _containers(target: Target, job: Job) -> Iterator[FieldError]:
    for kind, known, other, noun in (
        ("containers", job.names, job.init_names, "containers"),
        ("initContainers", job.init_names, job.names, "init containers"),
    ):
        for k, container in enumerate(values.objects(target.pod.get(kind))):
            name = values.text(container.get("name"))
            if name in known:
                continue
            there = ", ".join(sorted(known)) or "none"
            detail = f"{noun} of job {job.name}: {there}"
            if name in other:
                side = "initContainers" if kind == "containers" else "containers"
                detail += f"; {name} is one of its {side}: patch it there"
            yield field.not_found(target.at.child(kind).index(k).child("name"), name, detail)


def _pods_before(target: Target, job: Job, all_targets: list[Target]) -> list[dict[str, Any]]:
    """What is merged before this target: the runtime's pod, and what earlier entries say of the same job."""
    earlier = all_targets[: next(i for i, t in enumerate(all_targets) if t is target)]
    return [job.pod, *(t.pod for t in earlier if t.job == target.job)]


def _volumes(target: Target, before: list[dict[str, Any]]) -> Iterator[FieldError]:
    """Merging never takes a source away: two that differ are left side by side, and no pod may have that."""
    if "volumes" not in target.pod:
        return
    known: dict[Any, set[str]] = {}
    for pod in before:
        for volume in values.objects(pod.get("volumes")):
            known.setdefault(volume.get("name"), set()).update(_sources(volume))
    for k, volume in enumerate(values.objects(target.pod.get("volumes"))):
        own, old = _sources(volume), known.get(volume.get("name"), set())
        if len(own | old) <= 1 or not own - old:
            continue
        at = target.at.child("volumes").index(k)
        if old:
            detail = (
                f"the volume of this name is of type {', '.join(sorted(old))} already; merging would "
                f"leave both it and {', '.join(sorted(own))}: choose another name"
            )
        else:
            detail = f"must have one source, and has {', '.join(sorted(own))}"
        yield field.invalid(at, volume.get("name"), detail)


def _sources(volume: dict[str, Any]) -> set[str]:
    return {key for key in volume if key != _SOURCE_FREE}


def _env_before(before: list[dict[str, Any]], kind: str, name: str) -> dict[Any, set[str]]:
    """For each variable of a container what it is made of before this target is merged."""
    out: dict[Any, set[str]] = {}
    for pod in before:
        for container in values.objects(pod.get(kind)):
            if container.get("name") == name:
                for entry in values.objects(container.get("env")):
                    out.setdefault(entry.get("name"), set()).update(_origins(entry))
    return out


def _origins(entry: dict[str, Any]) -> set[str]:
    """Where a variable comes from: ``value`` (an empty one is as good as none), or a kind of ``valueFrom``."""
    own = {"value"} if entry.get("value") else set()
    return own | {key for key, ref in values.obj(entry.get("valueFrom")).items() if ref is not None}


def _env(
    target: Target, place: tuple[str, int], container: dict[str, Any], known: dict[Any, set[str]]
) -> Iterator[FieldError]:
    for k, entry in enumerate(values.objects(container.get("env"))):
        own, old = _origins(entry), known.get(entry.get("name"), set())
        if len(own | old) <= 1 or not own - old:
            continue
        both = "both value and valueFrom" if "value" in own | old else "two sources in valueFrom"
        detail = f"would have {both} ({', '.join(sorted(own | old))}) after merging with the entry of this name"
        at = target.at.child(place[0]).index(place[1]).child("env").index(k)
        yield field.invalid(at, entry.get("name"), detail)


def _declared(info: Info, job: Job, all_targets: list[Target]) -> set[str]:
    """Volumes that the job's pods will have: the runtime's, the patches', claims, the policy's own."""
    out = {values.text(v.get("name")) for v in values.objects(job.pod.get("volumes"))}
    for target in all_targets:
        if target.job == job.name:
            out |= {values.text(v.get("name")) for v in values.objects(target.pod.get("volumes"))}
    for policy in values.objects(info.runtime.template.get("volumeClaimPolicies")):
        for template in values.objects(policy.get("templates")):
            out.add(values.text(values.at(template, "metadata", "name")))
    if info.runtime.policy == "mpi":
        out |= _MPI_VOLUMES
    elif info.runtime.policy == "flux":
        out |= _FLUX_VOLUMES | {f"{info.job.name}{names.FLUX_SCRIPTS}"}
    return out


def _mounts(
    info: Info, at: Path, place: tuple[Job, str, dict[str, Any]], declared: set[str]
) -> Iterator[FieldError]:
    """Mounts of nothing that are there in the end: a later patch, or the policy, may mount something else there."""
    job, kind, container = place
    for k, mount in enumerate(values.objects(container.get("volumeMounts"))):
        name = values.text(mount.get("name"))
        if name not in declared and finished.has_mount(info, (job.name, kind, container), mount):
            there = ", ".join(sorted(declared)) or "none"
            here = at.child("volumeMounts").index(k).child("name")
            yield field.not_found(here, name, f"volumes of job {job.name}: {there}")


def _replaced_mounts(at: Path, container: dict[str, Any], base: dict[str, Any]) -> Iterator[str]:
    known = {m.get("mountPath"): m.get("name") for m in values.objects(base.get("volumeMounts"))}
    for k, mount in enumerate(values.objects(container.get("volumeMounts"))):
        old = known.get(mount.get("mountPath"))
        if old is not None and old != mount.get("name"):
            yield (
                f"{at.child('volumeMounts').index(k)}: replaces the runtime's mount of volume {old} at "
                f"{mount.get('mountPath')} (mounts are merged by path)"
            )


def _lost_tolerations(target: Target, job: Job) -> Iterator[str]:
    own = target.pod.get("tolerations")
    if type(own) is not list or not own:
        return
    lost = [t for t in values.objects(job.pod.get("tolerations")) if t not in own]
    if lost:
        keys = ", ".join(str(t.get("key") or "*") for t in lost)
        yield (
            f"{target.at.child('tolerations')}: replaces the runtime's list; lost for {keys}: the Trainer does not "
            "merge tolerations, so repeat those that must stay"
        )
