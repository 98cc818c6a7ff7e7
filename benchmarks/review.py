"""The reviews that are sent: about 5.2 KB, with what a real API server puts in and nobody looks at."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

import jsonpatch
import orjson

GROUP: Final = "trainer.kubeflow.org"
FILE_RUNTIMES: Final = 500
"""Runtimes a file; they are JSON, so that reading them is no part of the measurement."""


def runtime_name(number: int) -> str:
    """The name of the n-th runtime."""
    return f"runtime-{number:04d}"


def write_cluster(folder: Path, runtimes: int) -> None:
    """A folder with that many runtimes, as ``serve --from`` reads it."""
    folder.mkdir()
    for first in range(0, runtimes, FILE_RUNTIMES):
        numbers = range(first, min(first + FILE_RUNTIMES, runtimes))
        items = [runtime(runtime_name(number)) for number in numbers]
        document = {"apiVersion": "v1", "kind": "List", "items": items}
        (folder / f"runtimes-{first:04d}.json").write_bytes(orjson.dumps(document))


def write_policies(folder: Path, matching: int, others: int) -> None:
    """That many policies about the reviews' job, of the five kinds that platforms begin with, and others that are not."""
    items = [policy(number) for number in range(matching)]
    items += [elsewhere(number) for number in range(others)]
    (folder / "policies.json").write_bytes(
        orjson.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    )


_RULES: Final[tuple[dict[str, Any], ...]] = (
    {"limits": [{"name": "team", "labels": {"require": ["example.com/team"]}}]},
    {"limits": [{"name": "nodes", "nodes": {"max": 16}}]},
    {"limits": [{"name": "images", "images": {"allow": ["registry.example.test/**"]}}]},
    {"defaults": {"labels": {"kueue.x-k8s.io/queue-name": "default-queue"}}},
    {"limits": [{"name": "runtimes", "runtimes": {"allow": ["runtime-*"]}}]},
)


def policy(number: int) -> dict[str, Any]:
    """A policy that matches the reviews' job, which passes it."""
    return _policy(f"matching-{number}", dict(_RULES[number % len(_RULES)]))


def elsewhere(number: int) -> dict[str, Any]:
    """The same rules, for namespaces of another tier."""
    match = {"namespaceSelector": {"matchLabels": {"tier": f"t{number}"}}}
    return _policy(f"elsewhere-{number}", {"match": match, **_RULES[number % len(_RULES)]})


def _policy(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "TrainJobPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def runtime(name: str) -> dict[str, Any]:
    """A PyTorch runtime of ordinary size."""
    container = {
        "name": "node",
        "image": "registry.example.test/trainer:2.3",
        "command": ["torchrun", "train.py"],
        "env": [{"name": f"RUNTIME_{n}", "value": str(n)} for n in range(5)],
        "resources": {
            "requests": {"cpu": "4", "memory": "16Gi"},
            "limits": {"nvidia.com/gpu": "4"},
        },
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {f"{GROUP}/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": pod}},
        },
    }
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {f"{GROUP}/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 2, "torch": {"numProcPerNode": "auto"}},
            "template": {"spec": {"replicatedJobs": [job]}},
        },
    }


def create_review(name: str, runtime_ref: str) -> bytes:
    """What the API server asks the mutating webhook when this TrainJob is created."""
    job = train_job(name, runtime_ref)
    kind = {"group": GROUP, "version": "v1alpha1", "kind": "TrainJob"}
    resource = {"group": GROUP, "version": "v1alpha1", "resource": "trainjobs"}
    return orjson.dumps(
        {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "75d4aa42-e4b3-450c-9558-97a186f0a67c",
                "kind": kind,
                "resource": resource,
                "requestKind": kind,
                "requestResource": resource,
                "name": name,
                "namespace": "team",
                "operation": "CREATE",
                "userInfo": {
                    "username": "alice@example.com",
                    "uid": "u-alice",
                    "groups": ["team-a", "system:authenticated"],
                },
                "object": job,
                "oldObject": None,
                "dryRun": False,
                "options": {
                    "kind": "CreateOptions",
                    "apiVersion": "meta.k8s.io/v1",
                    "fieldManager": "kubectl-create",
                    "fieldValidation": "Strict",
                },
            },
        }
    )


def train_job(name: str, runtime_ref: str) -> dict[str, Any]:
    """A TrainJob as the API server hands it over: defaults set, fields managed."""
    env = [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(40)]
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": name,
            "namespace": "team",
            "labels": {"example.com/team": "vision"},
            "managedFields": [managed_fields([entry["name"] for entry in env])],
        },
        "spec": {
            "managedBy": f"{GROUP}/trainjob-controller",
            "runtimePatches": [patch({"nodeSelector": {"disk": "ssd"}})],
            "runtimeRef": {
                "apiGroup": GROUP,
                "kind": "ClusterTrainingRuntime",
                "name": runtime_ref,
            },
            "suspend": False,
            "trainer": {
                "command": ["torchrun", "train.py"],
                "args": ["--epochs", "90"],
                "env": env,
                "image": "registry.example.test/mnist:1",
            },
        },
    }


def patch(pod: dict[str, Any]) -> dict[str, Any]:
    """One entry of ``runtimePatches``."""
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    return {
        "manager": "example.com/alice",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }


def managed_fields(env: list[str]) -> dict[str, Any]:
    """Who set what, as the API server notes it; most of a small object's bytes are this."""
    trainer: dict[str, Any] = {
        ".": {},
        "f:command": {},
        "f:args": {},
        "f:image": {},
        "f:env": {
            ".": {},
            **{
                f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}, "f:value": {}}
                for name in env[:25]
            },
        },
    }
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {".": {}, "f:kueue.x-k8s.io/queue-name": {}}},
            "f:spec": {
                ".": {},
                "f:managedBy": {},
                "f:runtimePatches": {
                    ".": {},
                    'k:{"manager":"example.com/alice"}': {
                        ".": {},
                        "f:manager": {},
                        "f:trainingRuntimeSpec": {},
                    },
                },
                "f:runtimeRef": {".": {}, "f:apiGroup": {}, "f:kind": {}, "f:name": {}},
                "f:suspend": {},
                "f:trainer": trainer,
            },
        },
        "manager": "kubectl-create",
        "operation": "Update",
        "time": "2026-01-01T00:00:00Z",
    }


def after(body: bytes, answer: bytes) -> bytes:
    """The review that the validating webhook gets: of the object as the mutating one left it."""
    review, response = orjson.loads(body), orjson.loads(answer)["response"]
    if not response["allowed"]:
        raise ValueError(f"the review was refused: {response['status']['message']}")
    if "patch" in response:
        operations = orjson.loads(base64.b64decode(response["patch"]))
        review["request"]["object"] = jsonpatch.apply_patch(review["request"]["object"], operations)
    return orjson.dumps(review)
