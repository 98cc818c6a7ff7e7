"""Runs builders through the whole pipeline, as the API server would, and asks what came of it.

Objects meet the API server's rules first (pruning, defaults, schema), so that a case cannot use what nobody
could store. What a refusal must be is written ``invalid("spec.trainer.numNodes", "at least 1")``: the exact
path, the cause type, and pieces of the message.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import jsonpatch
import orjson
import pytest

from plugins.framework import lines, profile, schema, values
from plugins.framework.api import names
from plugins.framework.api.admission import AdmissionRequest, UserInfo
from plugins.framework.cluster import Snapshot
from plugins.framework.context import Context
from plugins.framework.field import Findings
from plugins.framework.info import Info
from plugins.framework.pipeline import Pipeline, Result
from plugins.framework.runtime import CompiledRuntime
from plugins.registry import in_tree, registry
from tests.builders import NAMESPACE, Builder, Json, MakeRuntime, MakeTrainJob

LINES = ("2.0", "2.1", "2.2", "2.3")
USER = "alice@example.com"

T = TypeVar("T")


def table(cases: Mapping[str, T]) -> pytest.MarkDecorator:
    """Parametrize ``case`` by rules: the name of a case is the rule that it tests."""
    return pytest.mark.parametrize("case", [pytest.param(c, id=rule) for rule, c in cases.items()])


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Drive a coroutine that never waits for anything."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise AssertionError("the pipeline waited for something")


@lru_cache(maxsize=1)
def default_pipeline() -> Pipeline:
    """Every in-tree plugin, in its order."""
    return Pipeline(registry(), profile.default([spec.name for spec in in_tree()]))


def pipeline_with(document: Json) -> Pipeline:
    """The in-tree plugins as a profile has them."""
    whole = {"apiVersion": profile.API_VERSION, "kind": profile.KIND, **document}
    return Pipeline(registry(), profile.decode(whole, [spec.name for spec in in_tree()]))


def make_context(
    cluster: Snapshot,
    *,
    line: str = "2.3",
    operation: str = "CREATE",
    user: str = USER,
    kind: str = names.TRAIN_JOB,
    obj: Json | None = None,
    old: Json | None = None,
) -> Context:
    """The surroundings of a request in namespace ``team``, without a deadline."""
    request = AdmissionRequest(
        uid="u-1",
        operation=operation,
        group=names.GROUP,
        resource=f"{kind.lower()}s",
        kind=kind,
        namespace=NAMESPACE,
        user=UserInfo(username=user),
        object=obj,
        old_object=old,
    )
    return Context(
        request=request,
        cluster=cluster,
        line=lines.LINES[line],
        namespace=NAMESPACE,
        clock=lambda: 0.0,
    )


def stored(builder: Builder, line: str = "2.3") -> Json:
    """The object as the API server would store it; it must be one that the schema takes."""
    raw, refused = _stored(orjson.dumps(builder.raw), line)
    assert refused == [], "the API server would not store this: mend the case"
    return deepcopy(raw)


@lru_cache(maxsize=1024)
def _stored(data: bytes, line: str) -> tuple[Json, list[str]]:
    raw = orjson.loads(data)
    admitted = schema.load(line).admit(raw["kind"], raw)
    obj = admitted.obj
    # What no client can send: the controllers and the API server write it later.
    if "status" in raw:
        obj["status"] = raw["status"]
    if "deletionTimestamp" in raw["metadata"]:
        obj["metadata"]["deletionTimestamp"] = raw["metadata"]["deletionTimestamp"]
    return obj, list(map(str, admitted.errors))


def cluster_of(*objects: Builder | Json, line: str = "2.3") -> Snapshot:
    """A snapshot of runtimes, as stored, and whatever else is given raw."""
    return Snapshot.of(stored(o, line) if isinstance(o, Builder) else o for o in objects)


# What is wanted


@dataclass(frozen=True)
class Refusal:
    """One finding: path, cause type, pieces of the message."""

    field: str
    reason: str
    says: tuple[str, ...] = ()


class Wanted(Protocol):
    """Says that a finding is wanted: its path, pieces of its message."""

    @abstractmethod
    def __call__(self, path: str, *says: str) -> Refusal:
        """The finding."""


def _wanted(reason: str) -> Wanted:
    return lambda path, *says: Refusal(path, reason, says)


invalid = _wanted("FieldValueInvalid")
not_found = _wanted("FieldValueNotFound")
forbidden = _wanted("FieldValueForbidden")
required = _wanted("FieldValueRequired")
not_supported = _wanted("FieldValueNotSupported")
duplicate = _wanted("FieldValueDuplicate")
too_long = _wanted("FieldValueTooLong")


def assert_found(
    findings: Findings, refused: Sequence[Refusal], warns: Sequence[str] | None
) -> None:
    """Exactly these refusals, whatever their order; with ``warns``, a warning each that contains it, and no other."""
    found = sorted(findings.errors, key=lambda e: (e.field, e.type.reason, e.body))
    wanted = sorted(refused, key=lambda r: (r.field, r.reason, r.says))
    assert [(e.field, e.type.reason) for e in found] == [(r.field, r.reason) for r in wanted], (
        findings
    )
    for piece in (piece for r in wanted for piece in r.says):
        assert any(piece in str(e) for e in found), (piece, [str(e) for e in found])
    if warns is None:
        return
    for piece in warns:
        assert any(piece in warning for warning in findings.warnings), (piece, findings.warnings)
    strangers = [w for w in findings.warnings if not any(piece in w for piece in warns)]
    assert not strangers


# TrainJobs


@dataclass(frozen=True, kw_only=True)
class Case:
    """A TrainJob, what stands around it, and what is said of it. With ``old`` it is an UPDATE."""

    job: MakeTrainJob
    runtime: MakeRuntime | None = None
    others: tuple[Builder | Json, ...] = ()
    old: MakeTrainJob | None = None
    line: str = "2.3"
    user: str = USER
    refused: tuple[Refusal, ...] = ()
    warns: tuple[str, ...] | None = None
    """Pieces of every warning; None where they are of no interest."""

    def cluster(self) -> Snapshot:
        """What stands around the TrainJob."""
        around = self.others if self.runtime is None else (self.runtime, *self.others)
        return cluster_of(*around, line=self.line)


@dataclass(kw_only=True)
class Admitted:
    """What became of a TrainJob."""

    raw: Json
    """The object after the mutating call."""
    mutated: Result
    validated: Result
    patch: list[Json] = field(default_factory=list)

    @property
    def findings(self) -> Findings:
        """What the mutating call found."""
        return self.mutated.findings


def admit(case: Case, pipe: Pipeline | None = None) -> Admitted:
    """Both calls, the second on what the first left. They must be of one mind."""
    pipe = pipe or default_pipeline()
    sent = stored(case.job, case.line)
    old = stored(case.old, case.line) if case.old is not None else None
    cluster = case.cluster()
    operation = "UPDATE" if old is not None else "CREATE"

    def context() -> Context:
        return make_context(
            cluster,
            line=case.line,
            operation=operation,
            user=case.user,
            obj=sent,
            old=deepcopy(old),
        )

    raw = deepcopy(sent)
    mutated = run(pipe.mutate(context(), raw))
    if mutated.allowed:
        assert values.same(jsonpatch.apply_patch(sent, mutated.patch), raw)
    else:
        assert not mutated.patch
    before = deepcopy(raw)
    validated = run(pipe.validate(context(), raw))
    assert values.same(raw, before), "validation changes nothing"
    assert _texts(validated.findings) == _texts(mutated.findings)
    return Admitted(raw=raw, mutated=mutated, validated=validated, patch=mutated.patch)


def _texts(findings: Findings) -> list[str]:
    return sorted(map(str, findings.errors))


def check(case: Case) -> Admitted:
    """Run a case, and compare what is said of it."""
    admitted = admit(case)
    assert_found(admitted.findings, case.refused, case.warns)
    return admitted


# Runtimes


@dataclass(frozen=True, kw_only=True)
class RuntimeCase:
    """A runtime and what is said of it. With ``old`` it is an UPDATE."""

    runtime: MakeRuntime
    old: MakeRuntime | None = None
    line: str = "2.3"
    refused: tuple[Refusal, ...] = ()
    warns: tuple[str, ...] | None = None


def check_runtime(case: RuntimeCase) -> None:
    """Run a case, and compare what is said of it."""
    old = compiled(case.old, case.line) if case.old is not None else None
    new = compiled(case.runtime, case.line)
    operation = "UPDATE" if old is not None else "CREATE"
    ctx = make_context(Snapshot.of([]), line=case.line, operation=operation, kind=new.kind)
    result = run(default_pipeline().validate_runtime(ctx, old, new))
    assert_found(result.findings, case.refused, case.warns)


def compiled(runtime: MakeRuntime, line: str = "2.3") -> CompiledRuntime:
    """A runtime compiled for a line."""
    return CompiledRuntime(stored(runtime, line), lines.LINES[line])


# What the controller builds


@dataclass(frozen=True)
class Built:
    """The objects that the controller makes of a TrainJob, as they are predicted."""

    objects: list[Json]

    def of_kind(self, kind: str) -> list[Json]:
        """All objects of a kind."""
        return [o for o in self.objects if o["kind"] == kind]

    def named(self, name: str) -> Json:
        """The object of that name, the only one."""
        [found] = [o for o in self.objects if o["metadata"]["name"] == name]
        return found

    @property
    def jobset(self) -> Json:
        """The JobSet."""
        found: Json
        [found] = self.of_kind("JobSet")
        return found

    @property
    def jobs(self) -> list[str]:
        """Names of the replicated jobs, in their order."""
        return [job["name"] for job in self.jobset["spec"]["replicatedJobs"]]

    def job(self, name: str) -> Json:
        """One replicated job."""
        found: Json
        [found] = [j for j in self.jobset["spec"]["replicatedJobs"] if j["name"] == name]
        return found

    def counts(self, name: str) -> tuple[int, int]:
        """Parallelism and completions of a replicated job."""
        spec = self.job(name)["template"]["spec"]
        return spec["parallelism"], spec["completions"]

    def pod_template(self, job: str = "node") -> Json:
        """The pod template of a replicated job."""
        found: Json = self.job(job)["template"]["spec"]["template"]
        return found

    def pod(self, job: str = "node") -> Json:
        """The pod spec of a replicated job."""
        found: Json = self.pod_template(job)["spec"]
        return found

    def container(self, job: str = "node", name: str = "node", *, kind: str = "containers") -> Json:
        """A container."""
        found: Json
        [found] = [c for c in self.pod(job)[kind] if c["name"] == name]
        return found

    def env(
        self, job: str = "node", name: str = "node", *, kind: str = "containers"
    ) -> dict[str, Any]:
        """Env of a container, in its order: the value, or the ``valueFrom``."""
        entries = self.container(job, name, kind=kind).get("env") or []
        out = {e["name"]: e.get("value", e.get("valueFrom")) for e in entries}
        assert len(out) == len(entries), "a name stands twice"
        return out


def resolve(case: Case) -> Info:
    """The resolved TrainJob; its runtime must be there."""
    ctx = make_context(case.cluster(), line=case.line)
    info = default_pipeline().resolve(ctx, stored(case.job, case.line))
    assert info is not None
    return info


def build(case: Case) -> Built:
    """What the controller builds. Raises BuildError where it cannot."""
    ctx = make_context(case.cluster(), line=case.line)
    return Built(default_pipeline().build(ctx, resolve(case)))


def built(
    job: MakeTrainJob, runtime: MakeRuntime, *others: Builder | Json, line: str = "2.3"
) -> Built:
    """The same, without a case."""
    return build(Case(job=job, runtime=runtime, others=others, line=line))
