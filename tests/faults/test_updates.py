"""Known faults of updates, suspend and resume, versions, idempotence: B055 to B070."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.builders import Json, MakeTrainJob, make_runtime, patched
from tests.faults.kit import p, rt_torch, tj
from tests.folder import Folder, texts
from tests.reviews.apiserver import ApiServer, Refused, kueue_creates, with_status
from tests.reviews.desk import Desk, Reply, create, update

ZONE: Json = {"nodeSelector": {"zone": "z1"}}


def stored_job(job: MakeTrainJob | None = None) -> Json:
    """The TrainJob as it is stored, suspended."""
    return ApiServer(Desk.of(rt_torch())).create((job or tj(rt_torch())).obj)


def changed(obj: Json, **spec: Any) -> Json:
    """The same with other fields in ``spec``."""
    out = deepcopy(obj)
    out["spec"].update(spec)
    return out


def patched_with(obj: Json, *more: Json) -> Json:
    """The same with more patches of job ``node``."""
    out = MakeTrainJob(obj)
    for i, pod in enumerate(more or (ZONE,)):
        out = p(out, f"q{i}.example/m", "node", pod)
    return out.obj


def both(desk: Desk, old: Json, new: Json, **about: Any) -> tuple[Reply, Reply]:
    """The answers of both calls, the second about what the first left."""
    first = desk.mutate(update(old, new, **about))
    return first, desk.validate(update(old, first.after if first.allowed else new, **about))


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(list(value))}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


def test_b055_suspend_may_be_flipped_beside_an_empty_list() -> None:
    old = stored_job()
    new = changed(old, suspend=False, runtimePatches=[])
    assert ApiServer(Desk.of(rt_torch())).update(old, new) == changed(old, suspend=False)


def test_b055_the_order_of_keys_is_no_change() -> None:
    old = stored_job(
        p(tj(rt_torch()), "q.example/m", "node", {"nodeSelector": {"a": "1", "b": "2"}})
    )
    new = _reversed(changed(old, suspend=False))
    first, second = both(Desk.of(rt_torch()), old, new)
    assert (first.patch, first.warnings, second.warnings) == (None, [], [])


def test_b056_a_zero_that_a_client_drops_is_no_change() -> None:
    pod = {
        "containers": [
            patched("node", volumeMounts=[{"name": "d", "mountPath": "/d", "readOnly": False}])
        ],
        "volumes": [{"name": "d", "emptyDir": {}}],
    }
    old = stored_job(p(tj(rt_torch()).env("X", ""), "q.example/m", "node", pod))
    new = changed(old, suspend=False)
    del new["spec"]["trainer"]["env"][0]["value"]
    [job] = new["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"][
        "replicatedJobs"
    ]
    del job["template"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["readOnly"]
    with pytest.raises(Refused, match="field is immutable"):
        ApiServer(None).update(old, new)
    assert ApiServer(Desk.of(rt_torch())).update(old, new) == changed(old, suspend=False)


def test_b056_another_value_is_a_change() -> None:
    old = stored_job(tj(rt_torch()).env("X", ""))
    new = deepcopy(old)
    new["spec"]["trainer"]["env"][0]["value"] = "1"
    with pytest.raises(Refused, match=r"schema: spec\.trainer: Invalid value: field is immutable"):
        ApiServer(Desk.of(rt_torch())).update(old, new)


def test_b057_patches_may_change_in_the_request_that_resumes() -> None:
    old = stored_job()
    new = changed(patched_with(old), suspend=False)
    assert ApiServer(Desk.of(rt_torch())).update(old, new)["spec"]["suspend"] is False


def test_b057_patches_of_a_running_job_may_not_change() -> None:
    old = with_status(changed(stored_job(), suspend=False), status="False")
    first, second = both(Desk.of(rt_torch()), old, patched_with(old))
    for reply in (first, second):
        assert reply.causes == [("spec.runtimePatches", "FieldValueForbidden")]
        assert "suspended before or after the update" in reply.message


@pytest.mark.parametrize("more", [(), (ZONE,)], ids=["alone", "with a patch change"])
def test_b059_a_running_job_may_always_be_suspended(more: tuple[Json, ...]) -> None:
    old = with_status(changed(stored_job(), suspend=False), status="False")
    old["status"]["jobsStatus"][0]["active"] = 1
    new = changed(patched_with(old, *more) if more else old, suspend=True)
    first, second = both(Desk.of(rt_torch()), old, new)
    assert (first.allowed, second.allowed) == (True, True)


RUNTIMES = {
    "gone": make_runtime("other").node(),
    "without its job": make_runtime("base-torch").torch().job("worker", "trainer"),
}


@pytest.mark.parametrize("name", RUNTIMES)
def test_b060_a_job_outlives_its_runtime(name: str) -> None:
    old = stored_job(p(tj(rt_torch()), "q.example/m", "node", ZONE))
    desk = Desk.of(RUNTIMES[name])
    for new in (
        changed(old, suspend=False),
        MakeTrainJob(old).label("a", "b").obj,
        p(MakeTrainJob(old), "z.example/m", "worker", ZONE).obj,
    ):
        first, second = both(desk, old, new)
        assert (first.allowed, second.allowed) == (True, True)
        told = [
            "the runtime base-torch does not exist: this update is not judged against it",
            "the Trainer's own webhook refuses every update of a TrainJob whose runtime does not exist, also of "
            "suspend, labels and finalizers: create ClusterTrainingRuntime base-torch again first",
        ]
        assert first.warnings == second.warnings == (told if name == "gone" else [])
    refused = desk.mutate(create(p(tj(rt_torch()), "q.example/m", "node", ZONE).obj))
    assert not refused.allowed


def test_b063_a_field_of_another_line_is_named_with_the_way_out() -> None:
    patches = p(tj(rt_torch()), "q.example/m", "node", ZONE)
    overrides = tj(rt_torch()).pod_template_override("node", pod=ZONE)
    both_ = patches.pod_template_override("node", pod=ZONE)
    for job, line, field in (
        (patches, "2.1", "runtimePatches"),
        (overrides, "2.3", "podTemplateOverrides"),
        (both_, "2.3", "podTemplateOverrides"),
    ):
        outcome = Folder.of(rt_torch(), line=line).admit(job)
        [warning] = outcome.findings.warnings
        assert warning == (
            f'unknown field "spec.{field}": Trainer {line} has no such field, and the API server drops it; '
            f"`stationmaster convert --to {line}` says it in that line's words"
        )
        assert outcome.after is not None
        assert field not in outcome.after["spec"]


def test_b064_fields_of_the_future_survive() -> None:
    job = tj(rt_torch()).field({"a": [1, 2]}, "spec", "futureKnob").trainer(futureList=[])
    reply = Desk.of(rt_torch()).mutate(create(job.obj))
    assert reply.patch is not None
    assert {operation["op"] for operation in reply.patch} == {"add"}
    assert reply.after["spec"]["futureKnob"] == {"a": [1, 2]}
    assert reply.after["spec"]["trainer"]["futureList"] == []


def test_b066_fields_of_the_past_refuse_no_update() -> None:
    old = changed(stored_job(), retiredKnob=1)
    for new in (MakeTrainJob(old).label("a", "b").obj, patched_with(old)):
        first, second = both(Desk.of(rt_torch()), old, new)
        assert (first.allowed, second.allowed) == (True, True)
        assert first.after["spec"]["retiredKnob"] == 1


def test_b066_a_type_of_the_past_refuses_no_update() -> None:
    """``numProcPerNode`` was a word up to Trainer 2.1; such jobs are stored still."""
    old = deepcopy(stored_job())
    old["spec"]["trainer"]["numProcPerNode"] = "auto"
    for new in (
        MakeTrainJob(old).label("a", "b").obj,
        changed(old, suspend=False),
        patched_with(old),
    ):
        first, second = both(Desk.of(rt_torch()), old, new)
        assert (first.allowed, second.allowed) == (True, True)
    new = changed(old, trainer={**old["spec"]["trainer"], "numProcPerNode": "cpu"})
    [(path, _)] = Desk.of(rt_torch()).mutate(update(old, new)).causes
    assert path == "spec.trainer.numProcPerNode"


def test_b067_called_again_and_again_nothing_more_is_changed() -> None:
    desk = Desk.of(rt_torch())
    job = p(tj(rt_torch()), "q.example/m", "node", ZONE).obj
    first = desk.mutate(create(job))
    assert first.patch
    left = kueue_creates(first.after)
    for _ in range(5):
        reply = desk.mutate(create(left))
        assert reply.patch is None
        left = reply.after
    stored = ApiServer(desk, kueue=True).create(job)
    changed_once = desk.mutate(update(stored, patched_with(stored))).after
    for _ in range(5):
        assert desk.mutate(update(stored, changed_once)).patch is None


def test_b070_a_patch_that_is_equal_but_for_its_time_keeps_the_old_one() -> None:
    job = p(tj(rt_torch()), "a.example/m", "node", {"nodeSelector": {"a": "1"}})
    server = ApiServer(Desk.of(rt_torch()))
    old = server.create(p(job, "b.example/m", "node", {"nodeSelector": {"b": "1"}}).obj)
    stamps = [entry["time"] for entry in old["spec"]["runtimePatches"]]
    new = deepcopy(old)
    new["spec"]["runtimePatches"][0]["time"] = "2030-01-01T00:00:00Z"
    assert server.update(old, new) == old
    # Beside a real change the Trainer's own webhook gives the time back, and stamps the other.
    other = p(job, "b.example/m", "node", {"nodeSelector": {"b": "2"}}).obj["spec"][
        "runtimePatches"
    ]
    after = server.update(old, changed(new, runtimePatches=other))
    first, second = (entry["time"] for entry in after["spec"]["runtimePatches"])
    assert first == stamps[0]
    assert second != stamps[1]


def test_findings_of_the_engine_and_of_the_webhook_are_the_same() -> None:
    """The updates above in a file meet the same fate as over the wire."""
    old = with_status(changed(stored_job(), suspend=False), status="False")
    reply = Desk.of(rt_torch()).mutate(update(old, patched_with(old)))
    outcome = Folder.of(rt_torch()).admit(patched_with(old), old)
    assert texts(outcome.findings.errors) == [
        f"{path}: {cause['message']}"
        for (path, _), cause in zip(reply.causes, reply.status["details"]["causes"], strict=True)
    ]
