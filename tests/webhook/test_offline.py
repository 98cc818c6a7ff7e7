"""What ``admit``, ``render``, ``explain`` and ``convert`` say of documents, before it is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from plugins.framework.draft import ABSENT
from plugins.framework.errors import ConfigError
from plugins.framework.values import same
from tests.builders import (
    Json,
    MakeRuntime,
    container,
    job_patch,
    make_object,
    make_runtime,
    make_train_job,
    resources,
)
from tests.folder import Folder, document, env, jobset, texts
from tests.reviews import recorded, samples
from tests.reviews.desk import Desk, apply, create, delete, update
from webhook import offline
from webhook.offline import UID, Outcome

NODE = container("node", resources=resources({"cpu": "2"}))
RUNTIME = make_runtime().torch().nodes(2).node(NODE)
JOB = make_train_job()


def said(outcome: Outcome) -> list[str]:
    """All that refuses it."""
    return texts(outcome.findings.errors)


# admit


def test_train_jobs_and_job_sets_of_the_folder_stand_for_those_of_the_cluster() -> None:
    job_set = make_object("JobSet", "test-job", "team", apiVersion="jobset.x-k8s.io/v1alpha2")
    busy = make_train_job("busy")
    folder = Folder.of(RUNTIME, job_set, busy)

    created = folder.admit(JOB)
    gone = folder.admit(delete(busy.obj, options={"propagationPolicy": "Foreground"}))
    unused = folder.admit(delete(RUNTIME.obj))

    assert any("there is already JobSet test-job" in w for w in created.findings.warnings)
    assert (gone.allowed, gone.after, len(gone.findings.warnings)) == (True, None, 2)
    assert "1 unfinished TrainJob uses" in unused.findings.warnings[0]
    assert gone.review["response"]["warnings"] == gone.findings.warnings


def test_a_new_object_is_completed() -> None:
    outcome = Folder.of(RUNTIME).admit(JOB)
    assert (outcome.kind, outcome.namespace, outcome.name) == ("TrainJob", "team", "test-job")
    assert outcome.allowed
    assert outcome.before is not None
    assert outcome.before["spec"]["managedBy"] == "trainer.kubeflow.org/trainjob-controller"
    assert "trainer" not in outcome.before["spec"]
    assert outcome.after is not None
    assert outcome.after["spec"]["trainer"] == {
        "numNodes": 2,
        "numProcPerNode": 2,
        "resourcesPerNode": {"requests": {"cpu": "2"}},
    }
    assert same(apply(outcome.before, outcome.patch), outcome.after)
    assert {c.by for c in outcome.changes} == {"RuntimeDefaults", "PodGroupTotals", "Stationmaster"}


def test_the_document_itself_is_left_as_it_was() -> None:
    sent = JOB.obj
    given = document(sent)
    engine = Folder.of(RUNTIME).engine
    engine.admit(given)
    engine.render(given, admitted=True)
    engine.explain(given)
    assert given.obj == JOB.obj


def test_the_review_that_answers_has_a_fixed_uid() -> None:
    outcome = Folder.of(RUNTIME).admit(JOB)
    response = outcome.review["response"]
    assert response["uid"] == UID
    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    assert Folder.of(RUNTIME).admit(JOB).review == outcome.review


def test_a_refused_object_is_shown_as_it_was_sent() -> None:
    outcome = Folder.of(RUNTIME).admit(JOB.nodes(-1))
    assert not outcome.allowed
    assert outcome.patch == []
    assert outcome.after == outcome.before
    assert outcome.review["response"]["status"]["code"] == 422


def test_what_the_api_server_would_say_comes_first_and_once() -> None:
    job = JOB.field("9x", "metadata", "name").nodes(-1).field("x", "spec", "managedBy")
    found = said(Folder.of(RUNTIME).admit(job))
    assert [text.split(":")[0] for text in found] == [
        "metadata.name",
        "spec.managedBy",
        "spec.trainer.numNodes",
    ]


def test_wrong_types_are_found_before_any_plugin_sees_them() -> None:
    job = JOB.trainer(numNodes="two", env={"A": "1"})
    assert [e.field for e in Folder.of(RUNTIME).admit(job).findings.errors] == [
        "spec.trainer.env",
        "spec.trainer.numNodes",
    ]


def test_unknown_fields_are_dropped_and_told() -> None:
    outcome = Folder.of(RUNTIME).admit(JOB.trainer(numNodes=1, nodeCount=3))
    assert outcome.after is not None
    assert "nodeCount" not in outcome.after["spec"]["trainer"]
    assert outcome.findings.warnings[0] == (
        'unknown field "spec.trainer.nodeCount": Trainer 2.3 has no such field, and the API server drops it'
    )


@pytest.mark.parametrize(
    ("namespace", "want"), [("team", "team"), (None, "default")], ids=["given", "absent"]
)
def test_an_object_without_a_namespace_is_in_default(namespace: str | None, want: str) -> None:
    job = JOB if namespace else JOB.without("metadata", "namespace")
    assert Folder.of(RUNTIME).admit(job).namespace == want


def test_a_runtime_of_the_cluster_has_no_namespace() -> None:
    outcome = Folder.of().admit(RUNTIME)
    assert (outcome.kind, outcome.namespace, outcome.allowed) == (
        "ClusterTrainingRuntime",
        "",
        True,
    )
    assert outcome.patch == []


def test_a_runtime_that_the_api_server_would_not_store_cannot_be_used() -> None:
    broken = RUNTIME.field({}, "spec", "mlPolicy", "mpi").field(
        "x", "metadata", "labels", "bad key"
    )
    [text] = said(Folder.of(broken).admit(JOB))
    assert text.startswith("spec.runtimeRef.name: Invalid value: ")
    assert "the API server would not store this ClusterTrainingRuntime" in text


# --old


def test_with_the_old_object_it_is_an_update() -> None:
    folder = Folder.of(RUNTIME)
    stored = folder.admit(JOB.suspended()).after
    assert stored is not None
    again = folder.admit(JOB.suspended(), stored)
    assert again.allowed
    assert same(again.after and again.after["spec"], stored["spec"])
    [text] = said(folder.admit(JOB.suspended().nodes(5), stored))
    assert text == "spec.trainer: Invalid value: field is immutable"


def test_what_was_fetched_from_a_cluster_can_be_the_old_object_and_the_new() -> None:
    """With uid, status and all, as ``kubectl get -o yaml`` prints it."""
    stored = recorded.review(9)["request"]["oldObject"]
    new = {**stored, "spec": {**stored["spec"], "suspend": False}}
    outcome = Folder.of(*recorded.cluster()).admit(new, stored)
    assert said(outcome) == []
    assert outcome.patch == []
    assert outcome.after is not None
    assert outcome.after["metadata"]["uid"] == stored["metadata"]["uid"]
    assert outcome.after["status"] == stored["status"]


def test_a_finished_job_is_known_by_its_status() -> None:
    stored = samples.stored(JOB) | {"status": JOB.condition("Complete").obj["status"]}
    outcome = Folder.of().admit(JOB.patch("a.example/m", job_patch("nobody", pod={})), stored)
    assert said(outcome) == []


# Reviews


@pytest.mark.parametrize("number", range(1, 16))
def test_a_recorded_review_is_answered_as_over_the_wire(number: int) -> None:
    asked = recorded.review(number)
    outcome = Folder.of(*recorded.cluster()).admit(recorded.review(number))
    reply = Desk.of(*recorded.cluster()).mutate(asked)
    assert outcome.review["response"]["uid"] == asked["request"]["uid"]
    assert (outcome.patch or None) == reply.patch
    assert outcome.allowed
    assert outcome.kind == asked["request"]["kind"]["kind"]


def test_a_deletion_leaves_no_object() -> None:
    outcome = Folder.of(RUNTIME).admit(delete(JOB.obj))
    assert (outcome.allowed, outcome.before, outcome.after, outcome.patch) == (True, None, None, [])


def test_both_calls_are_made_and_nothing_is_said_twice() -> None:
    outcome = Folder.of(RUNTIME).admit(create(samples.stored(JOB.nodes(-1).env("PET_NNODES", "1"))))
    assert len(said(outcome)) == len(set(said(outcome))) == 2


def test_an_update_brings_its_old_object() -> None:
    old = samples.stored(JOB)
    new = {**old, "spec": {**old["spec"], "trainer": {"numNodes": 2}}}
    assert said(Folder.of(RUNTIME).admit(update(old, new))) == [
        "spec.trainer: Forbidden: cannot be added after creation: delete the TrainJob and create it anew"
    ]


def test_a_review_that_is_none_is_unusable() -> None:
    with pytest.raises(ConfigError, match=r"^test\.yaml:1: the review has no request$"):
        Folder.of().admit({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"})


# Whose semantics

CRD_21 = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "trainjobs.trainer.kubeflow.org"},
    "spec": {
        "names": {"kind": "TrainJob"},
        "versions": [
            {
                "schema": {
                    "openAPIV3Schema": {
                        "properties": {"spec": {"properties": {"podTemplateOverrides": {}}}}
                    }
                }
            }
        ],
    },
}
OVERRIDES = JOB.pod_template_override("node", pod={"nodeSelector": {"a": "1"}})
SPEC_OVERRIDES = JOB.pod_spec_override("node", nodeSelector={"a": "1"})
PATCHES = JOB.patch("a.example/m", job_patch("node", pod={"nodeSelector": {"a": "1"}}))


def kept(folder: Folder, job: Any) -> list[str]:
    """Which override fields of a job are known."""
    after = folder.admit(job).after
    assert after is not None
    return [key for key in after["spec"] if key.startswith(("pod", "runtimeP"))]


def test_the_line_is_the_one_that_is_asked_for() -> None:
    assert kept(Folder.of(RUNTIME, line="2.3"), OVERRIDES) == []
    assert kept(Folder.of(RUNTIME, line="2.1"), OVERRIDES) == ["podTemplateOverrides"]
    assert kept(Folder.of(RUNTIME, line="2.0"), OVERRIDES) == []


def test_else_the_one_of_the_crd_in_the_folder() -> None:
    assert kept(Folder.of(RUNTIME, CRD_21, line=None), OVERRIDES) == ["podTemplateOverrides"]
    assert kept(Folder.of(RUNTIME, CRD_21, line=None), PATCHES) == []
    assert kept(Folder.of(RUNTIME, CRD_21, line="2.3"), PATCHES) == ["runtimePatches"]


def test_else_each_jobs_own() -> None:
    folder = Folder.of(RUNTIME, line=None)
    assert kept(folder, OVERRIDES) == ["podTemplateOverrides"]
    assert kept(folder, SPEC_OVERRIDES) == ["podSpecOverrides"]
    assert kept(folder, PATCHES) == ["runtimePatches"]


@pytest.mark.parametrize("line", ["2.4", "", "v2.3"])
def test_a_line_of_nobody_is_unusable(line: str) -> None:
    with pytest.raises(ConfigError, match=r"must be one of 2\.0, 2\.1, 2\.2, 2\.3"):
        offline.load([], line=line, profile=None)


def test_a_profile_is_used(tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    path.write_text(
        "apiVersion: config.stationmaster.dev/v1alpha1\nkind: PipelineProfile\n"
        "plugins: {multiPoint: {disabled: [{name: RuntimeDefaults}]}}\n"
    )
    engine = offline.load([document(RUNTIME)], line="2.3", profile=path)
    after = engine.admit(document(JOB)).after
    assert after is not None
    assert "trainer" not in after["spec"]


def test_a_profile_that_is_not_there_is_unusable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        offline.load([], line=None, profile=tmp_path / "none.yaml")


# render


def kinds(objects: list[Json]) -> list[tuple[str, str]]:
    """Kind and name of each."""
    return [(o["kind"], o["metadata"]["name"]) for o in objects]


def test_the_controllers_objects_in_the_order_in_which_it_applies_them() -> None:
    rendered = Folder.of(RUNTIME.coscheduling()).render(JOB.trainer())
    assert not rendered.findings.errors
    assert kinds(rendered.objects) == [
        ("ConfigMap", "test-job-runtime-snapshot"),
        ("PodGroup", "test-job"),
        ("JobSet", "test-job"),
    ]
    assert env(rendered)["PET_NNODES"] == "2"


def test_the_table_counts_pods_and_what_runs_at_once() -> None:
    waits = {"dataset-initializer": "Complete", "model-initializer": "Complete"}
    runtime = make_runtime().torch().initializers().node(NODE, depends_on=waits)
    rendered = Folder.of(runtime).render(JOB.nodes(3))
    rows = [(r.name, r.ancestor, r.count, r.per_pod, r.total) for r in rendered.pod_sets]
    assert rows == [
        ("dataset-initializer", "dataset-initializer", 1, {}, {}),
        ("model-initializer", "model-initializer", 1, {}, {}),
        ("node", "trainer", 3, {"cpu": "2"}, {"cpu": "6"}),
    ]
    assert (rendered.members, rendered.resources) == (3, {"cpu": "6"})


def test_as_given_or_as_admission_leaves_it() -> None:
    folder = Folder.of(RUNTIME)
    assert "PET_NNODES" not in env(folder.render(JOB)), "without spec.trainer the Trainer adds none"
    assert env(folder.render(JOB, admitted=True))["PET_NNODES"] == "2"


def test_a_refused_job_is_rendered_with_its_findings() -> None:
    rendered = Folder.of(RUNTIME).render(JOB.nodes(2).env("PET_NNODES", "9"))
    assert texts(rendered.findings.errors)[0].startswith("spec.trainer.env[0].name: Forbidden")
    assert env(rendered)["PET_NNODES"] == "9", "what the Trainer would build: the user's value wins"


def test_nothing_is_rendered_where_the_controller_fails() -> None:
    runtime = make_runtime().flux().node()
    rendered = Folder.of(runtime).render(JOB)
    assert rendered.objects == []
    assert any("fails in every reconcile" in w for w in rendered.findings.warnings)


NOTHING: dict[str, Any] = {
    "no such runtime": JOB.runtime("gone"),
    "no readable object": JOB.trainer(numNodes="x"),
    "a deletion": delete(JOB.obj),
}


@pytest.mark.parametrize("thing", NOTHING.values(), ids=NOTHING)
def test_nothing_is_rendered_of(thing: Any) -> None:
    rendered = Folder.of(RUNTIME).render(thing)
    assert (rendered.objects, rendered.pod_sets) == ([], [])


def test_a_generated_name_is_made_up() -> None:
    job = JOB.without("metadata", "name").field("nightly-", "metadata", "generateName")
    rendered = Folder.of(RUNTIME).render(job)
    assert jobset(rendered)["metadata"]["name"] == "nightly-00000"


def test_the_job_of_a_review_is_rendered() -> None:
    asked = recorded.review(1)
    rendered = Folder.of(*recorded.cluster()).render(asked)
    assert jobset(rendered)["metadata"]["namespace"] == "team"
    assert env(rendered)["EPOCHS"] == "3"


def test_a_podgroup_that_never_fills_is_told_apart_from_our_totals() -> None:
    runtime = make_runtime().torch().initializers()
    waits = {"dataset-initializer": "Complete"}
    runtime = runtime.node(NODE, depends_on=waits).coscheduling()
    rendered = Folder.of(runtime).render(JOB.nodes(2))
    [group] = [o for o in rendered.objects if o["kind"] == "PodGroup"]
    assert group["spec"]["minMember"] == 4, "as the controller counts"
    assert rendered.members == 2 + 1, "the model's initializer does not wait for anything"
    assert any("asks for 4 members" in w for w in rendered.findings.warnings)


def test_the_annotation_and_the_table_say_the_same() -> None:
    limits = make_object(
        "LimitRange",
        "l",
        "team",
        apiVersion="v1",
        spec={"limits": [{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]},
    )
    folder = Folder.of(RUNTIME, limits)
    after = folder.admit(JOB).after
    assert after is not None
    noted = orjson.loads(after["metadata"]["annotations"]["stationmaster.dev/podgroup-totals"])
    rendered = folder.render(JOB, admitted=True)
    assert noted["resources"] == rendered.resources == {"cpu": "4", "memory": "2Gi"}
    assert noted["members"] == rendered.members


@pytest.mark.parametrize("runtime", samples.RUNTIMES, ids=lambda r: str(r.raw["metadata"]["name"]))
def test_what_admission_writes_changes_nothing_that_is_built(runtime: MakeRuntime) -> None:
    """But for the exception: a distributed job without ``spec.trainer`` gets its environment."""
    folder = Folder.of(*samples.cluster())
    job = JOB.runtime(runtime.raw["metadata"]["name"]).trainer()
    assert same(folder.render(job).objects, folder.render(job, admitted=True).objects)


# explain


def test_who_changed_what_and_what_was_there() -> None:
    explained = Folder.of(RUNTIME).explain(JOB.trainer(image="i"))
    assert explained.outcome.allowed
    rows = {c.pointer: (c.by, c.before, c.after) for c in explained.outcome.changes}
    assert rows["/spec/trainer/numNodes"] == ("RuntimeDefaults", ABSENT, 2)
    assert rows["/metadata/annotations/stationmaster.dev~1podgroup-totals"][0] == "PodGroupTotals"


def test_a_refused_job_is_explained_too() -> None:
    explained = Folder.of(RUNTIME).explain(JOB.nodes(2).env("PET_NNODES", "9"))
    assert not explained.outcome.allowed
    assert explained.layers


@pytest.mark.parametrize("thing", [*NOTHING.values(), RUNTIME], ids=[*NOTHING, "a runtime"])
def test_there_is_nothing_to_explain_in(thing: Any) -> None:
    assert Folder.of(RUNTIME).explain(thing).layers == []


def test_an_update_is_explained_against_the_old_object() -> None:
    folder = Folder.of(RUNTIME)
    stored = folder.admit(JOB.resources({"cpu": 2})).after
    assert stored is not None
    again = JOB.resources({"cpu": "2000m"})
    explained = folder.explain(again, stored)
    [change] = [c for c in explained.outcome.changes if c.pointer == "/spec/trainer"]
    assert (change.by, change.after) == ("KeepOldForm", stored["spec"]["trainer"])


# convert


def test_the_words_of_another_line() -> None:
    converted = offline.convert(document(OVERRIDES), "2.3")
    assert texts(converted.findings.errors) == []
    assert "runtimePatches" in converted.obj["spec"]
    with pytest.raises(ConfigError, match="--to must be one of"):
        offline.convert(document(OVERRIDES), "2.9")
