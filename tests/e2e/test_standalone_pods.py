"""The Pods that exist are the Pods that ``stationmaster render`` shows, for every shipped runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Final

import pytest
import yaml

from tests.e2e import jobs, predicted
from tests.e2e.conftest import MakeNamespace
from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.labels import ADMISSION
from tests.e2e.standalone import Standalone

pytestmark = pytest.mark.e2e

LABEL: Final = {"team": "vision"}

PLAIN: Final = {"numNodes": 2, "image": jobs.IMAGE, "env": [{"name": "LEVEL", "value": "debug"}]}
SIZED: Final = {
    **PLAIN,
    "numProcPerNode": 2,
    "command": ["python", "train.py"],
    "resourcesPerNode": {"requests": {"cpu": "2"}, "limits": {"memory": "1.5Gi"}},
}
INITIALIZED: Final = {
    "dataset": {"storageUri": "hf://e2e/dataset", "env": [{"name": "PART", "value": "a"}]},
    "model": {"storageUri": "hf://e2e/model"},
}

CASES: Final[Mapping[str, Object]] = {
    "torch-distributed": {"trainer": SIZED},
    "deepspeed-distributed": {"trainer": SIZED},
    "mlx-distributed": {"trainer": SIZED},
    "jax-distributed": {"trainer": PLAIN},
    "xgboost-distributed": {"trainer": PLAIN},
    "torchtune-llama3.2-1b": {"trainer": {"numNodes": 2}, "initializer": INITIALIZED},
    "torchtune-llama3.2-3b": {"initializer": INITIALIZED},
    "torchtune-qwen2.5-1.5b": {},
    "torch-distributed-with-cache": {"trainer": SIZED},
}


ANY_ORDER: Final = frozenset({"xgboost-distributed"})
"""The Trainer runs XGBoost before or after PlainML, as chance has it at its start: so is their env."""


@pytest.mark.parametrize("runtime", CASES)
def test_the_pods_are_the_rendered_ones(
    plane: ControlPlane, standalone: Standalone, make_namespace: MakeNamespace, runtime: str
) -> None:
    namespace = make_namespace(ADMISSION)
    job = jobs.train_job(namespace, "job", runtime=runtime, **CASES[runtime])
    job["spec"]["runtimePatches"] = [patch(runtime_of(plane, runtime))]
    rendered = predicted.render(job, standalone.folder, "--trainer-version=2.3")
    jobset = predicted.of_kind(rendered, "JobSet")
    expected = predicted.expected_pods(jobset)

    created = plane.kubectl("create", "-f", "-", user="alice", input=job)

    assert created.returncode == 0, created.stderr
    found = predicted.pods_by_part(play_until(plane, namespace, jobset, expected))
    assert {part: len(pods) for part, pods in found.items()} == {
        part: count for part, (count, _) in expected.items()
    }
    form = predicted.with_sorted_env if runtime in ANY_ORDER else copy
    for part, (_, template) in expected.items():
        for pod in found[part]:
            assert predicted.differences_of_pod(form(template), form(pod)) == []
    for wanted in rendered:
        assert_exists(plane, namespace, wanted, form)


def test_every_shipped_runtime_is_tried(plane: ControlPlane) -> None:
    assert {r["metadata"]["name"] for r in plane.shipped_runtimes()} == CASES.keys()


def runtime_of(plane: ControlPlane, name: str) -> Object:
    """A runtime that the Trainer ships."""
    (found,) = [r for r in plane.shipped_runtimes() if r["metadata"]["name"] == name]
    return found


def patch(runtime: Object) -> Object:
    """A patch of the user's that labels the pods of every part and gives them a volume."""
    parts = [
        {
            "name": part["name"],
            "template": {
                "spec": {
                    "template": {
                        "metadata": {"labels": LABEL},
                        "spec": {
                            "volumes": [{"name": "scratch", "emptyDir": {}}],
                            "tolerations": [{"key": "gpu", "operator": "Exists"}],
                        },
                    }
                }
            },
        }
        for part in runtime["spec"]["template"]["spec"]["replicatedJobs"]
    ]
    template = {"spec": {"replicatedJobs": parts}}
    return {"manager": "example.com/alice", "trainingRuntimeSpec": {"template": template}}


def play_until(
    plane: ControlPlane, namespace: str, jobset: Object, expected: dict[str, tuple[int, Object]]
) -> list[Object]:
    """Play the kubelet for whatever others wait for, until as many Pods exist as are expected."""
    finishing = {
        other["name"]
        for part in jobset["spec"]["replicatedJobs"]
        for other in part.get("dependsOn", [])
        if other["status"] == "Complete"
    }
    total = sum(count for count, _ in expected.values())

    def all_there() -> list[Object] | None:
        pods = jobs.pods(plane, namespace, job="job")
        for part, found in predicted.pods_by_part(pods).items():
            pending = [pod for pod in found if pod["status"]["phase"] == "Pending"]
            phase = "Succeeded" if part in finishing else "Running"
            jobs.play_kubelet(plane, pending, phase)
        return pods if len(pods) >= total else None

    return plane.wait_for(all_there, f"{total} pods")


def assert_exists(
    plane: ControlPlane, namespace: str, wanted: Object, form: Callable[[Object], Object]
) -> None:
    """The object exists, with what is said of it; the content of Secrets is chance."""
    kind, name = wanted["kind"], wanted["metadata"]["name"]
    found = plane.admin.get(wanted["apiVersion"], kind, name, namespace)
    data, there = wanted.get("data") or {}, found.get("data") or {}
    assert data.keys() == there.keys(), f"{kind} {name}"
    if kind == "ConfigMap" and name == "job-runtime-snapshot":
        # The Trainer writes YAML with Go's zero values, and reads either.
        data, there = ({k: yaml.safe_load(v) for k, v in each.items()} for each in (data, there))
    if kind != "Secret":
        assert list(predicted.differences("data", data, there)) == [], f"{kind} {name}"
    spec, made = form(wanted.get("spec", {})), form(found.get("spec", {}))
    assert list(predicted.differences("spec", spec, made)) == [], f"{kind} {name}"
