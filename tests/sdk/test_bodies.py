"""Every body that a released SDK sent goes through ``admit`` and ``render``, judged as the Trainer judges it."""

from __future__ import annotations

import pytest

from plugins.framework.values import same
from tests.folder import Folder, env, jobset, pod, texts
from tests.reviews.desk import Desk, apply, create
from tests.sdk import bodies

PATCHED = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec"

# What Trainer 2.3 refuses of them (checked against its own code), and where we say so.
REFUSED: dict[str, list[str]] = {
    "0.5.0-09-builtin-torchtune-lora-hf": ["spec.trainer.numNodes", "spec.trainer.numNodes"],
    "0.5.0-11-datacache-initializer": ["spec.initializer.dataset"],
    "0.5.0-14-custom-option-what-survives": [f"{PATCHED}.template.spec.containers[0].env"],
}


@pytest.mark.parametrize("name", bodies.names())
def test_a_body_is_admitted_as_the_trainer_would(name: str) -> None:
    outcome = bodies.folder(bodies.line_of(name)).admit(bodies.body(name))
    assert [e.field for e in outcome.findings.errors] == REFUSED.get(name, [])
    assert outcome.before is not None
    if outcome.allowed:
        assert same(apply(outcome.before, outcome.patch), outcome.after)
    unknown = [w for w in outcome.findings.warnings if w.startswith("unknown field")]
    assert unknown == [], "nothing that the SDK sends to its own line is lost"


@pytest.mark.parametrize("name", bodies.names())
def test_a_body_is_rendered(name: str) -> None:
    rendered = bodies.folder(bodies.line_of(name)).render(bodies.body(name))
    body = bodies.body(name)
    assert jobset(rendered)["metadata"]["name"] == body["metadata"]["name"]
    assert sum(row.count for row in rendered.pod_sets) >= rendered.members > 0
    wanted = body["spec"].get("trainer", {}).get("numNodes", 1)
    trainers = sum(row.count for row in rendered.pod_sets if "initializer" not in row.name)
    # MPI never has fewer than a launcher and a worker.
    assert trainers == max(wanted, 2) if "mpi" in name else trainers == wanted


@pytest.mark.parametrize("name", bodies.names())
def test_admission_changes_nothing_that_is_built(name: str) -> None:
    """But for a distributed job without ``spec.trainer``, which gets its environment."""
    folder, body = bodies.folder(bodies.line_of(name)), bodies.body(name)
    body["spec"].setdefault("trainer", {})
    given, admitted = folder.render(body), folder.render(body, admitted=True)
    assert same(given.objects, admitted.objects)


@pytest.mark.parametrize("name", bodies.names())
def test_the_webhook_is_of_the_same_mind(name: str) -> None:
    line = bodies.line_of(name)
    outcome = bodies.folder(line).admit(bodies.body(name))
    assert outcome.before is not None
    reply = Desk.of(*bodies.runtimes(line), line=line).mutate(create(outcome.before))
    assert reply.allowed == outcome.allowed
    assert (outcome.patch or None) == reply.patch


@pytest.mark.parametrize("name", [n for n in bodies.names() if not bodies.is_old(n)])
def test_the_line_before_takes_what_it_knows(name: str) -> None:
    outcome = Folder.of(*bodies.runtimes("2.2"), line="2.2").admit(bodies.body(name))
    paths = {e.field for e in outcome.findings.errors}
    # 2.2 has no rule about the initializer's mount, and the same rules for the two others.
    refused = REFUSED.get(name, []) if "datacache" not in name else []
    assert paths == set(refused)
    lost = [w for w in outcome.findings.warnings if w.startswith("unknown field")]
    assert len(lost) == ("what-survives" in name), "terminationGracePeriodSeconds is of 2.3"


LOST: dict[str, list[str]] = {
    "0.3.1-02-podtemplateoverrides-full": ["spec.podTemplateOverrides"],
    "0.3.1-03-podtemplateoverrides-multi-order": ["spec.podTemplateOverrides"],
    "0.3.1-04-labels-speclabels": ["spec.annotations", "spec.labels"],
}


@pytest.mark.parametrize("name", [n for n in bodies.names() if bodies.is_old(n)])
def test_an_old_body_on_a_new_line_is_told_what_is_lost(name: str) -> None:
    """The SDK shows no warnings (sdk-options 0.1): here at least ``admit`` does."""
    outcome = Folder.of(*bodies.runtimes("2.3"), line="2.3").admit(bodies.body(name))
    lost = [w.split('"')[1] for w in outcome.findings.warnings if w.startswith("unknown field")]
    assert lost == LOST.get(name, [])


@pytest.mark.parametrize("name", ["0.4.1-02-labels-runtimepatch", "0.5.0-13-runtimepatch-full"])
def test_a_new_body_on_an_old_line_is_told_what_is_lost(name: str) -> None:
    outcome = bodies.folder("2.1").admit(bodies.body(name))
    [warning] = [w for w in outcome.findings.warnings if w.startswith("unknown field")]
    assert warning.startswith('unknown field "spec.runtimePatches": Trainer 2.1 has no such field')


def test_numbers_that_the_sdk_sends_as_floats_are_whole() -> None:
    outcome = bodies.folder("2.3").admit(bodies.body("0.5.0-03-customtrainer-nodes-resources"))
    assert outcome.after is not None
    limits = outcome.after["spec"]["trainer"]["resourcesPerNode"]["limits"]
    assert (type(limits["nvidia.com/gpu"]), limits["nvidia.com/gpu"]) == (int, 8)


def test_overrides_are_applied_in_the_order_of_the_options() -> None:
    rendered = bodies.folder("2.1").render(bodies.body("0.3.1-03-podtemplateoverrides-multi-order"))
    node = pod(rendered)
    assert node["nodeSelector"] == {"pool": "gpu"}
    assert [t["key"] for t in node["tolerations"]] == ["b"]
    assert node["serviceAccountName"] == "late"
    assert pod(rendered, "model-initializer")["nodeSelector"] == {"pool": "shared"}


def test_metadata_of_the_patch_lands_on_its_three_levels() -> None:
    rendered = bodies.folder("2.3").render(bodies.body("0.5.0-13-runtimepatch-full"))
    built = jobset(rendered)
    assert built["metadata"]["labels"] == {"cost-center": "42"}
    [job] = built["spec"]["replicatedJobs"]
    assert job["template"]["metadata"]["labels"]["job-level"] == "yes"
    assert job["template"]["spec"]["template"]["metadata"]["labels"]["pod-level"] == "yes"


def test_credentials_are_in_no_message() -> None:
    """The SDK sends them in clear text; a refusal must not carry them into audit logs."""
    body = bodies.body("0.5.0-09-builtin-torchtune-lora-hf")
    body["spec"]["runtimeRef"] = {"name": "torch-distributed"}
    outcome = bodies.folder("2.3").admit(body)
    assert {e.field for e in outcome.findings.errors} >= {
        "spec.initializer.dataset",
        "spec.initializer.model",
    }
    said = " ".join([*texts(outcome.findings.errors), *outcome.findings.warnings])
    assert "hf_placeholder" not in said


def test_the_smallest_body_gets_what_its_runtime_gives() -> None:
    folder = bodies.folder("2.3")
    outcome = folder.admit(bodies.body("0.5.0-01-runtime-defaults"))
    assert outcome.after is not None
    assert outcome.after["spec"]["trainer"] == {"numNodes": 1, "numProcPerNode": 1}
    rendered = folder.render(bodies.body("0.5.0-01-runtime-defaults"), admitted=True)
    assert env(rendered)["PET_NNODES"] == "1"
