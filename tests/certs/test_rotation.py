from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography import x509

from certs import authority, bundle, rotation, stored
from certs.rotation import Observed, Publish, Settings, Write
from tests.certs.world import HOST, PLACES, SETTINGS, START, World, is_verified

DAY = timedelta(days=1)


@pytest.fixture
def world() -> World:
    """Installed a moment ago."""
    world = World()
    world.settle()
    world.log.clear()
    return world


def leaf(world: World) -> bytes:
    assert world.secret is not None
    return world.secret[stored.LEAF]


def authorities(world: World) -> int:
    assert world.secret is not None
    return len(bundle.parse(world.secret[stored.CA]).authorities)


def action(world: World) -> Write | Publish | None:
    return world.decide().action


# --- the way it should go -------------------------------------------------------------------------


def test_the_first_installation_publishes_before_it_serves_and_does_not_wait() -> None:
    world = World()

    world.settle()

    assert world.log == ["make authority", "publish", "publish", "switch"]
    world.check_good()


def test_there_is_nothing_to_do_afterwards(world: World) -> None:
    assert rotation.decide(world.observed(), world.now, SETTINGS) == rotation.Step(action=None)


def test_the_first_installation_without_configurations_still_serves() -> None:
    world = World(places={})

    world.settle()

    assert rotation.serving(world.secret, world.now)[0] is not None


def test_a_leaf_is_renewed_two_thirds_through_its_life_by_the_same_authority(world: World) -> None:
    first = leaf(world)
    world.now += 20 * DAY

    world.settle()

    assert world.log == ["make leaf"]
    assert leaf(world) != first
    world.check_good()


def test_a_rotation_publishes_waits_switches_and_drops_the_old(world: World) -> None:
    world.run(243 * DAY, DAY)
    world.now += DAY
    world.log.clear()

    world.settle()
    during = list(world.log)
    world.now += SETTINGS.settle
    world.settle()
    switched = world.log[len(during) :]
    world.run(31 * DAY, DAY)

    assert during == ["make authority", "publish", "publish", "note publication"]
    assert switched == ["switch"]
    assert world.log[-3:] == ["drop old", "publish", "publish"]
    assert authorities(world) == 1
    world.check_good()


def test_while_the_new_authority_is_not_trusted_everywhere_the_old_one_signs(
    world: World,
) -> None:
    world.run(243 * DAY, DAY)
    world.now += DAY
    first = action(world)
    assert isinstance(first, Write)
    world.act(first)
    before = world.published()[PLACES[1]]

    for _ in range(60):  # days in which one configuration cannot be written
        world.now += DAY
        for _ in range(3):
            step = world.decide()
            if isinstance(step.action, Write):
                world.act(step.action)
            elif step.action:
                world.publish(replace(step.action, places=PLACES[:1]), world.versions())
        pair, _ = rotation.serving(world.secret, world.now)
        assert pair is not None
        assert is_verified(pair.certificate, before, world.now)

    assert world.log.count("make leaf") >= 2
    assert "switch" not in world.log[-8:]


def test_years_go_by_without_a_gap(world: World) -> None:
    world.run(1500 * DAY, 3 * DAY)

    assert world.log.count("switch") == 6
    assert authorities(world) <= 2
    world.check_good()


@pytest.mark.parametrize("algorithm", ["ecdsa", "rsa"])
def test_both_kinds_of_keys_are_verified(algorithm: authority.Algorithm) -> None:
    world = World(settings=replace(SETTINGS, algorithm=algorithm))

    world.settle()

    world.check_good()


# --- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [PLACES[:1], PLACES[1:], PLACES])
@pytest.mark.parametrize("left", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nhalf"])
def test_b130_a_bundle_that_was_reset_is_restored_and_nothing_else_is_done(
    world: World, places: tuple[str, ...], left: bytes
) -> None:
    for place in places:
        world.tamper(place, left)

    world.settle()

    assert world.log == ["publish"] * len(places)
    world.check_good()


def test_a_configuration_that_is_missing_stops_nobody_and_is_filled_when_it_comes_back(
    world: World,
) -> None:
    world.tamper(PLACES[0], None)
    world.run(300 * DAY, DAY)
    world.check_good()

    world.tamper(PLACES[0], b"")
    world.settle()

    world.check_good()


def test_a_deleted_secret_is_made_anew_while_what_is_served_stays_trusted(world: World) -> None:
    served = leaf(world)
    world.break_secret(None)

    world.settle()

    assert world.log == ["make authority", "publish", "publish", "note publication"]
    assert all(is_verified(served, each, world.now) for each in world.published().values())
    world.now += SETTINGS.settle
    world.settle()
    assert world.log[-1] == "switch"
    world.run(29 * DAY, DAY)
    assert all(is_verified(served, each, world.now) for each in world.published().values())
    world.check_good()


BROKEN: dict[str, tuple[Callable[[dict[str, bytes]], object], str]] = {
    "the bundle is gone": (lambda data: data.pop(stored.CA), "ca.crt is missing"),
    "the bundle is cut": (
        lambda data: data.update({stored.CA: data[stored.CA][:200]}),
        "ca.crt is broken",
    ),
    "the bundle holds no authority": (
        lambda data: data.update({stored.CA: data[stored.LEAF]}),
        "ca.crt is broken",
    ),
    "the authority's key is gone": (lambda data: data.pop(stored.CA_KEY), "ca.key is missing"),
    "the authority's key is cut": (
        lambda data: data.update({stored.CA_KEY: data[stored.CA_KEY][:50]}),
        "ca.key is broken",
    ),
    "the authority's key is another's": (
        lambda data: data.update({stored.CA_KEY: authority.create(START).key_pem()}),
        "ca.key belongs to no certificate in ca.crt",
    ),
    "the leaf is gone": (
        lambda data: data.pop(stored.LEAF),
        "tls.crt or tls.key is missing",
    ),
    "the leaf is cut": (
        lambda data: data.update({stored.LEAF: data[stored.LEAF][:99]}),
        "tls.crt is broken",
    ),
    "the leaf's key is cut": (
        lambda data: data.update({stored.LEAF_KEY: b""}),
        "tls.key is broken",
    ),
    "the leaf's key is another's": (
        lambda data: data.update({stored.LEAF_KEY: data[stored.CA_KEY]}),
        "tls.key does not belong to tls.crt",
    ),
    "the leaf is somebody else's": (
        lambda data: data.update(_strange_leaf()),
        "tls.crt is not signed by a certificate in ca.crt",
    ),
    "a time is none": (
        lambda data: data.update({stored.UNTIL: b"\xff"}),
        "trust-old-until is not a time",
    ),
}


def _strange_leaf() -> dict[str, bytes]:
    pair = authority.issue(authority.create(START), [HOST], START)
    return {stored.LEAF: pair.certificate, stored.LEAF_KEY: pair.key}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_secret_is_named_and_recovers(world: World, name: str) -> None:
    spoil, problem = BROKEN[name]
    data = dict(world.secret or {})
    spoil(data)
    world.break_secret(data)

    assert problem in world.decide().problems
    world.settle()
    world.now += SETTINGS.settle
    assert world.settle().problems == ()

    world.check_good()


def test_b123_a_half_filled_secret_is_never_served(world: World) -> None:
    half = {stored.LEAF: leaf(world)}

    pair, problem = rotation.serving(half, world.now)

    assert pair is None
    assert "ca.crt is missing" in (problem or "")


def test_b123_of_two_first_writers_one_wins_and_both_serve_the_same() -> None:
    world = World()
    first, second = (world.decide().action for _ in range(2))
    assert isinstance(first, Write)
    assert isinstance(second, Write)

    version = world.version
    assert world.write(first, version)
    assert not world.write(second, version)
    world.settle()

    assert world.log.count("make authority") == 1
    world.check_good()


@pytest.mark.parametrize("offset", [-DAY, timedelta(), DAY])
def test_b124_around_the_end_of_the_authority_nobody_is_refused(offset: timedelta) -> None:
    world = World()
    world.settle()
    world.run(365 * DAY + offset, DAY)

    world.check_good()


def test_b124_who_slept_until_the_day_before_publishes_both_before_a_leaf_of_the_new(
    world: World,
) -> None:
    world.now += 364 * DAY

    world.settle()
    both = authorities(world)
    world.now += SETTINGS.settle
    world.settle()

    assert both == 2
    world.check_good()


def test_b125_an_authority_that_ends_before_its_leaf_is_renewed_with_it() -> None:
    world = World()
    short = authority.create(START, life=timedelta(hours=2))
    pair = authority.issue(authority.create(START), [HOST], START, life=60 * DAY)
    world.secret = {
        stored.CA: short.pem,
        stored.CA_KEY: short.key_pem(),
        stored.LEAF: pair.certificate,
        stored.LEAF_KEY: pair.key,
    }
    world.now += timedelta(hours=1, minutes=58)

    world.settle()
    world.now += SETTINGS.settle
    world.settle()

    world.check_good()
    found = stored.read(world.secret)
    assert found.signer is not None
    assert found.leaf is not None
    assert found.signer.renew_at() > world.now
    assert found.leaf.pair.not_after <= found.signer.certificate.not_valid_after_utc


def test_b127_rotation_goes_on_after_the_first(world: World) -> None:
    quick = replace(SETTINGS, authority_life=timedelta(minutes=10), leaf_life=timedelta(minutes=10))
    world = World(settings=quick)
    world.settle()

    for _ in range(240):
        world.now += timedelta(seconds=10)
        world.settle()
        world.check_good()

    assert world.log.count("switch") - 1 >= 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"check": 90 * DAY}, "leaf_life: a third of it must be longer"),
        ({"check": timedelta()}, "check: must be positive"),
        ({"check": -DAY}, "check: must be positive"),
        ({"leaf_life": timedelta()}, "leaf_life: must be positive"),
        ({"leaf_life": 366 * DAY}, "leaf_life: must be at most authority_life"),
        ({"authority_life": -DAY}, "authority_life: must be positive"),
        ({"settle": -DAY}, "settle: must not be negative"),
        ({"settle": 10 * DAY}, "leaf_life: a third of it must be longer"),
        ({"leaf_life": timedelta(minutes=3)}, "leaf_life: a third of it must be longer"),
        ({"names": ()}, "names: must name"),
    ],
)
def test_b129_settings_that_let_certificates_expire_are_refused(
    change: dict[str, timedelta], problem: str
) -> None:
    values: dict[str, object] = {"names": (HOST,), **change}

    with pytest.raises(ValueError, match=problem):
        Settings(**values)  # type: ignore[arg-type]  # wrong on purpose


def test_b129_the_defaults_are_what_the_documents_say() -> None:
    assert (SETTINGS.authority_life, SETTINGS.leaf_life) == (365 * DAY, 30 * DAY)
    assert (SETTINGS.check, SETTINGS.settle) == (timedelta(seconds=10), timedelta(minutes=1))


# --- clocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("behind", [timedelta(minutes=5), timedelta(minutes=59)])
def test_a_verifier_whose_clock_is_behind_accepts_what_was_just_made(
    world: World, behind: timedelta
) -> None:
    bundles = world.published().values()

    assert all(is_verified(leaf(world), each, world.now - behind) for each in bundles)


@pytest.mark.parametrize("years", [1, 2, 30])
def test_after_a_long_sleep_everything_is_made_anew_without_a_wait(
    world: World, years: int
) -> None:
    world.now += years * 366 * DAY

    world.settle()

    world.check_good()


def test_a_pair_that_is_not_valid_now_is_not_served(world: World) -> None:
    early, late = world.now - DAY, world.now + 31 * DAY

    for moment in (early, late):
        pair, problem = rotation.serving(world.secret, moment)
        assert pair is None
        assert "not now" in (problem or "")


def test_an_authority_of_the_future_is_reported_and_not_rotated_on(world: World) -> None:
    world.now -= DAY

    step = world.decide()

    assert step.action is None
    assert "this clock is behind" in step.problems[0]


def test_it_is_rotated_on_when_the_api_server_agrees_about_the_time(world: World) -> None:
    world.now -= DAY
    observed = replace(world.observed(), verifier_time=world.now)

    step = rotation.decide(observed, world.now, SETTINGS)

    assert isinstance(step.action, Write)
    assert step.action.reason == "make authority"


def test_nothing_is_made_by_a_clock_that_the_api_server_contradicts(world: World) -> None:
    truth = world.now
    world.now += 400 * DAY
    observed = replace(world.observed(), verifier_time=truth)

    step = rotation.decide(observed, world.now, SETTINGS)

    assert not (
        isinstance(step.action, Write) and step.action.reason in {"make authority", "switch"}
    )
    assert any("until they agree" in problem for problem in step.problems)


# --- settings that change -------------------------------------------------------------------------


def test_a_name_that_is_wanted_now_is_put_on_a_new_leaf(world: World) -> None:
    world.settings = replace(SETTINGS, names=(HOST, "stationmaster.elsewhere.svc"))

    world.settle()

    assert world.log == ["make leaf"]
    names = x509.load_pem_x509_certificate(leaf(world)).extensions
    assert "stationmaster.elsewhere.svc" in str(names)


def test_keys_are_not_shown_when_an_action_is_printed() -> None:
    assert "PRIVATE" not in repr(World().decide())


def test_the_secret_is_what_it_was_read_from(world: World) -> None:
    assert stored.read(world.secret or {}).data() == world.secret


def test_a_replica_without_a_secret_says_so() -> None:
    assert rotation.serving(None, START) == (None, "there is no Secret yet")


def test_bundles_in_configurations_are_no_reason_to_forget_a_secret(world: World) -> None:
    strange = authority.create(START)
    observed = Observed(secret=world.secret, published={PLACES[0]: strange.pem})

    step = rotation.decide(observed, world.now, SETTINGS)

    assert step.action == Publish(bundle=(world.secret or {})[stored.CA], places=PLACES[:1])
