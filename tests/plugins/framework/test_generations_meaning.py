"""What the controllers make of a TrainJob before and after conversion: the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from plugins.framework import generations, goform, schema
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.generations import compose
from plugins.framework.generations.marks import SPEC
from plugins.framework.generations.steps import Step
from plugins.framework.lines import LINES
from plugins.framework.merge import Merger
from plugins.framework.resolve import resolve
from plugins.framework.runtime import CompiledRuntime
from tests.conformance import build, shapes
from tests.conformance.dice import Dice, SeededDice
from tests.conformance.oracle import Oracle
from tests.conformance.overrides import overrides
from tests.conformance.runtimes import jobs_of, runtime
from tests.conformance.strategies import DrawnDice

Json = dict[str, Any]
NOT_OVERRIDDEN = frozenset({"groupName", "parallelism", "completions"})
"""What no override reaches, and the lines write each in their own way."""
PAIRS = [(source, target) for source in LINES for target in LINES if source != target]


def drawn_case(source: str, target: str, dice: Callable[[str], Dice]) -> tuple[Json, Json] | None:
    """A TrainJob of the source line and a runtime that both lines read; None where they cannot agree.

    Lines differ in more than fields: only 2.3 adds a job that the runtime does not have, and folds the ports of init
    containers; policies have other outcomes; and two mounts of one path in one container, which no Pod may have,
    merge differently where the container is new. None of that is about overrides, and none of it is drawn.
    """
    made = runtime(dice(min(source, target)))
    made["spec"] = {"template": _without_ports(made["spec"]["template"])}
    if not jobs_of(made):
        return None
    choices = dice(source)
    spec = overrides(choices, made)
    if source == "2.1" and choices.chance(40):
        more = choices.several(1, 4, lambda d: overrides(d, made)["podTemplateOverrides"])
        spec["podTemplateOverrides"] += [entry for entries in more for entry in entries]
    if LINES[source].spec_metadata and choices.chance(40):
        spec |= shapes.metadata(choices)
    if "rule:override-unknown-job" in choices.tags or _mounts_twice(spec):
        return None
    raw = {
        "apiVersion": made["apiVersion"],
        "kind": "TrainJob",
        "metadata": {"name": "test"},
        "spec": {"runtimeRef": {"kind": made["kind"], "name": made["metadata"]["name"]}, **spec},
    }
    admitted = schema.load(min(source, target)).admit(made["kind"], made)
    return raw, admitted.obj


def _without_ports(value: Any) -> Any:
    if type(value) is dict:
        return {key: _without_ports(item) for key, item in value.items() if key != "ports"}
    return [_without_ports(item) for item in value] if type(value) is list else value


def _mounts_twice(value: Any) -> bool:
    if type(value) is list:
        return any(map(_mounts_twice, value))
    if type(value) is not dict:
        return False
    paths = [mount["mountPath"] for mount in value.get("volumeMounts", ())]
    return len(set(paths)) < len(paths) or any(map(_mounts_twice, value.values()))


def resolved(line: str, raw: Json, made: Json) -> Any:
    """The merged jobs and the JobSet's metadata, without what a line writes and another leaves out."""
    admitted = schema.load(line).admit("TrainJob", raw)
    assert not admitted.errors
    info = resolve(TrainJob(admitted.obj), CompiledRuntime(made, LINES[line]), trace=True)
    jobs = goform.load(line).normalize(info.template, "JobSetSpec")["replicatedJobs"]
    return _bare([jobs, info.labels, info.annotations, info.build_error])


def _bare(value: Any) -> Any:
    if type(value) is dict:
        bare = {key: _bare(item) for key, item in value.items() if key not in NOT_OVERRIDDEN}
        return {key: item for key, item in bare.items() if item not in (None, {}, [])}
    return [_bare(item) for item in value] if type(value) is list else value


def seeded(seed: int) -> Callable[[str], SeededDice]:
    return lambda line: SeededDice(line, f"generations/{seed}/{line}")


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_merged_pods_are_the_same(source: str, target: str) -> None:
    compared = 0
    for seed in range(60):
        drawn = drawn_case(source, target, seeded(seed))
        if drawn is None:
            continue
        raw, made = drawn
        converted = generations.convert(raw, LINES[target])
        if not converted.findings.errors:
            assert resolved(source, raw, made) == resolved(target, converted.obj, made)
            compared += 1
    assert compared > 10


@st.composite
def old_jobs(draw: st.DrawFn) -> tuple[Json, Json]:
    drawn = drawn_case("2.1", "2.1", lambda line: DrawnDice(line, draw))
    assume(drawn is not None)
    assert drawn is not None
    return drawn


@given(drawn=old_jobs())
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_there_and_back_means_the_same(drawn: tuple[Json, Json]) -> None:
    raw, made = drawn
    there = generations.convert(raw, LINES["2.3"])
    assert not there.findings.errors
    back = generations.convert(there.obj, LINES["2.1"])
    assert not back.findings.errors
    assert not back.findings.warnings
    assert resolved("2.1", back.obj, made) == resolved("2.1", raw, made)
    # Once more changes nothing: there is one form for each meaning.
    assert generations.convert(back.obj, LINES["2.3"]).obj == there.obj


NAMES = st.lists(st.sampled_from("abcd"), max_size=4, unique=True)


@st.composite
def pods(draw: st.DrawFn) -> Json:
    """A pod's fields that can meet again in another override."""
    made: Json = {}
    for key in draw(st.lists(st.sampled_from(["containers", "initContainers"]), max_size=2)):
        made[key] = [
            {
                "name": name,
                "env": [
                    draw(st.sampled_from([{"name": e, "value": "1"}, {"name": e}]))
                    for e in draw(NAMES)
                ],
                "volumeMounts": [{"name": m, "mountPath": f"/{m}"} for m in draw(NAMES)],
            }
            for name in draw(NAMES)
        ]
    if draw(st.booleans()):
        made["volumes"] = [
            draw(
                st.sampled_from(
                    [
                        {"name": v, "emptyDir": {"sizeLimit": "0.5Gi"}},
                        {"name": v, "secret": {"secretName": "s"}},
                    ]
                )
            )
            for v in draw(NAMES)
        ]
    if draw(st.booleans()):
        made["nodeSelector"] = dict.fromkeys(draw(NAMES), draw(st.sampled_from(["", "1"])))
    return made


@given(template=pods(), first=pods(), second=pods())
def test_one_override_for_two_is_the_two_after_one_another(
    template: Json, first: Json, second: Json
) -> None:
    line = LINES["2.1"]
    one, two = (
        Step(job="a", path=SPEC, origin=(i,), spec=pod) for i, pod in enumerate((first, second))
    )
    both = compose.merged(one, two, line)
    assume(isinstance(both, Step))
    assert isinstance(both, Step)
    assert _merged(_merged(template, first), second) == _merged(template, both.spec)


def _merged(template: Json, override: Json) -> Any:
    forms = goform.load("2.1")
    typed = forms.normalize(override, "PodTemplateSpecOverride")
    merged = Merger(forms).merge(forms.normalize(template, "PodSpec"), typed, "PodSpec")
    return forms.normalize(merged, "PodSpec")


def _required(**affinity: Any) -> Step:
    node = {"requiredDuringSchedulingIgnoredDuringExecution": affinity}
    return Step(job="a", path=SPEC, origin=(0,), spec={"affinity": {"nodeAffinity": node}})


def test_a_list_that_go_always_writes_deletes_where_it_is_absent() -> None:
    terms: list[Json] = [{"matchExpressions": []}]
    line = LINES["2.1"]
    deleting = compose.merged(_required(nodeSelectorTerms=terms), _required(), line)
    assert isinstance(deleting, Step)
    assert deleting.spec == _required().spec
    place = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    assert compose.merged(_required(), _required(nodeSelectorTerms=terms), line) == place


# What the Trainer itself makes of both


@pytest.mark.slow
@pytest.mark.skipif(
    not all(map(build.is_built, LINES)),
    reason="the oracle is not built for all lines: python -m tests.conformance.build",
)
def test_the_trainer_builds_the_same_jobset_from_both() -> None:
    cases: dict[str, list[Json]] = {line: [] for line in LINES}
    pairs: dict[str, tuple[str, str]] = {}
    choice = random.Random(7)
    for seed in range(1000, 1400):
        source, target = choice.choice(PAIRS)
        drawn = drawn_case(source, target, seeded(seed))
        if drawn is None:
            continue
        raw, made = drawn
        converted = generations.convert(raw, LINES[target])
        if not converted.findings.errors:
            name = f"{seed}: {source} to {target}"
            pairs[name] = (source, target)
            cases[source].append({"id": name, "trainJob": raw, "runtime": made})
            cases[target].append({"id": name, "trainJob": converted.obj, "runtime": made})
    answers = {
        line: {answer["id"]: answer for answer in Oracle(line).stream(cases[line])}
        for line in LINES
    }
    assert len(pairs) > 200
    for name, (source, target) in pairs.items():
        before, after = answers[source][name], answers[target][name]
        assert before.get("buildError") == after.get("buildError"), name
        assert after.get("trainJobSchemaErrors") is None, name
        assert _jobset(before) == _jobset(after), name


def _jobset(answer: Json) -> Any:
    return [_bare(obj) for obj in answer.get("objects", ()) if obj["kind"] == "JobSet"]
