"""Whose a JobSet is, and what it costs to find out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.webhook.kube.test_correlator import JOB_SET
from tests.webhook.kube.test_failures import JOB
from webhook.kube.client import JSON, Query, Unreachable
from webhook.kube.jobsets import READS_AT_ONCE, JobSets
from webhook.kube.resources import METADATA_LIST


@dataclass
class Requests:
    """A JobSet of every name, owned by the TrainJob of its name."""

    asked: list[str] = field(default_factory=list)

    async def get(
        self, path: str, query: Query | None = None, *, accept: str = JSON, **_more: Any
    ) -> Any:
        assert accept == METADATA_LIST
        self.asked.append(path)
        name = (query or {})["fieldSelector"].removeprefix("metadata.name=")
        if path.endswith("/trainjobs"):
            return {"items": [{"metadata": {"name": name, "uid": "job-1", "resourceVersion": "6"}}]}
        owner = {"uid": "job-1", "controller": True}
        return {"items": [{"metadata": {"name": name, "uid": "set-1", "ownerReferences": [owner]}}]}

    def stream(self, path: str, query: Query, *, accept: str, silence_seconds: float) -> Any:
        raise NotImplementedError


async def test_it_is_read_once() -> None:
    requests = Requests()
    jobsets = JobSets(requests, lambda: 1000.0)

    assert await jobsets.owner(JOB_SET) == JOB
    assert await jobsets.owner(JOB_SET) == JOB
    assert len(requests.asked) == 2


async def test_what_is_known_is_not_read() -> None:
    requests = Requests()
    jobsets = JobSets(requests, lambda: 1000.0)
    jobsets.learn("set-1", JOB)

    assert await jobsets.owner(JOB_SET) is JOB
    assert requests.asked == []


async def test_only_so_many_are_read_at_once() -> None:
    now = 1000.0
    requests = Requests()
    jobsets = JobSets(requests, lambda: now)
    for number in range(READS_AT_ONCE):
        assert await jobsets.owner(replace(JOB_SET, uid=f"gone-{number}")) is None
    with pytest.raises(Unreachable, match="too many"):
        await jobsets.owner(JOB_SET)

    now += 1

    assert await jobsets.owner(JOB_SET) == JOB
