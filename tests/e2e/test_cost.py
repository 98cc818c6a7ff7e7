"""What a user pays: a create with us and without, one after the other in one run; the start, and memory.

Nothing here decides by time. The figures are printed at the end of the run; ``--cost=full`` takes its time.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from statistics import quantiles
from typing import Final

import pytest

from benchmarks import process
from plugins.framework.api.names import TOTALS_ANNOTATION
from tests.e2e import installed, jobs
from tests.e2e.controlplane import Component, ControlPlane, Object, users
from tests.e2e.controlplane.manifests import Endpoint
from tests.e2e.controlplane.process import free_port
from tests.e2e.labels import ADMISSION, BARE
from tests.e2e.report import Report
from tests.e2e.standalone import answers, registration

pytestmark = pytest.mark.e2e

RUNTIMES: Final = 1000
KIND: Final = "ClusterTrainingRuntime"
WRITERS: Final = 4
TITLE: Final = f"Cost, with {RUNTIMES} runtimes cached (aims: 5 ms more at p99, 2 s, 150 MiB)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    creates: int
    commands: int
    train_jobs: int
    starts: int


SIZES: Final = {
    "quick": Size(creates=200, commands=20, train_jobs=1000, starts=1),
    "full": Size(creates=2000, commands=200, train_jobs=10_000, starts=5),
}


class Connection:
    """A client that keeps its connection, as client-go and the SDK do."""

    def __init__(self, plane: ControlPlane, user: str) -> None:
        """Connect with the first request."""
        tls = ssl.create_default_context(cadata=plane.authority.pem.decode())
        self._connection = http.client.HTTPSConnection("127.0.0.1", plane.port, context=tls)
        self._headers = {
            "Authorization": f"Bearer {plane.users[user].token}",
            "Content-Type": "application/json",
        }

    def post(self, path: str, obj: Object) -> Object:
        """Create an object; it must be taken."""
        self._connection.request("POST", path, json.dumps(obj), self._headers)
        answer = self._connection.getresponse()
        body: Object = json.loads(answer.read())
        assert answer.status == 201, body
        return body

    def close(self) -> None:
        """Close it."""
        self._connection.close()


@pytest.fixture(scope="module")
def size(pytestconfig: pytest.Config) -> Size:
    return SIZES[str(pytestconfig.getoption("--cost"))]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory, size: Size) -> Iterator[ControlPlane]:
    """One with many runtimes and many jobs, in which nobody else does anything."""
    with ControlPlane(tmp_path_factory.mktemp("cost")) as plane:
        plane.install_runtimes()
        shipped = plane.admin.get(jobs.TRAINER_API, KIND, "torch-distributed")
        fill(plane, [runtime_like(shipped, f"runtime-{i}") for i in range(RUNTIMES)])
        namespace = plane.namespace("crowd")
        fill(plane, [jobs.train_job(namespace, f"job-{i}") for i in range(size.train_jobs)])
        plane.controller_manager.stop()
        yield plane


def runtime_like(shipped: Object, name: str) -> Object:
    """A runtime of another name, and as large."""
    return {
        "apiVersion": jobs.TRAINER_API,
        "kind": KIND,
        "metadata": {"name": name, "labels": shipped["metadata"]["labels"]},
        "spec": shipped["spec"],
    }


def fill(plane: ControlPlane, objects: Sequence[Object]) -> None:
    """Create many objects of a kind, over a few connections."""
    first = objects[0]
    namespace = first["metadata"].get("namespace", "")
    path = plane.admin.collection(first["apiVersion"], first["kind"], namespace)

    def write(share: Sequence[Object]) -> None:
        with closing(Connection(plane, users.ADMIN)) as connection:
            for obj in share:
                connection.post(path, obj)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, (objects[i::WRITERS] for i in range(WRITERS))))


@pytest.fixture(scope="module")
def served(
    plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory, size: Size, report: Report
) -> Iterator[Component]:
    """Our program, ready, and registered for the namespaces with the label; its starts are reported."""
    home = tmp_path_factory.mktemp("served")
    plane.apply(installed.rights(plane))
    port, health_port = free_port(), free_port()
    command = [
        *(sys.executable, "-m", "webhook.cli", "serve"),
        f"--kubeconfig={plane.kubeconfig(users.STATIONMASTER)}",
        f"--listen=127.0.0.1:{port}",
        f"--health-listen=127.0.0.1:{health_port}",
        f"--cert-dir={home}",
    ]
    url = f"http://127.0.0.1:{health_port}/readyz"
    component = plane.add("stationmaster", command, ready=lambda: answers(url))
    seconds = []
    for _ in range(size.starts):
        component.stop()
        component.start()
        seconds.append(component.started_in_seconds)
    figures = f"{min(seconds):.1f} to {max(seconds):.1f} s, {size.starts} starts"
    report.add(TITLE, {"what": "ready after", "figures": figures})
    endpoint = Endpoint(port=port, ca=(home / "stationmaster-ca.crt").read_bytes())
    configurations = tuple(registration(endpoint, ADMISSION))
    plane.register(*configurations)
    yield component
    plane.unregister(*configurations)
    component.stop()


@pytest.fixture(scope="module")
def bare(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A webhook that does nothing, registered as we are for namespaces of its own."""
    with process.bare(tmp_path_factory.mktemp("bare") / "server") as server:
        endpoint = Endpoint(port=server.port, ca=server.ca.read_bytes())
        configurations = tuple(registration(endpoint, BARE))
        for each in configurations:
            each["metadata"]["name"] += "-bare"
        plane.register(*configurations)
        yield
        plane.unregister(*configurations)


Create = Callable[[str, str], Object]


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("client", ["client", "kubectl"])
def test_a_create_with_us_and_without(
    plane: ControlPlane, served: Component, size: Size, report: Report, client: str
) -> None:
    """Beside a webhook that does nothing, and beside another create without: what any costs, and the machine's noise."""
    with_us = plane.namespace(f"with-us-{client}", ADMISSION)
    with_bare = plane.namespace(f"with-bare-{client}", BARE)
    without, again = (plane.namespace(f"without-us-{client}-{i}") for i in range(2))
    namespaces = (with_us, with_bare, without, again)
    with closing(Connection(plane, users.ALICE)) as connection:
        create, count = {
            "client": (by_connection(plane, connection), size.creates),
            "kubectl": (by_kubectl(plane), size.commands),
        }[client]
        for namespace in namespaces:  # connections are made, and code is warm
            create(namespace, "warm")
        rounds = []
        for i in range(count):
            # Who comes first changes, so that nobody profits from another's wake.
            first = i % len(namespaces)
            order = (*namespaces[first:], *namespaces[:first])
            took = {namespace: timed(create, namespace, f"job-{i}") for namespace in order}
            rounds.append([took[namespace] for namespace in namespaces])

    stored = jobs.get(plane, with_us, "job-0"), jobs.get(plane, without, "job-0")
    completed = [TOTALS_ANNOTATION in job["metadata"].get("annotations", {}) for job in stored]
    assert completed == [True, False]
    assert served.running
    rows = {
        "with us": [ours for ours, _, _, _ in rounds],
        "without": [without for _, _, without, _ in rounds],
        "with us more than without": [ours - without for ours, _, without, _ in rounds],
        "with a bare webhook more": [bare - without for _, bare, without, _ in rounds],
        "without more than without": [again - without for _, _, without, again in rounds],
    }
    for what, values in rows.items():
        figures = percentiles(values)
        report.add(TITLE, {"what": f"{count} creates by {client}, {what}", "figures": figures})


def test_memory(plane: ControlPlane, served: Component, size: Size, report: Report) -> None:
    """After the API server has sent all that we follow, and some reviews."""
    namespace = plane.namespace("remembered", ADMISSION)
    for i in range(20):
        plane.admin.create(jobs.train_job(namespace, f"job-{i}", runtime=f"runtime-{i}"))

    figures = f"{served.memory_mib():.0f} MiB resident, {size.train_jobs} TrainJobs in the cluster"
    report.add(TITLE, {"what": "memory", "figures": figures})
    assert len(plane.admin.list(jobs.TRAINER_API, KIND)) > RUNTIMES


def by_connection(plane: ControlPlane, connection: Connection) -> Create:
    def create(namespace: str, name: str) -> Object:
        path = plane.admin.collection(jobs.TRAINER_API, "TrainJob", namespace)
        return connection.post(path, jobs.train_job(namespace, name, runtime="runtime-1"))

    return create


def by_kubectl(plane: ControlPlane) -> Create:
    def create(namespace: str, name: str) -> Object:
        job = jobs.train_job(namespace, name, runtime="runtime-1")
        done = plane.kubectl("create", "-f", "-", "-o", "json", user=users.ALICE, input=job)
        assert done.returncode == 0, done.stderr
        created: Object = json.loads(done.stdout)
        return created

    return create


def timed(create: Create, namespace: str, name: str) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    create(namespace, name)
    return 1000 * (time.perf_counter() - began)


def percentiles(values: Sequence[float]) -> str:
    """The median and the 99th percentile; of few values that is nearly the worst."""
    cut = quantiles(values, n=100, method="inclusive")
    return f"p50 {cut[49]:.1f} ms, p99 {cut[98]:.1f} ms"
