"""Why each policy did what it did to one job: the Traces of its calls, put in order and with the values of expressions.

Nothing is decided here. What matched, what was written and what was judged was found by admission itself (`trace`);
what is added are the parts of expressions, evaluated on the very data that the job was judged by. Of policies whose
expressions may have to be killed, the workers are asked, so ``explain_all`` is a generator of questions as extension
points are.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from policies import cel, matching, rollout
from policies.compile import params_of
from policies.document import Expression, expressions_of
from policies.faults import ExpressionFault
from policies.matching import Miss
from policies.trace import Ruled, Trace, Wrote

if TYPE_CHECKING:
    from plugins.framework.field import FieldError
    from policies.compile import CompiledPolicy
    from policies.document import Key, Limit, Params, Policy
    from policies.exceptions import Note
    from policies.rollout import Effect
    from policies.run import Run

FAILED: Final = frozenset({"broken", "excepted", "let be", "fault"})
"""Outcomes of rules whose expressions are always taken apart."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An expression, its value (or EvaluationError), and the values of its parts as they are read."""

    name: str
    text: str
    parts: tuple[cel.Part, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """Which stage of the rollout decided, and what the policy does in this namespace."""

    effect: Effect
    share: int
    """0 to 99: the namespace's place in ``percent``."""


@dataclass(frozen=True, slots=True)
class ParamsUsed:
    """What ``params`` was, and where it came from."""

    source: str
    value: Any
    fault: str = ""


@dataclass(slots=True, kw_only=True)
class Explanation:
    """One policy and one job."""

    policy: Policy
    matched: bool
    misses: tuple[Miss, ...] = ()
    """Why it is not about the job; empty where it is, or where nobody knows because of a fault."""
    conditions: tuple[Evaluated, ...] = ()
    stage: Stage | None = None
    params: ParamsUsed | None = None
    wrote: tuple[Wrote, ...] = ()
    rules: tuple[Ruled, ...] = ()
    evaluated: dict[str, tuple[Evaluated, ...]] = field(default_factory=dict)
    """The expressions of rules by the rule's name."""
    notes: tuple[Note, ...] = ()
    """Exceptions that name the policy and loosen nothing, and why."""
    faults: tuple[str, ...] = ()
    problems: tuple[FieldError, ...] = ()
    """Why the policy is not Ready."""
    conflicts: bool = False


Asks = Generator[Sequence[cel.Question], Sequence[cel.Answers], list[Explanation]]


def explain_all(traces: Sequence[Trace], *, all_parts: bool = False) -> Asks:
    """Every policy of the cluster, as the calls for one job met it; without ``all_parts``, of what holds no parts.

    The last call that judged the job tells what matched and what was judged, all of them what was written and what was
    wrong. No Trace with a Run: no policy was asked, and there is nothing to explain.
    """
    runs = [trace for trace in traces if trace.run is not None]
    judged = next((trace for trace in reversed(runs) if trace.view is not None), None)
    told = judged or (runs[-1] if runs else None)
    if told is None or told.run is None:
        return []
    explained: dict[Key, Explanation] = {}
    for compiled in told.run.policies.policies:
        found = yield from _explain(compiled, told.run, told, runs, all_parts=all_parts)
        explained[compiled.key] = found
    return list(explained.values())


def _explain(
    compiled: CompiledPolicy, run: Run, told: Trace, runs: Sequence[Trace], *, all_parts: bool
) -> Generator[Sequence[cel.Question], Sequence[cel.Answers], Explanation]:
    policy, key = compiled.policy, compiled.key
    misses = run.misses.get(key, [])
    is_candidate = any(matched.compiled is compiled for matched in run.candidates)
    if not is_candidate:
        misses = list(matching.static_misses(policy, run.place))
    found = Explanation(
        policy=policy,
        matched=any(matched.key == key for matched in run.matched),
        misses=tuple(misses),
        stage=_stage(policy, run),
        problems=compiled.problems,
        wrote=tuple(_wrote(key, runs)),
        rules=tuple(told.rules.get(key, ())),
        notes=told.notes.get(key, ()),
        faults=tuple(dict.fromkeys(f for t in runs for f in t.faults.get(key, ()))),
        conflicts=any(t.run is not None and key in t.run.conflicts for t in runs),
    )
    if not is_candidate or compiled.problems or told.view is None:
        return found
    answers = told.answers.get(key, {})
    is_asked = any(named.expression.path in answers for named in policy.match_conditions)
    if found.matched or is_asked:
        found.params = _params(policy, run)
    if is_asked:
        conditions = [(named.name, named.expression) for named in policy.match_conditions]
        found.conditions = yield from _evaluated(compiled, run, told, conditions)
    for ruled in found.rules:
        if all_parts or ruled.outcome in FAILED:
            wanted = [("", e) for e in _expressions(policy, ruled)]
            if wanted and ruled.outcome != "not judged":
                found.evaluated[ruled.name] = yield from _evaluated(compiled, run, told, wanted)
    return found


def _stage(policy: Policy, run: Run) -> Stage:
    place = run.place
    effect = rollout.effect(policy, place.namespace, place.labels)
    return Stage(effect, rollout.share(policy.key, place.namespace))


def _wrote(key: Key, runs: Sequence[Trace]) -> Iterator[Wrote]:
    """What the policy wrote or announced, alone or with others; of two writes to one place the later."""
    last = {
        (wrote.mode, wrote.effect.place, wrote.is_announced): wrote
        for trace in runs
        for wrote in trace.wrote
        if key in wrote.effect.keys
    }
    yield from last.values()


def _params(policy: Policy, run: Run) -> ParamsUsed | None:
    wanted = policy.params
    if wanted is None:
        return None
    source = _source(wanted, run)
    try:
        return ParamsUsed(source, params_of(policy, run.place.namespace, run.policies.params))
    except ExpressionFault as fault:
        return ParamsUsed(source, None, fault.message)


def _source(wanted: Params, run: Run) -> str:
    if wanted.value is not None:
        return "value"
    place = wanted.namespace or run.place.namespace
    there = "" if (place, wanted.name) in run.policies.params else ", which is not there"
    return f"ConfigMap {place}/{wanted.name}{there}"


def _expressions(policy: Policy, ruled: Ruled) -> list[Expression]:
    if ruled.kind == "validation":
        return [ruled.expression] if ruled.expression is not None else []
    found: list[Limit] = [limit for limit in policy.limits if limit.name == ruled.name]
    return [expression for limit in found for expression in expressions_of(limit)]


def _evaluated(
    compiled: CompiledPolicy, run: Run, told: Trace, wanted: Sequence[tuple[str, Expression]]
) -> Generator[Sequence[cel.Question], Sequence[cel.Answers], tuple[Evaluated, ...]]:
    """Each expression taken apart: here, or by the workers where they were asked for it in the first place."""
    if told.view is None:
        return ()
    try:
        activation = run.activation(told.view, compiled)
    except ExpressionFault as fault:
        error = cel.EvaluationError(fault.message)
        return tuple(
            Evaluated(name, e.text, (cel.Part(e.text, 0, 0, error),)) for name, e in wanted
        )
    programs = [(name, compiled.programs[expression.path]) for name, expression in wanted]
    if not compiled.in_worker:
        scoped = activation.scoped(compiled.variables) if compiled.variables else activation
        return tuple(Evaluated(name, p.text, tuple(cel.explain(p, scoped))) for name, p in programs)
    parts = [cel.texts(program) for _, program in programs]
    whole = compiled.question((), activation)
    asks = tuple(
        cel.Ask(f"{i}.{k}", part.text)
        for i, each in enumerate(parts)
        for k, part in enumerate(each)
    )
    [answers] = yield [
        cel.Question(
            policy=whole.policy,
            digest=whole.digest,
            expressions=asks,
            variables=whole.variables,
            data=whole.data,
        )
    ]
    return tuple(
        Evaluated(name, program.text, tuple(_answered(i, parts[i], answers)))
        for i, (name, program) in enumerate(programs)
    )


def _answered(number: int, parts: Sequence[cel.Part], answers: cel.Answers) -> Iterator[cel.Part]:
    """The parts with their values; left out is what stands for itself nowhere but in the whole."""
    for k, part in enumerate(parts):
        value = answers.get(f"{number}.{k}")
        is_shown = not isinstance(value, cel.EvaluationError) or not (
            value.reason == "type" or value.message.startswith("does not compile")
        )
        if is_shown or not part.level:
            yield part._replace(value=value)
