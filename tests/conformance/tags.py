"""The tags that the generator can give on a line: what a large run must have exercised, none never.

What comes from a table of the generator is read from there; the rest is written down here, by kind. A tag that
is missing here is found by a test, one that never comes by the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.conformance import shapes, spoilers
from tests.conformance.dice import SeededDice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tests.conformance.dice import Json

ALL_LINES: Final[Mapping[str, str]] = {
    "cluster": "job-set limit-range mpi-secret pod-group runtime-class",
    "env": "both from nothing value",
    "field": "initializer.dataset initializer.env initializer.model initializer.secretRef "
    "initializer.storageUri job-template.metadata managedBy mlPolicy.numNodes mpi.sshAuthMountPath "
    "pod-template.metadata suspend-false suspend-true template.metadata trainer trainer.args "
    "trainer.command trainer.env trainer.image trainer.numNodes trainer.numProcPerNode "
    "trainer.resourcesPerNode",
    "job": "dataset-initializer groupName model-initializer replicas-0 replicas-1 replicas-2 replicas-3",
    "jobset": "dependsOn network.subdomain",
    "merge": "containers:new containers:reordered containers:same initContainers:new "
    "initContainers:reordered initContainers:same schedulingGates:new schedulingGates:reordered "
    "schedulingGates:same volumeMounts:name volumeMounts:none volumeMounts:path volumeMounts:readOnly "
    "volumes:new volumes:reordered volumes:same",
    "operation": "CREATE UPDATE VALIDATE_RUNTIME",
    "override": "containers containers.env containers.volumeMounts initContainers initContainers.env "
    "initContainers.volumeMounts nodeSelector schedulingGates serviceAccountName several "
    "several-targets tolerations volumes",
    "plugin": "coscheduling mpi mpi-launcher-as-node none plain torch torchtune",
    "podGroup": "empty",
    "port": "29500 several-unnamed",
    "resource": "claims device gpu several-gpus",
    "rule": "ancestor-container ancestor-replicas container-order deprecated-runtime "
    "field-added-on-update initializer-job-renamed initializer-without-job job-order job-set-active-0 "
    "job-set-active-1 mpi-jobs-launcher mpi-jobs-node mpi-jobs-renamed mpi-node-is-trainer "
    "no-trainer-job override-env-of-reserved-container override-unknown-container override-unknown-job "
    "patches-changed-suspended-after patches-changed-suspended-before patches-changed-suspended-both "
    "patches-changed-suspended-never runtime-count-clamped runtime-env-meets-plugin-env "
    "runtime-immutable-field runtime-update several-jobs several-trainer-jobs torchtune-args "
    "torchtune-command torchtune-immutable-args torchtune-unknown-model trainer-without-node-container "
    "volcano-queue",
    "runtime": "ClusterTrainingRuntime TrainingRuntime",
    "shape": "empty-list empty-map empty-string empty-trainer init-container init-container-same-name "
    "job-without-ancestor longish-name null odd-numNodes quantity restartable-init-container sidecar "
    "status-on-create template-metadata-name trainer-job-renamed unknown-ancestor unknown-field",
    "update": "add after-reconcile labels manager patches reference suspend trainer",
}
"""Kind -> names, for every line."""

SINCE: Final[Mapping[str, Mapping[str, str]]] = {
    "2.1": {
        "field": "volcano.networkTopology",
        "merge": "imagePullSecrets:new imagePullSecrets:reordered imagePullSecrets:same",
        "override": "affinity imagePullSecrets metadata-pod",
        "plugin": "volcano",
        "pod": "priorityClassName",
        "podGroup": "both",
        "priorityClass": "high low missing system-node-critical",
        "rule": "mpi-implementation-empty",
    },
    "2.2": {
        "field": "activeDeadlineSeconds",
        "override": "containers.securityContext initContainers.securityContext metadata-job "
        "metadata-jobset securityContext time",
        "plugin": "flux jax xgboost",
        "rule": "flux-reserved-init-container flux-settings-in-runtime",
        "shape": "empty-patch",
    },
    "2.3": {
        "cluster": "snapshot",
        "override": "terminationGracePeriodSeconds",
        "plugin": "torch-env-injection",
        "rule": "built-from-snapshot env-injection-missing-target",
        "snapshot": "bad foreign no-key other-runtime own",
    },
}
"""What a line brought."""

ONLY: Final[Mapping[str, Mapping[str, str]]] = {
    "2.0": {"rule": "override-job-named-twice", "field": "spec.labels torch.numProcPerNode"},
    "2.1": {"field": "spec.labels torch.numProcPerNode"},
}
"""What a later line took away."""


def possible(line: str, shipped: Sequence[Json] = ()) -> frozenset[str]:
    """Every tag that a case of the line can have."""
    dice = SeededDice(line, "")
    tables = [ALL_LINES, *(names for since, names in SINCE.items() if dice.since(since))]
    found = {tag for table in (*tables, ONLY.get(line, {})) for tag in _written(table)}
    found |= set(_from_tables(dice)) | {"override", "spoiled"}
    if dice.since("2.1"):
        found.add("priorityClass:")  # the empty name
    if shipped:
        found |= {"shipped", *(f"shipped:{made['metadata']['name']}" for made in shipped)}
    return frozenset(found)


def by_kind(tags: Iterable[str]) -> dict[str, list[str]]:
    """Tags by what stands before the colon, both in order."""
    found: dict[str, list[str]] = {}
    for tag in sorted(tags):
        found.setdefault(tag.partition(":")[0], []).append(tag)
    return found


def _written(table: Mapping[str, str]) -> Iterator[str]:
    for kind, names in table.items():
        yield from (f"{kind}:{name}" for name in names.split())


def _from_tables(dice: SeededDice) -> Iterator[str]:
    for kind, names in (
        ("env", shapes.ENV_SOURCES),
        ("job", shapes.JOB_FIELDS),
        ("jobset", shapes.JOBSET_FIELDS),
        ("pod", shapes.POD_FIELDS),
        ("volume", shapes.VOLUME_SOURCES),
        ("spoil", spoilers.names_of(dice)),
    ):
        yield from (f"{kind}:{name}" for name in names)
    yield from (f"quantity:{amount!r}" for amount in shapes.QUANTITIES)
