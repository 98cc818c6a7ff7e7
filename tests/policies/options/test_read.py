from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from plugins.framework import lines
from plugins.framework.field import Path
from policies.document import Expression
from policies.options import KEYS, OPTIONS, Option, missing, read
from policies.options.job import Naming
from policies.options.metadata import Annotations, Labels, SpecAnnotations, SpecLabels
from policies.options.pods import (
    ContainerOverride,
    PodSpecOverride,
    PodTemplateOverrides,
    RuntimePatches,
    as_document,
)
from policies.options.trainer import TrainerArgs, TrainerCommand
from policies.writes import Mode
from tests.builders import container, make_runtime
from tests.plugins.kit import compiled, table
from tests.policies.kit import MODES, options, problems

E = {"expression": "object.x"}


def one(mode: Mode, raw: Any) -> Option:
    [found] = options(mode, raw)
    return found


@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: o.name)
def test_every_option_reads_its_own_example_in_its_modes(option: type[Option]) -> None:
    raw = yaml.safe_load(option.facts.example)
    for mode in MODES:
        if mode in option.facts.modes:
            assert [type(found) for found in options(mode, raw)] == [option]
        else:
            assert problems(mode, raw)


def test_options_have_names_and_keys_of_their_own_and_say_what_each_line_makes_of_them() -> None:
    assert len({o.name for o in OPTIONS}) == len({o.key for o in OPTIONS}) == len(OPTIONS)
    assert {o.key.partition(".")[0] for o in OPTIONS} | {"options"} == set(KEYS)
    for option in OPTIONS:
        assert [name for name, _ in option.facts.lines] == list(lines.LINES), option


@dataclass(frozen=True)
class Mistake:
    """A section and all that is said of it, without the ``spec.<mode>.`` in front."""

    raw: Any
    says: tuple[str, ...]
    mode: Mode = "overrides"
    pieces: bool = field(default=False)


def spec(**fields: Any) -> dict[str, Any]:
    return {"podTemplateOverrides": [{"spec": fields}]}


SPEC = "podTemplateOverrides[0].spec"


@table(
    {
        "no object": Mistake(5, (": Invalid value: 5: must be an object",)),
        "an unknown key": Mistake(
            {"lables": {}}, (".lables: Forbidden: no such field; did you mean labels?",)
        ),
        "snake case is known": Mistake(
            {"spec_labels": {"a": "b"}},
            (".spec_labels: Forbidden: no such field; did you mean specLabels?",),
        ),
        "nothing like it": Mistake(
            {"trainer": {"zzz": 1}},
            (
                ".trainer.zzz: Forbidden: no such field; fields here: args, command, env, force, image, numNodes, "
                "numProcPerNode, resourcesPerNode",
            ),
        ),
        "a label's value of another type": Mistake(
            {"labels": {"a": 1}},
            (".labels[a]: Invalid value: 1: must be a string, or {expression: ...}",),
        ),
        "our own annotation": Mistake(
            {"annotations": {"stationmaster.dev/applied": "x"}},
            (
                ".annotations[stationmaster.dev/applied]: Forbidden: Stationmaster writes this annotation itself",
            ),
        ),
        "suspend as a default": Mistake(
            {"suspend": True},
            (
                ".suspend: Forbidden: the CRD's default arrives before us, so a job without it cannot be told from one "
                "that says so: set it under overrides",
            ),
            mode="defaults",
        ),
        "managedBy by nobody": Mistake(
            {"managedBy": "me"},
            (
                '.managedBy: Invalid value: "me": must be trainer.kubeflow.org/trainjob-controller or '
                "kueue.x-k8s.io/multikueue",
            ),
        ),
        "a range as a default": Mistake(
            {"trainer": {"numNodes": {"max": 3}}},
            (
                ".trainer.numNodes: Forbidden: a range is only for overrides: a default is one value; write it, or "
                "{expression: ...}",
            ),
            mode="defaults",
        ),
        "an impossible range": Mistake(
            {"activeDeadlineSeconds": {"min": 5, "max": 3}},
            (".activeDeadlineSeconds.min: Invalid value: 5: must not be above max, 3",),
        ),
        "a range without bounds": Mistake(
            {"activeDeadlineSeconds": {}},
            (".activeDeadlineSeconds: Required value: must have min, max or both",),
        ),
        "a deadline of true": Mistake(
            {"activeDeadlineSeconds": True},
            (".activeDeadlineSeconds: Invalid value: true: must be a whole number",),
        ),
        "a deadline of zero": Mistake(
            {"activeDeadlineSeconds": 0},
            (".activeDeadlineSeconds: Invalid value: 0: must be at least 1",),
        ),
        "a deadline as text": Mistake(
            {"activeDeadlineSeconds": "5"},
            ('.activeDeadlineSeconds: Invalid value: "5": must be a whole number',),
        ),
        "nodes beyond int32": Mistake(
            {"trainer": {"numNodes": 2**31}},
            (".trainer.numNodes: Invalid value: 2147483648: must be at most 2147483647",),
        ),
        "an empty command": Mistake(
            {"trainer": {"command": []}},
            (
                ".trainer.command: Required value: must not be empty: leave the field out to write nothing",
            ),
        ),
        "force without words": Mistake(
            {"trainer": {"image": "i", "force": True}},
            (".trainer.force: Forbidden: is about command and args, and neither is here",),
        ),
        "an amount that is none": Mistake(
            {"trainer": {"resourcesPerNode": {"limits": {"memory": "10GB"}}}},
            (".trainer.resourcesPerNode.limits[memory]: Invalid value", "10GB"),
            pieces=True,
        ),
        "no overrides at all": Mistake(
            {"podTemplateOverrides": []},
            (".podTemplateOverrides: Required value: must have at least one item",),
        ),
        "target jobs as text": Mistake(
            {"podTemplateOverrides": [{"targetJobs": "node", "spec": {"serviceAccountName": "a"}}]},
            ('.podTemplateOverrides[0].targetJobs: Invalid value: "node": must be a list',),
        ),
        "no target jobs": Mistake(
            {"podTemplateOverrides": [{"targetJobs": [], "spec": {"serviceAccountName": "a"}}]},
            (
                ".podTemplateOverrides[0].targetJobs: Required value: must name a job; leave it out to mean all jobs",
            ),
        ),
        "an ancestor that is none": Mistake(
            {
                "podTemplateOverrides": [
                    {"targetJobs": [{"ancestor": "x"}], "spec": {"serviceAccountName": "a"}}
                ]
            },
            (
                '.podTemplateOverrides[0].targetJobs[0].ancestor: Unsupported value: "x": supported values: "trainer", '
                '"dataset-initializer", "model-initializer"',
            ),
        ),
        "a blank container name": Mistake(
            spec(containers=[{"name": " "}]),
            (f".{SPEC}.containers[0].name: Required value: must be the name of a container",),
        ),
        "a container name of another type": Mistake(
            spec(containers=[{"name": 5}]), (f".{SPEC}.containers[0].name", "string"), pieces=True
        ),
        "env that is no list": Mistake(
            spec(containers=[{"name": "a", "env": {}}]),
            (f".{SPEC}.containers[0].env: Invalid value: {{}}: must be a list, not object",),
        ),
        "env of nothing": Mistake(
            spec(containers=[{"name": "a", "env": [{"name": "A"}]}]),
            (f".{SPEC}.containers[0].env[0]: Required value: must have value or valueFrom",),
        ),
        "env of both": Mistake(
            spec(
                containers=[
                    {
                        "name": "a",
                        "env": [
                            {
                                "name": "A",
                                "value": "x",
                                "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
                            }
                        ],
                    }
                ]
            ),
            (f".{SPEC}.containers[0].env[0].valueFrom: Forbidden: may not be set beside value",),
        ),
        "env of a source that the Trainer drops": Mistake(
            {
                "trainer": {
                    "env": [
                        {
                            "name": "A",
                            "valueFrom": {
                                "fileKeyRef": {"key": "k", "path": "p", "volumeName": "v"}
                            },
                        }
                    ]
                }
            },
            (
                ".trainer.env[0].valueFrom: Required value: must have one of configMapKeyRef, secretKeyRef, fieldRef, "
                "resourceFieldRef",
            ),
        ),
        "a name twice": Mistake(
            {"trainer": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}},
            ('.trainer.env[1].name: Duplicate value: "A"',),
        ),
        "amounts that no pod may ask for": Mistake(
            {
                "trainer": {
                    "resourcesPerNode": {
                        "limits": {"gpu": 1, "nvidia.com/gpu": "500m", "cpu": E},
                        "requests": {"memory": "-1"},
                    }
                }
            },
            (
                ".trainer.resourcesPerNode.limits[gpu]: Invalid value: 1: must be of cpu, memory",
                '.trainer.resourcesPerNode.limits[nvidia.com/gpu]: Invalid value: "500m": must be a whole number',
                '.trainer.resourcesPerNode.requests[memory]: Invalid value: "-1": must be 0 or more',
            ),
            pieces=True,
        ),
        "a relative mount": Mistake(
            spec(containers=[{"name": "a", "volumeMounts": [{"name": "v", "mountPath": "x"}]}]),
            (
                f'.{SPEC}.containers[0].volumeMounts[0].mountPath: Invalid value: "x": must begin with /',
            ),
        ),
        "what no patch can set": Mistake(
            spec(containers=[{"name": "a", "image": "i"}]),
            (f".{SPEC}.containers[0].image: Forbidden: no such field",),
            pieces=True,
        ),
        "a merge directive": Mistake(
            spec(nodeSelector={"$patch": "delete"}),
            (
                f".{SPEC}.nodeSelector[$patch]: Forbidden: merge directives are not allowed: the Trainer would act on "
                "them",
            ),
        ),
        "a toleration that no pod may have": Mistake(
            spec(tolerations=[{"key": "a", "operator": "Exists", "value": "x"}]),
            (f".{SPEC}.tolerations[0].value: Invalid value", "must be empty"),
            pieces=True,
        ),
        "a selector that no pod may have": Mistake(
            spec(nodeSelector={"a b": "x", "pool": "no pool"}),
            (
                f'.{SPEC}.nodeSelector[a b]: Invalid value: "a b": name part must consist of',
                f'.{SPEC}.nodeSelector[pool]: Invalid value: "no pool": a valid label must be',
            ),
            pieces=True,
        ),
        "an expression for a whole spec that is none": Mistake(
            {"podTemplateOverrides": [{"spec": {"expression": 5}}]},
            (
                ".podTemplateOverrides[0].spec.expression: Invalid value: 5: must be a CEL expression, as a string",
            ),
        ),
        "an expression for a whole spec": Mistake(
            {"podTemplateOverrides": [{"spec": E}]},
            (f".{SPEC}: Forbidden: write the expressions for the fields",),
            pieces=True,
        ),
        "an expression for a name": Mistake(
            {"trainer": {"env": [{"name": E, "value": "1"}]}},
            (
                ".trainer.env[0].name: Forbidden: must be written out: items are told apart by their name",
            ),
        ),
        "an expression that is no text": Mistake(
            {"trainer": {"numNodes": {"expression": 5}}},
            (
                ".trainer.numNodes.expression: Invalid value: 5: must be a CEL expression, as a string",
            ),
        ),
        "a manager": Mistake(
            {
                "runtimePatches": [
                    {
                        "manager": "acme.io/x",
                        "trainingRuntimeSpec": {"template": {"metadata": {"labels": {"a": "b"}}}},
                    }
                ]
            },
            (
                ".runtimePatches[0].manager: Forbidden: policies write under stationmaster.dev/defaults and "
                "stationmaster.dev/overrides: leave it out",
            ),
        ),
        "a Secret without a name": Mistake(
            {"initializer": {"dataset": {"secretRef": {}}}},
            (".initializer.dataset.secretRef.name: Required value",),
        ),
        "a pattern that is an expression": Mistake(
            {"naming": {"pattern": E}},
            (".naming.pattern: Invalid value", "must be a regular expression (RE2), written out"),
            pieces=True,
        ),
        "a prefix that no name may have": Mistake(
            {"naming": {"generateNamePrefix": "Team_"}},
            (".naming.generateNamePrefix: Invalid value", "lower-case"),
            pieces=True,
        ),
        "a word for processes": Mistake(
            {"trainer": {"numProcPerNode": "all"}},
            (
                '.trainer.numProcPerNode: Unsupported value: "all": supported values: "auto", "cpu", "gpu"',
            ),
        ),
    }
)
def test_mistakes_are_told_by_path(case: Mistake) -> None:
    found = problems(case.mode, case.raw)
    if case.pieces:
        assert all(any(piece in text for text in found) for piece in case.says), found
    else:
        assert found == [f"spec.{case.mode}{text}" for text in case.says]


def test_all_mistakes_are_told_at_once() -> None:
    raw = {"labels": {"a": 1}, "trainer": {"x": 1, "numNodes": 0}, "naming": {}, "foo": 1}
    assert len(problems("defaults", raw)) == 5


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "raw", [None, 5, "x", [], [1], {}, {"x": None}, True, [[]], {"expression": 1}, [{"x": 1}]]
)
@pytest.mark.parametrize("mode", MODES)
def test_any_shape_is_read_without_a_crash(mode: Mode, key: str, raw: Any) -> None:
    found, errors = read(mode, {key: raw}, Path("spec"))
    assert errors or found or raw == {} or key == "suspend"


def test_maps_of_text_are_never_an_expression_as_a_whole() -> None:
    found = one("defaults", {"labels": {"expression": "just-text"}})
    assert isinstance(found, Labels)
    assert found.labels == {"expression": "just-text"}
    pods = one("defaults", spec(nodeSelector={"expression": "just-text"}))
    assert list(pods.expressions()) == []


def test_expressions_are_given_with_their_places() -> None:
    raw = {
        "labels": {"a": E},
        "trainer": {"numNodes": {"min": E, "max": 8}, "env": [{"name": "A", "value": E}]},
        "naming": {"pattern": "a.*", "generateNamePrefix": E},
    } | spec(tolerations=E, nodeSelector={"pool": E})
    found = {str(e.path): e.text for o in options("overrides", raw) for e in o.expressions()}
    assert found == {
        "spec.overrides.labels[a].expression": "object.x",
        "spec.overrides.trainer.env[0].value.expression": "object.x",
        "spec.overrides.trainer.numNodes.min.expression": "object.x",
        "spec.overrides.naming.pattern": 'object.metadata.name.matches("^(?:a.*)$")',
        "spec.overrides.naming.generateNamePrefix.expression": "object.x",
        "spec.overrides.podTemplateOverrides[0].spec.tolerations.expression": "object.x",
        "spec.overrides.podTemplateOverrides[0].spec.nodeSelector[pool].expression": "object.x",
    }


def test_classes_have_the_sdks_fields() -> None:
    labels = one("defaults", {"specLabels": {"a": "b"}})
    assert isinstance(labels, SpecLabels)
    assert labels.labels == {"a": "b"}
    for key, kind in (("annotations", Annotations), ("specAnnotations", SpecAnnotations)):
        found = one("defaults", {key: {"a": "b"}})
        assert isinstance(found, kind)
        assert found.annotations == {"a": "b"}
    command, args = options("defaults", {"trainer": {"command": ["c"], "args": ["a"]}})
    assert isinstance(command, TrainerCommand)
    assert isinstance(args, TrainerArgs)
    assert (command.command, args.args) == (["c"], ["a"])
    raw = spec(serviceAccountName="sa", containers=[{"name": "c", "volumeMounts": []}])
    pods = one("defaults", raw)
    assert isinstance(pods, PodTemplateOverrides)
    [override] = pods.overrides
    assert override.spec == PodSpecOverride(
        service_account_name="sa", containers=(ContainerOverride(name="c", volume_mounts=[]),)
    )
    assert as_document(override.spec) == raw["podTemplateOverrides"][0]["spec"]


def test_patches_keep_the_sdks_nesting() -> None:
    nested = {"template": {"metadata": {"labels": {"a": "b"}}}}
    found = one("defaults", {"runtimePatches": [{"trainingRuntimeSpec": nested}]})
    assert isinstance(found, RuntimePatches)
    assert found.patches[0].training_runtime_spec == nested


@pytest.mark.parametrize(
    ("line", "raw", "refused"),
    [
        ("2.0", {"activeDeadlineSeconds": 5}, ["spec.overrides.activeDeadlineSeconds"]),
        ("2.1", {"activeDeadlineSeconds": 5}, ["spec.overrides.activeDeadlineSeconds"]),
        ("2.2", {"activeDeadlineSeconds": 5}, []),
        ("2.0", spec(serviceAccountName="a"), [f"spec.overrides.{SPEC}.serviceAccountName"]),
        (
            "2.0",
            spec(containers=[{"name": "node", "env": [{"name": "A", "value": "1"}]}]),
            [],
        ),
        (
            "2.1",
            spec(securityContext={"fsGroup": 5}),
            [f"spec.overrides.{SPEC}.securityContext.fsGroup"],
        ),
        ("2.2", spec(securityContext={"fsGroup": 5}), []),
        (
            "2.2",
            spec(terminationGracePeriodSeconds=5),
            [f"spec.overrides.{SPEC}.terminationGracePeriodSeconds"],
        ),
        ("2.3", spec(terminationGracePeriodSeconds=5), []),
        ("2.1", {"trainer": {"numProcPerNode": "cpu"}}, []),
        ("2.2", {"trainer": {"numProcPerNode": "cpu"}}, ["spec.overrides.trainer.numProcPerNode"]),
        ("2.3", {"trainer": {"numProcPerNode": "auto"}}, ["spec.overrides.trainer.numProcPerNode"]),
        ("2.0", {"specLabels": {"a": "b"}}, []),
    ],
)
def test_what_a_line_has_no_words_for_is_known_beforehand(
    line: str, raw: Any, refused: list[str]
) -> None:
    found = [e for o in options("overrides", raw) for e in o.inexpressible(lines.LINES[line])]
    assert [e.field for e in found] == refused
    assert all("Trainer" in str(e) for e in found)


def test_auto_is_what_absence_means_as_a_default() -> None:
    found = one("defaults", {"trainer": {"numProcPerNode": "auto"}})
    assert found.inexpressible(lines.NEWEST) == []


def test_targets_that_no_runtime_has_are_told_with_those_that_there_are() -> None:
    torch = compiled(make_runtime("a").torch().node(container("node"), container("side")))
    mpi = compiled(make_runtime("b").mpi().job("launcher", "trainer").job("node"))
    raw = {
        "podTemplateOverrides": [
            {"targetJobs": [{"name": "launcher"}], "spec": {"serviceAccountName": "a"}},
            {"targetJobs": [{"name": "nod"}], "spec": {"serviceAccountName": "a"}},
            {"spec": {"containers": [{"name": "sid", "env": [{"name": "A", "value": "1"}]}]}},
            {
                "targetJobs": [{"name": "node"}],
                "spec": {
                    "initContainers": [{"name": "side", "env": [{"name": "A", "value": "1"}]}]
                },
            },
        ]
    }
    found = missing(options("defaults", raw), [torch, mpi])
    assert [str(e) for e in found] == [
        'spec.defaults.podTemplateOverrides[1].targetJobs[0].name: Not found: "nod": jobs of the runtimes: launcher, node',
        'spec.defaults.podTemplateOverrides[2].spec.containers[0].env[0]: Not found: "sid": containers of the runtimes: node, side',
        'spec.defaults.podTemplateOverrides[3].spec.initContainers[0].env[0]: Not found: "side": initContainers of job node: none',
    ]


def test_naming_reads_a_pattern_of_any_characters_as_one_literal() -> None:
    found = one("overrides", {"naming": {"pattern": 'a"b\\d'}})
    assert isinstance(found, Naming)
    assert found.pattern == Expression(
        'object.metadata.name.matches("^(?:a\\"b\\\\d)$")',
        Path("spec", "overrides", "naming", "pattern"),
    )
