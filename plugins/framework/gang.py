"""The arithmetic of the Trainer's two PodGroup plugins, faults included (semantics 5.1).

It predicts the PodGroup that the controller makes. What the gang really needs is the business of
PodGroupTotals, which disagrees on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from plugins.framework import quantity, values
from plugins.framework.api import names
from plugins.framework.resources import template_requests

if TYPE_CHECKING:
    from collections.abc import Iterable

    from plugins.framework.info import Info, PodSet
    from plugins.framework.quantity import Quantity
    from plugins.framework.runtime import Job


class Gang(NamedTuple):
    """minMember and minResources as the controller writes them."""

    members: int
    resources: dict[str, str]


def controller_gang(info: Info) -> Gang:
    """Members and resources over all pod sets, initializers included, replicas ignored."""
    members = 0
    total: dict[str, Quantity] = {}
    for pod_set in info.pod_sets:
        members += pod_set.count
        for name, amount in _one_pod(info, pod_set).items():
            more = quantity.mul(amount, pod_set.count)
            kept = total.get(name)
            total[name] = more if kept is None else quantity.add(kept, more)
    return Gang(
        members, {name: quantity.canonical(amount) for name, amount in sorted(total.items())}
    )


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


def warn_about_gang(jobs: Iterable[Job]) -> list[str]:
    """What a gang of these jobs will run into (G23)."""
    jobs = list(jobs)
    out: list[str] = []
    waiting = [job.name for job in jobs if job.depends_on]
    if waiting:
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
