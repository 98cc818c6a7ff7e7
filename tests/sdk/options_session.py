"""Each option, given to ``train`` by an interpreter that has the SDK: ``python options_session.py WHERE [NAMESPACE]``.

WHERE is a URL, or a kubeconfig. Prints the name of each job: ``CASE-TRAINER``, and ``base-TRAINER`` without options;
null where the SDK itself refuses. ``named`` and one without a name are for the rule about names.
"""

# Read by environments that the type checkers do not look into.
# mypy: disable-error-code="import-not-found, unused-ignore"
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from given import OPTIONS
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, CustomTrainerContainer, TrainerClient
from kubeflow.trainer.options import Name
from kubernetes import client


def train() -> None:
    """Train nothing."""
    print("trained")  # noqa: T201  # the body of a training function


TRAINERS: dict[str, Any] = {
    "container": CustomTrainerContainer(image="example.com/i:1", num_nodes=2),
    "function": CustomTrainer(func=train, num_nodes=2),
    "none": None,
}


def main(where: str, namespace: str = "team-a") -> None:
    """Train each."""
    login: dict[str, Any] = {"config_file": where}
    if "://" in where:
        login = {"client_configuration": client.Configuration(host=where)}
    sdk = TrainerClient(KubernetesBackendConfig(namespace=namespace, **login))
    said: dict[str, str | None] = {}
    for kind, trainer in TRAINERS.items():
        given = {} if trainer is None else {"trainer": trainer}
        said[f"base-{kind}"] = sdk.train(**given, options=[Name(f"base-{kind}")])
        for case, make in OPTIONS.items():
            name = f"{case}-{kind}"
            try:
                said[name] = sdk.train(**given, options=[Name(name), make()])
            except ValueError:
                said[name] = None
    said["named"] = sdk.train(options=[Name("nlp-run")])
    said["unnamed"] = sdk.train()
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
