from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import generations, schema
from plugins.framework.generations import patches
from plugins.framework.lines import LINES

Json = dict[str, Any]
DATA = Path(__file__).parents[2] / "data" / "generations"
NO_JOB = "Required value: must be the name of a job of the runtime"
IN_RUNTIME = "set it in the template of the runtime, or leave it out"


def job(**spec: Any) -> Json:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "test"},
        "spec": {"runtimeRef": {"name": "torch"}, **spec},
    }


def spec_override(*jobs: str, **pod: Any) -> Json:
    """One entry of podSpecOverrides."""
    return {"targetJobs": [{"name": name} for name in jobs], **pod}


def template_override(*jobs: str, metadata: Json | None = None, **pod: Any) -> Json:
    """One entry of podTemplateOverrides."""
    entry: Json = {"targetJobs": [{"name": name} for name in jobs]}
    if metadata is not None:
        entry["metadata"] = metadata
    return entry | ({"spec": pod} if pod else {})


def patched(name: str, metadata: Json | None = None, **pod: Any) -> Json:
    """One entry of the replicatedJobs of a patch."""
    template: Json = {} if metadata is None else {"metadata": metadata}
    if pod:
        template["spec"] = pod
    return {"name": name, "template": {"spec": {"template": template}}}


def patch(manager: str | int, *jobs: Json, **metadata: Any) -> Json:
    """One entry of runtimePatches; the manager by number is one of ours."""
    template: Json = {"metadata": metadata} if metadata else {}
    if jobs:
        template["spec"] = {"replicatedJobs": list(jobs)}
    name = f"converted.stationmaster.dev/{manager}" if type(manager) is int else manager
    return {"manager": name, "trainingRuntimeSpec": {"template": template}}


@dataclass(frozen=True, kw_only=True)
class Case:
    """The spec of a TrainJob, and what becomes of it."""

    spec: Json
    to: str
    want: Json | None = None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def run(case: Case) -> None:
    raw = plain(job(**case.spec))
    converted = generations.convert(raw, LINES[case.to])
    assert tuple(map(str, converted.findings.errors)) == case.errors
    assert tuple(converted.findings.warnings) == case.warnings
    assert raw == job(**case.spec)
    want = raw if case.want is None else job(**case.want)
    assert converted.obj == want
    assert_nothing_shared(raw, converted.obj)


def plain(value: Json) -> Json:
    """A copy in which nothing is shared, as a parser makes it."""
    copy: Json = json.loads(json.dumps(value))
    return copy


def assert_nothing_shared(*objects: Any) -> None:
    """No container stands in two places, so that editing one edits no other, and YAML needs no anchors."""
    seen: dict[int, Any] = {}

    def walk(value: Any) -> None:
        if type(value) in {dict, list}:
            assert id(value) not in seen, value
            seen[id(value)] = value
            for item in value.values() if type(value) is dict else value:
                walk(item)

    for obj in objects:
        walk(obj)


SELECTOR: Json = {"nodeSelector": {"pool": "gpu"}}
TOLERATION: Json = {"tolerations": [{"key": "a", "operator": "Exists"}]}
AFFINITY: Json = {"affinity": {"nodeAffinity": {}}}
IN_2_1 = "runtimePatches[0].trainingRuntimeSpec.template"
JOB_0 = f"spec.{IN_2_1}.spec.replicatedJobs[0]"

UP = {
    "the pod's fields move from the entry into its spec": Case(
        spec={"podSpecOverrides": [spec_override("a", "b", **SELECTOR, **TOLERATION)]},
        to="2.1",
        want={"podTemplateOverrides": [template_override("a", "b", **SELECTOR, **TOLERATION)]},
    ),
    "several targets are several jobs of one patch": Case(
        spec={"podTemplateOverrides": [template_override("a", "b", **SELECTOR)]},
        to="2.2",
        want={"runtimePatches": [patch(0, patched("a", **SELECTOR), patched("b", **SELECTOR))]},
    ),
    "overrides of different jobs share a patch": Case(
        spec={
            "podSpecOverrides": [spec_override("a", **SELECTOR), spec_override("b", **TOLERATION)]
        },
        to="2.3",
        want={"runtimePatches": [patch(0, patched("a", **SELECTOR), patched("b", **TOLERATION))]},
    ),
    "overrides of one job are patches in their order": Case(
        spec={
            "podTemplateOverrides": [
                template_override("a", **SELECTOR),
                template_override("b", "a", **TOLERATION),
                template_override("a", serviceAccountName="late"),
            ]
        },
        to="2.3",
        want={
            "runtimePatches": [
                patch(0, patched("a", **SELECTOR), patched("b", **TOLERATION)),
                patch(1, patched("a", **TOLERATION)),
                patch(2, patched("a", serviceAccountName="late")),
            ]
        },
    ),
    "metadata of the Pod goes into the Pod template": Case(
        spec={"podTemplateOverrides": [template_override("a", metadata={"labels": {"l": "1"}})]},
        to="2.3",
        want={"runtimePatches": [patch(0, patched("a", metadata={"labels": {"l": "1"}}))]},
    ),
    "spec.labels and spec.annotations are the JobSet's metadata in the first patch": Case(
        spec={
            "labels": {"l": "1"},
            "annotations": {"n": ""},
            "podSpecOverrides": [spec_override("a", **SELECTOR)],
        },
        to="2.3",
        want={
            "runtimePatches": [
                patch(0, patched("a", **SELECTOR), labels={"l": "1"}, annotations={"n": ""})
            ]
        },
    ),
    "spec.labels alone are a patch without jobs": Case(
        spec={"labels": {"l": "1"}},
        to="2.2",
        want={"runtimePatches": [patch(0, labels={"l": "1"})]},
    ),
    "spec.labels stay what they are in 2.1": Case(
        spec={"labels": {"l": "1"}, "podSpecOverrides": [spec_override("a", **SELECTOR)]},
        to="2.1",
        want={
            "podTemplateOverrides": [template_override("a", **SELECTOR)],
            "labels": {"l": "1"},
        },
    ),
    "env and mounts of init containers stay with them": Case(
        spec={
            "podSpecOverrides": [
                spec_override(
                    "a", initContainers=[{"name": "i", "env": [{"name": "E", "value": ""}]}]
                )
            ]
        },
        to="2.3",
        want={
            "runtimePatches": [
                patch(
                    0,
                    patched(
                        "a", initContainers=[{"name": "i", "env": [{"name": "E", "value": ""}]}]
                    ),
                )
            ]
        },
    ),
    "a job named twice in one entry is overridden once": Case(
        spec={"podTemplateOverrides": [template_override("a", "a", **SELECTOR)]},
        to="2.3",
        want={"runtimePatches": [patch(0, patched("a", **SELECTOR))]},
    ),
    "an entry that says nothing stays one, so that its job's name is still looked for": Case(
        spec={"podTemplateOverrides": [template_override("a")]},
        to="2.3",
        want={"runtimePatches": [patch(0, {"name": "a"})]},
    ),
    "an entry without targets is left out": Case(
        spec={"podTemplateOverrides": [template_override(**SELECTOR)]},
        to="2.3",
        want={},
        warnings=("spec.podTemplateOverrides[0]: left out, since it names no job",),
    ),
    "metadata that 2.1 ignores and 2.2 would merge is left out": Case(
        spec={
            "podTemplateOverrides": [
                template_override(
                    "a", metadata={"labels": {"l": "1"}, "finalizers": ["x.y/z"], "name": ""}
                )
            ]
        },
        to="2.2",
        want={"runtimePatches": [patch(0, patched("a", metadata={"labels": {"l": "1"}}))]},
        warnings=(
            (
                "spec.podTemplateOverrides[0].metadata.finalizers: left out, since Trainer 2.1 ignores it here and "
                "Trainer 2.2 would not"
            ),
        ),
    ),
    "a field that only later lines obey is left out, at any depth": Case(
        spec={
            "podSpecOverrides": [
                spec_override(
                    "a",
                    **AFFINITY,
                    containers=[{"name": "c", "securityContext": {"privileged": True}}],
                )
            ]
        },
        to="2.3",
        want={"runtimePatches": [patch(0, patched("a", containers=[{"name": "c"}]))]},
        warnings=(
            (
                "spec.podSpecOverrides[0].affinity: left out, since Trainer 2.0 ignores it here and "
                "Trainer 2.3 would not"
            ),
            (
                "spec.podSpecOverrides[0].containers[0].securityContext: left out, since Trainer 2.0 ignores it here "
                "and Trainer 2.3 would not"
            ),
        ),
    ),
    "unknown fields are kept where they stand": Case(
        spec={
            "foo": [1],
            "podTemplateOverrides": [
                {
                    "targetJobs": [{"name": "a", "bar": 1}],
                    "baz": {"x": None},
                    "metadata": {"qux": 2},
                    "spec": {"hostNetwork": True, "containers": [{"name": "c", "image": "i"}]},
                }
            ],
        },
        to="2.3",
        want={
            "foo": [1],
            "runtimePatches": [
                patch(
                    0,
                    {
                        "bar": 1,
                        "baz": {"x": None},
                        **patched(
                            "a",
                            metadata={"qux": 2},
                            hostNetwork=True,
                            containers=[{"name": "c", "image": "i"}],
                        ),
                    },
                )
            ],
        },
    ),
    "a word that asks for what happens without it goes": Case(
        spec={"trainer": {"numProcPerNode": "auto"}},
        to="2.2",
        want={"trainer": {}},
    ),
    "the other words have no successor": Case(
        spec={"trainer": {"numProcPerNode": "gpu"}},
        to="2.3",
        errors=(
            (
                'spec.trainer.numProcPerNode: Invalid value: "gpu": Trainer 2.3 takes an integer only: write how '
                "many processes a node starts, or leave the field out for one per GPU, or per CPU where there are "
                "no GPUs"
            ),
        ),
    ),
    "a number of processes is a number everywhere": Case(
        spec={
            "trainer": {"numProcPerNode": 4},
            "podSpecOverrides": [spec_override("a", **SELECTOR)],
        },
        to="2.2",
        want={
            "trainer": {"numProcPerNode": 4},
            "runtimePatches": [patch(0, patched("a", **SELECTOR))],
        },
    ),
}

DOWN = {
    "a patch's jobs that say the same are one entry": Case(
        spec={
            "runtimePatches": [
                patch(
                    0,
                    patched("a", **SELECTOR),
                    patched("b", **TOLERATION),
                    patched("c", **SELECTOR),
                )
            ]
        },
        to="2.1",
        want={
            "podTemplateOverrides": [
                template_override("a", "c", **SELECTOR),
                template_override("b", **TOLERATION),
            ]
        },
    ),
    "several patches of one job are entries in their order": Case(
        spec={
            "runtimePatches": [
                patch(0, patched("a", **SELECTOR)),
                patch(1, patched("a", nodeSelector={"pool": "x"})),
            ]
        },
        to="2.1",
        want={
            "podTemplateOverrides": [
                template_override("a", **SELECTOR),
                template_override("a", nodeSelector={"pool": "x"}),
            ]
        },
    ),
    "owners are lost with a warning, the Trainer's time without": Case(
        spec={
            "runtimePatches": [
                {**patch("a.io/b", patched("a", **SELECTOR)), "time": "2026-01-01T00:00:00Z"}
            ]
        },
        to="2.1",
        want={"podTemplateOverrides": [template_override("a", **SELECTOR)]},
        warnings=(
            'spec.runtimePatches[0].manager: "a.io/b" is lost, since podTemplateOverrides have no managers',
        ),
    ),
    "JobSet metadata of all patches overlays per key, the later patch wins": Case(
        spec={
            "runtimePatches": [
                patch(0, labels={"l": "1", "m": "1"}),
                patch(1, labels={"l": "2"}, annotations={"n": "1"}),
            ]
        },
        to="2.0",
        want={"labels": {"l": "2", "m": "1"}, "annotations": {"n": "1"}},
    ),
    "JobSet metadata that the Trainer ignores is left out": Case(
        spec={"runtimePatches": [patch(0, labels={"l": "1"}, finalizers=["x.y/z"])]},
        to="2.1",
        want={"labels": {"l": "1"}},
        warnings=(f"spec.{IN_2_1}.metadata.finalizers: left out, since the Trainer ignores it",),
    ),
    "patches that do nothing leave nothing": Case(
        spec={"runtimePatches": [{"manager": "converted.stationmaster.dev/x"}, patch(1)]},
        to="2.1",
        want={},
    ),
    "2.0 has no affinity": Case(
        spec={"podTemplateOverrides": [template_override("a", **AFFINITY)]},
        to="2.0",
        errors=(
            (
                "spec.podTemplateOverrides[0].spec.affinity: Forbidden: Trainer 2.0 has no such field (Trainer 2.1 "
                f"and later have): {IN_RUNTIME}"
            ),
        ),
    ),
    "2.0 has no image pull secrets, but an empty list says nothing": Case(
        spec={
            "podTemplateOverrides": [
                template_override("a", imagePullSecrets=[]),
                template_override("b", imagePullSecrets=[{"name": "s"}]),
            ]
        },
        to="2.0",
        errors=(
            (
                "spec.podTemplateOverrides[1].spec.imagePullSecrets: Forbidden: Trainer 2.0 has no such field "
                f"(Trainer 2.1 and later have): {IN_RUNTIME}"
            ),
        ),
    ),
    "2.0 has no metadata of Pods": Case(
        spec={"podTemplateOverrides": [template_override("a", metadata={"labels": {"l": "1"}})]},
        to="2.0",
        errors=(
            (
                "spec.podTemplateOverrides[0].metadata.labels: Forbidden: podSpecOverrides of Trainer 2.0 cannot set "
                f"metadata of a Pod (Trainer 2.1 and later can): {IN_RUNTIME}"
            ),
        ),
    ),
    "metadata that is empty or ignored goes on the way to 2.0": Case(
        spec={
            "podTemplateOverrides": [
                template_override("a", metadata={"labels": {}, "namespace": "x"}, **SELECTOR)
            ]
        },
        to="2.0",
        want={"podSpecOverrides": [spec_override("a", **SELECTOR)]},
        warnings=(
            "spec.podTemplateOverrides[0].metadata.namespace: left out, since Trainer 2.1 ignores it",
        ),
    ),
    "nothing before 2.2 has a security context": Case(
        spec={
            "runtimePatches": [
                patch(
                    0,
                    patched(
                        "a", securityContext={}, containers=[{"name": "c", "securityContext": {}}]
                    ),
                )
            ]
        },
        to="2.1",
        errors=tuple(
            f"{JOB_0}.template.spec.template.spec.{field}: Forbidden: Trainer 2.1 has no such field (Trainer 2.2 and "
            f"later have): {IN_RUNTIME}"
            for field in ("securityContext", "containers[0].securityContext")
        ),
    ),
    "nothing before 2.3 has a grace period": Case(
        spec={"runtimePatches": [patch("a.io/b", patched("a", terminationGracePeriodSeconds=0))]},
        to="2.2",
        errors=(
            (
                f"{JOB_0}.template.spec.template.spec.terminationGracePeriodSeconds: Forbidden: Trainer 2.2 has no "
                f"such field (Trainer 2.3 has): {IN_RUNTIME}"
            ),
        ),
    ),
    "nothing before 2.2 has metadata of Jobs": Case(
        spec={
            "runtimePatches": [
                patch(
                    0,
                    {
                        "name": "a",
                        "template": {"metadata": {"labels": {"l": "1"}, "annotations": {}}},
                    },
                )
            ]
        },
        to="2.1",
        errors=(
            (
                f"{JOB_0}.template.metadata.labels: Forbidden: podTemplateOverrides cannot set metadata of a Job "
                f"(Trainer 2.2 and later can): {IN_RUNTIME}"
            ),
        ),
    ),
    "nothing before 2.2 merges finalizers into a Pod": Case(
        spec={"runtimePatches": [patch(0, patched("a", metadata={"finalizers": ["x.y/z"]}))]},
        to="2.1",
        errors=(
            (
                f"{JOB_0}.template.spec.template.metadata.finalizers: Forbidden: podTemplateOverrides cannot set this "
                f"in a Pod's metadata (Trainer 2.2 and later can): {IN_RUNTIME}"
            ),
        ),
    ),
    "nothing before 2.2 has a deadline": Case(
        spec={"activeDeadlineSeconds": 60},
        to="2.1",
        errors=(
            (
                "spec.activeDeadlineSeconds: Forbidden: Trainer 2.1 has no such field (Trainer 2.2 and later have): "
                "leave it out"
            ),
        ),
    ),
    "2.0 has no files as sources of env, wherever env stands": Case(
        spec={
            "trainer": {
                "env": [
                    {"name": "A", "value": "1"},
                    {
                        "name": "B",
                        "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}},
                    },
                ]
            }
        },
        to="2.0",
        errors=(
            (
                "spec.trainer.env[1].valueFrom.fileKeyRef: Forbidden: Trainer 2.0 has no such field (Trainer 2.1 and "
                f"later have): {IN_RUNTIME}"
            ),
        ),
    ),
    "an unknown field of a level that is gone cannot be kept": Case(
        spec={"runtimePatches": [{**patch(0, patched("a", **SELECTOR)), "foo": 1, "bar": None}]},
        to="2.1",
        errors=(
            (
                "spec.runtimePatches[0].foo: Forbidden: no place for this unknown field in podTemplateOverrides: "
                "leave it out"
            ),
        ),
    ),
    "an unknown field that would do something there is left out": Case(
        spec={"runtimePatches": [patch(0, {"name": "a", "spec": SELECTOR, "foo": 1})]},
        to="2.1",
        want={"podTemplateOverrides": [{"targetJobs": [{"name": "a"}], "foo": 1}]},
        warnings=(
            f"{JOB_0}.spec: left out, since Trainer 2.3 ignores it here and Trainer 2.1 would not",
        ),
    ),
    "two unknown fields of one name cannot share the flat entry of 2.0": Case(
        spec={"podTemplateOverrides": [{**template_override("a", foo=1), "foo": 2}]},
        to="2.0",
        errors=(
            (
                "spec.podTemplateOverrides[0].foo: Forbidden: no place for this unknown field in podSpecOverrides: "
                "leave it out"
            ),
        ),
    ),
}


DOWN |= {
    "an unknown field of a target is kept unless one of its name is there": Case(
        spec={
            "podTemplateOverrides": [
                {
                    "targetJobs": [{"name": "a", "foo": 1, "nodeSelector": 2}],
                    "foo": 2,
                    "spec": SELECTOR,
                }
            ]
        },
        to="2.3",
        errors=(
            (
                "spec.podTemplateOverrides[0].targetJobs[0].foo: Forbidden: no place for this unknown field in "
                "runtimePatches: leave it out"
            ),
        ),
    ),
    "unknown metadata of a Pod has no place in 2.0, an empty one goes": Case(
        spec={
            "podTemplateOverrides": [
                template_override("a", metadata={"foo": None, "name": ""}, **SELECTOR),
                template_override("b", metadata={"foo": 1}),
            ]
        },
        to="2.0",
        errors=(
            (
                "spec.podTemplateOverrides[1].metadata.foo: Forbidden: no place for this unknown field in "
                "podSpecOverrides: leave it out"
            ),
        ),
    ),
    "nor has what a patch says of a Pod's metadata": Case(
        spec={
            "runtimePatches": [
                patch(
                    0,
                    {
                        "foo": 1,
                        "baz": 1,
                        **patched(
                            "a",
                            {"labels": {"l": "1"}, "annotations": {}, "name": "", "bar": 1},
                            foo=2,
                        ),
                    },
                )
            ]
        },
        to="2.0",
        errors=(
            f"{JOB_0}.foo: Forbidden: no place for this unknown field in podSpecOverrides: leave it out",
            (
                f"{JOB_0}.template.spec.template.metadata.labels: Forbidden: podSpecOverrides of Trainer 2.0 cannot "
                f"set metadata of a Pod (Trainer 2.1 and later can): {IN_RUNTIME}"
            ),
            (
                f"{JOB_0}.template.spec.template.metadata.bar: Forbidden: no place for this unknown field in "
                "podSpecOverrides: leave it out"
            ),
        ),
    ),
    "an empty label of a Pod's metadata goes on the way to 2.0": Case(
        spec={"runtimePatches": [patch(0, patched("a", {"labels": {}, "foo": None}, **SELECTOR))]},
        to="2.0",
        want={"podSpecOverrides": [spec_override("a", **SELECTOR)]},
    ),
}


def env(*names: str, **values: str) -> list[Json]:
    return [{"name": name} for name in names] + [
        {"name": name, "value": value} for name, value in values.items()
    ]


def mounting(**paths: str) -> list[Json]:
    """Container ``c`` with a mount of each volume."""
    mounts = [{"name": name, "mountPath": path} for name, path in paths.items()]
    return [{"name": "c", "volumeMounts": mounts}]


def stuck(index: int, why: str) -> str:
    return (
        f'spec.podTemplateOverrides[{index}].targetJobs[0]: Forbidden: Trainer 2.0 can override job "a" once, and merging '
        f"this override into the one before it would change {why}: merge them by hand"
    )


ONCE = {
    "scalars, maps and whole lists: the later override wins": Case(
        spec={
            "podTemplateOverrides": [
                template_override(
                    "a",
                    "b",
                    serviceAccountName="s",
                    nodeSelector={"x": "1", "y": "1"},
                    **TOLERATION,
                ),
                template_override("a", nodeSelector={"y": "2"}, tolerations=[{"key": "b"}]),
                template_override("a", serviceAccountName="", tolerations=[]),
            ]
        },
        to="2.0",
        want={
            "podSpecOverrides": [
                spec_override(
                    "a",
                    serviceAccountName="",
                    nodeSelector={"x": "1", "y": "2"},
                    tolerations=[{"key": "b"}],
                ),
                spec_override(
                    "b", serviceAccountName="s", nodeSelector={"x": "1", "y": "1"}, **TOLERATION
                ),
            ]
        },
    ),
    "items of lists merge by key where one list is a part of the other": Case(
        spec={
            "podTemplateOverrides": [
                template_override("a", containers=[{"name": "c", "env": env("A", "B", C="1")}]),
                template_override(
                    "a", containers=[{"name": "x"}, {"name": "c", "env": env(A="2", C="")}]
                ),
            ]
        },
        to="2.0",
        want={
            "podSpecOverrides": [
                spec_override(
                    "a",
                    containers=[
                        {"name": "x"},
                        {
                            "name": "c",
                            "env": [
                                {"name": "A", "value": "2"},
                                {"name": "B"},
                                {"name": "C", "value": "1"},
                            ],
                        },
                    ],
                )
            ]
        },
    ),
    "the order of items would depend on the template": Case(
        spec={
            "podTemplateOverrides": [
                template_override("a", initContainers=[{"name": "i"}]),
                template_override("a", initContainers=[{"name": "j"}]),
            ]
        },
        to="2.0",
        errors=(stuck(1, "the order of initContainers"),),
    ),
    "a name is said where it is, several levels down": Case(
        spec={
            "podTemplateOverrides": [
                template_override("a", containers=[{"name": "c", "env": env("A")}]),
                template_override("a", containers=[{"name": "c", "env": env("B")}]),
            ]
        },
        to="2.0",
        errors=(stuck(1, "the order of containers[c].env"),),
    ),
    "one volume cannot be mounted twice in one override": Case(
        spec={
            "podTemplateOverrides": [
                template_override("a", containers=mounting(v="/a")),
                template_override("a", containers=mounting(v="/b", w="/a")),
                template_override("a", containers=mounting(w="/b", v="/a", x="/c")),
            ]
        },
        to="2.0",
        want={
            "podSpecOverrides": [spec_override("a", containers=mounting(w="/b", v="/a", x="/c"))]
        },
    ),
    "two mounts of one name are one too many": Case(
        spec={
            "podTemplateOverrides": [
                template_override("a", containers=mounting(v="/a", w="/b")),
                template_override("a", containers=mounting(w="/a")),
            ]
        },
        to="2.0",
        errors=(stuck(1, "the items of containers[c].volumeMounts"),),
    ),
    "a directive acts on what it meets": Case(
        spec={
            "podTemplateOverrides": [
                template_override("a", **SELECTOR),
                template_override("a", nodeSelector={"$patch": "replace", "x": "1"}),
            ]
        },
        to="2.0",
        errors=(stuck(1, "what $patch in nodeSelector does"),),
    ),
    "a divisor that the later override does not name is Go's zero": Case(
        spec={
            "podTemplateOverrides": [
                template_override(
                    "a",
                    initContainers=[
                        {
                            "name": "i",
                            "env": [
                                {
                                    "name": "E",
                                    "valueFrom": {
                                        "resourceFieldRef": {"resource": "r", "divisor": "1m"}
                                    },
                                }
                            ],
                        }
                    ],
                ),
                template_override(
                    "a",
                    initContainers=[
                        {
                            "name": "i",
                            "env": [
                                {"name": "E", "valueFrom": {"resourceFieldRef": {"resource": "s"}}}
                            ],
                        }
                    ],
                ),
            ]
        },
        to="2.0",
        want={
            "podSpecOverrides": [
                spec_override(
                    "a",
                    initContainers=[
                        {
                            "name": "i",
                            "env": [
                                {
                                    "name": "E",
                                    "valueFrom": {
                                        "resourceFieldRef": {"resource": "s", "divisor": "0"}
                                    },
                                }
                            ],
                        }
                    ],
                )
            ]
        },
    ),
    "what cannot be merged stays apart, and is said once for each": Case(
        spec={
            "podTemplateOverrides": [
                template_override("b", volumes=[{"name": "v"}]),
                template_override("a", volumes=[{"name": "v"}]),
                template_override("a", volumes=[{"name": "w"}]),
                template_override("a", volumes=[{"name": "w", "emptyDir": {}}]),
                template_override("b", schedulingGates=[{"name": "g"}]),
            ]
        },
        to="2.0",
        errors=(stuck(2, "the order of volumes"),),
    ),
    "several patches of one job merge too": Case(
        spec={
            "runtimePatches": [
                patch(0, patched("a", **SELECTOR), patched("b", **SELECTOR)),
                patch(1, patched("a", **TOLERATION)),
            ]
        },
        to="2.0",
        want={
            "podSpecOverrides": [
                spec_override("a", **SELECTOR, **TOLERATION),
                spec_override("b", **SELECTOR),
            ]
        },
    ),
}

MIXTURES = {
    "two generations of overrides": Case(
        spec={"podSpecOverrides": [{}], "runtimePatches": [{}]},
        to="2.3",
        errors=(
            (
                "spec.runtimePatches: Forbidden: is a field of Trainer 2.2 and later, and spec.podSpecOverrides one of "
                "Trainer 2.0: an object can be of one generation only"
            ),
        ),
    ),
    "the target's own generation among them is no excuse": Case(
        spec={"podTemplateOverrides": [{}], "activeDeadlineSeconds": 1},
        to="2.1",
        errors=(
            (
                "spec.activeDeadlineSeconds: Forbidden: is a field of Trainer 2.2 and later, and "
                "spec.podTemplateOverrides one of Trainer 2.1: an object can be of one generation only"
            ),
        ),
    ),
    "each stranger is named": Case(
        spec={
            "runtimePatches": [{}],
            "labels": {"l": "1"},
            "trainer": {"numProcPerNode": "auto"},
        },
        to="2.3",
        errors=(
            (
                "spec.labels: Forbidden: is a field of Trainer 2.0 and 2.1, and spec.runtimePatches one of Trainer 2.2 "
                "and later: an object can be of one generation only"
            ),
            (
                "spec.trainer.numProcPerNode: Forbidden: is a field of Trainer 2.0 and 2.1, and spec.runtimePatches one "
                "of Trainer 2.2 and later: an object can be of one generation only"
            ),
        ),
    ),
    "an empty field is of no generation, and goes where the target has none": Case(
        spec={
            "podSpecOverrides": [],
            "podTemplateOverrides": None,
            "labels": {},
            "runtimePatches": [patch("a.io/b", patched("a", **SELECTOR))],
        },
        to="2.3",
        want={"runtimePatches": [patch("a.io/b", patched("a", **SELECTOR))]},
    ),
    "an empty field of the target stays": Case(
        spec={"podTemplateOverrides": [], "labels": {}, "runtimePatches": []},
        to="2.3",
        want={"runtimePatches": []},
    ),
}

SHAPES = {
    "spec": Case(
        spec={"podSpecOverrides": {"a": 1}},
        to="2.3",
        errors=('spec.podSpecOverrides: Invalid value: {"a":1}: must be a list',),
    ),
    "entries": Case(
        spec={"podTemplateOverrides": [1, None, "x"]},
        to="2.3",
        errors=tuple(
            f"spec.podTemplateOverrides[{i}]: Invalid value: {text}: must be an object"
            for i, text in enumerate(("1", "null", '"x"'))
        ),
    ),
    "targets": Case(
        spec={
            "podTemplateOverrides": [
                {},
                {"targetJobs": {}},
                {"targetJobs": [1, {}, {"name": 1}, {"name": ""}]},
            ]
        },
        to="2.2",
        errors=(
            "spec.podTemplateOverrides[0].targetJobs: Required value: must name the jobs that are overridden",
            "spec.podTemplateOverrides[1].targetJobs: Invalid value: {}: must be a list",
            "spec.podTemplateOverrides[2].targetJobs[0]: Invalid value: 1: must be an object",
            f"spec.podTemplateOverrides[2].targetJobs[0].name: {NO_JOB}",
            f"spec.podTemplateOverrides[2].targetJobs[1].name: {NO_JOB}",
            "spec.podTemplateOverrides[2].targetJobs[2].name: Invalid value: 1: must be a string",
            f"spec.podTemplateOverrides[2].targetJobs[3].name: {NO_JOB}",
        ),
    ),
    "pods and metadata": Case(
        spec={
            "podTemplateOverrides": [
                {
                    "targetJobs": [{"name": "a"}],
                    "metadata": {"labels": []},
                    "spec": {"containers": [{"env": 1}, 2], "nodeSelector": 1, "affinity": []},
                },
                {"targetJobs": [{"name": "a"}], "metadata": 1, "spec": 1},
            ]
        },
        to="2.2",
        errors=(
            "spec.podTemplateOverrides[0].metadata.labels: Invalid value: []: must be an object",
            "spec.podTemplateOverrides[0].spec.containers[0].env: Invalid value: 1: must be a list",
            "spec.podTemplateOverrides[0].spec.containers[1]: Invalid value: 2: must be an object",
            "spec.podTemplateOverrides[0].spec.nodeSelector: Invalid value: 1: must be an object",
            "spec.podTemplateOverrides[0].spec.affinity: Invalid value: []: must be an object",
            "spec.podTemplateOverrides[1].metadata: Invalid value: 1: must be an object",
            "spec.podTemplateOverrides[1].spec: Invalid value: 1: must be an object",
        ),
    ),
    "levels of a patch": Case(
        spec={
            "runtimePatches": [
                1,
                {"manager": 1, "trainingRuntimeSpec": []},
                {"trainingRuntimeSpec": {"template": {"metadata": {"labels": 1}, "spec": 1}}},
                patch(0, {"name": "a", "template": 1}, {}, {"name": "a"}),
            ]
        },
        to="2.1",
        errors=(
            "spec.runtimePatches[0]: Invalid value: 1: must be an object",
            "spec.runtimePatches[1].trainingRuntimeSpec: Invalid value: []: must be an object",
            (
                "spec.runtimePatches[2].trainingRuntimeSpec.template.metadata.labels: Invalid value: 1: must be an "
                "object"
            ),
            "spec.runtimePatches[2].trainingRuntimeSpec.template.spec: Invalid value: 1: must be an object",
            (
                "spec.runtimePatches[3].trainingRuntimeSpec.template.spec.replicatedJobs[0].template: Invalid value: "
                "1: must be an object"
            ),
            (
                "spec.runtimePatches[3].trainingRuntimeSpec.template.spec.replicatedJobs[1].name: Required value: must "
                "be the name of a job of the runtime"
            ),
            (
                "spec.runtimePatches[3].trainingRuntimeSpec.template.spec.replicatedJobs[2].name: Duplicate value: "
                '"a"'
            ),
        ),
    ),
    "the trainer": Case(
        spec={"trainer": {"numProcPerNode": 1.5, "image": {}}, "labels": {"l": "1"}},
        to="2.2",
        errors=(
            "spec.trainer.image: Invalid value: {}: must be a string",
            "spec.trainer.numProcPerNode: Invalid value: 1.5: must be an integer",
        ),
    ),
}


@pytest.mark.parametrize("case", UP.values(), ids=UP)
def test_to_a_later_line(case: Case) -> None:
    run(case)


@pytest.mark.parametrize("case", DOWN.values(), ids=DOWN)
def test_to_an_earlier_line(case: Case) -> None:
    run(case)


@pytest.mark.parametrize("case", ONCE.values(), ids=ONCE)
def test_a_line_that_overrides_a_job_once(case: Case) -> None:
    run(case)


@pytest.mark.parametrize("case", MIXTURES.values(), ids=MIXTURES)
def test_a_mixture_of_generations(case: Case) -> None:
    run(case)


@pytest.mark.parametrize("case", SHAPES.values(), ids=SHAPES)
def test_a_wrong_shape_is_reported_at_its_path(case: Case) -> None:
    run(case)


def test_the_new_field_stands_where_the_old_one_stood() -> None:
    raw = job(podTemplateOverrides=[template_override("a", **SELECTOR)], suspend=True)
    converted = generations.convert(raw, LINES["2.3"])
    assert list(converted.obj["spec"]) == ["runtimeRef", "runtimePatches", "suspend"]


BARE: list[Json] = [
    {},
    {"spec": 1},
    job(),
    {"kind": "TrainJob", "spec": None},
    {"kind": "TrainingRuntime", "spec": None},
]


@pytest.mark.parametrize("raw", BARE)
@pytest.mark.parametrize("to", LINES)
def test_an_object_without_overrides_is_copied(raw: Json, to: str) -> None:
    converted = generations.convert(raw, LINES[to])
    assert converted.obj == raw
    assert converted.obj is not raw
    assert not converted.findings.errors


def test_a_spec_that_is_none_is_reported() -> None:
    converted = generations.convert({"kind": "TrainJob", "spec": [1]}, LINES["2.1"])
    assert [str(e) for e in converted.findings.errors] == [
        "spec: Invalid value: [1]: must be an object"
    ]


def test_more_overrides_than_patches_are_merged_from_the_front() -> None:
    entries = [template_override("a", "b", nodeSelector={f"k{i}": "1"}) for i in range(18)]
    converted = generations.convert(job(podTemplateOverrides=entries), LINES["2.3"])
    assert not converted.findings.errors
    made = converted.obj["spec"]["runtimePatches"]
    assert [p["manager"] for p in made] == [f"{patches.MANAGER_PREFIX}{i}" for i in range(16)]
    first = {"k0": "1", "k1": "1", "k2": "1"}
    assert made[0] == patch(0, patched("a", nodeSelector=first), patched("b", nodeSelector=first))
    assert made[15] == patch(
        15, patched("a", nodeSelector={"k17": "1"}), patched("b", nodeSelector={"k17": "1"})
    )


def test_more_overrides_than_patches_that_cannot_be_merged_are_refused() -> None:
    entries = [template_override("a", volumes=[{"name": f"v{i}"}]) for i in range(17)]
    converted = generations.convert(job(podTemplateOverrides=entries), LINES["2.2"])
    assert {e.field for e in converted.findings.errors} == {
        f"spec.podTemplateOverrides[{i}].targetJobs[0]" for i in range(1, 17)
    }
    assert 'Trainer 2.2 can override job "a" 16 times' in str(converted.findings.errors[0])


def test_hundreds_of_overrides_of_one_job_are_refused_in_no_time() -> None:
    entries = [template_override("a", nodeSelector={f"k{i}": "1"}) for i in range(300)]
    for to, first in (("2.0", 257), ("2.3", 272)):
        (error,) = generations.convert(job(podTemplateOverrides=entries), LINES[to]).findings.errors
        assert error.field == f"spec.podTemplateOverrides[{first}].targetJobs[0]"
        assert error.detail.endswith("no more than 256 overrides are merged: use fewer")


def test_what_grows_past_all_bounds_when_said_again_for_each_job_is_refused() -> None:
    long = {"nodeSelector": {f"{i:063}": "x" * 63 for i in range(1000)}}
    raw = job(podTemplateOverrides=[template_override(*(f"j{i}" for i in range(100)), **long)])
    (error,) = generations.convert(raw, LINES["2.3"]).findings.errors
    assert str(error) == (
        "spec.podTemplateOverrides: Forbidden: said again for each job as runtimePatches do, this passes 8 MiB: name "
        "fewer jobs"
    )


def test_a_patch_holds_100_jobs_and_the_next_one_the_rest() -> None:
    names = [f"j{i}" for i in range(1601)]
    raw = job(podTemplateOverrides=[template_override(*names[:250], **SELECTOR)])
    made = generations.convert(raw, LINES["2.3"]).obj["spec"]["runtimePatches"]
    sizes = [len(p["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]) for p in made]
    assert sizes == [100, 100, 50]
    raw = job(podTemplateOverrides=[template_override(*names, **SELECTOR)])
    (error,) = generations.convert(raw, LINES["2.3"]).findings.errors
    assert error.field == "spec.podTemplateOverrides[0].targetJobs[1600]"


def recorded(name: str) -> Json:
    found: Json = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    return found


def test_the_sdks_overlapping_options_keep_their_precedence() -> None:
    raw = recorded("0.3.1-03-podtemplateoverrides-multi-order")
    shared: Json = {
        "nodeSelector": {"pool": "shared"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
    }
    gpu: Json = {
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "b", "operator": "Exists"}],
    }
    initializers = ("dataset-initializer", "model-initializer")
    newest = generations.convert(raw, LINES["2.3"])
    assert newest.obj["spec"]["runtimePatches"] == [
        patch(0, *(patched(name, **shared) for name in (*initializers, "node"))),
        patch(1, patched("node", **gpu)),
        patch(2, patched("node", serviceAccountName="late")),
    ]
    assert newest.obj["spec"]["initializer"] == raw["spec"]["initializer"]
    oldest = generations.convert(raw, LINES["2.0"])
    assert oldest.obj["spec"]["podSpecOverrides"] == [
        spec_override(*initializers, **shared),
        spec_override("node", **gpu, serviceAccountName="late"),
    ]


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.stem)
@pytest.mark.parametrize("to", LINES)
def test_what_the_sdk_sends_is_converted_or_refused_by_path(path: Path, to: str) -> None:
    raw = recorded(path.stem)
    converted = generations.convert(raw, LINES[to])
    if converted.findings.errors:
        assert converted.obj == raw
        assert all(_at(raw, error.path) is not None for error in converted.findings.errors)
    else:
        whole = _with_whole_numbers(converted.obj)
        admitted = schema.load(to).admit("TrainJob", whole)
        assert not admitted.errors
        assert not admitted.pruned


def _at(value: Any, path: Any) -> Any:
    for step in path.steps:
        value = value[step]
    return value


def _with_whole_numbers(value: Any) -> Any:
    """The floats that the SDK writes, as the API server's clients re-encode them."""
    if type(value) is dict:
        return {key: _with_whole_numbers(item) for key, item in value.items()}
    if type(value) is list:
        return [_with_whole_numbers(item) for item in value]
    return int(value) if type(value) is float and value.is_integer() else value


# Runtimes


def a_runtime(template: Json | None = None, **spec: Any) -> Json:
    return {
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "r"},
        "spec": {**spec, "template": template or {}},
    }


RUNTIMES = {
    "the default word of torch goes with a note": (
        a_runtime(mlPolicy={"numNodes": 2, "torch": {"numProcPerNode": "auto"}}),
        "2.3",
        a_runtime(mlPolicy={"numNodes": 2, "torch": {}}),
        [
            (
                "spec.mlPolicy.torch.numProcPerNode: left out, since Trainer 2.3 has no such field and does what auto "
                "says"
            )
        ],
    ),
    "any other number of processes is the TrainJob's": (
        a_runtime(mlPolicy={"torch": {"numProcPerNode": 4}}),
        "2.2",
        None,
        [
            (
                "spec.mlPolicy.torch.numProcPerNode: Forbidden: Trainer 2.2 has no such field: set "
                "spec.trainer.numProcPerNode in the TrainJobs"
            )
        ],
    ),
    "the elastic policy is gone": (
        a_runtime(mlPolicy={"torch": {"elasticPolicy": {}}}),
        "2.2",
        None,
        [
            (
                "spec.mlPolicy.torch.elasticPolicy: Forbidden: Trainer 2.2 has no such field, and no Trainer acts on "
                "it: leave it out"
            )
        ],
    ),
    "words and elastic policy stay between the old lines": (
        a_runtime(mlPolicy={"torch": {"numProcPerNode": "gpu", "elasticPolicy": {"minNodes": 1}}}),
        "2.0",
        a_runtime(mlPolicy={"torch": {"numProcPerNode": "gpu", "elasticPolicy": {"minNodes": 1}}}),
        [],
    ),
    "injection into other containers is 2.3's": (
        a_runtime(mlPolicy={"torch": {"envInjection": {"targets": []}}}),
        "2.2",
        None,
        [
            (
                "spec.mlPolicy.torch.envInjection: Forbidden: Trainer 2.2 has no such field (Trainer 2.3 has): leave "
                "it out, or stay with a Trainer that has it"
            )
        ],
    ),
    "jax needs 2.2, an empty policy being one": (
        a_runtime(mlPolicy={"jax": {}}),
        "2.1",
        None,
        [
            (
                "spec.mlPolicy.jax: Forbidden: Trainer 2.1 has no such field (Trainer 2.2 and later have): leave it "
                "out, or stay with a Trainer that has it"
            )
        ],
    ),
    "volcano needs 2.1": (
        a_runtime(podGroupPolicy={"volcano": {}}),
        "2.0",
        None,
        [
            (
                "spec.podGroupPolicy.volcano: Forbidden: Trainer 2.0 has no such field (Trainer 2.1 and later have): "
                "leave it out, or stay with a Trainer that has it"
            )
        ],
    ),
    "2.0 wants an MPI implementation": (
        a_runtime(mlPolicy={"mpi": {"mpiImplementation": ""}}),
        "2.0",
        None,
        [
            (
                'spec.mlPolicy.mpi.mpiImplementation: Unsupported value: "": supported values: "OpenMPI"'
            )
        ],
    ),
    "fields of newer JobSets are found in the template": (
        a_runtime({"spec": {"replicatedJobs": [{"name": "a", "groupName": "g", "foo": 1}]}}),
        "2.0",
        None,
        [
            (
                "spec.template.spec.replicatedJobs[0].groupName: Forbidden: Trainer 2.0 has no such field (Trainer 2.1 "
                "and later have): leave it out, or stay with a Trainer that has it"
            )
        ],
    ),
    "unknown fields are kept": (
        a_runtime({"foo": 1, "spec": {"replicatedJobs": [{"name": "a", "bar": {}}]}}),
        "2.0",
        a_runtime({"foo": 1, "spec": {"replicatedJobs": [{"name": "a", "bar": {}}]}}),
        [],
    ),
    "a mixture names both fields": (
        a_runtime(mlPolicy={"torch": {"numProcPerNode": 1}, "jax": {}}),
        "2.3",
        None,
        [
            (
                "spec.mlPolicy.jax: Forbidden: is a field of Trainer 2.2 and later, and "
                "spec.mlPolicy.torch.numProcPerNode one of Trainer 2.0 and 2.1: an object can be of one generation only"
            )
        ],
    ),
}


@pytest.mark.parametrize(("raw", "to", "want", "findings"), RUNTIMES.values(), ids=RUNTIMES)
def test_runtimes(raw: Json, to: str, want: Json | None, findings: list[str]) -> None:
    before = deepcopy(raw)
    converted = generations.convert(raw, LINES[to])
    assert raw == before
    assert [*map(str, converted.findings.errors), *converted.findings.warnings] == findings
    assert converted.obj == (raw if want is None else want)
    assert bool(converted.findings.errors) == (want is None)


# Whatever comes

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "spec", "metadata", "$patch", "x"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
FULL = [
    job(
        labels={"l": "1"},
        trainer={"numProcPerNode": "auto", "env": env(A="1")},
        podTemplateOverrides=[
            template_override(
                "a",
                metadata={"labels": {"l": "1"}},
                containers=mounting(v="/v"),
            ),
            template_override("a", **SELECTOR),
        ],
    ),
    job(podSpecOverrides=[spec_override("a", "b", **SELECTOR, initContainers=[{"name": "i"}])]),
    job(
        activeDeadlineSeconds=1,
        runtimePatches=[
            patch("a.io/b", patched("a", metadata={"labels": {}}, **SELECTOR), labels={"l": "1"}),
            patch("a.io/c", {"name": "a", "template": {"metadata": {}}}),
        ],
    ),
    a_runtime(
        {"spec": {"replicatedJobs": [{"name": "a", "template": {"spec": {}}}]}},
        mlPolicy={"torch": {"numProcPerNode": "auto"}, "mpi": {}},
        podGroupPolicy={"coscheduling": {}},
    ),
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if type(value) is dict:
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif type(value) is list:
        for i, item in enumerate(value):
            yield from _places(item, (*path, i))


@st.composite
def spoiled(draw: st.DrawFn) -> Json:
    """An object with any JSON in one or two places, new fields among them."""
    raw = plain(draw(st.sampled_from(FULL)))
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from([p for p in _places(raw) if p]))
        holder = _parent(raw, path)
        if type(holder) is dict and draw(st.booleans()):
            holder["x"] = draw(ANY_JSON)
        else:
            holder[path[-1]] = draw(ANY_JSON)
    return raw


def _parent(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path[:-1]:
        value = value[step]
    return value


@given(raw=spoiled(), to=st.sampled_from(list(LINES)))
def test_no_shape_of_any_field_makes_it_raise_or_changes_the_input(raw: Json, to: str) -> None:
    before = json.dumps(raw)
    converted = generations.convert(raw, LINES[to])
    assert json.dumps(raw) == before
    assert_nothing_shared(raw, converted.obj)
    if converted.findings.errors:
        assert json.dumps(converted.obj) == before
    # What was converted once is of that line.
    again = generations.convert(converted.obj, LINES[to])
    if not converted.findings.errors:
        assert again.obj == converted.obj
        assert not again.findings.errors
