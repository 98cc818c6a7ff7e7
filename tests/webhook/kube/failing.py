"""TrainJobs that fail, and what controllers tell of it, as Trainer 2.3.0 and JobSet 0.12.0 write it."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

NAMESPACE = "team-a"
DAY = "2026-12-01"


def train_job(
    name: str = "demo", *, uid: str = "job-1", failed: Object | None = None, version: str = "7"
) -> Object:
    """A TrainJob; ``failed`` are fields of its condition."""
    condition = {"type": "Failed", "status": "True", "lastTransitionTime": f"{DAY}T12:00:00Z"}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid, "resourceVersion": version},
        "spec": {"runtimeRef": {"name": "torch"}},
        "status": {"conditions": [{**condition, **failed}] if failed else []},
    }


def late(name: str = "demo", **changes: Any) -> Object:
    """A TrainJob that took too long."""
    failed = {"reason": "DeadlineExceeded", "message": "TrainJob exceeded its active deadline"}
    return train_job(name, failed={**failed, **changes})


def warning(kind: str = "TrainJob", name: str = "demo", **changes: Any) -> Object:
    """An event of the newer form, as ``core/v1`` serves it."""
    group = {"TrainJob": "trainer.kubeflow.org/v1alpha1", "JobSet": "jobset.x-k8s.io/v1alpha2"}
    uid = {"TrainJob": "job-1", "JobSet": "set-1"}
    event = {
        "metadata": {
            "name": f"{name}.18ed02a87448ecbd",
            "namespace": NAMESPACE,
            "uid": "event-1",
            "resourceVersion": "11",
        },
        "involvedObject": {
            "apiVersion": group.get(kind, "v1"),
            "kind": kind,
            "namespace": NAMESPACE,
            "name": name,
            "uid": uid.get(kind, "other-1"),
            "resourceVersion": "6",
        },
        "reason": "TrainJobResourcesCreationFailed",
        "message": "TrainJob resources reconciliation failed: no",
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "type": "Warning",
        "eventTime": f"{DAY}T12:00:00.250000Z",
        "reportingComponent": "trainer-trainjob-controller",
    }
    return {**event, **changes}


def of_jobset(name: str = "demo", **changes: Any) -> Object:
    """JobSet's word for a job that failed."""
    said = {"reason": "FailedJobs", "message": "jobset failed", "reportingComponent": "jobset"}
    return warning("JobSet", name, **{**said, **changes})


def series(count: object, last: object = f"{DAY}T12:00:09.500000Z") -> Object:
    """The event was told again."""
    return {"count": count, "lastObservedTime": last}


OURS: Object = warning(
    source={"component": "stationmaster"},
    firstTimestamp=f"{DAY}T12:00:00Z",
    lastTimestamp=f"{DAY}T12:00:00Z",
    count=3,
    series=None,
    related={"kind": "JobSet", "uid": "set-1"},
)
"""An Event that we wrote."""
