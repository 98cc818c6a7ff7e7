"""What a resolved job is counted as: nodes, pods, requests, images. The same numbers for limits and expressions.

Pods and requests are those that can be there at one time, as in the annotation ``stationmaster.dev/podgroup-totals``: a
trainer that starts when its initializers are done is not added to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from plugins.framework import totals, values
from plugins.framework.api import names
from plugins.framework.quantity import DECIMAL_SI, Quantity, QuantityError, add

if TYPE_CHECKING:
    from plugins.framework.info import Info, PodSet

_MPI: Final = "mpi"
_NOTE: Final = "images"

Role = Literal["container", "init container", "volume"]


class Used(NamedTuple):
    """One image of a job, and what it is for."""

    pod_set: str
    role: Role
    name: str
    """Of the container or volume."""
    reference: str
    """As the pod has it."""


def node_sets(info: Info) -> list[PodSet]:
    """The pod sets that ``numNodes`` counts: the trainer's; with MPI job ``node``, and its launcher if that is a node too."""
    runtime = info.runtime
    if runtime.policy != _MPI:
        return [p for p in info.pod_sets if p.ancestor == names.TRAINER]
    counted = {names.NODE, *((names.LAUNCHER,) if runtime.runs_launcher_as_node else ())}
    return [p for p in info.pod_sets if p.name in counted]


def nodes(info: Info) -> int:
    """Pods that train."""
    return sum(p.pods for p in node_sets(info))


def pods(info: Info) -> int:
    """The most pods of all pod sets that can exist at one time."""
    try:
        return totals.of(info).members
    except QuantityError:  # of the requests, which do not matter here
        parts = [
            totals.Part(name=p.name, count=p.pods, requests={}, depends_on=p.base.depends_on)
            for p in info.pod_sets
        ]
        return totals.totals(parts).members


def requests(info: Info) -> Mapping[str, Quantity]:
    """Per resource, the most that all pods can ask for at one time. Raises QuantityError."""
    return totals.of(info).resources


def total(info: Info, matches: Callable[[str], bool]) -> Quantity:
    """The most of some resources together that all pods can ask for at one time. Raises QuantityError."""
    parts = [
        totals.Part(
            name=p.name,
            count=p.pods,
            requests={"": one_pod(p, matches)},
            depends_on=p.base.depends_on,
        )
        for p in info.pod_sets
    ]
    return totals.totals(parts).resources.get("", Quantity(0, DECIMAL_SI))


def one_pod(pod_set: PodSet, matches: Callable[[str], bool]) -> Quantity:
    """What one pod of a set asks for of some resources together. Raises QuantityError."""
    amount = Quantity(0, DECIMAL_SI)
    for name, more in pod_set.requests.items():
        if matches(name):
            amount = add(amount, more)
    return amount


def images(info: Info) -> tuple[Used, ...]:
    """Every image that a pod of the job pulls: containers, init containers, also those of plugins, and volumes.

    A volume with an image brings files that a container can run. What names no image is left out: no pod is made of it.
    """
    kept: tuple[Used, ...] | None = info.notes.get(_NOTE)
    if kept is None:
        kept = info.notes[_NOTE] = tuple(dict.fromkeys(_images(info)))
    return kept


def _images(info: Info) -> Iterator[Used]:
    """From what is known before pods are built: most of the cost of a pod is its environment."""
    for pod_set in info.pod_sets:
        job, own = pod_set.base, pod_set.node_image
        for container in job.containers:
            name = values.text(container.get("name"))
            replaced = own is not None and name == names.NODE
            image = own if replaced else container.get("image")
            yield from _used(pod_set.name, "container", name, image)
        for container in (*job.init_containers, *pod_set.extra_init):
            name = values.text(container.get("name"))
            yield from _used(pod_set.name, "init container", name, container.get("image"))
        for volume in values.objects(job.pod.get("volumes")):
            name = values.text(volume.get("name"))
            yield from _used(pod_set.name, "volume", name, values.at(volume, "image", "reference"))


def _used(pod_set: str, role: Role, name: str, image: Any) -> Iterator[Used]:
    if type(image) is str and image:
        yield Used(pod_set, role, name, image)
