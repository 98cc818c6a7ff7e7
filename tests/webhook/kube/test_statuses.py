"""What is said of policies in their status: by whom, when, and what not."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import orjson
import pytest

from plugins.framework.cluster import Snapshot
from policies.compile import CompiledPolicy
from policies.counts import Conflicted, Counts, Outcome
from policies.document import Key
from policies.engine import Engine
from policies.strikes import Strikes
from tests.webhook.kube.fake_calls import FakeCalls, Object
from tests.webhook.kube.test_documents import policy as document
from webhook import logs
from webhook.kube.calls import Method
from webhook.kube.client import ApiError
from webhook.kube.reflector import Surroundings
from webhook.kube.statuses import (
    BURST,
    CONFLICT_SECONDS,
    COUNT_SECONDS,
    FAILED_SECONDS,
    LONGEST_MESSAGE,
    LOOK_SECONDS,
    STALLED_SECONDS,
    Statuses,
    kept,
)

NOW = datetime(2027, 1, 1, tzinfo=UTC)
ROOT = "/apis/stationmaster.dev/v1alpha1"
BROKEN: dict[str, Any] = {"validations": [{"name": "v", "expression": "nothing.there"}]}
SOUND: dict[str, Any] = {
    "limits": [{"name": "nodes", "nodes": {"max": 4}}],
    "exceptions": {"rules": ["nodes"], "longest": "720h"},
}


class Calls(FakeCalls):
    """One whose status is a subresource."""

    async def send(self, method: Method, path: str, body: object) -> Any:
        return await super().send(method, path.removesuffix("/status"), body)


@dataclass
class Holder:
    is_holder: bool = True
    identity: str = "pod-1"
    last_problem: str | None = None


class Replica:
    """One process beside an API server that it may share."""

    def __init__(self, calls: Calls, *, holds: bool = True, events: bool = True) -> None:
        self.calls = calls
        self.now = 1000.0
        self.off = False
        self.holder = Holder(holds)
        self.counts = Counts(lambda: self.now)
        self.log = io.BytesIO()
        self.plugin = Engine(Strikes())
        self.snapshot = Snapshot()
        self.statuses = Statuses(
            calls,
            self.plugin,
            snapshot=lambda: self.snapshot,
            counts=self.counts,
            are_events_written=events,
            is_off=lambda: self.off,
            around=Surroundings(
                clock=lambda: self.now,
                now=lambda: NOW + timedelta(seconds=self.now - 1000),
                uniform=max,
            ),
            logger=logs.build(self.log, form="json", level="info"),
        )

    def watch(self) -> None:
        """Hear what is stored, as the reflectors would tell it."""
        objects = [obj for obj in self.calls.objects.values() if obj["kind"] != "Event"]
        self.snapshot = Snapshot.of(objects)
        for kind, tap in self.statuses.taps.items():
            tap.swap([orjson.dumps(kept(obj)) for obj in objects if obj["kind"] == kind])

    async def turn(self, seconds: float = 1.0) -> None:
        self.now += seconds
        await self.statuses._turn(self.holder)

    async def watched_turn(self, seconds: float = 1.0) -> None:
        self.watch()
        await self.turn(seconds)

    def compiled(self, name: str) -> CompiledPolicy:
        found = self.plugin.policies(self.snapshot).policies
        return next(each for each in found if str(each.key) == name)

    @property
    def lines(self) -> list[Mapping[str, Any]]:
        return [orjson.loads(line) for line in self.log.getvalue().splitlines()]


def store(calls: Calls, name: str = "rules", generation: int = 1, **spec: Any) -> str:
    """Put a policy there; its path."""
    path = f"{ROOT}/trainjobpolicies/{name}"
    before = calls.objects.get(path, {})
    obj = document(name, **spec)
    obj["metadata"] |= {"uid": f"u-{name}", "generation": generation}
    if "status" in before:
        obj["status"] = before["status"]
    calls.put(path, obj)
    return path


def store_exception(calls: Calls, **spec: Any) -> str:
    path = f"{ROOT}/namespaces/team/policyexceptions/run"
    whole = {"policies": [{"name": "rules"}], "expiresAt": "2027-01-02T00:00:00Z", **spec}
    about = {
        "name": "run",
        "namespace": "team",
        "uid": "u-run",
        "generation": 1,
        "creationTimestamp": "2027-01-01T00:00:00Z",
    }
    calls.put(
        path,
        {
            "apiVersion": "stationmaster.dev/v1alpha1",
            "kind": "PolicyException",
            "metadata": about,
            "spec": whole,
        },
    )
    return path


def status(calls: Calls, path: str) -> Object:
    found = calls.objects[path].get("status", {})
    assert isinstance(found, dict)
    return found


def condition(calls: Calls, path: str, kind: str = "Ready") -> Object:
    found = [each for each in status(calls, path).get("conditions", []) if each["type"] == kind]
    assert len(found) <= 1
    return cast("Object", found[0] if found else {})


def events(calls: Calls) -> list[Object]:
    return [obj for obj in calls.objects.values() if obj["kind"] == "Event"]


def count(replica: Replica, name: str = "rules", **outcomes: int) -> None:
    key = Key("TrainJobPolicy", "", name)
    counter: Counter[Outcome] = replica.counts.totals.setdefault(key, Counter())
    for outcome, number in outcomes.items():
        counter[cast("Outcome", outcome)] += number


@pytest.fixture
def calls() -> Calls:
    return Calls()


async def test_a_sound_policy_becomes_ready_and_is_then_let_be(calls: Calls) -> None:
    replica, path = Replica(calls), store(calls, **SOUND)

    await replica.watched_turn()

    assert status(calls, path) == {
        "observedGeneration": 1,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "observedGeneration": 1,
                "lastTransitionTime": "2027-01-01T00:00:01Z",
                "reason": "InForce",
                "message": "",
            },
            {
                "type": "Conflict",
                "status": "False",
                "observedGeneration": 1,
                "lastTransitionTime": "2027-01-01T00:00:01Z",
                "reason": "NoConflict",
                "message": "",
            },
        ],
    }
    for _ in range(30):
        await replica.watched_turn()
    assert calls.writes == [("PATCH", path)]
    assert events(calls) == []


async def test_one_that_is_broken_says_why_in_its_status_an_event_and_the_log(calls: Calls) -> None:
    replica, path = Replica(calls), store(calls, **BROKEN)

    await replica.watched_turn()

    ready = condition(calls, path)
    assert (ready["status"], ready["reason"]) == ("False", "NotCompiled")
    assert ready["message"].startswith("spec.validations[0].expression: Invalid value")
    [event] = events(calls)
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "TrainJobPolicy",
        "name": "rules",
        "uid": "u-rules",
    }
    assert (event["type"], event["reason"], event["message"]) == (
        *("Warning", "NotCompiled"),
        ready["message"],
    )
    [line] = replica.lines
    assert (line["level"], line["name"], line["ready"], line["problem"]) == (
        *("warning", "rules", "False"),
        ready["message"],
    )


async def test_one_that_cannot_be_read_is_invalid_and_mended_is_ready_again(calls: Calls) -> None:
    replica, path = Replica(calls), store(calls, limitz=[])

    await replica.watched_turn()
    assert condition(calls, path)["reason"] == "Invalid"

    store(calls, generation=2, **SOUND)
    await replica.watched_turn()

    ready = condition(calls, path)
    assert (ready["status"], ready["observedGeneration"]) == ("True", 2)
    assert ready["lastTransitionTime"] == "2027-01-01T00:00:02Z"
    assert len(events(calls)) == 1


async def test_a_message_is_cut_and_an_event_that_is_there_is_not_written_again(
    calls: Calls,
) -> None:
    many = [{"name": f"v{i}", "expression": "nothing.there"} for i in range(3)]
    long = [{"name": "v", "expression": f"nothing.there && '{'x' * 3000}' == ''"}]
    replica, path = Replica(calls), store(calls, validations=many)

    await replica.watched_turn()
    assert condition(calls, path)["message"].endswith("(and 2 more)")
    store(calls, generation=2, validations=long)
    await replica.watched_turn()
    assert len(condition(calls, path)["message"]) <= LONGEST_MESSAGE
    store(calls, generation=3, validations=many)
    await replica.watched_turn()

    assert len(events(calls)) == 2
    assert [line["msg"] for line in replica.lines] == ["policy"] * 3


async def test_without_events_none_is_written(calls: Calls) -> None:
    replica = Replica(calls, events=False)
    store(calls, **BROKEN)

    await replica.watched_turn()

    assert events(calls) == []


async def test_only_the_holder_says_whether_they_are_ready(calls: Calls) -> None:
    replica = Replica(calls, holds=False)
    store(calls, **BROKEN)

    await replica.watched_turn()
    assert calls.writes == []
    replica.holder.is_holder = True
    await replica.watched_turn()

    assert len(calls.writes) == 2


async def test_switched_off_nothing_is_written(calls: Calls) -> None:
    replica = Replica(calls)
    store(calls, **SOUND)
    replica.off = True

    await replica.watched_turn(100)

    assert calls.writes == []


async def test_one_that_is_still_being_compiled_is_not_spoken_of(calls: Calls) -> None:
    replica, path = Replica(calls), store(calls, **BROKEN)
    replica.watch()
    old = replica.snapshot
    store(calls, generation=2, **SOUND)
    replica.watch()
    replica.snapshot = old

    await replica.turn()
    assert status(calls, path) == {}
    await replica.watched_turn()

    assert condition(calls, path)["status"] == "True"


# Who else writes


async def test_who_was_faster_is_not_overwritten(calls: Calls) -> None:
    replica, path = Replica(calls), store(calls, **SOUND)
    replica.watch()
    calls.put(path, {**calls.objects[path], "status": {"counts": {"matched": 5}}})

    await replica.turn()
    assert status(calls, path) == {"counts": {"matched": 5}}
    await replica.watched_turn()
    assert "conditions" not in status(calls, path)  # not at once again
    await replica.watched_turn(FAILED_SECONDS)

    assert status(calls, path)["counts"] == {"matched": 5}
    assert condition(calls, path)["status"] == "True"
    assert replica.lines == [] or replica.lines[0]["msg"] == "policy"


async def test_a_write_that_fails_is_told_once_and_tried_again(calls: Calls) -> None:
    replica, path = Replica(calls), store(calls, **SOUND)

    def forbid(method: str, _path: str) -> None:
        if method == "PATCH":
            raise ApiError(403, "Forbidden", "no")

    calls.before = forbid
    for _ in range(25):
        await replica.watched_turn()
    assert [line["problem"] for line in replica.lines] == ["cannot write: 403 Forbidden: no"]
    assert len(calls.writes) == 3
    calls.before = lambda _method, _path: None
    await replica.watched_turn(FAILED_SECONDS)

    assert condition(calls, path)["status"] == "True"


async def test_many_are_written_at_a_rate_and_all_in_the_end(calls: Calls) -> None:
    replica = Replica(calls)
    for number in range(2 * BURST):
        store(calls, f"p{number}", **SOUND)

    await replica.watched_turn()
    assert len(calls.writes) == BURST
    for _ in range(10):
        await replica.watched_turn()

    assert len(calls.writes) == 2 * BURST


# Counts


async def test_counts_of_all_replicas_add_up_and_each_tells_its_own_once_a_minute(
    calls: Calls,
) -> None:
    path = store(calls, **SOUND)
    first, second = Replica(calls), Replica(calls, holds=False)
    await first.watched_turn()
    count(first, matched=2, denied=1)
    count(second, matched=3)

    await first.watched_turn(LOOK_SECONDS)
    await second.watched_turn(LOOK_SECONDS)
    assert status(calls, path)["counts"] == {"matched": 5, "denied": 1}
    count(first, matched=1)
    await first.watched_turn(LOOK_SECONDS)
    assert status(calls, path)["counts"]["matched"] == 5
    await first.watched_turn(COUNT_SECONDS)
    await second.watched_turn(COUNT_SECONDS)

    assert status(calls, path)["counts"] == {"matched": 6, "denied": 1}
    assert condition(calls, path)["status"] == "True"


async def test_counts_that_could_not_be_told_are_told_later(calls: Calls) -> None:
    replica, path = Replica(calls), store(calls, **SOUND)
    await replica.watched_turn()
    count(replica, matched=2)
    replica.watch()
    calls.put(path, calls.objects[path])
    await replica.turn(LOOK_SECONDS)
    assert "counts" not in status(calls, path)

    await replica.watched_turn(LOOK_SECONDS)

    assert status(calls, path)["counts"] == {"matched": 2}


async def test_counts_of_one_that_is_gone_are_forgotten(calls: Calls) -> None:
    replica, path = Replica(calls), store(calls, **SOUND)
    await replica.watched_turn()
    count(replica, matched=2)
    replica.counts.conflicts[Key("TrainJobPolicy", "", "rules")] = Conflicted("x", 1, 0.0)
    replica.plugin.strikes.quarantine("rules", "1")
    del calls.objects[path]

    await replica.watched_turn()

    assert (replica.counts.totals, replica.counts.conflicts) == ({}, {})
    assert replica.plugin.strikes.quarantined == {}


# Quarantine


async def test_a_policy_that_took_workers_down_is_not_ready_until_it_changes(calls: Calls) -> None:
    replica, path = Replica(calls, holds=False), store(calls, **SOUND)
    replica.watch()
    replica.plugin.strikes.quarantine("rules", replica.compiled("rules").digest)

    await replica.turn()
    ready = condition(calls, path)
    assert (ready["status"], ready["reason"]) == ("False", "Quarantined")
    assert ready["message"].startswith("its worker was killed 2 times")
    assert [event["reason"] for event in events(calls)] == ["Quarantined"]

    other = Replica(calls)
    await other.watched_turn(LOOK_SECONDS)
    assert other.plugin.strikes.quarantined == replica.plugin.strikes.quarantined
    assert condition(calls, path) == ready

    store(calls, generation=2, validations=[{"name": "v", "expression": "true"}])
    await other.watched_turn()
    assert condition(calls, path)["status"] == "True"


# Conflicts


async def test_a_conflict_for_one_job_is_told_for_an_hour_whoever_saw_it(calls: Calls) -> None:
    path = store(calls, **SOUND)
    holder, other = Replica(calls), Replica(calls, holds=False)
    await holder.watched_turn()
    key = Key("TrainJobPolicy", "", "rules")
    other.counts.conflicts[key] = Conflicted("conflicts with b", 1, other.now)

    await other.watched_turn()
    told = condition(calls, path, "Conflict")
    assert (told["status"], told["reason"]) == ("True", "DifferentValues")
    assert told["message"] == "conflicts with b"
    await holder.watched_turn(CONFLICT_SECONDS / 2)
    assert condition(calls, path, "Conflict") == told
    await other.watched_turn(CONFLICT_SECONDS)
    await holder.watched_turn(CONFLICT_SECONDS)

    assert condition(calls, path, "Conflict")["status"] == "False"
    assert condition(calls, path)["status"] == "True"


async def test_a_conflict_is_over_when_the_policy_changes(calls: Calls) -> None:
    replica, path = Replica(calls), store(calls, **SOUND)
    replica.counts.conflicts[Key("TrainJobPolicy", "", "rules")] = Conflicted("x", 1, 1000.0)
    await replica.watched_turn()
    assert condition(calls, path, "Conflict")["status"] == "True"

    store(calls, generation=2, priority=3, **SOUND)
    await replica.watched_turn()

    assert condition(calls, path, "Conflict")["status"] == "False"


async def test_two_that_conflict_whatever_the_job_are_neither_ready(calls: Calls) -> None:
    replica = Replica(calls)
    paths = [
        store(calls, name, defaults={"labels": {"queue": name}}) for name in ("first", "second")
    ]

    await replica.watched_turn()

    for path, other in zip(paths, ("second", "first"), strict=True):
        assert condition(calls, path)["reason"] == "Conflict"
        told = condition(calls, path, "Conflict")
        assert (told["status"], told["reason"]) == ("True", "SamePriority")
        assert other in told["message"]


# Exceptions


async def test_an_exception_is_active_until_it_ends(calls: Calls) -> None:
    replica, path = Replica(calls), store_exception(calls)
    store(calls, **SOUND)

    await replica.watched_turn()
    assert condition(calls, path)["reason"] == "Active"
    assert condition(calls, path, "Conflict") == {}
    await replica.watched_turn(24 * 60 * 60.0)

    ended = condition(calls, path)
    assert (ended["status"], ended["reason"]) == ("False", "Expired")
    assert ended["message"] == "it ended at 2027-01-02T00:00:00Z"
    assert events(calls) == []


async def test_one_that_its_policy_ends_earlier_is_over_then(calls: Calls) -> None:
    replica, path = Replica(calls), store_exception(calls, expiresAt="2028-01-01T00:00:00Z")
    store(calls, **SOUND)

    await replica.watched_turn()
    assert condition(calls, path)["message"] == (
        "spec.policies[0]: ends at 2027-01-31T00:00:00Z already: rules offers no more"
    )
    await replica.watched_turn(31 * 24 * 60 * 60.0)

    assert condition(calls, path)["message"] == "it ended at 2027-01-31T00:00:00Z"


async def test_one_that_loosens_nothing_says_why(calls: Calls) -> None:
    replica, path = Replica(calls), store_exception(calls)

    await replica.watched_turn()

    told = condition(calls, path)
    assert (told["status"], told["reason"], told["message"]) == (
        *("False", "NothingLoosened"),
        "spec.policies[0]: there is no TrainJobPolicy rules",
    )


# The loop


async def test_a_fault_of_ours_ends_nothing_and_a_loop_that_stops_is_told(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica, path = Replica(calls), store(calls, **SOUND)
    replica.watch()
    turns: list[float] = []

    async def sleep(seconds: float) -> None:
        turns.append(seconds)
        if len(turns) == 2:
            monkeypatch.undo()
        if len(turns) == 4:
            raise KeyboardInterrupt

    def fail(*_: object) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(replica.plugin, "policies", fail)
    replica.statuses._around = Surroundings(
        clock=lambda: replica.now, now=lambda: NOW, sleep=sleep, uniform=max
    )
    with pytest.raises(KeyboardInterrupt):
        await replica.statuses.run(replica.holder)

    assert [line.get("problem") for line in replica.lines][:1] == [
        "internal fault (ZeroDivisionError)"
    ]
    assert condition(calls, path)["status"] == "True"
    assert replica.statuses.stalled() is None
    replica.now += STALLED_SECONDS
    assert replica.statuses.stalled() == "nobody has looked after policies for 300 s"
