"""Known faults of gang totals: B025 to B034."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.builders import Json, container, make_object, resources
from tests.faults.kit import p, rt_init, rt_torch, tj
from tests.folder import Folder, pod, texts
from tests.reviews.apiserver import ApiServer
from tests.reviews.desk import Desk
from webhook.offline import Outcome

TOTALS = "stationmaster.dev/podgroup-totals"


def totals(of: Outcome | Json) -> Json:
    """What the annotation says."""
    obj = of.after if isinstance(of, Outcome) else of
    assert obj is not None
    found: Json = orjson.loads(obj["metadata"]["annotations"][TOTALS])
    return found


def test_b025_totals_see_the_jobs_own_resources() -> None:
    runtime = rt_torch().coscheduling()
    job = tj(runtime).nodes(3).resources({"cpu": 6, "memory": "10Gi"})
    counted = totals(Folder.of(runtime).admit(job))
    assert counted["members"] == 3
    assert counted["resources"] == {"cpu": "18", "memory": "30Gi", "nvidia.com/gpu": "12"}


def test_b025_a_podgroup_that_counts_less_is_told_apart() -> None:
    runtime = rt_torch().coscheduling()
    job = tj(runtime).nodes(3).resources({"cpu": 6, "memory": "10Gi"})
    rendered = Folder.of(runtime).render(job)
    [group] = [o for o in rendered.objects if o["kind"] == "PodGroup"]
    assert group["spec"]["minResources"] == {"cpu": "18", "memory": "30Gi"}, "limits do not count"
    assert any(
        "the controller's PodGroup asks for 3 members" in w for w in rendered.findings.warnings
    )


def test_b027_sidecars_count() -> None:
    sidecar = container("proxy", restartPolicy="Always", resources=resources({"cpu": "200m"}))
    runtime = rt_torch(resources=resources({"cpu": 1}), pod={"initContainers": [sidecar]})
    counted = totals(Folder.of(runtime).admit(tj(runtime).nodes(4)))
    assert counted["resources"] == {"cpu": "4800m"}


@pytest.mark.parametrize(
    ("requests", "cpu"),
    [(None, "6"), ({"cpu": 0}, "0")],
    ids=["limits stand in for absent requests", "an explicit zero wins"],
)
def test_b029_limits_come_before_the_namespaces_default(requests: Json | None, cpu: str) -> None:
    runtime = rt_torch(resources=resources(limits={"cpu": 3, "nvidia.com/gpu": 1}))
    defaults = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m"}}]}
    limit_range = make_object("LimitRange", "defaults", "team", apiVersion="v1", spec=defaults)
    job = tj(runtime).nodes(2).resources(requests, {"cpu": 3})
    counted = totals(Folder.of(runtime, limit_range).admit(job))
    assert counted["resources"] == {"cpu": cpu, "nvidia.com/gpu": "2"}


def _sandboxed(**more: Any) -> Any:
    asks = resources({"cpu": 1, "memory": "1Gi"})
    return rt_torch(resources=asks, pod={"runtimeClassName": "sandboxed", **more})


OVERHEAD = {"cpu": "250m", "memory": "64Mi"}
WITH_OVERHEAD = {"cpu": "5", "memory": "4352Mi"}


def test_b031_the_overhead_of_a_runtime_class_counts() -> None:
    runtime = _sandboxed()
    known = make_object("RuntimeClass", "sandboxed", overhead={"podFixed": OVERHEAD})
    outcome = Folder.of(runtime, known).admit(tj(runtime).nodes(4))
    assert totals(outcome)["resources"] == WITH_OVERHEAD
    assert outcome.findings.warnings == []


def test_b031_an_overhead_in_the_template_counts() -> None:
    runtime = _sandboxed(overhead=OVERHEAD)
    assert totals(Folder.of(runtime).admit(tj(runtime).nodes(4)))["resources"] == WITH_OVERHEAD


def test_b031_an_unknown_overhead_is_warned_of() -> None:
    runtime = _sandboxed()
    outcome = Folder.of(runtime).admit(tj(runtime).nodes(4))
    assert totals(outcome)["resources"] == {"cpu": "4", "memory": "4Gi"}
    [warning] = outcome.findings.warnings
    assert "RuntimeClass sandboxed, of which nothing is known" in warning


def test_b032_totals_are_counted_anew_with_every_accepted_change_of_patches() -> None:
    runtime = rt_torch(resources=resources({"cpu": 1}))
    desk = Desk.of(runtime)
    server = ApiServer(desk)
    stored = server.create(tj(runtime).nodes(2).obj)
    assert totals(stored)["resources"] == {"cpu": "2"}
    # Somebody makes the runtime larger; then the suspended job gets a patch.
    desk.swap(rt_torch(resources=resources({"cpu": 3})))
    changed = tj(runtime).nodes(2).obj
    changed["metadata"] = stored["metadata"]
    changed["spec"] = dict(stored["spec"])
    patch = p(tj(runtime), "u.example/m", "node", {"nodeSelector": {"zone": "z1"}})
    changed["spec"]["runtimePatches"] = patch.obj["spec"]["runtimePatches"]
    after = server.update(stored, changed)
    assert totals(after)["resources"] == {"cpu": "2"}, "resourcesPerNode was written on CREATE"
    assert totals(after)["runtime"] != totals(stored)["runtime"]
    resumed = server.update(after, {**after, "spec": {**after["spec"], "suspend": False}})
    assert totals(resumed) == totals(after)


@pytest.mark.parametrize(
    ("seconds", "refused", "warned"),
    [
        (None, "", ""),
        (0, "", "scheduleTimeoutSeconds is 0"),
        (-5, "Invalid value: -5: must be at least 0", ""),
        ("60", "must be of type integer", ""),
        (99999999, "", "holds its nodes for more than a day"),
    ],
    ids=["absent", "zero", "negative", "text", "three years"],
)
def test_b033_a_timeout_that_nobody_can_mean(
    seconds: int | str | None, refused: str, warned: str
) -> None:
    fields = {} if seconds is None else {"scheduleTimeoutSeconds": seconds}
    runtime = rt_torch(pod={"schedulerName": "s"}).coscheduling(**fields)
    found = Folder.of().admit(runtime).findings
    path = "spec.podGroupPolicy.coscheduling.scheduleTimeoutSeconds"
    assert [path in str(e) and refused in str(e) for e in found.errors] == [True] * bool(refused)
    assert [warned in w for w in found.warnings] == [True] * bool(warned)


def test_b033_the_default_timeout_is_a_minute() -> None:
    runtime = rt_torch().coscheduling()
    rendered = Folder.of(runtime).render(tj(runtime))
    [group] = [o for o in rendered.objects if o["kind"] == "PodGroup"]
    assert group["spec"]["scheduleTimeoutSeconds"] == 60


def test_b034_patches_and_jobs_are_paired_by_name() -> None:
    runtime = rt_init()
    job = tj(runtime)
    node = ("q.example/m", "node", {"nodeSelector": {"a": "1"}})
    data = ("d.example/m", "dataset-initializer", {"nodeSelector": {"b": "1"}})
    old, new, reversed_ = p(job, *node), p(p(job, *data), *node), p(p(job, *node), *data)
    folder = Folder.of(runtime)
    assert texts(folder.admit(new, old).findings.errors) == []
    wanted = {
        "dataset-initializer": {"b": "1"},
        "model-initializer": None,
        "node": {"a": "1"},
    }
    for variant in (new, reversed_):
        rendered = folder.render(variant)
        assert {name: pod(rendered, name).get("nodeSelector") for name in wanted} == wanted
