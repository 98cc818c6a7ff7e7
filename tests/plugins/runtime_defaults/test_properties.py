"""Whatever subset of the fields is written, the controller builds the same objects; and nothing gets refused for it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.framework import lines
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.cluster import Snapshot
from plugins.framework.draft import Draft
from plugins.framework.errors import BuildError
from plugins.framework.pipeline import Pipeline
from plugins.framework.registry import Handle
from plugins.framework.runtime import CompiledRuntime
from plugins.runtime_defaults import ORDER, RuntimeDefaultsArgs, new, rules
from tests.builders import Json, MakeTrainJob
from tests.plugins import strategies
from tests.plugins.kit import LINES, default_pipeline, make_context, run, stored

SUBSETS = [subset for size in range(len(ORDER) + 1) for subset in combinations(ORDER, size)]


def outcome(pipe: Pipeline, line: str, runtime: Json, raw: Json) -> Any:
    """What the controller builds, or what it fails with."""
    ctx = make_context(Snapshot.of([runtime]), line=line)
    info = pipe.resolve(ctx, raw)
    assert info is not None
    try:
        return pipe.build(ctx, info)
    except BuildError as error:
        return str(error)


def findings(line: str, runtime: Json, raw: Json, ours: Mapping[str, str]) -> list[str]:
    """What is said against a TrainJob."""
    ctx = make_context(Snapshot.of([runtime]), line=line)
    ctx.written = ours
    return sorted(map(str, run(default_pipeline().validate(ctx, raw)).findings.errors))


@pytest.mark.parametrize("line", LINES)
@given(data=st.data(), fields=st.sampled_from(SUBSETS))
@settings(max_examples=60)
def test_nothing_that_is_built_changes(
    line: str, data: st.DataObject, fields: tuple[Any, ...]
) -> None:
    runtime_builder, job = data.draw(strategies.cases(line))
    runtime = stored(runtime_builder, line)
    compiled = CompiledRuntime(runtime, lines.LINES[line])
    before = with_trainer_where_its_absence_is_a_trap(job, compiled, line)

    raw = stored(job, line)
    draft = Draft(raw, runtime=compiled)
    with draft.by("RuntimeDefaults"):
        plugin = new(RuntimeDefaultsArgs(fields=fields), Handle())
        plugin.default_train_job(make_context(Snapshot.of([runtime]), line=line), draft)

    pipe = default_pipeline()
    assert outcome(pipe, line, runtime, raw) == outcome(pipe, line, runtime, before)
    refused = set(findings(line, runtime, raw, draft.record))
    assert refused <= set(findings(line, runtime, before, {}))


def with_trainer_where_its_absence_is_a_trap(
    job: MakeTrainJob, compiled: CompiledRuntime, line: str
) -> Json:
    """The one exception (G10): a distributed policy without ``spec.trainer`` is as if it were there and empty."""
    raw = stored(job, line)
    if TrainJob(raw).trainer is None and rules.needs_trainer(compiled):
        raw = stored(job.trainer(), line)
    return raw
