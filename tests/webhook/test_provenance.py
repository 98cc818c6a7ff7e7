"""Each value of the resolved pods, and the layer that it comes from."""

from __future__ import annotations

import pytest

from tests.builders import (
    MakeTrainJob,
    container,
    job_patch,
    make_runtime,
    make_train_job,
    mount,
    patched,
    resources,
)
from tests.folder import Folder, pod
from webhook.provenance import Layer

RUNTIME = (
    make_runtime()
    .torch()
    .nodes(2)
    .node(
        container(
            "node",
            {"A": "runtime", "B": "runtime"},
            command=["base"],
            resources=resources({"cpu": "4", "memory": "1Gi"}),
            volumeMounts=[mount("v", "/v")],
        ),
        pod={
            "nodeSelector": {"zone": "z0", "disk": "hdd"},
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
        pod_metadata={"labels": {"own": "1"}},
    )
    .coscheduling()
)
JOB = (
    make_train_job()
    .env("B", "job")
    .env("C", "job")
    .trainer(image="job:1")
    .resources({"cpu": "8"})
    .patch(
        "a.example/one",
        job_patch("node", pod={"nodeSelector": {"zone": "z1"}, "serviceAccountName": "sa"}),
    )
    .patch(
        "b.example/two",
        job_patch(
            "node",
            pod={
                "nodeSelector": {"zone": "z2"},
                "containers": [patched("node", volumeMounts=[mount("v", "/w")])],
            },
            pod_metadata={"labels": {"more": "2"}},
            job_metadata={"annotations": {"job": "3"}},
        ),
    )
)


def rows(job: MakeTrainJob, *, line: str = "2.3") -> dict[str, Layer]:
    """Every value of the job's pods."""
    layers = Folder.of(RUNTIME, line=line).explain(job).layers
    by_path = {row.path: row for row in layers}
    assert len(by_path) == len(layers), "a path stands twice"
    return by_path


RUNTIME_BY = "ClusterTrainingRuntime/runtime"
FROM: dict[str, tuple[object, str, str]] = {
    "node.spec.nodeSelector.disk": ("hdd", "runtime", RUNTIME_BY),
    "node.spec.nodeSelector.zone": ("z2", "override", "b.example/two"),
    "node.spec.serviceAccountName": ("sa", "override", "a.example/one"),
    "node.metadata.labels.own": ("1", "runtime", RUNTIME_BY),
    "node.metadata.labels.more": ("2", "override", "b.example/two"),
    "node.metadata.labels.scheduling.x-k8s.io/pod-group": ("test-job", "plugin", "podGroupPolicy"),
    "node.job.metadata.annotations.job": ("3", "override", "b.example/two"),
    "node.spec.containers[node].image": ("job:1", "TrainJob", "spec.trainer"),
    "node.spec.containers[node].command": (["base"], "runtime", RUNTIME_BY),
    "node.spec.containers[node].env[A].value": ("runtime", "runtime", RUNTIME_BY),
    "node.spec.containers[node].env[B].value": ("job", "plugin", "Torch"),
    "node.spec.containers[node].env[C].value": ("job", "plugin", "Torch"),
    "node.spec.containers[node].env[PET_NNODES].value": ("2", "plugin", "Torch"),
    "node.spec.containers[node].volumeMounts[/v].name": ("v", "runtime", RUNTIME_BY),
    "node.spec.containers[node].volumeMounts[/w].name": ("v", "override", "b.example/two"),
    "node.spec.containers[node].ports[29500].containerPort": (29500, "plugin", "Torch"),
    "node.spec.containers[node].resources.requests.memory": ("1Gi", "runtime", RUNTIME_BY),
    "node.spec.containers[node].resources.requests.cpu": (
        "8",
        "TrainJob",
        "spec.trainer.resourcesPerNode",
    ),
}


@pytest.mark.parametrize("path", FROM)
def test_a_value_names_its_layer(path: str) -> None:
    row = rows(JOB)[path]
    assert (row.value, row.layer, row.by) == FROM[path]


def test_the_count_comes_from_whoever_said_it_last() -> None:
    def layer(job: MakeTrainJob) -> tuple[object, str]:
        row = rows(job)["node.parallelism"]
        return row.value, row.by

    assert layer(JOB) == (2, "JobSet")
    assert layer(JOB.nodes(5)) == (5, "JobSet")


def test_every_value_of_the_rendered_pods_has_a_layer() -> None:
    """Nothing is missing and nothing is made up: the rows are the pods that ``render`` shows."""
    explained = rows(JOB)
    rendered = pod(Folder.of(RUNTIME).render(JOB, admitted=True))
    container_ = rendered["containers"][0]
    assert explained["node.spec.containers[node].image"].value == container_["image"]
    names = {f"node.spec.containers[node].env[{e['name']}].name" for e in container_["env"]}
    assert names == {p for p in explained if ".env[" in p and p.endswith(".name")}
    kinds = {"runtime", "override", "TrainJob", "plugin"}
    assert all(row.layer in kinds and row.by for row in explained.values())


def test_items_that_nothing_tells_apart_are_numbered() -> None:
    tolerations = [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]
    job = make_train_job().patch(
        "a.example/one", job_patch("node", pod={"tolerations": tolerations})
    )
    found = {p: r.value for p, r in rows(job).items() if p.startswith("node.spec.tolerations")}
    assert found == {
        "node.spec.tolerations[0].key": "a",
        "node.spec.tolerations[0].effect": "NoSchedule",
        "node.spec.tolerations[1].key": "a",
        "node.spec.tolerations[1].effect": "NoExecute",
    }


def test_layers_of_an_older_line_are_numbered() -> None:
    job = make_train_job().pod_template_override("node", pod={"nodeSelector": {"zone": "z1"}})
    row = rows(job, line="2.1")["node.spec.nodeSelector.zone"]
    assert (row.value, row.by) == ("z1", "podTemplateOverrides[0]")
