"""A runtime compiled once per content and line: names, ancestors, policies and base requests, ready to read.

A runtime changes seldom and is read at every review. What can be decided from it alone is decided here, when
it is loaded; a review then only looks up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import orjson

from plugins.framework import goform, values
from plugins.framework.api import names
from plugins.framework.resources import CompiledPod, LimitDefaults, compile_pod

if TYPE_CHECKING:
    from plugins.framework.lines import Line

POLICIES: Final = ("torch", "mpi", "jax", "xgboost", "flux")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What a namespace adds to every pod in it: LimitRange defaults and RuntimeClass overheads.

    ``digest`` tells two sets of facts apart, so that compiled requests can be kept.
    """

    limits: LimitDefaults | None = None
    overheads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    digest: str = ""


class Job:
    """One replicated job of a template, in the form that the Trainer's Go types give it.

    Shared by all reviews of the runtime; a job that a patch touches gets an object of its own.
    """

    __slots__ = (
        "_requests",
        "ancestor",
        "containers",
        "depends_on",
        "init_containers",
        "init_names",
        "name",
        "names",
        "parallelism",
        "pod",
        "raw",
        "replicas",
    )

    def __init__(self, raw: dict[str, Any]) -> None:
        """View one entry of ``replicatedJobs``."""
        self.raw = raw
        self.name = values.text(raw.get("name"))
        template = values.obj(raw.get("template"))
        labels = values.at_obj(template, "metadata", "labels")
        ancestor = labels.get(names.ANCESTOR_LABEL)
        self.ancestor: str | None = ancestor if type(ancestor) is str else None
        self.replicas: int = _integer(raw.get("replicas"), 1) or 1
        job_spec = values.obj(template.get("spec"))
        self.parallelism: int = _integer(job_spec.get("parallelism"), 1)
        self.pod: dict[str, Any] = values.at_obj(job_spec, "template", "spec")
        self.containers: list[dict[str, Any]] = values.objects(self.pod.get("containers"))
        self.init_containers: list[dict[str, Any]] = values.objects(self.pod.get("initContainers"))
        self.names: frozenset[str] = frozenset(c.get("name", "") for c in self.containers)
        self.init_names: frozenset[str] = frozenset(c.get("name", "") for c in self.init_containers)
        self.depends_on: tuple[tuple[str, str], ...] = tuple(
            (values.text(d.get("name")), values.text(d.get("status")))
            for d in values.objects(raw.get("dependsOn"))
        )
        self._requests: tuple[str, CompiledPod] | None = None

    @property
    def has_sidecars(self) -> bool:
        """Whether an init container goes on running beside the others."""
        return any(c.get("restartPolicy") == "Always" for c in self.init_containers)

    @property
    def is_indexed(self) -> bool:
        """Whether each pod has an index in its name: what JobSet makes of a Job that says nothing."""
        mode = values.at(self.raw, "template", "spec", "completionMode")
        return mode is None or bool(mode == "Indexed")

    def container(self, name: str) -> dict[str, Any] | None:
        """The regular container of that name."""
        for container in self.containers:
            if container.get("name") == name:
                return container
        return None

    def requests(self, facts: ClusterFacts) -> CompiledPod:
        """The pod's requests by container under these facts; compiled once while the facts stay."""
        kept = self._requests
        if kept is not None and kept[0] == facts.digest:
            return kept[1]
        overhead = facts.overheads.get(values.text(self.pod.get("runtimeClassName")))
        compiled = compile_pod(self.pod, limits=facts.limits, overhead=overhead)
        self._requests = (facts.digest, compiled)
        return compiled


def _integer(value: Any, default: int) -> int:
    return value if type(value) is int else default


class CompiledRuntime:
    """One TrainingRuntime or ClusterTrainingRuntime under one line's semantics."""

    def __init__(self, raw: dict[str, Any], line: Line) -> None:
        """Compile ``raw``, which must have passed the CRD's defaulting and schema."""
        self.raw = raw
        self.line = line
        metadata = values.obj(raw.get("metadata"))
        self.kind = values.text(raw.get("kind"))
        self.name = values.text(metadata.get("name"))
        self.namespace = values.text(metadata.get("namespace"))
        self.labels = values.obj(metadata.get("labels"))
        spec = values.obj(raw.get("spec"))
        self.ml_policy: dict[str, Any] | None = (
            spec["mlPolicy"] if type(spec.get("mlPolicy")) is dict else None
        )
        self.pod_group_policy = values.obj(spec.get("podGroupPolicy"))
        self.has_pod_group_policy: bool = spec.get("podGroupPolicy") is not None
        template = values.obj(spec.get("template"))
        self.jobset_labels = values.at_obj(template, "metadata", "labels")
        self.jobset_annotations = values.at_obj(template, "metadata", "annotations")
        forms = goform.load(line.name)
        typed = forms.normalize(values.obj(template.get("spec")), "JobSetSpec")
        self.template: dict[str, Any] = values.without_empty(typed)
        self.jobs: tuple[Job, ...] = tuple(
            Job(j) for j in values.objects(self.template.get("replicatedJobs"))
        )
        self.position: dict[str, int] = {job.name: i for i, job in enumerate(self.jobs)}
        self.subdomain: str | None = values.at(self.template, "network", "subdomain")
        self.coordinator = values.obj(self.template.get("coordinator"))
        self.memo: dict[str, Any] = {}
        """What plugins work out once per runtime, by plugin name."""
        self.policy: str = next(
            (p for p in POLICIES if values.obj(self.ml_policy).get(p) is not None), ""
        )

    @cached_property
    def digest(self) -> str:
        """``sha256:`` of the defaulted ``spec`` as sorted compact JSON."""
        data = orjson.dumps(self.raw.get("spec"), option=orjson.OPT_SORT_KEYS)
        return f"sha256:{hashlib.sha256(data).hexdigest()}"

    @property
    def num_nodes(self) -> int:
        """``mlPolicy.numNodes``, 1 where it is unset."""
        return _integer(values.obj(self.ml_policy).get("numNodes"), 1)

    @property
    def source(self) -> dict[str, Any]:
        """The active policy's own object (``mlPolicy.torch`` and so on); empty where there is none."""
        return values.obj(values.obj(self.ml_policy).get(self.policy))

    @property
    def is_deprecated(self) -> bool:
        """Labelled ``trainer.kubeflow.org/support: deprecated``."""
        return self.labels.get(names.SUPPORT_LABEL) == "deprecated"

    @property
    def runs_launcher_as_node(self) -> bool:
        """MPI with ``runLauncherAsNode: true``."""
        return self.policy == "mpi" and self.source.get("runLauncherAsNode") is True

    @cached_property
    def trainer_job(self) -> Job | None:
        """The first job with the ancestor ``trainer``."""
        return next((job for job in self.jobs if job.ancestor == names.TRAINER), None)

    @property
    def job_names(self) -> list[str]:
        """Names of the jobs, in the order of the template."""
        return [job.name for job in self.jobs]

    def job(self, name: str) -> Job | None:
        """The job of that name, as the runtime has it."""
        at = self.position.get(name)
        return None if at is None else self.jobs[at]

    def takes_resources(self, job: Job) -> bool:
        """Whether ``trainer.resourcesPerNode`` lands on container ``node`` of this job (semantics 3.6)."""
        line = self.line
        if job.ancestor == names.TRAINER:
            return self.ml_policy is not None or not line.needs_ml_policy_for_resources
        return (
            line.launcher_node_resources and self.runs_launcher_as_node and job.name == names.NODE
        )
