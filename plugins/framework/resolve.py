"""TrainJob + compiled runtime -> Info: the pure part of the prediction, before any plugin.

The order of layers is the controller's (trainer-semantics 3.1): template, overrides in list order,
resourcesPerNode. What plugins add comes after, in the Pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from plugins.framework import goform, values
from plugins.framework.api import names
from plugins.framework.errors import BuildError
from plugins.framework.info import Info, PodSet
from plugins.framework.merge import Merger
from plugins.framework.runtime import ClusterFacts, CompiledRuntime, Job

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.lines import Line

NO_FACTS = ClusterFacts()


def resolve(
    job: TrainJob, runtime: CompiledRuntime, facts: ClusterFacts = NO_FACTS, *, trace: bool = False
) -> Info:
    """Merge a TrainJob's overrides and resources into its runtime.

    Never raises for a wrong TrainJob: where the controller's merge would fail, ``info.build_error`` says so
    and the overrides that failed are left out. ``trace`` keeps the jobs after each override for ``explain``.
    """
    info = Info(job, runtime, facts)
    info.with_metadata(*_metadata(job, runtime))
    nodes = job.num_nodes
    if nodes is not None and values.int32(nodes) != nodes:
        info.build_error = f"numNodes {nodes} cannot be read as int32"
    jobs = _with_overrides(info, trace=trace)
    _add_pod_sets(info, jobs)
    return info


def overrides(job: TrainJob, line: Line) -> list[dict[str, Any]]:
    """The override entries of the generation that this line reads."""
    return values.objects(job.spec.get(line.generation))


def patched_jobs(patch: dict[str, Any]) -> list[dict[str, Any]]:
    """The ``replicatedJobs`` of one ``runtimePatches`` entry."""
    return values.objects(
        values.at(patch, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
    )


def _metadata(job: TrainJob, runtime: CompiledRuntime) -> tuple[dict[str, Any], dict[str, Any]]:
    """Labels and annotations of the JobSet: the template's, overlaid by the job's, key by key."""
    labels, annotations = runtime.jobset_labels, runtime.jobset_annotations
    for over in _overlays(job, runtime.line):
        more = values.obj(over.get("labels"))
        if more:
            labels = {**labels, **more}
        more = values.obj(over.get("annotations"))
        if more:
            annotations = {**annotations, **more}
    return labels, annotations


def _overlays(job: TrainJob, line: Line) -> Iterator[dict[str, Any]]:
    if line.spec_metadata:
        yield job.spec
        return
    for patch in overrides(job, line):
        yield values.at_obj(patch, "trainingRuntimeSpec", "template", "metadata")


def _with_overrides(info: Info, *, trace: bool) -> tuple[Job, ...]:
    jobs = info.runtime.jobs
    if trace:
        info.layers.append(("runtime", jobs))
    entries = overrides(info.job, info.line)
    if not entries:
        return jobs
    if not trace and not any(_is_structural(info, entry) for entry in entries):
        info.with_merge(lambda of: _merged(of, entries, trace=False))
        return jobs
    return _merged(info, entries, trace=trace)


def _merged(info: Info, entries: list[dict[str, Any]], *, trace: bool) -> tuple[Job, ...]:
    jobs = info.runtime.jobs
    merger = merger_of(info.line.name)
    for i, entry in enumerate(entries):
        try:
            jobs = merger.apply(info.line, jobs, entry)
        except BuildError as error:
            info.build_error = info.build_error or str(error)
            continue
        if trace:
            label = values.text(entry.get("manager")) or f"{info.line.generation}[{i}]"
            info.layers.append((label, jobs))
    if info.line.merge_unit == "JobSetSpec":
        # The Trainer sorts by the place in the template; an unknown name counts as the first.
        position = info.runtime.position
        jobs = tuple(sorted(jobs, key=lambda job: position.get(job.name, 0)))
    if jobs is not info.runtime.jobs:
        info.with_template({**info.template, "replicatedJobs": [job.raw for job in jobs]})
    return jobs


def _is_structural(info: Info, entry: dict[str, Any]) -> bool:
    """Whether an entry may change what ``PodSet.base`` is read for: jobs, containers, ancestors, images of volumes.

    Legal overrides do none of it: they add env, mounts, selectors and the like to what is there. So the
    merge can wait until somebody reads a pod.
    """
    if info.line.merge_unit not in {"JobSetSpec", "JobTemplateSpec"}:
        return True
    for job_patch in patched_jobs(entry):
        job = info.runtime.job(values.text(job_patch.get("name")))
        template = values.obj(job_patch.get("template"))
        if job is None or "metadata" in template:
            return True
        pod = values.at_obj(template, "spec", "template", "spec")
        if any("image" in volume for volume in values.objects(pod.get("volumes"))):
            return True
        if pod.get("initContainers") and job.has_sidecars:
            return True  # it may reorder them: a sidecar counts for all that starts after it
        for key, known in (("containers", job.names), ("initContainers", job.init_names)):
            if any(values.obj(c).get("name") not in known for c in values.items(pod.get(key))):
                return True
    return info.job.has_directives(info.line.generation)


class Overrides:
    """Applies one override entry, of any generation, to the jobs of a template."""

    __slots__ = ("_forms", "_merger")

    def __init__(self, forms: goform.GoForms) -> None:
        """Use the Go types of one line."""
        self._forms = forms
        self._merger = Merger(forms)

    def apply(self, line: Line, jobs: tuple[Job, ...], entry: dict[str, Any]) -> tuple[Job, ...]:
        """The jobs with the entry merged in; jobs that it does not touch are the same objects."""
        match line.merge_unit:
            case "JobSetSpec":
                return self._whole(jobs, entry)
            case "JobTemplateSpec":
                return self._each_job(jobs, entry)
            case "PodTemplateSpec":
                return self._each_target(jobs, entry, self._pod_template)
            case _:
                return self._each_target(jobs, entry, self._pod_spec)

    def _whole(self, jobs: tuple[Job, ...], entry: dict[str, Any]) -> tuple[Job, ...]:
        patch = self._forms.normalize(
            values.at_obj(entry, "trainingRuntimeSpec", "template", "spec"), "JobSetSpecPatch"
        )
        if not patch.get("replicatedJobs"):
            return jobs
        before = {id(job.raw): job for job in jobs}
        merged = self._merger.merge(
            {"replicatedJobs": [job.raw for job in jobs]}, patch, "JobSetSpec"
        )
        return tuple(
            before.get(id(raw)) or Job(self._typed(raw, "ReplicatedJob"))
            for raw in merged["replicatedJobs"]
        )

    def _typed(self, merged: dict[str, Any], type_name: str) -> dict[str, Any]:
        """The merged object as Go reads it back, in the form that the controller then applies."""
        typed: dict[str, Any] = values.without_empty(self._forms.normalize(merged, type_name))
        return typed

    def _each_job(self, jobs: tuple[Job, ...], entry: dict[str, Any]) -> tuple[Job, ...]:
        out = list(jobs)
        for job_patch in patched_jobs(entry):
            template = job_patch.get("template")
            if type(template) is not dict:
                continue
            patch = self._forms.normalize(template, "JobTemplatePatch")
            for i, job in enumerate(out):
                if job.name == job_patch.get("name"):
                    merged = self._merger.merge(
                        values.obj(job.raw.get("template")), patch, "JobTemplateSpec"
                    )
                    typed = self._typed(merged, "JobTemplateSpec")
                    out[i] = Job({**job.raw, "template": typed})
        return tuple(out)

    def _each_target(
        self, jobs: tuple[Job, ...], entry: dict[str, Any], merge: Any
    ) -> tuple[Job, ...]:
        targets = {values.text(t.get("name")) for t in values.objects(entry.get("targetJobs"))}
        return tuple(merge(job, entry) if job.name in targets else job for job in jobs)

    def _pod_template(self, job: Job, entry: dict[str, Any]) -> Job:
        patch: dict[str, Any] = {}
        metadata = {
            key: entry["metadata"][key]
            for key in ("labels", "annotations")
            if values.at(entry, "metadata", key) is not None
        }
        if metadata:
            patch["metadata"] = metadata
        if type(entry.get("spec")) is dict:
            patch["spec"] = self._forms.normalize(entry["spec"], "PodTemplateSpecOverride")
        merged = self._merger.merge(
            values.at_obj(job.raw, "template", "spec", "template"), patch, "PodTemplateSpec"
        )
        return self._with_pod_template(job, self._typed(merged, "PodTemplateSpec"))

    def _pod_spec(self, job: Job, entry: dict[str, Any]) -> Job:
        patch = self._forms.normalize(entry, "PodSpecOverride")
        merged = self._merger.merge(job.pod, patch, "PodSpec")
        template = values.at_obj(job.raw, "template", "spec", "template")
        return self._with_pod_template(job, {**template, "spec": self._typed(merged, "PodSpec")})

    @staticmethod
    def _with_pod_template(job: Job, pod_template: dict[str, Any]) -> Job:
        template = values.obj(job.raw.get("template"))
        spec = {**values.obj(template.get("spec")), "template": pod_template}
        return Job({**job.raw, "template": {**template, "spec": spec}})


@lru_cache(maxsize=8)
def merger_of(line: str) -> Overrides:
    """The override machinery of a line, made once."""
    return Overrides(goform.load(line))


def _add_pod_sets(info: Info, jobs: tuple[Job, ...]) -> None:
    runtime = info.runtime
    own = info.job.resources_per_node
    for job in jobs:
        counted = job.ancestor == names.TRAINER and runtime.ml_policy is not None
        info.with_pod_set(job, runtime.num_nodes if counted else job.parallelism)
        if own is not None and runtime.takes_resources(job):
            container = job.container(names.NODE)
            if container is not None:
                _give_resources(info, info.pod_sets[-1], _node_resources(info.line, container, own))


def _give_resources(info: Info, pod_set: PodSet, resources: dict[str, Any] | None) -> None:
    if resources is None:
        return
    pod_set.node_resources = resources

    def replace(_info: Info) -> None:
        node = pod_set.edit(names.NODE)
        if node is not None:
            node.raw["resources"] = resources

    info.by = "spec.trainer.resourcesPerNode"
    info.later(replace)


def _node_resources(
    line: Line, container: dict[str, Any], own: dict[str, Any]
) -> dict[str, Any] | None:
    """What container ``node`` gets; None where its own stay.

    2.3 merges limits and requests per name, and rebuilds the object from those two alone, so claims are lost
    from both sides. Before, limits and requests replaced the whole, if there were any.
    """
    if not line.merges_resources:
        given = {key: own[key] for key in ("limits", "requests") if own.get(key) is not None}
        return given or None
    base = values.obj(container.get("resources"))
    merged: dict[str, Any] = {}
    for key in ("limits", "requests"):
        amounts = {**values.obj(base.get(key)), **values.obj(own.get(key))}
        if amounts:
            merged[key] = amounts
    return merged
