from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugins.framework import applied, lines, values
from plugins.framework.api import names
from policies.options import NotExpressible
from policies.writes import Mode
from tests.builders import (
    MakeTrainJob,
    container,
    job_patch,
    make_runtime,
    make_train_job,
    mount,
    patched,
)
from tests.plugins.kit import LINES, table
from tests.policies.kit import MODES, OURS, Outcome, Rules, again, announced, apply

RUNTIME = (
    make_runtime()
    .torch()
    .nodes(2)
    .node(
        container("node", resources={"limits": {"cpu": "4", "memory": "8Gi"}}),
        container("side", {"B": "1"}),
        pod={"tolerations": [{"key": "own", "operator": "Exists"}], "nodeSelector": {"zone": "a"}},
    )
)
WITH_INITIALIZERS = make_runtime().torch().initializers().node()
MANAGED = ("2.2", "2.3")
WITH_ENTRIES = ("2.1", "2.2", "2.3")


def pods(*jobs: str, metadata: Any = None, **spec: Any) -> dict[str, Any]:
    """One override of the pods of some jobs."""
    one: dict[str, Any] = {}
    if jobs:
        one["targetJobs"] = [{"name": job} for job in jobs]
    if metadata:
        one["metadata"] = metadata
    if spec:
        one["spec"] = spec
    return {"podTemplateOverrides": [one]}


def in_mode(mode: Mode, section: dict[str, Any]) -> Rules:
    return Rules(defaults=section) if mode == "defaults" else Rules(overrides=section)


def fixed(outcome: Outcome, *rules: Rules) -> Outcome:
    """The same, having checked that a second call changes nothing."""
    second = again(outcome, *rules)
    assert second.patch == []
    assert second.draft.changes == []
    assert values.same(second.raw, outcome.raw)
    return outcome


def user(line: str, *jobs: str, pod: Any = None, metadata: Any = None) -> MakeTrainJob:
    """A job with an override of the user, in the words of a line."""
    job = make_train_job()
    match lines.LINES[line].generation:
        case "runtimePatches":
            entries = [job_patch(name, pod=pod, pod_metadata=metadata) for name in jobs]
            return job.patch("acme.io/user", *entries)
        case "podTemplateOverrides":
            return job.pod_template_override(*jobs, pod=pod, metadata=metadata)
        case _:
            return job.pod_spec_override(*jobs, **pod)


# Fields of the TrainJob


FIELDS: dict[str, tuple[dict[str, Any], tuple[str, ...], Any]] = {
    "labels": ({"labels": {"team": "a"}}, ("metadata", "labels", "team"), "a"),
    "annotations": ({"annotations": {"x/y": "a"}}, ("metadata", "annotations", "x/y"), "a"),
    "image": ({"trainer": {"image": "i:1"}}, ("spec", "trainer", "image"), "i:1"),
    "command": ({"trainer": {"command": ["run"]}}, ("spec", "trainer", "command"), ["run"]),
    "args": ({"trainer": {"args": ["-x"]}}, ("spec", "trainer", "args"), ["-x"]),
    "numNodes": ({"trainer": {"numNodes": 3}}, ("spec", "trainer", "numNodes"), 3),
    "numProcPerNode": (
        {"trainer": {"numProcPerNode": 5}},
        ("spec", "trainer", "numProcPerNode"),
        5,
    ),
    "env": (
        {"trainer": {"env": [{"name": "A", "value": "1"}]}},
        ("spec", "trainer", "env"),
        [{"name": "A", "value": "1"}],
    ),
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_written_where_nothing_stands(name: str, mode: Mode, line: str) -> None:
    section, path, want = FIELDS[name]
    rules = in_mode(mode, section)
    out = fixed(apply(make_train_job(), RUNTIME, rules, line=line), rules)
    assert values.same(at(out.raw, path), want)
    assert out.warnings == []
    mark = "policy/p!" if mode == "overrides" else "policy/p"
    assert any(entry.startswith(f"{mark}:") for entry in out.record.values())


OTHERS: dict[str, Any] = {
    "labels": "b",
    "annotations": "b",
    "image": "i:2",
    "command": ["other"],
    "args": ["-y"],
    "numNodes": 5,
    "numProcPerNode": 6,
    "env": [{"name": "A", "value": "2"}],
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", FIELDS)
def test_a_default_yields_to_the_user(name: str, line: str) -> None:
    section, path, _ = FIELDS[name]
    rules = Rules(defaults=section)
    out = fixed(
        apply(make_train_job().field(OTHERS[name], *path), RUNTIME, rules, line=line), rules
    )
    assert values.same(at(out.raw, path), OTHERS[name])
    assert not any(entry.startswith("policy/") for entry in out.record.values())


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", FIELDS)
def test_an_override_replaces_the_users_value_and_says_so(name: str, line: str) -> None:
    section, path, want = FIELDS[name]
    rules = Rules(name="strict", overrides=section)
    out = fixed(
        apply(make_train_job().field(OTHERS[name], *path), RUNTIME, rules, line=line), rules
    )
    assert values.same(at(out.raw, path), want)
    [warning] = out.warnings
    assert warning.startswith("policy strict sets ")
    assert "it was" in warning


def at(raw: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        raw = raw.get(step) if isinstance(raw, dict) else None
    return raw


def test_maps_and_variables_are_merged_key_by_key() -> None:
    job = make_train_job().label("own", "1").env("MINE", "1")
    rules = [
        Rules(
            "a", defaults={"labels": {"x": "1"}, "trainer": {"env": [{"name": "A", "value": "1"}]}}
        ),
        Rules(
            "b", defaults={"labels": {"y": "2"}, "trainer": {"env": [{"name": "B", "value": "1"}]}}
        ),
    ]
    out = fixed(apply(job, RUNTIME, *rules), *rules)
    assert out.raw["metadata"]["labels"] == {"own": "1", "x": "1", "y": "2"}
    assert [e["name"] for e in out.job["env"]] == ["MINE", "A", "B"]


def test_an_equal_value_of_the_user_is_no_warning() -> None:
    rules = Rules(overrides={"trainer": {"numNodes": 3}})
    assert fixed(apply(make_train_job().nodes(3), RUNTIME, rules), rules).warnings == []


def test_an_override_beats_a_default_silently() -> None:
    rules = Rules(defaults={"labels": {"k": "d"}}, overrides={"labels": {"k": "o"}})
    out = fixed(apply(make_train_job(), RUNTIME, rules), rules)
    assert out.raw["metadata"]["labels"] == {"k": "o"}
    assert out.warnings == []


def test_a_default_beats_the_runtime() -> None:
    rules = Rules(defaults={"trainer": {"numNodes": 7}})
    assert fixed(apply(make_train_job(), RUNTIME, rules), rules).job["numNodes"] == 7


@pytest.mark.parametrize("line", MANAGED)
def test_suspend_and_managed_by_are_forced_on_create(line: str) -> None:
    section = {"suspend": True, "managedBy": names.MULTIKUEUE}
    rules = Rules(overrides=section)
    out = fixed(apply(make_train_job(), RUNTIME, rules, line=line), rules)
    assert out.raw["spec"]["suspend"] is True
    assert out.raw["spec"]["managedBy"] == names.MULTIKUEUE


# Ranges


@table(
    {
        "above the max is lowered": ({"max": 4}, 9, 4, True),
        "below the min is raised": ({"min": 3}, 1, 3, True),
        "within is left": ({"min": 1, "max": 9}, 5, 5, False),
        "the runtime's number counts where there is none": ({"max": 1}, None, 1, False),
        "the runtime's number within is left": ({"max": 2}, None, 2, False),
    }
)
def test_ranges_of_nodes(case: tuple[dict[str, int], int | None, int, bool]) -> None:
    bounds, given_, want, warns = case
    job = make_train_job() if given_ is None else make_train_job().nodes(given_)
    rules = Rules(overrides={"trainer": {"numNodes": bounds}})
    out = fixed(apply(job, RUNTIME, rules), rules)
    assert out.job["numNodes"] == want
    assert bool(out.warnings) == warns


@table(
    {
        "no deadline gets the max": ({"max": 60}, None, 60),
        "no deadline needs no min": ({"min": 60}, None, None),
        "a longer one is cut": ({"max": 60}, 90, 60),
        "a shorter one stays": ({"max": 60}, 30, 30),
    }
)
def test_ranges_of_deadlines(case: tuple[dict[str, int], int | None, int | None]) -> None:
    bounds, given_, want = case
    job = make_train_job()
    job = job if given_ is None else job.field(given_, "spec", "activeDeadlineSeconds")
    rules = Rules(overrides={"activeDeadlineSeconds": bounds})
    out = fixed(apply(job, RUNTIME, rules), rules)
    assert out.raw["spec"].get("activeDeadlineSeconds") == want


def test_a_default_is_clamped_by_another_policys_range_in_the_same_call() -> None:
    rules = [
        Rules("a", defaults={"trainer": {"numNodes": 32}}),
        Rules("b", overrides={"trainer": {"numNodes": {"max": 16}}}),
    ]
    out = fixed(apply(make_train_job(), RUNTIME, *rules), *rules)
    assert out.job["numNodes"] == 16
    assert out.warnings == []


# Resources


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("mode", MODES)
def test_one_resource_leaves_the_runtimes_others(mode: Mode, line: str) -> None:
    rules = in_mode(mode, {"trainer": {"resourcesPerNode": {"limits": {"memory": "16Gi"}}}})
    out = fixed(apply(make_train_job(), RUNTIME, rules, line=line), rules)
    assert out.built.container()["resources"]["limits"] == {"cpu": "4", "memory": "16Gi"}


@pytest.mark.parametrize("line", ["2.1", "2.2", "2.3"])  # 2.0 never looks at the runtime's
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": 8, "cpu": "4"}, {"cpu": "4"}])
def test_one_resource_leaves_the_number_of_processes(
    limits: dict[str, Any], mode: Mode, line: str
) -> None:
    runtime = make_runtime().torch().node(container("node", resources={"limits": limits}))
    rules = in_mode(mode, {"trainer": {"resourcesPerNode": {"limits": {"memory": "16Gi"}}}})
    out = fixed(apply(make_train_job(), runtime, rules, line=line), rules)
    plain = apply(make_train_job(), runtime, line=line)
    assert plain.built.env()["PET_NPROC_PER_NODE"] in {"auto", "4"}
    assert out.built.env()["PET_NPROC_PER_NODE"] == plain.built.env()["PET_NPROC_PER_NODE"]


@pytest.mark.parametrize("line", LINES)
def test_the_users_resources_are_added_to_and_not_completed_from_the_runtime(line: str) -> None:
    job = make_train_job().resources(limits={"nvidia.com/gpu": 1})
    rules = Rules(defaults={"trainer": {"resourcesPerNode": {"limits": {"memory": "16Gi"}}}})
    out = fixed(apply(job, RUNTIME, rules, line=line), rules)
    assert out.job["resourcesPerNode"] == {"limits": {"nvidia.com/gpu": 1, "memory": "16Gi"}}


def test_amounts_are_compared_by_value() -> None:
    job = make_train_job().resources(limits={"cpu": 2})
    rules = Rules(overrides={"trainer": {"resourcesPerNode": {"limits": {"cpu": "2000m"}}}})
    assert apply(job, RUNTIME, rules).warnings == []


def test_a_reinvocation_with_amounts_in_another_form_changes_nothing() -> None:
    rules = Rules(
        defaults={"trainer": {"resourcesPerNode": {"limits": {"cpu": 2, "memory": "1Gi"}}}}
    )
    out = apply(make_train_job(), RUNTIME, rules)
    out.raw["spec"]["trainer"]["resourcesPerNode"]["limits"]["cpu"] = "2"  # as Kueue writes it
    second = again(out, rules)
    assert second.patch == []


# Pods


POD_SPECS: dict[str, tuple[dict[str, Any], tuple[Any, ...], Any]] = {
    "nodeSelector": ({"nodeSelector": {"pool": "h100"}}, ("nodeSelector",), {"zone": "a", "pool": "h100"}),
    "serviceAccountName": ({"serviceAccountName": "sa"}, ("serviceAccountName",), "sa"),
    "affinity": (
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}},
        ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
        [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}],
    ),
    "tolerations": (
        {"tolerations": [{"key": "spot", "operator": "Exists"}]},
        ("tolerations",),
        [{"key": "own", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}],
    ),
    "volumes": ({"volumes": [{"name": "v", "emptyDir": {}}]}, ("volumes",), [{"name": "v", "emptyDir": {}}]),
    "imagePullSecrets": ({"imagePullSecrets": [{"name": "s"}]}, ("imagePullSecrets",), [{"name": "s"}]),
    "schedulingGates": ({"schedulingGates": [{"name": "x/g"}]}, ("schedulingGates",), [{"name": "x/g"}]),
}  # fmt: skip


@pytest.mark.parametrize("line", WITH_ENTRIES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", POD_SPECS)
def test_pods_are_as_wanted(name: str, mode: Mode, line: str) -> None:
    spec, path, want = POD_SPECS[name]
    rules = in_mode(mode, pods("node", **spec))
    out = fixed(apply(make_train_job(), RUNTIME, rules, line=line), rules)
    assert at(out.built.pod(), path) == want
    assert len(out.entries) == 1


@pytest.mark.parametrize("mode", MODES)
def test_security_contexts_and_grace_periods(mode: Mode) -> None:
    spec = {
        "securityContext": {"runAsNonRoot": True},
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "side", "securityContext": {"privileged": False}}],
    }
    rules = in_mode(mode, pods("node", **spec))
    out = fixed(apply(make_train_job(), RUNTIME, rules), rules)
    assert out.built.pod()["securityContext"] == {"runAsNonRoot": True}
    assert out.built.pod()["terminationGracePeriodSeconds"] == 5
    assert out.built.container(name="side")["securityContext"] == {"privileged": False}


@pytest.mark.parametrize("line", WITH_ENTRIES)
@pytest.mark.parametrize("mode", MODES)
def test_variables_and_mounts_of_other_containers_go_into_the_entry(mode: Mode, line: str) -> None:
    spec = {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [
            {"name": "side", "env": [{"name": "B", "value": "2"}, {"name": "C", "value": "3"}]},
            {"name": "node", "volumeMounts": [mount("v", "/v")]},
        ],
    }
    rules = in_mode(mode, pods("node", **spec))
    out = fixed(apply(make_train_job(), RUNTIME, rules, line=line), rules)
    assert out.built.env(name="side") == {"B": "2", "C": "3"}
    assert mount("v", "/v") in out.built.container()["volumeMounts"]
    assert [c["name"] for c in out.built.pod()["containers"]] == ["node", "side"]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("mode", MODES)
def test_variables_of_reserved_containers_go_to_the_trainjob(mode: Mode, line: str) -> None:
    env = [{"name": "NCCL_DEBUG", "value": "WARN"}]
    spec = {
        "containers": [
            {"name": name, "env": env}
            for name in ("node", "dataset-initializer", "model-initializer")
        ]
    }
    rules = in_mode(mode, pods(**spec))
    out = fixed(apply(make_train_job(), WITH_INITIALIZERS, rules, line=line), rules)
    assert out.entries == []
    assert out.raw["spec"]["trainer"]["env"] == env
    assert out.raw["spec"]["initializer"] == {"dataset": {"env": env}, "model": {"env": env}}
    built = out.built
    assert built.env()["NCCL_DEBUG"] == "WARN"
    assert built.env("dataset-initializer", "dataset-initializer")["NCCL_DEBUG"] == "WARN"


def test_variables_that_reach_no_reserved_container_are_refused_by_name() -> None:
    runtime = make_runtime().mpi().job("launcher", names.TRAINER).job("node")
    env = {"containers": [{"name": "node", "env": [{"name": "A", "value": "1"}]}]}
    with pytest.raises(NotExpressible, match=r"job node of runtime runtime spec\.trainer\.env"):
        apply(make_train_job(), runtime, Rules(defaults=pods("node", **env)))


@pytest.mark.parametrize("line", WITH_ENTRIES)
def test_a_default_for_pods_yields_to_the_users_entry(line: str) -> None:
    pod = {"nodeSelector": {"pool": "mine"}, "tolerations": [{"key": "mine", "operator": "Exists"}]}
    job = user(line, "node", pod=pod)
    section = pods(
        "node",
        nodeSelector={"pool": "ours", "disk": "ssd"},
        tolerations=[{"key": "ours", "operator": "Exists"}],
    )
    rules = Rules(defaults=section)
    out = fixed(apply(job, RUNTIME, rules, line=line), rules)
    assert out.built.pod()["nodeSelector"] == {"zone": "a", "pool": "mine", "disk": "ssd"}
    assert out.built.pod()["tolerations"] == [{"key": "mine", "operator": "Exists"}]
    assert "pool" not in str(out.entries[0])
    assert out.warnings == []


@pytest.mark.parametrize("line", WITH_ENTRIES)
def test_an_override_of_pods_beats_the_users_entry_and_says_so(line: str) -> None:
    pod = {"nodeSelector": {"pool": "mine"}, "tolerations": [{"key": "mine", "operator": "Exists"}]}
    section = pods(
        "node",
        nodeSelector={"pool": "ours"},
        tolerations=[{"key": "ours", "operator": "Exists"}],
    )
    rules = Rules(overrides=section)
    out = fixed(apply(user(line, "node", pod=pod), RUNTIME, rules, line=line), rules)
    assert out.built.pod()["nodeSelector"] == {"zone": "a", "pool": "ours"}
    assert [t["key"] for t in out.built.pod()["tolerations"]] == ["mine", "ours"]
    assert out.warnings == [
        'policy p sets spec.nodeSelector[pool] of the pods of job node to "ours"; it was "mine"'
    ]


@pytest.mark.parametrize("line", MANAGED)
def test_ours_stand_before_and_after_the_users_entries(line: str) -> None:
    rules = Rules(
        defaults=pods("node", nodeSelector={"a": "d"}),
        overrides=pods("node", nodeSelector={"b": "o"}),
    )
    job = user(line, "node", pod={"nodeSelector": {"u": "1"}})
    out = fixed(apply(job, RUNTIME, rules, line=line), rules)
    assert out.managers == [OURS[0], "acme.io/user", OURS[1]]


def test_in_2_1_too() -> None:
    rules = Rules(
        defaults=pods("node", nodeSelector={"a": "d"}),
        overrides=pods("node", nodeSelector={"b": "o"}),
    )
    job = user("2.1", "node", pod={"nodeSelector": {"u": "1"}})
    out = fixed(apply(job, RUNTIME, rules, line="2.1"), rules)
    assert [entry["spec"]["nodeSelector"] for entry in out.entries] == [
        {"a": "d"},
        {"u": "1"},
        {"b": "o"},
    ]


def test_kueues_entry_stays_behind_ours() -> None:
    rules = Rules(overrides=pods("node", nodeSelector={"b": "o"}))
    kueues = job_patch("node", pod={"nodeSelector": {"k": "1"}})
    job = user("2.3", "node", pod={"nodeSelector": {"u": "1"}}).patch(names.KUEUE_MANAGER, kueues)
    out = fixed(apply(job, RUNTIME, rules), rules)
    assert out.managers == ["acme.io/user", OURS[1], names.KUEUE_MANAGER]


def test_what_the_trainer_and_kueue_do_to_the_list_changes_nothing() -> None:
    rules = Rules(
        defaults=pods("node", nodeSelector={"a": "d"}),
        overrides=pods("node", nodeSelector={"b": "o"}),
    )
    out = apply(make_train_job(), RUNTIME, rules)
    for entry in out.raw["spec"]["runtimePatches"]:
        entry["time"] = "2026-01-01T00:00:00Z"
    kueues = make_train_job().patch(names.KUEUE_MANAGER, job_patch("node")).obj
    out.raw["spec"]["runtimePatches"] += kueues["spec"]["runtimePatches"]
    assert again(out, rules).patch == []


def test_an_entry_under_our_manager_that_we_did_not_write_is_left_for_its_refusal() -> None:
    job = make_train_job().patch(OURS[0], job_patch("node", pod={"nodeSelector": {"x": "y"}}))
    rules = Rules(defaults=pods("node", nodeSelector={"a": "d"}))
    out = apply(job, RUNTIME, rules)
    assert out.entries == job.obj["spec"]["runtimePatches"]


def test_without_target_jobs_all_jobs_are_meant() -> None:
    rules = Rules(defaults=pods(nodeSelector={"pool": "x"}))
    built = fixed(apply(make_train_job(), WITH_INITIALIZERS, rules), rules).built
    assert [built.pod(job)["nodeSelector"] for job in built.jobs] == [{"pool": "x"}] * 3


def test_targets_may_be_named_by_ancestor() -> None:
    runtime = make_runtime().mpi().job("launcher", names.TRAINER).job("node")
    section = pods(nodeSelector={"pool": "x"})
    section["podTemplateOverrides"][0]["targetJobs"] = [{"ancestor": "trainer"}]
    rules = Rules(defaults=section)
    built = fixed(apply(make_train_job(), runtime, rules), rules).built
    assert built.pod("launcher")["nodeSelector"] == {"pool": "x"}
    assert "nodeSelector" not in built.pod("node")


def test_jobs_and_containers_that_a_runtime_lacks_are_left_out() -> None:
    section = pods(
        "node", "other", containers=[{"name": "nobody", "env": [{"name": "A", "value": "1"}]}]
    )
    out = apply(make_train_job(), RUNTIME, Rules(defaults=section))
    assert out.entries == []


def test_pods_are_refused_by_name_in_2_0() -> None:
    rules = Rules(defaults=pods("node", nodeSelector={"pool": "x"}))
    with pytest.raises(NotExpressible, match="takes each job once in podSpecOverrides"):
        apply(make_train_job(), RUNTIME, rules, line="2.0")


def test_the_list_has_room_for_sixteen_entries() -> None:
    job = make_train_job()
    for i in range(16):
        job = job.patch(f"acme.io/{i}", job_patch("node", pod={"nodeSelector": {"u": str(i)}}))
    out = apply(job, RUNTIME, Rules(defaults=pods("node", nodeSelector={"a": "d"})))
    [(error, keys)] = out.placed["defaults"].unplaced
    assert str(error) == (
        "spec.runtimePatches: Forbidden: must leave one of 16 entries to the policies: p"
    )
    assert [str(key) for key in keys] == ["p"]
    assert len(out.entries) == 16


def test_each_piece_of_an_entry_is_known_by_its_policy() -> None:
    rules = [
        Rules("a", defaults=pods("node", nodeSelector={"x": "1"})),
        Rules("b", defaults=pods("node", nodeSelector={"y": "1"})),
    ]
    out = fixed(apply(make_train_job(), RUNTIME, *rules), *rules)
    by = {change.path[-1]: change.by for change in out.draft.changes}
    assert (by["x"], by["y"]) == ("a", "b")


def test_an_entry_names_each_of_its_policies_once() -> None:
    """Also where one of them wrote a piece of its own beside one that both wrote."""
    shared = [{"key": "gpu", "operator": "Exists"}]
    rules = [
        Rules("a", defaults=pods("node", tolerations=shared, nodeSelector={"x": "1"})),
        Rules("b", defaults=pods("node", tolerations=shared)),
    ]
    out = fixed(apply(make_train_job(), RUNTIME, *rules), *rules)
    [mark] = [
        mark for at, mark in out.draft.record.items() if at.startswith("/spec/runtimePatches")
    ]
    assert mark.startswith("policy/a, b:")


# The JobSet's metadata


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("mode", MODES)
def test_spec_labels_reach_the_jobset_on_every_line(mode: Mode, line: str) -> None:
    section = {"specLabels": {"cost": "a"}, "specAnnotations": {"x/y": "b"}}
    rules = in_mode(mode, section)
    out = fixed(apply(make_train_job(), RUNTIME, rules, line=line), rules)
    assert out.built.jobset["metadata"]["labels"]["cost"] == "a"
    assert out.built.jobset["metadata"]["annotations"]["x/y"] == "b"
    assert ("labels" in out.raw["spec"]) == (line in {"2.0", "2.1"})


def test_runtime_patches_reach_all_three_levels() -> None:
    level = {"labels": {"l": "1"}, "annotations": {"a": "1"}}
    template = {
        "metadata": level,
        "spec": {"replicatedJobs": [{"name": "node", "template": {
            "metadata": level,
            "spec": {"template": {"metadata": level, "spec": {"serviceAccountName": "sa"}}},
        }}]},
    }  # fmt: skip
    section = {"runtimePatches": [{"trainingRuntimeSpec": {"template": template}}]}
    rules = Rules(overrides=section)
    out = fixed(apply(make_train_job(), RUNTIME, rules), rules)
    built = out.built
    assert built.jobset["metadata"]["labels"]["l"] == "1"
    assert built.job("node")["template"]["metadata"]["labels"]["l"] == "1"
    assert built.pod_template()["metadata"]["annotations"]["a"] == "1"
    assert built.pod()["serviceAccountName"] == "sa"
    assert len(out.entries) == 1


# Rounds


def test_what_a_round_wrote_and_the_next_does_not_want_goes_away() -> None:
    first = Rules(
        defaults={"labels": {"a": "1"}, "trainer": {"env": [{"name": "A", "value": "1"}]}}
        | pods("node", nodeSelector={"x": "1"}),
        overrides={"suspend": True, "trainer": {"numNodes": {"max": 4}, "image": "ours"}},
    )
    job = make_train_job().nodes(9).trainer(image="users")
    out = apply(job, RUNTIME, first, then=[])
    plain = apply(job, RUNTIME)
    assert values.same(out.raw, plain.raw)


def test_a_default_that_changes_under_an_override_is_what_comes_back() -> None:
    a = Rules("a", defaults={"labels": {"k": "1"}})
    b = Rules("b", defaults={"labels": {"k": "2"}}, priority=1)
    over = Rules("c", overrides={"labels": {"k": "o"}})
    out = apply(make_train_job(), RUNTIME, a, over, then=[a, b, over])
    assert out.raw["metadata"]["labels"] == {"k": "o"}
    out = apply(make_train_job(), RUNTIME, a, over, then=[b])
    assert out.raw["metadata"]["labels"] == {"k": "2"}


def test_a_range_that_changes_is_about_the_users_number() -> None:
    narrow = Rules(overrides={"trainer": {"numNodes": {"max": 4}}})
    wide = Rules(overrides={"trainer": {"numNodes": {"max": 8}}})
    out = apply(make_train_job().nodes(32), RUNTIME, narrow, then=[wide])
    assert out.job["numNodes"] == 8
    [warning] = out.warnings
    assert warning.endswith("to 8; it was 32")


def test_a_default_that_matches_late_replaces_what_the_runtime_defaults_wrote() -> None:
    late = Rules(defaults={"trainer": {"numNodes": 5}})
    assert apply(make_train_job(), RUNTIME, then=[late]).job["numNodes"] == 5


# UPDATE


def created(*rules: Rules, job: MakeTrainJob | None = None, line: str = "2.3") -> Outcome:
    return apply(job or make_train_job().suspended(), RUNTIME, *rules, line=line)


BOTH = Rules(
    defaults={"labels": {"d": "1"}, "trainer": {"image": "ours:1"}}
    | pods("node", nodeSelector={"a": "1"}, serviceAccountName="sa"),
    overrides={"labels": {"o": "1"}} | pods("node", nodeSelector={"b": "1"}),
)


def update(out: Outcome, *rules: Rules, new: Any = None) -> Outcome:
    return apply(
        out.raw if new is None else new, RUNTIME, *rules, line=out.line, old=deepcopy(out.raw)
    )


@pytest.mark.parametrize("line", WITH_ENTRIES)
def test_an_update_without_a_change_changes_nothing(line: str) -> None:
    out = created(BOTH, line=line)
    assert update(out, BOTH).patch == []


@pytest.mark.parametrize("line", MANAGED)
def test_the_manifest_applied_again_is_what_is_stored(line: str) -> None:
    job = make_train_job().suspended().nodes(9).env("A", "1").label("o", "mine")
    rules = Rules(
        defaults=BOTH.defaults,
        overrides={
            "labels": {"o": "1"},
            "trainer": {
                "numNodes": {"max": 4},
                "env": [{"name": "A", "value": "2"}],
                "resourcesPerNode": {"limits": {"cpu": "3"}},
            },
        }
        | pods("node", nodeSelector={"b": "1"}),
    )
    out = created(rules, job=job, line=line)
    assert out.job["numNodes"] == 4
    second = update(out, rules, new=job.obj)
    for part in ("trainer", "runtimePatches"):
        assert values.same(second.raw["spec"][part], out.raw["spec"][part])
    assert second.raw["metadata"]["labels"] == out.raw["metadata"]["labels"]
    assert second.record == out.record


@pytest.mark.parametrize("line", WITH_ENTRIES)
def test_what_no_policy_wants_any_more_goes_while_suspended(line: str) -> None:
    second = update(created(BOTH, line=line))
    assert "labels" not in second.raw["metadata"]
    assert second.entries == []
    assert second.job["image"] == "ours:1", "immutable"
    assert set(second.record) >= {"/spec/trainer/image"}
    assert not [at for at in second.record if "labels" in at or "stationmaster.dev" in at]


def test_a_running_job_keeps_what_it_has() -> None:
    out = created(BOTH, job=make_train_job())
    second = update(out)
    assert second.patch == []


def test_a_running_job_gets_back_a_label_that_an_override_forced() -> None:
    out = created(BOTH, job=make_train_job())
    new = deepcopy(out.raw)
    new["metadata"]["labels"] = {"d": "mine", "o": "2"}
    second = update(out, BOTH, new=new)
    assert second.raw["metadata"]["labels"] == {"d": "mine", "o": "1"}


def test_a_new_policy_leaves_a_running_job_alone() -> None:
    assert update(created(job=make_train_job()), BOTH).patch == []


def test_a_new_policy_reaches_a_suspended_job_as_far_as_it_may_change() -> None:
    second = update(created(), BOTH)
    assert second.raw["metadata"]["labels"] == {"d": "1", "o": "1"}
    assert second.managers == list(OURS)
    assert second.job.get("image") is None


@pytest.mark.parametrize("line", WITH_ENTRIES)
def test_an_entry_changes_within_what_jobset_takes(line: str) -> None:
    out = created(BOTH, job=make_train_job().suspended(), line=line)
    out.raw["status"] = make_train_job().with_jobset().obj["status"]
    changed = Rules(defaults=pods("node", nodeSelector={"a": "2"}, serviceAccountName="other"))
    second = update(out, changed)
    [entry] = second.entries
    assert second.built.pod()["nodeSelector"] == {"zone": "a", "a": "2"}
    assert second.built.pod()["serviceAccountName"] == "sa", "JobSet would refuse another"
    assert "other" not in str(entry)


def test_an_entry_changes_within_what_the_crd_takes() -> None:
    changed = Rules(defaults=pods("node", nodeSelector={"a": "2"}, serviceAccountName="other"))
    second = update(created(BOTH), changed)
    assert second.built.pod()["nodeSelector"] == {"zone": "a", "a": "2"}
    assert second.built.pod()["serviceAccountName"] == "sa"
    gone = update(created(BOTH), Rules(defaults=pods("node", nodeSelector={"a": "2"})))
    assert "serviceAccountName" not in gone.built.pod()


# Announcements


def test_what_would_be_written_is_said_and_not_written() -> None:
    rules = Rules(
        "quiet", overrides={"trainer": {"numNodes": 4}} | pods("node", nodeSelector={"a": "b"})
    )
    assert announced(make_train_job().nodes(8), RUNTIME, rules, "overrides") == [
        "policy quiet would set spec.trainer.numNodes to 4 (now 8)",
        'policy quiet would set spec.nodeSelector[a] of the pods of job node to "b"',
    ]


def test_nothing_is_said_where_nothing_would_be_written() -> None:
    rules = Rules(defaults={"trainer": {"numNodes": 4}})
    assert announced(make_train_job().nodes(8), RUNTIME, rules, "defaults") == []


# Any shape


@pytest.mark.parametrize(
    "trainer", [5, "x", [], [1], {"env": "x"}, {"env": [1, None]}, {"env": {}}]
)
def test_wrong_shapes_are_left_for_the_api_server_to_name(trainer: Any) -> None:
    raw = make_train_job().field(trainer, "spec", "trainer").obj
    rules = Rules(overrides={"trainer": {"env": [{"name": "A", "value": "1"}], "numNodes": 2}})
    out = apply(raw, RUNTIME, rules)
    again(out, rules)


@pytest.mark.parametrize("patches", [5, "x", {}, [1, None, "x"], [{"manager": OURS[0]}], [{}]])
def test_wrong_lists_of_overrides_do_no_harm(patches: Any) -> None:
    raw = make_train_job().field(patches, "spec", "runtimePatches").obj
    rules = Rules(overrides=pods("node", nodeSelector={"a": "b"}))
    out = apply(raw, RUNTIME, rules)
    again(out, rules)


# Whatever policies want, a second call changes nothing


TOLERATIONS = st.lists(
    st.sampled_from([{"key": k, "operator": "Exists"} for k in "abc"]), min_size=1, max_size=2
)


VALUE = st.sampled_from("xyz")
MAPS = st.dictionaries(st.sampled_from("kl"), VALUE, min_size=1)
LIMITS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(1, 4), min_size=1)
RANGES = st.integers(1, 3).map(lambda low: {"min": low, "max": low + 1})
NUMBERS: dict[Mode, st.SearchStrategy[Any]] = {
    "defaults": st.integers(1, 6),
    "overrides": st.integers(1, 6) | RANGES,
}


def variables(names_: str) -> st.SearchStrategy[list[dict[str, str]]]:
    named = st.dictionaries(st.sampled_from(names_), VALUE, min_size=1)
    return named.map(lambda found: [{"name": k, "value": v} for k, v in found.items()])


def some(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the parts, none of them empty."""
    found = st.fixed_dictionaries({}, optional=parts)
    return found.map(lambda given_: {key: value for key, value in given_.items() if value})


def sections(mode: Mode) -> st.SearchStrategy[dict[str, Any]]:
    limits = LIMITS.map(lambda found: {"limits": found})
    trainer = some(numNodes=NUMBERS[mode], resourcesPerNode=limits, env=variables("AB"))
    side = variables("BC").map(lambda env: [{"name": "side", "env": env}])
    spec = some(nodeSelector=MAPS, tolerations=TOLERATIONS, containers=side)
    overrides = spec.map(lambda s: pods("node", **s)["podTemplateOverrides"] if s else [])
    return some(labels=MAPS, specLabels=MAPS, trainer=trainer, podTemplateOverrides=overrides)


@st.composite
def policies(draw: st.DrawFn) -> list[Rules]:
    count = draw(st.integers(1, 3))
    return [
        Rules(
            name,
            defaults=draw(sections("defaults")),
            overrides=draw(sections("overrides")),
            priority=draw(st.integers(0, 1)),
        )
        for name in "abc"[:count]
    ]


@st.composite
def jobs(draw: st.DrawFn, line: str) -> MakeTrainJob:
    job = make_train_job()
    if draw(st.booleans()):
        pod = {"nodeSelector": {"k": "user"}, "tolerations": draw(TOLERATIONS)}
        job = user(line, "node", pod=pod)
    if draw(st.booleans()):
        job = job.label("k", "user")
    if draw(st.booleans()):
        job = job.nodes(draw(st.integers(1, 8)))
    if draw(st.booleans()):
        job = job.env("A", "user")
    if draw(st.booleans()):
        job = job.resources(limits={"cpu": 1})
    return job.suspended(draw(st.booleans()))


CASES = st.sampled_from(WITH_ENTRIES).flatmap(
    lambda line: st.tuples(st.just(line), jobs(line), policies())
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CASES)
def test_a_second_call_changes_nothing(case: tuple[str, MakeTrainJob, list[Rules]]) -> None:
    line, job, rules = case
    out = fixed(apply(job, RUNTIME, *rules, line=line), *rules)
    assert values.same(apply(job, RUNTIME, *reversed(rules), line=line).raw, out.raw)
    assert update(out, *rules).patch == []


def meaning(outcome: Outcome) -> Any:
    """What the controller makes of the job. New variables stand in the order in which they came."""
    jobset = outcome.built.jobset
    for job in jobset["spec"]["replicatedJobs"]:
        for one in job["template"]["spec"]["template"]["spec"]["containers"]:
            one.get("env", []).sort(key=lambda entry: entry["name"])
    return applied.stable(jobset)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CASES, policies())
def test_policies_of_an_earlier_round_leave_nothing_behind(
    case: tuple[str, MakeTrainJob, list[Rules]], first: list[Rules]
) -> None:
    line, job, rules = case
    out = apply(job, RUNTIME, *first, line=line, then=rules)
    straight = apply(job, RUNTIME, *rules, line=line)
    assert values.same(meaning(out), meaning(straight))
    assert out.raw["metadata"].get("labels") == straight.raw["metadata"].get("labels")
    assert out.warnings == straight.warnings


def test_a_patched_container_of_the_user_keeps_its_other_variables() -> None:
    job = user("2.3", "node", pod={"containers": [patched("side", {"B": "user", "D": "user"})]})
    section = pods("node", containers=[{"name": "side", "env": [{"name": "B", "value": "ours"}]}])
    rules = Rules(overrides=section)
    out = fixed(apply(job, RUNTIME, rules), rules)
    assert out.built.env(name="side") == {"B": "ours", "D": "user"}
