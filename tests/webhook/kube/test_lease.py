from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.webhook.kube.fake_calls import FakeCalls, FakeClock
from webhook.kube.client import Unreachable
from webhook.kube.lease import LEASE_SECONDS, RENEW_SECONDS, Clock, Elector

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/stationmaster"


@pytest.fixture
def api() -> FakeCalls:
    return FakeCalls()


@pytest.fixture
def time() -> FakeClock:
    return FakeClock()


def elector(api: FakeCalls, time: FakeClock, identity: str) -> Elector:
    clock = Clock(now=time.now, monotonic=time.monotonic, sleep=time.sleep)
    return Elector(api, namespace="ns", name="stationmaster", identity=identity, clock=clock)


@pytest.fixture
def first(api: FakeCalls, time: FakeClock) -> Elector:
    return elector(api, time, "a")


@pytest.fixture
def second(api: FakeCalls, time: FakeClock) -> Elector:
    return elector(api, time, "b")


def holds(one: Elector) -> bool:
    """A function, since mypy takes a property for a constant."""
    return one.is_holder


def spec(api: FakeCalls) -> dict[str, Any]:
    found: dict[str, Any] = api.objects[PATH]["spec"]
    return found


async def test_who_comes_first_holds_it(api: FakeCalls, first: Elector, second: Elector) -> None:
    assert not first.is_holder

    await first.attempt()
    await second.attempt()

    assert (first.is_holder, second.is_holder) == (True, False)
    assert spec(api)["holderIdentity"] == "a"
    assert spec(api)["leaseTransitions"] == 0
    assert spec(api)["renewTime"].endswith("Z")


async def test_renewing_changes_the_time_and_not_the_holder(
    api: FakeCalls, time: FakeClock, first: Elector
) -> None:
    await first.attempt()
    before = spec(api)
    time.pass_by(2)

    await first.attempt()

    changed = {key for key, value in spec(api).items() if before[key] != value}
    assert changed == {"renewTime"}


async def test_one_that_is_renewed_is_never_taken(
    time: FakeClock, first: Elector, second: Elector
) -> None:
    for _ in range(30):
        await first.attempt()
        await second.attempt()
        assert not second.is_holder
        time.pass_by(2)


async def test_one_that_is_not_renewed_is_taken_after_its_time_by_our_own_clock(
    api: FakeCalls, time: FakeClock, first: Elector, second: Elector
) -> None:
    await first.attempt()
    time.pass_by(1000)  # before the second looked for the first time, which tells it nothing

    await second.attempt()
    assert not holds(second)
    time.pass_by(LEASE_SECONDS)
    await second.attempt()

    assert second.is_holder
    assert spec(api)["leaseTransitions"] == 1


async def test_there_are_never_two(time: FakeClock, first: Elector, second: Elector) -> None:
    await first.attempt()
    await second.attempt()

    for _ in range(40):  # the first one is cut off
        time.pass_by(0.5)
        await second.attempt()
        assert not (first.is_holder and second.is_holder)

    assert second.is_holder


async def test_of_two_who_take_it_at_once_one_gets_it(
    api: FakeCalls, time: FakeClock, first: Elector, second: Elector
) -> None:
    await asyncio.gather(first.attempt(), second.attempt())

    assert sorted([first.is_holder, second.is_holder]) == [False, True]
    time.pass_by(RENEW_SECONDS)
    assert not first.is_holder
    assert not second.is_holder
    del api.objects[PATH]
    await asyncio.gather(first.attempt(), second.attempt())
    assert sorted([first.is_holder, second.is_holder]) == [False, True]


async def test_b147_who_was_paused_finds_that_it_holds_nothing_before_it_asks(
    time: FakeClock, first: Elector, second: Elector
) -> None:
    await first.attempt()
    await second.attempt()
    time.pass_by(60)  # SIGSTOP
    await second.attempt()

    assert not first.is_holder
    assert not await first.confirm()
    await first.attempt()
    assert not first.is_holder


async def test_b147_the_api_server_is_asked_before_a_write(api: FakeCalls, first: Elector) -> None:
    await first.attempt()
    assert await first.confirm()

    taken = api.objects[PATH]
    api.put(PATH, {**taken, "spec": {**taken["spec"], "holderIdentity": "b"}})

    assert first.is_holder  # by its own clock
    assert not await first.confirm()


async def test_b133_after_a_minute_of_failures_it_takes_part_again(
    api: FakeCalls, time: FakeClock, first: Elector
) -> None:
    await first.attempt()

    def fail(_method: str, _path: str) -> None:
        raise Unreachable("connection refused")

    api.before = fail
    for _ in range(30):
        time.pass_by(2)
        await first.attempt()
    assert not holds(first)
    assert first.last_problem == "connection refused"
    assert first.problem() is None  # the loop turns: nothing that a restart would cure

    api.before = lambda _method, _path: None
    await first.attempt()

    assert first.is_holder
    assert not first.last_problem


async def test_b133_a_loop_that_has_stopped_shows(time: FakeClock, first: Elector) -> None:
    await first.attempt()
    time.pass_by(61)

    assert first.problem() == "the election has not been attempted for 61 s"


async def test_the_loop_goes_on_until_it_is_cancelled(
    api: FakeCalls, time: FakeClock, first: Elector
) -> None:
    task = asyncio.create_task(first.run())
    while time.seconds < 1100:  # noqa: ASYNC110  # each pass is a sleep of the loop's
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert first.is_holder
    assert len(api.writes) >= 50


async def test_who_leaves_lets_the_next_one_in_at_once(
    api: FakeCalls, first: Elector, second: Elector
) -> None:
    await first.attempt()
    await second.attempt()

    await first.release()
    await second.attempt()

    assert (first.is_holder, second.is_holder) == (False, True)
    assert spec(api)["leaseTransitions"] == 1


async def test_who_holds_nothing_releases_nothing(
    api: FakeCalls, first: Elector, second: Elector
) -> None:
    await first.attempt()
    api.calls.clear()

    await second.release()

    assert api.calls == []


async def test_who_only_takes_part_gives_it_back_on_the_way_out(
    api: FakeCalls, first: Elector
) -> None:
    task = asyncio.create_task(first.take_part())
    while not first.is_holder:  # noqa: ASYNC110  # each pass is a step of the loop's
        await asyncio.sleep(0)
    assert spec(api)["holderIdentity"] == first.identity
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert spec(api)["holderIdentity"] == ""
