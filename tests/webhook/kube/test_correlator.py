"""Which Events are written: once, counted, and not too many."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from tests.webhook.kube.test_failures import JOB, NOON
from webhook.kube import failures
from webhook.kube.correlator import (
    BURST,
    COMBINED,
    GRACE_SECONDS,
    JOB_BURST,
    MOST_ATTEMPTS,
    MOST_PENDING,
    MOST_SIMILAR,
    SIMILAR_SECONDS,
    UNREACHABLE_SECONDS,
    Correlator,
    Write,
)
from webhook.kube.failures import Failure, Ref

JOB_SET = Ref(
    api_version="jobset.x-k8s.io/v1alpha2",
    kind="JobSet",
    namespace="team-a",
    name="demo",
    uid="set-1",
)


def failure(  # a builder
    message: str = "no",
    *,
    source: str = "event-1",
    seconds: float = 0.0,
    until: float | None = None,
    times: int = 1,
    **changes: Any,
) -> Failure:
    """Told by one event, ``seconds`` after noon."""
    first = NOON + timedelta(seconds=seconds)
    last = first if until is None else NOON + timedelta(seconds=until)
    plain = Failure(
        about=JOB,
        reason="R",
        message=message,
        first=first,
        last=last,
        times=times,
        source=source,
    )
    return replace(plain, **changes)


def condition(seconds: float = 0.0, **changes: Any) -> Failure:
    """The same, told by the condition that JobSet's was copied to."""
    return failure(seconds=seconds, source="job-1/Failed", is_condition=True, **changes)


@dataclass
class World:
    """A correlator, and the Events as an API server would keep them."""

    now: float = 1000.0
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = 100

    def __post_init__(self) -> None:
        self.correlator = Correlator(lambda: self.now)

    def see(self, *seen: Failure, job: Ref = JOB) -> None:
        for each in seen:
            self.correlator.see(job, each)

    def write(self) -> list[Write]:
        """All that is due."""
        written = []
        while (write := self.correlator.due()) is not None:
            written.append(write)
            self.store(write)
        return written

    def store(self, write: Write) -> None:
        self.version += 1
        if write.told is None:
            assert write.name not in self.events, "exists already"
            event = write.event("pod-1")
        else:
            event = dict(self.events[write.name])
            test, *changes = write.patch(write.told)
            assert test["value"] == event["metadata"]["resourceVersion"], "was changed meanwhile"
            event |= {each["path"][1:]: each["value"] for each in changes}
        version = {"resourceVersion": str(self.version)}
        self.events[write.name] = {**event, "metadata": {**event["metadata"], **version}}
        told = failures.told(self.events[write.name])
        assert told is not None
        self.correlator.put(told)

    def succeed(self) -> World:
        """Another takes over: it knows nothing, and reads what there is."""
        other = World(now=self.now, events=self.events, version=self.version)
        told = [failures.told(each) for each in self.events.values()]
        other.correlator.swap([each for each in told if each is not None])
        return other

    def counts(self) -> list[int]:
        return [each["count"] for each in self.events.values()]


def test_the_event_is_one_of_the_older_form_about_the_trainjob() -> None:
    world = World()
    world.see(failure(seconds=0.25, until=9.5, times=3))
    (write,) = world.write()

    assert write.collection == "/api/v1/namespaces/team-a/events"
    assert write.event("pod-1") == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": failures.name_of(JOB, "R", "no"), "namespace": "team-a"},
        "involvedObject": {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "namespace": "team-a",
            "name": "demo",
            "uid": "job-1",
            "resourceVersion": "6",
        },
        "type": "Warning",
        "reason": "R",
        "message": "no",
        "source": {"component": "stationmaster"},
        "reportingComponent": "stationmaster",
        "reportingInstance": "pod-1",
        "firstTimestamp": "2026-12-01T12:00:00Z",
        "lastTimestamp": "2026-12-01T12:00:09Z",
        "count": 3,
    }


def test_of_a_jobset_it_says_so_on_the_trainjob() -> None:
    world = World()
    world.see(failure(about=JOB_SET))
    (event,) = (write.event("pod-1") for write in world.write())

    assert event["message"] == "JobSet demo: no"
    assert event["involvedObject"]["kind"] == "TrainJob"
    assert event["related"] == {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "namespace": "team-a",
        "name": "demo",
        "uid": "set-1",
    }


def test_what_was_seen_before_is_not_told_again() -> None:
    world = World()
    world.see(failure(), failure())
    assert len(world.write()) == 1

    world.see(failure())

    assert world.write() == []


def test_what_goes_on_is_counted_on_in_the_same_event() -> None:
    world = World()
    world.see(failure())
    world.write()
    world.see(failure(until=40, times=4))
    world.see(failure(source="event-2", seconds=50, until=60, times=2))
    (write,) = world.write()

    assert write.told is not None
    (event,) = world.events.values()
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
        *(6, "2026-12-01T12:00:00Z"),
        "2026-12-01T12:01:00Z",
    )


def test_a_source_that_falls_behind_counts_nothing_down() -> None:
    world = World()
    world.see(failure(times=5))
    world.write()
    world.see(failure(times=3))

    assert world.write() == []


def test_who_takes_over_goes_on_counting() -> None:
    world = World()
    world.see(failure(until=9.5, times=5))
    world.write()
    world = world.succeed()
    world.see(failure(until=9.5, times=5))
    assert world.write() == [], "told by whoever was before us"

    world.see(failure(until=20, times=6))
    world.see(failure(source="event-2", seconds=30, times=2))
    world.write()

    assert world.counts() == [8]


def test_who_takes_over_later_counts_what_is_new_once() -> None:
    world = World()
    world.see(failure(until=9.5, times=5))
    world.write()
    world = world.succeed()

    world.see(failure(until=20, times=9))  # when the others of these nine were, nobody knows
    world.write()

    assert world.counts() == [6]


def test_an_event_that_has_ended_is_made_anew() -> None:
    world = World()
    world.see(failure())
    (write,) = world.write()
    world.events.clear()
    world.correlator.drop(*write.key)
    world.see(failure(until=3600, times=2))
    (write,) = world.write()

    assert write.told is None
    assert world.counts() == [1]


def test_conditions_wait_for_the_event_that_tells_the_same() -> None:
    world = World()
    world.see(condition())
    assert world.write() == []
    world.see(failure(about=JOB_SET, seconds=0.5))
    (write,) = world.write()
    world.now += GRACE_SECONDS

    assert write.related == JOB_SET
    assert world.write() == []
    assert world.counts() == [1]


def test_conditions_that_come_later_than_the_event_are_no_news() -> None:
    world = World()
    world.see(failure(about=JOB_SET))
    world.see(condition(seconds=2))
    world.write()
    world.now += GRACE_SECONDS
    assert world.write() == []

    world = world.succeed()
    world.see(condition(seconds=2))
    world.now += GRACE_SECONDS

    assert world.write() == []


def test_conditions_that_no_event_tells_are_told_in_the_end() -> None:
    world = World()
    world.see(condition())
    world.now += GRACE_SECONDS
    (write,) = world.write()

    assert write.message == "JobSet demo: no"


def test_the_trainers_own_conditions_wait_for_nothing() -> None:
    world = World()
    world.see(condition(reason="DeadlineExceeded"))

    assert [write.message for write in world.write()] == ["no"]


def test_ever_other_words_become_one_event() -> None:
    world = World()
    for number in range(MOST_SIMILAR + 5):
        world.see(failure(f"pointer {number}", source=f"event-{number}", seconds=number))
        world.write()

    messages = [event["message"] for event in world.events.values()]
    last = MOST_SIMILAR + 4
    assert messages == [
        *(f"pointer {number}" for number in range(MOST_SIMILAR)),
        f"{COMBINED}pointer {last}",
    ]
    assert world.counts() == [1] * MOST_SIMILAR + [5]


def test_who_takes_over_combines_on() -> None:
    world = World()
    for number in range(MOST_SIMILAR + 1):
        world.see(failure(f"pointer {number}", source=f"event-{number}", seconds=number))
        world.write()
    world = world.succeed()
    world.see(failure("pointer x", source="event-x", seconds=60))
    world.see(failure("pointer 3", source="event-y", seconds=61))
    world.write()

    assert len(world.events) == MOST_SIMILAR + 1
    assert sorted(world.counts()) == [*([1] * (MOST_SIMILAR - 1)), 2, 2]


def test_other_words_much_later_are_told_as_they_are() -> None:
    world = World()
    for number in range(MOST_SIMILAR):
        world.see(failure(f"pointer {number}", source=f"event-{number}", seconds=number))
        world.write()
    world.see(failure("other", source="other", seconds=SIMILAR_SECONDS + MOST_SIMILAR))

    assert [write.message for write in world.write()] == ["other"]


def test_of_one_job_only_so_many_are_written_and_the_rest_is_counted_together() -> None:
    world = World()
    for number in range(JOB_BURST + 10):
        world.see(failure(until=number, times=number + 1))
        world.write()

    assert world.counts() == [JOB_BURST]
    other = replace(JOB, name="other", uid="job-2")
    world.see(failure(about=other, source="other"), job=other)
    assert len(world.write()) == 1, "others are not held up"

    world.now += 300
    world.write()

    assert world.counts() == [JOB_BURST + 10, 1]


def test_of_all_only_so_many_are_written_at_once_and_none_is_lost() -> None:
    world = World()
    for number in range(BURST * 2):
        job = replace(JOB, name=f"job-{number}", uid=f"job-{number}")
        world.see(failure(about=job, source=f"event-{number}"), job=job)

    assert len(world.write()) == BURST
    world.now += 2
    assert len(world.write()) == 10
    world.now += 10
    assert len(world.write()) == BURST - 10


def test_what_could_not_be_written_is_tried_again_with_what_came_meanwhile() -> None:
    world = World()
    world.see(failure())
    write = world.correlator.due()
    assert write is not None
    world.see(failure(until=5, times=3))
    assert world.correlator.again(write)
    assert world.correlator.due() is None
    world.now += 2
    world.write()

    assert world.counts() == [3]


def test_what_can_never_be_written_is_dropped_in_the_end() -> None:
    world = World()
    world.see(failure())
    tries = 0
    while (write := world.correlator.due()) is not None:
        tries += 1
        world.correlator.again(write)
        world.now += 60

    assert tries == MOST_ATTEMPTS + 1
    assert world.correlator.dropped == 1
    assert world.correlator.waiting == 0


def test_an_outage_drops_nothing_and_uses_up_nothing() -> None:
    world = World()
    world.see(failure())
    for _ in range(JOB_BURST * 2):
        write = world.correlator.due()
        assert write is not None
        assert world.correlator.again(write, is_hopeful=True)
        assert world.correlator.due() is None
        world.now += UNREACHABLE_SECONDS
    world.write()

    assert world.counts() == [1]
    assert world.correlator.dropped == 0


def test_there_is_an_end_to_what_waits() -> None:
    world = World()
    for number in range(MOST_PENDING + 3):
        job = replace(JOB, name=f"job-{number}", uid=f"job-{number}")
        world.see(failure(about=job, source=f"event-{number}"), job=job)

    assert world.correlator.waiting == MOST_PENDING
    assert world.correlator.dropped == 3


def test_counts_end_where_the_api_does() -> None:
    world = World()
    world.see(failure(times=2**31 - 1))
    world.write()
    world.see(failure(source="event-2", seconds=60, times=7))
    world.write()

    assert world.counts() == [2**31 - 1]
