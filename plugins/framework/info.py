"""One TrainJob resolved against its runtime: what plugins read, and where they leave what they add to pods.

Counts are known at once. Pods are not built until somebody reads one: a plugin that adds environment leaves
an edit, and the edits run, in order, at the first read. A review that only needs counts and totals never pays
for pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from plugins.framework import quantity, values
from plugins.framework.api import names
from plugins.framework.quantity import Quantity
from plugins.framework.runtime import ClusterFacts, CompiledRuntime, Job

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.lines import Line
    from plugins.framework.resources import CompiledPod

Requests = Mapping[str, Quantity]
Edit = Callable[["Info"], None]
Merge = Callable[["Info"], tuple[Job, ...]]
Observer = Callable[[str], None]

_INT64: Final = 2**63
_SMALL_DIGITS: Final = 18
"""Digits that Go keeps as an int64 and a power of ten."""
RUNTIME_LAYER: Final = "runtime"


class Container:
    """One container of a pod under construction. Lists are copied when first written."""

    __slots__ = ("raw",)

    def __init__(self, raw: dict[str, Any]) -> None:
        """Edit ``raw``, a private copy of the container's top level."""
        self.raw = raw

    def upsert_env(self, *entries: dict[str, Any]) -> None:
        """Replace the entry of the same name whole, else append."""
        self.upsert("env", "name", entries)

    def upsert_mounts(self, *entries: dict[str, Any]) -> None:
        """Replace the mount of the same path whole, else append."""
        self.upsert("volumeMounts", "mountPath", entries)

    def upsert_ports(self, *entries: dict[str, Any]) -> None:
        """Replace the first port of equal number or equal name, two absent names being equal (G18)."""
        ports: list[dict[str, Any]] = list(self.raw.get("ports") or ())
        for entry in entries:
            for i, port in enumerate(ports):
                if port.get("containerPort") == entry.get("containerPort") or port.get(
                    "name"
                ) == entry.get("name"):
                    ports[i] = entry
                    break
            else:
                ports.append(entry)
        if ports:
            self.raw["ports"] = ports

    def fold(self) -> None:
        """What copying ports and mounts back into the JobSet does: each is upserted over its own list.

        Two unnamed ports, or two mounts of one path (a patch may add such), end as the last of them twice.
        """
        self.upsert_ports(*(self.raw.get("ports") or ()))
        self.upsert_mounts(*(self.raw.get("volumeMounts") or ()))

    def upsert(self, key: str, by: str, entries: tuple[dict[str, Any], ...]) -> None:
        """Replace the first item of equal ``by`` whole, else append, in the list ``key``."""
        if not entries:
            return
        out: list[dict[str, Any]] = list(self.raw.get(key) or ())
        at: dict[Any, int] = {item.get(by): i for i, item in reversed(list(enumerate(out)))}
        for entry in entries:
            i = at.get(entry.get(by))
            if i is None:
                at[entry.get(by)] = len(out)
                out.append(entry)
            else:
                out[i] = entry
        self.raw[key] = out


class PodSet:
    """One replicated job of the resolved TrainJob: name, count, pod."""

    __slots__ = (
        "_of",
        "_requests",
        "base",
        "built",
        "count",
        "extra_init",
        "node_image",
        "node_resources",
        "replicas",
    )

    def __init__(self, info: Info, job: Job, count: int) -> None:
        """Start from a job of the template."""
        self._of = ref(info)
        self.base = job
        """The job as far as overrides leave it alone: its name, ancestor, counts, containers' names and
        resources, what it depends on, its classes. ``job`` has the overrides merged in."""
        self.count = count
        """Pods of one replica: parallelism and completions alike. A plugin may set it to any integer."""
        self.replicas = 1 if job.ancestor in names.ANCESTORS else job.replicas
        self.node_resources: dict[str, Any] | None = None
        """What container ``node`` gets from ``resourcesPerNode``, merged; None where it gets nothing."""
        self.node_image: str | None = None
        """What container ``node`` gets from ``spec.trainer.image``; None where it keeps its own."""
        self.extra_init: list[dict[str, Any]] = []
        """Init containers that plugins add; known before the pod is built, since they can cost resources."""
        self.built: dict[str, Any] = values.EMPTY
        self._requests: Requests | None = None

    @property
    def _info(self) -> Info:
        """The job that it is part of, and not longer than that: a ring of the two would stay until a collection."""
        info = self._of()
        if info is None:
            raise ReferenceError(f"the Info that pod set {self.name} is part of is gone: keep it")
        return info

    @property
    def name(self) -> str:
        """The replicated job's name."""
        return self.base.name

    @property
    def job(self) -> Job:
        """The job with all overrides merged in; merged when first asked for."""
        return self._info.merged(self)

    @property
    def ancestor(self) -> str | None:
        """The ancestor label of the job's template, any string; None without it."""
        return self.base.ancestor

    @property
    def pods(self) -> int:
        """All pods of this set: replicas x min(parallelism, completions), which are both ``count``."""
        return self.replicas * max(self.count, 0)

    @property
    def template(self) -> dict[str, Any]:
        """The finished entry of ``replicatedJobs``."""
        self._info.settle()
        return self.built

    @property
    def spec(self) -> dict[str, Any]:
        """The finished pod's ``spec``."""
        return values.at_obj(self.template, "template", "spec", "template", "spec")

    @property
    def metadata(self) -> dict[str, Any]:
        """The finished pod's ``metadata`` (labels and annotations)."""
        return values.at_obj(self.template, "template", "spec", "template", "metadata")

    @property
    def requests(self) -> Requests:
        """Effective requests of one pod, as the scheduler will see them (resource-totals, section 2)."""
        if self._requests is None:
            self._requests = self._compute()
        return self._requests

    def _compute(self) -> Requests:
        compiled = self.base.requests(self._info.facts)
        if self.extra_init:
            compiled = self._with_extra()
        if self.node_resources is not None:
            return compiled.with_container(names.NODE, self.node_resources)
        return compiled.requests

    def _with_extra(self) -> CompiledPod:
        pod = {**self.base.pod, "initContainers": [*self.base.init_containers, *self.extra_init]}
        return Job({"template": {"spec": {"template": {"spec": pod}}}}).requests(self._info.facts)

    @property
    def endpoints(self) -> Iterator[str]:
        """Host names of the pods: ``<job>-<set>-<replica>-<pod>.<subdomain>``; never listed unless asked for."""
        info = self._info
        domain = info.subdomain
        replicas = self.base.replicas if info.line.endpoints_per_replica else 1
        for replica in range(replicas):
            for pod in range(max(self.count, 0)):
                yield f"{info.job.name}-{self.name}-{replica}-{pod}.{domain}"

    def has_container(self, name: str) -> bool:
        """Whether the pod has a regular container of that name."""
        return name in self.base.names

    # Below: only for edits, which run while pods are being built.

    def edit(self, name: str) -> Container | None:
        """The regular container of that name, to be edited."""
        return self._editable("containers", name)

    def edit_any(self, name: str) -> Container | None:
        """The regular container of that name, else the init container."""
        return self._editable("containers", name) or self._editable("initContainers", name)

    def edit_all(self, name: str) -> list[Container]:
        """Every regular container of that name (one, in a legal pod)."""
        container = self._editable("containers", name)
        return [container] if container else []

    def pod_under_construction(self) -> dict[str, Any]:
        """The pod ``spec`` being built."""
        pod: dict[str, Any] = self.built["template"]["spec"]["template"]["spec"]
        return pod

    def upsert_volumes(self, *volumes: dict[str, Any]) -> None:
        """Replace the volume of the same name whole, else append."""
        Container(self.pod_under_construction()).upsert("volumes", "name", volumes)  # same module

    def _editable(self, kind: str, name: str) -> Container | None:
        for raw in self.pod_under_construction().get(kind) or ():
            if raw.get("name") == name:
                return Container(raw)
        return None

    def start(self) -> None:
        """Copy the job along the path that edits may touch."""
        job = self.job
        raw = dict(job.raw)
        template = dict(values.obj(raw.get("template")))
        job_spec = dict(values.obj(template.get("spec")))
        pod_template = dict(values.obj(job_spec.get("template")))
        pod = dict(job.pod)
        for kind in ("containers", "initContainers"):
            if kind in pod:
                pod[kind] = [dict(c) for c in values.objects(pod[kind])]
        pod_template["spec"] = pod
        job_spec["template"] = pod_template
        template["spec"] = job_spec
        raw["template"] = template
        self.built = raw


class Info:
    """One TrainJob, resolved. Built by ``resolve.resolve`` through the named ``with_...`` options."""

    __slots__ = (
        "__weakref__",
        "_edits",
        "_merge",
        "_merged",
        "_settled",
        "annotations",
        "args",
        "build_error",
        "by",
        "command",
        "facts",
        "job",
        "labels",
        "layers",
        "line",
        "notes",
        "pod_annotations",
        "pod_labels",
        "pod_sets",
        "runtime",
        "subdomain",
        "template",
    )

    def __init__(self, job: TrainJob, runtime: CompiledRuntime, facts: ClusterFacts) -> None:
        """Start from a TrainJob and its runtime, without pod sets."""
        self.job = job
        self.runtime = runtime
        self.line: Line = runtime.line
        self.facts = facts
        self.labels: dict[str, Any] = runtime.jobset_labels
        self.annotations: dict[str, Any] = runtime.jobset_annotations
        self.template: dict[str, Any] = runtime.template
        self.pod_labels: dict[str, str] = {}
        self.pod_annotations: dict[str, str] = {}
        self.pod_sets: list[PodSet] = []
        self.subdomain: str = runtime.subdomain if runtime.subdomain is not None else job.name
        self.command: list[str] | None = job.words("command")
        """The trainer's command; TorchTune and Flux replace it as the controller does in memory."""
        self.args: list[str] | None = job.words("args")
        self.layers: list[tuple[str, tuple[Job, ...]]] = []
        """The jobs after each merge layer, for ``explain``; the first is the runtime's own."""
        self.notes: dict[str, Any] = {}
        """Facts that one extension point leaves for a later one, by plugin name (MPI's slots, for one)."""
        self.build_error = ""
        """What the controller would fail with on every reconcile; empty where it can build the job."""
        self.by = ""
        self._edits: list[tuple[str, Edit]] = []
        self._merge: Merge | None = None
        self._merged: dict[str, Job] = {}
        self._settled = False

    def with_metadata(self, labels: dict[str, Any], annotations: dict[str, Any]) -> Info:
        """Set the labels and annotations of the JobSet object."""
        self.labels, self.annotations = labels, annotations
        return self

    def with_template(self, template: dict[str, Any]) -> Info:
        """Set the patched JobSet spec."""
        self.template = template
        return self

    def with_merge(self, merge: Merge) -> Info:
        """Set how overrides are merged that leave alone what ``PodSet.base`` is read for."""
        self._merge = merge
        return self

    def merged(self, pod_set: PodSet) -> Job:
        """The job of a pod set with all overrides merged in."""
        if self._merge is not None:
            merge, self._merge = self._merge, None
            self._merged = {job.name: job for job in merge(self)}
        return self._merged.get(pod_set.base.name, pod_set.base)

    def with_pod_set(self, job: Job, count: int) -> Info:
        """Add a pod set; its count is at least 1, until a plugin says otherwise."""
        self.pod_sets.append(PodSet(self, job, max(count, 1)))
        return self

    def by_ancestor(self, ancestor: str) -> PodSet | None:
        """The first pod set with that ancestor."""
        for pod_set in self.pod_sets:
            if pod_set.base.ancestor == ancestor:
                return pod_set
        return None

    def by_name(self, name: str) -> PodSet | None:
        """The first pod set of that name."""
        for pod_set in self.pod_sets:
            if pod_set.base.name == name:
                return pod_set
        return None

    @property
    def trainer(self) -> PodSet | None:
        """The first pod set with the ancestor ``trainer``."""
        return self.by_ancestor(names.TRAINER)

    def resources_per_node(self) -> dict[str, Any]:
        """The resources that process counts follow: the TrainJob's if set at all, else the runtime's.

        The runtime's are those of the first container ``node`` in a job that is named ``node`` or has the
        ancestor ``trainer`` (semantics 2.6.2), whether it has any or not.
        """
        own = self.job.resources_per_node
        if own is not None:
            return own
        for pod_set in self.pod_sets:
            job = pod_set.base
            if job.name == names.NODE or job.ancestor == names.TRAINER:
                container = job.container(names.NODE)
                if container is not None:
                    return values.obj(container.get("resources"))
        return values.EMPTY

    def later(self, edit: Edit) -> None:
        """Leave an edit of the pods; it runs when a pod is first read, under the present plugin's name.

        It is given this Info, and should not hold on to it: what is held in a ring is not freed with its review.
        """
        self._edits.append((self.by, edit))

    def settle(self, observer: Observer | None = None) -> None:
        """Build the pods and run all edits, once. The observer is told the name of each layer applied."""
        if self._settled:
            return
        self._settled = True
        for pod_set in self.pod_sets:
            pod_set.start()
        if observer:
            observer(RUNTIME_LAYER)
        for by, edit in self._edits:
            edit(self)
            if observer:
                observer(by)


def gpu_count(resources: Mapping[str, Any]) -> int:
    """The GPUs of a container's resources, as the Trainer counts them (semantics 2.6.2).

    The value, rounded up, of the first name that contains ``gpu``, lower-cased: requests first, limits only
    if those give 0. With several such names Go picks one at random; we take the first in sorted order.
    """
    return _gpus(values.obj(resources.get("requests"))) or max(
        _gpus(values.obj(resources.get("limits"))), 0
    )


def _gpus(amounts: Mapping[str, Any]) -> int:
    for name in sorted(amounts):
        if "gpu" in name.lower():
            return _int64(amounts[name])
    return 0


def _int64(raw: Any) -> int:
    """``Quantity.Value()``: whole units, rounded up, as an int64 shows them (resource-totals 1.5).

    Past int64 Go gives 0 for a number of up to 18 digits, and the low 64 bits of a longer one. What cannot
    be read counts as 0 (whoever judges the resources names it).
    """
    try:
        value = quantity.value(quantity.parse(raw))
    except quantity.QuantityError:
        return 0
    if -_INT64 <= value < _INT64:
        return value
    digits = sum(c.isdigit() for c in str(raw))
    return (value + _INT64) % (2 * _INT64) - _INT64 if digits > _SMALL_DIGITS else 0


def cpu_count(resources: Mapping[str, Any]) -> int:
    """The CPUs of a container's resources, rounded up: requests if present and not zero, else limits."""
    for part in ("requests", "limits"):
        amount = values.obj(resources.get(part)).get("cpu")
        if amount is not None and (part == "limits" or not _is_zero(amount)):
            return _int64(amount)
    return 0


def _is_zero(raw: Any) -> bool:
    try:
        return quantity.parse(raw).nano == 0
    except quantity.QuantityError:
        return True
