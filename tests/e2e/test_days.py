"""The first day and the last: what is in the cluster already is neither changed nor refused, and nothing stays that blocks.

Installed by the manifests that users apply, beside the real Trainer, JobSet and Kueue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.deploy.tools import NAMESPACE
from tests.e2e import jobs
from tests.e2e.conftest import MakeNamespace, Tell
from tests.e2e.controlplane import ControlPlane, Object, users
from tests.e2e.installed import Installed, installed
from tests.e2e.load import Fate, Load

pytestmark = pytest.mark.e2e

CONFLICT: Final = 409

TWO: Final[Object] = {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": 2}}}
"""With a number for an amount, as people write it and Kueue rewrites it."""


def patching(part: str, **pod: Any) -> Object:
    """A spec that changes the pods of one part of its runtime."""
    job = {"name": part, "template": {"spec": {"template": {"spec": pod}}}}
    template = {"spec": {"replicatedJobs": [job]}}
    patch = {"manager": "example.com/a", "trainingRuntimeSpec": {"template": template}}
    return {"trainer": TWO, "runtimePatches": [patch]}


MOUNTED: Final = {"name": "node", "volumeMounts": [{"name": "no", "mountPath": "/no"}]}
UNWANTED: Final[Mapping[str, Object]] = {
    "no-nodes": {"trainer": {"numNodes": 0}},
    "no-such-part": patching("lost", nodeSelector={"a": "b"}),
    "no-such-volume": patching("node", containers=[MOUNTED]),
}
"""Jobs that the Trainer lets in and we do not."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Everything real, acting in all namespaces."""
    with ControlPlane(tmp_path_factory.mktemp("days")) as plane:
        plane.start_jobset()
        plane.start_trainer()
        plane.start_kueue()
        plane.install_runtimes()
        yield plane


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A namespace with jobs of all kinds, all from before our time, and what they were then."""

    plane: ControlPlane
    namespace: str
    sent: Mapping[str, Object]
    before: Mapping[str, Object]

    def now(self) -> dict[str, Object]:
        """The jobs as they are, by name, without what others write all the time."""
        found = self.plane.admin.list(jobs.TRAINER_API, "TrainJob", self.namespace)
        return {each["metadata"]["name"]: lasting(each) for each in found}

    def create(self, name: str, spec: Object, *, dry_run: bool = True) -> int:
        """Send a new job; the status of the answer."""
        job = jobs.train_job(self.namespace, name, **spec)
        path = self.plane.admin.collection(job["apiVersion"], job["kind"], self.namespace)
        query = {"dryRun": "All"} if dry_run else {}
        return self.plane.admin.request("POST", path, job, query=query).status


@pytest.fixture
def cluster(plane: ControlPlane, make_namespace: MakeNamespace) -> Cluster:
    namespace = make_namespace()
    full, small = jobs.queue(plane, namespace), jobs.queue(plane, namespace, "small", cpu="1")
    sent = {
        "running": jobs.train_job(namespace, "running", trainer=TWO),
        "suspended": jobs.train_job(namespace, "suspended", trainer=TWO, suspend=True),
        "admitted": jobs.in_queue(jobs.train_job(namespace, "admitted", trainer=TWO), full),
        "held": jobs.in_queue(jobs.train_job(namespace, "held", trainer=TWO), small),
        **{name: jobs.train_job(namespace, name, **spec) for name, spec in UNWANTED.items()},
    }
    for job in sent.values():
        done = plane.kubectl("apply", "-f", "-", user="alice", input=job)
        assert done.returncode == 0, done.stderr
    for name in ("running", "admitted"):
        jobs.wait_for_pods(plane, namespace, name, count=2)
    jobs.settle(plane, namespace, *sent)
    found = Cluster(plane=plane, namespace=namespace, sent=sent, before={})
    return Cluster(plane=plane, namespace=namespace, sent=sent, before=found.now())


def lasting(job: Object) -> Object:
    """What neither a controller's status nor time changes."""
    metadata = {
        k: v for k, v in job["metadata"].items() if k not in {"resourceVersion", "managedFields"}
    }
    return {"metadata": metadata, "spec": job["spec"]}


def refused_updates(plane: ControlPlane, namespace: str) -> list[str]:
    """What controllers sent about the jobs of a namespace and was not taken."""
    controllers = {plane.users[alias].name for alias in (users.TRAINER, users.KUEUE)}
    return [
        f"{event['verb']} by {event['user']['username']}: {event['responseStatus']}"
        for event in plane.audit(namespace=namespace, resource="trainjobs")
        if event["user"]["username"] in controllers
        and event["responseStatus"]["code"] >= 400
        and event["responseStatus"]["code"] not in {404, CONFLICT}
    ]


def pods_of(cluster: Cluster, *names: str) -> set[str]:
    """The Pods of these jobs, by their uid: who restarts a job makes others."""
    found = {
        pod["metadata"]["uid"]
        for name in names
        for pod in jobs.pods(cluster.plane, cluster.namespace, job=name)
    }
    assert found
    return found


# --- the first day --------------------------------------------------------------------------------


def test_jobs_from_before_are_left_alone_and_can_be_changed(cluster: Cluster) -> None:
    plane, namespace = cluster.plane, cluster.namespace
    pods = pods_of(cluster, "admitted")
    with installed(plane) as made:
        assert cluster.now() == cluster.before
        for name, spec in UNWANTED.items():
            assert cluster.create(f"new-{name}", spec) == 422, name
        for name, job in cluster.sent.items():
            again = plane.kubectl("apply", "-f", "-", user="alice", input=job)
            assert again.returncode == 0, (name, again.stderr)
        # The bookkeeping of kubectl apply is all that may differ, and it was there before.
        assert {n: j["spec"] for n, j in cluster.now().items()} == {
            n: j["spec"] for n, j in cluster.before.items()
        }
        for name, job in cluster.sent.items():
            stored = jobs.get(plane, namespace, name)
            plane.admin.merge(stored, {"metadata": {"labels": {"seen": "true"}}})
            plane.admin.merge(stored, {"metadata": {"annotations": {"note": "mine"}}})
            plane.admin.merge(stored, {"metadata": {"finalizers": ["example.com/held"]}})
            plane.admin.merge(stored, {"metadata": {"finalizers": None}})
            if "suspend" not in job["spec"] and not job["metadata"].get("labels"):
                plane.admin.merge(stored, {"spec": {"suspend": True}})
                plane.admin.merge(stored, {"spec": {"suspend": False}})
        assert pods_of(cluster, "admitted") == pods
        assert refused_updates(plane, namespace) == []
        made.delete()
    gone(cluster)


def test_an_upgrade_changes_nothing_and_loses_nothing(cluster: Cluster, tell: Tell) -> None:
    """The manifests again, client-side and server-side, and other replicas; users send jobs meanwhile."""
    plane = cluster.plane
    elsewhere = plane.namespace(f"{cluster.namespace}-load")
    pods = pods_of(cluster, "running", "admitted")
    with installed(plane) as made:
        registered = webhooks(made)
        with Load(plane, elsewhere, runtime="torch-distributed") as load:
            made.apply()
            made.apply("--server-side", "--force-conflicts")
            load.go_on()
            for replica in list(made.replicas):
                made.add_replica()
                made.wait_ready()
                made.remove_replica(replica)
            load.go_on()
        outcome = load.outcome()
        tell("upgrade", "manifests applied twice, both replicas are others", outcome)
        assert (outcome.lost, outcome.wrong, outcome.fates[Fate.AWAY]) == (0, 0, 0), outcome
        # Applied, they say Ignore for a moment; nobody failed meanwhile.
        plane.wait_for(lambda: webhooks(made) == registered, "the registrations to be as before")
        assert cluster.now() == cluster.before
        assert pods_of(cluster, "running", "admitted") == pods
        made.delete()
    gone(cluster)


# --- the last day ---------------------------------------------------------------------------------


def all_at_once(made: Installed) -> None:
    """As documented: the manifests are deleted while the server runs; then it ends."""
    made.delete()
    made.stop()


def server_first(made: Installed) -> None:
    """The server is dead when somebody gets to the manifests."""
    kill(made)
    made.delete()


def namespace_only(made: Installed) -> None:
    """Nobody remembers the webhook configurations."""
    delete_namespace(made)
    made.stop()


def namespace_only_server_dead(made: Installed) -> None:
    """And nobody is there to remind."""
    kill(made)
    delete_namespace(made)


def configurations_first(made: Installed) -> None:
    """As in an emergency: first the registrations, by hand."""
    for each in made.configurations():
        made.plane.admin.delete(each)
    made.stop()
    made.delete()


WAYS: Final[Mapping[str, Callable[[Installed], None]]] = {
    way.__name__: way
    for way in (
        all_at_once,
        server_first,
        namespace_only,
        namespace_only_server_dead,
        configurations_first,
    )
}


@pytest.mark.parametrize("way", WAYS)
def test_an_uninstallation_changes_nothing_and_leaves_nothing_that_blocks(
    cluster: Cluster, way: str
) -> None:
    plane, namespace = cluster.plane, cluster.namespace
    with installed(plane) as made:
        ours = plane.admin.create(jobs.train_job(namespace, "ours", trainer=TWO))
        plane.wait_for(lambda: tied(made), "the registrations to be tied to the namespace")

        WAYS[way](made)

        gone(cluster)
        assert made.configurations() == []
    left = {name: job for name, job in cluster.now().items() if name != "ours"}
    assert left == cluster.before
    assert refused_updates(plane, namespace) == []
    for name in ("ours", *cluster.sent):
        plane.admin.merge(jobs.get(plane, namespace, name), {"metadata": {"labels": {"a": "b"}}})
        plane.admin.delete(jobs.get(plane, namespace, name))
    assert ours["metadata"]["annotations"]
    plane.wait_for(lambda: not cluster.now(), "the jobs to go")


def test_with_the_server_dead_only_new_and_changed_jobs_wait(cluster: Cluster) -> None:
    """What a dead server holds up until it is uninstalled; deletions and controllers go on."""
    plane, namespace = cluster.plane, cluster.namespace
    with installed(plane) as made:
        kill(made)
        assert cluster.create("new", {"trainer": TWO}) == 500

        workload = the_workload(plane, namespace, "admitted")
        plane.admin.merge(workload, {"spec": {"active": False}})
        plane.wait_for(
            lambda: jobs.get(plane, namespace, "admitted")["spec"]["suspend"],
            "Kueue to evict its job",
        )
        jobs.finish(plane, namespace, "running")
        for name in cluster.sent:
            plane.admin.delete(jobs.get(plane, namespace, name))
        plane.wait_for(lambda: not cluster.now(), "the jobs to go")
        assert refused_updates(plane, namespace) == []
        made.delete()
    gone(cluster)


def the_workload(plane: ControlPlane, namespace: str, job: str) -> Object:
    """Kueue's Workload of a job."""
    (found,) = [
        each
        for each in plane.admin.list(jobs.KUEUE_API, "Workload", namespace)
        if each["metadata"]["ownerReferences"][0]["name"] == job
    ]
    return found


def kill(made: Installed) -> None:
    for replica in made.replicas:
        replica.component.kill()


def delete_namespace(made: Installed) -> None:
    namespace: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE},
    }
    made.plane.admin.delete(namespace)


def webhooks(made: Installed) -> list[Object]:
    """All entries of our registrations."""
    return [webhook for each in made.configurations() for webhook in each["webhooks"]]


def tied(made: Installed) -> bool:
    """Whether both registrations depend on our namespace: only then are they collected with it."""
    owners = [each["metadata"].get("ownerReferences", []) for each in made.configurations()]
    return all(any(one["name"] == NAMESPACE for one in each) for each in owners)


def gone(cluster: Cluster) -> None:
    """Wait until our rules are in force no more, and our namespace is gone."""
    plane = cluster.plane
    plane.wait_for(
        lambda: cluster.create("free", UNWANTED["no-nodes"]) == 201,
        "jobs to be taken as before",
    )
    plane.wait_for(
        lambda: plane.admin.find("v1", "Namespace", NAMESPACE) is None,
        "our namespace to end",
    )
