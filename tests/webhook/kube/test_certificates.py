"""Replicas, their Lease, the Secret and the configurations, over an API server with faults."""

from __future__ import annotations

import asyncio
import io
import ssl
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from certs import stored
from certs.keypair import Front
from certs.rotation import Settings
from tests.certs.handshake import Seen, client_context, shake
from tests.webhook.fakes import LIMIT
from tests.webhook.kube.fake_calls import FakeCalls, FakeClock
from webhook import logs
from webhook.kube.arming import ANNOTATION, Arming
from webhook.kube.certificates import Keeper
from webhook.kube.client import ApiError, Unreachable
from webhook.kube.injector import Configuration, Injector
from webhook.kube.lease import Clock, Elector
from webhook.kube.secret import SecretStore
from webhook.kube.tie import Tie

HOST = "stationmaster.ns.svc"
SECRET = "/api/v1/namespaces/ns/secrets/certs"
DEPLOYMENT = "/apis/apps/v1/namespaces/ns/deployments/stationmaster"
CONFIGURATIONS = (
    Configuration("mutating", "00-stationmaster"),
    Configuration("validating", "stationmaster"),
)
DAY = 86400.0


@dataclass
class Ends:
    seen: dict[str, datetime] = field(default_factory=dict)

    def certificate(self, which: str, not_after: datetime) -> None:
        self.seen[which] = not_after


class Holder(Elector):
    """Renews its Lease meanwhile, as the loop beside the round does."""

    @property
    def is_holder(self) -> bool:
        return True

    async def confirm(self) -> bool:
        lease: object = await self._calls.get(self._path)
        return lease is not None


class Replica:
    def __init__(
        self,
        api: FakeCalls,
        time: FakeClock,
        identity: str,
        elector: type[Elector] = Elector,
    ) -> None:
        self.front = Front()
        self.ends = Ends()
        self.log = io.BytesIO()
        clock = Clock(now=time.now, monotonic=time.monotonic, sleep=time.sleep)
        logger = logs.build(self.log)
        self.elector = elector(
            api, namespace="ns", name="stationmaster", identity=identity, clock=clock
        )
        self.keeper = Keeper(
            secret=SecretStore(api, namespace="ns", name="certs"),
            injector=Injector(api, CONFIGURATIONS),
            elector=self.elector,
            settings=Settings(names=(HOST,)),
            front=self.front,
            counter=self.ends,
            logger=logger,
            clock=clock,
            verifier_time=api.server_time,
            tie=Tie(api, CONFIGURATIONS, namespace="ns"),
            arming=Arming(
                api,
                webhook="a.x",
                deployment=DEPLOYMENT,
                monotonic=clock.monotonic,
                may_write=self.elector.confirm,
                logger=logger,
            ),
        )

    async def turn(self) -> None:
        await self.elector.attempt()
        await self.keeper.look()

    def handshake(self, trusted: bytes) -> Seen:
        return shake(self.front.context, client_context(trusted), HOST)


def configuration(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "webhooks": [{"name": "a.x", "clientConfig": {"service": {"name": "s"}}}],
    }


@pytest.fixture
def api() -> FakeCalls:
    api = FakeCalls()
    for each in CONFIGURATIONS:
        api.put(each.path, configuration(each.name))
    return api


@pytest.fixture
def time() -> FakeClock:
    return FakeClock()


@pytest.fixture
def first(api: FakeCalls, time: FakeClock) -> Replica:
    return Replica(api, time, "a")


@pytest.fixture
def second(api: FakeCalls, time: FakeClock) -> Replica:
    return Replica(api, time, "b")


async def trusted(api: FakeCalls) -> list[bytes]:
    bundles = (await Injector(api, CONFIGURATIONS).read()).bundles
    return list(bundles.values())


async def check_good(api: FakeCalls, *replicas: Replica) -> None:
    for bundle in await trusted(api):
        for replica in replicas:
            replica.handshake(bundle)


async def test_the_first_round_installs_and_both_serve_the_same(
    api: FakeCalls, first: Replica, second: Replica
) -> None:
    assert "nothing has been read yet" in (first.keeper.unready() or "")

    await first.turn()
    await second.turn()

    assert first.keeper.unready() is second.keeper.unready() is None
    await check_good(api, first, second)
    bundle = (await trusted(api))[0]
    assert first.handshake(bundle).certificate == second.handshake(bundle).certificate
    assert set(first.ends.seen) == {"ca", "leaf"}


async def test_b123_replicas_that_start_at_once_serve_the_same(
    api: FakeCalls, first: Replica, second: Replica
) -> None:
    for _ in range(3):
        await asyncio.gather(first.turn(), second.turn())

    await check_good(api, first, second)
    bundle = (await trusted(api))[0]
    assert first.handshake(bundle).certificate == second.handshake(bundle).certificate


async def test_the_holder_ties_the_registration_to_the_namespace(
    api: FakeCalls, first: Replica
) -> None:
    api.put("/api/v1/namespaces/ns", {"metadata": {"name": "ns", "uid": "u1"}})

    await first.turn()

    for each in CONFIGURATIONS:
        assert api.objects[each.path]["metadata"]["ownerReferences"][0]["uid"] == "u1"
    await check_good(api, first)


async def test_who_holds_no_lease_writes_nothing(
    api: FakeCalls, first: Replica, second: Replica
) -> None:
    await first.turn()
    del api.objects[SECRET]
    api.calls.clear()

    await second.turn()

    assert api.writes == []
    assert "there is no Secret yet" in second.keeper.problems[0]


async def test_b147_a_holder_that_lost_the_lease_between_look_and_write_does_not_write(
    api: FakeCalls, time: FakeClock, first: Replica, second: Replica
) -> None:
    await first.turn()
    await second.turn()
    del api.objects[SECRET]
    paused: list[str] = []

    def pause(method: str, path: str) -> None:
        if (method, path) == ("GET", SECRET) and not paused:
            paused.append(path)
            time.pass_by(60)

    api.before = pause
    api.calls.clear()
    await first.keeper.look()

    assert api.writes == []
    await second.turn()
    await second.turn()
    assert second.elector.is_holder
    assert SECRET in api.objects


@pytest.mark.parametrize("wiped", [CONFIGURATIONS[:1], CONFIGURATIONS[1:], CONFIGURATIONS])
async def test_b130_wiped_bundles_are_back_after_one_round(
    api: FakeCalls, first: Replica, wiped: tuple[Configuration, ...]
) -> None:
    await first.turn()
    for each in wiped:
        api.put(each.path, configuration(each.name))

    await first.turn()

    await check_good(api, first)


async def test_a_deleted_secret_comes_back_and_no_handshake_fails_meanwhile(
    api: FakeCalls, time: FakeClock, first: Replica, second: Replica
) -> None:
    await first.turn()
    await second.turn()
    before = (await trusted(api))[0]
    del api.objects[SECRET]

    for _ in range(8):
        time.pass_by(10)
        await first.turn()
        await check_good(api, first, second)  # the second one has not seen anything of it
        await second.turn()
        await check_good(api, first, second)

    assert (await trusted(api))[0] != before
    assert first.keeper.problems == second.keeper.problems == ()


async def test_the_old_pair_serves_while_the_secret_is_broken(
    api: FakeCalls, first: Replica, second: Replica
) -> None:
    await first.turn()
    await second.turn()
    api.objects[SECRET]["data"][stored.LEAF] = "Z2FyYmFnZQ=="

    await second.keeper.look()

    assert second.keeper.problems == ("tls.crt is broken",)
    assert second.keeper.unready() is None
    await check_good(api, second)


async def test_a_configuration_that_cannot_be_read_delays_the_rotation_and_nothing_else(
    api: FakeCalls, time: FakeClock, first: Replica
) -> None:
    await first.turn()
    leaf = api.objects[SECRET]["data"][stored.LEAF]

    def fail(_method: str, path: str) -> None:
        if path == CONFIGURATIONS[0].path:
            raise ApiError(403, "Forbidden", "no RBAC")

    api.before = fail
    time.pass_by(21 * DAY)
    await first.turn()

    assert api.objects[SECRET]["data"][stored.LEAF] != leaf
    assert any("no RBAC" in problem for problem in first.keeper.problems)
    assert len(api.calls) < 60


async def test_the_api_server_gone_is_no_reason_to_become_unready(
    api: FakeCalls, time: FakeClock, first: Replica
) -> None:
    await first.turn()

    def fail(_method: str, _path: str) -> None:
        raise Unreachable("connection refused")

    api.before = fail
    time.pass_by(DAY)
    await first.turn()

    assert first.keeper.unready() is None
    assert first.keeper.problems == ("connection refused", "lease: connection refused")
    time.pass_by(30 * DAY)
    assert "is not valid now" in (first.keeper.unready() or "")


async def test_b133_a_loop_that_has_stopped_shows(time: FakeClock, first: Replica) -> None:
    await first.turn()
    assert first.keeper.stalled() is None
    time.pass_by(300)

    assert first.keeper.stalled() == "nobody has looked after the certificates for 300 s"


@pytest.mark.parametrize("fails", [False, True])
async def test_an_api_server_that_is_slow_or_down_gets_nobody_restarted(
    api: FakeCalls, time: FakeClock, *, fails: bool
) -> None:
    """Each call takes as long as the client waits for it, in the longest round that there is."""
    replica = Replica(api, time, "a", Holder)
    stalled: list[str | None] = []

    def hold(_method: str, path: str) -> None:
        time.pass_by(30)
        stalled.append(replica.keeper.stalled())
        if fails and "configurations" not in path:
            raise Unreachable("no answer in time")

    await replica.turn()
    del api.objects[SECRET]
    api.before = hold
    await replica.keeper.look()

    assert len(stalled) >= (3 if fails else 20)
    assert set(stalled) == {None}


async def test_it_looks_again_and_again(api: FakeCalls, time: FakeClock) -> None:
    replica = Replica(api, time, "a", Holder)
    await replica.elector.attempt()
    async with asyncio.timeout(LIMIT):
        task = asyncio.create_task(replica.keeper.run())
        while replica.keeper.unready():  # noqa: ASYNC110  # a round of calls that never wait
            await asyncio.sleep(0)
        api.put(CONFIGURATIONS[0].path, configuration(CONFIGURATIONS[0].name))
        while b"" in await trusted(api):  # noqa: ASYNC110  # the same
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_who_is_woken_looks_at_once(api: FakeCalls) -> None:
    class Endless(FakeClock):
        async def sleep(self, seconds: float) -> None:  # noqa: ARG002  # as it is called
            await asyncio.Event().wait()

    clock = Endless()
    replica = Replica(api, clock, "a", Holder)
    await replica.elector.attempt()
    async with asyncio.timeout(LIMIT):
        task = asyncio.create_task(replica.keeper.run())
        while replica.keeper.unready():  # noqa: ASYNC110  # a round of calls that never wait
            await asyncio.sleep(0)
        api.put(CONFIGURATIONS[0].path, configuration(CONFIGURATIONS[0].name))
        while b"" in await trusted(api):
            clock.pass_by(1)
            replica.keeper.wake()
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_who_looked_just_now_is_not_woken(api: FakeCalls, time: FakeClock) -> None:
    """Anybody who reaches the port can fail a handshake, as often as he likes."""
    keeper = Replica(api, time, "a", Holder).keeper
    time.pass_by(0.9)
    keeper.wake()
    assert not keeper._woken.is_set()

    time.pass_by(0.1)
    keeper.wake()
    assert keeper._woken.is_set()


async def test_nothing_is_made_while_our_clock_and_the_api_servers_disagree(
    api: FakeCalls, time: FakeClock, first: Replica
) -> None:
    api.date = time.now() - timedelta(hours=3)

    await first.turn()

    assert SECRET not in api.objects
    assert "no certificate is made until they agree" in first.keeper.problems[0]


async def test_a_lease_that_cannot_be_had_is_told(api: FakeCalls, first: Replica) -> None:
    def fail(_method: str, path: str) -> None:
        if "/leases" in path:
            raise ApiError(403, "Forbidden", "no RBAC")

    api.before = fail
    await first.turn()

    assert "lease: 403 Forbidden: no RBAC" in first.keeper.problems


# --- when it fails closed -------------------------------------------------------------------------


@pytest.fixture
def served(api: FakeCalls) -> None:
    """By two; Fail is wanted, and not there yet."""
    for each in CONFIGURATIONS:
        obj = configuration(each.name)
        obj["metadata"]["annotations"] = {ANNOTATION: "2"}
        obj["webhooks"][0]["failurePolicy"] = "Ignore"
        api.put(each.path, obj)
    api.put(DEPLOYMENT, {"spec": {"replicas": 2}, "status": {"readyReplicas": 2}})


@pytest.mark.usefixtures("served")
async def test_fail_is_armed_in_the_round_that_makes_the_bundle_trust_what_is_served(
    api: FakeCalls, first: Replica
) -> None:
    when_armed: list[bool] = []

    def watch(method: str, path: str) -> None:
        if (method, path) == ("GET", DEPLOYMENT):
            bundles = [
                each["clientConfig"].get("caBundle")
                for one in CONFIGURATIONS
                for each in api.objects[one.path]["webhooks"]
            ]
            when_armed.append(all(bundles))

    api.before = watch
    await first.turn()

    assert when_armed == [True]
    assert policies(api) == ["Fail", "Fail"]
    await check_good(api, first)


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("how", ["has the Lease", "left", "crashed"])
async def test_the_last_one_disarms_whatever_the_holder_did_a_moment_before(
    api: FakeCalls, first: Replica, second: Replica, how: str
) -> None:
    await first.turn()
    await second.turn()
    api.put(DEPLOYMENT, {"spec": {"replicas": 0}, "status": {}})
    if how == "left":
        await first.elector.give_back()
    last = first if how == "has the Lease" else second
    assert last.elector.is_holder == (last is first)

    await last.keeper.leave()

    assert policies(api) == ["Ignore", "Ignore"]


@pytest.mark.usefixtures("served")
async def test_one_that_leaves_others_behind_disarms_nothing(
    api: FakeCalls, first: Replica, second: Replica
) -> None:
    await first.turn()
    await second.turn()

    await second.keeper.leave()
    await first.keeper.leave()

    assert policies(api) == ["Fail", "Fail"]


@pytest.mark.usefixtures("served")
async def test_who_leaves_tries_again_where_somebody_else_was_faster(
    api: FakeCalls, first: Replica
) -> None:
    """There is no next round that would look at it."""
    await first.turn()
    api.put(DEPLOYMENT, {"spec": {"replicas": 0}, "status": {}})
    others = [each.path for each in CONFIGURATIONS]

    def write(method: str, path: str) -> None:
        if method == "PATCH" and path in others:
            others.remove(path)
            api.put(path, api.objects[path])

    api.before = write
    await first.keeper.leave()

    assert others == []
    assert policies(api) == ["Ignore", "Ignore"]


def policies(api: FakeCalls) -> list[str]:
    return [api.objects[each.path]["webhooks"][0]["failurePolicy"] for each in CONFIGURATIONS]


async def test_before_there_is_a_pair_handshakes_fail(first: Replica, api: FakeCalls) -> None:
    await first.turn()
    bundle = (await trusted(api))[0]

    with pytest.raises(ssl.SSLError):
        shake(Front().context, client_context(bundle), HOST)
