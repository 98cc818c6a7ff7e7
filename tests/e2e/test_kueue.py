"""Kueue beside us: what it reserves is what we counted, what it adds lives with what is there, and it is asked after us."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from plugins.framework import quantity
from tests.e2e import jobs
from tests.e2e.conftest import MakeNamespace
from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.labels import ADMISSION, KUEUE
from tests.e2e.standalone import MUTATING, Standalone, write

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("standalone")]

TOTALS: Final = "stationmaster.dev/podgroup-totals"
ROUND: Final = re.compile(r"mutation\.webhook\.admission\.k8s\.io/round_(\d+)_index_(\d+)")
KUEUE_MUTATING: Final = "kueue-mutating-webhook-configuration"
TRAINER_MUTATING: Final = "defaulter.trainer.kubeflow.org"

SIZED: Final[Object] = {
    "numNodes": 3,
    "resourcesPerNode": {"requests": {"cpu": "1500m"}, "limits": {"memory": "2Gi"}},
}
BUILTIN: Final[Object] = {
    "dataset": {"storageUri": "hf://e2e/dataset"},
    "model": {"storageUri": "hf://e2e/model"},
}

CASES: Final[Mapping[str, Object]] = {
    "torch-distributed": {"trainer": SIZED},
    "jax-distributed": {"trainer": SIZED},
    "xgboost-distributed": {"trainer": SIZED},
    "deepspeed-distributed": {"trainer": SIZED},
    "torchtune-llama3.2-1b": {"initializer": BUILTIN},
    "torch-distributed-with-cache": {"trainer": SIZED},
}
"""All kinds of shape: a node job alone, with a launcher, with initializers that go before it."""

LABELLED: Final[Object] = {
    "manager": "example.com/alice",
    "trainingRuntimeSpec": {
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "spec": {"template": {"metadata": {"labels": {"team": "vision"}}}}
                        },
                    }
                ]
            }
        }
    },
}


@pytest.fixture
def namespace(make_namespace: MakeNamespace) -> str:
    """A namespace in which both Stationmaster and Kueue act."""
    return make_namespace(ADMISSION, KUEUE)


@pytest.mark.parametrize("runtime", CASES)
def test_the_workload_reserves_what_we_counted(
    plane: ControlPlane, namespace: str, runtime: str
) -> None:
    queue = jobs.queue(plane, namespace)
    job = jobs.in_queue(jobs.train_job(namespace, "job", runtime=runtime, **CASES[runtime]), queue)

    created = plane.kubectl("create", "-f", "-", "-o", "json", user="alice", input=job)

    assert created.returncode == 0, created.stderr
    stored = json.loads(created.stdout)
    assert stored["spec"]["suspend"] is True
    counted = totals(stored)["podSets"]
    assert reserved(workload(plane, namespace)) == {
        name: (part["count"], amounts(part["resources"])) for name, part in counted.items()
    }


def test_what_only_the_namespace_and_the_sandbox_add_is_reserved_too(
    plane: ControlPlane, standalone: Standalone, namespace: str
) -> None:
    """Init containers, limits without requests, a LimitRange's defaults, a RuntimeClass's overhead."""
    objects = heavy_objects(namespace)
    plane.apply(objects)
    files = [write(standalone.folder, obj) for obj in objects]
    queue = jobs.queue(plane, namespace)
    job = jobs.in_queue(jobs.train_job(namespace, "job", trainer={"numNodes": 2}), queue)
    job["spec"]["runtimeRef"] = {"kind": "TrainingRuntime", "name": objects[-1]["metadata"]["name"]}

    def created() -> Object | None:
        done = plane.kubectl("create", "-f", "-", "-o", "json", user="alice", input=job)
        return json.loads(done.stdout) if done.returncode == 0 else None

    stored = plane.wait_for(created, "the folder's change to be seen")
    for file in files:
        file.unlink()

    counted = totals(stored)["podSets"]["node"]
    assert amounts(counted["resources"]) == amounts(
        # 2 x (an init container of 3, more than 1 + 500m; and 250m of the sandbox)
        {"cpu": "6500m", "memory": "2368Mi"}
    )
    # The Workload's pod sets are the containers as they stand there; the rest is added when it is admitted.
    (used,) = plane.wait_for(lambda: assigned(plane, namespace), "Kueue to admit the job")
    assert (used["name"], used["count"]) == ("node", 2)
    assert amounts(used["resourceUsage"]) == amounts(counted["resources"])


def heavy_objects(namespace: str) -> list[Object]:
    """A LimitRange, a RuntimeClass, and a runtime whose pods need more than their containers say."""
    template = {
        "runtimeClassName": namespace,
        "initContainers": [
            {"name": "first", "image": jobs.IMAGE, "resources": {"requests": {"cpu": "3"}}}
        ],
        "containers": [
            {"name": "node", "image": jobs.IMAGE, "resources": {"requests": {"cpu": "1"}}},
            {"name": "helper", "image": jobs.IMAGE, "resources": {"limits": {"cpu": "500m"}}},
        ],
    }
    part = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": template}},
        },
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "defaults", "namespace": namespace},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "512Mi"}}]},
        },
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": namespace},
            "handler": "kata",
            "overhead": {"podFixed": {"cpu": "250m", "memory": "160Mi"}},
        },
        {
            "apiVersion": jobs.TRAINER_API,
            "kind": "TrainingRuntime",
            "metadata": {
                "name": namespace,
                "namespace": namespace,
                "labels": {"trainer.kubeflow.org/framework": "torch"},
            },
            "spec": {
                "mlPolicy": {"numNodes": 1},
                "template": {"spec": {"replicatedJobs": [part]}},
            },
        },
    ]


def test_an_admitted_job_keeps_all_patches(plane: ControlPlane, namespace: str) -> None:
    queue = jobs.queue(plane, namespace)
    job = jobs.train_job(namespace, "job", trainer=SIZED, runtimePatches=[LABELLED])

    stored = plane.admin.create(jobs.in_queue(job, queue))

    assert stored["spec"]["suspend"] is True
    plane.wait_for(
        lambda: not jobs.get(plane, namespace, "job")["spec"]["suspend"], "Kueue to admit the job"
    )
    admitted = jobs.get(plane, namespace, "job")
    managers = [patch["manager"] for patch in admitted["spec"]["runtimePatches"]]
    assert sorted(managers) == ["example.com/alice", "kueue.x-k8s.io/manager"]
    assert ours(admitted) == ours(stored)
    template = node_template(jobs.jobset(plane, namespace, "job"))
    assert template["metadata"]["labels"]["team"] == "vision"
    assert template["spec"]["nodeSelector"] == {"e2e.stationmaster.dev/flavor": "a"}
    pods = jobs.wait_for_pods(plane, namespace, "job", count=3)
    assert {pod["metadata"]["labels"]["team"] for pod in pods} == {"vision"}


def test_we_are_asked_first_and_again_once_others_have_changed_the_job(
    plane: ControlPlane, namespace: str
) -> None:
    queue = jobs.queue(plane, namespace)
    job = jobs.train_job(namespace, "job", trainer=SIZED, runtimePatches=[LABELLED])

    plane.admin.create(jobs.in_queue(job, queue))

    def created() -> list[Object]:
        return plane.audit(verb="create", resource="trainjobs", namespace=namespace)

    (event,) = plane.wait_for(created, "the audit log")
    rounds = asked(event)
    assert rounds[0] == [
        (MUTATING, True),
        (TRAINER_MUTATING, rounds[0][1][1]),
        (KUEUE_MUTATING, True),
    ]
    # What Kueue did to the job changes nothing for us: a fixed point.
    assert (MUTATING, False) in rounds[1]


def asked(event: Object) -> list[list[tuple[str, bool]]]:
    """Which configurations were asked, in their order, and whether they changed the job; by rounds."""
    found: dict[int, list[tuple[int, str, bool]]] = {}
    for key, value in event["annotations"].items():
        if match := ROUND.fullmatch(key):
            note = json.loads(value)
            turn, index = map(int, match.groups())
            found.setdefault(turn, []).append((index, note["configuration"], note["mutated"]))
    return [[(name, did) for _, name, did in sorted(found[turn])] for turn in sorted(found)]


def workload(plane: ControlPlane, namespace: str) -> Object:
    """The one Workload of the namespace, once it is there."""
    (found,) = plane.wait_for(
        lambda: plane.admin.list(jobs.KUEUE_API, "Workload", namespace), "Kueue's Workload"
    )
    return found


def assigned(plane: ControlPlane, namespace: str) -> list[Object]:
    """What the queue's quota is charged with, pod set by pod set; nothing before the job is admitted."""
    admission = workload(plane, namespace).get("status", {}).get("admission") or {}
    found: list[Object] = admission.get("podSetAssignments", [])
    return found


def reserved(found: Object) -> dict[str, tuple[int, dict[str, int]]]:
    """What a Workload asks for, pod set by pod set: how many pods, and the requests of all of them."""
    return {
        part["name"]: (part["count"], _times(part["count"], part["template"]["spec"]))
        for part in found["spec"]["podSets"]
    }


def _times(count: int, spec: Object) -> dict[str, int]:
    """The requests of so many pods without init containers, as those of the shipped runtimes are."""
    assert not spec.get("initContainers")
    found: dict[str, int] = {}
    for container in spec["containers"]:
        for name, amount in _requests(container):
            found[name] = found.get(name, 0) + amount
    return {name: count * amount for name, amount in found.items()}


def _requests(container: Object) -> Iterator[tuple[str, int]]:
    given = container.get("resources") or {}
    asked_for = {**given.get("limits", {}), **given.get("requests", {})}
    yield from amounts(asked_for).items()


def amounts(given: Mapping[str, Any]) -> dict[str, int]:
    """Amounts by resource, comparable."""
    return {name: quantity.parse(str(amount)).nano for name, amount in given.items()}


def totals(job: Object) -> Object:
    """What we counted."""
    read: Object = json.loads(job["metadata"]["annotations"][TOTALS])
    return read


def ours(job: Object) -> Object:
    """The annotations that Stationmaster wrote."""
    found = job["metadata"]["annotations"]
    return {key: value for key, value in found.items() if key.startswith("stationmaster.dev/")}


def node_template(jobset: Object) -> Object:
    """The pod template of the job `node`."""
    (found,) = [
        part["template"]["spec"]["template"]
        for part in jobset["spec"]["replicatedJobs"]
        if part["name"] == "node"
    ]
    template: Object = found
    return template
