"""Limits and validations of the policies that match, over the job as it will run.

On UPDATE a rule that the stored job breaks too refuses nothing that does not make it worse: a policy that has become
stricter must never hold up a finalizer, a status or a job that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import field as fields
from plugins.framework.field import FieldError, Findings
from policies import document, exceptions, limits
from policies.faults import ExpressionFault
from policies.run import Answered, Matched, Run, lookup, why_not
from policies.view import View

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.info import Info
    from policies.document import Action, Expression, Key, Limit, Policy, Validation

_METADATA: Final = (("labels",), ("annotations",))
_SURROUNDINGS: Final = frozenset({"request", "namespaceObject", "params", "variables"})
"""Variables that say nothing of the job."""
_AS_IT_IS: Final = exceptions.Loosened()
_LONGEST_KEY: Final = 63
_LONGEST_AUDIT: Final = 1024
"""Characters of an audit annotation: an audit log is read by people, and paid for by the byte."""

_TYPES: Final = {
    "Invalid": fields.ErrorType.INVALID,
    "Forbidden": fields.ErrorType.FORBIDDEN,
    "Unauthorized": fields.ErrorType.FORBIDDEN,
    "RequestEntityTooLarge": fields.ErrorType.TOO_MANY,
}


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that the job breaks."""

    matched: Matched
    rule: str
    actions: tuple[Action, ...]
    errors: tuple[FieldError, ...]


Steps = Generator[Sequence[Any], Sequence[Any], Any]


class Judge:
    """Judges one job by all that match."""

    __slots__ = ("_findings", "_info", "_metadata_only", "_new", "_old", "_run", "_view")

    def __init__(
        self,
        run: Run,
        info: Info,
        new: TrainJob,
        old: TrainJob | None,
        *,
        metadata_only: bool = False,
    ) -> None:
        """``metadata_only`` asks for those rules alone that are about labels or annotations."""
        self._run = run
        self._info = info
        self._new = new
        self._old = old
        self._metadata_only = metadata_only
        self._findings = Findings()
        self._view = View(run.ctx, info, new.raw, None if old is None else old.raw)

    def judge(self) -> Generator[Sequence[Any], Sequence[Any], Findings]:
        """All findings, with what the policies' actions make of them."""
        run = self._run
        if run.trace is not None:
            run.trace.judging(self._view)
        yield from run.match(self._view, self._new)
        asked = [(matched, self._expressions(matched)) for matched in run.matched]
        answers = yield from run.ask(self._view, asked)
        broken: list[Broken] = []
        for matched in run.matched:
            broken += yield from self._rules(matched, answers.get(matched.key, {}))
        for each in broken:
            self._act(each.actions, each.errors, f"{each.matched.key}/{each.rule}")
        self._annotate(answers)
        if not self._metadata_only:
            for fault in run.faults.values():
                self._act(fault.matched.effect.actions, (fault.error,), str(fault.matched.key))
        self._findings.warn(*run.warnings)
        return self._findings

    # Rules

    def _expressions(self, matched: Matched) -> list[Expression]:
        policy = matched.policy
        out = [e for limit in self._limits(policy) for e in document.expressions_of(limit)]
        out += [v.expression for v in self._validations(matched)]
        if not self._metadata_only:
            out += [named.expression for named in policy.audit_annotations]
        return out

    def _limits(self, policy: Policy) -> Iterable[Limit]:
        if not self._metadata_only:
            return policy.limits
        return [x for x in policy.limits if x.require_labels or x.require_annotations]

    def _validations(self, matched: Matched) -> Iterable[Validation]:
        validations = matched.policy.validations
        if not self._metadata_only:
            return validations
        return [v for v in validations if self._is_of_metadata(matched, v)]

    def _is_of_metadata(self, matched: Matched, validation: Validation) -> bool:
        """Whether all that it reads of the job is its labels and annotations."""
        reads = [
            read
            for read in matched.compiled.programs[validation.expression.path].reads
            if read[0] not in _SURROUNDINGS
        ]
        return bool(reads) and all(
            read[0] in {"object", "oldObject"}
            and read[1:2] == ("metadata",)
            and read[2:3] in _METADATA
            for read in reads
        )

    def _rules(self, matched: Matched, answered: Answered) -> Steps:
        """All rules of a policy that the job breaks."""
        run = self._run
        loosening = self._loosening(matched)
        evaluate = lookup(answered)
        broken: list[Broken] = []
        for limit in self._limits(matched.policy):
            loosened = loosening.rules.get(limit.name, _AS_IT_IS)
            found = self._checked(matched, limit, evaluate, loosened)
            if found and loosened.off:
                run.excepted.append((matched.key, limit.name, loosened.off))
            elif found:
                broken.append(_broken(matched, limit.name, limit.actions, [v.error for v in found]))
        broken += yield from self._validated(matched, answered, loosening)
        return broken

    def _validated(
        self, matched: Matched, answered: Answered, loosening: exceptions.Loosening
    ) -> Steps:
        """Its validations that the job breaks."""
        run = self._run
        failed: list[Validation] = []
        for validation in self._validations(matched):
            value = answered.get(validation.expression.path)
            loosened = loosening.rules.get(validation.name, _AS_IT_IS)
            if value is False and loosened.off:
                run.excepted.append((matched.key, validation.name, loosened.off))
            elif value is False:
                failed.append(validation)
            elif value is not True:
                run.fail(matched, f"{validation.name}: {why_not(value)}")
        if failed and self._old is not None:
            failed = yield from self._newly(matched, failed)
        broken: list[Broken] = []
        if failed:
            broken = yield from self._explained(matched, failed)
        if run.trace is not None:
            told = {each.rule: each.errors for each in broken}
            asked = list(self._validations(matched))
            run.trace.validations(matched, asked, answered, loosening, told)
        return broken

    def _loosening(self, matched: Matched) -> exceptions.Loosening:
        """What exceptions make of its rules."""
        run = self._run
        found = exceptions.loosen(
            matched.policy,
            run.policies.exceptions.get(run.place.namespace, ()),
            exceptions.Subject(
                namespace=run.place.namespace,
                names=exceptions.names_of(self._new.metadata),
                labels=self._new.labels,
                creator=run.creator,
            ),
            now=run.ctx.now,
        )
        if run.trace is not None:
            run.trace.loosened(matched.key, found)
        return found

    def _checked(
        self,
        matched: Matched,
        limit: Limit,
        evaluate: Callable[[Expression], Any],
        loosened: exceptions.Loosened,
    ) -> list[limits.Violation]:
        """How the job breaks a limit; none where the limit itself is at fault."""
        run = self._run
        found: list[limits.Violation] | ExpressionFault
        try:
            found = self._check(limit, evaluate, loosened)
        except ExpressionFault as fault:
            run.fail(matched, f"{limit.name}: {fault}")
            found = fault
        if run.trace is not None:
            run.trace.limit(matched, limit, found, loosened, self._info, evaluate)
        return [] if isinstance(found, ExpressionFault) else found

    def _check(
        self, limit: Limit, evaluate: Callable[[Expression], Any], loosened: exceptions.Loosened
    ) -> list[limits.Violation]:
        """How the job breaks a limit; on UPDATE only in so far as the stored job does not.

        Bounds that the job itself decides are those of the job as it is now, for the stored one too.
        """
        ctx, grants = self._run.ctx, () if loosened.off else loosened.grants
        found = limits.check(limit, self._info, ctx, evaluate=evaluate, grants=grants)
        before = ctx.before() if found and self._old is not None else None
        if before is None:
            return found
        known = limits.check(limit, before, ctx, evaluate=evaluate, grants=grants)
        return limits.worse(known, found)

    def _newly(self, matched: Matched, failed: list[Validation]) -> Steps:
        """Those of the failed validations that the stored job passes, judged as if it had not changed."""
        before = self._run.ctx.before()
        old = self._old
        if before is None or old is None:
            return failed
        view = View(self._run.ctx, before, old.raw, old.raw)
        asked = [(matched, [v.expression for v in failed])]
        answers = yield from self._run.ask(view, asked)
        answered = answers.get(matched.key, {})
        return [v for v in failed if answered.get(v.expression.path) is not False]

    def _explained(self, matched: Matched, failed: list[Validation]) -> Steps:
        """What failed validations say; a message that cannot be worked out gives way to the plain one."""
        asked = [v.message_expression for v in failed if v.message_expression is not None]
        answers = yield from self._run.ask(self._view, [(matched, asked)])
        answered = answers.get(matched.key, {})
        out: list[Broken] = []
        for validation in failed:
            text = validation.message or f"failed expression: {validation.expression.text}"
            if validation.message_expression is not None:
                said = answered.get(validation.message_expression.path)
                if type(said) is str and said.strip() and "\n" not in said:
                    text = said.strip()
            if validation.fix:
                text = f"{text}; {validation.fix}"
            error = FieldError(type=_TYPES[validation.reason], path="", detail=text)
            out.append(_broken(matched, validation.name, validation.actions, [error]))
        return out

    # What follows

    def _act(self, actions: Sequence[Action], errors: Iterable[FieldError], origin: str) -> None:
        for error in errors:
            told = replace(error, origin=origin)
            if "Deny" in actions:
                self._findings.error(told)
            if "Warn" in actions:
                self._findings.warn(str(told))
            if "Audit" in actions:
                self._run.ctx.audit[_audit_key(origin)] = error.detail

    def _annotate(self, answers: Mapping[Key, Answered]) -> None:
        """Audit annotations that policies ask for; null or an empty text means none."""
        audit = self._run.ctx.audit
        for matched in self._run.matched:
            answered = answers.get(matched.key, {})
            for named in () if self._metadata_only else matched.policy.audit_annotations:
                value = answered.get(named.expression.path)
                if isinstance(value, ExpressionFault):
                    self._run.fail(matched, f"auditAnnotations[{named.name}]: {value.message}")
                elif type(value) is str and value:
                    audit[_audit_key(f"{matched.key}/{named.name}")] = value[:_LONGEST_AUDIT]
        for key, rule, exception in self._run.excepted:
            audit[_audit_key(f"{key}/{rule}")] = f"excepted by {exception}"


def _broken(
    matched: Matched, rule: str, own: tuple[Action, ...] | None, errors: Iterable[FieldError]
) -> Broken:
    return Broken(matched, rule, matched.effect.actions_of(own), tuple(errors))


def _audit_key(origin: str) -> str:
    """The name part of a qualified name, which has no slash and at most 63 characters."""
    return origin.replace("/", ".")[:_LONGEST_KEY].rstrip(".-_")
