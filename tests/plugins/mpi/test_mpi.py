"""MPI: who is a node, what the hostfile says, keys and variables; what is refused of jobs and runtimes."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework.errors import BuildError
from plugins.mpi import hostfile_size
from tests.builders import (
    MakeRuntime,
    MakeTrainJob,
    container,
    make_runtime,
    make_train_job,
    resources,
)
from tests.plugins.kit import (
    LINES,
    Built,
    Case,
    RuntimeCase,
    build,
    built,
    check,
    check_runtime,
    forbidden,
    invalid,
    resolve,
    table,
)

JOB = make_train_job()
OMPI = [
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots",
    "OMPI_MCA_plm_rsh_args",
]
NODES = "spec.trainer.numNodes"


def mpi(*, node: bool = True, launcher: bool = True, **fields: Any) -> MakeRuntime:
    runtime = make_runtime().mpi(**fields)
    if launcher:
        runtime = runtime.job("launcher", "trainer")
    return runtime.job("node") if node else runtime


WORKERS = mpi()
BOTH = mpi(runLauncherAsNode=True)


def hostfile(made: Built) -> list[str]:
    text: str = made.named("test-job-mpi-hostfile")["data"]["hostfile"]
    assert text.endswith("\n") or not text
    return text.splitlines()


# Counts and hosts


@pytest.mark.parametrize("line", LINES)
def test_i01_num_nodes_are_workers(line: str) -> None:
    made = built(JOB.nodes(2), WORKERS.nodes(1), line=line)
    assert (made.counts("node"), made.counts("launcher")) == ((2, 2), (1, 1))
    assert hostfile(made) == [
        "test-job-node-0-0.test-job slots=1",
        "test-job-node-0-1.test-job slots=1",
    ]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(("nodes", "workers"), [(1, 1), (2, 1), (3, 2), (10, 9)])
def test_i04_with_run_launcher_as_node_it_is_one_of_them(
    line: str, nodes: int, workers: int
) -> None:
    made = built(JOB.nodes(nodes), BOTH, line=line)
    assert made.counts("node") == (workers, workers)
    lines = hostfile(made)
    assert lines[0] == "test-job-launcher-0-0.test-job slots=1"
    assert len(lines) == workers + 1


def test_the_hostfile_follows_the_order_of_the_template() -> None:
    runtime = make_runtime().mpi(runLauncherAsNode=True).job("node").job("launcher", "trainer")
    assert hostfile(built(JOB.nodes(2), runtime)) == [
        "test-job-node-0-0.test-job slots=1",
        "test-job-launcher-0-0.test-job slots=1",
    ]


def test_the_hostfile_follows_the_subdomain() -> None:
    made = built(JOB.nodes(1), WORKERS.template("net", "network", "subdomain"))
    assert hostfile(made) == ["test-job-node-0-0.net slots=1"]


def test_g14_the_runtimes_num_nodes_make_launchers() -> None:
    made = built(JOB, WORKERS.nodes(3))
    assert (made.counts("launcher"), made.counts("node")) == ((3, 3), (1, 1))


def test_without_num_nodes_the_template_counts() -> None:
    runtime = (
        make_runtime().mpi().job("node", job_spec={"parallelism": 5}).job("launcher", "trainer")
    )
    assert built(JOB, runtime).counts("node") == (5, 5)


# Slots


SLOTS: dict[str, tuple[MakeTrainJob, MakeRuntime, int]] = {
    "I02 the TrainJob's number": (JOB.processes(8), WORKERS, 8),
    "I02 also over the runtime's": (JOB.processes(8), mpi(numProcPerNode=4), 8),
    "the runtime's number": (JOB, mpi(numProcPerNode=4), 4),
    "I03 the GPUs, where the runtime says 1": (
        JOB.resources(limits={"nvidia.com/gpu": "8"}),
        mpi(numProcPerNode=1),
        8,
    ),
    "I03 the runtime's GPUs too": (
        JOB,
        make_runtime()
        .mpi()
        .job(
            "node",
            containers=[container("node", resources=resources(limits={"nvidia.com/gpu": "4"}))],
        )
        .job("launcher", "trainer"),
        4,
    ),
    "the runtime's 2 stays, whatever the GPUs": (
        JOB.resources(limits={"nvidia.com/gpu": "8"}),
        mpi(numProcPerNode=2),
        2,
    ),
    "the TrainJob's 1 stays, whatever the GPUs": (
        JOB.processes(1).resources(limits={"nvidia.com/gpu": "8"}),
        WORKERS,
        1,
    ),
    "no GPUs": (JOB.resources(limits={"cpu": "8"}), WORKERS, 1),
    "0.1.4 a launcher's GPUs do not count where job node has none": (
        JOB,
        make_runtime()
        .mpi()
        .job("node")
        .job(
            "launcher",
            "trainer",
            containers=[container("node", resources=resources(limits={"nvidia.com/gpu": "2"}))],
        ),
        1,
    ),
}


@pytest.mark.parametrize("line", ["2.1", "2.2", "2.3"])
@table(SLOTS)
def test_slots(line: str, case: tuple[MakeTrainJob, MakeRuntime, int]) -> None:
    job, runtime, wanted = case
    made = built(job, runtime, line=line)
    assert hostfile(made) == [f"test-job-node-0-0.test-job slots={wanted}"]
    assert made.env("launcher")["OMPI_MCA_orte_set_default_slots"] == str(wanted)


def test_2_0_does_not_count_gpus() -> None:
    made = built(JOB.resources(limits={"nvidia.com/gpu": "8"}), WORKERS, line="2.0")
    assert hostfile(made) == ["test-job-node-0-0.test-job slots=1"]


# Volumes, mounts, environment


def test_i06_volumes_mounts_and_variables() -> None:
    made = built(JOB.nodes(1), mpi(sshAuthMountPath="/home/mpiuser/.ssh"))
    ssh = {
        "name": "mpi-ssh-auth",
        "secret": {
            "secretName": "test-job-mpi-ssh-auth",
            "defaultMode": 0o400,
            "items": [
                {"key": "ssh-privatekey", "path": "id_rsa", "mode": 0o640},
                {"key": "ssh-publickey", "path": "id_rsa.pub", "mode": 0o644},
                {"key": "ssh-publickey", "path": "authorized_keys", "mode": 0o644},
            ],
        },
    }
    hosts = {
        "name": "mpi-hostfile",
        "configMap": {
            "name": "test-job-mpi-hostfile",
            "items": [{"key": "hostfile", "path": "hostfile", "mode": 0o444}],
        },
    }
    key_mount = {"name": "mpi-ssh-auth", "mountPath": "/home/mpiuser/.ssh"}
    assert made.pod("node")["volumes"] == [ssh]
    assert made.pod("launcher")["volumes"] == [ssh, hosts]
    assert made.container("node")["volumeMounts"] == [key_mount]
    assert made.container("launcher")["volumeMounts"] == [
        key_mount,
        {"name": "mpi-hostfile", "mountPath": "/etc/mpi"},
    ]
    assert made.env("launcher") == {
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": "1",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }
    assert made.env("node") == {}


@pytest.mark.parametrize("line", ["2.0", "2.1", "2.2"])
def test_0_1_9_up_to_2_2_keys_have_no_modes(line: str) -> None:
    [volume] = built(JOB.nodes(1), WORKERS, line=line).pod("node")["volumes"]
    assert "defaultMode" not in volume["secret"]
    assert not any("mode" in item for item in volume["secret"]["items"])


def test_g13_a_launcher_whose_container_has_another_name_gets_nothing() -> None:
    runtime = (
        make_runtime()
        .mpi()
        .job("node")
        .job("launcher", "trainer", containers=[container("launcher")])
    )
    launcher = built(JOB.nodes(1), runtime).container("launcher", "launcher")
    assert "volumeMounts" not in launcher
    assert "env" not in launcher


def test_g13_image_and_command_reach_the_launcher_only() -> None:
    made = built(JOB.trainer(image="own:1", command=["mpirun"]), WORKERS)
    assert made.container("launcher")["image"] == "own:1"
    assert made.container("node")["image"] == "example.test/train:1"
    assert "command" not in made.container("node")


def test_i10_env_of_the_trainer() -> None:
    job = JOB.nodes(2).env("A", "1")
    plain, both = built(job, WORKERS), built(job, BOTH)
    assert plain.env("node") == {}
    assert both.env("node") == {"A": "1"}
    assert list(both.env("launcher")) == [*OMPI, "A"]


def test_0_1_11_in_2_0_workers_never_get_it() -> None:
    assert built(JOB.nodes(2).env("A", "1"), BOTH, line="2.0").env("node") == {}


def test_the_keys_are_a_placeholder_always_the_same() -> None:
    first, second = (built(JOB.nodes(1), WORKERS).named("test-job-mpi-ssh-auth") for _ in range(2))
    assert first == second
    assert (first["type"], first["immutable"]) == ("kubernetes.io/ssh-auth", True)
    assert first["data"].keys() == {"ssh-privatekey", "ssh-publickey"}


def test_i11_an_empty_implementation_fails() -> None:
    with pytest.raises(BuildError, match="MPI implementation"):
        build(Case(job=JOB.nodes(1), runtime=mpi(mpiImplementation="")))


def test_i11_where_no_launcher_would_read_it_the_hostfile_is_empty() -> None:
    runtime = mpi(launcher=False, mpiImplementation="")
    assert hostfile(built(JOB.nodes(1), runtime)) == []


# Validation


def with_env(*names: str) -> MakeTrainJob:
    job = JOB.nodes(1).env("MINE", "1")
    for name in names:
        job = job.env(name, "x")
    return job


MISSING = "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode"
EXTRA = make_runtime().mpi(runLauncherAsNode=True).job("extra", "trainer")
HUGE = 2**31 - 1
CASES: dict[str, Case] = {
    "I07 a number for numProcPerNode passes": Case(job=JOB.nodes(1).processes(2), runtime=WORKERS),
    "I07 one node passes without a launcher": Case(
        job=JOB.nodes(1), runtime=mpi(launcher=False, runLauncherAsNode=True)
    ),
    "I08 two nodes without a launcher are refused": Case(
        job=JOB.nodes(2),
        runtime=mpi(launcher=False, runLauncherAsNode=True),
        refused=(invalid(NODES, "2", MISSING, "the runtime has no job launcher"),),
    ),
    "I08 two nodes without node are refused": Case(
        job=JOB.nodes(2),
        runtime=mpi(node=False, runLauncherAsNode=True),
        refused=(invalid(NODES, MISSING, "the runtime has no job node"),),
    ),
    "I08 two nodes without either are refused": Case(
        job=JOB.nodes(2),
        runtime=EXTRA,
        refused=(invalid(NODES, MISSING, "no job launcher and no job node"),),
    ),
    "I08 nobody cares where the launcher is no node": Case(
        job=JOB.nodes(2), runtime=mpi(launcher=False)
    ),
    "I09 each reserved name is refused at its place": Case(
        job=with_env(OMPI[0], "A", OMPI[3]),
        runtime=WORKERS,
        refused=(
            forbidden("spec.trainer.env[1].name", f"{OMPI[0]} is set by the MPI runtime"),
            forbidden("spec.trainer.env[3].name", OMPI[3]),
        ),
    ),
    "I09 all four are reserved": Case(
        job=with_env(*OMPI),
        runtime=WORKERS,
        refused=tuple(forbidden(f"spec.trainer.env[{i}].name") for i in range(1, 5)),
    ),
    "I09 other env passes": Case(job=with_env("OMPI_MCA_btl"), runtime=WORKERS),
    "2.1 words for numProcPerNode are refused": Case(
        line="2.1",
        job=JOB.nodes(1).processes("auto"),
        runtime=WORKERS,
        refused=(invalid("spec.trainer.numProcPerNode", '"auto"', "must have an int value"),),
    ),
    "a hostfile that no ConfigMap holds is refused, in no time": Case(
        job=JOB.nodes(HUGE),
        runtime=WORKERS,
        refused=(invalid(NODES, str(HUGE), "a ConfigMap holds 1048576", "fewer nodes"),),
    ),
    "one that fits passes": Case(job=JOB.nodes(25000), runtime=WORKERS),
    "I11 an empty implementation is refused, with what the controller says": Case(
        job=JOB.nodes(1),
        runtime=mpi(mpiImplementation=""),
        refused=(
            invalid(
                "spec.runtimeRef", "fails on this job in every reconcile", "MPI implementation"
            ),
        ),
    ),
    "what is stored is no reason to refuse": Case(
        old=with_env(OMPI[0]).suspended(),
        job=with_env(OMPI[0]).suspended().patch("a.io/x"),
        runtime=WORKERS,
    ),
}


@table(CASES)
def test_validation(case: Case) -> None:
    check(case)


def test_the_size_of_the_hostfile_is_exact() -> None:
    for count in (1, 2, 9, 10, 11, 100, 101, 1234):
        for runtime in (WORKERS, BOTH, mpi(numProcPerNode=12)):
            case = Case(job=JOB.nodes(count), runtime=runtime)
            text = build(case).named("test-job-mpi-hostfile")["data"]["hostfile"]
            assert hostfile_size(resolve(case)) == len(text)


NODE_FIRST = (
    make_runtime()
    .mpi()
    .job(
        "node", containers=[container("node", resources=resources(limits={"nvidia.com/gpu": "2"}))]
    )
    .job("launcher", "trainer")
)
LAUNCHER_FIRST = (
    make_runtime()
    .mpi()
    .job("launcher", "trainer")
    .job(
        "node", containers=[container("node", resources=resources(limits={"nvidia.com/gpu": "2"}))]
    )
)
WARNINGS: dict[str, Case] = {
    "B019 one node makes two pods": Case(
        job=JOB.nodes(1), runtime=BOTH, warns=("numNodes 1 makes two pods",)
    ),
    "B019 two nodes are two pods": Case(job=JOB.nodes(2), runtime=BOTH, warns=()),
    "B019 not where we wrote the 1": Case(job=JOB, runtime=BOTH, warns=()),
    "G14 several launchers": Case(
        job=JOB, runtime=WORKERS.nodes(3), warns=("makes 3 launchers, not workers",)
    ),
    "B023 fewer processes than GPUs": Case(
        job=JOB.nodes(2).processes(1),
        runtime=NODE_FIRST,
        warns=("2 nodes have 4 GPUs but 2 process(es)",),
    ),
    "B023 the workers' GPUs count where the launcher, which the Trainer looks at, has none": Case(
        job=JOB.nodes(2),
        runtime=LAUNCHER_FIRST,
        warns=("2 nodes have 4 GPUs but 2 process(es)",),
    ),
    "B023 not where they get a process each": Case(
        job=JOB.nodes(2).processes(2), runtime=LAUNCHER_FIRST, warns=()
    ),
    "B023 a launcher that counts as a node has its own GPUs": Case(
        job=JOB.nodes(3),
        runtime=LAUNCHER_FIRST.mpi(runLauncherAsNode=True),
        warns=("2 nodes have 4 GPUs but 2 process(es)",),
    ),
    "B023 not the GPUs of a launcher that is no node": Case(
        job=JOB.nodes(2).processes(1).resources(limits={"nvidia.com/gpu": "4"}),
        runtime=WORKERS,
        warns=(),
    ),
    "B023 not where the GPUs are the slots": Case(job=JOB.nodes(2), runtime=NODE_FIRST, warns=()),
}


@table(WARNINGS)
def test_warnings(case: Case) -> None:
    check(case)


# Runtimes


POLICY = "spec.mlPolicy.mpi"
CONTAINERS = "spec.template.spec.replicatedJobs[{}].template.spec.template.spec.containers"
OTHER = [container("main")]
RUNTIMES: dict[str, RuntimeCase] = {
    "both jobs and OpenMPI pass": RuntimeCase(runtime=BOTH),
    "G12 an empty implementation is refused": RuntimeCase(
        runtime=mpi(mpiImplementation=""),
        refused=(invalid(f"{POLICY}.mpiImplementation", '""', "must be OpenMPI"),),
    ),
    "runLauncherAsNode without a launcher is refused": RuntimeCase(
        runtime=make_runtime().mpi(runLauncherAsNode=True).job("node", "trainer"),
        refused=(invalid(f"{POLICY}.runLauncherAsNode", "true", "missing: launcher"),),
    ),
    "runLauncherAsNode without node is refused": RuntimeCase(
        runtime=mpi(node=False, runLauncherAsNode=True),
        refused=(invalid(f"{POLICY}.runLauncherAsNode", "missing: node"),),
    ),
    "a launcher alone passes where it is no node": RuntimeCase(runtime=mpi(node=False)),
    "G13 workers without container node are refused, and their containers are named": RuntimeCase(
        runtime=make_runtime().mpi().job("launcher", "trainer").job("node", containers=OTHER),
        refused=(
            invalid(CONTAINERS.format(1), "must have a container named node; there are: main"),
        ),
    ),
    "other jobs may have any container": RuntimeCase(runtime=BOTH.job("x", containers=OTHER)),
    "what is stored is no reason to refuse": RuntimeCase(
        old=mpi(mpiImplementation=""), runtime=mpi(mpiImplementation="").nodes(2)
    ),
}


@table(RUNTIMES)
def test_runtimes(case: RuntimeCase) -> None:
    check_runtime(case)


def test_updates_of_both_kinds_are_judged() -> None:
    new = mpi(mpiImplementation="")
    refused = (invalid(f"{POLICY}.mpiImplementation"),)
    check_runtime(RuntimeCase(old=WORKERS, runtime=new, refused=refused))
    check_runtime(RuntimeCase(old=WORKERS.namespaced(), runtime=new.namespaced(), refused=refused))
