"""Documents -> policies ready to run, each compiled once per content, and an index of which may concern a job.

Compiling is by document: a change of one policy of a thousand compiles that one. The index is by what does not depend
on the job's own text (namespace, operation, runtime), so a policy that is about other jobs costs next to nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.field import Path, internal
from policies import cel, conflicts, matching, reading, rollout
from policies.document import (
    POLICY_KINDS,
    Expression,
    Policy,
    PolicyException,
    Selector,
    expressions_of,
)
from policies.faults import ExpressionFault
from policies.options import Custom

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.cluster import Documents
    from plugins.framework.context import Context
    from plugins.framework.field import FieldError
    from policies.options import Option

_BELOW: Final = 2**32
"""Priorities are of 32 bits, and who may write in one namespace must not outrank the platform there."""

MOST_INDEXED: Final = 4096
"""Places of the index kept at a time; one is a namespace, an operation and a runtime."""


class CompiledPolicy:
    """A policy with its expressions compiled."""

    __slots__ = (
        "checks",
        "digest",
        "in_worker",
        "is_static",
        "is_unconditional",
        "judged",
        "judges",
        "key",
        "own_problems",
        "policy",
        "problems",
        "programs",
        "reads",
        "reads_params",
        "variables",
        "warnings",
    )

    def __init__(
        self, policy: Policy, problems: Iterable[FieldError] = (), warnings: Iterable[str] = ()
    ) -> None:
        """Compile; what cannot be is among ``problems``, and then the policy is not Ready."""
        self.policy = policy
        self.key = policy.key
        self.warnings: tuple[str, ...] = tuple(warnings)
        found = [*problems]
        self.variables: dict[str, cel.Program] = {}
        self.programs: dict[Path, cel.Program] = {}
        wanted = list(wanted_of(policy))
        found += cel.too_many([expression for expression, _, _ in wanted])
        for expression, wants, name in wanted if not found else ():
            program = cel.compile(expression, wants=wants, variables=self.variables)
            if not isinstance(program, cel.Program):
                found += program
                continue
            self.programs[expression.path] = program
            if name:
                self.variables[name] = program
        self.own_problems: tuple[FieldError, ...] = tuple(found)
        """What is wrong with it by itself; ``problems`` has what is wrong beside others, too (``conflicts.mark``)."""
        self.problems: tuple[FieldError, ...] = self.own_problems
        programs = self.programs.values()
        self.reads: frozenset[cel.ReadPath] = frozenset(r for p in programs for r in p.reads)
        self.reads_params = any(read[0] == "params" for read in self.reads)
        self.in_worker = bool(self.programs) and (
            policy.is_namespaced or any(program.is_risky for program in programs)
        )
        """Whether its expressions are evaluated where they can be killed."""
        texts = [[str(path), p.wants, p.text] for path, p in self.programs.items()]
        calls = [
            [str(o.path), o.declared.installed, o.args]
            for o in (*policy.defaults, *policy.overrides)
            if isinstance(o, Custom)
        ]
        about = orjson.dumps([str(self.key), texts, ascii(calls)])
        self.digest = hashlib.sha256(about).hexdigest()
        """Of all that workers are asked of it: as long as that stays, a quarantine stays."""
        self.is_static = not (
            policy.match_conditions
            or policy.match.object_selector != Selector()
            or any(
                o.reads_job or any(True for _ in o.expressions())
                for o in (*policy.defaults, *policy.overrides)
            )
        )
        """Whether what it writes is the same whatever others write: then nobody has to look twice."""
        self.is_unconditional = not (
            policy.match_conditions
            or policy.match.subjects is not None
            or policy.match.object_selector != Selector()
            or policy.params is not None
        )
        """Whether it is about every job that its index leads to, if it is sound."""
        self.checks: tuple[Option, ...] = tuple(
            o for o in (*policy.defaults, *policy.overrides) if o.judges
        )
        self.judged: tuple[Expression, ...] = (
            *(e for limit in policy.limits for e in expressions_of(limit)),
            *(v.expression for v in policy.validations),
            *(e for _, e in policy.audit_annotations),
            *(e for option in self.checks for e in option.expressions()),
        )
        """What is asked of a job that has been written."""
        self.judges = bool(policy.limits or self.judged or self.checks)
        """Whether it judges at all, or only writes."""

    @property
    def rank(self) -> int:
        """Its priority, below that of every cluster-wide policy where it is a namespaced one."""
        priority = self.policy.priority
        return priority - _BELOW if self.policy.is_namespaced else priority

    def question(self, paths: Iterable[Path], activation: cel.Activation) -> cel.Question:
        """The same for the workers."""
        return cel.Question(
            policy=str(self.key),
            digest=self.digest,
            expressions=tuple(
                cel.Ask(str(path), self.programs[path].text, self.programs[path].wants)
                for path in paths
            ),
            variables=tuple((name, program.text) for name, program in self.variables.items()),
            data=activation.data,
        )

    @staticmethod
    def answered(paths: Iterable[Path], answers: cel.Answers) -> dict[Path, Any]:
        """What the workers say, in the form of ``answer``."""
        return {path: _value(path, answers.get(str(path))) for path in paths}

    def answer(self, paths: Iterable[Path], activation: cel.Activation) -> dict[Path, Any]:
        """The values of some of its expressions; an ExpressionFault where one has none."""
        scoped = activation.scoped(self.variables) if self.variables else activation
        return {path: _value(path, self.programs[path].evaluate(scoped)) for path in paths}


def _value(path: Path, found: Any) -> Any:
    return ExpressionFault(path, found.message) if isinstance(found, cel.EvaluationError) else found


def wanted_of(policy: Policy) -> Iterator[tuple[Expression, cel.Wants, str]]:
    """Every expression of a policy in the order in which it can be compiled, what it must give, and its variable."""
    for name, expression in policy.variables:
        yield expression, "any", name
    for _, expression in policy.match_conditions:
        yield expression, "bool", ""
    for option in (*policy.defaults, *policy.overrides):
        for expression in option.expressions():
            yield expression, "any", ""
    for limit in policy.limits:
        for expression in expressions_of(limit):
            yield expression, "any", ""
    for validation in policy.validations:
        yield validation.expression, "bool", ""
        if validation.message_expression is not None:
            yield validation.message_expression, "string", ""
    for _, expression in policy.audit_annotations:
        yield expression, "text", ""


@dataclass(slots=True)
class Compiled:
    """A document, as far as it could be read and compiled."""

    raw: dict[str, Any]
    policy: CompiledPolicy | None = None
    """Also of a policy that is unsound, as long as it is known whom it is about."""
    exception: PolicyException | None = None
    unread: tuple[FieldError, ...] = ()
    """Why it could not be read."""

    @property
    def problems(self) -> tuple[FieldError, ...]:
        """All that is wrong with it."""
        return self.unread if self.policy is None else self.policy.problems

    def again(self) -> Compiled:
        """The same for another set: what others do to it there is not what they do here."""
        return self if self.policy is None else replace(self, policy=copy(self.policy))


class Matched:
    """A policy that may be about a job, and what it does in the job's namespace."""

    __slots__ = ("compiled", "effect", "key", "policy")

    def __init__(self, compiled: CompiledPolicy, effect: rollout.Effect) -> None:
        """Take both."""
        self.compiled = compiled
        self.policy = compiled.policy
        self.key = compiled.key
        self.effect = effect


class Candidates(NamedTuple):
    """Where a request is about, and the policies that may concern it there."""

    place: matching.Place
    policies: tuple[Matched, ...]
    is_about_all: bool
    """Whether each of them is sound, and about every job that is there."""


@dataclass(slots=True)
class PolicySet:
    """All policies, exceptions and params of one moment."""

    policies: tuple[CompiledPolicy, ...] = ()
    """The highest priority first; ties by name."""
    exceptions: Mapping[str, tuple[PolicyException, ...]] = field(default_factory=dict)
    """By namespace."""
    params: Mapping[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """Namespace and name of a labelled ConfigMap -> it."""
    _documents: dict[tuple[str, str, str], Compiled] = field(default_factory=dict)
    _index: dict[
        tuple[str, str, str, str],
        tuple[Mapping[str, Any] | None, Candidates],
    ] = field(default_factory=dict)
    """By namespace, operation and runtime; with the metadata of the namespace under which it holds."""

    @classmethod
    def of(cls, documents: Documents, before: PolicySet | None = None) -> PolicySet:
        """Compile what ``before`` has not compiled already."""
        known = before._documents if before is not None else {}  # noqa: SLF001  # one of us
        read: dict[tuple[str, str, str], Compiled] = {}
        params: dict[tuple[str, str], dict[str, Any]] = {}
        for key, raw in documents.items():
            kind, namespace, name = key
            if kind == names.CONFIG_MAP:
                params[namespace, name] = raw
                continue
            kept = known.get(key)
            is_known = kept is not None and values.same(kept.raw, raw)
            read[key] = kept.again() if kept is not None and is_known else _read_safely(raw)
        policies = [d.policy for d in read.values() if d.policy is not None]
        policies.sort(key=lambda p: (-p.rank, p.key))
        conflicts.mark(policies)
        return cls(tuple(policies), _by_namespace(read.values()), params, read)

    def candidates(self, ctx: Context, job: TrainJob) -> Candidates:
        """Where a request is about, and the policies that may concern it there; looked up after the first time."""
        metadata = ctx.cluster.namespaces.get(ctx.namespace)
        at = (ctx.namespace, ctx.request.operation, job.runtime_kind, job.runtime_name)
        kept = self._index.get(at)
        if kept is not None and kept[0] is metadata:
            return kept[1]
        place = matching.Place(
            namespace=ctx.namespace,
            labels=matching.namespace_labels(ctx.namespace, metadata),
            operation=ctx.request.operation,
            runtime_kind=job.runtime_kind,
            runtime_name=job.runtime_name,
        )
        policies = tuple(
            Matched(compiled, rollout.effect(compiled.policy, place.namespace, place.labels))
            for compiled in self.policies
            if next(matching.static_misses(compiled.policy, place), None) is None
        )
        is_about_all = all(
            one.compiled.is_unconditional and not one.compiled.problems for one in policies
        )
        found = Candidates(place, policies, is_about_all)
        if len(self._index) >= MOST_INDEXED:
            self._index.clear()
        self._index[at] = (metadata, found)
        return found

    def problems(self) -> Iterator[tuple[tuple[str, str, str], tuple[FieldError, ...]]]:
        """Every document that is not sound, with all that is wrong with it."""
        for key, document in self._documents.items():
            if document.problems:
                yield key, document.problems

    def documents(self) -> Mapping[tuple[str, str, str], Compiled]:
        """All but the params, by kind, namespace and name."""
        return self._documents


def _read_safely(raw: dict[str, Any]) -> Compiled:
    """A fault of ours in one document is that document's problem, not the end of all the others."""
    try:
        return _read(raw)
    except Exception as error:  # noqa: BLE001  # whatever it is
        problem = internal("", f"an internal fault ({type(error).__name__}) while it was compiled")
    try:
        shell = _shell(reading.read(raw))
    except Exception:  # noqa: BLE001  # then it is about nobody
        shell = None
    policy = None if shell is None else CompiledPolicy(shell, [problem])
    return Compiled(raw, policy=policy, unread=(problem,))


def _read(raw: dict[str, Any]) -> Compiled:
    read = reading.read(raw)
    document = read.document
    if isinstance(document, PolicyException):
        return Compiled(raw, exception=document)
    if isinstance(document, Policy):
        return Compiled(raw, policy=CompiledPolicy(document, warnings=read.warnings))
    problems = tuple(read.errors)
    shell = _shell(read)
    policy = None if shell is None else CompiledPolicy(shell, problems, read.warnings)
    return Compiled(raw, policy=policy, unread=problems)


def _shell(read: reading.Read) -> Policy | None:
    """A policy that cannot be read, as far as its failurePolicy needs: whom it is about, and what it does to them."""
    if read.key is None or read.key.kind not in POLICY_KINDS or read.match is None:
        return None
    return Policy(key=read.key, failure_policy=read.failure_policy, match=read.match)


def _by_namespace(documents: Iterable[Compiled]) -> dict[str, tuple[PolicyException, ...]]:
    out: dict[str, list[PolicyException]] = {}
    for document in documents:
        if document.exception is not None:
            out.setdefault(document.exception.key.namespace, []).append(document.exception)
    return {
        namespace: tuple(sorted(found, key=lambda e: e.key)) for namespace, found in out.items()
    }


def params_of(
    policy: Policy, namespace: str, params: Mapping[tuple[str, str], dict[str, Any]]
) -> dict[str, Any] | None:
    """What a policy calls ``params`` for a request in a namespace.

    The data of a ConfigMap, each text read as JSON where it is JSON (``8``, ``true``, ``["a"]``), over ``default``.
    None where the ConfigMap is not there and ``notFound: Allow`` says that the policy is then about nobody. Raises ExpressionFault where the ConfigMap is not there, nothing stands in for it, and ``notFound`` is Deny.
    """
    wanted = policy.params
    if wanted is None:
        return {}
    if wanted.value is not None:
        return dict(wanted.value)
    place = wanted.namespace or namespace
    found = params.get((place, wanted.name))
    if found is None and wanted.default is None:
        if wanted.not_found == "Allow":
            return None
        raise ExpressionFault(
            Path("spec", "params", "configMapRef"),
            f"there is no ConfigMap {place}/{wanted.name} with the label {names.PARAMS_LABEL}",
        )
    data = values.obj((found or {}).get("data"))
    return {**(wanted.default or {}), **{key: _parsed(text) for key, text in data.items()}}


def _parsed(text: Any) -> Any:
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError):
        return text
