"""What each CEL variable looks like, so that a misspelt field is found when a policy is read.

``object`` and ``oldObject`` are TrainJobs of any of the lines that Stationmaster serves: a field that one line has is
known, and one whose type differs between lines is left open. Pods are those of the runtimes' schema, which has all
that a pod template has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

from plugins.framework import schema
from plugins.framework.schema.node import Node

Kind = Literal["object", "map", "list", "string", "int", "bool", "double", "dyn"]

NAMES: Final = (
    "object",
    "oldObject",
    "request",
    "namespaceObject",
    "params",
    "variables",
    "runtime",
    "podSets",
    "totals",
    "provenance",
)
"""All variables, in the order in which messages list them."""
VARIABLES: Final = "variables"


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A type. ``fields`` of an object with known fields; ``items`` of a list, or of the values of a map."""

    kind: Kind
    fields: Mapping[str, Shape] = field(default_factory=dict)
    items: Shape | None = None


_DYN: Final = Shape("dyn")
_STRING: Final = Shape("string")
_INT: Final = Shape("int")
_BOOL: Final = Shape("bool")
_STRINGS: Final = Shape("list", items=_STRING)
_TEXTS: Final = Shape("map", items=_STRING)
_OPEN: Final = Shape("map", items=_DYN)
_KINDS: Final[Mapping[str, Kind]] = {"s": "string", "i": "int", "b": "bool", "x": "dyn"}

# k8s.io/apimachinery/pkg/apis/meta/v1, ObjectMeta; times are texts in JSON.
_OWNER: Final = Shape(
    "object",
    {
        "apiVersion": _STRING,
        "kind": _STRING,
        "name": _STRING,
        "uid": _STRING,
        "controller": _BOOL,
        "blockOwnerDeletion": _BOOL,
    },
)
_METADATA: Final = Shape(
    "object",
    {
        "name": _STRING,
        "generateName": _STRING,
        "namespace": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
        "resourceVersion": _STRING,
        "generation": _INT,
        "creationTimestamp": _STRING,
        "deletionTimestamp": _STRING,
        "deletionGracePeriodSeconds": _INT,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "ownerReferences": Shape("list", items=_OWNER),
        "finalizers": _STRINGS,
        "managedFields": Shape("list", items=_DYN),
    },
)
_GROUP_KIND: Final = Shape("object", {"group": _STRING, "version": _STRING, "kind": _STRING})
_GROUP_RESOURCE: Final = Shape(
    "object", {"group": _STRING, "version": _STRING, "resource": _STRING}
)
# k8s.io/api/admission/v1, AdmissionRequest; without the objects, as for ValidatingAdmissionPolicy.
_REQUEST: Final = Shape(
    "object",
    {
        "uid": _STRING,
        "kind": _GROUP_KIND,
        "resource": _GROUP_RESOURCE,
        "subResource": _STRING,
        "requestKind": _GROUP_KIND,
        "requestResource": _GROUP_RESOURCE,
        "requestSubResource": _STRING,
        "name": _STRING,
        "namespace": _STRING,
        "operation": _STRING,
        "userInfo": Shape(
            "object",
            {
                "username": _STRING,
                "uid": _STRING,
                "groups": _STRINGS,
                "extra": Shape("map", items=_STRINGS),
            },
        ),
        "dryRun": _BOOL,
        "options": _DYN,
    },
)
_NAMESPACE: Final = Shape(
    "object",
    {
        "apiVersion": _STRING,
        "kind": _STRING,
        "metadata": _METADATA,
        "spec": Shape("object", {"finalizers": _STRINGS}),
        "status": Shape("object", {"phase": _STRING, "conditions": Shape("list", items=_DYN)}),
    },
)
_POD_TEMPLATE: Final = (
    "spec",
    "template",
    "spec",
    "replicatedJobs",
    "",
    "template",
    "spec",
    "template",
)
"""From the root of a runtime to its pod template; "" is the items of a list."""


@lru_cache(maxsize=1)
def variables() -> Mapping[str, Shape]:
    """The shape of each variable but ``variables``, whose names are a policy's own."""
    job = _merged("TrainJob")
    runtime = _merged("ClusterTrainingRuntime")
    template = runtime
    for step in _POD_TEMPLATE:
        template = (template.items if step == "" else template.fields.get(step)) or _DYN
    pod_set = Shape(
        "object",
        {
            "name": _STRING,
            "ancestor": _STRING,
            "count": _INT,
            "metadata": _METADATA,
            "spec": template.fields.get("spec", _DYN),
            "requests": _OPEN,
        },
    )
    return {
        "object": job,
        "oldObject": job,
        "request": _REQUEST,
        "namespaceObject": _NAMESPACE,
        "params": _DYN,
        "runtime": runtime,
        "podSets": Shape("list", items=pod_set),
        "totals": Shape("object", {"nodes": _INT, "pods": _INT, "requests": _OPEN}),
        "provenance": _TEXTS,
    }


def _merged(kind: str) -> Shape:
    """One kind over all lines: the newest first, so that fields come in its order."""
    roots = [schema.load(line).root(kind) for line in reversed(schema.LINES)]
    merged = _merge(roots, {})
    return Shape(
        "object",
        {"apiVersion": _STRING, "kind": _STRING, **merged.fields, "metadata": _METADATA},
    )


def _merge(nodes: list[Node], known: dict[tuple[int, ...], Shape]) -> Shape:
    key = tuple(sorted({id(node) for node in nodes}))
    if key not in known:
        known[key] = _merge_new(nodes, known)
    return known[key]


def _merge_new(nodes: list[Node], known: dict[tuple[int, ...], Shape]) -> Shape:
    kinds = {node.kind for node in nodes}
    if len(kinds) > 1:
        return _DYN
    match nodes[0].kind:
        case "a":
            items = [node.items for node in nodes if node.items is not None]
            return Shape("list", items=_merge(items, known) if items else _DYN)
        case "o":
            return _merge_objects(nodes, known)
        case other:
            return Shape(_KINDS[other])


def _merge_objects(nodes: list[Node], known: dict[tuple[int, ...], Shape]) -> Shape:
    if any(node.properties for node in nodes):
        names = dict.fromkeys(name for node in nodes for name in node.properties)
        return Shape(
            "object",
            {
                name: _merge([n.properties[name] for n in nodes if name in n.properties], known)
                for name in names
            },
        )
    values = [node.values for node in nodes if node.values is not None]
    return Shape("map", items=_merge(values, known) if values else _DYN)
