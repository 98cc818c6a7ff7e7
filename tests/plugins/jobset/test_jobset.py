"""The JobSet as the controller builds it: counts, initializers, ``spec.trainer`` and what the PodGroup adds."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework.api import names
from tests.builders import (
    IMAGE,
    MakeRuntime,
    MakeTrainJob,
    container,
    make_runtime,
    make_train_job,
    mount,
)
from tests.plugins.kit import LINES, Case, built, resolve, table

JOB = make_train_job()
PLAIN = make_runtime().plain()
THREE = PLAIN.initializers().node(container("node"), container("side"))
DATASET = names.DATASET_INITIALIZER
SECRET_KEY = {"secretKeyRef": {"name": "s", "key": "k"}}


def untouched(name: str) -> dict[str, Any]:
    """A container of the builders as the controller's Go types give it back."""
    return {"name": name, "image": IMAGE, "resources": {}}


# Counts


COUNTS: dict[str, tuple[MakeTrainJob, MakeRuntime, int]] = {
    "M01 the TrainJob's numNodes wins over the runtime's": (JOB.nodes(30), THREE.nodes(100), 30),
    "M02 without one the runtime's counts": (JOB.trainer(), THREE.nodes(100), 100),
    "M02 without a trainer too": (JOB, THREE.nodes(100), 100),
    "2.6.1 the runtime's 0 is 1": (JOB, THREE.nodes(0), 1),
    "2.6.1 the runtime's -3 is 1": (JOB, THREE.nodes(-3), 1),
    "2.6.1 a TrainJob's 0 is passed on": (JOB.nodes(0), THREE.nodes(2), 0),
    "2.6.1 a TrainJob's -1 is passed on": (JOB.nodes(-1), THREE.nodes(2), -1),
    "2.6.1 with an mlPolicy the template's parallelism of the trainer is lost": (
        JOB,
        PLAIN.node(job_spec={"parallelism": 7, "completions": 9}),
        1,
    ),
    "2.6.1 without one it counts": (JOB, make_runtime().node(job_spec={"parallelism": 7}), 7),
}


@pytest.mark.parametrize("line", LINES)
@table(COUNTS)
def test_counts(line: str, case: tuple[MakeTrainJob, MakeRuntime, int]) -> None:
    job, runtime, count = case
    assert built(job, runtime, line=line).counts("node") == (count, count)


def test_m01_the_rest_of_the_job_stays() -> None:
    made = built(JOB.nodes(30), THREE.nodes(100))
    assert made.jobs == ["dataset-initializer", "model-initializer", "node"]
    assert made.counts(DATASET) == (1, 1)
    assert made.container()["image"] == "example.test/train:1"


def test_p03_a_job_without_ancestor_keeps_parallelism_which_becomes_completions_too() -> None:
    made = built(JOB, THREE.job("extra", job_spec={"parallelism": 3, "completions": 9}, replicas=2))
    assert made.counts("extra") == (3, 3)
    assert made.job("extra")["replicas"] == 2


def test_g27_of_two_trainers_only_the_first_gets_the_count() -> None:
    runtime = PLAIN.node().job("more", names.TRAINER)
    made = built(JOB.nodes(4).trainer(image="x"), runtime)
    assert (made.counts("node")[0], made.counts("more")[0]) == (4, 1)
    assert made.container("more")["image"] == made.container("node")["image"] == "x"


def test_0_1_13_in_2_0_both_get_it() -> None:
    made = built(JOB.nodes(4), PLAIN.node().job("more", names.TRAINER), line="2.0")
    assert (made.counts("node")[0], made.counts("more")[0]) == (4, 4)


# Endpoints


def endpoints(job: MakeTrainJob, runtime: MakeRuntime, line: str = "2.3") -> dict[str, list[str]]:
    info = resolve(Case(job=job, runtime=runtime, line=line))
    return {pod_set.name: list(pod_set.endpoints) for pod_set in info.pod_sets}


def test_p01_endpoints_of_every_pod() -> None:
    assert endpoints(JOB.nodes(2), THREE) == {
        "dataset-initializer": ["test-job-dataset-initializer-0-0.test-job"],
        "model-initializer": ["test-job-model-initializer-0-0.test-job"],
        "node": ["test-job-node-0-0.test-job", "test-job-node-0-1.test-job"],
    }


def test_p02_a_subdomain_of_the_template_is_the_suffix() -> None:
    found = endpoints(JOB, PLAIN.node().template("custom", "network", "subdomain"))
    assert found == {"node": ["test-job-node-0-0.custom"]}


@pytest.mark.parametrize(("line", "replicas"), [("2.3", [0, 1]), ("2.2", [0]), ("2.0", [0])])
def test_endpoints_of_replicas_since_2_3(line: str, replicas: list[int]) -> None:
    found = endpoints(JOB, PLAIN.job("x", replicas=2), line)
    assert found == {"x": [f"test-job-x-{r}-0.test-job" for r in replicas]}


def test_the_first_endpoints_do_not_need_the_others() -> None:
    info = resolve(Case(job=JOB.nodes(2**31 - 1), runtime=PLAIN.node()))
    assert next(info.pod_sets[0].endpoints) == "test-job-node-0-0.test-job"


# The trainer


def test_m03_image_command_and_args_go_to_container_node_only() -> None:
    job = JOB.trainer(image="own:1", command=["python"], args=["train.py"])
    made = built(job, THREE)
    node = made.container()
    assert (node["image"], node["command"], node["args"]) == ("own:1", ["python"], ["train.py"])
    assert made.container("node", "side") == untouched("side")
    assert "command" not in made.container(DATASET, DATASET)


def test_m04_env_of_the_trainjob_replaces_entries_in_place_and_adds_behind() -> None:
    node = container("node", {"TRAIN_JOB": "original", "RUNTIME": "x"})
    job = JOB.env("TRAIN_JOB_CUSTOM", "y").env("TRAIN_JOB", "override")
    found = built(job, PLAIN.node(node)).env()
    assert list(found.items()) == [
        ("TRAIN_JOB", "override"),
        ("RUNTIME", "x"),
        ("TRAIN_JOB_CUSTOM", "y"),
    ]


def test_an_empty_image_replaces_too() -> None:
    assert built(JOB.trainer(image=""), THREE).container()["image"] == ""


def test_an_empty_command_replaces_and_leaves_none() -> None:
    made = built(
        JOB.trainer(command=[], args=[]), PLAIN.node(container("node", command=["a"], args=["b"]))
    )
    assert made.container() == untouched("node")


def test_m23_without_trainer_a_trainer_job_gets_one_replica_and_no_more() -> None:
    made = built(JOB, THREE)
    assert made.job("node")["replicas"] == 1
    assert made.container() == untouched("node")


def test_m22_a_job_without_ancestor_is_left_alone() -> None:
    job = JOB.trainer(image="x", env=[{"name": "A", "value": "1"}]).initializer(
        "dataset", storageUri="hf://a/b"
    )
    made = built(job, THREE.job("extra"))
    assert made.container("extra") == untouched("node")


ENV: dict[str, tuple[Any, Any]] = {
    "a value": ("x", "x"),
    "a key of a ConfigMap": (
        {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}},
        {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}},
    ),
    "a key of a Secret": (SECRET_KEY, SECRET_KEY),
    "a field, whose apiVersion is dropped": (
        {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}},
        {"fieldRef": {"fieldPath": "metadata.name"}},
    ),
    "a resource": (
        {"resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "1"}},
        {"resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "1"}},
    ),
    "a key of a file becomes an empty source": (
        {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}},
        {},
    ),
}


@table(ENV)
def test_m26_env_is_converted(case: tuple[Any, Any]) -> None:
    given, wanted = case
    assert built(JOB.env("A", given), THREE).env()["A"] == wanted


# Initializers


def test_m19_an_initializer_gets_its_uri_env_and_secret() -> None:
    own = container(
        DATASET,
        {"STORAGE_URI": "old", "KEEP": "1", "HF_TOKEN": "old"},
        envFrom=[{"configMapRef": {"name": "c"}}],
    )
    job = JOB.initializer(
        "dataset",
        storageUri="hf://tatsu-lab/alpaca",
        env=[{"name": "HF_TOKEN", "value": "new"}, {"name": "MORE", "valueFrom": SECRET_KEY}],
        secretRef={"name": "hf"},
    )
    made = built(job, PLAIN.job(DATASET, DATASET, containers=[own, container("side")]).node())
    assert made.env(DATASET, DATASET) == {
        "STORAGE_URI": "hf://tatsu-lab/alpaca",
        "KEEP": "1",
        "HF_TOKEN": "new",
        "MORE": SECRET_KEY,
    }
    assert made.container(DATASET, DATASET)["envFrom"] == [
        {"configMapRef": {"name": "c"}},
        {"secretRef": {"name": "hf"}},
    ]
    assert "env" not in made.container(DATASET, "side")


def test_m20_without_a_secret_there_is_no_env_from() -> None:
    made = built(JOB.initializer("dataset", storageUri="hf://a/b"), THREE)
    assert "envFrom" not in made.container(DATASET, DATASET)


def test_m21_without_initializer_only_the_replicas_are_set() -> None:
    assert built(JOB, THREE).job(DATASET) == {
        **built(JOB.trainer(image="x"), THREE).job(DATASET),
        "replicas": 1,
    }
    assert "env" not in built(JOB, THREE).container(DATASET, DATASET)


def test_env_of_the_initializer_wins_over_its_uri() -> None:
    job = JOB.initializer(
        "model", storageUri="hf://a/b", env=[{"name": "STORAGE_URI", "value": "x"}]
    )
    assert built(job, THREE).env(names.MODEL_INITIALIZER, names.MODEL_INITIALIZER) == {
        "STORAGE_URI": "x"
    }


def test_an_empty_uri_is_set_too() -> None:
    made = built(JOB.initializer("model", storageUri=""), THREE)
    assert made.env(names.MODEL_INITIALIZER, names.MODEL_INITIALIZER) == {"STORAGE_URI": ""}


# The object


@pytest.mark.parametrize("suspend", [True, False])
def test_m24_suspend_is_copied(suspend: bool) -> None:
    assert built(JOB.suspended(suspend), THREE).jobset["spec"]["suspend"] is suspend


def test_the_jobset_is_named_and_owned() -> None:
    metadata = built(JOB, THREE).jobset["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("test-job", "team")
    [owner] = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("TrainJob", "test-job", True)


def test_metadata_of_the_trainjob_and_of_the_runtime_go_nowhere() -> None:
    made = built(JOB.label("a", "b").annotation("c", "d"), THREE.label("e", "f"))
    assert made.jobset["metadata"].keys() == {"name", "namespace", "ownerReferences"}


def test_m25_labels_and_annotations_of_pod_groups_reach_every_pod() -> None:
    runtime = THREE.job("extra", pod_metadata={"labels": {"own": "1"}})
    made = built(JOB, runtime.coscheduling().volcano())
    for job in made.jobs:
        metadata = made.pod_template(job)["metadata"]
        assert metadata["labels"]["scheduling.x-k8s.io/pod-group"] == "test-job"
        assert metadata["annotations"] == {"scheduling.k8s.io/group-name": "test-job"}
    assert made.pod_template("extra")["metadata"]["labels"]["own"] == "1"


def test_the_rest_of_the_template_is_kept() -> None:
    runtime = THREE.template(3600, "ttlSecondsAfterFinished").template(
        {"maxRestarts": 2}, "failurePolicy"
    )
    spec = built(JOB, runtime).jobset["spec"]
    assert spec["ttlSecondsAfterFinished"] == 3600
    assert spec["failurePolicy"]["maxRestarts"] == 2


def test_g18_copying_back_folds_unnamed_ports_onto_the_first() -> None:
    ports = [{"containerPort": 1}, {"containerPort": 2}, {"containerPort": 3, "name": "x"}]
    made = built(JOB, PLAIN.node(container("node", ports=ports)))
    assert [p["containerPort"] for p in made.container()["ports"]] == [2, 2, 3]


def test_what_a_runtime_mounts_is_kept() -> None:
    node = container("node", volumeMounts=[mount("v", "/v")])
    made = built(JOB, PLAIN.node(node, pod={"volumes": [{"name": "v", "emptyDir": {}}]}))
    assert made.container()["volumeMounts"] == [mount("v", "/v")]
    assert made.pod()["volumes"] == [{"name": "v", "emptyDir": {}}]
