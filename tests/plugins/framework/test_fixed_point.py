"""The mutating call is a fixed point: it adds nothing to its own output, whatever others did to that meanwhile."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.framework import applied, goform
from plugins.framework.api import names
from plugins.framework.cluster import Snapshot
from plugins.framework.lines import LINES as FACTS
from plugins.framework.pipeline import Pipeline
from tests.builders import Json, container, make_runtime, make_train_job, resources
from tests.plugins import strategies
from tests.plugins.kit import (
    LINES,
    Case,
    admit,
    default_pipeline,
    make_context,
    pipeline_with,
    run,
    stored,
)

FIELDS = ["numNodes", "numProcPerNode", "image", "command", "args", "resourcesPerNode"]


def eager_pipeline() -> Pipeline:
    """RuntimeDefaults writes all that it can."""
    return pipeline_with(
        {"pluginConfig": [{"name": "RuntimeDefaults", "args": {"fields": FIELDS}}]}
    )


EAGER = eager_pipeline()


def mutate(pipe: Pipeline, line: str, runtime: Json, raw: Json) -> tuple[list[Json], Json]:
    """The patch of the mutating call, and what the API server makes of it."""
    ctx = make_context(Snapshot.of([runtime]), line=line)
    patch = run(pipe.mutate(ctx, deepcopy(raw))).patch
    return patch, jsonpatch.apply_patch(raw, patch)


def as_kueue_leaves_it(raw: Json, line: str) -> Json:
    """Kueue's webhook: suspended, its entry appended, every quantity in Go's form; the Trainer's: time stamped."""
    out = deepcopy(raw)
    spec = out["spec"]
    spec["suspend"] = True
    if FACTS[line].has_managers:
        empty: Json = {"trainingRuntimeSpec": {"template": {"spec": {}}}}
        patches = spec.setdefault("runtimePatches", [])
        for patch in patches:
            patch["time"] = "2026-01-01T00:00:00Z"
        patches.append({"manager": names.KUEUE_MANAGER, **empty})
    own = spec.get("trainer", {}).get("resourcesPerNode", {})
    for part in ("limits", "requests"):
        for name, amount in own.get(part, {}).items():
            own[part][name] = goform.write_quantity(amount)
    return out


def forged(draw: st.DataObject, raw: Json) -> Json:
    """The object with an annotation that claims what it likes."""
    pointers = [f"/spec/trainer/{name}" for name in FIELDS] + ["/spec/trainer", "/spec", "", "x"]
    amounts: list[Any] = [1, 2, {}, "example.test/a:1", {"limits": {"cpu": "4"}}]
    marks = [applied.mark(by, v) for by in ("RuntimeDefaults", "Other") for v in amounts]
    claims = draw.draw(
        st.dictionaries(st.sampled_from(pointers), st.sampled_from([*marks, "", "x:y"]), max_size=4)
    )
    text = draw.draw(
        st.sampled_from([applied.write(claims), "{", "[]", "null", '{"/spec": 1}', ""])
    )
    out = deepcopy(raw)
    out["metadata"].setdefault("annotations", {})[names.APPLIED_ANNOTATION] = text
    out["metadata"]["annotations"][names.TOTALS_ANNOTATION] = "forged"
    return out


@pytest.mark.parametrize("line", LINES)
@given(data=st.data(), pipe=st.sampled_from([default_pipeline(), EAGER]))
@settings(max_examples=25)
def test_mutating_twice_is_mutating_once(line: str, data: st.DataObject, pipe: Pipeline) -> None:
    runtime_builder, job = data.draw(strategies.cases(line))
    runtime, raw = stored(runtime_builder, line), stored(job, line)
    _, once = mutate(pipe, line, runtime, raw)

    assert mutate(pipe, line, runtime, once)[0] == []
    assert mutate(pipe, line, runtime, as_kueue_leaves_it(once, line))[0] == []


@pytest.mark.parametrize("line", LINES)
@given(data=st.data())
@settings(max_examples=25)
def test_a_forged_record_changes_nothing_else(line: str, data: st.DataObject) -> None:
    runtime_builder, job = data.draw(strategies.cases(line))
    runtime, raw = stored(runtime_builder, line), stored(job, line)
    honest_patch, honest = mutate(EAGER, line, runtime, raw)
    lie = forged(data, raw)
    patch, once = mutate(EAGER, line, runtime, lie)

    assert mutate(EAGER, line, runtime, once)[0] == []
    if not honest_patch:  # refused, the lie as well
        assert not patch
        return
    record = applied.read(honest)
    for obj in (honest, once):
        obj["metadata"].setdefault("annotations", {}).pop(names.APPLIED_ANNOTATION, None)
    assert once == honest
    claimed = applied.read(lie)
    assert all(pointer in record or pointer in claimed for pointer in applied.read(once))


def test_a_record_that_nothing_supports_is_taken_away() -> None:
    job = make_train_job().nodes(3).annotation(names.APPLIED_ANNOTATION, '{"/spec/x":"Y:00000000"}')
    case = Case(job=job, runtime=make_runtime().plain().node())
    assert names.APPLIED_ANNOTATION not in admit(case).raw["metadata"]["annotations"]


def test_a_reinvocation_keeps_the_record_of_the_first_call() -> None:
    """The record of ``spec.trainer`` as a whole too, which the first call makes and fills."""
    node = container("node", resources=resources(limits={"cpu": 2}))
    for job in (make_train_job(), make_train_job().trainer(), make_train_job().nodes(2)):
        case = Case(job=job, runtime=make_runtime().torch().nodes(2).node(node))
        first = admit(case).raw
        again, _ = mutate(
            default_pipeline(), "2.3", stored(make_runtime().torch().nodes(2).node(node)), first
        )
        assert again == []
        assert applied.read(first)


def test_the_empty_trainer_that_we_make_is_on_record() -> None:
    pipe = pipeline_with({"pluginConfig": [{"name": "RuntimeDefaults", "args": {"fields": []}}]})
    case = Case(job=make_train_job(), runtime=make_runtime().torch().node())
    first = admit(case, pipe).raw
    assert first["spec"]["trainer"] == {}
    assert applied.read(first) == {"/spec/trainer": applied.mark("RuntimeDefaults", {})}
    assert mutate(pipe, "2.3", stored(make_runtime().torch().node()), first)[0] == []
