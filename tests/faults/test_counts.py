"""Known faults of process and node counts: B016 to B024."""

from __future__ import annotations

import pytest

from tests.builders import make_runtime, resources
from tests.faults.kit import rt_mpi, rt_torch, tj
from tests.folder import Folder, container, env, texts


def test_b016_fewer_processes_than_gpus_are_warned_of() -> None:
    runtime = rt_torch()
    job = tj(runtime).resources(limits={"memory": "64Gi"})
    folder = Folder.of(runtime)
    [warning] = folder.admit(job).findings.warnings
    assert warning.startswith("each pod gets 4 GPUs but 1 process(es)")
    rendered = folder.render(job)
    assert container(rendered)["resources"]["limits"] == {"nvidia.com/gpu": "4", "memory": "64Gi"}
    assert env(rendered)["PET_NPROC_PER_NODE"] == "1", "as the Trainer counts"


def test_b017_one_process_that_nobody_chose_is_warned_of() -> None:
    runtime = make_runtime("base-torch").torch().nodes(2).node()
    outcome = Folder.of(runtime).admit(tj(runtime))
    assert outcome.allowed
    [warning] = outcome.findings.warnings
    assert warning.startswith("numProcPerNode resolves to 1")


@pytest.mark.parametrize(("nodes", "members"), [(1, 2), (2, 2), (3, 3)])
def test_b019_a_launcher_that_is_a_node_has_at_least_one_worker(nodes: int, members: int) -> None:
    runtime = rt_mpi().nodes(1)
    job = tj(runtime).nodes(nodes)
    folder = Folder.of(runtime)
    assert folder.render(job).members == members, "as the Trainer builds it"
    warned = any("makes two pods" in w for w in folder.admit(job).findings.warnings)
    assert warned == (nodes == 1)


@pytest.mark.parametrize("missing", ["launcher", "node"])
def test_b020_a_runtime_without_one_of_both_jobs_is_refused_by_its_name(missing: str) -> None:
    runtime = rt_mpi("node" if missing == "launcher" else "launcher")
    folder = Folder.of(runtime)
    [error] = folder.admit(runtime).findings.errors
    assert error.field == "spec.mlPolicy.mpi.runLauncherAsNode"
    assert error.detail.endswith(f"missing: {missing}")
    [error] = folder.admit(tj(runtime).nodes(2)).findings.errors
    assert error.field == "spec.trainer.numNodes"
    assert error.detail.endswith(f"the runtime has no job {missing}")


def test_b022_the_runtimes_count_stands_in_for_an_absent_one() -> None:
    runtime = rt_torch().nodes(3)
    folder = Folder.of(runtime)
    job = tj(runtime)
    members = [folder.render(j).members for j in (job.trainer(), job, job.nodes(5))]
    assert members == [3, 3, 5]


def test_b023_idle_gpus_are_warned_of_with_their_numbers() -> None:
    runtime = rt_mpi().nodes(1)
    job = tj(runtime).nodes(2).resources(limits={"nvidia.com/gpu": 2})
    folder = Folder.of(runtime)
    # Where the runtime says 1, the Trainer starts a process a GPU since 2.1.
    assert folder.admit(job).findings.warnings == []
    launcher = env(folder.render(job), "launcher")
    assert launcher["OMPI_MCA_orte_set_default_slots"] == "2"
    [warning] = folder.admit(job.processes(1)).findings.warnings
    assert warning.startswith("2 nodes have 4 GPUs but 2 process(es)")
    # 2.0 gives the resources to the launcher alone: the worker has no GPU that could be idle.
    older = Folder.of(runtime, line="2.0")
    assert container(older.render(job), job="node").get("resources", {}) == {}
    [warning] = older.admit(job).findings.warnings
    assert warning.startswith("1 node has 2 GPUs but 1 process(es)")


def test_b024_a_variable_for_open_mpi_5_is_the_users_to_set() -> None:
    runtime = rt_mpi().nodes(1)
    job = tj(runtime).nodes(2).env("PRTE_MCA_plm_ssh_args", "-o X=1")
    folder = Folder.of(runtime)
    assert folder.admit(job).allowed
    launcher = env(folder.render(job), "launcher")
    # The Trainer sets the names of Open MPI 4 only (docs/fidelity.md); what the user sets stays.
    assert launcher["PRTE_MCA_plm_ssh_args"] == "-o X=1"
    assert [name for name in launcher if name.startswith("OMPI_")] == [
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
        "OMPI_MCA_plm_rsh_args",
    ]


def test_b024_a_variable_that_the_trainer_sets_is_refused() -> None:
    runtime = rt_mpi().nodes(1)
    job = tj(runtime).nodes(2).env("OMPI_MCA_plm_rsh_args", "-o X=1")
    [error] = texts(Folder.of(runtime).admit(job).findings.errors)
    assert error.startswith("spec.trainer.env[0].name: Forbidden: OMPI_MCA_plm_rsh_args is set by")


def test_resources_of_the_fixture_are_those_of_the_table() -> None:
    """The rows above mean four GPUs and eight GiB a node."""
    runtime = rt_torch()
    rendered = Folder.of(runtime).render(tj(runtime))
    assert container(rendered)["resources"] == resources(
        {"cpu": "4", "memory": "8Gi"}, {"nvidia.com/gpu": "4"}
    )
