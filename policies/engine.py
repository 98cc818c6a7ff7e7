"""What the plugin PlatformPolicy does where there are policies: compiles them, and runs them at the extension points.

In each round the policies that match the job as it then is plan what they want to write; ``merging`` decides whose
wish wins, ``placing`` edits the Draft. ``judging`` holds limits and validations against what has come out. Every fault
of a policy (its document, its expressions, its params) has the effect that its own ``failurePolicy`` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from plugins.framework import applied, values
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.errors import Fault
from plugins.framework.field import Findings
from plugins.framework.pipeline import MOST_ROUNDS
from policies import admission, exceptions, merging, placing, record, trace
from policies.compile import Matched, PolicySet
from policies.custom import asking
from policies.judging import Judge
from policies.options import Subject
from policies.plugin import NAME
from policies.run import Run, lookup
from policies.view import View

if TYPE_CHECKING:
    from plugins.framework.cluster import Documents, Snapshot
    from plugins.framework.context import Context
    from plugins.framework.draft import Draft
    from plugins.framework.info import Info
    from plugins.framework.interface import Asking
    from policies.document import Key, Policy
    from policies.options import Option
    from policies.strikes import Strikes
    from policies.writes import Mode, Write

MOST_SETS: Final = 3

_METADATA: Final = ("labels", "annotations")
_MODES: Final[tuple[Mode, ...]] = ("defaults", "overrides")


class Engine:
    """TrainJobPolicies over the resolved job."""

    def __init__(self, strikes: Strikes) -> None:
        """Know no policies yet."""
        self.strikes = strikes
        self._sets: tuple[tuple[Documents, PolicySet], ...] = ()
        """Of the last few snapshots: a request may still have the one before while the next is prepared."""

    def policies(self, cluster: Snapshot) -> PolicySet:
        """The policies of a snapshot, compiled: now, unless they have been prepared."""
        documents = cluster.documents
        for known, found in self._sets:
            if known is documents:
                return found
        return self.prepare(documents)

    def prepare(self, documents: Documents) -> PolicySet:
        """Compile what has changed, so that no request waits for it once a snapshot has these documents.

        Some 10 ms a changed policy, seconds for the largest; to be called in a thread, one at a time.
        """
        found = PolicySet.of(documents, self._sets[0][1] if self._sets else None)
        self._sets = ((documents, found), *self._sets[: MOST_SETS - 1])
        return found

    # Extension points

    def default_train_job(self, ctx: Context, draft: Draft) -> Asking[None] | None:
        """Plan and place the defaults of all policies that match."""
        run = self.run(ctx, TrainJob(draft.raw))
        is_idle = all(_is_idle(run, draft, mode) for mode in _MODES)
        return None if is_idle else self._write(run, draft, "defaults")

    def override_train_job(self, ctx: Context, draft: Draft) -> Asking[None] | None:
        """Plan and place their overrides."""
        run = self.run(ctx, TrainJob(draft.raw))
        return None if _is_idle(run, draft, "overrides") else self._write(run, draft, "overrides")

    def reconcile_update(self, ctx: Context, draft: Draft, old: TrainJob) -> Asking[None] | None:
        """Place anew what an update moves, as far as the API lets it change."""
        if draft.runtime is None:
            return None
        if not (_differs(old, TrainJob(draft.raw)) or _overrides_differ(ctx, old, draft)):
            return None
        run = self.run(ctx, draft.info.job)
        has_to_do = run.candidates or applied.has_policies(old.raw)
        return self._reconcile(run, draft) if has_to_do else None

    def record_of(self, ctx: Context, draft: Draft) -> record.Record:
        """What to remember of who creates the job: where a policy or an exception will ask again."""
        run = self.run(ctx, draft.info.job)
        return exceptions.record_of(
            (matched.policy for matched in run.candidates),
            run.policies.exceptions.get(ctx.namespace, ()),
            ctx.request.user,
        )

    def validate(
        self, ctx: Context, info: Info, old: TrainJob | None, new: TrainJob
    ) -> Findings | Asking[Findings]:
        """Limits and validations of all policies that match the job as it will run."""
        run = self.run(ctx, new)
        return Judge(run, info, new, old).judge() if run.candidates else Findings()

    def validate_metadata(
        self, ctx: Context, info: Info, old: TrainJob, new: TrainJob
    ) -> Findings | Asking[Findings]:
        """The same, of those rules that are about labels and annotations alone, where some differ."""
        if not _differs(old, new):
            return Findings()
        run = self.run(ctx, new)
        if not run.candidates:
            return Findings()
        return Judge(run, info, new, old, metadata_only=True).judge()

    # Documents that are about to be stored

    is_let_be = staticmethod(admission.is_let_be)
    compiled = staticmethod(admission.compiled)
    judge = staticmethod(admission.judge)

    # Steps

    def run(self, ctx: Context, job: TrainJob) -> Run:
        """What is known of this request so far."""
        kept: Run | None = ctx.notes.get(NAME)
        if kept is None:
            policies = self.policies(ctx.cluster)
            found = policies.candidates(ctx, job)
            kept = ctx.notes[NAME] = Run(
                ctx=ctx,
                policies=policies,
                place=found.place,
                candidates=found.policies,
                is_about_all=found.is_about_all,
                creator=trace.creator_of(ctx, record.read),
                strikes=self.strikes,
            )
            kept.trace = trace.trace_of(ctx)
            if kept.trace is not None:
                kept.trace.run = kept
        return kept

    def _reconcile(self, run: Run, draft: Draft) -> Asking[None]:
        yield from self._write(run, draft, "defaults")
        yield from self._write(run, draft, "overrides")

    def _write(self, run: Run, draft: Draft, mode: Mode) -> Asking[None]:
        """One mode of one round: plan, decide, place."""
        if mode == "defaults":
            run.begin_round()
            yield from run.match(self._view(run, draft), TrainJob(draft.raw))
        writing = [(m, found) for m in run.matched if (found := _options(m.policy, mode))]
        if not writing:
            run.wish(mode, {})
            self._place(run, draft, mode, merging.Decision(), {})
            return
        view = self._view(run, draft)
        asked = [(m, [e for o in options for e in o.expressions()]) for m, options in writing]
        answers = yield from run.ask(view, asked)
        called = [(m.compiled, options) for m, options in writing]
        outcomes = yield from asking.call(run.ctx, draft, called)
        applied_: list[merging.Planned] = []
        announced: list[merging.Planned] = []
        for matched, _ in writing:
            subject = Subject(
                resolved=lambda: draft.info,
                line=run.ctx.line,
                mode=mode,
                evaluate=lookup(answers.get(matched.key, {})),
                outcome=outcomes.get(matched.key, {}).get,
                note=partial(_note, run, matched),
            )
            plan = self._plan(run, matched, subject)
            if plan is not None:
                (applied_ if matched.effect.mutate == "Apply" else announced).append(plan)
        run.wish(mode, {plan.key: plan.writes for plan in applied_})
        by_key = {matched.key: matched for matched, _ in writing}
        self._place(run, draft, mode, merging.decide(applied_), by_key)
        if announced:
            self._announce(run, draft, mode, announced)

    @staticmethod
    def _view(run: Run, draft: Draft) -> View:
        return View(run.ctx, lambda: draft.info, draft.raw, run.ctx.request.old_object)

    @staticmethod
    def _announce(run: Run, draft: Draft, mode: Mode, announced: list[merging.Planned]) -> None:
        """Say what those would write that only warn."""
        foreseen = placing.foresee(run.ctx, draft, mode, merging.decide(announced))
        for effect in foreseen:
            run.warn(placing.announced(effect))
        if run.trace is not None:
            run.trace.announced(mode, foreseen)

    def _place(
        self,
        run: Run,
        draft: Draft,
        mode: Mode,
        decision: merging.Decision,
        by_key: Mapping[Key, Matched],
    ) -> None:
        """Write what is decided, also where that is nothing: what is no longer wanted goes."""
        for conflict in decision.conflicts:
            for key in conflict.keys:
                run.conflict(by_key[key], conflict)
        revision = draft.revision
        placed = placing.place(run.ctx, draft, mode, decision)
        run.effects += placed.effects
        if run.trace is not None:
            run.trace.placed(mode, placed.effects)
        for text in placed.warnings:
            run.warn(text)
        for error, keys in placed.unplaced:
            for key in keys:
                run.fail(by_key[key], str(error))
        if draft.revision != revision:
            self._ask_for_another_round(run, by_key)

    @staticmethod
    def _ask_for_another_round(run: Run, writers: Mapping[Key, Matched]) -> None:
        if not run.may_change or run.ctx.is_update:
            return
        run.ctx.again = True
        if run.ctx.round == MOST_ROUNDS:
            restless = run.restless or writers
            names = ", ".join(map(str, sorted(restless)))
            for _, matched in sorted(restless.items()):
                policy = matched.policy
                calls = any(one.reads_job for one in (*policy.defaults, *policy.overrides))
                or_else = ", or an option gives another value each time" if calls else ""
                run.fail(
                    matched,
                    f"what policies write still changes in round {MOST_ROUNDS}: a value changes what matches, and that "
                    f"the value{or_else}; these change: {names}",
                )

    @staticmethod
    def _plan(run: Run, matched: Matched, subject: Subject) -> merging.Planned | None:
        """What a policy wants to write; nothing of it where a part fails."""
        policy, mode = matched.policy, subject.mode
        writes: list[Write] = []
        try:
            for option in _options(policy, mode):
                wanted = option.plan(subject)
                if run.trace is not None:
                    run.trace.planned.append((policy.key, mode, option, wanted))
                writes += wanted
        except Fault as fault:
            run.fail(matched, str(fault))
            return None
        return merging.Planned(policy.key, matched.compiled.rank, mode, writes)


def _note(run: Run, matched: Matched, text: str) -> None:
    run.warn(f"[{matched.key}] {text}")


def _options(policy: Policy, mode: Mode) -> tuple[Option, ...]:
    return policy.defaults if mode == "defaults" else policy.overrides


def _is_idle(run: Run, draft: Draft, mode: Mode) -> bool:
    """Whether nothing can be written in a mode, and nothing that it wrote is left of an earlier call."""
    if run.ctx.is_update or draft.claims:
        return not run.candidates
    return not any(_options(matched.policy, mode) for matched in run.candidates)


def _differs(old: TrainJob, new: TrainJob) -> bool:
    """Whether labels or annotations differ, or what else a rule may ask for has come or gone with them."""
    return any(not values.same(old.metadata.get(key), new.metadata.get(key)) for key in _METADATA)


def _overrides_differ(ctx: Context, old: TrainJob, draft: Draft) -> bool:
    key = ctx.line.generation
    return not values.same(old.spec.get(key), values.at(draft.raw, "spec", key))
