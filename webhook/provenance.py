"""Which layer each value of the resolved pods comes from: the same functions run, compared after each layer.

There is no second merge: the resolver and the plugins are watched while they work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from plugins.framework import values
from plugins.framework.info import RUNTIME_LAYER, Info

_Source = tuple[str, str]
_KEYS: Final = ("mountPath", "containerPort", "name", "path", "key")
"""Fields by which the items of a list are told apart, the first that an item has: a volume may be mounted twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One value in a pod, and where it comes from."""

    path: str
    """Such as ``node.spec.containers[node].env[PET_NNODES].value``; the first part is the pod set."""
    value: Any
    layer: str
    """``runtime``, ``override``, ``TrainJob`` or ``plugin``: what kind of thing decided."""
    by: str
    """Which one: the runtime's name, the override's manager, the field, the plugin."""


def layers_of(info: Info) -> list[Layer]:
    """Every leaf of every pod, in the order of the pods. ``info`` must have been resolved with ``trace``."""
    known: dict[str, tuple[Any, _Source]] = {}
    runtime = ("runtime", f"{info.runtime.kind}/{info.runtime.name}")
    for i, (label, jobs) in enumerate(info.layers):
        source = ("override", label) if i else runtime
        _take(known, source, {job.name: job.raw for job in jobs})

    def observe(label: str) -> None:
        if label != RUNTIME_LAYER:
            kind = "TrainJob" if label.startswith("spec.") else "plugin"
            _take(known, (kind, label), {p.name: p.template for p in info.pod_sets})

    info.settle(observe)
    final = dict(_leaves_of({p.name: p.template for p in info.pod_sets}))
    return [
        Layer(path=path, value=value, layer=known[path][1][0], by=known[path][1][1])
        for path, value in final.items()
    ]


def _take(
    known: dict[str, tuple[Any, _Source]], source: _Source, jobs: dict[str, dict[str, Any]]
) -> None:
    for path, value in _leaves_of(jobs):
        before = known.get(path)
        if before is None or not values.same(before[0], value):
            known[path] = (value, source)


def _leaves_of(jobs: dict[str, dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    for name, raw in jobs.items():
        spec = values.at_obj(raw, "template", "spec")
        for key in ("replicas",):
            if key in raw:
                yield f"{name}.{key}", raw[key]
        for key in ("parallelism", "completions"):
            if key in spec:
                yield f"{name}.{key}", spec[key]
        yield from _leaves(f"{name}.job.metadata", values.at(raw, "template", "metadata"))
        pod = values.obj(spec.get("template"))
        yield from _leaves(f"{name}.metadata", pod.get("metadata"))
        yield from _leaves(f"{name}.spec", pod.get("spec"))


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if type(value) is dict and value:
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}", item)
    elif type(value) is list and value and type(value[0]) is dict:
        labels = [_label(item, i) for i, item in enumerate(value)]
        if len(set(labels)) < len(labels):
            labels = [str(i) for i in range(len(value))]
        for label, item in zip(labels, value, strict=True):
            yield from _leaves(f"{path}[{label}]", item)
    elif value is not None and value != {}:
        yield path, value


def _label(item: Any, i: int) -> str:
    for key in _KEYS:
        if type(item) is dict and key in item:
            return str(item[key])
    return str(i)
