"""Known faults of patches and quantities: B074 to B089. Those of policies belong to policies."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.builders import container, make_runtime, resources
from tests.faults.kit import rt_torch, tj
from tests.hangs import no_hang
from tests.reviews.desk import Desk, create

ROOT = Path(__file__).parents[2]


def test_b074_a_slash_in_a_key_is_escaped_and_its_neighbours_stay() -> None:
    job = tj(rt_torch()).annotation("team.example/owner", "me")
    reply = Desk.of(rt_torch()).mutate(create(job.obj))
    assert reply.patch is not None
    paths = [o["path"] for o in reply.patch if o["path"].startswith("/metadata")]
    assert paths == [
        "/metadata/annotations/stationmaster.dev~1podgroup-totals",
        "/metadata/annotations/stationmaster.dev~1applied",
    ]
    assert reply.after["metadata"]["annotations"]["team.example/owner"] == "me"


def test_b076_parents_are_made_once_and_first() -> None:
    reply = Desk.of(rt_torch()).mutate(create(tj(rt_torch()).obj))
    assert reply.patch is not None
    assert [o["path"] for o in reply.patch] == ["/spec/trainer", "/metadata/annotations"]
    assert reply.after["spec"]["trainer"]["numNodes"] == 2


def test_b076_parents_that_are_there_stay() -> None:
    job = tj(rt_torch()).trainer().field({}, "metadata", "annotations")
    reply = Desk.of(rt_torch()).mutate(create(job.obj))
    assert reply.patch is not None
    assert [o["path"] for o in reply.patch] == [
        "/spec/trainer/numNodes",
        "/spec/trainer/resourcesPerNode",
        "/metadata/annotations/stationmaster.dev~1podgroup-totals",
        "/metadata/annotations/stationmaster.dev~1applied",
    ]


def test_b078_the_library_is_one_that_applies_rightly() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [wanted] = [
        r for r in map(Requirement, project["dependencies"]) if r.name.lower() == "jsonpatch"
    ]
    assert not wanted.specifier.contains(Version("1.33"))
    assert wanted.specifier.contains(Version("1.48"))


def test_b081_no_change_no_patch() -> None:
    runtime = make_runtime("plain").plain().node()
    desk = Desk.of(runtime)
    done = desk.mutate(create(tj(runtime).obj)).after
    reply = desk.mutate(create(done))
    assert "patch" not in reply.response
    assert "patchType" not in reply.response


def test_b082_only_the_mutating_answer_carries_a_patch() -> None:
    desk = Desk.of(rt_torch())
    review = create(tj(rt_torch()).obj)
    assert desk.mutate(review).response["patchType"] == "JSONPatch"
    assert "patchType" not in desk.validate(review).response


HUGE = {
    "an exponent past 64 bits": "7E9999999999999",
    "an exponent of ten digits": "1e1000000000",
    "an exponent that a library takes": "1e400000",
    "100,000 zeros": "0." + "0" * 100_000 + "1",
    "a tiny number": "1e-99999",
    "100,000 digits": "9" * 100_000,
    "no number": "NaN",
    "a suffix of nobody": "10GB",
    "a blank": "1 Gi",
    "an underscore": "1_000",
    "the empty text": "",
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE)
def test_b089_an_amount_that_is_none_is_refused_at_once(text: str) -> None:
    desk = Desk.of(rt_torch())
    review = create(tj(rt_torch()).resources(limits={"cpu": text}).obj)
    with no_hang():
        reply = desk.mutate(review)
    assert ("spec.trainer.resourcesPerNode.limits[cpu]", "FieldValueInvalid") in reply.causes
    assert len(reply.message) < 1024


@pytest.mark.parametrize("text", ["1e1000000000", "7E9999999999999", "1Gb"])
def test_b089_an_amount_of_the_runtime_is_refused_as_the_runtimes(text: str) -> None:
    own = container("node", resources=resources(limits={"cpu": text}))
    runtime = make_runtime("odd").torch().node(own)
    reply = Desk.of(runtime).mutate(create(tj(runtime).obj))
    assert not reply.allowed
    assert [path for path, _ in reply.causes] == ["spec.runtimeRef.name"]
