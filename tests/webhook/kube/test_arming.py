from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webhook.kube.fake_calls import FakeCalls, FakeClock
from webhook import logs
from webhook.kube.arming import (
    ANNOTATION,
    ARMINGS_SECONDS,
    MOST_ARMINGS,
    UNSERVED_SECONDS,
    Arming,
    Decision,
    Observed,
    Replicas,
    decide,
)
from webhook.kube.client import ApiError, Unreachable
from webhook.kube.injector import Configuration, Injector

OPEN = Observed(
    policy="Ignore",
    enough="2",
    is_trusted=True,
    replicas=Replicas(wanted=2, ready=2),
    unserved_seconds=0.0,
    armings=0,
    leaving=False,
)
CLOSED = replace(OPEN, policy="Fail")


def replicas(ready: int, wanted: int = 2) -> Replicas:
    return Replicas(wanted=wanted, ready=ready)


STAYS = {
    "open with too few": replace(OPEN, replicas=replicas(1)),
    "open before the bundle trusts what is served": replace(OPEN, is_trusted=False),
    "open while this one leaves": replace(OPEN, leaving=True),
    "open where no replica is wanted and the last ones have not gone": replace(
        OPEN, replicas=replicas(2, wanted=0)
    ),
    "closed with as many as it takes": CLOSED,
    "closed with fewer, since one answers": replace(CLOSED, replicas=replicas(1)),
    "closed with one when another leaves": replace(CLOSED, replicas=replicas(1), leaving=True),
    "closed in a rolling update": replace(CLOSED, replicas=replicas(2), leaving=True),
    "closed while all are restarted": replace(
        CLOSED, replicas=replicas(0), unserved_seconds=UNSERVED_SECONDS - 1
    ),
    "closed while the bundle is repaired": replace(CLOSED, is_trusted=False),
    "closed however often it was armed": replace(CLOSED, armings=MOST_ARMINGS),
    "closed by the manifests, whoever serves": replace(
        CLOSED, enough=None, replicas=replicas(0, wanted=0)
    ),
    "open by the manifests, whoever serves": replace(OPEN, enough=None),
}

CHANGES = {
    "armed with as many as it takes": (OPEN, "Fail", "2 replicas are Ready"),
    "armed with one where one is said to do": (
        replace(OPEN, enough="1", replicas=replicas(1, wanted=1)),
        "Fail",
        "1 replicas are Ready",
    ),
    "armed again after it was put back a few times": (
        replace(OPEN, armings=MOST_ARMINGS - 1),
        "Fail",
        "2 replicas are Ready",
    ),
    "disarmed when it is scaled to none, though some are Ready still": (
        replace(CLOSED, replicas=replicas(2, wanted=0)),
        "Ignore",
        "no replica is wanted",
    ),
    "disarmed by the last that leaves": (
        replace(CLOSED, replicas=replicas(0), leaving=True),
        "Ignore",
        "the last replica leaves",
    ),
    "disarmed when none has been Ready for long": (
        replace(CLOSED, replicas=replicas(0), unserved_seconds=UNSERVED_SECONDS),
        "Ignore",
        "no replica has been Ready for 60 s",
    ),
}


@pytest.mark.parametrize("observed", STAYS.values(), ids=STAYS)
def test_it_stays(observed: Observed) -> None:
    assert decide(observed) == Decision()


@pytest.mark.parametrize(("observed", "policy", "why"), CHANGES.values(), ids=CHANGES)
def test_it_is(observed: Observed, policy: str, why: str) -> None:
    assert decide(observed) == Decision(policy=policy, why=why)  # type: ignore[arg-type]  # one of the two


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("said", ["", "0", "-1", "two", "1.5", " 2", "2\n", "\u0662", "9" * 5000])
def test_a_number_that_cannot_be_meant_is_told_and_nothing_done(policy: str, said: str) -> None:
    decision = decide(replace(OPEN, policy=policy, enough=said, replicas=replicas(0, wanted=0)))

    assert decision.policy is None
    assert decision.problem == (
        "annotation stationmaster.dev/fail-with-replicas: must be a number of replicas from 1 on:"
        f" {said!r}"
    )


def test_who_puts_it_back_each_time_is_not_fought() -> None:
    decision = decide(replace(OPEN, armings=MOST_ARMINGS))

    assert decision.policy is None
    assert "it was changed back 5 times within an hour" in decision.problem


DEPLOYMENTS: dict[str, tuple[dict[str, Any] | None, Replicas]] = {
    "none": (None, replicas(0, wanted=0)),
    "being deleted": (
        {
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"replicas": 2},
            "status": {"readyReplicas": 2},
        },
        replicas(0, wanted=0),
    ),
    "new": ({"metadata": {}, "spec": {"replicas": 2}}, replicas(0)),
    "in part": (
        {"metadata": {}, "spec": {"replicas": 3}, "status": {"readyReplicas": 1}},
        replicas(1, wanted=3),
    ),
    "without a number": ({"metadata": {}, "spec": {}, "status": {}}, replicas(0, wanted=1)),
}


@pytest.mark.parametrize(("found", "wanted"), DEPLOYMENTS.values(), ids=DEPLOYMENTS)
def test_the_deployment_is(found: dict[str, Any] | None, wanted: Replicas) -> None:
    assert Replicas.of(found) == wanted


# --- carried out ----------------------------------------------------------------------------------

MUTATING = Configuration("mutating", "00-stationmaster")
VALIDATING = Configuration("validating", "stationmaster")
DEPLOYMENT = "/apis/apps/v1/namespaces/ns/deployments/stationmaster"


class World:
    """An API server with both configurations, a Deployment, and one replica that holds the Lease."""

    def __init__(self) -> None:
        self.api = FakeCalls()
        self.clock = FakeClock()
        self.log = io.BytesIO()
        self.holds_lease = True
        self.trusted = b"ours"
        self.injector = Injector(self.api, (MUTATING, VALIDATING))
        self.arming = Arming(
            self.api,
            webhook="jobs.x",
            deployment=DEPLOYMENT,
            monotonic=self.clock.monotonic,
            may_write=self.may_write,
            logger=logs.build(self.log),
        )
        self.scale(2, 2)
        self.apply()

    async def may_write(self) -> bool:
        await asyncio.sleep(0)
        return self.holds_lease

    def scale(self, wanted: int, ready: int) -> None:
        obj = {"spec": {"replicas": wanted}, "status": {"readyReplicas": ready}}
        self.api.put(DEPLOYMENT, obj)

    def apply(self, *, annotations: dict[str, str] | None = None) -> None:
        """As the manifests have it."""
        for each in (MUTATING, VALIDATING):
            self.api.put(
                each.path,
                {
                    "metadata": {
                        "name": each.name,
                        "annotations": {ANNOTATION: "2"} if annotations is None else annotations,
                    },
                    "webhooks": [webhook("others.x"), webhook("jobs.x")],
                },
            )

    async def look(self, *, leaving: bool = False) -> tuple[str, ...]:
        published = await self.injector.read()
        return await self.arming.look(published, lambda _: bool(self.trusted), leaving=leaving)

    def policies(self) -> list[str]:
        return [
            each["failurePolicy"]
            for configuration in (MUTATING, VALIDATING)
            for each in self.api.objects[configuration.path]["webhooks"]
        ]


def webhook(name: str) -> dict[str, Any]:
    return {"name": name, "clientConfig": {"service": {"name": "s"}}, "failurePolicy": "Ignore"}


DISARMED = ["Ignore"] * 4
ARMED = ["Ignore", "Fail", "Ignore", "Fail"]


@pytest.fixture
def world() -> World:
    return World()


async def test_only_the_named_entries_are_armed_and_nothing_else_of_them(world: World) -> None:
    before = {each: world.api.objects[each.path]["webhooks"] for each in (MUTATING, VALIDATING)}

    assert await world.look() == ()

    assert world.policies() == ARMED
    for configuration, webhooks in before.items():
        webhooks[1]["failurePolicy"] = "Fail"
        assert world.api.objects[configuration.path]["webhooks"] == webhooks


async def test_what_is_armed_is_written_once(world: World) -> None:
    await world.look()
    world.api.calls.clear()

    assert await world.look() == ()
    assert world.api.writes == []


async def test_a_node_that_is_drained_changes_nothing_and_the_last_replica_disarms(
    world: World,
) -> None:
    await world.look()

    world.scale(2, 1)
    await world.look()
    await world.look(leaving=True)
    assert world.policies() == ARMED
    world.scale(2, 0)
    await world.look(leaving=True)
    assert world.policies() == DISARMED


async def test_none_ready_disarms_after_a_while_and_two_arm_again(world: World) -> None:
    await world.look()
    world.scale(2, 0)
    for _ in range(6):
        await world.look()
        assert world.policies() == ARMED
        world.clock.pass_by(10)
    await world.look()
    assert world.policies() == DISARMED

    world.scale(2, 1)
    await world.look()
    assert world.policies() == DISARMED
    world.scale(2, 2)
    await world.look()
    assert world.policies() == ARMED


async def test_a_new_holder_does_not_count_the_time_before_it_looked(world: World) -> None:
    await world.look()
    world.scale(2, 0)
    world.clock.pass_by(86400)

    await world.look()

    assert world.policies() == ARMED


async def test_applying_the_manifests_again_is_mended_in_the_next_round(world: World) -> None:
    await world.look()
    world.apply()

    await world.look()

    assert world.policies() == ARMED


async def test_a_tool_that_puts_the_manifests_back_is_not_fought_and_an_hour_later_tried_again(
    world: World,
) -> None:
    for _ in range(MOST_ARMINGS):
        assert await world.look() == ()
        assert world.policies() == ARMED
        world.apply()
        world.clock.pass_by(180)

    problems = await world.look()

    assert world.policies() == DISARMED
    assert [each.split(":")[0] for each in problems] == [
        "mutating/00-stationmaster/jobs.x",
        "validating/stationmaster/jobs.x",
    ]
    world.clock.pass_by(ARMINGS_SECONDS)
    assert await world.look() == ()
    assert world.policies() == ARMED


async def test_without_the_annotation_nothing_is_touched(world: World) -> None:
    world.apply(annotations={})

    assert await world.look() == ()
    assert world.policies() == DISARMED


async def test_a_bundle_that_does_not_trust_us_is_not_armed(world: World) -> None:
    world.trusted = b""

    assert await world.look() == ()
    assert world.policies() == DISARMED


async def test_b147_who_has_lost_the_lease_does_not_write(world: World) -> None:
    world.holds_lease = False

    assert await world.look() == ()
    assert world.policies() == DISARMED


async def test_a_configuration_that_was_written_meanwhile_is_left_for_the_next_round(
    world: World,
) -> None:
    published = await world.injector.read()
    world.apply(
        annotations={}
    )  # for instance: the bundle is gone, or arming is not wanted any more

    assert await world.arming.look(published, lambda _: True) == ()
    assert world.policies() == DISARMED


async def test_where_the_number_of_replicas_is_not_known_nothing_is_done(world: World) -> None:
    await world.look()
    world.clock.pass_by(UNSERVED_SECONDS)

    def fail(_method: str, path: str) -> None:
        if path == DEPLOYMENT:
            raise ApiError(403, "Forbidden", "no RBAC")

    world.api.before = fail

    assert await world.look() == (f"{DEPLOYMENT}: 403 Forbidden: no RBAC",)
    assert world.policies() == ARMED


async def test_one_that_cannot_be_written_is_told_and_the_other_is_armed(world: World) -> None:
    def fail(method: str, path: str) -> None:
        if (method, path) == ("PATCH", MUTATING.path):
            raise Unreachable("no answer in time")

    world.api.before = fail

    assert await world.look() == ("mutating/00-stationmaster/jobs.x: no answer in time",)
    assert world.policies() == ["Ignore", "Ignore", "Ignore", "Fail"]


async def test_the_log_says_who_was_armed_and_why(world: World) -> None:
    await world.look()

    first = world.log.getvalue().splitlines()[0]
    assert b'"webhook":"mutating/00-stationmaster/jobs.x"' in first
    assert b'"policy":"Fail","why":"2 replicas are Ready"' in first


# --- any order ------------------------------------------------------------------------------------

READY = st.integers(min_value=0, max_value=3)
STEP = st.one_of(
    st.tuples(st.just("scale"), READY),
    st.tuples(st.just("ready"), READY),
    st.tuples(st.just("time"), st.sampled_from([10, 59, 60, 600, 3600])),
    st.tuples(st.just("apply"), st.none()),
    st.tuples(st.just("trust"), st.booleans()),
    st.tuples(st.just("leave"), st.none()),
)


@given(st.lists(STEP, max_size=40))
def test_whatever_happens_it_fails_closed_only_where_somebody_answers(
    steps: list[tuple[str, Any]],
) -> None:
    asyncio.run(tell(steps))


async def tell(steps: list[tuple[str, Any]]) -> None:
    world = World()
    wanted = ready = 2
    armed_at: list[float] = []
    for what, value in steps:
        was_armed, leaving = world.policies() == ARMED, what == "leave"
        match what:
            case "scale":
                wanted = value
            case "ready":
                ready = value
            case "time":
                world.clock.pass_by(value)
            case "apply":
                world.apply()
                was_armed = False
            case "trust":
                world.trusted = b"ours" if value else b""
        world.scale(wanted, ready)
        now = world.clock.seconds

        await world.look(leaving=leaving)

        is_armed = world.policies() == ARMED
        assert is_armed or world.policies() == DISARMED
        if is_armed:
            assert wanted
            assert ready or not leaving
            assert ready or was_armed  # for a minute at most, which the holder sees: see above
        if is_armed and not was_armed:
            assert ready >= 2
            assert world.trusted
            armed_at.append(now)
        if was_armed and not is_armed:
            assert not wanted or not ready
        assert len([each for each in armed_at if now - each < ARMINGS_SECONDS]) <= MOST_ARMINGS
