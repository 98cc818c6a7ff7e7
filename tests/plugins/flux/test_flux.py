"""Flux: the wrapped command, what the installer needs, and what would make the controller panic."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.flux import range_text
from plugins.framework.errors import BuildError
from tests.builders import MakeRuntime, MakeTrainJob, container, make_runtime, make_train_job
from tests.plugins.kit import Built, Case, build, built, check, invalid, required, table

FLUX = make_runtime().flux()
BARE = FLUX.node()
JOB = make_train_job().nodes(1)
NODES, PROCESSES = "spec.trainer.numNodes", "spec.trainer.numProcPerNode"
SCRIPTS = "test-job-flux-entrypoint"
LINES = pytest.mark.parametrize("line", ["2.2", "2.3"])


@pytest.mark.parametrize(
    ("size", "start", "wanted"), [(1, 0, "0"), (4, 0, "0-3"), (3, 10, "10-12"), (1, 7, "7")]
)
def test_x08_ranges(size: int, start: int, wanted: str) -> None:
    assert range_text(size, start) == wanted


# The command


COMMANDS: dict[str, tuple[MakeTrainJob, MakeRuntime, str]] = {
    "X12 command and args of the TrainJob": (
        JOB.command("python").args("train.py", "--epochs 10"),
        BARE,
        "python train.py --epochs 10",
    ),
    "X12 blanks inside stay, those around go": (
        JOB.command("  sh", "-c").args("a  b "),
        BARE,
        "sh -c a  b",
    ),
    "the runtime's command, and the TrainJob's args": (
        JOB.args("--x"),
        FLUX.node(container("node", command=["mpirun", "hello"])),
        "mpirun hello --x",
    ),
    "no command at all": (JOB, BARE, ""),
}


@table(COMMANDS)
def test_x12_the_wrapped_command(case: tuple[MakeTrainJob, MakeRuntime, str]) -> None:
    job, runtime, wanted = case
    assert built(job, runtime).container()["command"] == [
        "/bin/bash",
        "/etc/flux-config/entrypoint.sh",
        wanted,
    ]


def test_g44_args_of_the_runtime_stay_behind_it() -> None:
    runtime = FLUX.node(container("node", command=["a"], args=["b"]))
    made = built(JOB.args("c"), runtime).container()
    assert (made["command"][2], made["args"]) == ("a c", ["b"])


def test_0_1_15_2_2_loses_the_runtimes_command() -> None:
    runtime = FLUX.node(container("node", command=["a"]))
    assert built(JOB, runtime, line="2.2").container()["command"][2] == ""


# The pod


def test_x14_volumes_mounts_and_installer() -> None:
    made = built(JOB, FLUX.node(container("node"), container("side")))
    config = {"name": SCRIPTS, "mountPath": "/etc/flux-config", "readOnly": True}
    assert made.pod()["volumes"] == [
        {"name": "spack-install", "emptyDir": {}},
        {"name": "flux-install", "emptyDir": {}},
        {"name": SCRIPTS, "configMap": {"name": SCRIPTS, "defaultMode": 0o755}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        {
            "name": "flux-curve",
            "secret": {"secretName": "test-job-flux-curve", "defaultMode": 0o400},
        },
    ]
    assert made.pod()["initContainers"] == [
        {
            "name": "flux-installer",
            "image": "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
            "command": ["/bin/bash", "/etc/flux-config/init.sh"],
            "volumeMounts": [{"name": "flux-install", "mountPath": "/mnt/flux"}, config],
        }
    ]
    assert made.container()["volumeMounts"] == [
        {"name": "flux-install", "mountPath": "/mnt/flux"},
        {"name": "spack-install", "mountPath": "/opt/software"},
        config,
        {"name": "flux-curve", "mountPath": "/curve", "readOnly": True},
        {"name": "shared-memory", "mountPath": "/dev/shm", "readOnly": True},
    ]
    assert "volumeMounts" not in made.container("node", "side")


def test_2_2_has_no_shared_memory() -> None:
    names = [v["name"] for v in built(JOB, BARE, line="2.2").pod()["volumes"]]
    assert "shared-memory" not in names


def test_m29_the_installer_stands_behind_the_init_containers_of_the_template() -> None:
    made = built(JOB, FLUX.node(pod={"initContainers": [container("first")]}))
    assert [c["name"] for c in made.pod()["initContainers"]] == ["first", "flux-installer"]


SETTINGS: dict[str, tuple[MakeTrainJob, MakeRuntime, str]] = {
    "the runtime's image": (JOB, FLUX.node(container("node", {"FLUX_VIEW_IMAGE": "r"})), "r"),
    "the TrainJob's wins": (
        JOB.env("FLUX_VIEW_IMAGE", "t"),
        FLUX.node(container("node", {"FLUX_VIEW_IMAGE": "r"})),
        "t",
    ),
    "a valueFrom of the runtime is not looked at": (
        JOB,
        FLUX.node(
            container("node", {"FLUX_VIEW_IMAGE": {"fieldRef": {"fieldPath": "metadata.name"}}})
        ),
        "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
    ),
}


@LINES
@table(SETTINGS)
def test_settings(line: str, case: tuple[MakeTrainJob, MakeRuntime, str]) -> None:
    job, runtime, image = case
    made = built(job, runtime, line=line)
    assert made.container("node", "flux-installer", kind="initContainers")["image"] == image


# The other objects


def facts(made: Built, key: str) -> dict[str, str]:
    text: str = made.named(SCRIPTS)["data"][key]
    return dict(line.split(": ", 1) for line in text.splitlines())


def test_x09_hosts_and_domain() -> None:
    found = facts(built(JOB.nodes(4), BARE), "init.sh")
    assert found["hosts"] == "test-job-node-0-[0-3]"
    assert found["domain"] == "test-job.team.svc.cluster.local"
    assert facts(built(JOB, BARE), "init.sh")["hosts"] == "test-job-node-0-[0]"


FACTS: dict[str, tuple[MakeTrainJob, MakeRuntime, str, str]] = {
    "one task": (JOB, BARE, "-N 1 -n 1", "--cores=0"),
    "tasks of the runtime": (
        JOB.nodes(2),
        make_runtime().flux(numProcPerNode=4).node(),
        "-N 2 -n 8",
        "--cores=0-3",
    ),
    "tasks of the TrainJob": (
        JOB.processes(2),
        make_runtime().flux(numProcPerNode=4).node(),
        "-N 1 -n 2",
        "--cores=0-1",
    ),
    "GPUs": (
        JOB.resources(limits={"nvidia.com/gpu": "2"}),
        BARE,
        "-N 1 -n 1 -g 2",
        "--cores=0 --gpu=0-1",
    ),
}


@table(FACTS)
def test_flags(case: tuple[MakeTrainJob, MakeRuntime, str, str]) -> None:
    job, runtime, flags, cores = case
    found = facts(built(job, runtime), "entrypoint.sh")
    assert found == {"leader": "test-job-node-0-0", "run flags": flags, "resources": cores}


def test_x11_the_curve_is_a_placeholder_always_the_same() -> None:
    first, second = (built(JOB, BARE).named("test-job-flux-curve") for _ in range(2))
    assert first == second
    assert first["data"].keys() == {"curve.cert"}


# Validation


RESERVED = FLUX.node(pod={"initContainers": [container("flux-installer")]})
CASES: dict[str, Case] = {
    "X15 a job without trainer is refused, which the controller would panic at": Case(
        job=make_train_job(),
        runtime=BARE.nodes(4),
        refused=(
            required(NODES, "panics without it", "the runtime's own numNodes, 4, is not used"),
        ),
    ),
    "X15 a job without numNodes is refused": Case(
        job=make_train_job().trainer(image="x"), runtime=BARE, refused=(required(NODES),)
    ),
    "X15 a job with numNodes passes": Case(job=JOB, runtime=BARE),
    "X13 an init container of the installer's name is refused": Case(
        job=JOB,
        runtime=RESERVED,
        refused=(invalid("spec.runtimeRef.name", "flux-installer is reserved"),),
    ),
    "X13 another name passes": Case(
        job=JOB, runtime=FLUX.node(pod={"initContainers": [container("installer")]})
    ),
    "numProcPerNode 0 is refused, once": Case(
        job=JOB.processes(0),
        runtime=BARE,
        refused=(invalid(PROCESSES, "must be at least 1"),),
    ),
    "what is stored is no reason to refuse": Case(
        old=make_train_job().suspended(),
        job=make_train_job().suspended().patch("a.io/x"),
        runtime=BARE,
    ),
}


@table(CASES)
def test_validation(case: Case) -> None:
    check(case)


NEITHER: dict[str, Any] = {
    "no trainer": make_train_job(),
    "no numNodes": make_train_job().trainer(),
}


@table(NEITHER)
def test_x15_nothing_can_be_built(case: MakeTrainJob) -> None:
    with pytest.raises(BuildError, match=r"reads spec\.trainer\.numNodes and panics"):
        build(Case(job=case, runtime=BARE))
