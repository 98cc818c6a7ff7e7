"""What breaks, while users send TrainJobs: nothing is lost or wrong but where it cannot be helped, and that is counted.

Each test proves that its fault happened. The table at the end of the run says what users saw.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from certs import bundle
from tests.deploy.tools import NAMESPACE
from tests.e2e import jobs
from tests.e2e.conftest import Tell
from tests.e2e.controlplane import ControlPlane, Object, users
from tests.e2e.controlplane.client import JSON_PATCH
from tests.e2e.controlplane.manifests import CRD
from tests.e2e.controlplane.waiting import WAIT_SECONDS
from tests.e2e.installed import Installed, Replica, installed
from tests.e2e.load import Fate, Load, Outcome
from webhook.kube import resources
from webhook.kube.reflector import SILENCE_SECONDS
from webhook.kube.shared import SECRET

pytestmark = pytest.mark.e2e

RUNTIME: Final = "torch-distributed"
REVIEWS: Final = Path(__file__).parents[1] / "data" / "admission-reviews"
CUT_OFF: Final = "stationmaster_cache_cut_off_seconds"
FOLLOWED: Final = tuple(resource.title for resource in resources.ALWAYS)
BOOKMARK_SECONDS: Final = 60.0
"""How often the API server says something of a kind of which nothing happens."""
TRAIN_JOBS: Final = "trainjobs.trainer.kubeflow.org"
CRD_API: Final = "apiextensions.k8s.io/v1"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One that may break; nothing acts on TrainJobs but we."""
    with ControlPlane(tmp_path_factory.mktemp("faults")) as plane:
        plane.install_runtimes()
        yield plane


@pytest.fixture(scope="module")
def both(plane: ControlPlane) -> Iterator[Installed]:
    with installed(plane, flags=("--stale-seconds=2",)) as made:
        yield made


@pytest.fixture
def whole(both: Installed) -> Installed:
    """The installation with two replicas, both ready, whatever the last test left."""
    while len(both.replicas) > 2:
        both.remove_replica(both.replicas[-1])
    both.wait_ready()
    both.wait_in_force()
    return both


@pytest.fixture
def own_plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """For what would outlast a test."""
    with ControlPlane(tmp_path) as plane:
        plane.install_runtimes()
        yield plane


def load_of(plane: ControlPlane, request: pytest.FixtureRequest) -> Load:
    """Users of a namespace of the test's own."""
    name = request.node.name.removeprefix("test_").replace("_", "-")[:50].strip("-")
    return Load(plane, plane.namespace(name), runtime=RUNTIME)


def assert_nothing_lost(outcome: Outcome) -> None:
    assert (outcome.lost, outcome.wrong) == (0, 0), outcome


# --- the API server and its store -----------------------------------------------------------------


def test_api_server_restarted(whole: Installed, request: pytest.FixtureRequest, tell: Tell) -> None:
    plane = whole.plane
    before = plane.apiserver.pid
    with load_of(plane, request) as load:
        plane.apiserver.kill()
        load.wait_for(Fate.AWAY)
        plane.apiserver.start()
        load.go_on()

    outcome = load.outcome()
    tell("API server killed and started", f"pid {before} -> {plane.apiserver.pid}", outcome)
    assert plane.apiserver.pid != before
    assert outcome.fates[Fate.AWAY]
    assert_nothing_lost(outcome)


def test_etcd_stopped(whole: Installed, request: pytest.FixtureRequest, tell: Tell) -> None:
    plane = whole.plane
    before = plane.etcd.pid
    with load_of(plane, request) as load:
        plane.etcd.stop()
        load.wait_for(Fate.AWAY)
        assert all(replica.is_ready() for replica in whole.replicas)
        plane.etcd.start()
        load.go_on()

    outcome = load.outcome()
    tell("etcd stopped and started", f"pid {before} -> {plane.etcd.pid}", outcome)
    assert plane.etcd.pid != before
    assert outcome.fates[Fate.AWAY]
    assert_nothing_lost(outcome)


def test_watch_cut(whole: Installed, request: pytest.FixtureRequest, tell: Tell) -> None:
    """Answers go on from what is known, say so after a while, and what was missed is caught up with."""
    plane = whole.plane
    cut_off = {"kind": "ClusterTrainingRuntime"}
    before = whole.gate.cuts
    with load_of(plane, request) as load:
        whole.gate.cut()
        plane.wait_for(
            lambda: all(replica.metric(CUT_OFF, **cut_off) > 2 for replica in whole.replicas),
            "the cut to be noticed",
        )
        load.go_on()
        plane.admin.apply(runtime_of(plane, "made-meanwhile", nodes=7))
        whole.gate.heal()
        plane.wait_for(
            lambda: all(replica.metric(CUT_OFF, **cut_off) == 0 for replica in whole.replicas),
            "the watches to be back",
        )
        load.go_on()

    outcome = load.outcome()
    cuts = whole.gate.cuts - before
    tell("watches cut, and all else between us and the API server", f"{cuts} connections", outcome)
    assert cuts >= 2 * len(whole.replicas)
    assert any("API server" in text for text in outcome.warnings), outcome.warnings
    assert_nothing_lost(outcome)
    made = plane.admin.create(
        jobs.train_job("default", "follows", runtime="made-meanwhile"), dry_run=True
    )
    assert made["spec"]["trainer"]["numNodes"] == 7


def test_watch_silent(whole: Installed, request: pytest.FixtureRequest, tell: Tell) -> None:
    """Connections stay open and nothing comes: a watch that says nothing is not a watch that works."""
    plane, gate = whole.plane, whole.gate
    kind = {"kind": "ClusterTrainingRuntime"}

    def of_all(metric: str) -> list[float]:
        return [
            replica.metric(f"stationmaster_cache_{metric}", **kind) for replica in whole.replicas
        ]

    there = len(plane.admin.list(jobs.TRAINER_API, "ClusterTrainingRuntime"))

    def all_watched() -> bool:
        """After the fault of another test some may still be about to."""
        watches = sum(replica.followed() for replica in whole.replicas)
        are_known = of_all("kept_objects") == [there] * 2
        return (
            are_known and of_all("cut_off_seconds") == [0, 0] and gate.open_connections >= watches
        )

    plane.wait_for(all_watched, "all kinds to be watched")
    lists, failures = of_all("lists_total"), of_all("failures_total")
    longest = 0.0

    def listed_anew() -> bool:
        nonlocal longest
        kept, cut_off, ages = map(
            of_all, ("kept_objects", "cut_off_seconds", "last_contact_seconds")
        )
        if of_all("lists_total") == lists:  # and so it was when the others were read
            longest = max(longest, *ages)
            assert kept == [there] * 2, "nothing was stalled"
            assert cut_off == [0, 0], "the connections were cut"
        return kept == [there + 1] * 2

    with load_of(plane, request) as load:
        gate.stall()
        began = time.monotonic()
        plane.admin.apply(runtime_of(plane, "made-in-silence", nodes=9))
        load.go_on()
        plane.wait_for(
            listed_anew, "the silence to be noticed", timeout_seconds=SILENCE_SECONDS + WAIT_SECONDS
        )
        noticed = time.monotonic() - began
        load.go_on()
        plane.admin.apply(runtime_of(plane, "made-after-it", nodes=8))
        plane.wait_for(lambda: of_all("kept_objects") == [there + 2] * 2, "watches that speak")
        load.go_on()

    outcome = load.outcome()
    proof = f"{len(gate.stalled)} connections silent for up to {longest:.0f} s, noticed after {noticed:.0f} s"
    tell("watches silent, connections open", proof, outcome)
    assert len(gate.stalled) >= 2 * len(FOLLOWED)
    assert gate.swallowed, "nothing was said that could be missed"
    assert longest > BOOKMARK_SECONDS
    assert all(now > before for now, before in zip(of_all("lists_total"), lists, strict=True))
    assert of_all("failures_total") == failures, "it was noticed by an error, not by the silence"
    assert_nothing_lost(outcome)
    made = plane.admin.create(
        jobs.train_job("default", "follows", runtime="made-in-silence"), dry_run=True
    )
    assert made["spec"]["trainer"]["numNodes"] == 9


# --- replicas -------------------------------------------------------------------------------------


def test_replica_killed(whole: Installed, request: pytest.FixtureRequest, tell: Tell) -> None:
    """Calls to a dead process are lost until the endpoint is gone; the API server repeats no POST."""
    holder = whole.holder()
    pid = holder.component.pid
    with load_of(whole.plane, request) as load:
        holder.component.kill()
        load.go_on()
        other = whole.holder()
        load.go_on()
        holder.component.start()
        whole.wait_ready()
        load.go_on()

    outcome = load.outcome()
    tell("a replica killed, the Lease's holder", f"pid {pid} gone, another holds it", outcome)
    assert other is not holder
    assert outcome.wrong == 0
    assert outcome.fates[Fate.AWAY] == 0


def test_rolling_restart(whole: Installed, request: pytest.FixtureRequest, tell: Tell) -> None:
    """As the Deployment does it: one more, and when that is ready, one is asked to leave."""
    old = list(whole.replicas)
    with load_of(whole.plane, request) as load:
        for replica in old:
            whole.add_replica("--stale-seconds=2")
            whole.wait_ready()
            load.go_on()
            whole.remove_replica(replica)
            load.go_on()

    outcome = load.outcome()
    leaving = [any(event["msg"] == "leaving" for event in replica.log()) for replica in old]
    tell("rolling restart", f"{len(old)} replicas left, as their logs say", outcome)
    assert all(leaving)
    assert not any(replica.component.running for replica in old)
    assert_nothing_lost(outcome)
    assert outcome.fates[Fate.AWAY] == 0


def test_two_replicas_give_the_same_bytes(whole: Installed) -> None:
    first, second = whole.replicas
    plane = whole.plane
    plane.wait_for(
        lambda: all(replica.cut_off_seconds() == 0 for replica in whole.replicas),
        "both to follow the cluster: they say so where they do not",
    )
    patched = 0
    for file in sorted(REVIEWS.glob("*.json")):
        body = file.read_bytes()
        for path in ("/mutate", "/validate"):
            answers = {posted(replica, path, body) for replica in (first, second)}
            assert len(answers) == 1, (file.name, path, answers)
            patched += b'"patch"' in answers.pop()
    assert patched


def posted(replica: Replica, path: str, body: bytes) -> bytes:
    """What a replica itself answers."""
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection(
        "127.0.0.1", replica.port, context=tls, timeout=WAIT_SECONDS
    )
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.read()
    finally:
        connection.close()


# --- certificates ---------------------------------------------------------------------------------


def test_certificates_and_authority_rotate(
    own_plane: ControlPlane, request: pytest.FixtureRequest, tell: Tell
) -> None:
    """The clock of all replicas is moved through the life of an authority."""
    lives = {"authority_life": 1200.0, "leaf_life": 600.0}
    with installed(own_plane, lives=lives) as made, load_of(own_plane, request) as load:
        first = authorities(own_plane)
        steps = (
            (410, "make leaf"),
            (820, "make authority"),
            (900, "switch"),
            (1310, "make leaf"),
            (1520, "drop old"),
        )
        for ahead, step in steps:
            before = taken(made, step)
            for replica in made.replicas:
                replica.set_clock(ahead_seconds=ahead)
            own_plane.wait_for(
                lambda before=before, step=step: taken(made, step) > before,  # type: ignore[misc]
                step,
            )
            own_plane.wait_for(lambda: served_is_stored(made), "all to serve it")
            load.go_on()
        last = authorities(own_plane)
        leaves = sum(
            event["msg"] == "certificate taken over"
            for replica in made.replicas
            for event in replica.log()
        )

    outcome = load.outcome()
    tell("certificates and CA rotated", f"another CA, {leaves} certificates taken over", outcome)
    assert len(first) == len(last) == 1
    assert first != last
    assert leaves >= 2 * 4
    assert_nothing_lost(outcome)
    assert outcome.fates[Fate.AWAY] == 0


def test_secret_deleted(whole: Installed, request: pytest.FixtureRequest, tell: Tell) -> None:
    plane = whole.plane
    before = secret(plane)["metadata"]["uid"]
    with load_of(plane, request) as load:
        plane.admin.delete(secret(plane))
        plane.wait_for(
            lambda: secret(plane)["metadata"]["uid"] != before,
            "another Secret",
        )
        load.go_on()
        switched = taken(whole, "switch")
        for replica in whole.replicas:
            replica.set_clock(ahead_seconds=90)  # past the minute in which API servers learn of it
        plane.wait_for(lambda: taken(whole, "switch") > switched, "a leaf")
        plane.wait_for(lambda: served_is_stored(whole), "all to serve it")
        load.go_on()
        for replica in whole.replicas:
            replica.set_clock(ahead_seconds=0)

    outcome = load.outcome()
    tell("the Secret deleted", "its uid is another, its leaf is served", outcome)
    assert_nothing_lost(outcome)
    assert outcome.fates[Fate.AWAY] == 0


def test_bundles_wiped(whole: Installed, request: pytest.FixtureRequest, tell: Tell) -> None:
    """Nobody is trusted until the next round, ten seconds at most: the one fault that must be felt."""
    plane = whole.plane
    with load_of(plane, request) as load:
        wiped = 0
        for obj in whole.configurations():
            patch = [
                {"op": "replace", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": ""}
                for i in range(len(obj["webhooks"]))
            ]
            answer = plane.admin.request(
                "PATCH", plane.admin.path_of(obj), patch, content_type=JSON_PATCH
            )
            after = answer.checked().json()
            wiped += sum(
                not webhook["clientConfig"].get("caBundle") for webhook in after["webhooks"]
            )
        plane.wait_for(lambda: all(bundles(whole)), "the bundles to be back")
        load.go_on()

    outcome = load.outcome()
    tell("every caBundle wiped", f"{wiped} wiped, all back", outcome)
    assert wiped == len(bundles(whole))
    repaired = plane.audit(user=plane.users[users.STATIONMASTER].name, verb="patch")
    assert {event["objectRef"]["resource"] for event in repaired} >= {
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    }
    assert outcome.wrong == 0
    assert outcome.fates[Fate.AWAY] == 0


def secret(plane: ControlPlane) -> Object:
    """The Secret with the certificates."""
    return plane.admin.get("v1", "Secret", SECRET, NAMESPACE)


def authorities(plane: ControlPlane) -> set[int]:
    """The serial numbers of the authorities that the Secret says to trust."""
    data = base64.b64decode(secret(plane)["data"]["ca.crt"])
    return {each.serial_number for each in bundle.parse(data).authorities}


def bundles(made: Installed) -> list[str]:
    """The caBundle of each webhook."""
    return [
        webhook["clientConfig"].get("caBundle", "")
        for obj in made.configurations()
        for webhook in obj["webhooks"]
    ]


def taken(made: Installed, step: str) -> int:
    """How often a step of the rotation was taken, by whichever replica."""
    return sum(
        event["msg"] == "certificates" and event["step"] == step
        for replica in made.replicas
        for event in replica.log()
    )


def served_is_stored(made: Installed) -> bool:
    """Whether all replicas serve the leaf that the Secret holds."""
    stored = base64.b64decode(secret(made.plane)["data"]["tls.crt"]).decode()
    return all(
        ssl.get_server_certificate(("127.0.0.1", replica.port)).strip() in stored
        for replica in made.replicas
    )


# --- the Trainer ----------------------------------------------------------------------------------


def test_crd_of_another_generation(
    own_plane: ControlPlane, request: pytest.FixtureRequest, tell: Tell
) -> None:
    """The Trainer is downgraded and upgraded under us: each job is judged by what is served."""
    plane = own_plane
    present = plane.admin.get(CRD_API, CRD, TRAIN_JOBS)["spec"]
    file = plane.programs.trainer_crds("2.1") / "trainer.kubeflow.org_trainjobs.yaml"
    earlier = yaml.safe_load(file.read_text())["spec"]
    with installed(plane) as made, load_of(plane, request) as load:
        for spec, line in ((earlier, "2.1"), (present, "2.3")):
            replace_crd(plane, spec)
            plane.wait_for(
                lambda line=line: all(known_line(each) == line for each in made.replicas),  # type: ignore[misc]
                f"line {line} to be seen",
            )
            load.go_on()
            refused = plane.kubectl("create", "-f", "-", "--dry-run=server", input=wrong(line))
            assert f"spec.{GENERATION[line]}[0]" in refused.stderr, refused

    outcome = load.outcome()
    tell("CRD of another generation, and back", "both seen, as the log says", outcome)
    assert_nothing_lost(outcome)


GENERATION: Final = {"2.1": "podTemplateOverrides", "2.3": "runtimePatches"}


def wrong(line: str) -> Object:
    """A job whose overrides, in the words of this line, name a job that the runtime lacks."""
    override: dict[str, Any] = {"targetJobs": [{"name": "lost"}]}
    if line == "2.3":
        template = {"spec": {"replicatedJobs": [{"name": "lost"}]}}
        override = {"manager": "example.com/a", "trainingRuntimeSpec": {"template": template}}
    overrides: dict[str, Any] = {GENERATION[line]: [override]}
    return jobs.train_job("default", "wrong", **overrides)


def replace_crd(plane: ControlPlane, spec: Object) -> None:
    """Give the CRD of TrainJobs another schema."""

    def replaced() -> bool:
        crd = plane.admin.get(CRD_API, CRD, TRAIN_JOBS)
        crd["spec"] = {**spec, "conversion": crd["spec"]["conversion"]}
        path = plane.admin.path_of(crd)
        return bool(plane.admin.request("PUT", path, crd).checked())

    plane.wait_for(replaced, "the CRD to be replaced")


def known_line(replica: Replica) -> str:
    """Which line a replica believes to be served."""
    seen = [e["trainer"] for e in replica.log() if e["msg"] == "cluster capabilities"]
    return str(seen[-1]) if seen else ""


def runtime_of(plane: ControlPlane, name: str, *, nodes: int) -> Object:
    """The runtime of all jobs here, under another name and with another number of nodes."""
    shipped = plane.admin.get(jobs.TRAINER_API, "ClusterTrainingRuntime", RUNTIME)
    policy = {**shipped["spec"]["mlPolicy"], "numNodes": nodes}
    copy: Object = json.loads(json.dumps(shipped["spec"]))
    return {
        "apiVersion": jobs.TRAINER_API,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": {**copy, "mlPolicy": policy},
    }
