"""The copy of the runtime that the controller of 2.3 keeps beside each TrainJob."""

from __future__ import annotations

import json

import pytest

from tests.builders import make_runtime, make_train_job
from tests.plugins.kit import built, stored

RUNTIME = make_runtime().plain().node()


def test_p06_it_holds_the_whole_runtime_and_comes_first() -> None:
    made = built(make_train_job(), RUNTIME)
    assert made.objects[0] is made.named("test-job-runtime-snapshot")
    kept = json.loads(made.objects[0]["data"]["runtime"])
    runtime = stored(RUNTIME)
    assert (kept["kind"], kept["metadata"]["name"]) == ("ClusterTrainingRuntime", "runtime")
    assert kept["spec"] == runtime["spec"]


def test_p06_of_a_training_runtime_too() -> None:
    job = make_train_job().runtime("runtime", "TrainingRuntime")
    kept = json.loads(built(job, RUNTIME.namespaced()).objects[0]["data"]["runtime"])
    assert (kept["kind"], kept["metadata"]["namespace"]) == ("TrainingRuntime", "team")


@pytest.mark.parametrize("line", ["2.0", "2.1", "2.2"])
def test_before_2_3_there_is_none(line: str) -> None:
    assert built(make_train_job(), RUNTIME, line=line).of_kind("ConfigMap") == []


def test_it_is_owned_by_the_train_job() -> None:
    [owner] = built(make_train_job(), RUNTIME).objects[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("TrainJob", "test-job", True)
