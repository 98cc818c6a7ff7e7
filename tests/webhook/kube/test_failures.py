"""What is read off events and conditions, of any shape."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.webhook.kube.failing import DAY, OURS, late, of_jobset, series, train_job, warning
from webhook.kube import failures
from webhook.kube.failures import LONGEST_MESSAGE, Failure, Ref, Told

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
JOB = Ref(
    api_version="trainer.kubeflow.org/v1alpha1",
    kind="TrainJob",
    namespace="team-a",
    name="demo",
    uid="job-1",
    version="6",
)


def test_a_warning_of_the_trainer_is_read() -> None:
    assert failures.of_event(warning()) == Failure(
        about=JOB,
        reason="TrainJobResourcesCreationFailed",
        message="TrainJob resources reconciliation failed: no",
        first=NOON.replace(microsecond=250000),
        last=NOON.replace(microsecond=250000),
        times=1,
        source="event-1",
    )


@pytest.mark.parametrize(
    ("said", "times", "second"),
    [
        (series(5), 5, 9),
        (series(1), 2, 9),  # client-go before 1.27 begins there
        (series("many", "soon"), 2, 0),
        (series(2**40), 2**31 - 1, 9),
        (series(3, f"{DAY}T11:00:00Z"), 3, 0),
        ({}, 2, 0),
        ([1], 1, 0),
    ],
)
def test_a_series_says_how_often_and_until_when(said: object, times: int, second: int) -> None:
    failure = failures.of_event(warning(series=said))

    assert failure is not None
    assert (failure.times, failure.last.second) == (times, second)


@pytest.mark.parametrize(
    "event",
    [
        warning(firstTimestamp=f"{DAY}T12:00:00Z"),
        warning(type="Normal"),
        warning(source={"component": "stationmaster"}),
        warning(reportingComponent="stationmaster"),
        warning("Pod"),
        warning(involvedObject={**warning()["involvedObject"], "apiVersion": "batch/v1"}),
        warning(involvedObject={**warning()["involvedObject"], "uid": ""}),
        warning(involvedObject={**warning()["involvedObject"], "namespace": "other"}),
        warning(involvedObject=["demo"]),
        warning(eventTime=None),
        warning(eventTime="0000-00-00T00:00:00Z"),
        warning(eventTime=12),
        warning(reason=None),
        warning(metadata=None),
        {},
    ],
)
def test_what_the_sdk_sees_or_nobody_understands_is_passed_over(event: dict[str, Any]) -> None:
    assert failures.of_event(event) is None


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_the_ends_of_time_are_no_times(time: str) -> None:
    assert failures.moment(time) is None


def test_a_time_without_a_zone_is_utc() -> None:
    assert failures.moment(f"{DAY}T12:00:00") == NOON
    assert failures.moment(f"{DAY}T14:00:00+02:00") == NOON


def test_a_deadline_is_read_off_the_condition() -> None:
    failure = failures.of_train_job(late())

    assert failure is not None
    assert failure.about.uid == "job-1"
    assert failure.about.version == "7"
    assert (failure.reason, failure.first, failure.times) == ("DeadlineExceeded", NOON, 1)
    assert failure.text == "TrainJob exceeded its active deadline"


@pytest.mark.parametrize(
    "job",
    [
        train_job(),
        late(status="False"),
        late(type="Complete"),
        late(lastTransitionTime="yesterday"),
        late(reason=""),
        {**late(), "metadata": {"name": "demo"}},
        {**late(), "status": {"conditions": {"Failed": True}}},
        {},
    ],
)
def test_a_job_that_has_not_failed_says_nothing(job: dict[str, Any]) -> None:
    assert failures.of_train_job(job) is None


def test_what_the_jobset_did_is_said_the_same_whoever_tells() -> None:
    """Else one failure would be two Events."""
    by_event = failures.of_event(of_jobset())
    by_condition = failures.of_train_job(
        train_job(failed={"reason": "FailedJobs", "message": "jobset failed"})
    )

    assert by_event is not None
    assert by_condition is not None
    assert by_event.text == by_condition.text == "JobSet demo: jobset failed"
    assert by_event.reason == by_condition.reason


def test_long_words_are_cut() -> None:
    failure = failures.of_event(of_jobset(message="x" * 2000, reason="R" * 200))

    assert failure is not None
    assert len(failure.text) == LONGEST_MESSAGE
    assert failure.text.endswith("x ...")
    assert len(failure.reason) == 128


def test_names_differ_by_job_reason_and_message_and_by_nothing_else() -> None:
    name = failures.name_of(JOB, "a", "b")

    assert name.startswith("demo.")
    assert name == failures.name_of(JOB, "a", "b")
    others = {
        failures.name_of(JOB, "a", "c"),
        failures.name_of(JOB, "ab", ""),
        failures.name_of(Ref.of({**JOB.as_json(), "uid": "job-2"}) or JOB, "a", "b"),
        failures.name_of(JOB, "a", "\ud800"),
    }
    assert len(others | {name}) == 5


def test_an_event_of_ours_is_read_back() -> None:
    assert failures.is_ours(OURS)
    assert failures.told(OURS) == Told(
        about=JOB,
        name="demo.18ed02a87448ecbd",
        version="11",
        reason="TrainJobResourcesCreationFailed",
        count=3,
        last=NOON,
        related="set-1",
    )


@pytest.mark.parametrize(
    "event", [{**OURS, "lastTimestamp": None}, {**OURS, "involvedObject": {}}, {}]
)
def test_what_cannot_be_counted_on_is_not_told(event: dict[str, Any]) -> None:
    assert failures.told(event) is None
