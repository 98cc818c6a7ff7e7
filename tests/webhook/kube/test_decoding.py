"""What is read of lists and events, and what is not."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from plugins.framework import cluster
from tests.webhook.kube.failing import OURS
from webhook.kube import decoding, events, statuses

METADATA: dict[str, Any] = {
    "name": "a",
    "namespace": "b",
    "labels": {"l": "1"},
    "annotations": {"n": "2"},
    "ownerReferences": [{"kind": "TrainJob", "controller": True}],
    "resourceVersion": "7",
    "uid": "u",
    "generation": 3,
    "creationTimestamp": "2027-01-01T00:00:00Z",
}
NOISE: dict[str, Any] = {"managedFields": [{"fieldsV1": {"f:spec": {}}}], "x": None}
SPEC: dict[str, Any] = {"a": [1, 2.5, -9223372036854775808, None, {"b": "c"}], "q": "1Gi"}


def test_of_an_object_all_is_read_that_is_kept_and_no_managed_fields() -> None:
    conditions = [{"type": "Complete", "status": "True"}]
    obj = {
        "kind": "X",
        "metadata": {**METADATA, **NOISE},
        "spec": SPEC,
        "overhead": {"podFixed": {"cpu": "1"}},
        "status": {"conditions": conditions, "jobsStatus": [1]},
    }
    want = {
        "metadata": METADATA,
        "spec": SPEC,
        "overhead": {"podFixed": {"cpu": "1"}},
        "status": {"conditions": conditions},
    }
    about = {"resourceVersion": "8", "continue": "c"}

    assert decoding.page(orjson.dumps({"metadata": about, "items": [obj]})) == {
        "metadata": about,
        "items": [want],
    }
    event = decoding.event(orjson.dumps({"type": "ADDED", "object": obj}))
    assert event == {"type": "ADDED", "object": want}


def test_whatever_is_kept_of_an_event_is_read() -> None:
    assert set(events._FIELDS) <= set(OURS)

    read = decoding.page(orjson.dumps({"items": [{**OURS, **NOISE}]}))["items"][0]

    assert events.kept(read) == events.kept(OURS)


@pytest.mark.parametrize(
    "kind", sorted({*cluster._KEPT_FIELDS, *cluster._KEPT_METADATA, "TrainJob"})
)
def test_whatever_is_kept_of_a_kind_is_read(kind: str) -> None:
    """A field that somebody begins to keep, and nobody reads, would be missing in clusters alone."""
    fields = {field for kept in cluster._KEPT_FIELDS.values() for field in kept} | {"spec"}
    obj = {"metadata": METADATA, **dict.fromkeys(fields, SPEC), "status": {"conditions": [SPEC]}}

    read = decoding.event(orjson.dumps({"object": obj}))["object"]

    assert cluster.keep({**read, "kind": kind}) == cluster.keep({**obj, "kind": kind})


def test_all_metadata_that_somebody_keeps_are_read() -> None:
    assert {name for kept in cluster._KEPT_METADATA.values() for name in kept} <= set(METADATA)


def test_whatever_is_followed_of_our_own_status_is_read() -> None:
    status = {"observedGeneration": 3, "conditions": [SPEC], "counts": {"matched": 1}}
    obj = {"kind": "TrainJobPolicy", "metadata": METADATA, "spec": SPEC, "status": status}

    read = decoding.event(orjson.dumps({"object": {**obj, **NOISE}}))["object"]

    assert statuses.kept({**read, "kind": "TrainJobPolicy"}) == statuses.kept(obj)


def test_an_error_in_a_stream_is_a_status() -> None:
    status = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"}

    read = decoding.event(orjson.dumps({"type": "ERROR", "object": status}))

    assert read["object"] == {"status": "Failure", "code": 410, "reason": "Expired"}


@pytest.mark.parametrize("data", [b'{"items": null, "metadata": null}', b'{"items": []}', b"{}"])
def test_an_empty_list_may_be_written_in_many_ways(data: bytes) -> None:
    assert not decoding.page(data).get("items")


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b'{"items": 1}', b'{"items": [1]}'])
def test_what_is_no_list_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expected|truncated"):
        decoding.page(data)


@pytest.mark.parametrize("data", [b"{", b"3", b'{"object": []}'])
def test_what_is_no_event_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expected|truncated"):
        decoding.event(data)
