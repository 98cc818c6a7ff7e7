"""Names that are derived from a TrainJob's: too long for what they name, or not DNS labels (10.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from plugins.framework import field, values
from plugins.framework.api import names
from plugins.framework.field import ErrorType, FieldError, Path
from plugins.jobset import coordinator

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.info import Info, PodSet
    from plugins.framework.lines import Line

LABEL_MOST: Final = 63
"""Characters of a DNS label."""
_POD_SUFFIX: Final = "-abcde"
"""Stands for the random suffix of a pod's name, as in JobSet's own check."""
_INT32_MOST: Final = 2**31 - 1
_NAME: Final = Path("metadata", "name")
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def own_name(line: Line, job: TrainJob) -> Iterator[FieldError]:
    """The TrainJob's own name must be an RFC 1035 label: a CEL rule since 2.1, the webhook's in 2.0."""
    del line
    name = job.metadata.get("name")
    if type(name) is not str or not name:
        return
    if not _LABEL.fullmatch(name):
        yield field.invalid(_NAME, name, "metadata.name must match RFC 1035 DNS label format")
    if len(name) > LABEL_MOST:
        yield field.invalid(_NAME, name, "metadata.name must be no more than 63 characters")


def too_long(info: Info) -> Iterator[FieldError]:
    """The longest of the derived names decides; one finding, for the tightest."""
    name = info.job.name
    if not name or len(name) > LABEL_MOST:
        return
    worst: tuple[int, str] | None = None
    for limit, what in _limits(info):
        if worst is None or limit < worst[0]:
            worst = (limit, what)
    if worst is not None and len(name) > worst[0]:
        yield FieldError(
            type=ErrorType.TOO_LONG,
            path=_NAME,
            value=name,
            detail=f"may not be more than {worst[0]} bytes with this runtime: {worst[1]} would exceed 63 characters",
        )
    for pod_set in info.pod_sets:
        pods = pod_set.replicas * pod_set.count
        if pods > _INT32_MOST:
            path = Path("spec", "trainer", "numNodes")
            detail = f"makes {pods} pods in job {pod_set.name}; JobSet takes at most {_INT32_MOST}"
            yield field.invalid(path, info.job.num_nodes, detail)


def _limits(info: Info) -> Iterator[tuple[int, str]]:
    """How long the TrainJob's name may be for each thing that is named after it."""
    for pod_set in info.pod_sets:
        what, tail = _longest_of(pod_set)
        yield LABEL_MOST - len(tail), what
    if info.runtime.policy == "flux" and info.by_name(names.NODE) is not None:
        yield LABEL_MOST - len(names.FLUX_SCRIPTS), "the volume of Flux's scripts"
    if info.runtime.coordinator and (most := coordinator.longest_name(info.runtime)) > 0:
        yield most, "the coordinator's address, a label's value,"
    for policy in values.objects(info.template.get("volumeClaimPolicies")):
        for template in values.objects(policy.get("templates")):
            claim = values.text(values.at(template, "metadata", "name"))
            yield LABEL_MOST - len(claim) - 1, f"the name of the volume claim {claim}"


def _longest_of(pod_set: PodSet) -> tuple[str, str]:
    """The longest name that a job brings, as far as JobSet looks: pods only where the Job is indexed.

    It takes the last indexes as they come out, ``-1`` of a job without pods too.
    """
    job = f"-{pod_set.name}-{pod_set.replicas - 1}"
    if not pod_set.base.is_indexed:
        return f"the Job names of job {pod_set.name}", job
    return f"the pod names of job {pod_set.name}", f"{job}-{pod_set.count - 1}{_POD_SUFFIX}"
