"""The TrainJob of a PodGroup, read from the API server: what is read, how often, and what happens if it cannot be."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson
import pytest
from aiohttp import web

from plugins.framework.cluster import Snapshot
from plugins.framework.lines import LINES
from tests.plugins.kit import table
from tests.reviews import recorded
from tests.webhook.kube.apiserver import ApiServer, status
from tests.webhook.kube.conftest import Time
from tests.webhook.kube.test_live import runtime
from webhook.assembly import build_pipeline
from webhook.kube.client import Client
from webhook.kube.live import Live
from webhook.kube.owners import READS_AT_ONCE, Owners
from webhook.kube.resources import RUNTIMES
from webhook.kube.source import Source
from webhook.review import Reviewer

if TYPE_CHECKING:
    from tests.webhook.kube.apiserver import Trick

UID: Final = "85e50952-aebe-402f-a1c0-a6671fdf6811"
JOB: Final = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/gang"
COPY: Final = "/api/v1/namespaces/team/configmaps/gang-runtime-snapshot"
RUNTIME: Final = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/fresh"

Object = dict[str, Any]


def job(uid: str = UID) -> Object:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "gang", "namespace": "team", "uid": uid},
        "spec": {
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": "ClusterTrainingRuntime",
                "name": "fresh",
            },
            "suspend": True,
        },
    }


def copy(nodes: int, uid: str = UID) -> Object:
    """As the Trainer keeps it."""
    owner = {"kind": "TrainJob", "name": "gang", "uid": uid, "controller": True}
    return {
        "metadata": {"name": "gang-runtime-snapshot", "ownerReferences": [owner]},
        "data": {"runtime": orjson.dumps(runtime(nodes)).decode()},
    }


def review(**metadata: Any) -> Object:
    found = deepcopy(recorded.review(15))
    found["request"]["object"]["metadata"] |= metadata
    return found


class World:
    """A source that knows one runtime of two nodes, in front of the API server, which knows the TrainJob."""

    def __init__(self, server: ApiServer, client: Client, time: Time, line: str) -> None:
        self.server, self.time = server, time
        self.source = Source(client, RUNTIMES.values(), around=time.around())
        for reflector in self.source.reflectors:
            reflector.synced, reflector._cut_since = True, None
        self.source.snapshot = Snapshot.of([runtime(2)])
        server.others[JOB] = job()
        live = Live(client, self.source, clock=time.clock)
        self.reviewer = Reviewer(
            build_pipeline(None, pod_groups=True),
            lambda: self.source.snapshot,
            line=LINES[line],
            clock=time.clock,
            owners=Owners(client, self.source, live, clock=time.clock, line=LINES[line]),
        )

    async def ask(self, asked: Object | None = None, seconds: float = 3.0) -> Object:
        body = orjson.dumps(asked or review())
        answer = await self.reviewer.mutate(body, deadline=self.time.now + seconds)
        response: Object = orjson.loads(answer.body)["response"]
        assert response["allowed"], "a PodGroup is never refused"
        return response

    @property
    def paths(self) -> list[str]:
        return [seen.path for seen in self.server.requests]


def members(response: Object) -> int:
    """What minMember is after."""
    patch = orjson.loads(base64.b64decode(response["patch"]))
    [value] = [o["value"] for o in patch if o["path"] == "/spec/minMember"]
    assert isinstance(value, int)
    return value


MakeWorld = Callable[[str], World]


@pytest.fixture
def make_world(server: ApiServer, client: Client, time: Time) -> MakeWorld:
    server.get_trick = trick_of(server)
    return lambda line: World(server, client, time, line)


def trick_of(server: ApiServer, **others: Trick) -> Trick:
    """Single objects or 404, apart from those for which there is a trick."""

    async def answer(request: web.Request) -> web.StreamResponse:
        for end, trick in others.items():
            if request.path.split("/")[-2] == end:
                return await trick(request)
        if request.path in server.others:
            return web.json_response(server.others[request.path])
        return await status(404, "NotFound")(request)

    return answer


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world("2.3")


async def test_it_is_read_and_counted(world: World) -> None:
    response = await world.ask()
    assert members(response) == 2
    assert "warnings" not in response
    assert world.paths == [JOB, COPY]


async def test_each_time_anew_since_it_may_have_changed_a_moment_ago(world: World) -> None:
    assert members(await world.ask()) == 2
    world.server.others[JOB]["spec"]["trainer"] = {"numNodes": 7}
    assert members(await world.ask()) == 7


async def test_the_trainers_copy_of_the_runtime_comes_first(world: World) -> None:
    world.server.others[COPY] = copy(5)
    assert members(await world.ask()) == 5


async def test_the_copy_of_another_job_of_that_name_does_not_count(world: World) -> None:
    world.server.others[COPY] = copy(5, uid="u-2")
    assert members(await world.ask()) == 2


async def test_before_2_3_there_is_no_copy_to_ask_for(make_world: MakeWorld) -> None:
    world = make_world("2.2")
    assert members(await world.ask()) == 2
    assert world.paths == [JOB]


async def test_a_copy_that_cannot_be_read_is_done_without(world: World) -> None:
    world.server.get_trick = trick_of(world.server, configmaps=status(403, "Forbidden"))
    response = await world.ask()
    assert members(response) == 2
    [text] = response["warnings"]
    assert "the Trainer's copy of the runtime could not be read" in text


async def test_a_runtime_that_the_caches_lack_is_read(make_world: MakeWorld) -> None:
    world = make_world("2.2")
    world.source.snapshot = Snapshot.of([])
    world.server.others[RUNTIME] = runtime(3)
    assert members(await world.ask()) == 3
    assert world.paths == [JOB, RUNTIME]


async def test_old_knowledge_is_used_and_said(world: World) -> None:
    for reflector in world.source.reflectors:
        reflector._cut_since = world.time.now - 3600
    response = await world.ask()
    assert members(response) == 2
    [text] = response["warnings"]
    assert "judged by what was known before: Stationmaster is cut off" in text


async def test_other_podgroups_cost_no_call(world: World) -> None:
    response = await world.ask(review(ownerReferences=[]))
    assert "patch" not in response
    assert world.paths == []


@dataclass(frozen=True)
class Lost:
    """What is wrong, and what is said."""

    break_it: Callable[[World], object]
    says: str
    asked: Object | None = None
    seconds: float = 3.0
    calls: int = 1


def _tricks(**others: Trick) -> Callable[[World], object]:
    def change(world: World) -> None:
        world.server.get_trick = trick_of(world.server, **others)

    return change


def _owned_by(name: str) -> Object:
    asked = review(name=name)
    asked["request"]["object"]["metadata"]["ownerReferences"][0]["name"] = name
    return asked


def _unreadable_runtime(world: World) -> None:
    world.source.snapshot = Snapshot.of([])
    _tricks(clustertrainingruntimes=status(500))(world)


def _unsynced(world: World) -> None:
    world.source.reflectors[0].synced = False


LOST: Final = {
    "it is gone": Lost(lambda w: w.server.others.pop(JOB), "TrainJob gang does not exist"),
    "it is another of that name": Lost(
        lambda w: w.server.others.update({JOB: job("u-2")}), f'TrainJob gang is "u-2", not "{UID}"'
    ),
    "it may not be read": Lost(
        _tricks(trainjobs=status(403, "Forbidden")), "TrainJob gang cannot be read"
    ),
    "the API server is broken": Lost(
        _tricks(trainjobs=status(500)), "TrainJob gang cannot be read"
    ),
    "no time is left": Lost(lambda _: None, "no time is left", seconds=0.1, calls=0),
    "its name would lead elsewhere": Lost(
        lambda _: None,
        "the owner's name can be no TrainJob's",
        asked=_owned_by("../../x"),
        calls=0,
    ),
    "we have just started": Lost(_unsynced, "Stationmaster has just started", calls=0),
    "its runtime cannot be read": Lost(
        _unreadable_runtime,
        "is not known yet, and cannot be read",
        calls=3,
    ),
}


@table(LOST)
async def test_it_is_let_in_as_it_is(case: Lost, world: World) -> None:
    case.break_it(world)
    response = await world.ask(case.asked, case.seconds)
    assert "patch" not in response
    [text] = response["warnings"]
    assert case.says in text
    assert len(world.paths) == case.calls


async def test_reads_have_an_allowance_of_their_own(world: World) -> None:
    answers = [await world.ask() for _ in range(READS_AT_ONCE // 2 + 1)]
    assert all("patch" in answer for answer in answers[:-1])
    assert "too many are asked for at once" in answers[-1]["warnings"][0]
    assert len(world.paths) == READS_AT_ONCE

    world.time.now += 1.0
    assert "patch" in await world.ask()


async def test_an_api_server_that_holds_still_is_given_up_on(world: World) -> None:
    """By the client's own time for a call; the review is answered within its deadline."""
    held = asyncio.Event()

    async def hold(_request: web.Request) -> web.StreamResponse:
        await held.wait()
        return web.Response()

    world.server.get_trick = hold
    response = await world.ask(seconds=0.25)
    assert "cannot be read: no answer in time" in response["warnings"][0]
    held.set()
