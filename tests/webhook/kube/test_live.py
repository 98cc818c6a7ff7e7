"""The two reads that a review may cause: what they give, what they cost, and what they never do."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from plugins.framework.api.trainjob import TrainJob
from plugins.framework.cluster import Snapshot
from plugins.framework.lines import LINES
from tests.webhook.kube.apiserver import ApiServer, status
from tests.webhook.kube.conftest import Time
from webhook.assembly import build_pipeline
from webhook.kube.client import Client
from webhook.kube.live import READS_AT_ONCE, Live, Policy, runtime_in
from webhook.kube.resources import ASKED, RUNTIMES, Resource
from webhook.kube.source import Source
from webhook.review import Reviewer

if TYPE_CHECKING:
    from aiohttp import web

PATH = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/fresh"
COPY = "/api/v1/namespaces/team-a/configmaps/demo-runtime-snapshot"


def runtime(nodes: int = 2, name: str = "fresh", cpu: str = "") -> dict[str, Any]:
    container: dict[str, Any] = {"name": "node", "image": "example.test/a:1"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    template = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": {
            "mlPolicy": {"numNodes": nodes, "torch": {}},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": template}]}},
        },
    }


def job(name: str = "fresh", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "demo", "namespace": "team-a", "uid": "u-9"},
        "spec": {"runtimeRef": {"name": name}, "suspend": True, **spec},
    }


def review(obj: dict[str, Any], old: dict[str, Any] | None = None, user: str = "alice") -> bytes:
    resource = {"group": "trainer.kubeflow.org", "version": "v1alpha1", "resource": "trainjobs"}
    request = {
        "uid": "r-1",
        "kind": {"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": "TrainJob"},
        "resource": resource,
        "namespace": "team-a",
        "name": "demo",
        "operation": "UPDATE" if old else "CREATE",
        "userInfo": {"username": user},
        "object": obj,
        "oldObject": old,
    }
    return orjson.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )


class World:
    """A source that knows what it is told, in front of the API server."""

    def __init__(
        self,
        server: ApiServer,
        client: Client,
        time: Time,
        stale: Policy,
        unread: Sequence[Resource] = (),
    ) -> None:
        self.server, self.time = server, time
        self.source = Source(client, [*RUNTIMES.values(), *unread], around=time.around())
        for reflector in self.source.reflectors[: len(RUNTIMES)]:
            reflector.synced, reflector._cut_since = True, None
        self.source.snapshot = Snapshot.of([])
        self.reviewer = Reviewer(
            build_pipeline(None),
            lambda: self.source.snapshot,
            line=LINES["2.3"],
            clock=time.clock,
            live=Live(client, self.source, clock=time.clock, stale=stale),
        )

    async def ask(self, body: bytes, seconds: float = 3.0) -> dict[str, Any]:
        answer = await self.reviewer.mutate(body, deadline=self.time.now + seconds)
        response: dict[str, Any] = orjson.loads(answer.body)["response"]
        return response

    @property
    def paths(self) -> list[str]:
        return [seen.path for seen in self.server.requests]


@pytest.fixture
def world(server: ApiServer, client: Client, time: Time) -> World:
    return World(server, client, time, "serve")


async def test_a_runtime_that_the_caches_lack_is_read_once(world: World) -> None:
    """B119: the job comes a moment after its runtime."""
    world.server.others[PATH] = runtime()

    answers = [await world.ask(review(job())) for _ in range(3)]

    assert [answer["allowed"] for answer in answers] == [True] * 3
    assert "patch" in answers[0]
    assert world.paths == [PATH]


async def test_jobs_at_the_same_time_share_one_read(world: World) -> None:
    world.server.others[PATH] = runtime()

    answers = await asyncio.gather(*(world.ask(review(job())) for _ in range(30)))

    assert all(answer["allowed"] for answer in answers)
    assert world.paths == [PATH]


async def test_a_known_runtime_is_not_read(world: World) -> None:
    world.source.snapshot = Snapshot.of([runtime()])

    assert (await world.ask(review(job())))["allowed"]
    assert world.paths == []


async def test_advice_that_cannot_be_read_refuses_nothing(
    server: ApiServer, client: Client, time: Time
) -> None:
    """A right that is missing after an upgrade, for instance."""
    advice = [resource for resource in ASKED if resource.advisory]
    world = World(server, client, time, "fail", advice)
    served = frozenset(resource.crd for resource in advice)
    world.source.snapshot = Snapshot.of([runtime()]).serving(served)
    time.now += 1000

    response = await world.ask(review(job()))

    assert world.source.unsynced() is not None
    assert response["allowed"]
    assert not any("judged by what was known" in said for said in response["warnings"])


async def test_absence_is_kept_for_a_second(world: World) -> None:
    world.server.get_trick = status(404, "NotFound")
    first = await world.ask(review(job()))
    second = await world.ask(review(job()))
    assert (first["status"]["code"], second["status"]["code"]) == (422, 422)
    assert world.paths == [PATH]

    world.server.get_trick = None
    world.server.others[PATH] = runtime()
    world.time.now += 1.1

    assert (await world.ask(review(job())))["allowed"]


@pytest.mark.parametrize("code", [403, 429, 500, 503])
async def test_a_read_that_fails_asks_to_come_back(world: World, code: int) -> None:
    world.server.get_trick = status(code)

    response = await world.ask(review(job()))

    assert not response["allowed"]
    assert (response["status"]["code"], response["status"]["reason"]) == (429, "TooManyRequests")
    assert response["status"]["details"]["retryAfterSeconds"] == 1
    assert "fresh" in response["status"]["message"]


async def test_a_read_takes_no_longer_than_the_deadline(world: World) -> None:
    async def never(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(10)
        raise AssertionError

    world.server.get_trick = never

    assert (await world.ask(review(job()), seconds=0.25))["status"]["code"] == 429
    assert (await world.ask(review(job()), seconds=0.1))["status"]["code"] == 429


async def test_reads_are_rate_limited(world: World) -> None:
    world.server.get_trick = status(404, "NotFound")

    codes = [
        (await world.ask(review(job(f"r-{i}"))))["status"]["code"] for i in range(READS_AT_ONCE + 2)
    ]

    assert codes == [422] * READS_AT_ONCE + [429, 429]
    world.time.now += 1
    assert (await world.ask(review(job("later"))))["status"]["code"] == 422


NAMES = ["../../namespaces/kube-system/secrets/x", "a/b", "a?x", "A", "", "a" * 254, "ä", "%2e%2e"]


@pytest.mark.parametrize("name", NAMES)
async def test_what_can_be_no_name_is_not_asked_for(world: World, name: str) -> None:
    assert not (await world.ask(review(job(name))))["allowed"]
    assert world.paths == []


@pytest.mark.parametrize("spec", [None, [], "x", {"runtimeRef": "x"}, {"runtimeRef": None}])
async def test_any_shape_is_survived(world: World, spec: Any) -> None:
    response = await world.ask(review({**job(), "spec": spec}))

    assert response["uid"] == "r-1"
    assert world.paths == []


def copy(obj: dict[str, Any], uid: str = "u-9") -> dict[str, Any]:
    owner = {"kind": "TrainJob", "uid": uid, "controller": True}
    return {
        "metadata": {"name": "demo-runtime-snapshot", "ownerReferences": [owner]},
        "data": {"runtime": orjson.dumps(obj).decode()},
    }


PATCH = {"manager": "example.com/a", "trainingRuntimeSpec": {"template": {"spec": {}}}}


def cpus(response: dict[str, Any]) -> str | None:
    for operation in orjson.loads(base64.b64decode(response.get("patch", "W10="))):
        if "podgroup-totals" in orjson.dumps(operation).decode():
            value = operation["value"]
            text = value if type(value) is str else next(iter(value.values()))
            found: str = orjson.loads(text)["resources"].get("cpu", "none")
            return found
    return None


async def test_an_update_of_overrides_is_resolved_by_the_trainers_copy(world: World) -> None:
    world.source.snapshot = Snapshot.of([runtime(cpu="1")])
    world.server.others[COPY] = copy(runtime(cpu="5"))

    response = await world.ask(review(job(runtimePatches=[PATCH]), job()))

    assert cpus(response) == "10"
    assert world.paths == [COPY]


NOT_TAKEN = {
    "of another job": copy(runtime(cpu="5"), uid="u-8"),
    "without an owner": {"metadata": {}, "data": copy(runtime())["data"]},
    "of another runtime": copy(runtime(cpu="5", name="other")),
    "unreadable": {**copy({}), "data": {"runtime": "a: [b"}},
    "empty": {**copy({}), "data": {}},
}


@pytest.mark.parametrize("config_map", NOT_TAKEN.values(), ids=NOT_TAKEN)
async def test_a_copy_is_not_taken(world: World, config_map: dict[str, Any]) -> None:
    world.source.snapshot = Snapshot.of([runtime(cpu="1")])
    world.server.others[COPY] = config_map

    response = await world.ask(review(job(runtimePatches=[PATCH]), job()))

    assert cpus(response) == "2"


@pytest.mark.parametrize("code", [403, 500])
async def test_a_copy_that_cannot_be_read_never_refuses(world: World, code: int) -> None:
    world.source.snapshot = Snapshot.of([runtime(cpu="1")])
    world.server.get_trick = status(code)

    response = await world.ask(review(job(runtimePatches=[PATCH]), job()))

    assert response["allowed"]
    assert cpus(response) == "2"
    assert "copy of the runtime could not be read" in response["warnings"][0]


UPDATES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "only suspend changes": (job(suspend=False), job(), "alice"),
    "it is terminating": (
        {**job(runtimePatches=[PATCH]), "metadata": {"name": "demo", "deletionTimestamp": "now"}},
        job(),
        "alice",
    ),
    "Kueue sends it": (
        job(runtimePatches=[PATCH]),
        job(),
        "system:serviceaccount:kueue-system:kueue-controller-manager",
    ),
}


@pytest.mark.parametrize(("new", "old", "user"), UPDATES.values(), ids=UPDATES)
async def test_an_update_reads_nothing_when(
    world: World, new: dict[str, Any], old: dict[str, Any], user: str
) -> None:
    assert (await world.ask(review(new, old, user)))["allowed"]
    assert world.paths == []


def unsync(world: World) -> Sequence[str]:
    world.source.reflectors[0].synced = False
    return [world.source.reflectors[0].resource.title]


async def test_before_all_is_read_new_jobs_are_asked_to_come_back(world: World) -> None:
    [kind] = unsync(world)

    response = await world.ask(review(job()))

    assert response["status"]["code"] == 429
    assert kind in response["status"]["message"]
    assert (await world.ask(review(job(suspend=False), job())))["allowed"]


async def test_old_knowledge_is_served_with_a_warning(world: World) -> None:
    world.source.snapshot = Snapshot.of([runtime()])
    world.source.reflectors[0]._cut_since = world.time.now - 61

    response = await world.ask(review(job()))

    assert response["allowed"]
    assert "for 61 s" in response["warnings"][0]


async def test_old_knowledge_is_refused_where_that_is_wanted_but_for_updates(
    server: ApiServer, client: Client, time: Time
) -> None:
    world = World(server, client, time, "fail")
    world.source.snapshot = Snapshot.of([runtime()])
    world.source.reflectors[0]._cut_since = time.now - 61

    response = await world.ask(review(job()))

    assert (response["status"]["code"], response["status"]["reason"]) == (503, "ServiceUnavailable")
    assert "retryAfterSeconds" not in response["status"]["details"]
    assert (await world.ask(review(job(suspend=False), job())))["allowed"]


def test_a_copy_in_yaml_is_read() -> None:
    text = (
        "kind: ClusterTrainingRuntime\nmetadata: {name: fresh}\nspec: {mlPolicy: {numNodes: 4}}\n"
    )
    config_map = {**copy({}), "data": {"runtime": text}}

    found = runtime_in(config_map, TrainJob(job()))

    assert found is not None
    assert found["spec"] == {"mlPolicy": {"numNodes": 4}}
