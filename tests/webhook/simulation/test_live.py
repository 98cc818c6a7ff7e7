"""A cluster read once: page by page, at a pace, and what happens where the API server does not want to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from plugins.framework import lines
from plugins.framework.cluster import TRAIN_JOB_CRD
from plugins.framework.errors import ConfigError
from tests.builders import Json
from webhook.kube import resources
from webhook.kube.client import ApiError, Query, Unreachable
from webhook.simulation import live
from webhook.simulation.listing import CALLS_A_SECOND, Lists

JOBS = "/apis/trainer.kubeflow.org/v1alpha1/trainjobs"


@dataclass
class Api:
    """Says what it is told to; remembers what it was asked, and how long it was left alone."""

    objects: dict[str, list[Json]] = field(default_factory=dict)
    failures: list[Exception | None] = field(default_factory=list)
    """For one call each; None: it is answered."""
    forbidden: str = ""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    time: float = 0.0
    slept: list[float] = field(default_factory=list)

    async def get(self, path: str, query: Query | None = None, *, accept: str = "") -> Any:
        del accept
        query = dict(query or {})
        self.asked.append((path, query))
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        if self.forbidden and path.endswith(self.forbidden):
            raise ApiError(403, "Forbidden", "no")
        if path not in self.objects:
            raise ApiError(404, "NotFound", "no such kind")
        items = self.objects[path]
        begin, limit = int(query.get("continue", "0")), int(query["limit"])
        metadata: Json = {"resourceVersion": "1"}
        if begin + limit < len(items):
            metadata["continue"] = str(begin + limit)
            metadata["remainingItemCount"] = len(items) - begin - limit
        return {"metadata": metadata, "items": items[begin : begin + limit]}

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.time += seconds

    @property
    def lists(self) -> Lists:
        return Lists(api=self, clock=lambda: self.time, sleep=self.sleep, page=2)


def named(*names: str, namespace: str = "team") -> list[Json]:
    return [{"metadata": {"name": name, "namespace": namespace}} for name in names]


async def read(lists: Lists, path: str = JOBS) -> list[tuple[list[str], int | None]]:
    return [
        ([item["metadata"]["name"] for item in page.items], page.left)
        async for page in lists.pages(path)
    ]


def test_pages_come_one_by_one_and_say_how_many_are_left() -> None:
    api = Api({JOBS: named("a", "b", "c", "d", "e")})
    assert asyncio.run(read(api.lists)) == [(["a", "b"], 3), (["c", "d"], 1), (["e"], 0)]
    assert [query.get("limit") for _, query in api.asked] == ["2"] * 3


def test_no_more_calls_a_second_than_a_person_makes() -> None:
    api = Api({JOBS: named(*"abcdefgh")})
    asyncio.run(read(api.lists))
    assert api.slept == [1 / CALLS_A_SECOND] * 3


@pytest.mark.parametrize(
    "failure", [ApiError(429, "TooManyRequests", ""), ApiError(503, "", ""), Unreachable("cut")]
)
def test_who_is_busy_is_asked_again_after_longer_and_longer(failure: Exception) -> None:
    api = Api({JOBS: named("a")}, [failure, failure, failure])
    assert asyncio.run(read(api.lists)) == [(["a"], 0)]
    assert api.slept == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("failure", "calls"),
    [(ApiError(429, "TooManyRequests", ""), 5), (ApiError(403, "Forbidden", ""), 1)],
)
def test_who_goes_on_is_left_alone(failure: Exception, calls: int) -> None:
    api = Api({JOBS: named("a")}, [failure] * 9)
    with pytest.raises(ApiError):
        asyncio.run(read(api.lists))
    assert len(api.asked) == calls


def test_a_list_that_was_forgotten_begins_behind_what_was_seen() -> None:
    api = Api({JOBS: named("a", "b", "c", "d", "e")}, [None, ApiError(410, "Expired", "")])
    pages = asyncio.run(read(api.lists))
    assert [name for names, _ in pages for name in names] == ["a", "b", "c", "d", "e"]


def test_a_list_that_is_gone_from_the_first_is_an_error() -> None:
    api = Api({JOBS: named("a")}, [ApiError(410, "Expired", "")])
    with pytest.raises(ApiError, match="410"):
        asyncio.run(read(api.lists))


def test_no_page_is_asked_for_before_the_one_before_it_is_done_with() -> None:
    api = Api({JOBS: named("a", "b", "c")})
    with asyncio.Runner() as runner:
        pages = live.in_turn(runner, live.train_jobs(api.lists))
        next(pages)
        assert len(api.asked) == 1
        assert [len(page.items) for page in pages] == [1]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_who_may_not_list_train_jobs_hears_where(status: int) -> None:
    api = Api({}, [ApiError(status, "Forbidden", "no")])
    with (
        asyncio.Runner() as runner,
        pytest.raises(ConfigError, match="trainjobs in namespace team"),
    ):
        list(live.in_turn(runner, live.train_jobs(api.lists, "team")))
    assert api.asked[0][0] == "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs"


# Surroundings


def crd() -> Json:
    """As much of the TrainJob CRD as tells the line."""
    spec = {"properties": {"runtimePatches": {"x": "terminationGracePeriodSeconds"}}}
    schema = {"openAPIV3Schema": {"properties": {"spec": spec}}}
    return {
        "metadata": {"name": TRAIN_JOB_CRD},
        "spec": {"names": {"kind": "TrainJob"}, "versions": [{"schema": schema}]},
    }


def cluster() -> dict[str, list[Json]]:
    """Every list that is read, some of them with something in them."""
    found: dict[str, list[Json]] = {resource.path: [] for resource in resources.ALWAYS}
    found[resources.TRAIN_JOB_DEFINITION.path] = [crd()]
    found["/api/v1/namespaces"] = [{"metadata": {"name": "team", "labels": {"ring": "canary"}}}]
    found[live.DOCUMENTS["TrainJobPolicy"]] = [{"metadata": {"name": "a"}, "spec": {"priority": 1}}]
    found[live.CONFIG_MAPS] = [
        {
            "metadata": {
                "name": "limits",
                "namespace": "team",
                "labels": {"stationmaster.dev/params": ""},
            },
            "data": {"most": "1"},
        }
    ]
    return found


def test_each_kind_is_read_once_and_of_config_maps_those_with_the_label() -> None:
    api, told = Api(cluster()), list[str]()

    snapshot = asyncio.run(live.surroundings(api.lists, told.append))

    assert snapshot.crd_line is lines.LINES["2.3"]
    assert snapshot.served == frozenset({TRAIN_JOB_CRD})
    assert snapshot.namespaces["team"]["labels"] == {"ring": "canary"}
    assert set(snapshot.documents) == {
        ("TrainJobPolicy", "", "a"),
        ("ConfigMap", "team", "limits"),
    }
    asked = [
        (path, query.get("labelSelector"), query.get("fieldSelector")) for path, query in api.asked
    ]
    assert len(set(asked)) == len(asked) == len(told)
    assert (live.CONFIG_MAPS, "stationmaster.dev/params", None) in asked
    assert not any("secrets" in path or path.endswith("trainjobs") for path, _ in api.asked)


def test_a_cluster_without_trainjobs_is_none() -> None:
    api = Api({**cluster(), resources.TRAIN_JOB_DEFINITION.path: []})
    with pytest.raises(ConfigError, match="no TrainJobs"):
        asyncio.run(live.surroundings(api.lists, lambda _kind: None))


@pytest.mark.parametrize("plural", ["limitranges", "trainjobpolicies", "configmaps"])
def test_who_may_not_read_hears_what(plural: str) -> None:
    api = Api(cluster(), forbidden=plural)
    with pytest.raises(ConfigError, match=f"(?i)may not list {plural}.*in all namespaces"):
        asyncio.run(live.surroundings(api.lists, lambda _kind: None))
