"""Documents -> policies ready to run, each compiled once per content, and an index of which may concern a job.

Compiling is by document: a change of one policy of a thousand compiles that one. The index is by what does not depend
on the job's own text (namespace, operation, runtime), so a policy that is about other jobs costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.field import Path
from policies import cel, conflicts, matching, reading
from policies.document import Policy, PolicyException
from policies.faults import ExpressionFault

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.cluster import Documents
    from plugins.framework.context import Context
    from plugins.framework.field import FieldError

MOST_INDEXED: Final = 4096
"""Places of the index kept at a time; one is a namespace, an operation and a runtime."""


class CompiledPolicy:
    """A policy with its expressions compiled."""

    __slots__ = ("is_static", "key", "needs", "policy", "problems", "programs", "unit", "warnings")

    def __init__(
        self, policy: Policy, problems: Iterable[FieldError], warnings: Iterable[str] = ()
    ) -> None:
        """Compile; what cannot be is among ``problems``, and then the policy is not Ready."""
        self.policy = policy
        self.key = policy.key
        compiled = cel.compile_unit(policy)
        self.unit = compiled.unit
        self.programs: Mapping[Path, cel.Program] = compiled.programs
        self.problems: tuple[FieldError, ...] = (*problems, *compiled.errors)
        self.warnings: tuple[str, ...] = tuple(warnings)
        self.needs: frozenset[str] = frozenset(
            read[0] for program in compiled.programs.values() for read in program.reads
        )
        self.is_static = not (
            policy.match_conditions
            or matching.looks_at_labels(policy.match)
            or any(True for option in (*policy.defaults, *policy.overrides) for _ in option.expressions())
        )
        """Whether what it writes is the same whatever others write: then nobody has to look twice."""

    @property
    def writes(self) -> bool:
        """Whether it changes jobs at all."""
        return bool(self.policy.defaults or self.policy.overrides)


@dataclass(slots=True)
class _Document:
    raw: dict[str, Any]
    policy: CompiledPolicy | None = None
    exception: PolicyException | None = None
    problems: tuple[FieldError, ...] = ()


@dataclass(slots=True)
class PolicySet:
    """All policies, exceptions and params of one moment."""

    policies: tuple[CompiledPolicy, ...] = ()
    """The highest priority first; ties by name."""
    exceptions: Mapping[str, tuple[PolicyException, ...]] = field(default_factory=dict)
    """By namespace."""
    params: Mapping[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """Namespace and name of a labelled ConfigMap -> it."""
    _documents: dict[tuple[str, str, str], _Document] = field(default_factory=dict)
    _index: dict[
        tuple[str, str, str, str],
        tuple[Mapping[str, Any] | None, matching.Place, tuple[CompiledPolicy, ...]],
    ] = field(default_factory=dict)
    """By namespace, operation and runtime; with the metadata of the namespace under which it holds."""

    @classmethod
    def of(cls, documents: Documents, before: PolicySet | None = None) -> PolicySet:
        """Compile what ``before`` has not compiled already."""
        known = before._documents if before is not None else {}  # noqa: SLF001  # one of us
        read: dict[tuple[str, str, str], _Document] = {}
        params: dict[tuple[str, str], dict[str, Any]] = {}
        for key, raw in documents.items():
            kind, namespace, name = key
            if kind == names.CONFIG_MAP:
                params[namespace, name] = raw
                continue
            kept = known.get(key)
            read[key] = kept if kept is not None and kept.raw is raw else _read(raw)
        policies = [d.policy for d in read.values() if d.policy is not None]
        policies.sort(key=lambda p: (-p.policy.priority, p.key))
        conflicts.mark(policies)
        return cls(tuple(policies), _by_namespace(read.values()), params, read)

    def candidates(
        self, ctx: Context, job: TrainJob
    ) -> tuple[matching.Place, tuple[CompiledPolicy, ...]]:
        """Where a request is about, and the policies that may concern it there; looked up after the first time."""
        metadata = ctx.cluster.namespaces.get(ctx.namespace)
        at = (ctx.namespace, ctx.request.operation, job.runtime_kind, job.runtime_name)
        kept = self._index.get(at)
        if kept is not None and kept[0] is metadata:
            return kept[1], kept[2]
        place = matching.Place(
            namespace=ctx.namespace,
            labels=matching.namespace_labels(ctx.namespace, metadata),
            operation=ctx.request.operation,
            runtime_kind=job.runtime_kind,
            runtime_name=job.runtime_name,
        )
        found = tuple(
            compiled
            for compiled in self.policies
            if next(matching.static_misses(compiled.policy, place), None) is None
        )
        if len(self._index) >= MOST_INDEXED:
            self._index.clear()
        self._index[at] = (metadata, place, found)
        return place, found

    def problems(self) -> Iterator[tuple[tuple[str, str, str], tuple[FieldError, ...]]]:
        """Every document that is not sound, with all that is wrong with it."""
        for key, document in self._documents.items():
            found = document.policy.problems if document.policy is not None else document.problems
            if found:
                yield key, found


def _read(raw: dict[str, Any]) -> _Document:
    read = reading.read(raw)
    document = read.document
    if isinstance(document, Policy):
        compiled = CompiledPolicy(document, read.errors, read.warnings)
        return _Document(raw, policy=compiled)
    if isinstance(document, PolicyException) and not read.errors:
        return _Document(raw, exception=document)
    return _Document(raw, problems=tuple(read.errors))


def _by_namespace(documents: Iterable[_Document]) -> dict[str, tuple[PolicyException, ...]]:
    out: dict[str, list[PolicyException]] = {}
    for document in documents:
        if document.exception is not None:
            out.setdefault(document.exception.key.namespace, []).append(document.exception)
    return {namespace: tuple(sorted(found, key=lambda e: e.key)) for namespace, found in out.items()}


def params_of(
    policy: Policy, namespace: str, params: Mapping[tuple[str, str], dict[str, Any]]
) -> dict[str, Any]:
    """What a policy calls ``params`` for a request in a namespace.

    The data of a ConfigMap, each text read as JSON where it is JSON (``8``, ``true``, ``["a"]``), over ``default``.
    Raises ExpressionFault where the ConfigMap is not there, nothing stands in for it, and ``notFound`` is Deny.
    """
    wanted = policy.params
    if wanted is None:
        return {}
    if wanted.value is not None:
        return dict(wanted.value)
    place = wanted.namespace or namespace
    found = params.get((place, wanted.name))
    if found is None and wanted.default is None and wanted.not_found == "Deny":
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
