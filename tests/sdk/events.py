"""What the SDK shows of TrainJobs that fail: ``python events.py KUBECONFIG NAMESPACE NAME...``, JSON on stdout."""

# Read by an environment that the type checkers do not look into.
# mypy: disable-error-code="import-not-found"
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import sys

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import TrainerClient


def main(kubeconfig: str, namespace: str, *names: str) -> None:
    """Print the events of each, as ``get_job_events`` gives them."""
    sdk = TrainerClient(KubernetesBackendConfig(namespace=namespace, config_file=kubeconfig))
    said = {
        name: [
            [each.involved_object_kind, each.reason, each.message]
            for each in sdk.get_job_events(name)
        ]
        for name in names
    }
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
