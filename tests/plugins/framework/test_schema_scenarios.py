"""Scenarios of the API's own rules, each by its name in the list: what is stored, and which field is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plugins.framework import schema
from tests.plugins.framework.test_schema import POD, patch, runtime, train_job
from tests.plugins.kit import table

MOST = 1048576
"""Characters of an item of a command."""
GRACE = f"{POD}.terminationGracePeriodSeconds"
PLAIN = train_job()


def policies(*names: str) -> dict[str, Any]:
    return runtime({"mlPolicy": {name: {} for name in names}})


def into(*containers: str) -> dict[str, Any]:
    target = {"jobName": "node", "containerNames": list(containers)}
    return runtime({"mlPolicy": {"torch": {"envInjection": {"targets": [target]}}}})


def grace(seconds: int) -> dict[str, Any]:
    return train_job({"runtimePatches": [patch({"terminationGracePeriodSeconds": seconds})]})


def patches(*managers: str) -> dict[str, Any]:
    return train_job({"runtimePatches": [patch({}, manager) for manager in managers]})


def initializer(**sources: str) -> dict[str, Any]:
    return train_job({"initializer": {k: {"storageUri": uri} for k, uri in sources.items()}})


@dataclass(frozen=True)
class Scenario:
    obj: dict[str, Any]
    refused: tuple[str, ...] = ()
    """Fields, in the order in which they are told."""
    old: dict[str, Any] | None = None
    stored: Mapping[str, Any] | None = None
    """Part of the stored spec, where that is what the scenario is about."""


TARGETS = "spec.mlPolicy.torch.envInjection.targets"
ONE = ("spec.mlPolicy",)
CASES = {
    "S01 the group of a runtimeRef has a default": Scenario(
        PLAIN,
        stored={
            "runtimeRef": {
                "name": "torch",
                "apiGroup": "trainer.kubeflow.org",
                "kind": "ClusterTrainingRuntime",
            }
        },
    ),
    "S02 its kind too": Scenario(
        train_job({"runtimeRef": {"name": "t", "apiGroup": "trainer.kubeflow.org"}}),
        stored={
            "runtimeRef": {
                "name": "t",
                "apiGroup": "trainer.kubeflow.org",
                "kind": "ClusterTrainingRuntime",
            }
        },
    ),
    "S03 it is not suspended": Scenario(PLAIN, stored={"suspend": False}),
    "S04 the Trainer manages it": Scenario(
        PLAIN, stored={"managedBy": "trainer.kubeflow.org/trainjob-controller"}
    ),
    "S05 MultiKueue may manage it": Scenario(
        train_job({"managedBy": "kueue.x-k8s.io/multikueue"}),
        stored={"managedBy": "kueue.x-k8s.io/multikueue"},
    ),
    "S06 nobody else may": Scenario(train_job({"managedBy": "invalid"}), ("spec.managedBy",)),
    "S07 who manages it stays": Scenario(
        train_job({"managedBy": "kueue.x-k8s.io/multikueue"}), ("spec.managedBy",), old=PLAIN
    ),
    "S08 the runtime stays": Scenario(
        train_job({"runtimeRef": {"name": "other"}}), ("spec.runtimeRef",), old=PLAIN
    ),
    "S09 the image stays": Scenario(
        train_job({"trainer": {"image": "b"}}),
        ("spec.trainer",),
        old=train_job({"trainer": {"image": "a"}}),
    ),
    "S09 numNodes stays": Scenario(
        train_job({"trainer": {"numNodes": 2}}),
        ("spec.trainer",),
        old=train_job({"trainer": {"numNodes": 1}}),
    ),
    "S24 a dataset in a bucket": Scenario(initializer(dataset="s3://bucket/path")),
    "S25 a model that is no URI": Scenario(
        initializer(model="invalid-uri"), ("spec.initializer.model.storageUri",)
    ),
    "S25 a model of Hugging Face": Scenario(initializer(model="hf://org/model")),
    "S26 a command as long as may be": Scenario(train_job({"trainer": {"command": ["x" * MOST]}})),
    "S26 a command one longer": Scenario(
        train_job({"trainer": {"command": ["x" * (MOST + 1)]}}), ("spec.trainer.command[0]",)
    ),
    "S27 args as long as may be": Scenario(train_job({"trainer": {"args": ["x" * MOST]}})),
    "S27 args one longer": Scenario(
        train_job({"trainer": {"args": ["x" * (MOST + 1)]}}), ("spec.trainer.args[0]",)
    ),
    "S28 a grace of 300 s": Scenario(grace(300)),
    "S28 no grace": Scenario(grace(0)),
    "S28 a negative grace": Scenario(grace(-1), (GRACE,)),
    "S29 the grace stays": Scenario(grace(10), (GRACE,), old=grace(300)),
    "S32 seventeen patches": Scenario(
        patches(*(f"a.io/{i}" for i in range(17))), ("spec.runtimePatches",)
    ),
    "S32 sixteen patches": Scenario(patches(*(f"a.io/{i}" for i in range(16)))),
    "S32 two patches of one manager": Scenario(
        patches("a.io/a", "a.io/a"), ("spec.runtimePatches[1]",)
    ),
    "S33 a deadline of nothing": Scenario(
        train_job({"activeDeadlineSeconds": 0}), ("spec.activeDeadlineSeconds",)
    ),
    "S33 a deadline of a second": Scenario(train_job({"activeDeadlineSeconds": 1})),
    "S33 the deadline stays": Scenario(
        train_job({"activeDeadlineSeconds": 20}),
        ("spec.activeDeadlineSeconds",),
        old=train_job({"activeDeadlineSeconds": 10}),
    ),
    "R02 torch and mpi": Scenario(policies("torch", "mpi"), ONE),
    "R03 jax and torch": Scenario(policies("jax", "torch"), ONE),
    "R04 torch and flux": Scenario(policies("torch", "flux"), ONE),
    "R05 mpi and flux": Scenario(policies("mpi", "flux"), ONE),
    "R05 jax and flux": Scenario(policies("jax", "flux"), ONE),
    "R05 jax and mpi": Scenario(policies("jax", "mpi"), ONE),
    "R06 four policies": Scenario(policies("torch", "mpi", "jax", "flux"), ONE),
    "R07 an MPI nobody knows": Scenario(
        runtime({"mlPolicy": {"mpi": {"mpiImplementation": "invalid"}}}),
        ("spec.mlPolicy.mpi.mpiImplementation",),
    ),
    "R09 the defaults of mpi": Scenario(
        policies("mpi"),
        stored={
            "mlPolicy": {
                "mpi": {
                    "mpiImplementation": "OpenMPI",
                    "numProcPerNode": 1,
                    "runLauncherAsNode": False,
                    "sshAuthMountPath": "/root/.ssh",
                }
            }
        },
    ),
    "R18 env goes to the main container anyway": Scenario(
        into("node"), (f"{TARGETS}[0].containerNames",)
    ),
    "R18 nine containers": Scenario(
        into(*(f"c{i}" for i in range(9))), (f"{TARGETS}[0].containerNames",)
    ),
    "R18 no container": Scenario(into(), (f"{TARGETS}[0].containerNames",)),
}


@table(CASES)
def test_scenario(case: Scenario) -> None:
    admitted = schema.load("2.3").admit(case.obj["kind"], case.obj, case.old)
    assert tuple(str(error.path) for error in admitted.errors) == case.refused
    spec = admitted.obj["spec"]
    assert {key: spec[key] for key in case.stored or {}} == (case.stored or {})
