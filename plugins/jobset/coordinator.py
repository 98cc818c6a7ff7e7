"""The coordinator of a JobSet: a pod that must exist, with an address that is a label's value (10.2).

JobSet's webhook refuses anything else (``validateCoordinator``, ``validateCoordinatorLabelValue``); a JobSet from
before that rule makes Jobs that the API server refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import field, values
from plugins.framework.api import names
from plugins.framework.field import FieldError, Path

if TYPE_CHECKING:
    from plugins.framework.info import Info
    from plugins.framework.runtime import CompiledRuntime, Job

AT: Final = Path("spec", "template", "spec", "coordinator")
_LABEL_MOST: Final = 63


def problems(runtime: CompiledRuntime) -> Iterator[FieldError]:
    """What is refused of every TrainJob of this runtime; how many pods there are is the TrainJob's to say."""
    written = runtime.coordinator
    if not written:
        return
    name = values.text(written.get("replicatedJob"))
    job = runtime.job(name)
    if job is None:
        there = ", ".join(runtime.job_names) or "none"
        yield field.not_found(AT.child("replicatedJob"), name, f"jobs of the template: {there}")
        return
    replicas, index = _replicas(job), _index(written, "jobIndex")
    if not 0 <= index < replicas:
        detail = f"must be from 0 to {replicas - 1}: job {name} has {replicas} replica(s)"
        yield field.invalid(AT.child("jobIndex"), index, detail)
    yield from _pod_index(runtime, job, _index(written, "podIndex"))
    if not job.is_indexed:
        detail = f"the pods of job {name} have no index: its completionMode must be Indexed"
        yield field.invalid(AT.child("replicatedJob"), name, detail)
    if longest_name(runtime) < 1:
        detail = f"its address {_address(runtime, 'NAME')} exceeds the {_LABEL_MOST} characters of a label's value for any NAME"
        yield field.invalid(AT, written, detail)


def _pod_index(runtime: CompiledRuntime, job: Job, index: int) -> Iterator[FieldError]:
    at = AT.child("podIndex")
    pods = max(job.parallelism, 1)
    if index < 0:
        yield field.invalid(at, index, "must be at least 0")
    elif index >= pods and not _follows_num_nodes(runtime, job):
        yield field.invalid(
            at, index, f"must be from 0 to {pods - 1}: job {job.name} has {pods} pod(s)"
        )


def _follows_num_nodes(runtime: CompiledRuntime, job: Job) -> bool:
    return job.ancestor == names.TRAINER or (runtime.policy == "mpi" and job.name == names.NODE)


def without_pod(info: Info) -> Iterator[FieldError]:
    """A TrainJob that has fewer pods than the coordinator's index asks for."""
    written = info.runtime.coordinator
    pod_set = info.by_name(values.text(written.get("replicatedJob"))) if written else None
    if pod_set is None or not _follows_num_nodes(info.runtime, pod_set.base):
        return
    index = _index(written, "podIndex")
    if index >= pod_set.count > 0:  # fewer than 1 are refused already
        detail = (
            f"must be more than {index}: the runtime's coordinator is pod {index} of job {pod_set.name}, "
            f"which has {pod_set.count}"
        )
        yield field.invalid(Path("spec", "trainer", "numNodes"), info.job.num_nodes, detail)


def longest_name(runtime: CompiledRuntime) -> int:
    """How long a TrainJob's name may be: it stands in the address once, or twice where it is the subdomain too."""
    left = _LABEL_MOST - len(_address(runtime, ""))
    return left if runtime.subdomain else left // 2


def _address(runtime: CompiledRuntime, name: str) -> str:
    at = runtime.coordinator
    job, pod = _index(at, "jobIndex"), _index(at, "podIndex")
    return f"{name}-{at.get('replicatedJob')}-{job}-{pod}.{runtime.subdomain or name}"


def _replicas(job: Job) -> int:
    """The controller makes one Job of each that has an ancestor's label it knows."""
    return 1 if job.ancestor in names.ANCESTORS else job.replicas


def _index(coordinator: dict[str, Any], key: str) -> int:
    value = coordinator.get(key)
    return value if type(value) is int else 0
