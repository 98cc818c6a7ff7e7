"""TrainJobs and runtimes in sentences.

    make_train_job("a").runtime("torch").nodes(2).env("A", "1").obj
    make_runtime("torch").torch().job("node", ancestor="trainer", containers=[container("node")]).obj

Every word gives a new builder, so that a case can start from another one; ``obj`` is a fresh object each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from plugins.framework.api import names

Json: TypeAlias = dict[str, Any]

NAMESPACE = "team"
IMAGE = "example.test/train:1"
JOB_NAME = "test-job"


@dataclass(frozen=True)
class Builder:
    """An object under construction; never changed, only followed by the next one."""

    raw: Json

    @property
    def obj(self) -> Json:
        """The object; the caller's own."""
        return deepcopy(self.raw)


SomeBuilder = TypeVar("SomeBuilder", bound=Builder)


def _edited(builder: SomeBuilder, edit: Callable[[Json], object]) -> SomeBuilder:
    raw = deepcopy(builder.raw)
    edit(raw)
    return type(builder)(raw)


def put(raw: Json, value: Any, *steps: str) -> None:
    """Write below a chain of keys; objects on the way are made."""
    for step in steps[:-1]:
        raw = raw.setdefault(step, {})
    raw[steps[-1]] = deepcopy(value)


def add(raw: Json, value: Any, *steps: str) -> None:
    """Append to the list below a chain of keys; it is made where there is none."""
    for step in steps[:-1]:
        raw = raw.setdefault(step, {})
    raw.setdefault(steps[-1], []).append(deepcopy(value))


def given(**fields: Any) -> Json:
    """An object of the fields that are not None."""
    return {key: value for key, value in fields.items() if value is not None}


# Pieces of pods


def env(entries: Mapping[str, Any]) -> list[Json]:
    """Env entries: a text is a value, anything else the ``valueFrom``."""
    return [
        {"name": name, "value": value}
        if isinstance(value, str)
        else {"name": name, "valueFrom": value}
        for name, value in entries.items()
    ]


def resources(requests: Json | None = None, limits: Json | None = None) -> Json:
    """Resources of a container."""
    return given(requests=requests, limits=limits)


def mount(name: str, path: str) -> Json:
    """Mount a volume."""
    return {"name": name, "mountPath": path}


def container(
    name: str,
    variables: Mapping[str, Any] | None = None,
    *,
    image: str | None = IMAGE,
    **fields: Any,
) -> Json:
    """One container, with an image unless told otherwise."""
    entries = env(variables) if variables is not None else None
    return {"name": name, **given(image=image, env=entries, **fields)}


def patched(name: str, variables: Mapping[str, Any] | None = None, **fields: Any) -> Json:
    """A container as an override may name it: without an image."""
    return container(name, variables, image=None, **fields)


def job_patch(
    name: str,
    *,
    pod: Json | None = None,
    pod_metadata: Json | None = None,
    job_metadata: Json | None = None,
) -> Json:
    """What one ``runtimePatches`` entry says about one job."""
    pod_template = given(spec=pod, metadata=pod_metadata)
    template = given(
        metadata=job_metadata, spec={"template": pod_template} if pod_template else None
    )
    return {"name": name, **given(template=template or None)}


@dataclass(frozen=True)
class MakeTrainJob(Builder):
    """Says what a TrainJob is like."""

    def field(self, value: Any, *steps: str) -> MakeTrainJob:
        """Set any field, by its keys."""
        return _edited(self, lambda raw: put(raw, value, *steps))

    def without(self, *steps: str) -> MakeTrainJob:
        """Leave a field out."""

        def remove(raw: Json) -> None:
            for step in steps[:-1]:
                raw = raw[step]
            del raw[steps[-1]]

        return _edited(self, remove)

    def runtime(
        self, name: str, kind: str = names.CLUSTER_TRAINING_RUNTIME, group: str | None = None
    ) -> MakeTrainJob:
        """Name the runtime."""
        return self.field(given(name=name, kind=kind, apiGroup=group), "spec", "runtimeRef")

    def trainer(self, **fields: Any) -> MakeTrainJob:
        """Set fields of ``spec.trainer``, which is there from now on, even if without fields."""

        def edit(raw: Json) -> None:
            raw["spec"].setdefault("trainer", {}).update(deepcopy(fields))

        return _edited(self, edit)

    def nodes(self, count: int) -> MakeTrainJob:
        """Ask for nodes."""
        return self.trainer(numNodes=count)

    def processes(self, count: int | str) -> MakeTrainJob:
        """Ask for processes a node."""
        return self.trainer(numProcPerNode=count)

    def command(self, *words: str) -> MakeTrainJob:
        """Run this."""
        return self.trainer(command=list(words))

    def args(self, *words: str) -> MakeTrainJob:
        """With these arguments."""
        return self.trainer(args=list(words))

    def env(self, name: str, value: Any) -> MakeTrainJob:
        """Set a variable of the trainer: a text, or a ``valueFrom``."""
        return _edited(self, lambda raw: add(raw, env({name: value})[0], "spec", "trainer", "env"))

    def resources(self, requests: Json | None = None, limits: Json | None = None) -> MakeTrainJob:
        """Ask for resources on each node."""
        return self.trainer(resourcesPerNode=resources(requests, limits))

    def initializer(self, kind: str, **fields: Any) -> MakeTrainJob:
        """Fetch a ``dataset`` or a ``model`` first."""
        return self.field(fields, "spec", "initializer", kind)

    def suspended(self, value: bool = True) -> MakeTrainJob:
        """Suspend the job (or say that it is not)."""
        return self.field(value, "spec", "suspend")

    def patch(
        self, manager: str, *jobs: Json, metadata: Json | None = None, time: str | None = None
    ) -> MakeTrainJob:
        """Add an entry of ``runtimePatches``."""
        template = given(metadata=metadata, spec={"replicatedJobs": list(jobs)} if jobs else None)
        entry = {
            "manager": manager,
            **given(time=time),
            "trainingRuntimeSpec": {"template": template},
        }
        return _edited(self, lambda raw: add(raw, entry, "spec", "runtimePatches"))

    def pod_template_override(
        self, *jobs: str, pod: Json | None = None, metadata: Json | None = None
    ) -> MakeTrainJob:
        """Add an entry of ``podTemplateOverrides``, the generation of Trainer 2.1."""
        entry = {
            "targetJobs": [{"name": job} for job in jobs],
            **given(spec=pod, metadata=metadata),
        }
        return _edited(self, lambda raw: add(raw, entry, "spec", "podTemplateOverrides"))

    def pod_spec_override(self, *jobs: str, **pod: Any) -> MakeTrainJob:
        """Add an entry of ``podSpecOverrides``, the generation of Trainer 2.0."""
        entry = {"targetJobs": [{"name": job} for job in jobs], **pod}
        return _edited(self, lambda raw: add(raw, entry, "spec", "podSpecOverrides"))

    def label(self, key: str, value: str) -> MakeTrainJob:
        """Label the TrainJob."""
        return self.field(value, "metadata", "labels", key)

    def annotation(self, key: str, value: str) -> MakeTrainJob:
        """Annotate the TrainJob."""
        return self.field(value, "metadata", "annotations", key)

    def condition(self, kind: str, status: str = "True") -> MakeTrainJob:
        """Have the controller report a condition."""
        entry = {
            "type": kind,
            "status": status,
            "reason": kind,
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        return _edited(self, lambda raw: add(raw, entry, "status", "conditions"))

    def with_jobset(self) -> MakeTrainJob:
        """Have the controller been here: its JobSet exists."""
        counts = {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 1}
        return self.field([{"name": "node", **counts}], "status", "jobsStatus")

    def terminating(self) -> MakeTrainJob:
        """Have the deletion begun."""
        return self.field("2026-01-01T00:00:00Z", "metadata", "deletionTimestamp")


def make_train_job(name: str = JOB_NAME) -> MakeTrainJob:
    """Begin a TrainJob."""
    return MakeTrainJob(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.TRAIN_JOB,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"runtimeRef": {"name": "runtime"}},
        }
    )


@dataclass(frozen=True)
class MakeRuntime(Builder):
    """Says what a runtime is like."""

    def field(self, value: Any, *steps: str) -> MakeRuntime:
        """Set any field, by its keys."""
        return _edited(self, lambda raw: put(raw, value, *steps))

    def template(self, value: Any, *steps: str) -> MakeRuntime:
        """Set a field of the JobSet spec."""
        return self.field(value, "spec", "template", "spec", *steps)

    def namespaced(self, namespace: str = NAMESPACE) -> MakeRuntime:
        """Make it a TrainingRuntime of that namespace."""
        named = self.field(names.TRAINING_RUNTIME, "kind")
        return named.field(namespace, "metadata", "namespace")

    def label(self, key: str, value: str) -> MakeRuntime:
        """Label the runtime."""
        return self.field(value, "metadata", "labels", key)

    def policy(self, name: str, **fields: Any) -> MakeRuntime:
        """Set a source of the ML policy."""
        return self.field(fields, "spec", "mlPolicy", name)

    def plain(self) -> MakeRuntime:
        """Set an ML policy without a framework."""
        return _edited(self, lambda raw: raw["spec"].setdefault("mlPolicy", {}))

    def torch(self, **fields: Any) -> MakeRuntime:
        """PyTorch."""
        return self.policy("torch", **fields)

    def mpi(self, **fields: Any) -> MakeRuntime:
        """MPI."""
        return self.policy("mpi", **fields)

    def jax(self) -> MakeRuntime:
        """JAX."""
        return self.policy("jax")

    def xgboost(self) -> MakeRuntime:
        """XGBoost."""
        return self.policy("xgboost")

    def flux(self, **fields: Any) -> MakeRuntime:
        """Flux."""
        return self.policy("flux", **fields)

    def nodes(self, count: int) -> MakeRuntime:
        """Set ``mlPolicy.numNodes``."""
        return self.field(count, "spec", "mlPolicy", "numNodes")

    def coscheduling(self, **fields: Any) -> MakeRuntime:
        """Schedule the gang by the coscheduling plugin."""
        return self.field(fields, "spec", "podGroupPolicy", "coscheduling")

    def volcano(self, **fields: Any) -> MakeRuntime:
        """Schedule the gang by Volcano."""
        return self.field(fields, "spec", "podGroupPolicy", "volcano")

    def jobset_metadata(self, **fields: Any) -> MakeRuntime:
        """Set labels and annotations of the JobSet."""
        return self.field(fields, "spec", "template", "metadata")

    def claims(self, *claim_names: str) -> MakeRuntime:
        """Have JobSet make a volume claim of each name."""
        claim = {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
        }
        templates = [{"metadata": {"name": name}, **claim} for name in claim_names]
        return self.template([{"templates": templates}], "volumeClaimPolicies")

    def job(
        self,
        name: str,
        ancestor: str | None = None,
        *,
        containers: Sequence[Json] | None = None,
        pod: Json | None = None,
        pod_metadata: Json | None = None,
        depends_on: Mapping[str, str] | None = None,
        job_spec: Json | None = None,
        **fields: Any,
    ) -> MakeRuntime:
        """Add a replicated job; its container is named as its ancestor wants it, unless some are given."""
        wanted = "node" if ancestor in {None, names.TRAINER} else str(ancestor)
        pod_spec = {
            "containers": list(containers if containers is not None else [container(wanted)])
        }
        waits = [{"name": n, "status": s} for n, s in (depends_on or {}).items()]
        metadata = {"labels": {names.ANCESTOR_LABEL: ancestor}} if ancestor is not None else None
        job = {
            "name": name,
            **given(dependsOn=waits or None),
            **fields,
            "template": {
                **given(metadata=metadata),
                "spec": {
                    **(job_spec or {}),
                    "template": {
                        **given(metadata=pod_metadata),
                        "spec": {**pod_spec, **(pod or {})},
                    },
                },
            },
        }
        return _edited(
            self, lambda raw: add(raw, job, "spec", "template", "spec", "replicatedJobs")
        )

    def node(self, *containers: Json, **fields: Any) -> MakeRuntime:
        """Add the trainer's job, ``node``."""
        own = list(containers) or [container("node")]
        return self.job("node", names.TRAINER, containers=own, **fields)

    def initializers(self) -> MakeRuntime:
        """Add both initializers, each with its mount."""
        out = self
        for name in (names.DATASET_INITIALIZER, names.MODEL_INITIALIZER):
            own = container(name, volumeMounts=[mount("initializer", "/workspace")])
            out = out.job(name, name, containers=[own])
        return out


def make_runtime(name: str = "runtime") -> MakeRuntime:
    """Begin a ClusterTrainingRuntime."""
    return MakeRuntime(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.CLUSTER_TRAINING_RUNTIME,
            "metadata": {"name": name},
            "spec": {},
        }
    )


def make_object(kind: str, name: str, namespace: str = "", **fields: Any) -> Json:
    """Whatever else stands in a cluster: a LimitRange, a PriorityClass."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": kind, "metadata": metadata, **fields}
