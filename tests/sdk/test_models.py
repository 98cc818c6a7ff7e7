"""The SDK's own models read what we return (extra ``sdk``)."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework.values import same
from tests.builders import Json
from tests.reviews import samples
from tests.reviews.apiserver import ApiServer
from tests.reviews.desk import Desk
from tests.sdk import bodies

models = pytest.importorskip(
    "kubeflow_trainer_api.models",
    reason="the SDK's models are not installed: pip install -e '.[sdk]'",
)

NEW = [name for name in bodies.names() if not bodies.is_old(name)]
DESK = Desk.of(*bodies.runtimes("2.3"))


def read(obj: Json) -> Any:
    """The object as ``get_job`` parses it: a wrong type raises."""
    return models.TrainerV1alpha1TrainJob.from_dict(obj)


def allowed(name: str) -> bool:
    """Whether the Trainer takes this body."""
    return bodies.folder("2.3").admit(bodies.body(name)).allowed


@pytest.mark.parametrize("name", [n for n in NEW if allowed(n)])
@pytest.mark.parametrize("kueue", [False, True], ids=["alone", "with Kueue"])
def test_a_mutated_job_is_read_back_with_all_that_is_in_it(name: str, kueue: bool) -> None:
    stored = ApiServer(DESK, kueue=kueue).create(bodies.body(name))
    job = read(stored)
    trainer = job.spec.trainer
    assert job.metadata.name == bodies.body(name)["metadata"]["name"]
    assert trainer.num_nodes == stored["spec"]["trainer"]["numNodes"]
    assert trainer.num_proc_per_node == stored["spec"]["trainer"].get("numProcPerNode")
    again = job.to_dict()["spec"]["trainer"]
    assert again.keys() == stored["spec"]["trainer"].keys(), (
        "nothing that we wrote is unknown there"
    )
    assert same(again.get("env"), stored["spec"]["trainer"].get("env"))


@pytest.mark.parametrize("index", range(samples.count()))
def test_whatever_we_write_has_the_types_of_the_models(index: int) -> None:
    asked = samples.review(index)
    kind = asked["request"]["kind"]["kind"]
    obj = asked["request"]["object"]
    if kind != "TrainJob" or obj is None:
        return
    reply = samples.desk().mutate(asked)
    if reply.allowed:
        read(obj)  # it was readable before
        read(reply.after)


@pytest.mark.parametrize("line", ["2.2", "2.3"])
def test_the_runtimes_of_these_tests_are_ones_that_the_sdk_reads(line: str) -> None:
    for runtime in bodies.runtimes(line):
        parsed = getattr(models, f"TrainerV1alpha1{runtime['kind']}").from_dict(runtime)
        assert parsed.metadata.labels["trainer.kubeflow.org/framework"]
        assert parsed.spec.ml_policy is not None
