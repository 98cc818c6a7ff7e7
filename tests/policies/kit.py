"""Runs options over TrainJobs as the engine does: defaults, RuntimeDefaults, overrides, in rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

from plugins.framework import applied, lines, values
from plugins.framework.api import names
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.draft import Draft
from plugins.framework.field import Path
from plugins.framework.info import Info
from plugins.framework.pipeline import runtime_of
from policies import placing
from policies.document import POLICY, Expression, Key
from policies.merging import Decision, Planned, decide
from policies.options import Option, Subject, read
from policies.placing import Placed, place
from policies.writes import Mode, Write
from tests.builders import Json, MakeRuntime, MakeTrainJob
from tests.plugins.kit import (
    Built,
    cluster_of,
    default_pipeline,
    make_context,
    stored,
)

MODES: tuple[Mode, ...] = ("defaults", "overrides")
ROUNDS = 4


def options(mode: Mode, raw: Any) -> tuple[Option, ...]:
    """Read a section that has no mistake."""
    found, errors = read(mode, raw, Path("spec", mode))
    assert not errors, list(map(str, errors))
    return found


def problems(mode: Mode, raw: Any) -> list[str]:
    """What is wrong with a section."""
    return [str(error) for error in read(mode, raw, Path("spec", mode))[1]]


@dataclass(frozen=True)
class Rules:
    """A policy as far as it writes."""

    name: str = "p"
    defaults: Json = field(default_factory=dict)
    overrides: Json = field(default_factory=dict)
    priority: int = 0
    expressions: Mapping[str, Any] = field(default_factory=dict)
    """What each expression gives."""

    @property
    def key(self) -> Key:
        return Key(POLICY, "", self.name)

    def section(self, mode: Mode) -> Json:
        return self.defaults if mode == "defaults" else self.overrides

    def plan(self, mode: Mode, info: Info, notes: list[str] | None = None) -> list[Write]:
        def evaluate(expression: Expression) -> Any:
            return deepcopy(self.expressions[expression.text])

        said: list[str] = [] if notes is None else notes
        subject = Subject(
            resolved=lambda: info, line=info.line, mode=mode, evaluate=evaluate, note=said.append
        )
        section = options(mode, self.section(mode))
        return [write for option in section for write in option.plan(subject)]


def decided(rules: Sequence[Rules], mode: Mode, info: Info) -> Decision:
    return decide(Planned(r.key, r.priority, mode, r.plan(mode, info)) for r in rules)


@dataclass(kw_only=True)
class Outcome:
    """A TrainJob after the policies."""

    raw: Json
    draft: Draft
    patch: list[Json]
    placed: dict[Mode, Placed]
    line: str
    runtime: MakeRuntime
    rounds: int

    @property
    def job(self) -> Json:
        """``spec.trainer``."""
        found: Json = self.raw["spec"].get("trainer", {})
        return found

    @property
    def record(self) -> dict[str, str]:
        return applied.read(self.raw)

    @property
    def warnings(self) -> list[str]:
        return self.placed["defaults"].warnings + self.placed["overrides"].warnings

    @property
    def entries(self) -> list[Json]:
        found: list[Json] = self.raw["spec"].get(lines.LINES[self.line].generation, [])
        return found

    @property
    def managers(self) -> list[str]:
        return [entry["manager"] for entry in self.entries]

    @property
    def built(self) -> Built:
        """What the controller makes of it."""
        ctx = make_context(cluster_of(self.runtime, line=self.line), line=self.line)
        info = default_pipeline().resolve(ctx, self.raw)
        assert info is not None
        return Built(default_pipeline().build(ctx, info))


def apply(
    job: MakeTrainJob | Json,
    runtime: MakeRuntime,
    *rules: Rules,
    line: str = "2.3",
    old: Json | None = None,
    then: Sequence[Rules] | None = None,
) -> Outcome:
    """One mutating call; ``then`` are the policies that match from its second round on."""
    pipe = default_pipeline()
    raw = stored(job, line) if isinstance(job, MakeTrainJob) else deepcopy(job)
    sent = deepcopy(raw)
    operation = "CREATE" if old is None else "UPDATE"
    cluster = cluster_of(runtime, line=line)
    ctx = make_context(cluster, line=line, operation=operation, obj=sent, old=deepcopy(old))
    draft = pipe._draft(ctx, raw)
    assert runtime_of(ctx, TrainJob(raw)) is not None
    if old is not None:
        with draft.by("KeepOldForm"):
            pipe.plugins["KeepOldForm"].reconcile_update(ctx, draft, TrainJob(deepcopy(old)))  # type: ignore[attr-defined]
    placed: dict[Mode, Placed] = {}
    count = 0
    for count in range(1, ROUNDS + 1):
        before = draft.revision
        now = rules if count == 1 or then is None else then
        placed["defaults"] = place(ctx, draft, "defaults", decided(now, "defaults", draft.info))
        if old is None:
            with draft.by("RuntimeDefaults"):
                pipe.plugins["RuntimeDefaults"].default_train_job(ctx, draft)  # type: ignore[attr-defined]
        placed["overrides"] = place(ctx, draft, "overrides", decided(now, "overrides", draft.info))
        if draft.revision == before and not (then is not None and count == 1):
            break
    else:
        raise AssertionError("the rounds do not end")
    ctx.written = draft.record
    if old is None or draft.record != draft.claims:
        pipe._record(draft)
    patch = draft.patch()
    assert values.same(jsonpatch.apply_patch(sent, patch), raw)
    return Outcome(
        raw=raw,
        draft=draft,
        patch=patch,
        placed=placed,
        line=line,
        runtime=runtime,
        rounds=count,
    )


def again(outcome: Outcome, *rules: Rules) -> Outcome:
    """The same call on what it left."""
    return apply(outcome.raw, outcome.runtime, *rules, line=outcome.line)


def announced(
    job: MakeTrainJob, runtime: MakeRuntime, rules: Rules, mode: Mode, line: str = "2.3"
) -> list[str]:
    """What a policy with ``mutate: Warn`` says."""
    raw = stored(job, line)
    before = deepcopy(raw)
    ctx = make_context(cluster_of(runtime, line=line), line=line, obj=raw)
    draft = default_pipeline()._draft(ctx, raw)
    foreseen = placing.foresee(ctx, draft, mode, decided([rules], mode, draft.info))
    texts = [placing.announced(effect) for effect in foreseen]
    assert values.same(raw, before)
    assert not draft.changed
    assert not draft.record
    return texts


OURS = names.OUR_MANAGERS
