"""What a user of kubectl sees of Stationmaster: every way to send a TrainJob, warnings, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.e2e import jobs
from tests.e2e.conftest import MakeNamespace
from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.labels import ADMISSION
from tests.e2e.standalone import MUTATING, Standalone

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("standalone")]

RECORD: Final = "stationmaster.dev/applied"
TOTALS: Final = "stationmaster.dev/podgroup-totals"


@pytest.fixture
def namespace(make_namespace: MakeNamespace) -> str:
    """A namespace in which Stationmaster acts and Kueue does not."""
    return make_namespace(ADMISSION)


def job(namespace: str, name: str = "job", **spec: Any) -> Object:
    """A TrainJob with a number quantity, as people write them."""
    trainer = {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": 2}}}
    return jobs.train_job(namespace, name, **{"trainer": trainer, **spec})


def refused_job(namespace: str) -> Object:
    """A TrainJob with two mistakes."""
    trainer = {"numNodes": 0, "env": [{"name": "PET_NNODES", "value": "4"}]}
    return jobs.train_job(namespace, "refused", trainer=trainer)


def test_create_stores_the_completed_job(plane: ControlPlane, namespace: str) -> None:
    created = plane.kubectl("create", "-f", "-", user="alice", input=job(namespace))

    assert created.stdout == "trainjob.trainer.kubeflow.org/job created\n", created.stderr
    stored = jobs.get(plane, namespace, "job")
    # Torch starts one process for each CPU of a node without GPUs.
    assert stored["spec"]["trainer"] == {
        "numNodes": 2,
        "numProcPerNode": 2,
        "resourcesPerNode": {"requests": {"cpu": 2}},
    }
    annotations = stored["metadata"]["annotations"]
    record = json.loads(annotations[RECORD])
    assert {path: by.partition(":")[0] for path, by in record.items()} == {
        "/spec/trainer/numProcPerNode": "RuntimeDefaults"
    }
    totals = json.loads(annotations[TOTALS])
    assert (totals["members"], totals["resources"]) == (2, {"cpu": "4"})


@pytest.mark.parametrize("way", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_apply_twice_changes_nothing(
    plane: ControlPlane, namespace: str, way: tuple[str, ...]
) -> None:
    manifest = job(namespace, runtimePatches=[patch("example.com/alice", "a")])

    first = plane.kubectl("apply", "-f", "-", *way, user="alice", input=manifest)
    stored = jobs.get(plane, namespace, "job")
    second = plane.kubectl("apply", "-f", "-", *way, user="alice", input=manifest)

    assert (first.returncode, second.returncode) == (0, 0), (first.stderr, second.stderr)
    assert without_status(jobs.get(plane, namespace, "job")) == without_status(stored)


def test_dry_run_shows_the_completed_job_and_stores_nothing(
    plane: ControlPlane, namespace: str
) -> None:
    shown = plane.kubectl(
        "create", "-f", "-", "--dry-run=server", "-o", "json", user="alice", input=job(namespace)
    )

    assert TOTALS in json.loads(shown.stdout)["metadata"]["annotations"], shown.stderr
    assert plane.admin.list(jobs.TRAINER_API, "TrainJob", namespace) == []


def test_a_generated_name_is_completed_too(plane: ControlPlane, namespace: str) -> None:
    manifest = job(namespace)
    manifest["metadata"] = {"generateName": "run-", "namespace": namespace}

    made = plane.kubectl("create", "-f", "-", "-o", "name", user="alice", input=manifest)

    name = made.stdout.strip().rpartition("/")[2]
    assert name.startswith("run-"), made.stderr
    assert TOTALS in jobs.get(plane, namespace, name)["metadata"]["annotations"]


def test_patches_labels_and_annotations_pass(plane: ControlPlane, namespace: str) -> None:
    plane.admin.create(job(namespace, suspend=True))
    kept = jobs.get(plane, namespace, "job")["metadata"]["annotations"]
    commands = (
        ("label", "trainjob", "job", "team=vision"),
        ("annotate", "trainjob", "job", "note=mine"),
        ("patch", "trainjob", "job", "--type=merge", "-p", '{"spec":{"suspend":false}}'),
        ("patch", "trainjob", "job", "--type=merge", "-p", '{"spec":{"suspend":true}}'),
        (
            *("patch", "trainjob", "job", "--type=json", "-p"),
            '[{"op":"add","path":"/metadata/labels/more","value":"x"}]',
        ),
    )

    for command in commands:
        done = plane.kubectl(*command, "-n", namespace, user="alice")
        assert done.returncode == 0, (command, done.stderr)

    stored = jobs.get(plane, namespace, "job")
    assert stored["metadata"]["labels"] == {"team": "vision", "more": "x"}
    assert stored["metadata"]["annotations"] == {**kept, "note": "mine"}


def test_kubectl_edit_passes(plane: ControlPlane, namespace: str) -> None:
    plane.admin.create(job(namespace, suspend=True))
    jobs.settle(plane, namespace, "job")
    kept = jobs.get(plane, namespace, "job")

    edited = plane.kubectl(
        *("edit", "trainjob", "job", "-n", namespace),
        user="alice",
        environ={"KUBE_EDITOR": "sed -i 's/suspend: true/suspend: false/'"},
    )

    assert edited.stdout == "trainjob.trainer.kubeflow.org/job edited\n", edited.stderr
    stored = jobs.get(plane, namespace, "job")
    assert stored["spec"] == {**kept["spec"], "suspend": False}
    assert stored["metadata"]["annotations"] == kept["metadata"]["annotations"]


def test_replace_keeps_our_record(plane: ControlPlane, namespace: str) -> None:
    plane.admin.create(job(namespace))
    jobs.settle(plane, namespace, "job")
    kept = jobs.get(plane, namespace, "job")

    replaced = plane.kubectl("replace", "-f", "-", user="alice", input=job(namespace))

    assert replaced.returncode == 0, replaced.stderr
    stored = jobs.get(plane, namespace, "job")
    assert stored["metadata"]["annotations"] == kept["metadata"]["annotations"]
    assert stored["spec"] == kept["spec"]


@pytest.mark.parametrize("how", ["background", "foreground", "orphan"])
def test_deletion_passes(plane: ControlPlane, namespace: str, how: str) -> None:
    plane.admin.create(job(namespace))
    # The Trainer makes the objects of an unfinished job anew while they are deleted in the foreground
    # (trainer-semantics.md, G47): that takes minutes at times, whoever stands by.
    jobs.finish(plane, namespace, "job")

    deleted = plane.kubectl(
        "delete", "trainjob", "job", "-n", namespace, f"--cascade={how}", user="alice"
    )

    assert deleted.stdout.startswith('trainjob.trainer.kubeflow.org "job" deleted'), deleted.stderr
    assert deleted.stderr == ""
    assert plane.admin.find(jobs.TRAINER_API, "TrainJob", "job", namespace) is None


def test_finalizers_can_be_removed_and_status_written(plane: ControlPlane, namespace: str) -> None:
    manifest = job(namespace)
    manifest["metadata"]["finalizers"] = ["example.com/held"]
    stored = plane.admin.create(manifest)
    plane.admin.merge(stored, {"status": {"jobsStatus": []}}, subresource="status")
    plane.admin.delete(stored)

    removed = plane.kubectl(
        *("patch", "trainjob", "job", "-n", namespace, "--type=merge"),
        *("-p", '{"metadata":{"finalizers":null}}'),
        user="alice",
    )

    assert removed.returncode == 0, removed.stderr
    assert plane.admin.find(jobs.TRAINER_API, "TrainJob", "job", namespace) is None


def test_warnings_are_printed(plane: ControlPlane, namespace: str) -> None:
    trainer = {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}}, "numProcPerNode": 1}

    created = plane.kubectl(
        "create",
        "-f",
        "-",
        user="alice",
        input=jobs.train_job(namespace, "warned", trainer=trainer),
    )

    assert created.stdout == "trainjob.trainer.kubeflow.org/warned created\n"
    assert created.stderr == (
        "Warning: each pod gets 2 GPUs but 1 process(es): the Trainer counts processes from "
        "spec.trainer.resourcesPerNode alone; name the GPUs there too, or set numProcPerNode\n"
    )


@pytest.mark.parametrize(
    "command",
    [
        ("create", "-f", "-"),
        ("apply", "-f", "-"),
        ("apply", "--server-side", "-f", "-"),
        ("create", "--dry-run=server", "-f", "-"),
    ],
    ids=" ".join,
)
def test_a_refusal_tells_all_mistakes_each_on_its_line(
    plane: ControlPlane, namespace: str, command: tuple[str, ...]
) -> None:
    refused = plane.kubectl(*command, user="alice", input=refused_job(namespace))

    assert refused.returncode == 1
    assert refused.stdout == ""
    lines = [line for line in refused.stderr.splitlines() if not line.startswith("Warning: ")]
    assert lines[0] == 'The TrainJob "refused" is invalid: '
    assert lines[1] == "* spec.trainer.numNodes: Invalid value: 0: must be at least 1"
    assert lines[2].startswith("* spec.trainer.env[0].name: Forbidden: PET_NNODES is set by")
    assert len(lines) == 3


def test_a_wrong_type_is_told_by_its_path(plane: ControlPlane, namespace: str) -> None:
    wrong = jobs.train_job(namespace, "wrong", trainer={"numNodes": "two"})

    refused = plane.kubectl("create", "-f", "-", "--validate=false", user="alice", input=wrong)

    assert refused.stderr == (
        'The TrainJob "wrong" is invalid: spec.trainer.numNodes: Invalid value: "string": '
        'spec.trainer.numNodes in body must be of type integer: "string"\n'
    )


def test_a_runtime_that_is_not_there_is_refused_with_those_that_are(
    plane: ControlPlane, namespace: str
) -> None:
    lost = jobs.train_job(namespace, "lost", runtime="torch-distribted")

    refused = plane.kubectl("create", "-f", "-", user="alice", input=lost)

    assert refused.stderr.startswith(
        'The TrainJob "lost" is invalid: spec.runtimeRef.name: Not found: "torch-distribted": '
    )
    assert "torch-distributed, " in refused.stderr


def test_the_audit_log_shows_what_we_changed(plane: ControlPlane, namespace: str) -> None:
    plane.admin.create(job(namespace, "audited"))

    def created() -> list[Object]:
        return plane.audit(verb="create", resource="trainjobs", namespace=namespace)

    (event,) = plane.wait_for(created, "the audit log")
    ours = [note for note in notes(event) if note["configuration"] == MUTATING]
    assert [note["mutated"] for note in ours if "mutated" in note] == [True]
    ((*operations,),) = [note["patch"] for note in ours if "patch" in note]
    assert [o["path"] for o in operations] == [
        "/spec/trainer/numProcPerNode",
        "/metadata/annotations",
    ]


def test_kubectl_and_the_log_agree(
    plane: ControlPlane, standalone: Standalone, namespace: str
) -> None:
    plane.kubectl("create", "-f", "-", user="bob", input=job(namespace, "logged"))

    def logged() -> list[Object] | None:
        found = [event for event in standalone.log() if event.get("namespace") == namespace]
        return found if len(found) == 2 else None

    mutated, validated = plane.wait_for(logged, "the log to tell of the job")
    assert (mutated["decision"], mutated["user"], mutated["object"]["name"]) == (
        *("patched", "bob"),
        "logged",
    )
    assert validated["decision"] == "allowed"


def patch(manager: str, value: str) -> Object:
    """A patch of the user's: one label on the pods."""
    part = {
        "name": "node",
        "template": {"spec": {"template": {"metadata": {"labels": {"value": value}}}}},
    }
    template = {"spec": {"replicatedJobs": [part]}}
    return {"manager": manager, "trainingRuntimeSpec": {"template": template}}


def without_status(stored: Object) -> Object:
    """What a user wrote or could see change: no status, and what a status write touches."""
    touched = ("resourceVersion", "managedFields")
    metadata = {k: v for k, v in stored["metadata"].items() if k not in touched}
    return {**{k: v for k, v in stored.items() if k != "status"}, "metadata": metadata}


def notes(event: Object) -> Iterator[Object]:
    """What the API server noted about each call of a mutating webhook: whether it patched, and how."""
    for key, value in sorted(event.get("annotations", {}).items()):
        if key.partition("/")[0].endswith(".webhook.admission.k8s.io"):
            yield json.loads(value)
