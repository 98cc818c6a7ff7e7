"""A TrainJob merged into its runtime: layers, metadata, resources, in all generations."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework import resolve as resolve_module
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.errors import BuildError
from plugins.framework.lines import LINES as FACTS
from tests.builders import (
    Json,
    MakeTrainJob,
    container,
    job_patch,
    make_runtime,
    make_train_job,
    mount,
    patched,
    resources,
)
from tests.plugins.kit import LINES, Built, Case, build, built, compiled, resolve, stored, table

JOB = make_train_job()
PLAIN = make_runtime().plain()
THREE = PLAIN.initializers().node(container("node"), container("side"))
PATCH_LINES = ["2.2", "2.3"]


def patch(
    job: str = "node", *, manager: str = "a.io/m", on: MakeTrainJob = JOB, **pod: Any
) -> MakeTrainJob:
    return on.patch(manager, job_patch(job, pod=pod))


# Metadata


def test_m05_a_label_of_the_jobset_is_overridden_by_a_patch() -> None:
    runtime = THREE.jobset_metadata(
        labels={"conflictLabel": "overridden", "own": "1"},
        annotations={"conflictAnnotation": "overridden"},
    )
    overlay = {
        "labels": {"conflictLabel": "override"},
        "annotations": {"conflictAnnotation": "override"},
    }
    metadata = built(JOB.patch("a.io/m", metadata=overlay), runtime).jobset["metadata"]
    assert metadata["labels"] == {"conflictLabel": "override", "own": "1"}
    assert metadata["annotations"] == {"conflictAnnotation": "override"}


def test_the_later_patch_wins_for_metadata_of_the_jobset() -> None:
    job = JOB.patch("a.io/m", metadata={"labels": {"a": "1", "b": "1"}})
    made = built(job.patch("b.io/m", metadata={"labels": {"a": "2"}}), THREE)
    assert made.jobset["metadata"]["labels"] == {"a": "2", "b": "1"}


@pytest.mark.parametrize("line", ["2.0", "2.1"])
def test_up_to_2_1_spec_labels_are_the_overlay(line: str) -> None:
    job = JOB.field({"a": "2"}, "spec", "labels").field({"c": "3"}, "spec", "annotations")
    made = built(job, THREE.jobset_metadata(labels={"a": "1", "b": "1"}), line=line)
    assert made.jobset["metadata"]["labels"] == {"a": "2", "b": "1"}
    assert made.jobset["metadata"]["annotations"] == {"c": "3"}


@pytest.mark.parametrize("line", PATCH_LINES)
def test_m10_metadata_of_jobs_and_pods_land_at_their_level_and_job(line: str) -> None:
    job = JOB.patch(
        "a.io/m",
        job_patch(
            "node",
            job_metadata={"labels": {"level": "job"}},
            pod_metadata={"labels": {"level": "pod"}, "annotations": {"x": "node"}},
        ),
    ).patch("b.io/m", job_patch("dataset-initializer", pod_metadata={"annotations": {"x": "data"}}))
    made = built(job, THREE, line=line)
    assert made.job("node")["template"]["metadata"]["labels"]["level"] == "job"
    assert made.pod_template("node")["metadata"] == {
        "labels": {"level": "pod"},
        "annotations": {"x": "node"},
    }
    assert made.pod_template("dataset-initializer")["metadata"] == {"annotations": {"x": "data"}}
    assert "level" not in made.job("dataset-initializer")["template"]["metadata"]["labels"]


# Pods


def test_m06_env_of_an_init_container_is_merged_by_name() -> None:
    init = container("setup", {"INIT_ENV": "original", "DATASET_PATH": "/d"})
    runtime = PLAIN.node(pod={"initContainers": [init]})
    job = patch(initContainers=[patched("setup", {"INIT_ENV": "override", "NEW_VALUE": "n"})])
    assert built(job, runtime).env("node", "setup", kind="initContainers") == {
        "INIT_ENV": "override",
        "DATASET_PATH": "/d",
        "NEW_VALUE": "n",
    }


AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}
            ]
        }
    }
}
EVERYTHING: Json = {
    "serviceAccountName": "sa",
    "nodeSelector": {"disk": "ssd"},
    "affinity": AFFINITY,
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "schedulingGates": [{"name": "a.io/gate"}],
    "imagePullSecrets": [{"name": "pull"}],
    "volumes": [
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "c"}},
    ],
    "terminationGracePeriodSeconds": 300,
    "securityContext": {"runAsUser": 1000},
}


def test_m07_all_that_can_be_patched_lands_on_the_target_only() -> None:
    mounts = [mount("s", "/s"), mount("c", "/c")]
    job = patch(**EVERYTHING, containers=[patched("side", volumeMounts=mounts)])
    made = built(job, THREE)
    pod = made.pod("node")
    assert {key: pod[key] for key in EVERYTHING} == EVERYTHING
    assert made.container("node", "side")["volumeMounts"] == mounts
    assert made.pod("dataset-initializer") == built(JOB, THREE).pod("dataset-initializer")


def test_m08_a_patch_without_affinity_leaves_the_templates() -> None:
    runtime = PLAIN.node(pod={"affinity": AFFINITY})
    assert built(patch(nodeSelector={"a": "b"}), runtime).pod()["affinity"] == AFFINITY


def test_affinities_of_two_kinds_live_together_and_term_lists_are_replaced() -> None:
    other: Json = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    terms = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
                ]
            }
        }
    }
    runtime = PLAIN.node(pod={"affinity": AFFINITY})
    assert (
        built(patch(affinity=other), runtime).pod()["affinity"]["nodeAffinity"]
        == AFFINITY["nodeAffinity"]
    )
    assert (
        built(patch(affinity=terms), runtime).pod()["affinity"]["nodeAffinity"]
        == terms["nodeAffinity"]
    )


def test_m09_security_contexts_of_pod_and_sidecar() -> None:
    job = patch(
        securityContext={"fsGroup": 1},
        containers=[patched("side", securityContext={"runAsUser": 2})],
    )
    runtime = PLAIN.node(
        container("node"),
        container("side", securityContext={"runAsGroup": 3}),
        pod={"securityContext": {"runAsUser": 4}},
    )
    made = built(job, runtime)
    assert made.pod()["securityContext"] == {"fsGroup": 1, "runAsUser": 4}
    assert made.container("node", "side")["securityContext"] == {"runAsUser": 2, "runAsGroup": 3}
    assert "securityContext" not in made.container("node", "node")


def test_m11_two_managers_of_one_job_both_count() -> None:
    job = patch(serviceAccountName="sa", manager="b.io/m", on=patch(nodeSelector={"a": "b"}))
    pod = built(job, THREE).pod()
    assert (pod["nodeSelector"], pod["serviceAccountName"]) == ({"a": "b"}, "sa")


def test_m12_of_two_managers_the_later_entry_wins() -> None:
    job = patch(
        nodeSelector={"a": "2"},
        manager="a.io/late",
        on=patch(nodeSelector={"a": "1", "b": "1"}, manager="z.io/early"),
    )
    assert built(job, THREE).pod()["nodeSelector"] == {"a": "2", "b": "1"}


def test_m13_jobs_stay_in_the_order_of_the_template() -> None:
    job = JOB.patch(
        "a.io/m",
        job_patch("node", pod={"nodeSelector": {"a": "1"}}),
        job_patch("dataset-initializer", pod={"nodeSelector": {"a": "2"}}),
    )
    assert built(job, THREE).jobs == ["dataset-initializer", "model-initializer", "node"]


def test_m16_tolerations_are_replaced() -> None:
    runtime = PLAIN.node(pod={"tolerations": [{"key": "template", "operator": "Exists"}]})
    wanted = [{"key": "patch", "operator": "Exists"}]
    assert built(patch(tolerations=wanted), runtime).pod()["tolerations"] == wanted


def test_m17_the_trainer_leaves_two_sources_which_we_refuse_elsewhere() -> None:
    runtime = PLAIN.node(pod={"volumes": [{"name": "v", "emptyDir": {}}]})
    job = patch(volumes=[{"name": "v", "hostPath": {"path": "/x"}}])
    assert built(job, runtime).pod()["volumes"] == [
        {"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}
    ]


def test_mounts_are_merged_by_path() -> None:
    side = container("side", volumeMounts=[mount("v", "/a")])
    runtime = PLAIN.node(container("node"), side, pod={"volumes": [{"name": "v", "emptyDir": {}}]})
    volumes = [{"name": "w", "emptyDir": {}}]

    def mounts(*wanted: Json) -> list[Json]:
        job = patch(containers=[patched("side", volumeMounts=list(wanted))], volumes=volumes)
        found: list[Json] = built(job, runtime).container("node", "side")["volumeMounts"]
        return found

    assert mounts(mount("v", "/b")) == [mount("v", "/b"), mount("v", "/a")]
    assert mounts(mount("w", "/a")) == [mount("w", "/a")]


X, W = mount("x", "/a"), mount("w", "/b")


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        pytest.param([mount("v", "/b")], [X, W], id="collapse to the later one"),
        pytest.param([mount("v", "/a")], [X, W], id="also where one is there"),
        pytest.param([], [X, W, X], id="and stand twice where there is nothing to merge with"),
    ],
)
def test_two_mounts_of_one_path_in_a_patch(template: list[Json], wanted: list[Json]) -> None:
    """As the Trainer's own code does it."""
    volumes = [{"name": name, "emptyDir": {}} for name in "vwx"]
    side = container("side", volumeMounts=template)
    runtime = PLAIN.node(container("node"), side, pod={"volumes": volumes})
    job = patch(containers=[patched("side", volumeMounts=[mount("v", "/a"), W, X])])
    assert built(job, runtime).container("node", "side")["volumeMounts"] == wanted


def test_3_9_the_worked_example() -> None:
    runtime = PLAIN.node(
        container("node", {"A": "1"}),
        container("side", {"B": "1"}),
        pod={
            "tolerations": [{"key": "t1"}],
            "nodeSelector": {"a": "x"},
            "volumes": [{"name": "v1", "emptyDir": {}}],
        },
    )
    first = patch(
        nodeSelector={"a": "y", "b": "z"},
        tolerations=[{"key": "t2"}],
        volumes=[{"name": "v2", "emptyDir": {}}],
        containers=[patched("side", {"B": "2", "C": "3"})],
    )
    pod = built(patch(nodeSelector={"b": "q"}, manager="b.io/m", on=first), runtime).pod()
    assert pod["nodeSelector"] == {"a": "y", "b": "q"}
    assert pod["tolerations"] == [{"key": "t2"}]
    assert [v["name"] for v in pod["volumes"]] == ["v2", "v1"]
    assert [c["name"] for c in pod["containers"]] == ["node", "side"]
    assert pod["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert pod["containers"][1]["env"] == [{"name": "B", "value": "2"}, {"name": "C", "value": "3"}]


def test_false_in_a_patch_cannot_clear_true() -> None:
    """0.1.1: in plain fields neither an empty text nor false nor 0 reaches the merge."""
    side = container("side", volumeMounts=[{**mount("v", "/v"), "readOnly": True}])
    runtime = PLAIN.node(container("node"), side, pod={"volumes": [{"name": "v", "emptyDir": {}}]})
    job = patch(
        containers=[patched("side", volumeMounts=[{**mount("v", "/v"), "readOnly": False}])]
    )
    assert built(job, runtime).container("node", "side")["volumeMounts"][0]["readOnly"] is True


def test_an_empty_value_in_a_map_wins() -> None:
    """0.1.1: values of labels, annotations and nodeSelector do reach the merge."""
    runtime = PLAIN.node(pod={"nodeSelector": {"a": "1"}})
    assert built(patch(nodeSelector={"a": ""}), runtime).pod()["nodeSelector"] == {"a": ""}


# Older generations


def test_2_1_an_override_is_for_each_of_its_jobs() -> None:
    job = JOB.pod_template_override(
        "node",
        "dataset-initializer",
        pod={"nodeSelector": {"a": "1"}, "imagePullSecrets": [{"name": "p"}]},
        metadata={"labels": {"l": "1"}, "annotations": {"n": "1"}},
    ).pod_template_override("node", pod={"nodeSelector": {"a": "2"}})
    made = built(job, THREE, line="2.1")
    assert made.pod("node")["nodeSelector"] == {"a": "2"}
    assert made.pod("dataset-initializer")["nodeSelector"] == {"a": "1"}
    assert made.pod_template("node")["metadata"] == {
        "labels": {"l": "1"},
        "annotations": {"n": "1"},
    }
    assert "nodeSelector" not in made.pod("model-initializer")


def test_2_0_an_override_is_the_pod_spec_itself() -> None:
    job = JOB.pod_spec_override(
        "node", serviceAccountName="sa", containers=[patched("side", {"A": "1"})]
    )
    made = built(job, THREE, line="2.0")
    assert made.pod("node")["serviceAccountName"] == "sa"
    assert made.env("node", "side") == {"A": "1"}
    assert "serviceAccountName" not in made.pod("dataset-initializer")


@pytest.mark.parametrize("line", LINES)
def test_overrides_of_other_generations_are_not_read(line: str) -> None:
    raw = (
        patch(nodeSelector={"g": "runtimePatches"})
        .pod_template_override("node", pod={"nodeSelector": {"g": "podTemplateOverrides"}})
        .pod_spec_override("node", nodeSelector={"g": "podSpecOverrides"})
    )
    pod = build(Case(job=raw, runtime=THREE, line=line)).pod()
    assert pod["nodeSelector"] == {"g": FACTS[line].generation}


# Names that are not there (the Trainer's faults, refused elsewhere)


def test_g1_2_3_adds_an_unknown_job_in_front() -> None:
    made = built(patch("missing", nodeSelector={"a": "1"}), THREE)
    assert made.jobs == ["missing", "dataset-initializer", "model-initializer", "node"]


def test_g1_2_2_ignores_it() -> None:
    assert built(patch("missing", nodeSelector={"a": "1"}), THREE, line="2.2").jobs == [
        "dataset-initializer",
        "model-initializer",
        "node",
    ]


@pytest.mark.parametrize("line", PATCH_LINES)
def test_g1_an_unknown_container_is_added_without_an_image(line: str) -> None:
    made = built(patch(containers=[patched("new", {"A": "1"})]), THREE, line=line)
    assert [c["name"] for c in made.pod()["containers"]] == ["new", "node", "side"]
    assert "image" not in made.container("node", "new")


def test_g9_a_directive_that_fails_is_what_the_controller_fails_with() -> None:
    runtime = PLAIN.node(pod={"nodeSelector": {"a": "1"}})
    case = Case(job=patch(nodeSelector={"$patch": "foo"}), runtime=runtime)
    assert resolve(case).build_error == "Unknown patch type found: foo"
    with pytest.raises(BuildError, match="Unknown patch type found: foo"):
        build(case)


def test_g9_the_overrides_after_it_still_count() -> None:
    """So that the other findings are about the pods that were meant."""
    runtime = PLAIN.node(pod={"nodeSelector": {"a": "1"}})
    job = patch(serviceAccountName="sa", manager="b.io/m", on=patch(nodeSelector={"$patch": "foo"}))
    info = resolve(Case(job=job, runtime=runtime))
    assert info.pod_sets[0].spec["serviceAccountName"] == "sa"


# resourcesPerNode


def node_resources(made: Built, job: str = "node") -> Json:
    found: Json = made.container(job)["resources"]
    return found


SMALL = resources(requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "8"})
GPU = {"nvidia.com/gpu": "2"}
RESOURCES: dict[str, tuple[Json | None, Json, Json]] = {
    "M14 GPUs over cpu and memory: all three": (
        SMALL,
        resources(requests=GPU, limits=GPU),
        resources(requests={"cpu": "1", "memory": "1Gi", **GPU}, limits={"cpu": "8", **GPU}),
    ),
    "M15 a limit over a limit": (
        SMALL,
        resources(limits={"cpu": "4"}),
        resources(requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "4"}),
    ),
    "M15 a request over a request keeps the other keys": (
        SMALL,
        resources(requests={"cpu": "2"}),
        resources(requests={"cpu": "2", "memory": "1Gi"}, limits={"cpu": "8"}),
    ),
    "M15 empty resources keep the template's": (SMALL, {}, SMALL),
    "nothing in the template": (
        None,
        resources(requests={"cpu": "2"}),
        resources(requests={"cpu": "2"}),
    ),
    "claims are lost from both sides": (
        {**SMALL, "claims": [{"name": "a"}]},
        {"claims": [{"name": "b"}]},
        SMALL,
    ),
}


@table(RESOURCES)
def test_resources_are_merged_since_2_3(case: tuple[Json | None, Json, Json]) -> None:
    template, own, wanted = case
    runtime = PLAIN.node(
        container("node", resources=template), container("side", resources=template)
    )
    made = built(JOB.trainer(resourcesPerNode=own), runtime)
    assert node_resources(made) == wanted
    assert made.container("node", "side") == built(JOB, runtime).container("node", "side")


@pytest.mark.parametrize("line", ["2.0", "2.1", "2.2"])
def test_resources_replace_the_templates_before(line: str) -> None:
    runtime = PLAIN.node(container("node", resources=SMALL))
    made = built(JOB.resources(limits={"cpu": "4"}), runtime, line=line)
    assert node_resources(made) == resources(limits={"cpu": "4"})
    kept = built(JOB.trainer(resourcesPerNode={}), runtime, line=line)
    assert node_resources(kept) == SMALL


WITHOUT_POLICY = make_runtime().node()


@pytest.mark.parametrize(("line", "wanted"), [("2.3", {}), ("2.2", {"limits": {"cpu": "4"}})])
def test_g17_without_an_ml_policy_2_3_ignores_them(line: str, wanted: Json) -> None:
    made = built(JOB.resources(limits={"cpu": "4"}), WITHOUT_POLICY, line=line)
    assert node_resources(made) == wanted


@pytest.mark.parametrize(
    ("line", "lands"), [("2.0", False), ("2.1", True), ("2.2", True), ("2.3", True)]
)
def test_i10_with_run_launcher_as_node_the_workers_get_them_too(line: str, lands: bool) -> None:
    runtime = make_runtime().mpi(runLauncherAsNode=True).job("node").job("launcher", "trainer")
    made = built(JOB.nodes(2).resources(limits={"cpu": "4"}), runtime, line=line)
    assert node_resources(made, "launcher") == resources(limits={"cpu": "4"})
    assert bool(node_resources(made, "node")) == lands


# Traces


def test_a_trace_keeps_the_jobs_after_each_override() -> None:
    case = Case(
        job=patch(nodeSelector={"a": "2"}, manager="b.io/m", on=patch(nodeSelector={"a": "1"})),
        runtime=THREE,
    )
    info = resolve_module.resolve(TrainJob(stored(case.job)), compiled(THREE), trace=True)
    info.settle()
    found = [(name, jobs[-1].pod.get("nodeSelector")) for name, jobs in info.layers]
    assert found == [("runtime", None), ("a.io/m", {"a": "1"}), ("b.io/m", {"a": "2"})]


def test_a_patch_that_moves_a_sidecar_to_the_front_changes_what_the_pod_asks_for() -> None:
    """A sidecar counts beside every init container that starts after it (found by conformance)."""
    load = container("load", resources=resources(requests={"memory": "1G"}))
    proxy = container(
        "proxy", resources=resources(requests={"memory": "1Gi"}), restartPolicy="Always"
    )
    runtime = PLAIN.node(pod={"initContainers": [load, proxy]})
    moved = patch(initContainers=[patched("proxy"), patched("load")])
    infos = [resolve(Case(job=job, runtime=runtime)) for job in (JOB, moved)]
    found = [info.pod_sets[0].requests["memory"].nano for info in infos]
    assert found == [2**30 * 10**9, (2**30 + 10**9) * 10**9]
