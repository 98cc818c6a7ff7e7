"""What is followed and written, before an API server: on the Lease's holder, and softly where something fails."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson
import pytest

from tests.webhook.fakes import LIMIT
from tests.webhook.kube.apiserver import ApiServer, status
from tests.webhook.kube.failing import (
    NAMESPACE,
    OURS,
    Object,
    late,
    of_jobset,
    series,
    train_job,
    warning,
)
from tests.webhook.kube.fake_calls import FakeCalls
from tests.webhook.kube.test_failures import NOON
from webhook import logs
from webhook.kube import failures
from webhook.kube.client import ApiError, Client, Unreachable
from webhook.kube.events import (
    FRESH_SECONDS,
    MOST_WAITING,
    STALLED_SECONDS,
    Mirror,
)
from webhook.kube.failed import FailedJobs
from webhook.kube.failures import Ref, name_of
from webhook.kube.reflector import Surroundings

TRAIN_JOBS = "involvedObject.kind=TrainJob,type=Warning"
JOB_SETS = "involvedObject.kind=JobSet,type=Warning"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
OF_JOB_SET = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets"
OF_TRAIN_JOB = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{NAMESPACE}/trainjobs"


@dataclass
class Holder:
    is_holder: bool = True
    identity: str = "pod-1_abcd"
    last_problem: str | None = None


@dataclass
class World:
    """A mirror between two: what it follows, and what it writes."""

    server: ApiServer
    client: Client
    now: float = 1000.0
    holder: Holder = field(default_factory=Holder)
    calls: FakeCalls = field(default_factory=FakeCalls)
    counts: Counter[str] = field(default_factory=Counter)
    jobs: set[str] | None = field(default_factory=lambda: {"demo"})
    is_off: bool = False
    log: io.BytesIO = field(default_factory=io.BytesIO)
    turns: int = 0

    def __post_init__(self) -> None:
        self.failed = FailedJobs()
        self._go = asyncio.Event()
        self.server.collections = {TRAIN_JOBS: {}, JOB_SETS: {}}
        owner = {"kind": "TrainJob", "name": "demo", "uid": "job-1", "controller": True}
        self.found(OF_JOB_SET, uid="set-1", ownerReferences=[owner])
        self.found(OF_TRAIN_JOB, uid="job-1", resourceVersion="9")
        self.mirror = Mirror(
            self.client,
            self.calls,
            self.failed,
            exists=self._exists,
            is_off=lambda: self.is_off,
            around=Surroundings(
                clock=lambda: self.now,
                now=lambda: NOON + timedelta(seconds=self.now - 1000),
                sleep=self._sleep,
                uniform=max,
            ),
            counter=self,
            logger=logs.build(self.log),
            tell=lambda _title, _problem: None,
        )

    def found(self, path: str, **metadata: Any) -> None:
        """What a list of one gives."""
        self.server.others[path] = {"items": [{"metadata": {"name": "demo", **metadata}}]}

    def event(self, result: str, count: int = 1) -> None:
        self.counts[result] += count

    def _exists(self, namespace: str, name: str) -> bool | None:
        return None if self.jobs is None else namespace == NAMESPACE and name in self.jobs

    async def _sleep(self, _seconds: float) -> None:
        self.turns += 1
        await self._go.wait()

    async def until(self, what: Callable[[], bool]) -> None:
        """Let time pass, a second each turn, until it is so."""
        async with asyncio.timeout(LIMIT):
            while not what():
                await self.turn()

    async def turn(self) -> None:
        self.now += 1
        self._go.set()
        self._go = asyncio.Event()
        await asyncio.sleep(0.002)

    async def watched(self) -> None:
        await self.until(lambda: len(self.server.watchers) == 2)

    async def settled(self) -> None:
        """Whatever is to come of what was said has come."""
        for _ in range(30):
            await self.turn()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.mirror.run(self.holder))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def written(self) -> list[Object]:
        return [obj for path, obj in self.calls.objects.items() if path.startswith(EVENTS)]

    async def written_once(self, count: int = 1) -> list[Object]:
        await self.watched()  # what is changed next must not fall between list and watch
        await self.until(lambda: len(self.written) == count)
        await self.settled()
        return self.written

    def problems(self) -> list[str]:
        lines = [orjson.loads(line) for line in self.log.getvalue().splitlines()]
        return [line["problem"] for line in lines if line["level"] == "warning"]


@pytest.fixture
def world(server: ApiServer, client: Client) -> World:
    return World(server, client)


async def test_warnings_of_the_trainer_are_told_once_whether_they_were_there_or_come(
    world: World,
) -> None:
    world.server.put(warning(), TRAIN_JOBS)
    async with world.running():
        await world.written_once()
        assert world.written[0]["reportingInstance"] == "pod-1_abcd"
        assert world.written[0]["firstTimestamp"] == "2026-12-01T12:00:00Z"

        world.server.change(warning(series=series(4)), "MODIFIED", TRAIN_JOBS)
        await world.until(lambda: world.counts["counted"] == 1)

    (event,) = world.written
    assert (event["count"], event["lastTimestamp"]) == (4, "2026-12-01T12:00:09Z")
    assert world.counts == {"created": 1, "counted": 1}


async def test_only_what_is_needed_is_asked_for(world: World) -> None:
    async with world.running():
        await world.watched()

    assert {seen.path for seen in world.server.requests} == {"/api/v1/events"}
    selectors = {seen.query["fieldSelector"] for seen in world.server.requests}
    assert selectors == {TRAIN_JOBS, JOB_SETS}


async def test_what_a_jobset_says_is_told_on_the_trainjob_that_owns_it(world: World) -> None:
    async with world.running():
        await world.watched()
        world.server.change(of_jobset(), of=JOB_SETS)
        (event,) = await world.written_once()
        world.server.change(
            of_jobset(metadata={**of_jobset()["metadata"], "uid": "event-2"}, message="again"),
            of=JOB_SETS,
        )
        await world.written_once(2)

    involved = event["involvedObject"]
    assert event["message"] == "JobSet demo: jobset failed"
    assert (involved["kind"], involved["uid"], involved["resourceVersion"]) == (
        *("TrainJob", "job-1"),
        "9",
    )
    asked = [(seen.path, seen.query["fieldSelector"]) for seen in world.server.lists[2:]]
    assert sorted(asked) == [
        (OF_JOB_SET, "metadata.name=demo"),
        (OF_TRAIN_JOB, "metadata.name=demo"),
    ]


@pytest.mark.parametrize(
    "metadata",
    [
        {"uid": "set-2"},  # made anew meanwhile
        {"uid": "set-1", "ownerReferences": []},
        {"uid": "set-1", "ownerReferences": [{"controller": True, "uid": "another"}]},
        {"uid": "set-1", "ownerReferences": [{"uid": "job-1"}]},
        {"name": "other"},
    ],
)
async def test_a_jobset_that_is_not_the_trainjobs_says_nothing_of_it(
    world: World, metadata: dict[str, Any]
) -> None:
    world.found(OF_JOB_SET, **metadata)
    world.server.put(of_jobset(), JOB_SETS)
    async with world.running():
        await world.watched()
        await world.settled()

    assert world.calls.writes == []
    assert OF_JOB_SET in {seen.path for seen in world.server.requests}


async def test_the_trainjob_may_be_known_a_moment_after_the_event(world: World) -> None:
    world.jobs = set()
    world.server.put(warning(), TRAIN_JOBS)
    async with world.running():
        await world.watched()
        await world.turn()
        world.jobs = {"demo"}
        await world.written_once()


async def test_while_trainjobs_have_not_been_read_it_waits(world: World) -> None:
    world.jobs = None
    world.server.put(warning(), TRAIN_JOBS)
    async with world.running():
        await world.watched()
        await world.settled()
        assert world.calls.writes == []
        world.jobs = {"demo"}
        await world.written_once()


async def test_an_event_about_no_trainjob_costs_nothing(world: World) -> None:
    """Whoever may write events may write of whatever he likes."""
    world.jobs = set()
    world.server.put(of_jobset(), JOB_SETS)
    async with world.running():
        await world.watched()
        await world.settled()
        world.jobs = {"demo"}
        await world.settled()

    assert world.calls.writes == []
    assert {seen.path for seen in world.server.requests} == {"/api/v1/events"}


async def test_a_deadline_is_told_though_no_event_says_so(world: World) -> None:
    world.failed.swap([orjson.dumps(train_job("fine", uid="job-2"))])
    async with world.running():
        await world.watched()
        world.failed.put(late())
        (event,) = await world.written_once()
        world.failed.put({**late(), "metadata": {**late()["metadata"], "resourceVersion": "8"}})
        await world.settled()

    assert event["reason"] == "DeadlineExceeded"
    assert world.counts == {"created": 1}


async def test_conditions_of_long_ago_are_not_told_anew(world: World) -> None:
    world.now += FRESH_SECONDS + 1
    world.failed.put(late())
    async with world.running():
        await world.watched()
        await world.settled()

    assert world.calls.writes == []


async def test_who_does_not_hold_the_lease_asks_and_writes_nothing(world: World) -> None:
    world.holder.is_holder = False
    world.server.put(warning(), TRAIN_JOBS)
    async with world.running():
        await world.settled()
        assert world.server.requests == []
        assert [each.cut_off_seconds for each in world.mirror.reflectors] == [0, 0]

        world.holder.is_holder = True
        await world.written_once()
        world.holder.is_holder = False
        await world.until(lambda: not world.server.watchers)
        asked = len(world.server.requests)
        world.server.put(warning(message="more"), TRAIN_JOBS)
        await world.settled()

    assert len(world.server.requests) == asked
    assert len(world.written) == 1


async def test_who_takes_over_reads_what_was_told_and_looks_for_no_owner_again(
    world: World,
) -> None:
    about = {**OURS["involvedObject"], "resourceVersion": "9"}
    event = of_jobset(series=series(3))
    told = {
        **OURS,
        "involvedObject": about,
        "reason": "FailedJobs",
        "lastTimestamp": "2026-12-01T12:00:09Z",
        "metadata": {
            **OURS["metadata"],
            "name": name_of(reference(), "FailedJobs", "JobSet demo: jobset failed"),
        },
    }
    world.server.put(told, TRAIN_JOBS)
    world.server.put(event, JOB_SETS)
    world.calls.put(f"{EVENTS}/{told['metadata']['name']}", told)
    stored = world.calls.objects[f"{EVENTS}/{told['metadata']['name']}"]["metadata"]
    world.server.collections[TRAIN_JOBS][told["metadata"]["name"]]["metadata"] = dict(stored)
    async with world.running():
        await world.watched()
        await world.settled()
        assert world.calls.writes == []
        again = of_jobset(series=series(5, "2026-12-01T12:01:00Z"))
        world.server.change(again, "MODIFIED", JOB_SETS)
        await world.until(lambda: world.counts["counted"] == 1)

    assert world.written[0]["count"] == OURS["count"] + 2
    assert {seen.path for seen in world.server.requests} == {"/api/v1/events"}


def reference() -> Ref:
    """The TrainJob."""
    ref = Ref.of(OURS["involvedObject"])
    assert ref is not None
    return ref


async def test_an_event_that_is_gone_is_made_anew(world: World) -> None:
    world.server.put(warning(), TRAIN_JOBS)
    async with world.running():
        (event,) = await world.written_once()
        del world.calls.objects[f"{EVENTS}/{event['metadata']['name']}"]  # and no watch says so
        world.server.change(warning(series=series(3)), "MODIFIED", TRAIN_JOBS)
        (event,) = await world.written_once()

    assert event["count"] == 2
    assert world.counts == {"created": 2}


async def test_one_that_expires_is_forgotten(world: World) -> None:
    world.server.put(OURS, TRAIN_JOBS)
    async with world.running():
        await world.watched()
        world.server.remove(OURS["metadata"]["name"], TRAIN_JOBS)
        world.server.change(warning(), of=TRAIN_JOBS)
        await world.written_once()

    assert world.counts == {"created": 1}


async def test_of_two_who_write_the_same_one_reads_it_and_counts_on(world: World) -> None:
    """A holder that does not know yet that it is none."""
    name = name_of(reference(), warning()["reason"], warning()["message"])
    theirs = {**OURS, "metadata": {**OURS["metadata"], "name": name}, "count": 1}
    world.calls.put(f"{EVENTS}/{name}", theirs)
    async with world.running():
        await world.watched()
        world.server.change(warning(series=series(4)), of=TRAIN_JOBS)
        await world.until(lambda: ("POST", EVENTS) in world.calls.calls)
        stored = world.calls.objects[f"{EVENTS}/{name}"]
        for watcher in world.server.watching(TRAIN_JOBS):
            watcher.send("ADDED", {**stored, "metadata": {**stored["metadata"], "uid": "x"}})
        await world.until(lambda: world.counts["counted"] == 1)

    assert world.counts["failed"] == 0
    assert world.problems() == []


@pytest.mark.parametrize("is_taken_for_good", [True, False])
@pytest.mark.parametrize("error", [ApiError(500, "Broken", "no"), Unreachable("cut")])
async def test_what_fails_is_said_once_and_tried_again(
    world: World, error: Exception, *, is_taken_for_good: bool
) -> None:
    def before(method: str, _path: str) -> None:
        if method == "POST" and (is_taken_for_good or len(world.calls.writes) < 3):
            raise error

    world.calls.before = before
    world.server.put(warning(), TRAIN_JOBS)
    async with world.running():
        await world.until(lambda: world.counts["failed"] == 2)
        assert world.problems() == [f"cannot write: {error}"]
        assert world.mirror.stalled() is None
        if not is_taken_for_good:
            await world.written_once()


async def test_a_namespace_that_ends_gets_no_second_try(world: World) -> None:
    def before(method: str, _path: str) -> None:
        if method == "POST":
            raise ApiError(403, "Forbidden", "because it is being terminated")

    world.calls.before = before
    world.server.put(warning(), TRAIN_JOBS)
    async with world.running():
        await world.until(lambda: world.counts["failed"] == 1)
        await world.settled()

    assert world.calls.writes == [("POST", EVENTS)]


async def test_an_owner_that_cannot_be_read_now_is_read_later(world: World) -> None:
    broken = [status(500), status(500), status(503)]

    async def answer(request: Any) -> Any:
        if "/namespaces/" in request.path and broken:
            return await broken.pop()(request)
        world.server.get_trick = None
        try:
            return await world.server._handle(request)
        finally:
            world.server.get_trick = answer

    async with world.running():
        await world.watched()
        world.server.get_trick = answer
        world.server.change(of_jobset(), of=JOB_SETS)
        await world.written_once()

    assert any("cannot read by name: 50" in each for each in world.problems())


async def test_a_fault_of_ours_ends_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: object, _job: object, _failure: object) -> None:
        raise ZeroDivisionError

    world.server.put(warning(), TRAIN_JOBS)
    with monkeypatch.context() as patch:
        patch.setattr("webhook.kube.correlator.Correlator.see", broken)
        async with world.running():
            await world.watched()
            await world.until(lambda: world.counts["failed"] > 0)
            patch.undo()
            world.server.change(warning(message="more"), of=TRAIN_JOBS)
            await world.written_once()

    assert world.problems()[0] == "internal fault (ZeroDivisionError)"


async def test_switched_off_nothing_is_written(world: World) -> None:
    world.is_off = True
    world.server.put(warning(), TRAIN_JOBS)
    async with world.running():
        await world.settled()
        assert world.server.requests == []
        world.is_off = False
        await world.written_once()


async def test_why_nobody_is_elected_is_said(world: World) -> None:
    world.holder = Holder(is_holder=False, last_problem="403 Forbidden: no")
    async with world.running():
        await world.settled()

    assert world.problems() == ["lease: 403 Forbidden: no"]


async def test_more_than_can_wait_is_dropped_and_counted(world: World) -> None:
    failure = failures.of_event(warning())
    assert failure is not None
    for _ in range(MOST_WAITING + 2):
        world.mirror.failed(failure)

    assert world.counts == {"dropped": 2}


async def test_more_than_can_be_tried_is_counted_too(world: World) -> None:
    world.calls.before = refuse
    world.server.put(warning(), TRAIN_JOBS)
    async with world.running():
        await world.until(lambda: world.counts["dropped"] == 1)

    assert world.counts["failed"] == 6


def refuse(method: str, _path: str) -> None:
    if method == "POST":
        raise ApiError(429, "TooManyRequests", "later")


async def test_a_loop_that_does_not_turn_shows(world: World) -> None:
    async with world.running():
        await world.watched()
        assert world.mirror.stalled() is None
        world.now += STALLED_SECONDS
        assert world.mirror.stalled() == "nobody has looked after events for 300 s"
        await world.turn()
        await world.turn()
        assert world.mirror.stalled() is None


async def test_nothing_is_told_before_it_is_known_what_was(world: World) -> None:
    """The JobSets' events may be listed first."""
    held = asyncio.Event()
    real = world.server.list

    async def hold(request: Any) -> Any:
        if request.query.get("fieldSelector") == TRAIN_JOBS:
            await held.wait()
        return await real(request)

    world.server.list_tricks.extend([hold, hold])
    world.server.put(of_jobset(), JOB_SETS)
    async with world.running():
        await world.until(lambda: len(world.server.watchers) == 1)
        await world.settled()
        assert world.calls.writes == []
        held.set()
        await world.written_once()


async def test_who_loses_the_lease_stops_at_once(world: World) -> None:
    def lose(method: str, _path: str) -> None:
        if method == "POST":
            world.holder.is_holder = False

    world.calls.before = lose
    world.failed.put(late())
    other = late("other")
    world.failed.put({**other, "metadata": {**other["metadata"], "uid": "job-2"}})
    async with world.running():
        await world.until(lambda: bool(world.calls.writes))
        await world.settled()

    assert world.calls.writes == [("POST", EVENTS)]
