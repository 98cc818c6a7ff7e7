from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.webhook.kube.fake_calls import FakeCalls
from webhook.kube.client import ApiError, Unreachable
from webhook.kube.injector import Configuration, Injector

MUTATING = Configuration("mutating", "00-stationmaster")
VALIDATING = Configuration("validating", "stationmaster")
BOTH = (MUTATING, VALIDATING)
BUNDLE = b"-----BEGIN CERTIFICATE-----"


def configuration(name: str, *webhooks: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "webhooks": [
            {"name": each, "clientConfig": {"service": {"name": "s"}}} for each in webhooks
        ],
    }


@pytest.fixture
def api() -> FakeCalls:
    api = FakeCalls()
    for each in BOTH:
        api.put(each.path, configuration(each.name, "a.x", "b.x"))
    return api


@pytest.fixture
def injector(api: FakeCalls) -> Injector:
    return Injector(api, BOTH)


def found(api: FakeCalls, of: Configuration) -> list[bytes]:
    return [
        base64.b64decode(each["clientConfig"].get("caBundle", ""))
        for each in api.objects[of.path]["webhooks"]
    ]


def test_both_kinds_have_their_own_paths() -> None:
    prefix = "/apis/admissionregistration.k8s.io/v1"

    assert MUTATING.path == f"{prefix}/mutatingwebhookconfigurations/00-stationmaster"
    assert VALIDATING.path == f"{prefix}/validatingwebhookconfigurations/stationmaster"


async def test_every_webhook_of_both_is_read_and_filled(api: FakeCalls, injector: Injector) -> None:
    published = await injector.read()

    assert list(published.bundles) == [each.place(name) for each in BOTH for name in ("a.x", "b.x")]
    assert set(published.bundles.values()) == {b""}

    assert await injector.publish(BUNDLE, list(published.bundles), published) == ()
    assert found(api, MUTATING) == found(api, VALIDATING) == [BUNDLE, BUNDLE]


@pytest.mark.parametrize("wiped", [(MUTATING,), (VALIDATING,), BOTH])
async def test_b130_what_a_reapplied_chart_cleared_is_restored_and_nothing_else_is_sent(
    api: FakeCalls, injector: Injector, wiped: tuple[Configuration, ...]
) -> None:
    first = await injector.read()
    await injector.publish(BUNDLE, list(first.bundles), first)
    for each in wiped:
        api.put(each.path, configuration(each.name, "a.x", "b.x"))
    api.calls.clear()

    again = await injector.read()
    await injector.publish(BUNDLE, list(again.bundles), again)

    assert api.writes == [("PATCH", each.path) for each in wiped]
    assert found(api, MUTATING) == found(api, VALIDATING) == [BUNDLE, BUNDLE]


async def test_only_the_places_that_are_named_are_written(
    api: FakeCalls, injector: Injector
) -> None:
    published = await injector.read()

    await injector.publish(BUNDLE, [MUTATING.place("b.x")], published)

    assert found(api, MUTATING) == [b"", BUNDLE]
    assert found(api, VALIDATING) == [b"", b""]


async def test_one_that_is_missing_is_told_and_the_other_is_filled(
    api: FakeCalls, injector: Injector
) -> None:
    del api.objects[MUTATING.path]

    published = await injector.read()
    await injector.publish(BUNDLE, list(published.bundles), published)

    assert published.problems == ("mutating/00-stationmaster does not exist",)
    assert found(api, VALIDATING) == [BUNDLE, BUNDLE]


async def test_b132_one_that_cannot_be_read_counts_as_untrusting_and_the_other_is_filled(
    api: FakeCalls, injector: Injector
) -> None:
    def fail(_method: str, path: str) -> None:
        if path == MUTATING.path:
            raise ApiError(500, "InternalError", "conversion webhook failed")

    api.before = fail

    published = await injector.read()
    await injector.publish(BUNDLE, list(published.bundles), published)

    assert published.bundles["mutating/00-stationmaster/?"] == b""
    assert "conversion webhook failed" in published.problems[0]
    assert found(api, VALIDATING) == [BUNDLE, BUNDLE]


async def test_one_that_cannot_be_written_is_told_and_the_other_is_filled(
    api: FakeCalls, injector: Injector
) -> None:
    published = await injector.read()

    def fail(method: str, path: str) -> None:
        if (method, path) == ("PATCH", MUTATING.path):
            raise Unreachable("no answer in time")

    api.before = fail
    problems = await injector.publish(BUNDLE, list(published.bundles), published)

    assert problems == ("mutating/00-stationmaster: no answer in time",)
    assert found(api, VALIDATING) == [BUNDLE, BUNDLE]


async def test_who_wrote_in_between_is_not_written_over(api: FakeCalls, injector: Injector) -> None:
    published = await injector.read()
    api.put(MUTATING.path, configuration(MUTATING.name, "b.x", "a.x"))

    problems = await injector.publish(BUNDLE, list(published.bundles), published)

    assert problems == ()
    assert found(api, MUTATING) == [b"", b""]
