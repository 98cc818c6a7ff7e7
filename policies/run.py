"""One request's way through the policies: which of them match, and the values of their expressions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from plugins.framework import field as fields
from plugins.framework.quantity import QuantityError
from policies import cel, matching
from policies.compile import Matched, params_of
from policies.faults import ExpressionFault
from policies.matching import Miss
from policies.strikes import NOT_READY

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.field import FieldError, Path
    from policies.compile import CompiledPolicy, PolicySet
    from policies.document import Action, Expression, Key, Policy
    from policies.matching import Creator, Place
    from policies.merging import Conflict
    from policies.placing import Effect
    from policies.strikes import Strikes
    from policies.trace import Trace
    from policies.view import View
    from policies.writes import Mode, Write

MISSING: Final = object()

SETTLED: Final = 2
"""The round after which wishes no longer change where policies come to rest: what one writes may be what another selects."""

Answered = Mapping["Path", Any]
"""Values of a policy's expressions by where they stand; an ExpressionFault where there is none."""

Asks = Generator[Sequence[Any], Sequence[Any], dict["Key", Answered]]


class Fault(msgspec.Struct):
    """What is wrong with a policy that should have decided."""

    matched: Matched
    error: FieldError


class Run(msgspec.Struct):
    """What is known of one request; kept in its Context from point to point."""

    ctx: Context
    policies: PolicySet
    place: Place
    candidates: tuple[Matched, ...]
    """Those that may be about a job of this namespace, operation and runtime."""
    is_about_all: bool
    """Whether all of them are, whatever the job says."""
    creator: Creator
    strikes: Strikes
    matched: list[Matched] = []
    """Those that are about the job as it was at the last look."""
    faults: dict[Key, Fault] = {}
    warnings: list[str] = []
    conflicts: set[Key] = set()
    """Who wants what another of the same priority wants otherwise."""
    wishes: dict[Mode, Mapping[Key, Sequence[Write]]] = {}
    """What each policy wanted to write at the last look."""
    restless: dict[Key, Matched] = {}
    """Whose wishes still changed after the second round, by a value or because it matched no more."""
    excepted: list[tuple[Matched, str, str]] = []
    """Rules that the job breaks and an exception lets through: policy, rule, exception."""
    misses: dict[Key, list[Miss]] = {}
    """Why candidates do not match, for ``explain``."""
    effects: list[Effect] = []
    """What was written, in any round."""
    failed: dict[Key, str] = {}
    """What is wrong with policies, also with those that are passed over then."""
    acted: list[tuple[Key, Sequence[Action]]] = []
    """What was done about each rule that the job breaks."""
    trace: Trace | None = None
    """Where to say what is found, for those who ask why."""
    _reads: frozenset[cel.ReadPath] | None = None

    @property
    def may_change(self) -> bool:
        """Whether another round could come to another end: somebody's match or values depend on the job."""
        return not all(matched.compiled.is_static for matched in self.candidates)

    def begin_round(self) -> None:
        """What was found wrong in an earlier round may be mended by now."""
        self.faults, self.warnings, self.failed = {}, [], {}
        if self.trace is not None:
            self.trace.begin_round()

    def wish(self, mode: Mode, wishes: Mapping[Key, Sequence[Write]]) -> None:
        """What the policies want to write in this round."""
        before = self.wishes.get(mode)
        if before is not None and self.ctx.round > SETTLED:
            for matched in self.candidates:
                if before.get(matched.key) != wishes.get(matched.key):
                    self.restless[matched.key] = matched
        self.wishes[mode] = wishes

    def match(self, view: View, job: TrainJob) -> Generator[Sequence[Any], Sequence[Any], None]:
        """Find the policies that match the job as it is now."""
        self.matched, self.misses, self.excepted = [], {}, []
        if self.is_about_all and not self.strikes.quarantined:
            self.matched += self.candidates
            return
        old = self.ctx.request.old_object if self.ctx.is_update else None
        old_labels = None if old is None else type(job)(old).labels
        asked: list[tuple[Matched, Sequence[Expression]]] = []
        for matched in self.candidates:
            problem = self._problem(matched.compiled)
            if matched.compiled.is_unconditional and not problem:
                asked.append((matched, ()))
                continue
            policy = matched.policy
            missed = list(
                matching.dynamic_misses(
                    policy.match,
                    policy.key,
                    labels=job.labels,
                    creator=self.creator,
                    old_labels=old_labels,
                )
            )
            if self._lacks_params(policy):
                missed.append(Miss("params", "the ConfigMap is not there, and notFound is Allow"))
            if missed:
                self.misses[matched.key] = missed
            elif problem:
                self.fail(matched, problem)
            else:
                asked.append((matched, [c.expression for c in policy.match_conditions]))
        answers = yield from self.ask(view, asked)
        for matched, conditions in asked:
            if not conditions or self._holds(matched, conditions, answers.get(matched.key, {})):
                self.matched.append(matched)

    def _problem(self, compiled: CompiledPolicy) -> str:
        """Why a policy is not Ready, and nothing of it may be done; empty where it is."""
        if compiled.problems:
            return unsound(compiled)
        if self.strikes.quarantined and self.strikes.is_out(str(compiled.key), compiled.digest):
            return NOT_READY
        return ""

    def _lacks_params(self, policy: Policy) -> bool:
        wanted = policy.params
        if wanted is None or wanted.not_found == "Deny":
            return False
        return params_of(policy, self.place.namespace, self.policies.params) is None

    def _holds(
        self, matched: Matched, conditions: Sequence[Expression], answered: Answered
    ) -> bool:
        """One that is false decides, also beside one that fails (as in ValidatingAdmissionPolicy)."""
        named = zip(matched.policy.match_conditions, conditions, strict=True)
        found = [(condition, answered.get(at.path)) for condition, at in named]
        for condition, value in found:
            if value is False:
                text = f"{condition.name} is false: {condition.expression.text}"
                self.misses[matched.key] = [Miss("matchConditions", text)]
                return False
        for condition, value in found:
            if value is not True:
                self.fail(matched, f"matchConditions[{condition.name}]: {why_not(value)}")
                return False
        return True

    def ask(self, view: View, wanted: Iterable[tuple[Matched, Sequence[Expression]]]) -> Asks:
        """Answer expressions: here where nothing can go wrong, else by the workers."""
        here: dict[Key, Answered] = {}
        away: list[tuple[CompiledPolicy, tuple[Path, ...], cel.Question]] = []
        for matched, expressions in wanted:
            if not expressions:
                continue
            compiled = matched.compiled
            paths = tuple(each.path for each in expressions)
            try:
                activation = self.activation(view, compiled)
            except ExpressionFault as fault:
                here[compiled.key] = dict.fromkeys(paths, fault)
                continue
            if compiled.in_worker:
                away.append((compiled, paths, compiled.question(paths, activation)))
            else:
                here[compiled.key] = compiled.answer(paths, activation)
        if away:
            answers = yield [question for _, _, question in away]
            for (compiled, paths, _), found in zip(away, answers, strict=True):
                here[compiled.key] = compiled.answered(paths, found)
        if self.trace is not None:
            self.trace.answered(view, here)
        return here

    def activation(self, view: View, compiled: CompiledPolicy) -> cel.Activation:
        """The data that its expressions read, shared with all policies without params of their own.

        Raises ExpressionFault where some of it cannot be had.
        """
        try:
            if not compiled.reads_params:
                return view.activation(self._shared_reads())
            params = params_of(compiled.policy, self.place.namespace, self.policies.params)
            return view.activation(compiled.reads, params=params)
        except QuantityError as error:
            raise ExpressionFault(
                fields.Path("spec"), f"the job's totals cannot be worked out: {error}"
            ) from error

    def _shared_reads(self) -> frozenset[cel.ReadPath]:
        if self._reads is None:
            self._reads = frozenset(
                read
                for matched in self.candidates
                if not matched.compiled.reads_params
                for read in matched.compiled.reads
            )
        return self._reads

    def fail(self, matched: Matched, text: str) -> None:
        """A fault of a policy, told once a policy: with failurePolicy Ignore it is passed over, and that is said."""
        if self.trace is not None:
            self.trace.fault(matched.key, text)
        self.failed.setdefault(matched.key, text)
        if matched.policy.failure_policy == "Ignore":
            self.warn(f"[{matched.key}] is passed over: {text}")
        elif matched.key not in self.faults:
            self.faults[matched.key] = Fault(matched, fields.forbidden("", text))

    def conflict(self, matched: Matched, conflict: Conflict) -> None:
        """Policies want what cannot be together: nothing of it is written, and each one's failurePolicy decides."""
        others = ", ".join(str(key) for key in conflict.keys if key != matched.key)
        self.conflicts.add(matched.key)
        if conflict.is_of_ranges:
            text = f"conflicts with {others} about {conflict.place}: no number is in all of their ranges, and none is written"
        else:
            text = f"conflicts with {others} of the same priority about {conflict.place}: neither value is written"
        self.fail(matched, text)

    def warn(self, text: str) -> None:
        """Say something once."""
        if text not in self.warnings:
            self.warnings.append(text)


def unsound(compiled: CompiledPolicy) -> str:
    """What is wrong with it, in a line."""
    more = len(compiled.problems) - 1
    also = f" (and {more} more; `stationmaster lint` says all)" if more else ""
    return f"the policy is not Ready: {compiled.problems[0]}{also}"


def why_not(value: Any) -> str:
    """Why an expression that must be true or false is neither."""
    if isinstance(value, ExpressionFault):
        return value.message
    return f"must be true or false, and is {fields.show(value)}"


def lookup(answered: Answered) -> Callable[[Expression], Any]:
    """The values of expressions that were asked for. Raises ExpressionFault where one has none."""

    def evaluate(expression: Expression) -> Any:
        value = answered.get(expression.path, MISSING)
        if value is MISSING:
            raise ExpressionFault(expression.path, "nobody has worked it out")
        if isinstance(value, ExpressionFault):
            raise value
        return value

    return evaluate
