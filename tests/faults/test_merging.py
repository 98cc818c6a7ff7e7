"""Known faults of merging runtime and job: B001 to B015. Those of policies (B009, B011) belong to policies."""

from __future__ import annotations

from tests.builders import MakeTrainJob, container, job_patch, make_runtime, mount, patched
from tests.faults.kit import p, rt_init, rt_torch, tj
from tests.folder import Folder, env, jobset, pod, texts
from tests.folder import container as rendered_container

REPLICATED = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
POD = f"{REPLICATED}.template.spec.template.spec"


def test_b001_a_lost_toleration_is_named() -> None:
    kept = {"key": "pool", "operator": "Equal", "value": "train", "effect": "NoSchedule"}
    runtime = rt_torch(pod={"tolerations": [{**kept, "tolerationSeconds": 90}]})
    own = [{"key": "spot", "operator": "Exists"}, kept]
    job = p(tj(runtime), "quota.example/manager", "node", {"tolerations": own})
    folder = Folder.of(runtime)
    [warning] = folder.admit(job).findings.warnings
    assert warning.startswith(f"{POD}.tolerations: replaces the runtime's list; lost for pool")
    assert pod(folder.render(job))["tolerations"] == own, "the Trainer replaces, and so do we"


def test_b001_tolerations_that_repeat_the_runtimes_lose_nothing() -> None:
    kept = {"key": "pool", "operator": "Exists"}
    runtime = rt_torch(pod={"tolerations": [kept]})
    own = [{"key": "spot", "operator": "Exists"}, kept]
    job = p(tj(runtime), "quota.example/manager", "node", {"tolerations": own})
    assert Folder.of(runtime).admit(job).findings.warnings == []


def test_b002_two_overrides_may_name_one_job() -> None:
    job = (
        tj(rt_torch())
        .pod_template_override("node", pod={"serviceAccountName": "sa-a"})
        .pod_template_override("node", pod={"nodeSelector": {"zone": "z1"}})
    )
    folder = Folder.of(rt_torch(), line="2.1")
    assert folder.admit(job).allowed
    built = pod(folder.render(job))
    assert (built["serviceAccountName"], built["nodeSelector"]) == ("sa-a", {"zone": "z1"})


def test_b002_trainer_2_0_takes_each_job_once() -> None:
    job = tj(rt_torch()).pod_spec_override("node", serviceAccountName="a")
    again = job.pod_spec_override("node", serviceAccountName="b")
    folder = Folder.of(rt_torch(), line="2.0")
    assert folder.admit(job).allowed
    [error] = folder.admit(again).findings.errors
    assert (error.field, error.type.reason) == (
        "spec.podSpecOverrides[1].targetJobs[0].name",
        "FieldValueDuplicate",
    )


def test_b003_a_patch_for_an_unknown_job_is_refused_with_the_names_that_exist() -> None:
    job = p(tj(rt_torch()), "team.example/x", "nodee", {"nodeSelector": {"zone": "z1"}})
    outcome = Folder.of(rt_torch()).admit(job)
    assert texts(outcome.findings.errors) == [
        f'{REPLICATED}.name: Not found: "nodee": jobs of runtime base-torch: node'
    ]


def test_b005_a_command_that_reaches_the_workers_daemon_is_warned_of() -> None:
    daemon = container("node", command=["/bin/agentd"], args=["-D"])
    runtime = (
        make_runtime("base-mpi")
        .mpi(numProcPerNode=1, mpiImplementation="OpenMPI", runLauncherAsNode=True)
        .job("launcher", "trainer")
        .job("node", "trainer", containers=[daemon])
    )
    job = tj(runtime).nodes(2).trainer(image="example.test/app:2", command=["run-it"])
    folder = Folder.of(runtime)
    both, left = folder.admit(job).findings.warnings
    assert "the command of each of the jobs launcher, node" in both
    assert 'the runtime\'s args ["-D"] stay behind it' in left
    rendered = folder.render(job)
    for name in ("launcher", "node"):
        assert rendered_container(rendered, name)["image"] == "example.test/app:2"
        assert rendered_container(rendered, name)["command"] == ["run-it"]
    assert rendered_container(rendered, "node")["args"] == ["-D"], "as the Trainer builds it"


def test_b005_a_command_with_args_leaves_nothing_behind() -> None:
    runtime = rt_torch(command=["a"], args=["-D"])
    job = tj(runtime).command("run-it").args()
    folder = Folder.of(runtime)
    assert folder.admit(job).findings.warnings == []
    assert not rendered_container(folder.render(job)).get("args")


def test_b007_a_variable_is_replaced_in_its_place() -> None:
    runtime = rt_torch(variables={"LOG_MODE": "calm", "B": "$(LOG_MODE)"})
    job = tj(runtime).env("LOG_MODE", "loud")
    built = list(env(Folder.of(runtime).render(job)).items())
    assert built[:2] == [("LOG_MODE", "loud"), ("B", "$(LOG_MODE)")]


def test_b008_mounts_are_merged_by_their_path() -> None:
    volumes = [{"name": "scratch", "emptyDir": {}}, {"name": "other", "emptyDir": {}}]
    runtime = rt_torch(volumeMounts=[mount("scratch", "/a")], pod={"volumes": volumes})
    folder = Folder.of(runtime)

    def patch(*mounts: dict[str, str]) -> MakeTrainJob:
        own = [patched("node", volumeMounts=list(mounts))]
        return p(tj(runtime), "a.example/m", "node", {"containers": own})

    more = patch({"name": "scratch", "mountPath": "/b", "subPath": "s"})
    assert folder.admit(more).findings.warnings == []
    paths = {m["mountPath"] for m in rendered_container(folder.render(more))["volumeMounts"]}
    assert paths == {"/a", "/b"}

    clash = patch(mount("other", "/a"))
    [warning] = folder.admit(clash).findings.warnings
    assert warning == (
        f"{POD}.containers[0].volumeMounts[0]: replaces the runtime's mount of volume scratch at /a "
        "(mounts are merged by path)"
    )


def test_b013_the_later_of_two_managers_wins_and_both_are_named() -> None:
    runtime = rt_torch()
    one = ("a.example/m", "node", {"nodeSelector": {"zone": "z1"}})
    two = ("b.example/m", "node", {"nodeSelector": {"zone": "z2", "disk": "ssd"}})
    folder = Folder.of(runtime)
    for first, second in ((one, two), (two, one)):
        job = p(p(tj(runtime), *first), *second)
        [warning] = folder.admit(job).findings.warnings
        assert warning == (
            f"{first[0]} and {second[0]} both set nodeSelector[zone] of job node: {second[0]} wins"
        )
        built = pod(folder.render(job))["nodeSelector"]
        assert built == {"zone": second[2]["nodeSelector"]["zone"], "disk": "ssd"}


def test_b014_metadata_of_a_patch_reaches_the_pods_of_its_job_alone() -> None:
    runtime = rt_init()
    metadata = {"labels": {"q.example/set": "node"}, "annotations": {"q.example/id": "w1"}}
    job = (
        tj(runtime)
        .label("team.example/unit", "blue")
        .patch("q.example/m", job_patch("node", pod_metadata=metadata))
    )
    rendered = Folder.of(runtime).render(job)
    built = {
        j["name"]: j["template"]["spec"]["template"].get("metadata", {})
        for j in jobset(rendered)["spec"]["replicatedJobs"]
    }
    assert built["node"]["labels"]["q.example/set"] == "node"
    assert built["node"]["annotations"]["q.example/id"] == "w1"
    assert "q.example/set" not in built["dataset-initializer"].get("labels", {})
    # As the Trainer: labels of the TrainJob itself go to no pod (docs/fidelity.md).
    assert "team.example/unit" not in built["node"]["labels"]


def test_b015_nothing_is_left_of_a_patch_that_is_gone() -> None:
    runtime = rt_torch(pod={"nodeSelector": {"own": "1"}})
    job = tj(runtime)
    before = p(job, "q.example/m", "node", {"nodeSelector": {"host": "h1"}})
    folder = Folder.of(runtime)
    outcome = folder.admit(job, before)
    assert outcome.allowed
    assert pod(folder.render(before))["nodeSelector"] == {"own": "1", "host": "h1"}
    assert pod(folder.render(job))["nodeSelector"] == {"own": "1"}
