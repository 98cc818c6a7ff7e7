"""What a request's way through the policies was, for those who ask why: ``stationmaster explain`` and ``simulate``.

Whoever wants it puts a Trace among the notes of a Context; ``Run`` and ``Judge`` then say what they found as they find
it, so that nothing is worked out a second time. Without one, each of these places costs a look at ``None``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from plugins.framework import values
from policies import exceptions, limits
from policies.faults import ExpressionFault

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.field import FieldError, Path
    from plugins.framework.info import Info
    from policies.compile import Matched
    from policies.document import Action, Expression, Key, Limit, Policy, Validation
    from policies.limits import Checked, Measure
    from policies.matching import Creator
    from policies.options import Option
    from policies.placing import Effect
    from policies.run import Run
    from policies.view import View
    from policies.writes import Mode, Write

TRACE: Final = "PlatformPolicy/trace"
"""The note of a Context under which a Trace is."""
CREATOR: Final = "PlatformPolicy/creator"
"""The note that says who created the job, where the request does not: for jobs that are stored already."""

Kind = Literal["limit", "validation"]
Outcome = Literal["passes", "broken", "excepted", "let be", "fault", "not judged"]
"""``let be``: the stored job breaks the rule no less. ``not judged``: only metadata changed, and the rule is about more."""


class Wrote(NamedTuple):
    """One value that policies wrote, or only announced."""

    mode: Mode
    round: int
    effect: Effect
    is_announced: bool


@dataclass(slots=True, kw_only=True)
class Ruled:
    """What came of one rule."""

    name: str
    kind: Kind
    outcome: Outcome
    actions: tuple[Action, ...]
    exception: str = ""
    """Who lets it through, with ``excepted``; a part of it, with ``broken``."""
    errors: tuple[FieldError, ...] = ()
    """What the job hears with ``broken``; what it would have heard with ``excepted`` and ``let be``, where that is known."""
    measures: tuple[Measure, ...] = ()
    """What there is, and the bounds, of a limit over amounts."""
    fault: str = ""
    expression: Expression | None = None


@dataclass(slots=True)
class Trace:
    """What is known of one call, mutating or validating; of the last round where there were several."""

    ctx: Context
    run: Run | None = None
    """None where the policies were not asked."""
    view: View | None = None
    """The job as it was judged; None where it was not."""
    answers: dict[Key, dict[Path, Any]] = field(default_factory=dict)
    """Values of expressions over that."""
    wrote: list[Wrote] = field(default_factory=list)
    planned: list[tuple[Key, Mode, Option, Sequence[Write]]] = field(default_factory=list)
    """What each option wanted to write, in any round."""
    rules: dict[Key, list[Ruled]] = field(default_factory=dict)
    held: dict[tuple[Key, str], bool] = field(default_factory=dict)
    """Of each limit and validation that was judged, by its name: whether the job keeps it."""
    notes: dict[Key, tuple[exceptions.Note, ...]] = field(default_factory=dict)
    faults: dict[Key, list[str]] = field(default_factory=dict)
    """All of each policy, also of those that failurePolicy Ignore passes over."""

    def begin_round(self) -> None:
        """Defaults and overrides are planned anew."""
        self.faults.clear()

    def answered(self, view: View, found: Mapping[Key, Mapping[Path, Any]]) -> None:
        """Expressions were evaluated; of the stored job's values nothing is kept."""
        if view is self.view:
            for key, answers in found.items():
                self.answers.setdefault(key, {}).update(answers)

    def placed(self, mode: Mode, effects: Sequence[Effect]) -> None:
        """Values were written."""
        self.wrote += [Wrote(mode, self.ctx.round, each, is_announced=False) for each in effects]

    def fired(self) -> set[tuple[Key, str]]:
        """The options that wrote something: of each its policy, and its key behind the mode (``defaults.labels``)."""
        return {
            (key, f"{mode}.{option.key}")
            for key, mode, option, writes in self.planned
            for wrote in self.wrote
            if wrote.mode == mode
            and not wrote.is_announced
            and key in wrote.effect.keys
            and any(write.place == wrote.effect.place for write in writes)
        }

    def announced(self, mode: Mode, effects: Sequence[Effect]) -> None:
        """Values were only announced: each round says all of them again."""
        self.wrote = [w for w in self.wrote if not (w.is_announced and w.mode == mode)]
        self.wrote += [Wrote(mode, self.ctx.round, each, is_announced=True) for each in effects]

    def fault(self, key: Key, text: str) -> None:
        """Something is wrong with a policy."""
        found = self.faults.setdefault(key, [])
        if text not in found:
            found.append(text)

    def judging(self, view: View) -> None:
        """The job is judged as it is in this view."""
        self.view = view
        self.answers.clear()

    def loosened(self, key: Key, loosening: exceptions.Loosening) -> None:
        """Exceptions were looked at."""
        self.notes[key] = loosening.notes

    def limit(
        self,
        matched: Matched,
        limit: Limit,
        found: Checked | ExpressionFault,
        info: Info,
        evaluate: Callable[[Expression], Any],
    ) -> None:
        """A limit was checked."""
        ruled = Ruled(
            name=limit.name,
            kind="limit",
            outcome="passes",
            actions=matched.effect.actions_of(limit.actions),
        )
        self.rules.setdefault(matched.key, []).append(ruled)
        if isinstance(found, ExpressionFault):
            ruled.outcome, ruled.fault = "fault", str(found)
            return
        self.held[matched.key, limit.name] = not found.new
        ruled.measures = tuple(limits.measured(limit, info, evaluate=evaluate))
        told = found.broken or found.new or found.found
        ruled.errors = tuple(violation.error for violation in told)
        ruled.exception = ", ".join(found.exceptions)
        if found.broken:
            ruled.outcome = "broken"
        elif found.new:
            ruled.outcome = "excepted"
        elif found.found:
            ruled.outcome = "let be"

    def validations(
        self,
        matched: Matched,
        asked: Sequence[Validation],
        answered: Mapping[Path, Any],
        excepted: Mapping[str, str],
        broken: Mapping[str, tuple[FieldError, ...]],
    ) -> None:
        """Validations were evaluated; ``broken`` are those that the job must answer for, and in which words.

        ``excepted`` are those that an exception lets through, with its name.
        """
        out = self.rules.setdefault(matched.key, [])
        for validation in asked:
            value = answered.get(validation.expression.path)
            ruled = Ruled(
                name=validation.name,
                kind="validation",
                outcome="passes",
                actions=matched.effect.actions_of(validation.actions),
                expression=validation.expression,
            )
            out.append(ruled)
            if type(value) is bool:
                self.held[matched.key, validation.name] = value
            if value is True:
                continue
            if value is not False:
                ruled.outcome = "fault"
                ruled.fault = value.message if isinstance(value, ExpressionFault) else "no value"
            elif validation.name in excepted:
                ruled.outcome, ruled.exception = "excepted", excepted[validation.name]
            elif validation.name in broken:
                ruled.outcome, ruled.errors = "broken", broken[validation.name]
            else:
                ruled.outcome = "let be"
        known = {ruled.name for ruled in out}
        for kind, rules in _kinds(matched.policy):
            for rule in rules:
                if rule.name not in known:
                    actions = matched.effect.actions_of(rule.actions)
                    out.append(
                        Ruled(name=rule.name, kind=kind, outcome="not judged", actions=actions)
                    )


def _kinds(policy: Policy) -> tuple[tuple[Kind, Sequence[Limit | Validation]], ...]:
    return (("limit", policy.limits), ("validation", policy.validations))


def trace_of(ctx: Context) -> Trace | None:
    """The Trace that somebody has put into a Context."""
    found = ctx.notes.get(TRACE)
    return found if isinstance(found, Trace) else None


def creator_of(ctx: Context, stored: Callable[[dict[str, Any]], Creator]) -> Creator:
    """Who created the job: what was put into the Context, else what is stored on UPDATE, else who asks."""
    given: Creator | None = ctx.notes.get(CREATOR)
    if given is not None:
        return given
    old = ctx.request.old_object
    return stored(values.obj(old)) if ctx.is_update and old else ctx.request.user
