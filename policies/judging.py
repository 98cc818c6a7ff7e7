"""Limits and validations of the policies that match, over the job as it will run.

On UPDATE a rule that the stored job breaks too refuses nothing that does not make it worse: a policy that has become
stricter must never hold up a finalizer, a status or a job that runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import field as fields
from plugins.framework.errors import Fault
from plugins.framework.field import FieldError, Findings
from policies import exceptions, limits
from policies.compile import Matched
from policies.faults import ExpressionFault
from policies.options import Subject
from policies.run import Answered, Run, lookup, why_not
from policies.view import View

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.info import Info
    from policies.amounts import Evaluate
    from policies.document import Action, Key, Limit, Policy, Validation
    from policies.options import Option
    from policies.writes import Mode

_METADATA: Final = (("labels",), ("annotations",))
_SURROUNDINGS: Final = frozenset({"request", "namespaceObject", "params", "variables"})
"""Variables that say nothing of the job."""
_AS_IT_IS: Final = exceptions.Loosened()
_LONGEST_KEY: Final = 63
_MARK: Final = 8
"""Characters of a hash at the end of a key that is cut."""
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
        self._view = View(run.ctx, lambda: info, new.raw, None if old is None else old.raw)

    def judge(self) -> Generator[Sequence[Any], Sequence[Any], Findings]:
        """All findings, with what the policies' actions make of them."""
        run = self._run
        if run.trace is not None:
            run.trace.judging(self._view)
        yield from run.match(self._view, self._new)
        judging = [matched for matched in run.matched if matched.compiled.judges]
        asked = [(matched, matched.compiled.judged) for matched in judging]
        answers = yield from run.ask(self._view, asked)
        broken: list[Broken] = []
        for matched in judging:
            broken += yield from self._rules(matched, answers.get(matched.key, {}))
        for each in broken:
            run.acted.append((each.matched.key, each.actions))
            self._act(each.actions, each.errors, each.matched, each.rule)
        self._annotate(answers)
        if not self._metadata_only:
            for fault in run.faults.values():
                self._act(fault.matched.effect.actions, (fault.error,), fault.matched)
        self._findings.warn(*run.warnings)
        return self._findings

    # Rules

    def _checks(self, policy: Policy) -> Iterator[tuple[Mode, Option]]:
        """The options that judge what a new job says itself: its name is the user's."""
        both: tuple[tuple[Mode, tuple[Option, ...]], ...] = (
            ("defaults", policy.defaults),
            ("overrides", policy.overrides),
        )
        return ((mode, option) for mode, options in both for option in options if option.judges)

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
        loosening = self._loosening(matched.policy)
        if run.trace is not None:
            run.trace.loosened(matched.key, loosening)
        evaluate = lookup(answered)
        broken = self._broken_limits(matched, evaluate, loosening)
        if matched.compiled.checks:
            broken += self._advice(matched, evaluate)
        excepted: dict[str, str] = {}
        failed = [*self._failed(matched, answered)] if matched.policy.validations else []
        if failed and self._old is not None:
            failed = yield from self._newly(matched, failed)
        if failed:
            off = {name: each.off for name, each in loosening.rules.items() if each.off}
            excepted = {v.name: off[v.name] for v in failed if v.name in off}
            run.excepted += [(matched, name, by) for name, by in excepted.items()]
            failed = [v for v in failed if v.name not in excepted]
        if failed:
            broken += yield from self._explained(matched, failed)
        if run.trace is not None:
            told = {each.rule: each.errors for each in broken}
            asked = list(self._validations(matched))
            run.trace.validations(matched, asked, answered, excepted, told)
        return broken

    def _loosening(self, policy: Policy) -> exceptions.Loosening:
        run = self._run
        there = run.policies.exceptions.get(run.place.namespace, ())
        if not there:
            return exceptions.NOTHING
        subject = exceptions.Subject(
            namespace=run.place.namespace,
            names=exceptions.names_of(self._new.metadata),
            labels=self._new.labels,
            creator=run.creator,
        )
        return exceptions.loosen(policy, there, subject, now=run.ctx.now)

    def _broken_limits(
        self, matched: Matched, evaluate: Evaluate, loosening: exceptions.Loosening
    ) -> list[Broken]:
        run = self._run
        out: list[Broken] = []
        for limit in self._limits(matched.policy):
            loosened = loosening.rules.get(limit.name, _AS_IT_IS)
            found: limits.Checked | ExpressionFault
            try:
                found = self._check(limit, evaluate, loosened)
            except ExpressionFault as fault:
                run.fail(matched, f"{limit.name}: {fault}")
                found = fault
            if run.trace is not None:
                run.trace.limit(matched, limit, found, self._info, evaluate)
            if isinstance(found, ExpressionFault) or not found.new:
                continue
            run.excepted += [(matched, limit.name, by) for by in found.exceptions]
            if found.broken:
                errors = [v.error for v in found.broken]
                out.append(_broken(matched, limit.name, limit.actions, errors))
        return out

    def _failed(self, matched: Matched, answered: Answered) -> Iterator[Validation]:
        for validation in self._validations(matched):
            value = answered.get(validation.expression.path)
            if value is False:
                yield validation
            elif value is not True:
                self._run.fail(matched, f"{validation.name}: {why_not(value)}")

    def _check(
        self, limit: Limit, evaluate: Evaluate, loosened: exceptions.Loosened
    ) -> limits.Checked:
        """How the job breaks a limit; on UPDATE only in so far as the stored job does not.

        Bounds that the job itself decides are those of the job as it is now, for the stored one too.
        """
        ctx, grants = self._run.ctx, () if loosened.off else loosened.grants
        found = limits.check(limit, self._info, ctx, evaluate=evaluate, grants=grants)
        if not found:
            return limits.KEPT
        if loosened.off:
            found = [replace(violation, excepted_by=loosened.off) for violation in found]
        before = ctx.before() if self._old is not None else None
        if before is None:
            return limits.Checked(found, found)
        known = limits.check(limit, before, ctx, evaluate=evaluate)
        return limits.Checked(found, limits.worse(known, found))

    def _advice(self, matched: Matched, evaluate: Evaluate) -> list[Broken]:
        """What options find wrong with the job: said where they are defaults, refused where they are overrides."""
        run = self._run
        out: list[Broken] = []
        if self._old is not None:
            return []
        for mode, option in self._checks(matched.policy):
            subject = Subject(
                resolved=lambda: self._info, line=run.ctx.line, mode=mode, evaluate=evaluate
            )
            try:
                errors = option.check(subject)
            except Fault as fault:
                run.fail(matched, str(fault))
                continue
            if errors:
                own: tuple[Action, ...] | None = ("Warn",) if mode == "defaults" else None
                out.append(_broken(matched, option.key, own, errors))
        return out

    def _newly(self, matched: Matched, failed: list[Validation]) -> Steps:
        """Those of the failed validations that the stored job passes, judged as if it had not changed."""
        before = self._run.ctx.before()
        old = self._old
        if before is None or old is None:
            return failed
        view = View(self._run.ctx, lambda: before, old.raw, old.raw)
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

    def _act(
        self,
        actions: Sequence[Action],
        errors: Iterable[FieldError],
        matched: Matched,
        rule: str = "",
    ) -> None:
        origin = f"{matched.key}/{rule}" if rule else str(matched.key)
        for error in errors:
            told = replace(error, origin=origin)
            if "Deny" in actions:
                self._findings.error(told)
            if "Warn" in actions:
                self._findings.warn(str(told))
            if "Audit" in actions:
                self._audit(_rule_key(matched, rule), error.detail)

    def _annotate(self, answers: Mapping[Key, Answered]) -> None:
        """Audit annotations that policies ask for, null or an empty text means none; and what exceptions let through."""
        for matched in self._run.matched:
            answered = answers.get(matched.key, {})
            for named in () if self._metadata_only else matched.policy.audit_annotations:
                value = answered.get(named.expression.path)
                if isinstance(value, ExpressionFault):
                    self._run.fail(matched, f"auditAnnotations[{named.name}]: {value.message}")
                elif value:
                    self._audit(_audit_key(f"{matched.key}/{named.name}"), value)
        for matched, rule, exception in self._run.excepted:
            self._audit(_rule_key(matched, rule), f"excepted by {exception}")

    def _audit(self, key: str, text: str) -> None:
        """Say it beside what is said there already: a rule can be broken in several ways."""
        audit = self._run.ctx.audit
        audit[key] = f"{audit[key]}; {text}" if key in audit else text
        audit[key] = audit[key][:_LONGEST_AUDIT]


def _broken(
    matched: Matched, rule: str, own: tuple[Action, ...] | None, errors: Iterable[FieldError]
) -> Broken:
    return Broken(matched, rule, matched.effect.actions_of(own), tuple(errors))


def _rule_key(matched: Matched, rule: str) -> str:
    """Where the audit log tells of a rule, or with "" of a fault; beside an annotation of its name, which is read by machines."""
    if not rule:
        return _audit_key(str(matched.key))
    is_taken = any(named.name == rule for named in matched.policy.audit_annotations)
    return _audit_key(f"{matched.key}/{rule}{'/rule' if is_taken else ''}")


def _audit_key(origin: str) -> str:
    """The name part of a qualified name: no slash, at most 63 characters, and no two origins alike."""
    key = origin.replace("/", ".")
    if len(key) <= _LONGEST_KEY:
        return key
    mark = hashlib.sha256(origin.encode()).hexdigest()[:_MARK]
    return f"{key[: _LONGEST_KEY - _MARK - 1].rstrip('.-_')}-{mark}"
