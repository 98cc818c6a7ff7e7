"""Gangs: as the Trainer's two PodGroup plugins count them, faults included, and as they can be scheduled.

``controller_gang`` predicts the PodGroup that the controller makes (semantics 5.1). ``first_gang`` is what it
should ask for: the pods that exist first, and no other (resource-totals 6.6 and 6.7). A scheduler holds a gang
until all its members exist; a pod that is made only once others run or have ended cannot be one of them. The
most that runs at one time, which PodGroupTotals writes down, is yet another number, and no gang's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugins.framework import quantity, values
from plugins.framework.api import names
from plugins.framework.errors import BuildError
from plugins.framework.resources import template_requests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from plugins.framework.info import Info, PodSet
    from plugins.framework.quantity import Quantity
    from plugins.framework.registry import Handle
    from plugins.framework.runtime import Job


CORRECTION: Final = "PodGroupCorrection"
"""The plugin with which a PodGroup does not stay as the controller makes it."""
CORRECTION_POINT: Final = "correctPodGroup"


class Gang(NamedTuple):
    """minMember and minResources, in the form in which they are written."""

    members: int
    resources: dict[str, str]


def controller_gang(info: Info) -> Gang:
    """Members and resources over all pod sets, initializers included, replicas ignored.

    Raises BuildError where an amount cannot be read.
    """
    members = 0
    total: dict[str, Quantity] = {}
    try:
        for pod_set in info.pod_sets:
            members += pod_set.count
            _add(total, _one_pod(info, pod_set), pod_set.count)
    except quantity.QuantityError as error:
        raise BuildError(f"the runtime asks for an amount that cannot be read: {error}") from error
    return Gang(members, _texts(total))


def first_gang(info: Info) -> Gang:
    """The pods of the jobs that wait for no other, and what these ask for together.

    Raises QuantityError where an amount cannot be read, or is more than a 64-bit number holds.
    """
    total: dict[str, Quantity] = {}
    first = _first(info)
    for pod_set in first:
        _add(total, pod_set.requests, pod_set.pods)
    for name, amount in total.items():
        if not quantity.fits_int64(name, amount):
            text = quantity.canonical(amount)
            raise quantity.QuantityError(text, f"{name} is more than a 64-bit number holds")
    return Gang(sum(pod_set.pods for pod_set in first), _texts(total))


def _first(info: Info) -> list[PodSet]:
    """The pod sets whose pods are made at once.

    ``dependsOn`` holds a job back, with ``Ready`` as with ``Complete``. With ``startupPolicyOrder: InOrder``,
    which excludes ``dependsOn``, JobSet makes a job when the one before it is ready.
    """
    sets = [p for p in info.pod_sets if p.pods and not p.base.depends_on]
    order = values.at(info.template, "startupPolicy", "startupPolicyOrder")
    return sets[:1] if order == "InOrder" else sets


def _add(total: dict[str, Quantity], requests: Mapping[str, Quantity], pods: int) -> None:
    for name, amount in requests.items():
        more = quantity.mul(amount, pods)
        kept = total.get(name)
        total[name] = more if kept is None else quantity.add(kept, more)


def _texts(total: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: quantity.canonical(amount) for name, amount in sorted(total.items())}


def _one_pod(info: Info, pod_set: PodSet) -> dict[str, Quantity]:
    resources = _seen_resources(info, pod_set)
    pod = pod_set.base.pod
    if resources is not None:
        pod = {
            **pod,
            "containers": [
                {**c, "resources": resources} if c.get("name") == names.NODE else c
                for c in pod_set.base.containers
            ],
        }
    if info.line.name == "2.0":
        pod = _without_hugepages(pod)
    return dict(template_requests(pod))


def _without_hugepages(pod: dict[str, Any]) -> dict[str, Any]:
    """The libraries of 2.0 know cpu and memory at pod level only."""
    requests = values.at_obj(pod, "resources", "requests")
    if not any(name.startswith("hugepages-") for name in requests):
        return pod
    kept = {name: v for name, v in requests.items() if not name.startswith("hugepages-")}
    return {**pod, "resources": {**pod["resources"], "requests": kept}}


def _seen_resources(info: Info, pod_set: PodSet) -> dict[str, Any] | None:
    """The resources of container ``node`` that the sum is made from; None for the template's own.

    2.3 counts what the container gets; 2.2 the TrainJob's alone, even where they are empty and the container
    keeps its own; before, the template's.
    """
    if info.line.merges_resources:
        return pod_set.node_resources
    trains = pod_set.ancestor == names.TRAINER and info.runtime.ml_policy is not None
    return info.job.resources_per_node if info.line.counts_merged_requests and trains else None


def is_corrected(handle: Handle) -> bool:
    """Whether the PodGroup will be corrected where it is made."""
    return CORRECTION in handle.at(CORRECTION_POINT)


def warn_about_job(info: Info, *, corrected: bool) -> list[str]:
    """What the gang of a TrainJob will run into (G23)."""
    out = warn_about_gang((p.base for p in info.pod_sets), corrected=corrected)
    return [*out, *warn_about_first(info)] if corrected else out


def warn_about_first(info: Info) -> list[str]:
    """Where the gang is smaller than the trainer's job, that one is not scheduled all or nothing."""
    trainer, first = info.trainer, _first(info)
    members = sum(pod_set.pods for pod_set in first)
    if trainer is None or members >= trainer.pods:
        return []
    made = ", ".join(pod_set.name for pod_set in first) or "no job"
    text = (
        f"the gang is {members} of {made}, since these pods exist first: the {trainer.pods} pods of job "
        f"{trainer.name} come later, and are not scheduled all or nothing"
    )
    return [text]


def warn_about_gang(jobs: Iterable[Job], *, corrected: bool) -> list[str]:
    """What a gang of these jobs will run into, whoever counts it (G23)."""
    jobs = list(jobs)
    out: list[str] = []
    waiting = [job.name for job in jobs if job.depends_on]
    if waiting and not corrected:
        out.append(
            f"the PodGroup counts every job, but {', '.join(waiting)} waits for others by dependsOn: the gang is "
            "never complete and no pod starts"
        )
    unscheduled = [job.name for job in jobs if not values.text(job.pod.get("schedulerName"))]
    if unscheduled:
        out.append(
            f"job {', '.join(unscheduled)} names no schedulerName: the default scheduler ignores the PodGroup"
        )
    return out


def policies(policy: dict[str, Any]) -> list[str]:
    """The gang policies that a runtime sets."""
    return [name for name in ("coscheduling", "volcano") if policy.get(name) is not None]
