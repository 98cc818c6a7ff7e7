"""What a request may know of the cluster: an immutable snapshot of a few kinds, indexed for reading.

A folder of YAML and the caches of a real cluster both end here, so an answer never depends on which it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from plugins.framework import lines, schema, values
from plugins.framework.api import names
from plugins.framework.quantity import QuantityError
from plugins.framework.resources import LimitDefaults, compile_limit_ranges
from plugins.framework.runtime import ClusterFacts, CompiledRuntime

if TYPE_CHECKING:
    from plugins.framework.field import FieldError
    from plugins.framework.lines import Line

RuntimeKey = tuple[str, str, str]
"""Kind, namespace ("" for a ClusterTrainingRuntime), name."""

MOST_COMPILED: Final = 512
"""Compiled runtimes kept at a time. A compiled runtime takes some 40 KiB, so at most some 20 MiB; the rest
stay as bytes, which is an eighth of that, and are compiled again (about a millisecond) when asked for."""


class Snapshot:
    """Runtimes, LimitRanges, RuntimeClasses and PriorityClasses at one moment.

    Never changed after it was made: a reader holds one for a whole request, a writer makes the next.
    """

    __slots__ = (
        "_admit",
        "_compiled",
        "_facts",
        "_limit_ranges",
        "_overheads",
        "_runtimes",
        "crd_line",
        "namespaces",
        "priority_classes",
        "refused",
        "runtime_classes",
    )

    def __init__(self, *, admit: bool = False) -> None:
        """Make an empty snapshot; with ``admit``, runtimes meet the API server's rules before they count."""
        self._admit = admit
        self.refused: dict[tuple[RuntimeKey, str], list[FieldError]] = {}
        """Runtimes that the API server would not have stored, with its reasons, per line."""
        self._runtimes: dict[RuntimeKey, bytes] = {}
        self._compiled: dict[tuple[RuntimeKey, str], CompiledRuntime] = {}
        self._limit_ranges: dict[str, list[dict[str, Any]]] = {}
        self._overheads: dict[str, Mapping[str, Any]] = {}
        self._facts: dict[str, ClusterFacts] = {}
        self.runtime_classes: frozenset[str] | None = None
        """Names of the RuntimeClasses; None where none were given, so that absence proves nothing."""
        self.priority_classes: frozenset[str] | None = None
        self.namespaces: dict[str, dict[str, Any]] = {}
        self.crd_line: Line | None = None
        """The Trainer line that the TrainJob CRD among the objects shows."""

    @classmethod
    def of(cls, objects: Iterable[dict[str, Any]], *, admit: bool = False) -> Snapshot:
        """Index raw objects; kinds that nobody here reads are passed over.

        ``admit`` is for objects from files, which no API server has defaulted, pruned and checked.
        """
        snapshot = cls(admit=admit)
        for obj in objects:
            snapshot._take(values.text(obj.get("kind")), obj)
        return snapshot

    def runtime(self, kind: str, namespace: str, name: str, line: Line) -> CompiledRuntime | None:
        """The runtime of that kind and name, compiled for a line; None where there is none."""
        key = (kind, "" if kind == names.CLUSTER_TRAINING_RUNTIME else namespace, name)
        compiled = self._compiled.get((key, line.name))
        if compiled is not None:
            return compiled
        data = self._runtimes.get(key)
        if data is None:
            return None
        raw = orjson.loads(data)
        if self._admit:
            raw = self._admitted(key, raw, line)
            if raw is None:
                return None
        compiled = CompiledRuntime(raw, line)
        if len(self._compiled) >= MOST_COMPILED:
            del self._compiled[next(iter(self._compiled))]
        self._compiled[key, line.name] = compiled
        return compiled

    def _admitted(self, key: RuntimeKey, raw: dict[str, Any], line: Line) -> dict[str, Any] | None:
        """The runtime as the API server would have stored it; None, with the reasons kept, if it would not."""
        admitted = schema.load(line.name).admit(key[0], raw)
        if admitted.errors:
            self.refused[key, line.name] = admitted.errors
            return None
        return admitted.obj

    def why_refused(self, kind: str, namespace: str, name: str, line: Line) -> list[FieldError]:
        """Why a runtime that is there cannot be used; empty where it can, or is not there."""
        key = (kind, "" if kind == names.CLUSTER_TRAINING_RUNTIME else namespace, name)
        return self.refused.get((key, line.name), [])

    def runtime_names(self, kind: str, namespace: str) -> list[str]:
        """Names of the runtimes of a kind that a TrainJob in that namespace could use, sorted."""
        scope = "" if kind == names.CLUSTER_TRAINING_RUNTIME else namespace
        return sorted(k[2] for k in self._runtimes if k[0] == kind and k[1] == scope)

    @property
    def runtime_count(self) -> int:
        """How many runtimes there are, of both kinds."""
        return len(self._runtimes)

    def facts(self, namespace: str) -> ClusterFacts:
        """LimitRange defaults of the namespace and the overheads of all RuntimeClasses."""
        kept = self._facts.get(namespace)
        if kept is not None:
            return kept
        ranges = self._limit_ranges.get(namespace, [])
        data = orjson.dumps([ranges, self._overheads], option=orjson.OPT_SORT_KEYS)
        facts = ClusterFacts(
            limits=_limits(ranges),
            overheads=self._overheads,
            digest=hashlib.sha256(data).hexdigest(),
        )
        if namespace in self._limit_ranges or namespace in self.namespaces:
            self._facts[namespace] = (
                facts  # bounded by what the cluster holds, not by what users name
            )
        return facts

    def _take(self, kind: str, obj: dict[str, Any]) -> None:
        match kind:
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

    def _take_runtime(self, obj: dict[str, Any]) -> None:
        metadata = values.obj(obj.get("metadata"))
        kind = values.text(obj.get("kind"))
        scope = (
            "" if kind == names.CLUSTER_TRAINING_RUNTIME else values.text(metadata.get("namespace"))
        )
        kept = {
            "apiVersion": names.API_VERSION,
            "kind": kind,
            "metadata": {k: metadata[k] for k in ("name", "namespace", "labels") if k in metadata},
            "spec": obj.get("spec"),
        }
        self._runtimes[kind, scope, values.text(metadata.get("name"))] = orjson.dumps(kept)

    def _take_limit_range(self, obj: dict[str, Any]) -> None:
        namespace = values.text(values.at(obj, "metadata", "namespace"))
        self._limit_ranges.setdefault(namespace, []).append(obj)

    def _take_runtime_class(self, obj: dict[str, Any]) -> None:
        name = values.text(values.at(obj, "metadata", "name"))
        self.runtime_classes = (self.runtime_classes or frozenset()) | {name}
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


def _limits(ranges: list[dict[str, Any]]) -> LimitDefaults | None:
    """The defaults of a namespace; a LimitRange with an amount that cannot be read counts as none.

    The API server stores no such object, so it can only come from a file.
    """
    try:
        return compile_limit_ranges(ranges) if ranges else None
    except QuantityError:
        return None
