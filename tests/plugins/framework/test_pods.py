"""Pieces of pods: env as the Trainer converts it, the rendezvous address, owners."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from plugins.framework import pods
from plugins.framework.api.trainjob import TrainJob
from tests.builders import Json, make_runtime, make_train_job
from tests.plugins.framework.test_draft import OBJECTS
from tests.plugins.kit import Case, resolve, table

PLAIN = make_runtime().plain().node()

ENV: dict[str, tuple[Json, Json]] = {
    "a value": ({"name": "A", "value": "x"}, {"name": "A", "value": "x"}),
    "no value is an empty one": ({"name": "A"}, {"name": "A", "value": ""}),
    "a source drops the value": (
        {"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ),
    "optional is kept, true or false": (
        {
            "name": "A",
            "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": False}},
        },
        {
            "name": "A",
            "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": False}},
        },
    ),
    "an unknown source is an empty one": (
        {"name": "A", "valueFrom": {"fileKeyRef": {"path": "p"}}},
        {"name": "A", "valueFrom": {}},
    ),
    "several sources stay": (
        {
            "name": "A",
            "valueFrom": {
                "fieldRef": {"fieldPath": "p", "apiVersion": "v1"},
                "secretKeyRef": {"name": "s", "key": "k"},
            },
        },
        {
            "name": "A",
            "valueFrom": {
                "fieldRef": {"fieldPath": "p"},
                "secretKeyRef": {"key": "k", "name": "s"},
            },
        },
    ),
}


@table(ENV)
def test_m26_env_of_a_trainjob(case: tuple[Json, Json]) -> None:
    given_entry, wanted = case
    assert pods.trainer_env([given_entry]) == [wanted]


@given(OBJECTS)
def test_an_entry_of_any_shape_gives_an_entry(raw: Json) -> None:
    [entry] = pods.trainer_env([{**raw, "valueFrom": raw.get("a")}])
    assert type(entry["name"]) is str
    assert ("value" in entry) != ("valueFrom" in entry)


def test_the_address_is_that_of_the_first_pod_of_node() -> None:
    info = resolve(Case(job=make_train_job("a"), runtime=PLAIN))
    assert pods.master_address(info) == "a-node-0-0.a"


@pytest.mark.parametrize("uid", ["", "6f1c"])
def test_objects_are_owned_by_the_trainjob(uid: str) -> None:
    info = resolve(Case(job=make_train_job("a"), runtime=PLAIN))
    info.job = TrainJob(make_train_job("a").field(uid, "metadata", "uid").obj)
    owner: dict[str, Any] = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": "a",
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert pods.metadata(info, "team", "a-x") == {
        "name": "a-x",
        "namespace": "team",
        "ownerReferences": [owner],
    }
