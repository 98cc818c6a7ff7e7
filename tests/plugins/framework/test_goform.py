"""The JSON forms of Go types, against Go's own json package and by their rules."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import goform

DATA = Path(__file__).resolve().parents[2] / "data" / "goform"
LINES = ("2.0", "2.1", "2.2", "2.3")


@pytest.mark.parametrize("line", LINES)
def test_recorded_round_trips_of_go(line: str) -> None:
    forms = goform.load(line)
    rows = orjson.loads((DATA / f"{line}.json").read_bytes())
    assert len(rows) >= 100
    assert [row for row in rows if forms.normalize(row["obj"], row["type"]) != row["want"]] == []


# What, its type in 2.3, and what Go makes of it.
CASES: dict[str, tuple[Any, str, Any]] = {
    "unknown fields go": ({"name": "a", "image_": "x"}, "ContainerPatch", {"name": "a"}),
    "empty values go where omitempty says so": (
        {"name": "a", "env": [], "volumeMounts": None, "securityContext": None},
        "ContainerPatch",
        {"name": "a"},
    ),
    "false and 0 go as well": (
        {"name": "a", "mountPath": "/a", "readOnly": False, "subPath": ""},
        "VolumeMount",
        {"name": "a", "mountPath": "/a"},
    ),
    "behind a pointer they stay": (
        {"runAsUser": 0, "privileged": False},
        "SecurityContext",
        {"runAsUser": 0, "privileged": False},
    ),
    "what is not omitempty comes": ({}, "EnvVar", {"name": ""}),
    "a list that is not omitempty comes as null": ({"os": None}, "PodSpec", {"containers": None}),
    "omitempty does not hold for structs": (
        {},
        "JobTemplateSpec",
        {"metadata": {}, "spec": {"template": {"metadata": {}, "spec": {"containers": None}}}},
    ),
    "nor for a divisor": (
        {"resource": "limits.cpu"},
        "ResourceFieldSelector",
        {"resource": "limits.cpu", "divisor": "0"},
    ),
    "omitzero does": (
        {"suspend": True, "runtimeRef": {"name": ""}},
        "TrainJobSpec",
        {"suspend": True},
    ),
    "unless something is there": (
        {"runtimeRef": {"apiGroup": ""}},
        "TrainJobSpec",
        {"runtimeRef": {"apiGroup": ""}},
    ),
    "or below": (
        {"template": {"metadata": {"name": "a"}}},
        "TrainingRuntimeSpec",
        {"template": {"metadata": {"name": "a"}, "spec": {}}},
    ),
    "and not below": (
        {"template": {"metadata": {"name": None, "x": 1}}},
        "TrainingRuntimeSpec",
        {},
    ),
    "a pointer without omitempty comes as null": (
        {"port": 1},
        "GRPCAction",
        {"port": 1, "service": None},
    ),
    "empty map values stay": ({"labels": {"a": ""}}, "ObjectMeta", {"labels": {"a": ""}}),
    "nulls in maps are empty values": (
        {"labels": {"a": None}},
        "ObjectMeta",
        {"labels": {"a": ""}},
    ),
    "numbers are quantities too": (
        {"limits": {"cpu": 2}},
        "ResourceRequirements",
        {"limits": {"cpu": "2"}},
    ),
    "quantities are printed anew": (
        {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
        "ResourceRequirements",
        {"limits": {"cpu": "500m", "memory": "1Gi"}},
    ),
    "but kept where Go takes them for canonical": (
        {"limits": {"cpu": "+2", "memory": "1.500", "a/b": "010"}},
        "ResourceRequirements",
        {"limits": {"cpu": "+2", "memory": "1.500", "a/b": "010"}},
    ),
    "times are printed in UTC": (
        {"name": "a", "creationTimestamp": "2024-01-01T01:00:00.5+02:00"},
        "ObjectMeta",
        {"name": "a", "creationTimestamp": "2023-12-31T23:00:00Z"},
    ),
    "a time that is none of Go's stays": (
        {"creationTimestamp": "today"},
        "ObjectMeta",
        {"creationTimestamp": "today"},
    ),
    "the zero time is null": (
        {
            "lastTransitionTime": "0001-01-01T00:00:00Z",
            "type": "a",
            "status": "b",
            "reason": "c",
            "message": "d",
        },
        "Condition",
        {"lastTransitionTime": None, "type": "a", "status": "b", "reason": "c", "message": "d"},
    ),
    "a port is a number or a name": (
        {"path": "/", "port": "http"},
        "HTTPGetAction",
        {"path": "/", "port": "http"},
    ),
    "what Go could not read stays": (
        {"name": 1, "env": "x", "volumeMounts": [1]},
        "ContainerPatch",
        {"name": 1, "env": "x", "volumeMounts": [1]},
    ),
}


@pytest.mark.parametrize(("obj", "name", "want"), CASES.values(), ids=CASES)
def test_what_go_makes_of_it(obj: Any, name: str, want: Any) -> None:
    before = deepcopy(obj)
    assert goform.load("2.3").normalize(obj, name) == want
    assert obj == before


def test_what_does_not_change_is_shared() -> None:
    container = {"name": "node", "resources": {"limits": {"cpu": "1"}}}
    pod = {"containers": [container]}
    forms = goform.load("2.3")
    assert forms.normalize(pod, "PodSpec") is pod
    changed = forms.normalize({"containers": [container, {"name": "b", "x": 1}]}, "PodSpec")
    assert changed["containers"][0] is container


def test_older_lines_write_a_creation_timestamp() -> None:
    assert goform.load("2.0").normalize({}, "ObjectMeta") == {"creationTimestamp": None}
    assert goform.load("2.3").normalize({}, "ObjectMeta") == {}


@pytest.mark.parametrize(
    ("name", "field", "key"),
    [
        ("JobSetSpec", "replicatedJobs", "name"),
        ("PodSpec", "containers", "name"),
        ("PodSpec", "volumes", "name"),
        ("Container", "env", "name"),
        ("Container", "volumeMounts", "mountPath"),
        ("Container", "ports", "containerPort"),
        ("ObjectMeta", "finalizers", ""),
    ],
)
def test_lists_that_merge(name: str, field: str, key: str) -> None:
    info = goform.load("2.3").strategy(name)[field]
    assert (info.kind, info.merges, info.merge_key) == ("slice", True, key)


@pytest.mark.parametrize(
    ("name", "field"),
    [("PodSpec", "tolerations"), ("Container", "command"), ("PodSpec", "nodeSelector")],
)
def test_what_does_not_merge(name: str, field: str) -> None:
    assert not goform.load("2.3").strategy(name)[field].merges


def test_the_type_below_a_field() -> None:
    fields = goform.load("2.3").strategy("PodSpec")
    assert fields["containers"].elem == "Container"
    assert fields["securityContext"].elem == "PodSecurityContext"
    assert fields["securityContext"].pointer
    assert fields["nodeSelector"].elem == ""


def test_each_line_has_its_own_overrides() -> None:
    overrides = {
        line: [
            n
            for n in goform.load(line).types
            if n in {"PodSpecOverride", "PodTemplateOverride", "RuntimePatch"}
        ]
        for line in LINES
    }
    assert overrides == {
        "2.0": ["PodSpecOverride"],
        "2.1": ["PodTemplateOverride"],
        "2.2": ["RuntimePatch"],
        "2.3": ["RuntimePatch"],
    }


def test_unknown_lines_and_types() -> None:
    with pytest.raises(ValueError, match="no Go types for the line"):
        goform.load("1.0")
    with pytest.raises(KeyError):
        goform.load("2.3").strategy("PodSpecOverride")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def any_object(draw: st.DrawFn) -> tuple[str, str, Any]:
    line = draw(st.sampled_from(LINES))
    forms = goform.load(line)
    name = draw(st.sampled_from(forms.types))
    fields = dict.fromkeys(forms.strategy(name), JSON)
    return line, name, draw(JSON | st.fixed_dictionaries({}, optional=fields))


@given(any_object())
def test_twice_is_once(case: tuple[str, str, Any]) -> None:
    line, name, obj = case
    forms = goform.load(line)
    before = deepcopy(obj)
    once = forms.normalize(obj, name)
    assert obj == before
    assert forms.normalize(once, name) == once
