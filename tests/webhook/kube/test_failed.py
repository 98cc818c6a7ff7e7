"""Which TrainJobs have failed."""

from __future__ import annotations

from tests.webhook.kube.failing import NAMESPACE, late, train_job
from tests.webhook.kube.test_failures import NOON
from webhook.kube.failed import MOST_FAILED, FailedJobs


def test_of_failed_jobs_the_oldest_are_forgotten() -> None:
    failed = FailedJobs()
    for number in range(MOST_FAILED + 1):
        failed.put(late(f"job-{number}"))
    found = failed.since(NOON)

    assert len(found) == MOST_FAILED
    assert "job-0" not in {each.about.name for each in found}


def test_jobs_that_go_or_recover_have_not_failed() -> None:
    failed = FailedJobs()
    for name in ("a", "b", "c"):
        failed.put(late(name))
    failed.drop(NAMESPACE, "a")
    failed.put(train_job("b"))
    assert [each.about.name for each in failed.since(NOON)] == ["c"]

    failed.put(late("c"))
    assert not failed.is_news, "it is as it was"

    failed.swap([])
    assert failed.since(NOON) == []
