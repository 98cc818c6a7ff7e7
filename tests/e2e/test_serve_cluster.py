"""``stationmaster serve --kubeconfig`` beside a real API server: what it follows, and what it survives.

It has a control plane of its own, without controllers: the API server is restarted here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest
import yaml

from tests.e2e import jobs
from tests.e2e.controlplane import ControlPlane, Object, users
from tests.e2e.controlplane.manifests import CRD
from tests.e2e.following import Served
from tests.e2e.labels import ADMISSION

pytestmark = pytest.mark.e2e

RBAC: Final = "rbac.authorization.k8s.io"
PODGROUPS: Final = "podgroups.scheduling.volcano.sh"
VOLCANO: Final = "PodGroup.scheduling.volcano.sh"

READ: Final = ["list", "watch"]
RULES: Final = [
    {
        "apiGroups": ["trainer.kubeflow.org"],
        "resources": ["trainingruntimes", "clustertrainingruntimes"],
        "verbs": ["get", *READ],
    },
    {"apiGroups": [""], "resources": ["namespaces", "limitranges"], "verbs": READ},
    {"apiGroups": ["node.k8s.io"], "resources": ["runtimeclasses"], "verbs": READ},
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": READ,
    },
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["stationmaster-mode"],
        "verbs": READ,
    },
    {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": READ},
    {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": READ},
    {
        "apiGroups": ["scheduling.x-k8s.io", "scheduling.volcano.sh"],
        "resources": ["podgroups"],
        "verbs": READ,
    },
]
"""All that is asked for but PriorityClasses, which a test grants."""


FOLLOWED: Final = ("ClusterTrainingRuntime", "TrainingRuntime", "TrainJob CRD", "CRD names", "mode")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("cluster-plane")) as plane:
        plane.install_runtimes()
        grant(plane, "stationmaster", RULES)
        yield plane


@pytest.fixture(scope="module")
def served(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The webhook, registered; it may not read PriorityClasses at first."""
    home = tmp_path_factory.mktemp("served")
    with Served.start(plane, home) as served:
        _wait_for_permission(served)
        with served.registered():
            yield served


def _wait_for_permission(served: Served) -> None:
    """B121: a permission that is missing at the start and granted later needs no restart."""
    served.plane.wait_for(lambda: "403" in served.ready()[1], "the refusal to be told")
    status, text = served.ready()
    assert status == 503
    assert "PriorityClass (403 Forbidden" in text
    assert "LimitRange" not in text
    rule = {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": READ}
    grant(served.plane, "stationmaster-late", [rule])
    served.plane.wait_for(lambda: served.ready()[0] == 200, "readiness", timeout_seconds=60)


def grant(plane: ControlPlane, name: str, rules: list[dict[str, Any]]) -> None:
    user = plane.users[users.STATIONMASTER].name
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": RBAC, "kind": "User", "name": user}
    api = f"{RBAC}/v1"
    plane.apply(
        [
            {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
            {
                "apiVersion": api,
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": role,
                "subjects": [subject],
            },
        ]
    )


@pytest.fixture(autouse=True)
def _followed(served: Served) -> None:
    """What an earlier test cut is whole again: whoever follows waits longer after each failure."""
    cut = partial(served.metric, "stationmaster_cache_cut_off_seconds")
    served.plane.wait_for(
        lambda: all(cut(kind=kind) == 0 for kind in FOLLOWED),
        "all to be followed",
        timeout_seconds=120,
    )


@pytest.fixture
def namespace(plane: ControlPlane, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:50].strip("-")
    return plane.namespace(name, ADMISSION)


def runtime(plane: ControlPlane, name: str, nodes: int = 1) -> Object:
    shipped = plane.admin.get(jobs.TRAINER_API, "ClusterTrainingRuntime", "torch-distributed")
    spec = {**shipped["spec"], "mlPolicy": {**shipped["spec"]["mlPolicy"], "numNodes": nodes}}
    return {
        "apiVersion": jobs.TRAINER_API,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": spec,
    }


def members(plane: ControlPlane, namespace: str, name: str) -> str:
    """How many nodes a job without a number of its own would get, or why it is refused."""
    tried = plane.kubectl(
        *("create", "-f", "-", "--dry-run=server", "-o", "jsonpath={.spec.trainer.numNodes}"),
        user="alice",
        input=jobs.train_job(namespace, "tried", runtime=name),
    )
    return tried.stdout or tried.stderr


def test_it_reads_what_it_needs_and_nothing_else(plane: ControlPlane, served: Served) -> None:
    assert served.ready()[0] == 200

    def runtimes() -> int:
        return len(plane.admin.list(jobs.TRAINER_API, "ClusterTrainingRuntime"))

    plane.wait_for(lambda: served.follows("ClusterTrainingRuntime") == runtimes(), "all runtimes")
    assert (
        served.metric("stationmaster_cluster_info", gangs="coscheduling,volcano", trainer="2.3")
        == 1
    )
    mine = plane.audit(user=plane.users[users.STATIONMASTER].name)
    calls = [(e["verb"], e["objectRef"]) for e in mine if "objectRef" in e]
    asked = {(verb, what["resource"]) for verb, what in calls}
    granted = {(verb, plural) for r in RULES for plural in r["resources"] for verb in r["verbs"]}
    assert asked >= {(verb, plural) for verb, plural in granted if verb == "list"}
    assert asked <= granted | {("list", "priorityclasses"), ("watch", "priorityclasses")}
    followed = {
        (what["namespace"], what["name"])
        for verb, what in calls
        if what["resource"] == "configmaps" and verb != "get"
    }
    assert followed == {("stationmaster-system", "stationmaster-mode")}
    for kind in ("TrainJob", "JobSet", "PodGroup.scheduling.x-k8s.io", VOLCANO):
        assert served.metric("stationmaster_cache_synced", kind=kind) == 1


def test_a_runtime_is_followed_from_its_creation_to_its_end(
    plane: ControlPlane, served: Served, namespace: str
) -> None:
    count = served.follows("ClusterTrainingRuntime")

    assert plane.kubectl("create", "-f", "-", input=runtime(plane, "crud", 3)).returncode == 0
    plane.wait_for(lambda: members(plane, namespace, "crud") == "3", "the runtime")
    assert plane.kubectl("apply", "-f", "-", input=runtime(plane, "crud", 5)).returncode == 0
    plane.wait_for(lambda: members(plane, namespace, "crud") == "5", "its change")
    assert served.follows("ClusterTrainingRuntime") == count + 1
    assert plane.kubectl("delete", "clustertrainingruntime", "crud").returncode == 0
    plane.wait_for(lambda: "must be created before" in members(plane, namespace, "crud"), "its end")
    assert served.follows("ClusterTrainingRuntime") == count


def test_a_job_that_comes_right_after_its_runtime_is_never_refused(
    plane: ControlPlane, served: Served, namespace: str
) -> None:
    """B119. The API server is asked directly: a kubectl between the two would hide the race."""
    for i in range(30):
        plane.admin.create(runtime(plane, f"fresh-{i}"))
        plane.admin.create(jobs.train_job(namespace, f"fresh-{i}", runtime=f"fresh-{i}"))

    assert len(plane.admin.list(jobs.TRAINER_API, "TrainJob", namespace)) == 30
    assert served.ready()[0] == 200


def test_an_update_of_overrides_is_judged_by_the_trainers_copy(
    plane: ControlPlane, served: Served, namespace: str
) -> None:
    plane.admin.create(runtime(plane, "moves", 2))
    job = jobs.train_job(namespace, "copied", runtime="moves", suspend=True)
    created = plane.admin.create(job)
    assert totals(created)["resources"] == {}
    copy = runtime(plane, "moves", 2)
    node = copy["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    node["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    plane.admin.create(snapshot(namespace, "copied", created["metadata"]["uid"], copy))

    patch = {"manager": "example.com/a", "trainingRuntimeSpec": {"template": {"spec": {}}}}
    plane.admin.merge(job, {"spec": {"runtimePatches": [patch]}})

    # The live runtime asks for no CPU: the number can only come from the copy.
    assert totals(jobs.get(plane, namespace, "copied"))["resources"] == {"cpu": "6"}
    assert served.ready()[0] == 200


def totals(job: Object) -> Object:
    read: Object = json.loads(job["metadata"]["annotations"]["stationmaster.dev/podgroup-totals"])
    return read


def snapshot(namespace: str, name: str, uid: str, copy: Object) -> Object:
    """As the Trainer's controller writes it."""
    owner = {
        "apiVersion": jobs.TRAINER_API,
        "kind": "TrainJob",
        "name": name,
        "uid": uid,
        "controller": True,
    }
    metadata = {
        "name": f"{name}-runtime-snapshot",
        "namespace": namespace,
        "ownerReferences": [owner],
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"runtime": yaml.safe_dump(copy)},
    }


def test_a_leftover_is_told_of_when_its_name_is_used_again(
    plane: ControlPlane, served: Served, namespace: str
) -> None:
    count = served.follows("JobSet")
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": jobs.IMAGE}]}
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    plane.admin.create(
        {
            "apiVersion": jobs.JOBSET_API,
            "kind": "JobSet",
            "metadata": {"name": "again", "namespace": namespace},
            "spec": {"replicatedJobs": [job]},
        }
    )
    plane.wait_for(lambda: served.follows("JobSet") == count + 1, "the JobSet")

    created = plane.kubectl(
        "create", "-f", "-", user="alice", input=jobs.train_job(namespace, "again")
    )

    assert created.returncode == 0, created.stderr
    assert "Warning: there is already JobSet again, which is no TrainJob's" in created.stderr


@pytest.mark.parametrize("how", ["foreground", "background"])
def test_who_deletes_in_the_foreground_is_told_what_to_do_instead(
    plane: ControlPlane, served: Served, namespace: str, how: str
) -> None:
    assert served.ready()[0] == 200
    job = jobs.train_job(namespace, "going")
    plane.admin.create(job)
    arguments = ("delete", "trainjob", "going", "-n", namespace, f"--cascade={how}", "--wait=false")

    deleted = plane.kubectl(*arguments, user="alice")

    assert deleted.stdout.startswith('trainjob.trainer.kubeflow.org "going" deleted')
    assert ("delete in the background instead" in deleted.stderr) is (how == "foreground")
    # Without a garbage collector the foreground never ends; a second deletion, as advised, ends it.
    plane.admin.delete(job)
    assert plane.admin.find(jobs.TRAINER_API, "TrainJob", "going", namespace) is None


def test_who_deletes_a_runtime_is_told_who_uses_it(
    plane: ControlPlane, served: Served, namespace: str
) -> None:
    assert served.ready()[0] == 200
    mine: Object = {
        **runtime(plane, "mine"),
        "kind": "TrainingRuntime",
        "metadata": {"name": "mine", "namespace": namespace},
    }
    plane.admin.create(mine)
    job = jobs.train_job(namespace, "user")
    job["spec"]["runtimeRef"] = {"name": "mine", "kind": "TrainingRuntime"}
    plane.admin.create(job)
    said = "1 unfinished TrainJob uses TrainingRuntime mine: user"
    delete = ("delete", "trainingruntime", "mine", "-n", namespace)
    plane.wait_for(
        lambda: said in plane.kubectl(*delete, "--dry-run=server").stderr, "the TrainJob"
    )

    deleted = plane.kubectl(*delete)

    assert deleted.returncode == 0, deleted.stderr
    assert said in deleted.stderr
    relabelled = plane.kubectl("label", "trainjob", "user", "-n", namespace, "a=b", user="alice")
    assert "Trainer's own webhook refuses every update" in relabelled.stderr


def test_gang_schedulers_are_noticed_as_they_come_and_go(
    plane: ControlPlane, served: Served
) -> None:
    crd = plane.admin.get("apiextensions.k8s.io/v1", CRD, PODGROUPS)
    plane.admin.delete(crd)
    plane.wait_for(
        lambda: (
            served.metric("stationmaster_cluster_info", gangs="coscheduling", trainer="2.3") == 1
        ),
        "Volcano to be missed",
    )
    plane.wait_for(
        lambda: served.metric("stationmaster_cache_synced", kind=VOLCANO) == 0, "its PodGroups"
    )
    assert served.ready()[0] == 200
    metadata = {
        "name": PODGROUPS,
        # The API server guards the group: only with this are its kinds served.
        "annotations": crd["metadata"].get("annotations", {}),
    }
    plane.wait_for(
        lambda: plane.admin.find("apiextensions.k8s.io/v1", CRD, PODGROUPS) is None, "the deletion"
    )
    plane.admin.create({**crd, "metadata": metadata})
    plane.wait_for(
        lambda: (
            served.metric("stationmaster_cluster_info", gangs="coscheduling,volcano", trainer="2.3")
            == 1
        ),
        "Volcano to be back",
    )
    plane.wait_for(
        lambda: served.metric("stationmaster_cache_synced", kind=VOLCANO) == 1, "its PodGroups"
    )


def test_a_restart_of_the_api_server_is_survived(
    plane: ControlPlane, served: Served, namespace: str
) -> None:
    before = plane.apiserver.pid
    plane.apiserver.stop()
    plane.wait_for(
        lambda: served.metric("stationmaster_cache_cut_off_seconds", kind="TrainingRuntime") > 1,
        "the cut",
    )
    assert served.ready()[0] == 200
    plane.apiserver.start()
    assert plane.apiserver.pid != before

    made = plane.wait_for(lambda: runtime(plane, "after-restart", 4), "runtimes to be served")
    plane.admin.create(made)
    plane.wait_for(lambda: members(plane, namespace, "after-restart") == "4", "the runtime")
    plane.wait_for(
        lambda: served.metric("stationmaster_cache_cut_off_seconds", kind="TrainingRuntime") == 0,
        "the watch",
        timeout_seconds=120,
    )


def test_a_killed_api_server_is_survived_and_nothing_is_missed(
    plane: ControlPlane, served: Served, namespace: str
) -> None:
    plane.apiserver.kill()
    plane.apiserver.start()
    # It is ready before its CRDs are: "storage is (re)initializing".
    there = plane.wait_for(
        lambda: plane.admin.list(jobs.TRAINER_API, "ClusterTrainingRuntime"), "the runtimes"
    )
    made = runtime(plane, "after-kill", 6)
    plane.admin.create(made)
    plane.wait_for(lambda: members(plane, namespace, "after-kill") == "6", "the runtime")
    plane.admin.delete(made)

    plane.wait_for(lambda: served.follows("ClusterTrainingRuntime") == len(there), "its deletion")


def test_an_api_server_that_holds_still_does_not_stop_reviews(
    plane: ControlPlane, served: Served
) -> None:
    plane.apiserver.pause()
    try:
        assert served.ready()[0] == 200
        assert served.lives()
    finally:
        plane.apiserver.resume()
