from __future__ import annotations

from typing import Any

import pytest

from tests.webhook.kube.fake_calls import FakeCalls
from webhook.kube.client import ApiError
from webhook.kube.injector import Configuration
from webhook.kube.tie import Tie

CONFIGURATIONS = (
    Configuration("mutating", "00-stationmaster"),
    Configuration("validating", "stationmaster"),
)
NAMESPACE = "/api/v1/namespaces/ns"
OURS = {"apiVersion": "v1", "kind": "Namespace", "name": "ns", "uid": "u1"}


@pytest.fixture
def api() -> FakeCalls:
    api = FakeCalls()
    api.put(NAMESPACE, {"metadata": {"name": "ns", "uid": "u1"}})
    for each in CONFIGURATIONS:
        api.put(each.path, {"metadata": {"name": each.name}})
    return api


@pytest.fixture
def tie(api: FakeCalls) -> Tie:
    return Tie(api, CONFIGURATIONS, namespace="ns")


def owners(api: FakeCalls) -> list[Any]:
    return [api.objects[each.path]["metadata"].get("ownerReferences") for each in CONFIGURATIONS]


async def test_both_are_tied_once(api: FakeCalls, tie: Tie) -> None:
    assert await tie.look() == ()
    assert owners(api) == [[OURS], [OURS]]
    api.calls.clear()

    await tie.look()

    assert api.writes == []


async def test_other_owners_stay_and_a_namespace_that_was_is_forgotten(
    api: FakeCalls, tie: Tie
) -> None:
    other = {"apiVersion": "x/v1", "kind": "Operator", "name": "o", "uid": "u9"}
    before = [other, {**OURS, "uid": "u0"}]
    api.put(CONFIGURATIONS[0].path, {"metadata": {"name": "x", "ownerReferences": before}})

    await tie.look()

    assert owners(api)[0] == [other, OURS]


@pytest.mark.parametrize("state", ["gone", "ending"])
async def test_nothing_is_tied_to_a_namespace_that_ends(
    api: FakeCalls, tie: Tie, state: str
) -> None:
    if state == "gone":
        del api.objects[NAMESPACE]
    else:
        api.objects[NAMESPACE]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert await tie.look() == ()
    assert api.writes == []


async def test_one_that_is_missing_or_refused_does_not_keep_the_other_from_it(
    api: FakeCalls, tie: Tie
) -> None:
    def refuse(method: str, path: str) -> None:
        if (method, path) == ("PATCH", CONFIGURATIONS[0].path):
            raise ApiError(403, "Forbidden", "cannot set an ownerRef")

    api.before = refuse

    (problem,) = await tie.look()

    assert "cannot set an ownerRef" in problem
    assert owners(api) == [None, [OURS]]
    del api.objects[CONFIGURATIONS[0].path]
    assert await tie.look() == ()


async def test_a_namespace_that_cannot_be_read_is_told(api: FakeCalls, tie: Tie) -> None:
    def refuse(_method: str, path: str) -> None:
        raise ApiError(403, "Forbidden", path)

    api.before = refuse

    assert "403" in (await tie.look())[0]
