"""Which Trainer line an object belongs to, and that the table knows every line."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework import goform, lines, schema
from tests.builders import Json


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"podSpecOverrides": [{}]}, "2.0"),
        ({"podTemplateOverrides": [{}]}, "2.1"),
        ({"runtimePatches": [{}]}, "2.3"),
        ({}, "2.3"),
        ({"podSpecOverrides": []}, "2.3"),
        (None, "2.3"),
        ("x", "2.3"),
    ],
)
def test_the_line_of_a_job_is_that_of_its_overrides(spec: Any, line: str) -> None:
    assert lines.of_job(spec).name == line


def crd(**properties: Any) -> Json:
    spec = {"properties": properties}
    root = {"openAPIV3Schema": {"properties": {"spec": spec}}}
    return {"spec": {"names": {"kind": "TrainJob"}, "versions": [{"schema": root}]}}


GRACE: Json = {"items": {"properties": {"terminationGracePeriodSeconds": {}}}}


@pytest.mark.parametrize(
    ("document", "line"),
    [
        (crd(podSpecOverrides={}), "2.0"),
        (crd(podTemplateOverrides={}), "2.1"),
        (crd(runtimePatches={}), "2.2"),
        (crd(runtimePatches=GRACE), "2.3"),
        (crd(trainer={}), None),
        ({}, None),
        ({"spec": {"versions": []}}, None),
        ({"spec": {"versions": ["v1"]}}, None),
        (None, None),
    ],
)
def test_the_line_of_a_crd_is_that_of_its_fields(document: Any, line: str | None) -> None:
    found = lines.of_crd(document)
    assert (found.name if found else None) == line


@pytest.mark.parametrize("name", lines.LINES)
def test_every_line_has_its_schema_and_its_go_types(name: str) -> None:
    line = lines.LINES[name]
    assert line.name == name
    spec = schema.load(name).admit("TrainJob", {"spec": {line.generation: [], "noSuchField": 1}})
    assert line.generation in spec.obj["spec"]
    assert spec.pruned == ["spec.noSuchField"]
    assert "JobSetSpec" in goform.load(name).types
    assert line.has_managers == (line.generation == "runtimePatches")


def test_the_newest_is_the_last() -> None:
    assert lines.NEWEST is lines.LINES[max(lines.LINES)]
