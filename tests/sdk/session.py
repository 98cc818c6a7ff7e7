"""What a user of the SDK does, run by an interpreter that has it: ``python session.py WHERE``, JSON on stdout.

WHERE is a URL, or a kubeconfig and a namespace.
"""

# Read by an environment that the type checkers do not look into.
# mypy: disable-error-code="import-not-found, union-attr"
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false

from __future__ import annotations

import json
import sys
from typing import Any

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import (
    BuiltinTrainer,
    CustomTrainer,
    CustomTrainerContainer,
    TorchTuneConfig,
    TrainerClient,
)
from kubeflow.trainer.options import Labels, Name, RuntimePatch, TrainingRuntimeSpecPatch
from kubernetes import client


def train() -> None:
    """Train nothing."""
    print("trained")  # noqa: T201  # the body of a training function


CALLS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "function": {
        "trainer": CustomTrainer(
            func=train, num_nodes=2, resources_per_node={"cpu": 2, "memory": "1Gi"}
        )
    },
    "gpus": {"trainer": CustomTrainer(func=train, num_nodes=2, resources_per_node={"gpu": 4})},
    "container": {
        "trainer": CustomTrainerContainer(image="example.com/i:1", num_nodes=3, env={"A": "1"})
    },
    "options": {
        "options": [
            Name("named"),
            Labels({"team": "nlp"}),
            RuntimePatch(TrainingRuntimeSpecPatch()),
        ]
    },
    "mpi": {
        "runtime": "deepspeed-distributed",
        "trainer": CustomTrainer(func=train, num_nodes=2, resources_per_node={"gpu": 1}),
    },
    "torchtune": {
        "runtime": "torchtune-llama3.2-1b",
        "trainer": BuiltinTrainer(config=TorchTuneConfig(epochs=1)),
    },
    "reserved": {"trainer": CustomTrainer(func=train, env={"PET_NNODES": "9"})},
}


def main(where: str, namespace: str = "team-a") -> None:
    """Train all of them, read each back, and print what the SDK says of it."""
    login: dict[str, Any] = {"config_file": where}
    if "://" in where:
        login = {"client_configuration": client.Configuration(host=where)}
    sdk = TrainerClient(KubernetesBackendConfig(namespace=namespace, **login))
    said = {name: _train(sdk, arguments) for name, arguments in CALLS.items()}
    listed = sorted(job.name for job in sdk.list_jobs())
    runtimes = sorted(runtime.name for runtime in sdk.list_runtimes())
    json.dump({"calls": said, "listed": listed, "runtimes": runtimes}, sys.stdout)


def _train(sdk: TrainerClient, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        name = sdk.train(**arguments)
    except RuntimeError as error:
        return {"error": str(error), "body": json.loads(error.__cause__.body)}
    job = sdk.get_job(name)
    steps = [(step.name, step.status, step.device, step.device_count) for step in job.steps]
    return {"name": name, "nodes": job.num_nodes, "status": job.status, "steps": sorted(steps)}


if __name__ == "__main__":
    main(*sys.argv[1:])
