"""Overrides of pods: PodTemplateOverrides of the SDK up to 0.3, RuntimePatches of the SDK since 0.4.

Both end in the same writes, so a policy may use either on every line that has room for a second owner. Variables of
the containers that patches may not give any (``node``, the initializers) go to ``spec.trainer.env`` and
``spec.initializer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from plugins.framework import field as field_errors
from plugins.framework import labels, lines, podrules, values
from plugins.framework.api import names
from plugins.framework.field import FieldError, Path
from policies.document import Expression
from policies.options import containers, shapes
from policies.options.base import REFUSED, Facts, Option, Subject, Target
from policies.options.shapes import (
    Leaf,
    NotExpressible,
    OptionFault,
    expressions_in,
    is_known,
    items,
    leaves,
    node_at,
    obj,
    pod_template_node,
    settle,
    take,
)
from policies.writes import Item, Level, Place, Step, Write

if TYPE_CHECKING:
    from plugins.framework.info import Info
    from plugins.framework.lines import Line
    from plugins.framework.runtime import Job
    from policies.writes import Mode, Rule

ANCESTORS: Final = names.ANCESTORS
_LIST_KINDS: Final = ("containers", "initContainers")
_METADATA: Final = ("labels", "annotations")
_MERGE: Final = (
    "per key of maps, per name of containers, variables, volumes, mounts, secrets and gates, per field of objects; "
    "tolerations are joined with those that are there"
)
_LINES: Final = (
    ("2.0", REFUSED),
    ("2.1", "entries of podTemplateOverrides, without security contexts and metadata of Jobs"),
    ("2.2", "our entry of runtimePatches"),
    ("2.3", "our entry of runtimePatches"),
)


class TargetJob(NamedTuple):
    """A replicated job by its name, or the jobs of an ancestor (``trainer``: called launcher where MPI runs)."""

    name: str
    ancestor: str
    path: Path

    def takes(self, job: Job) -> bool:
        """Whether it means that job."""
        return job.ancestor == self.ancestor if self.ancestor else job.name == self.name


@dataclass(frozen=True, kw_only=True)
class ContainerOverride:
    """One container of ``containers`` or ``initContainers``; None where the document leaves a field out."""

    name: str
    env: Any = None
    volume_mounts: Any = None
    security_context: Any = None


@dataclass(frozen=True, kw_only=True)
class PodSpecOverride:
    """What may be set of a pod's spec; None where the document leaves a field out."""

    service_account_name: Any = None
    node_selector: Any = None
    affinity: Any = None
    tolerations: Any = None
    volumes: Any = None
    init_containers: tuple[ContainerOverride, ...] | Expression | None = None
    containers: tuple[ContainerOverride, ...] | Expression | None = None
    scheduling_gates: Any = None
    image_pull_secrets: Any = None
    security_context: Any = None
    termination_grace_period_seconds: Any = None


@dataclass(frozen=True, kw_only=True)
class PodTemplateOverride:
    """One override; without target jobs it is for all jobs of a runtime."""

    target_jobs: tuple[TargetJob, ...] = ()
    metadata: Mapping[str, Any] | None = None
    spec: PodSpecOverride | None = None
    path: Path = field(default_factory=Path)


def camel(name: str) -> str:
    """``node_selector`` as documents have it: ``nodeSelector``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def as_document(value: Any) -> Any:
    """Helper classes back in the form of documents, without what is unset."""
    if isinstance(value, tuple):
        return [as_document(item) for item in value]
    if isinstance(value, PodSpecOverride | ContainerOverride):
        pairs = ((f.name, getattr(value, f.name)) for f in fields(value))
        return {camel(name): as_document(item) for name, item in pairs if item is not None}
    return value


@dataclass(frozen=True)
class _Part:
    """What an option says about some jobs at one level."""

    targets: tuple[TargetJob, ...]
    level: Level
    leaves: tuple[Leaf, ...]
    path: Path

    def jobs(self, info: Info) -> list[Job]:
        """The jobs of the runtime that it is for; those that it lacks are left out."""
        jobs = info.runtime.jobs
        if not self.targets:
            return list(jobs)
        return [job for job in jobs if any(target.takes(job) for target in self.targets)]


class _PodOption(Option):
    """Everything about pods but how it is written down."""

    parts: tuple[_Part, ...]

    @cached_property
    def _refused(self) -> dict[str, list[FieldError]]:
        """What each line has no words for: asked for each job, and always the same."""
        return {}

    def inexpressible(self, line: Line) -> list[FieldError]:
        """Fields that the override of the line does not have; on 2.0 all but variables that go elsewhere."""
        known = self._refused.get(line.name)
        if known is None:
            known = self._refused[line.name] = self._without_words(line)
        return known

    def _without_words(self, line: Line) -> list[FieldError]:
        return [
            field_errors.forbidden(leaf.path, _no_words(line))
            for part in self.parts
            for leaf in part.leaves
            if not _is_expressible(line, part, leaf)
        ]

    def targets(self) -> Iterable[Target]:
        """Jobs by name, and containers of them or of any job."""
        for part in self.parts:
            jobs = [target for target in part.targets if target.name]
            for target in jobs:
                yield Target(target.name, "", "", target.path)
            known: set[tuple[str, str]] = set()
            for leaf in part.leaves:
                found = _container(leaf.steps)
                if found is None or found in known:
                    continue
                known.add(found)
                for name in [target.name for target in jobs] or [""]:
                    yield Target(name, *found, leaf.path)

    def plan(self, subject: Subject) -> list[Write]:
        """Writes for every job that is meant, in the order of the document."""
        self.refuse(subject.line)
        out: list[Write] = []
        for part in self.parts:
            settled = [s for leaf in part.leaves for s in settle(leaf, subject.evaluate)]
            if part.level == "JobSet":
                out += [_of_jobset(subject.line, leaf) for leaf in settled]
                continue
            for job in part.jobs(subject.info):
                for leaf in settled:
                    out += _writes(subject, job, part, leaf)
        return out


def _no_words(line: Line) -> str:
    if line.generation == "podSpecOverrides":
        return (
            f"Trainer {line.name} takes each job once in podSpecOverrides, which is the user's: a policy cannot "
            "write there"
        )
    return f"{line.generation} of Trainer {line.name} has no such field"


def _is_expressible(line: Line, part: _Part, leaf: Leaf) -> bool:
    if part.level == "JobSet":
        return True
    if _reserved(leaf.steps):
        return True
    if part.level == "Job":
        return line.has_managers
    return is_known(pod_template_node(line.name), leaf.steps, leaf.value)


def _container(steps: tuple[Step, ...]) -> tuple[str, str] | None:
    """Kind and name of the container that a place is in."""
    match steps:
        case ("spec", ("containers" | "initContainers") as kind, Item(value=name), *_):
            return kind, name
        case _:
            return None


def _reserved(steps: tuple[Step, ...]) -> str:
    """The container whose variables these are, if patches may not give it any."""
    match steps:
        case ("spec", "containers", Item(value=name), "env", *_) if (
            name in names.RESERVED_CONTAINERS
        ):
            return name
        case _:
            return ""


def _of_jobset(line: Line, leaf: Leaf) -> Write:
    """Metadata of the JobSet: ``spec.labels`` and ``spec.annotations`` where the TrainJob has them."""
    if line.spec_metadata:
        return Write(Place(None, ("spec", *leaf.steps[1:])), leaf.value)
    return Write(Place(None, leaf.steps, "JobSet"), leaf.value)


def _writes(subject: Subject, job: Job, part: _Part, leaf: Leaf) -> Iterator[Write]:
    _judge(leaf)
    found = _container(leaf.steps)
    if found is not None:
        kind, name = found
        if name not in (job.names if kind == "containers" else job.init_names):
            return  # the Trainer would make a container without an image (trainer-semantics 3.8)
    reserved = _reserved(leaf.steps)
    if reserved:
        root = _env_of(subject, job, reserved, leaf)
        yield Write(Place(None, (*root, *leaf.steps[3:])), leaf.value)
        return
    rule: Rule = "union" if leaf.is_joined else "set"
    yield Write(Place(job.name, leaf.steps, part.level), leaf.value, rule)


def _env_of(subject: Subject, job: Job, container: str, leaf: Leaf) -> tuple[str, ...]:
    """Where the TrainJob gives variables to a reserved container of a job."""
    line, runtime = subject.line, subject.info.runtime
    if container == names.NODE:
        as_launcher = line.launcher_node_env and runtime.runs_launcher_as_node
        if job.ancestor == names.TRAINER or (as_launcher and job.name == names.NODE):
            return ("spec", "trainer")
        where = "spec.trainer.env does not reach it"
    else:
        if job.ancestor == container:
            return ("spec", "initializer", container.partition("-")[0])
        where = f"job {job.name} has no ancestor label {container}"
    detail = (
        f"the Trainer takes no variables for container {container} from overrides, and in job {job.name} of runtime "
        f"{runtime.name} {where}"
    )
    raise NotExpressible([field_errors.forbidden(leaf.path, detail)])


def _judge(leaf: Leaf) -> None:
    """Raise OptionFault for what only an expression can have brought: labels, selectors and tolerations that no pod may have."""
    for error in _unfit(leaf):
        raise OptionFault(f"{error.field}: {error.body}")


def _unfit(leaf: Leaf) -> Iterator[FieldError]:
    match leaf.steps:
        case ("metadata", ("labels" | "annotations") as kind, str() as key):
            for error in labels.problems(Path(), {kind: {key: leaf.value}}):
                yield field_errors.invalid(leaf.path, error.value, error.detail)
        case ("spec", "nodeSelector", str() as key):
            for error in labels.label_problems(Path(), {key: leaf.value}):
                yield field_errors.invalid(leaf.path, error.value, error.detail)
        case ("spec", "tolerations"):
            for i, one in enumerate(values.objects(leaf.value)):
                if not any(True for _ in expressions_in(one)):
                    yield from (e.under(leaf.path.index(i)) for e in podrules.toleration(one))
        case _:
            pass


@dataclass(frozen=True)
class PodTemplateOverrides(_PodOption):
    """Overrides of the pods of some jobs, or of all."""

    key: ClassVar[str] = "podTemplateOverrides"
    name: ClassVar[str] = "PodTemplateOverrides"
    facts: ClassVar[Facts] = Facts(
        fields=("targetJobs", "metadata", "spec"),
        merge=_MERGE,
        lines=_LINES,
        sdk="0.2.0 to 0.3.1",
        example=(
            "podTemplateOverrides:\n- targetJobs: [{name: node}]\n  spec:\n    nodeSelector: {pool: h100}\n"
            "    tolerations:\n    - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}\n"
        ),
    )
    overrides: tuple[PodTemplateOverride, ...]

    @cached_property
    def parts(self) -> tuple[_Part, ...]:  # type: ignore[override]  # worked out once
        """One for each override."""
        node = node_at(lines.NEWEST.name, *shapes.POD_TEMPLATE)
        out = []
        for one in self.overrides:
            document = {"metadata": one.metadata, "spec": as_document(one.spec)}
            found = tuple(leaves(node, {k: v for k, v in document.items() if v}, one.path))
            out.append(_Part(one.target_jobs, "", found, one.path))
        return tuple(out)

    def expressions(self) -> Iterable[Expression]:
        """Those in metadata and specs."""
        return [
            e for part in self.parts for leaf in part.leaves for e in expressions_in(leaf.value)
        ]


def read_overrides(_mode: Mode, raw: Any, at: Path, errors: list[FieldError]) -> list[Option]:
    """Read ``podTemplateOverrides``: at least one, as the SDK wants it."""
    out = [_read_override(one, at.index(i), errors) for i, one in enumerate(items(raw, at, errors))]
    found = tuple(one for one in out if one is not None)
    return [PodTemplateOverrides(found)] if found else []


def _read_override(raw: Any, at: Path, errors: list[FieldError]) -> PodTemplateOverride | None:
    found = obj(raw, at, errors, ("targetJobs", "metadata", "spec"))
    if found is None:
        return None
    targets: tuple[TargetJob, ...] = ()
    if "targetJobs" in found:
        targets = _read_targets(found["targetJobs"], at.child("targetJobs"), errors)
    if not found.get("metadata") and not found.get("spec"):
        errors.append(field_errors.required(at, "must have metadata, spec or both"))
    metadata = _read_metadata(found.get("metadata"), at.child("metadata"), errors)
    return PodTemplateOverride(
        target_jobs=targets,
        metadata=metadata,
        spec=_read_spec(found.get("spec"), at.child("spec"), errors),
        path=at,
    )


def _read_targets(raw: Any, at: Path, errors: list[FieldError]) -> tuple[TargetJob, ...]:
    if raw == []:
        errors.append(field_errors.required(at, "must name a job; leave it out to mean all jobs"))
        return ()
    out = []
    for i, one in enumerate(items(raw, at, errors)):
        here = at.index(i)
        found = obj(one, here, errors, ("name", "ancestor")) or {}
        if len(found) != 1:
            errors.append(field_errors.required(here, "must have name or ancestor, and not both"))
            continue
        [(key, value)] = found.items()
        if type(value) is not str or not value:
            errors.append(field_errors.invalid(here.child(key), value, "must be a name"))
        elif key == "ancestor" and value not in ANCESTORS:
            errors.append(field_errors.not_supported(here.child(key), value, ANCESTORS))
        else:
            by_name = key == "name"
            path = here.child(key)
            out.append(TargetJob(value if by_name else "", "" if by_name else value, path))
    return tuple(out)


def _read_metadata(raw: Any, at: Path, errors: list[FieldError]) -> dict[str, Any] | None:
    if raw is None:
        return None
    if obj(raw, at, errors, _METADATA) is None:
        return None
    node = node_at(lines.NEWEST.name, *shapes.POD_TEMPLATE, "metadata")
    given = {key: raw[key] for key in _METADATA if key in raw}
    out: dict[str, Any] = take(node, given, at, errors)
    plain = {
        kind: {k: v for k, v in values.obj(out.get(kind)).items() if type(v) is str}
        for kind in _METADATA
    }
    errors.extend(error.under(at) for error in labels.problems(Path(), plain))
    return out


def _read_spec(raw: Any, at: Path, errors: list[FieldError]) -> PodSpecOverride | None:
    if raw is None:
        return None
    before = len(errors)
    spec = take(node_at(lines.NEWEST.name, *shapes.POD_TEMPLATE, "spec"), raw, at, errors)
    if isinstance(spec, Expression):
        detail = (
            "write the expressions for the fields: which fields there are must be known beforehand"
        )
        errors.append(field_errors.forbidden(at, detail))
        return None
    if type(spec) is not dict:
        return None
    errors.extend(_spec_problems(spec, at))
    if len(errors) > before:
        return None
    given = {f.name: spec[camel(f.name)] for f in fields(PodSpecOverride) if camel(f.name) in spec}
    for kind in ("containers", "init_containers"):
        if type(given.get(kind)) is list:
            given[kind] = tuple(_container_override(one) for one in given[kind])
    return PodSpecOverride(**given)


def _container_override(raw: dict[str, Any]) -> ContainerOverride:
    given = {f.name: raw[camel(f.name)] for f in fields(ContainerOverride) if camel(f.name) in raw}
    return ContainerOverride(**given)


def _spec_problems(spec: dict[str, Any], at: Path) -> Iterator[FieldError]:
    for kind in _LIST_KINDS:
        yield from containers.problems(spec.get(kind), at.child(kind))
    selector = {k: v for k, v in values.obj(spec.get("nodeSelector")).items() if k[:1] != "$"}
    yield from labels.label_problems(at.child("nodeSelector"), selector)
    for i, one in enumerate(values.objects(spec.get("tolerations"))):
        if not any(True for _ in expressions_in(one)):
            for error in podrules.toleration(one):
                yield error.under(at.child("tolerations").index(i))
    for k, container in enumerate(values.objects(spec.get("initContainers"))):
        if container.get("name") in names.RESERVED_CONTAINERS and container.get("env"):
            detail = "the Trainer's containers of this name are no init containers"
            yield field_errors.forbidden(at.child("initContainers").index(k).child("env"), detail)


@dataclass(frozen=True, kw_only=True)
class RuntimePatch:
    """One patch, with the SDK's field: the nested TrainingRuntimeSpecPatch, in the form of documents."""

    training_runtime_spec: Mapping[str, Any]
    path: Path = field(default_factory=Path)


@dataclass(frozen=True)
class RuntimePatches(_PodOption):
    """Patches of the JobSet, of Jobs and of pods; the later of two wins."""

    key: ClassVar[str] = "runtimePatches"
    name: ClassVar[str] = "RuntimePatch"
    facts: ClassVar[Facts] = Facts(
        fields=("trainingRuntimeSpec",),
        merge=_MERGE,
        lines=_LINES,
        sdk=">=0.4.0",
        example=(
            "runtimePatches:\n- trainingRuntimeSpec:\n    template:\n      spec:\n        replicatedJobs:\n"
            "        - name: node\n          template:\n            spec:\n              template:\n"
            "                spec:\n                  serviceAccountName: trainer\n"
        ),
    )
    patches: tuple[RuntimePatch, ...]

    @cached_property
    def parts(self) -> tuple[_Part, ...]:  # type: ignore[override]  # worked out once
        """For each patch the JobSet's metadata, then each job's, then each pod's."""
        return tuple(part for patch in self.patches for part in _parts_of(patch))

    def expressions(self) -> Iterable[Expression]:
        """Those in metadata and specs."""
        return [
            e for part in self.parts for leaf in part.leaves for e in expressions_in(leaf.value)
        ]


def _parts_of(patch: RuntimePatch) -> Iterator[_Part]:
    newest = lines.NEWEST.name
    at = patch.path.child("trainingRuntimeSpec", "template")
    template = values.at_obj(dict(patch.training_runtime_spec), "template")
    metadata = node_at(newest, *shapes.POD_TEMPLATE, "metadata")
    yield _part((), "JobSet", at, metadata, template)
    for i, raw in enumerate(values.objects(values.at(template, "spec", "replicatedJobs"))):
        here = at.child("spec", "replicatedJobs").index(i)
        targets = (TargetJob(values.text(raw.get("name")), "", here.child("name")),)
        job = values.obj(raw.get("template"))
        below = here.child("template")
        yield _part(targets, "Job", below, metadata, job)
        pod = values.at_obj(job, "spec", "template")
        node = node_at(newest, *shapes.POD_TEMPLATE)
        there = below.child("spec", "template")
        yield _Part(targets, "", tuple(leaves(node, pod, there)), there)


def _part(
    targets: tuple[TargetJob, ...], level: Level, at: Path, node: Any, holder: dict[str, Any]
) -> _Part:
    """The metadata of a level."""
    metadata = values.obj(holder.get("metadata"))
    found = tuple(leaves(node, metadata, at.child("metadata"), ("metadata",)))
    return _Part(targets, level, found, at)


def read_patches(_mode: Mode, raw: Any, at: Path, errors: list[FieldError]) -> list[Option]:
    """Read ``runtimePatches``; managers are ours, so an entry has none."""
    out = []
    for i, one in enumerate(items(raw, at, errors)):
        patch = _read_patch(one, at.index(i), errors)
        if patch is not None:
            out.append(patch)
    return [RuntimePatches(tuple(out))] if out else []


def _read_patch(raw: Any, at: Path, errors: list[FieldError]) -> RuntimePatch | None:
    if type(raw) is dict and "manager" in raw:
        detail = f"policies write under {' and '.join(names.OUR_MANAGERS)}: leave it out"
        errors.append(field_errors.forbidden(at.child("manager"), detail))
        raw = {key: value for key, value in raw.items() if key != "manager"}
    found = obj(raw, at, errors, ("trainingRuntimeSpec",))
    if found is None:
        return None
    if not found.get("trainingRuntimeSpec"):
        errors.append(field_errors.required(at.child("trainingRuntimeSpec")))
        return None
    before = len(errors)
    node = node_at(lines.NEWEST.name, "spec", "runtimePatches", "[]", "trainingRuntimeSpec")
    here = at.child("trainingRuntimeSpec")
    spec = take(node, found["trainingRuntimeSpec"], here, errors)
    if len(errors) > before:
        return None
    errors.extend(_patch_problems(spec, here))
    return RuntimePatch(training_runtime_spec=spec, path=at) if len(errors) == before else None


def _patch_problems(spec: Any, at: Path) -> Iterator[FieldError]:
    """What the schema lets pass: expressions in place of structure, other metadata, what the SDK refuses."""
    yield from _structural(spec, at, ("template", "spec", "replicatedJobs"))
    template = values.at_obj(spec, "template")
    yield from _metadata_problems(template, at.child("template"))
    for i, raw in enumerate(values.objects(values.at(template, "spec", "replicatedJobs"))):
        here = at.child("template", "spec", "replicatedJobs").index(i).child("template")
        job = raw.get("template")
        yield from _structural(job, here, ("spec", "template", "spec"))
        yield from _metadata_problems(values.obj(job), here, of_job=True)
        pod = values.at_obj(job, "spec", "template")
        there = here.child("spec", "template")
        yield from _metadata_problems(pod, there)
        yield from _spec_problems(values.obj(pod.get("spec")), there.child("spec"))


def _structural(value: Any, at: Path, steps: tuple[str, ...]) -> Iterator[FieldError]:
    for step in ("", *steps):
        if step:
            if type(value) is not dict:
                return
            value, at = value.get(step), at.child(step)
        if isinstance(value, Expression):
            detail = "write the expressions for the fields: which fields there are must be known beforehand"
            yield field_errors.forbidden(at, detail)
            return


def _metadata_problems(
    holder: dict[str, Any], at: Path, *, of_job: bool = False
) -> Iterator[FieldError]:
    metadata = holder.get("metadata")
    here = at.child("metadata")
    if isinstance(metadata, Expression):
        yield field_errors.forbidden(here, "write the expressions for the labels and annotations")
        return
    for key in values.obj(metadata):
        if key not in _METADATA:
            yield field_errors.forbidden(
                here.child(key), "only labels and annotations may be patched"
            )
    plain = {
        kind: {k: v for k, v in values.at_obj(metadata, kind).items() if type(v) is str}
        for kind in _METADATA
    }
    yield from (error.under(here) for error in labels.problems(Path(), plain))
    if of_job and names.ANCESTOR_LABEL in plain["labels"]:
        detail = (
            "the ancestor decides where image, command and counts go; it is the runtime's to say"
        )
        yield field_errors.forbidden(here.child("labels").key(names.ANCESTOR_LABEL), detail)
