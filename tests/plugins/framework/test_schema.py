"""The schema package against the API server's own code, and its rules one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import schema
from plugins.framework.field import ErrorType, FieldError
from plugins.framework.schema.cel import RULES
from plugins.framework.schema.check import MOST_ERRORS, MOST_VALUES
from plugins.framework.schema.node import Node

DATA = Path(__file__).resolve().parents[2] / "data" / "schema"
TABLES = Path(schema.__file__).resolve().parents[1] / "tables"
SHOWN = 150
"""Characters of a message that are compared: long values are cut here, not there."""
REQUESTED = {
    "namespace",
    "resourceVersion",
    "generation",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
}
CHECKED = "Checked value must be"
UNCHECKED = "some validation rules were not checked"
NAME_RULES = (
    "metadata.name must match RFC 1035 DNS label format",
    "metadata.name must be no more than 63 characters",
)


def differences(case: dict[str, Any]) -> list[str]:
    """What we say about a case that the API server does not say, and the other way round."""
    answer = case["want"]
    admitted = schema.load(case["line"]).admit(case["kind"], case["obj"], case.get("old"))
    theirs = [(reason, where, body[:SHOWN]) for reason, where, body in answer["errors"]]
    if theirs and theirs[0][0] == "BadRequest":
        ours = [e for e in admitted.errors if str(e.path).startswith("metadata")]
        return [] if ours else [f"not refused: {theirs[0][2]}"]
    partial = any(UNCHECKED in body for _, _, body in theirs)
    got = {as_server(error) for error in admitted.errors}
    want = {error for error in theirs if error in got or not is_echo(error, theirs, "old" in case)}
    if "old" not in case and not admitted.obj["metadata"].get("name"):
        # They blame the generated name as well; we only what it is made from.
        want = {error for error in want if error[1] != "metadata.name" or "Required" in error[2]}
    found = [f"only they: {error}" for error in sorted(want - got)]
    found += [f"only we:   {error}" for error in sorted(got - want)]
    if partial != admitted.partial:
        found.append(f"partial: they {partial}, we {admitted.partial}")
    if sorted(answer["pruned"]) != sorted(admitted.pruned):
        found.append(f"pruned: they {sorted(answer['pruned'])}, we {sorted(admitted.pruned)}")
    if kept(answer["obj"]) != kept(admitted.obj):
        found.append(f"object: they {kept(answer['obj'])}, we {kept(admitted.obj)}")
    return found


def is_echo(error: tuple[str, ...], theirs: list[tuple[str, str, str]], updates: bool) -> bool:
    """Whether we leave one of their errors out on purpose.

    It may only repeat another error (see the module ``check``), or be about an unchanged place where a rule
    cannot be evaluated, which cannot have been stored.
    """
    _, where, body = error
    once_more = body.replace("type integer:", "type integer,string:")
    return (
        UNCHECKED in body
        or body.endswith("(anyOf)")
        or (CHECKED in body and any(is_wrong_type_at(body, *their) for their in theirs))
        or (updates and (" evaluating rule: " in body or "no such overload" in body))
        or (once_more != body and (error[0], where, once_more) in theirs)
    )


def is_wrong_type_at(body: str, reason: str, where: str, _: str) -> bool:
    """Whether an error is about the type of the field with which a message ends, perhaps cut."""
    return reason == "FieldValueTypeInvalid" and where.startswith(body.rpartition(" in ")[2])


def as_server(error: FieldError) -> tuple[str, str, str]:
    """One of our findings as the API server puts it, where we put it better on purpose."""
    if error.detail in NAME_RULES:
        return error.type.reason, "<nil>", f"Invalid value: {error.detail}"
    if error.detail.startswith(CHECKED):
        return error.type.reason, "<nil>", f'Invalid value: "": {error.detail}'[:SHOWN]
    path = str(error.path)
    if path.startswith("metadata.labels["):
        path = "metadata.labels"
    return error.type.reason, path, error.body[:SHOWN]


def kept(obj: dict[str, Any]) -> dict[str, Any]:
    """The part of an object that a file can say: the namespace and the version are the request's."""
    meta = {k: v for k, v in obj.get("metadata", {}).items() if k not in REQUESTED}
    out: dict[str, Any] = as_floats(obj | {"metadata": meta})
    return out


def as_floats(value: Any) -> Any:
    """The same with integers beyond 64 bits as floats, which is what Go holds them in."""
    if isinstance(value, dict):
        return {name: as_floats(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_floats(item) for item in value]
    return float(value) if type(value) is int and abs(value) >= 2**63 else value


@pytest.mark.parametrize("line", schema.LINES)
def test_recorded_answers_of_the_api_server(line: str) -> None:
    rows = orjson.loads((DATA / f"{line}.json").read_bytes())
    assert len(rows) >= 100
    assert [found for row in rows if (found := differences(row))] == []


def train_job(spec: Mapping[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "a", "namespace": "team"} | meta,
        "spec": {"runtimeRef": {"name": "torch"}} | dict(spec or {}),
    }


def runtime(spec: Any, kind: str = "ClusterTrainingRuntime") -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": "a"},
        "spec": spec,
    }


def patch(pod: Any, manager: str = "m") -> dict[str, Any]:
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    return {
        "manager": manager,
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }


def claims(namespace: str) -> dict[str, Any]:
    return {"templates": [{"metadata": {"name": "c", "namespace": namespace}, "spec": {}}]}


POD = (
    "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
    ".template.spec.template.spec"
)
NOT_1035 = "metadata.name must match RFC 1035 DNS label format"
TOO_LONG_A_NAME = "metadata.name must be no more than 63 characters"
NOT_A_URI = "storageUri may be empty, or it must be a valid URI (scheme://...)"
ONE_POLICY = "spec.mlPolicy: Invalid value: Only one of the policy can be configured"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@dataclass
class Case:
    obj: dict[str, Any]
    old: dict[str, Any] | None = None
    want: list[str] = field(default_factory=list)
    line: str = "2.3"


STORAGE = "spec.initializer.dataset.storageUri"
CASES = {
    "a TrainJob with a runtimeRef alone": Case(train_job()),
    "a TrainJob without spec is none of the schema's business": Case(
        {k: v for k, v in train_job().items() if k != "spec"}
    ),
    "an empty spec needs a runtimeRef": Case(
        train_job() | {"spec": {}}, want=["spec.runtimeRef: Required value"]
    ),
    "MultiKueue may manage": Case(train_job({"managedBy": "kueue.x-k8s.io/multikueue"})),
    "nobody else may manage": Case(
        train_job({"managedBy": "x"}),
        want=[
            (
                'spec.managedBy: Invalid value: "x": ManagedBy must be trainer.kubeflow.org/trainjob-controller or '
                "kueue.x-k8s.io/multikueue if set"
            )
        ],
    ),
    "the manager stays": Case(
        train_job({"managedBy": "kueue.x-k8s.io/multikueue"}),
        old=train_job(),
        want=['spec.managedBy: Invalid value: "kueue.x-k8s.io/multikueue": field is immutable'],
    ),
    "leaving the manager out is the default, and so a change": Case(
        train_job(),
        old=train_job({"managedBy": "kueue.x-k8s.io/multikueue"}),
        want=[
            'spec.managedBy: Invalid value: "trainer.kubeflow.org/trainjob-controller": field is immutable'
        ],
    ),
    "the manager stays, in older words": Case(
        train_job({"managedBy": "kueue.x-k8s.io/multikueue"}),
        old=train_job(),
        want=[
            'spec.managedBy: Invalid value: "kueue.x-k8s.io/multikueue": ManagedBy value is immutable'
        ],
        line="2.1",
    ),
    "the runtime stays": Case(
        train_job({"runtimeRef": {"name": "mpi"}}),
        old=train_job(),
        want=["spec.runtimeRef: Invalid value: field is immutable"],
    ),
    "the trainer stays": Case(
        train_job({"trainer": {"image": "b"}}),
        old=train_job({"trainer": {"image": "a"}}),
        want=["spec.trainer: Invalid value: field is immutable"],
    ),
    "the trainer may be turned round where order says nothing": Case(
        train_job({"trainer": {"env": [{"name": "B"}, {"name": "A"}]}}),
        old=train_job({"trainer": {"env": [{"name": "A"}, {"name": "B"}]}}),
    ),
    "the trainer may come": Case(train_job({"trainer": {}}), old=train_job()),
    "the trainer may go": Case(train_job(), old=train_job({"trainer": {}})),
    "the trainer of 2.1 may change": Case(
        train_job({"trainer": {"image": "b"}}),
        old=train_job({"trainer": {"image": "a"}}),
        line="2.1",
    ),
    "the initializer stays": Case(
        train_job({"initializer": {"dataset": {"storageUri": "s3://b"}}}),
        old=train_job({"initializer": {"dataset": {"storageUri": "s3://a"}}}),
        want=["spec.initializer: Invalid value: field is immutable"],
    ),
    "the deadline is at least a second": Case(
        train_job({"activeDeadlineSeconds": 0}),
        want=[
            (
                "spec.activeDeadlineSeconds: Invalid value: 0: spec.activeDeadlineSeconds in body should be greater "
                "than or equal to 1"
            )
        ],
    ),
    "the deadline stays": Case(
        train_job({"activeDeadlineSeconds": 20}),
        old=train_job({"activeDeadlineSeconds": 10}),
        want=["spec.activeDeadlineSeconds: Invalid value: 20: field is immutable"],
    ),
    "a name of 63 characters": Case(train_job(name="a" * 63)),
    "a name of 64 characters": Case(
        train_job(name="a" * 64),
        want=[f'metadata.name: Invalid value: "{"a" * 64}": {TOO_LONG_A_NAME}'],
    ),
    "a name of 64 characters in 2.0, where the webhook refuses it": Case(
        train_job(name="a" * 64), line="2.0"
    ),
    "a name in capitals": Case(
        train_job(name="A"),
        want=[
            f'metadata.name: Invalid value: "A": {SUBDOMAIN}',
            f'metadata.name: Invalid value: "A": {NOT_1035}',
        ],
    ),
    "a name that begins with a digit": Case(
        train_job(name="1a"), want=[f'metadata.name: Invalid value: "1a": {NOT_1035}']
    ),
    "a prefix is judged as the name that it makes": Case(
        train_job(name="", generateName="1a-"),
        want=[f'metadata.generateName: Invalid value: "1a-": {NOT_1035}'],
    ),
    "a long prefix is cut": Case(train_job(name="", generateName="a" * 100)),
    "neither name nor prefix": Case(
        train_job(name=""),
        want=["metadata.name: Required value: name or generateName is required"],
    ),
    "no URI": Case(
        train_job({"initializer": {"dataset": {"storageUri": "invalid-uri"}}}),
        want=[f'{STORAGE}: Invalid value: "invalid-uri": {NOT_A_URI}'],
    ),
    "an empty URI": Case(train_job({"initializer": {"dataset": {"storageUri": ""}}})),
    "a scheme is no URI": Case(
        train_job({"initializer": {"dataset": {"storageUri": "s3://"}}}),
        want=[f'{STORAGE}: Invalid value: "s3://": {NOT_A_URI}'],
    ),
    "a URI": Case(train_job({"initializer": {"model": {"storageUri": "hf://org/model"}}})),
    "2.2 takes any text for a URI": Case(
        train_job({"initializer": {"dataset": {"storageUri": "x"}}}), line="2.2"
    ),
    "a long command": Case(train_job({"trainer": {"command": ["x" * 1048576]}})),
    "too long a command": Case(
        train_job({"trainer": {"command": ["x" * 1048577]}}),
        want=["spec.trainer.command[0]: Too long: may not be more than 1048576 bytes"],
    ),
    "negative grace": Case(
        train_job({"runtimePatches": [patch({"terminationGracePeriodSeconds": -1})]}),
        want=[
            (
                f"{POD}.terminationGracePeriodSeconds: Invalid value: -1: {POD}.terminationGracePeriodSeconds in body "
                "should be greater than or equal to 0"
            )
        ],
    ),
    "the grace of a patch stays": Case(
        train_job({"runtimePatches": [patch({"terminationGracePeriodSeconds": 1})]}),
        old=train_job({"runtimePatches": [patch({"terminationGracePeriodSeconds": 2})]}),
        want=[f"{POD}.terminationGracePeriodSeconds: Invalid value: 1: field is immutable"],
    ),
    "volumes of a patch stay": Case(
        train_job({"runtimePatches": [patch({"volumes": [{"name": "b"}]})]}),
        old=train_job({"runtimePatches": [patch({"volumes": [{"name": "a"}]})]}),
        want=[f"{POD}.volumes: Invalid value: field is immutable"],
    ),
    "the nodeSelector of a patch may change": Case(
        train_job({"runtimePatches": [patch({"nodeSelector": {"a": "b"}})]}),
        old=train_job({"runtimePatches": [patch({"nodeSelector": {"a": "a"}})]}),
    ),
    "patches are found by their manager, not by their place": Case(
        train_job({"runtimePatches": [patch({"volumes": []}, "n"), patch({"volumes": []})]}),
        old=train_job({"runtimePatches": [patch({"volumes": []})]}),
    ),
    "17 patches": Case(
        train_job({"runtimePatches": [{"manager": str(i)} for i in range(17)]}),
        want=["spec.runtimePatches: Too many: 17: must have at most 16 items"],
    ),
    "two patches of one manager": Case(
        train_job({"runtimePatches": [{"manager": "m"}, {"manager": "m"}]}),
        want=['spec.runtimePatches[1]: Duplicate value: {"manager":"m"}'],
    ),
    "a number as text": Case(
        train_job({"trainer": {"numNodes": "2"}}),
        want=[
            (
                'spec.trainer.numNodes: Invalid value: "string": spec.trainer.numNodes in body must be of type '
                'integer: "string"'
            )
        ],
    ),
    "half a node": Case(
        train_job({"trainer": {"numNodes": 2.5}}),
        want=[
            (
                'spec.trainer.numNodes: Invalid value: "float64": spec.trainer.numNodes in body must be of type '
                'int32: "float64"'
            ),
        ],
    ),
    "a whole number with a point": Case(train_job({"trainer": {"numNodes": 2.0}})),
    "more nodes than 32 bits count": Case(
        train_job({"trainer": {"numNodes": 2**31}}),
        want=[
            (
                "spec.trainer.numNodes: Invalid value: 2147483648: Checked value must be of type integer with format "
                "int32 in spec.trainer.numNodes"
            )
        ],
    ),
    "a truth value for a quantity is refused once": Case(
        train_job({"trainer": {"resourcesPerNode": {"limits": {"cpu": True}}}}),
        want=[
            (
                'spec.trainer.resourcesPerNode.limits.cpu: Invalid value: "boolean": '
                "spec.trainer.resourcesPerNode.limits.cpu in body must be of type integer,string: "
                '"boolean"'
            )
        ],
    ),
    "null in a list stays, and is wrong": Case(
        train_job({"trainer": {"env": [None]}}),
        want=[
            'spec.trainer.env[0]: Invalid value: "null": spec.trainer.env[0] in body must be of type object: "null"'
        ],
    ),
    "labels have a syntax": Case(
        train_job(labels={"a b": "x", "c": "-"}),
        want=[
            (
                "metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' "
                "or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
                "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
            (
                'metadata.labels[c]: Invalid value: "-": a valid label must be an empty string or consist of '
                "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
                "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ),
        ],
    ),
    "a label is a text": Case(
        train_job(labels={"a": 1}),
        want=[
            (
                "metadata.labels[a]: Invalid value: 1: json: cannot unmarshal number into Go struct field "
                "ObjectMeta.labels of type string"
            )
        ],
    ),
    "annotations have room for 256 KiB": Case(train_job(annotations={"a": "x" * (262144 - 1)})),
    "and for no more": Case(
        train_job(annotations={"a": "x" * 262144}),
        want=["metadata.annotations: Too long: may not be more than 262144 bytes"],
    ),
    "torch and mpi": Case(runtime({"mlPolicy": {"torch": {}, "mpi": {}}}), want=[ONE_POLICY]),
    "torch and mpi in 2.1": Case(
        runtime({"mlPolicy": {"torch": {}, "mpi": {}}}),
        want=[ONE_POLICY],
        line="2.1",
    ),
    "jax and flux": Case(runtime({"mlPolicy": {"jax": {}, "flux": {}}}), want=[ONE_POLICY]),
    "an MPI nobody knows": Case(
        runtime({"mlPolicy": {"mpi": {"mpiImplementation": "x"}}}),
        want=[
            'spec.mlPolicy.mpi.mpiImplementation: Unsupported value: "x": supported values: "OpenMPI", ""'
        ],
    ),
    "flux with no process": Case(
        runtime({"mlPolicy": {"flux": {"numProcPerNode": 0}}}),
        want=[
            "spec.mlPolicy.flux.numProcPerNode: Invalid value: 0: NumProcPerNode in fluxPolicy must be >= 1"
        ],
    ),
    "env goes to the main container anyway": Case(
        runtime(
            {
                "mlPolicy": {
                    "torch": {
                        "envInjection": {
                            "targets": [{"jobName": "node", "containerNames": ["node", "node"]}]
                        }
                    }
                }
            }
        ),
        want=[
            'spec.mlPolicy.torch.envInjection.targets[0].containerNames[1]: Duplicate value: "node"',
            (
                "spec.mlPolicy.torch.envInjection.targets[0].containerNames: Invalid value: containerNames must not "
                "include the main node container because PET_* envs are always injected into it"
            ),
        ],
    ),
    "env goes somewhere": Case(
        runtime(
            {
                "mlPolicy": {
                    "torch": {
                        "envInjection": {"targets": [{"jobName": "node", "containerNames": []}]}
                    }
                }
            }
        ),
        want=[
            (
                "spec.mlPolicy.torch.envInjection.targets[0].containerNames: Invalid value: 0: "
                "spec.mlPolicy.torch.envInjection.targets[0].containerNames in body should have at least 1 items"
            )
        ],
    ),
    "an empty runtime": Case(
        runtime({}),
        want=["spec: Invalid value: 0: spec in body should have at least 1 properties"],
    ),
    "an order and dependencies": Case(
        runtime(
            {
                "template": {
                    "spec": {
                        "startupPolicy": {"startupPolicyOrder": "InOrder"},
                        "replicatedJobs": [
                            {
                                "name": "a",
                                "dependsOn": [{"name": "b", "status": "Ready"}],
                                "template": {
                                    "spec": {
                                        "template": {"spec": {"containers": [{"name": "node"}]}}
                                    }
                                },
                            }
                        ],
                    }
                }
            }
        ),
        want=[
            "spec.template.spec: Invalid value: StartupPolicy and DependsOn APIs are mutually exclusive"
        ],
    ),
    "the network of a runtime stays": Case(
        runtime({"template": {"spec": {"network": {"subdomain": "b"}}}}),
        old=runtime({"template": {"spec": {"network": {"subdomain": "a"}}}}),
        want=["spec.template.spec.network: Invalid value: Value is immutable"],
    ),
    "words for processes, before 2.2": Case(
        runtime({"mlPolicy": {"torch": {"numProcPerNode": "many"}}}),
        want=[
            (
                "spec.mlPolicy.torch.numProcPerNode: Invalid value: \"\": 'no such overload': call arguments did not "
                "match a supported operator, function or macro signature for rule: NumProcPerNode must be equal to "
                "auto, cpu, gpu, or int value"
            )
        ],
        line="2.1",
    ),
    "words for processes that there are": Case(
        runtime({"mlPolicy": {"torch": {"numProcPerNode": "gpu"}}}), line="2.1"
    ),
    "a number of processes is positive": Case(
        runtime({"mlPolicy": {"torch": {"numProcPerNode": 0}}}),
        want=[
            "spec.mlPolicy.torch.numProcPerNode: Invalid value: 0: NumProcPerNode must be equal to auto, cpu, "
            "gpu, or int value"
        ],
        line="2.1",
    ),
    "elastic or a number of nodes": Case(
        runtime({"mlPolicy": {"numNodes": 1, "torch": {"elasticPolicy": {}}}}),
        want=[
            "spec.mlPolicy: Invalid value: numNodes should not be set if torch.elasticPolicy is configured"
        ],
        line="2.1",
    ),
    "claims of a JobSet have no namespace of their own": Case(
        runtime({"template": {"spec": {"volumeClaimPolicies": [claims("team"), claims("")]}}}),
        want=[
            "spec.template.spec.volumeClaimPolicies[0]: Invalid value: namespace cannot be set for "
            "VolumeClaimPolicies templates"
        ],
    ),
    "a rule that reads what is not there says so": Case(
        runtime(
            {
                "template": {
                    "spec": {
                        "startupPolicy": {"startupPolicyOrder": "InOrder"},
                        "volumeClaimPolicies": [{}, {"templates": [{"spec": {}}]}],
                    }
                }
            }
        ),
        want=[
            'spec.template.spec: Invalid value: "object": no such key: replicatedJobs evaluating rule: StartupPolicy '
            "and DependsOn APIs are mutually exclusive",
            'spec.template.spec.volumeClaimPolicies[0]: Invalid value: "object": no such key: templates evaluating '
            "rule: namespace cannot be set for VolumeClaimPolicies templates",
            'spec.template.spec.volumeClaimPolicies[1]: Invalid value: "object": no such key: metadata evaluating '
            "rule: namespace cannot be set for VolumeClaimPolicies templates",
        ],
    ),
    "a wrong time": Case(
        train_job({"runtimePatches": [{"manager": "m", "time": "2024-13-01T00:00:00Z"}]}),
        want=[
            'spec.runtimePatches[0].time: Invalid value: "2024-13-01T00:00:00Z": spec.runtimePatches[0].time in body '
            'must be of type date-time: "2024-13-01T00:00:00Z"'
        ],
    ),
    "a list for a time passes the API server": Case(
        train_job({"runtimePatches": [{"manager": "m", "time": []}]})
    ),
    "an old part of a wrong type is let be, and rules about it fail": Case(
        runtime({"template": {"spec": {"startupPolicy": "x"}}}),
        old=runtime({"template": {"spec": {"startupPolicy": "x", "suspend": True}}}),
        want=[
            "spec.template.spec: Invalid value: \"object\": 'no such overload': call arguments did not match a "
            "supported operator, function or macro signature for rule: StartupPolicy and DependsOn APIs are mutually "
            "exclusive"
        ],
    ),
    "a namespace is a label": Case(
        train_job(namespace="a.b"),
        want=['metadata.namespace: Invalid value: "a.b": must not contain dots'],
    ),
    "owners are whole": Case(
        train_job(ownerReferences=[{"apiVersion": "v1", "kind": "Event", "uid": "u", "foo": 1}]),
        want=[
            'metadata.ownerReferences.name: Invalid value: "": must not be empty',
            'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"","uid":"u"}: /v1, '
            "Kind=Event is disallowed from being an owner",
        ],
    ),
    "what was wrong and is unchanged is let be": Case(
        train_job({"activeDeadlineSeconds": 0}, labels={"a": "b"}),
        old=train_job({"activeDeadlineSeconds": 0}),
    ),
    "what was wrong and changed is not": Case(
        train_job({"activeDeadlineSeconds": -1}),
        old=train_job({"activeDeadlineSeconds": 0}),
        want=[
            (
                "spec.activeDeadlineSeconds: Invalid value: -1: spec.activeDeadlineSeconds in body should be greater "
                "than or equal to 1"
            ),
            "spec.activeDeadlineSeconds: Invalid value: -1: field is immutable",
        ],
    ),
    "a name stays": Case(
        train_job(name="b"),
        old=train_job(),
        want=['metadata.name: Invalid value: "b": field is immutable'],
    ),
    "no new finalizers on the way out": Case(
        train_job(finalizers=["a.b/c"]),
        old=train_job(deletionTimestamp="2024-01-01T00:00:00Z"),
        want=[
            (
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found "
                'new finalizers []string{"a.b/c"}'
            )
        ],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_refused(case: Case) -> None:
    admitted = schema.load(case.line).admit(case.obj["kind"], case.obj, case.old)
    assert [str(error) for error in admitted.errors] == case.want


def test_another_kind_is_refused() -> None:
    job = train_job() | {"kind": "Job", "apiVersion": "batch/v1"}
    assert [str(error) for error in schema.load("2.3").admit("TrainJob", job).errors] == [
        'kind: Invalid value: "Job": must be TrainJob',
        'apiVersion: Invalid value: "batch/v1": must be trainer.kubeflow.org/v1alpha1',
    ]


def test_defaults_nulls_and_unknown_fields() -> None:
    job = train_job(
        {
            "suspend": None,
            "jobName": "x",
            "trainer": {
                "numNodes": 2.0,
                "resourcesPerNode": {"limits": {"cpu": None}},
                "env": [{"name": "A", "valu": 1}],
            },
        },
        labels={"a": None},
        owner="me",
    )
    admitted = schema.load("2.3").admit("TrainJob", job)
    assert admitted.obj["spec"] == {
        "runtimeRef": {
            "apiGroup": "trainer.kubeflow.org",
            "kind": "ClusterTrainingRuntime",
            "name": "torch",
        },
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
        "suspend": False,
        "trainer": {
            "numNodes": 2,
            "resourcesPerNode": {"limits": {}},
            "env": [{"name": "A"}],
        },
    }
    assert admitted.obj["metadata"]["labels"] == {"a": ""}
    assert admitted.pruned == ["metadata.owner", "spec.jobName", "spec.trainer.env[0].valu"]


def test_mpi_has_defaults_once_it_is_there() -> None:
    admitted = schema.load("2.3").admit(
        "ClusterTrainingRuntime", runtime({"mlPolicy": {"mpi": {}}})
    )
    assert admitted.obj["spec"]["mlPolicy"]["mpi"] == {
        "mpiImplementation": "OpenMPI",
        "numProcPerNode": 1,
        "runLauncherAsNode": False,
        "sshAuthMountPath": "/root/.ssh",
    }


def test_an_old_generation_loses_its_overrides_in_a_new_line() -> None:
    job = train_job({"podTemplateOverrides": [{"targetJobs": [{"name": "node"}]}]})
    assert schema.load("2.3").admit("TrainJob", job).pruned == ["spec.podTemplateOverrides"]
    assert schema.load("2.1").admit("TrainJob", job).pruned == []


def test_a_create_brings_no_status_and_nothing_that_only_the_server_writes() -> None:
    job = train_job(uid="x", creationTimestamp="2024-01-01T00:00:00Z") | {"status": {"foo": 1}}
    admitted = schema.load("2.3").admit("TrainJob", job)
    assert "status" not in admitted.obj
    assert admitted.obj["metadata"] == {"name": "a", "namespace": "team"}


def test_an_update_keeps_the_old_status() -> None:
    stored = train_job() | {"status": {"jobsStatus": []}}
    admitted = schema.load("2.3").admit("TrainJob", train_job() | {"status": {}}, stored)
    assert admitted.obj["status"] == {"jobsStatus": []}


def test_a_cluster_runtime_has_no_namespace() -> None:
    obj = runtime({"template": {}})
    obj["metadata"]["namespace"] = "team"
    assert schema.load("2.3").admit("ClusterTrainingRuntime", obj).obj["metadata"] == {"name": "a"}


BAD_METADATA: dict[str, tuple[Any, list[str]]] = {
    "no object": (1, ["metadata"]),
    "names": ({"name": 1, "generateName": [], "uid": True}, ["name", "generateName", "uid"]),
    "numbers": ({"name": "a", "generation": "1"}, ["generation"]),
    "times": (
        {"name": "a", "creationTimestamp": 1, "deletionTimestamp": "today"},
        ["creationTimestamp", "deletionTimestamp"],
    ),
    "maps": (
        {"name": "a", "labels": ["a"], "annotations": {"x": {}}},
        ["labels", "annotations[x]"],
    ),
    "lists": (
        {"name": "a", "finalizers": "x", "ownerReferences": {}, "managedFields": 1},
        ["finalizers", "ownerReferences", "managedFields"],
    ),
    "items": (
        {
            "name": "a",
            "finalizers": [1, None],
            "ownerReferences": [1, {"controller": "x"}],
            "managedFields": [1],
        },
        [
            "finalizers[0]",
            "ownerReferences[0]",
            "ownerReferences[1].controller",
            "managedFields[0]",
        ],
    ),
}


@pytest.mark.parametrize(("raw", "want"), BAD_METADATA.values(), ids=BAD_METADATA)
def test_metadata_is_typed(raw: Any, want: list[str]) -> None:
    schemas = schema.load("2.3")
    job = train_job() | {"metadata": raw}
    paths = ["metadata" if w == "metadata" else f"metadata.{w}" for w in want]
    errors = schemas.admit("TrainJob", job).errors
    typed = [str(e.path) for e in errors if "Go" in e.detail or "2006" in e.detail]
    assert typed == paths
    assert [str(e.path) for e in schemas.check("TrainJob", job)] == paths


@pytest.mark.parametrize(
    "meta", [None, {"name": None}, {"labels": {"a": None}}, {"finalizers": [None]}]
)
def test_nulls_in_metadata_do_not_fit(meta: Any) -> None:
    schemas = schema.load("2.3")
    job = train_job() | {"metadata": meta}
    assert not schemas.fits("TrainJob")(job)
    assert [str(e.path) for e in schemas.check("TrainJob", job)] == ["metadata"]


@pytest.mark.parametrize(
    ("job", "where"),
    [
        ("x", ""),
        (train_job() | {"kind": 1}, "kind"),
        (train_job({"trainer": None}), "spec.trainer"),
        (train_job({"trainer": {"numNodes": 2.0}}), "spec.trainer.numNodes"),
        (train_job({"trainer": {"env": [None]}}), "spec.trainer.env[0]"),
        (train_job({"trainer": {"args": {}}}), "spec.trainer.args"),
        (
            train_job({"runtimePatches": [{"manager": "m", "time": []}]}),
            "spec.runtimePatches[0].time",
        ),
    ],
)
def test_what_cannot_be_read(job: Any, where: str) -> None:
    schemas = schema.load("2.3")
    assert not schemas.fits("TrainJob")(job)
    assert [str(e.path) for e in schemas.check("TrainJob", job)] == [where]


def test_a_stored_object_of_an_older_line_is_not_checked_again() -> None:
    job = train_job({"trainer": {"numProcPerNode": "auto"}})
    schemas = schema.load("2.3")
    assert not schemas.fits("TrainJob")(job)
    assert schemas.check("TrainJob", job, deepcopy(job)) == []


def test_keys_of_any_size_are_compared() -> None:
    patches = [{"manager": 2**70}, {"manager": 2**70}]
    admitted = schema.load("2.3").admit("TrainJob", train_job({"runtimePatches": patches}))
    assert ErrorType.DUPLICATE in {e.type for e in admitted.errors}


def test_wrong_types_leave_the_rules_unasked() -> None:
    admitted = schema.load("2.3").admit("TrainJob", train_job({"managedBy": "x", "suspend": 1}))
    assert admitted.partial
    assert [error.type for error in admitted.errors] == [ErrorType.TYPE_INVALID]


@pytest.mark.parametrize("line", schema.LINES)
def test_every_rule_of_the_crds_is_written(line: str) -> None:
    table = json.loads((TABLES / f"schema-{line}.json").read_text())
    assert {rule for rule, _ in table["rules"]} <= set(RULES)


def test_no_rule_is_written_that_no_crd_has() -> None:
    tables = [json.loads((TABLES / f"schema-{line}.json").read_text()) for line in schema.LINES]
    assert set(RULES) == {rule for table in tables for rule, _ in table["rules"]}


def test_the_tables_stay_small() -> None:
    assert sum(path.stat().st_size for path in TABLES.iterdir()) < 400_000


def test_an_unknown_line_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"'1\.0'; there are: 2\.0, 2\.1, 2\.2, 2\.3"):
        schema.load("1.0")


def test_a_long_list_costs_no_more_than_its_first_errors() -> None:
    job = train_job({"trainer": {"args": [1] * 1_000_000}})
    admitted = schema.load("2.3").admit("TrainJob", job)
    assert len(admitted.errors) == MOST_ERRORS


def test_an_object_beyond_what_etcd_takes_is_not_checked_to_its_end() -> None:
    job = train_job({"trainer": {"resourcesPerNode": {"limits": {}}}})
    limits = {str(i): 1 for i in range(MOST_VALUES)}
    job["spec"]["trainer"]["resourcesPerNode"]["limits"] = limits
    (error,) = schema.load("2.3").admit("TrainJob", job).errors
    assert error.type is ErrorType.INTERNAL


def test_long_and_wild_names_make_short_messages() -> None:
    limits = {"y" * 1_000_000: True, "\n\x1b[31m": "z"}
    job = train_job({"x" * 1_000_000: 1, "trainer": {"resourcesPerNode": {"limits": limits}}})
    admitted = schema.load("2.3").admit("TrainJob", job)
    assert all(len(str(error)) < 1500 for error in admitted.errors)
    assert all(len(path) < 300 for path in admitted.pruned)


# Any JSON at all, anywhere.

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def fields_of(node: Node, depth: int = 0) -> st.SearchStrategy[Any]:
    """Objects that know the names of the schema and nothing else of it."""
    if node.properties and depth < 6:
        below = {name: fields_of(sub, depth + 1) for name, sub in node.properties.items()}
        return JSON | st.fixed_dictionaries({}, optional=below)
    if node.items is not None:
        return JSON | st.lists(fields_of(node.items, depth + 1), max_size=2)
    return JSON


@st.composite
def any_object(draw: st.DrawFn) -> tuple[str, str, Any]:
    line = draw(st.sampled_from(schema.LINES))
    kind = draw(st.sampled_from(schema.load(line).kinds))
    root = schema.load(line)._kinds[kind].root
    spec = draw(fields_of(root.properties["spec"]))
    return line, kind, draw(JSON | st.just({"kind": kind, "metadata": {"name": "a"}, "spec": spec}))


@given(any_object(), JSON)
def test_no_json_is_too_odd(case: tuple[str, str, Any], old: Any) -> None:
    line, kind, obj = case
    schemas = schema.load(line)
    given_obj = deepcopy(obj)
    admitted = schemas.admit(kind, obj, old)
    assert obj == given_obj
    assert all(str(error) for error in admitted.errors)
    if type(obj) is dict:
        again = schemas.admit(kind, admitted.obj, old)
        assert (again.obj, again.pruned) == (admitted.obj, [])


@given(any_object())
def test_what_does_not_fit_is_explained(case: tuple[str, str, Any]) -> None:
    line, kind, obj = case
    schemas = schema.load(line)
    fits = schemas.fits(kind)(obj)
    errors = schemas.check(kind, obj)
    assert fits or errors
    if fits:
        assert all(
            is_about_more_than_json_types(e) for e in errors if e.type is ErrorType.TYPE_INVALID
        )


def is_about_more_than_json_types(error: FieldError) -> bool:
    return "date-time" in error.detail or '"number"' in error.detail or '"float64"' in error.detail
