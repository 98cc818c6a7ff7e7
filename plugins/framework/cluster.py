"""What a request may know of the cluster: an immutable snapshot of a few kinds, indexed for reading.

A folder of YAML and the caches of a real cluster both end here, so an answer never depends on which it was.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from plugins.framework import lines, schema, values
from plugins.framework.api import names
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.quantity import QuantityError
from plugins.framework.resources import LimitDefaults, compile_limit_ranges
from plugins.framework.runtime import ClusterFacts, CompiledRuntime
from plugins.framework.shards import Shards
from plugins.framework.usage import Name, RuntimeKey, Usage, Users, use_of

if TYPE_CHECKING:
    from plugins.framework.field import FieldError
    from plugins.framework.lines import Line

Documents = Mapping[tuple[str, str, str], dict[str, Any]]
"""Kind, namespace ("" where it has none) and name -> object, whole but for what the API server alone writes."""

Owner = Literal["TrainJob", "other"]
"""Whose an object is that stands where a TrainJob of its name would have one."""

POD_GROUPS: Final = {p: f"{names.POD_GROUP}.{group}" for p, group in names.GANG_GROUPS.items()}
"""What the PodGroups of either scheduler are kept as, by the policy of a runtime."""
GENERATED: Final = (names.JOB_SET, *POD_GROUPS.values())
"""What the Trainer makes under a TrainJob's own name."""

DOCUMENTS: Final = frozenset((*names.POLICY_DOCUMENTS, names.CONFIG_MAP))
"""What the platform's rules are made of."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
TRAIN_JOB_CRD: Final = f"trainjobs.{names.GROUP}"

MOST_COMPILED: Final = 512
"""Compiled runtimes kept at a time. A compiled runtime takes some 40 KiB, so at most some 20 MiB; the rest
stay as bytes, which is an eighth of that, and are compiled again (about a millisecond) when asked for."""


class Snapshot:
    """Runtimes, LimitRanges, RuntimeClasses and PriorityClasses at one moment; which TrainJobs, JobSets and PodGroups there are.

    Never changed after it was made: a reader holds one for a whole request, a writer makes the next by
    ``replaced``, ``without`` or ``with_all``, which share all that did not change. What is compiled from a
    runtime is kept by its content, so a runtime that changed is compiled anew and no other is.
    """

    __slots__ = (
        "_admit",
        "_compiled",
        "_facts",
        "_generated",
        "_limit_ranges",
        "_overheads",
        "_refused",
        "_runtimes",
        "_usage",
        "crd_line",
        "documents",
        "namespaces",
        "priority_classes",
        "runtime_classes",
        "served",
    )

    def __init__(self, *, admit: bool = False) -> None:
        """Make an empty snapshot; with ``admit``, runtimes meet the API server's rules before they count."""
        self._admit = admit
        self._refused: dict[tuple[bytes, str], list[FieldError]] = {}
        """Runtimes that the API server would not have stored, with its reasons, per content and line."""
        self._runtimes: dict[RuntimeKey, bytes] = {}
        self._compiled: dict[tuple[bytes, str], CompiledRuntime] = {}
        """By content and line; one dict for all snapshots that came of one another."""
        self._limit_ranges: dict[str, dict[str, dict[str, Any]]] = {}
        self._overheads: dict[str, Mapping[str, Any]] = {}
        self._facts: dict[str, ClusterFacts] = {}
        self._usage = Usage()
        self._generated: dict[str, Shards[Name, Owner]] = {kind: Shards() for kind in GENERATED}
        self.runtime_classes: frozenset[str] | None = None
        """Names of the RuntimeClasses; None where none were given, so that absence proves nothing."""
        self.priority_classes: frozenset[str] | None = None
        self.namespaces: dict[str, dict[str, Any]] = {}
        self.documents: Documents = {}
        """Policies, their exceptions and their params; another mapping whenever one of them changes."""
        self.crd_line: Line | None = None
        """The Trainer line that the TrainJob CRD among the objects shows."""
        self.served: frozenset[str] | None = None
        """Names of the CustomResourceDefinitions; None where nobody looked, so that absence proves nothing."""

    @classmethod
    def of(cls, objects: Iterable[dict[str, Any]], *, admit: bool = False) -> Snapshot:
        """Index raw objects; kinds that nobody here reads are passed over.

        ``admit`` is for objects from files, which no API server has defaulted, pruned and checked.
        """
        snapshot = cls(admit=admit)
        for obj in objects:
            snapshot._take(kept_as(obj), obj)
        return snapshot

    def replaced(self, obj: dict[str, Any]) -> Snapshot:
        """This snapshot with an object in it, in place of the one of its kind and name if there is one.

        Itself where that changes nothing that is kept, as most changes of TrainJobs and JobSets do.
        """
        kind = kept_as(obj)
        if self._knows(kind, obj):
            return self
        successor = self._copy(kind)
        successor._take(kind, obj)  # noqa: SLF001  # one of us, not yet handed out
        return successor

    def without(self, kind: str, namespace: str, name: str) -> Snapshot:
        """This snapshot without an object; the namespace is "" for kinds that have none."""
        successor = self._copy(kind)
        successor._drop(kind, namespace, name)  # noqa: SLF001  # one of us, not yet handed out
        return successor

    def with_all(self, kind: str, objects: Iterable[dict[str, Any]]) -> Snapshot:
        """This snapshot with exactly these objects of a kind; none is also an answer."""
        successor = self._copy(kind)
        successor._take_all(kind, objects)  # noqa: SLF001  # one of us, not yet handed out
        return successor

    def with_documents(self, documents: Documents) -> Snapshot:
        """This snapshot with exactly these policies, exceptions and params: the mapping itself, not a copy."""
        successor = self._copy("")
        successor.documents = documents
        return successor

    def serving(self, served: frozenset[str]) -> Snapshot:
        """This snapshot in a cluster with these CustomResourceDefinitions."""
        successor = self._copy("")
        successor.served = served
        return successor

    def runtime(self, kind: str, namespace: str, name: str, line: Line) -> CompiledRuntime | None:
        """The runtime of that kind and name, compiled for a line; None where there is none."""
        data = self._runtimes.get(_key(kind, namespace, name))
        if data is None:
            return None
        compiled = self._compiled.get((data, line.name))
        if compiled is not None:
            return compiled
        raw = orjson.loads(data)
        if self._admit:
            raw = self._admitted(kind, data, raw, line)
            if raw is None:
                return None
        compiled = CompiledRuntime(raw, line)
        if len(self._compiled) >= MOST_COMPILED:
            del self._compiled[next(iter(self._compiled))]
        self._compiled[data, line.name] = compiled
        return compiled

    def _admitted(
        self, kind: str, data: bytes, raw: dict[str, Any], line: Line
    ) -> dict[str, Any] | None:
        """The runtime as the API server would have stored it; None, with the reasons kept, if it would not."""
        admitted = schema.load(line.name).admit(kind, raw)
        if admitted.errors:
            self._refused[data, line.name] = admitted.errors
            return None
        return admitted.obj

    def why_refused(self, kind: str, namespace: str, name: str, line: Line) -> list[FieldError]:
        """Why a runtime that is there cannot be used; empty where it can, or is not there."""
        data = self._runtimes.get(_key(kind, namespace, name), b"")
        return self._refused.get((data, line.name), [])

    def runtime_names(self, kind: str, namespace: str) -> list[str]:
        """Names of the runtimes of a kind that a TrainJob in that namespace could use, sorted."""
        scope = "" if kind == names.CLUSTER_TRAINING_RUNTIME else namespace
        return sorted(k[2] for k in self._runtimes if k[0] == kind and k[1] == scope)

    def has_train_job(self, namespace: str, name: str) -> bool:
        """Whether there is a TrainJob of that name, as far as TrainJobs are followed."""
        return self._usage.get((namespace, name)) is not None

    def users(self, kind: str, namespace: str, name: str, *, most: int) -> Users:
        """The unfinished TrainJobs that use a runtime, ``most`` of them by name."""
        return self._usage.users(_key(kind, namespace, name), most=most)

    def owner(self, kind: str, namespace: str, name: str) -> Owner | None:
        """Whose the JobSet or PodGroup (see ``GENERATED``) of that name is; None where there is none."""
        return self._generated[kind].get((namespace, name))

    def facts(self, namespace: str) -> ClusterFacts:
        """LimitRange defaults of the namespace and the overheads of all RuntimeClasses."""
        if namespace not in self._limit_ranges:
            namespace = ""  # all of these have the same facts
        kept = self._facts.get(namespace)
        if kept is not None:
            return kept
        ranges = list(self._limit_ranges.get(namespace, {}).values())
        data = orjson.dumps([ranges, self._overheads], option=orjson.OPT_SORT_KEYS)
        facts = ClusterFacts(
            limits=_limits(ranges),
            overheads=self._overheads,
            digest=hashlib.sha256(data).hexdigest(),
        )
        self._facts[namespace] = facts
        return facts

    def _knows(self, kind: str, obj: dict[str, Any]) -> bool:
        """Whether an object of a kind that changes without a change for us is here as it is now."""
        if kind == names.TRAIN_JOB:
            name = _name(obj)
            return self._usage.get(name) == use_of(TrainJob(obj), name[0])
        if kind in DOCUMENTS and is_document(obj):
            # Their status is ours, and changes more often than they do.
            return values.same(self.documents.get(document_key(obj)), keep(obj))
        return kind in GENERATED and self._generated[kind].get(_name(obj)) == _owner(obj)

    def _take_all(self, kind: str, objects: Iterable[dict[str, Any]]) -> None:
        if kind == names.TRAIN_JOB:
            named = ((_name(obj), obj) for obj in objects)
            self._usage = Usage((name, use_of(TrainJob(obj), name[0])) for name, obj in named)
        elif kind in GENERATED:
            kept = Shards((_name(obj), _owner(obj)) for obj in objects)
            self._generated = {**self._generated, kind: kept}
        elif kind in DOCUMENTS:
            self._take_documents(kind, objects)
        else:
            self._clear(kind)
            for obj in objects:
                self._take(kind, obj)

    def _take(self, kind: str, obj: dict[str, Any]) -> None:
        match kind:
            case names.TRAIN_JOB:
                name = _name(obj)
                self._usage = self._usage.having(name, use_of(TrainJob(obj), name[0]))
            case _ if kind in DOCUMENTS:
                self._take_documents(kind, (obj,), self.documents)
            case _ if kind in GENERATED:
                kept = self._generated[kind].having(_name(obj), _owner(obj))
                self._generated = {**self._generated, kind: kept}
            case names.CLUSTER_TRAINING_RUNTIME | names.TRAINING_RUNTIME:
                self._take_runtime(obj)
            case "LimitRange":
                self._take_limit_range(obj)
            case "RuntimeClass":
                self._take_runtime_class(obj)
            case "PriorityClass":
                self._take_priority_class(obj)
            case "Namespace":
                self._take_namespace(obj)
            case "CustomResourceDefinition":
                self._take_crd(obj)
            case _:
                pass

    def _drop(self, kind: str, namespace: str, name: str) -> None:
        match kind:
            case names.TRAIN_JOB:
                self._usage = self._usage.lacking((namespace, name))
            case _ if kind in DOCUMENTS:
                gone = (kind, namespace, name)
                self.documents = {k: v for k, v in self.documents.items() if k != gone}
            case _ if kind in GENERATED:
                kept = self._generated[kind].lacking((namespace, name))
                self._generated = {**self._generated, kind: kept}
            case names.CLUSTER_TRAINING_RUNTIME | names.TRAINING_RUNTIME:
                self._runtimes.pop(_key(kind, namespace, name), None)
            case "LimitRange":
                self._drop_limit_range(namespace, name)
            case "RuntimeClass":
                self.runtime_classes = (self.runtime_classes or frozenset()) - {name}
                self._overheads.pop(name, None)
            case "PriorityClass":
                self.priority_classes = (self.priority_classes or frozenset()) - {name}
            case "Namespace":
                self.namespaces.pop(name, None)
            case "CustomResourceDefinition" if name == TRAIN_JOB_CRD:
                self.crd_line = None
            case _:
                pass

    def _drop_limit_range(self, namespace: str, name: str) -> None:
        left = {k: v for k, v in self._limit_ranges.pop(namespace, {}).items() if k != name}
        if left:
            self._limit_ranges[namespace] = left
        self._facts.pop(namespace, None)

    def _clear(self, kind: str) -> None:
        match kind:
            case names.CLUSTER_TRAINING_RUNTIME | names.TRAINING_RUNTIME:
                self._runtimes = {k: v for k, v in self._runtimes.items() if k[0] != kind}
            case "LimitRange":
                self._limit_ranges = {}
                self._facts = {}
            case "RuntimeClass":
                self.runtime_classes = frozenset()
                self._overheads = {}
            case "PriorityClass":
                self.priority_classes = frozenset()
            case "Namespace":
                self.namespaces = {}
            case "CustomResourceDefinition":
                self.crd_line = None
            case _:
                pass

    def _copy(self, kind: str) -> Snapshot:
        """A successor in which whatever holds this kind may be changed; all else is shared."""
        successor = Snapshot(admit=self._admit)
        for slot in Snapshot.__slots__:
            setattr(successor, slot, getattr(self, slot))
        match kind:
            case names.CLUSTER_TRAINING_RUNTIME | names.TRAINING_RUNTIME:
                successor._runtimes = self._runtimes.copy()
            case "LimitRange":
                successor._limit_ranges = self._limit_ranges.copy()
                successor._facts = self._facts.copy()
            case "RuntimeClass":
                successor._overheads = self._overheads.copy()
                successor._facts = {}  # each of them holds all overheads
            case "Namespace":
                successor.namespaces = self.namespaces.copy()
            case _:
                pass
        return successor

    def _take_documents(
        self, kind: str, objects: Iterable[dict[str, Any]], others: Documents | None = None
    ) -> None:
        known = self.documents
        if others is None:
            others = {k: v for k, v in known.items() if k[0] != kind}
        kept = {document_key(obj): keep(obj) for obj in objects if is_document(obj)}
        for key, obj in kept.items():
            if values.same(known.get(key), obj):
                kept[key] = known[key]  # who has compiled it knows it by that
        documents = {**others, **kept}
        if len(documents) != len(known) or any(known.get(k) is not v for k, v in documents.items()):
            self.documents = documents

    def _take_runtime(self, obj: dict[str, Any]) -> None:
        kept = {**keep(obj), "apiVersion": names.API_VERSION, "spec": obj.get("spec")}
        metadata = kept["metadata"]
        namespace, name = values.text(metadata.get("namespace")), values.text(metadata.get("name"))
        self._runtimes[_key(kept["kind"], namespace, name)] = values.packed(kept)

    def _take_limit_range(self, obj: dict[str, Any]) -> None:
        kept = keep(obj)
        namespace = values.text(values.at(kept, "metadata", "namespace"))
        others = self._limit_ranges.get(namespace, {})
        # A file may hold objects without a name, which all count.
        name = values.text(values.at(kept, "metadata", "name")) or f"#{len(others)}"
        self._limit_ranges[namespace] = {**others, name: kept}
        self._facts.pop(namespace, None)

    def _take_runtime_class(self, obj: dict[str, Any]) -> None:
        name = values.text(values.at(obj, "metadata", "name"))
        self.runtime_classes = (self.runtime_classes or frozenset()) | {name}
        self._overheads.pop(name, None)
        overhead = values.at_obj(obj, "overhead", "podFixed")
        if overhead:
            self._overheads[name] = overhead

    def _take_priority_class(self, obj: dict[str, Any]) -> None:
        name = values.text(values.at(obj, "metadata", "name"))
        self.priority_classes = (self.priority_classes or frozenset()) | {name}

    def _take_namespace(self, obj: dict[str, Any]) -> None:
        self.namespaces[values.text(values.at(obj, "metadata", "name"))] = values.obj(
            obj.get("metadata")
        )

    def _take_crd(self, obj: dict[str, Any]) -> None:
        if values.at(obj, "spec", "names", "kind") == names.TRAIN_JOB:
            self.crd_line = lines.of_crd(obj)


def is_document(obj: dict[str, Any]) -> bool:
    """Whether an object is a policy, an exception, or a ConfigMap that is labelled to be a policy's params."""
    kind = obj.get("kind")
    if kind == names.CONFIG_MAP:
        return names.PARAMS_LABEL in values.at_obj(obj, "metadata", "labels")
    group, _, _ = values.text(obj.get("apiVersion")).partition("/")
    return kind in names.POLICY_DOCUMENTS and group == names.POLICY_GROUP


def is_meant_as_document(obj: dict[str, Any]) -> bool:
    """Whether an object should be a policy or an exception, by its group or by a kind that only we have.

    One whose kind or group is misspelt is no document, and is in force nowhere.
    """
    kind = values.text(obj.get("kind"))
    group, _, _ = values.text(obj.get("apiVersion")).partition("/")
    if group == names.POLICY_GROUP:
        return kind != names.POLICY_TEST
    return kind in {names.POLICY, names.NAMESPACED_POLICY}


def document_key(obj: dict[str, Any]) -> tuple[str, str, str]:
    """What a document is known by; a file may leave out the namespace, and means ``default``."""
    kind = values.text(obj.get("kind"))
    namespace, name = _name(obj)
    return kind, "" if kind == names.POLICY else namespace, name


def kept_as(obj: dict[str, Any]) -> str:
    """What an object is kept as: its kind, and for a PodGroup its group too, since two schedulers have such a kind."""
    kind = values.text(obj.get("kind"))
    if kind != names.POD_GROUP:
        return kind
    return f"{kind}.{values.text(obj.get('apiVersion')).partition('/')[0]}"


def _name(obj: dict[str, Any]) -> Name:
    """Namespace and name; a file may leave out the namespace, and means ``default``."""
    metadata = values.obj(obj.get("metadata"))
    namespace = values.text(metadata.get("namespace")) or names.DEFAULT_NAMESPACE
    return sys.intern(namespace), values.text(metadata.get("name"))


def _owner(obj: dict[str, Any]) -> Owner:
    """Whether it is the TrainJob's of its name, this one or one before it."""
    name = values.at(obj, "metadata", "name")
    for owner in values.objects(values.at(obj, "metadata", "ownerReferences")):
        if owner.get("controller") is True:
            theirs = owner.get("kind") == names.TRAIN_JOB and owner.get("name") == name
            return "TrainJob" if theirs else "other"
    return "other"


def keep(obj: dict[str, Any]) -> dict[str, Any]:
    """What is read of an object: neither status nor managed fields, nor what kubectl applied last.

    Those are most of an object in a cluster.
    """
    metadata = values.obj(obj.get("metadata"))
    kind = values.text(obj.get("kind"))
    out: dict[str, Any] = {
        "apiVersion": obj.get("apiVersion"),
        "kind": kind,
        "metadata": {k: metadata[k] for k in _KEPT_METADATA.get(kind, _NAMES) if k in metadata},
    }
    out.update({k: obj[k] for k in _KEPT_FIELDS.get(kind, ()) if k in obj})
    annotations = metadata.get("annotations")
    if kind == names.TRAIN_JOB:
        spec, status = values.obj(obj.get("spec")), values.obj(obj.get("status"))
        out["spec"] = {k: spec[k] for k in ("runtimeRef", "suspend") if k in spec}
        out["status"] = {k: status[k] for k in ("conditions",) if k in status}
    if kind == "Namespace" and type(annotations) is dict:
        kept = {k: v for k, v in annotations.items() if k != LAST_APPLIED}
        out["metadata"]["annotations"] = kept
    return out


_NAMES: Final = ("name", "namespace")
_LABELLED: Final = (*_NAMES, "labels")
_DATED: Final = (*_NAMES, "uid", "generation", "creationTimestamp")
_OWNED: Final = (*_NAMES, "ownerReferences")
_KEPT_METADATA: Final = {
    names.CLUSTER_TRAINING_RUNTIME: _LABELLED,
    names.TRAINING_RUNTIME: _LABELLED,
    "Namespace": _LABELLED,
    names.CONFIG_MAP: _LABELLED,
    **dict.fromkeys(names.POLICY_DOCUMENTS, _DATED),
    names.TRAIN_JOB: (*_NAMES, "uid", "resourceVersion"),  # an Event about it names both
    names.JOB_SET: _OWNED,
    names.POD_GROUP: _OWNED,
}
_KEPT_FIELDS: Final = {
    names.CLUSTER_TRAINING_RUNTIME: ("spec",),
    names.TRAINING_RUNTIME: ("spec",),
    "LimitRange": ("spec",),
    "RuntimeClass": ("overhead",),
    "CustomResourceDefinition": ("spec",),
    names.CONFIG_MAP: ("data",),  # of ours, and of what policies take for params
    **dict.fromkeys(names.POLICY_DOCUMENTS, ("spec",)),
}


def _key(kind: str, namespace: str, name: str) -> RuntimeKey:
    return (kind, "" if kind == names.CLUSTER_TRAINING_RUNTIME else namespace, name)


def _limits(ranges: list[dict[str, Any]]) -> LimitDefaults | None:
    """The defaults of a namespace; a LimitRange with an amount that cannot be read counts as none.

    The API server stores no such object, so it can only come from a file.
    """
    try:
        return compile_limit_ranges(ranges) if ranges else None
    except QuantityError:
        return None
