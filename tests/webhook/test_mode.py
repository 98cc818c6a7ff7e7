"""The switch, and what a review is answered in each of its positions."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import orjson
import pytest

from plugins.framework import lines, profile
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.cluster import Snapshot
from plugins.framework.context import Context
from plugins.framework.draft import Draft
from plugins.framework.field import Findings, Path, required
from plugins.framework.info import Info
from plugins.framework.interface import CustomValidationPlugin, DefaultTrainJobPlugin
from plugins.framework.pipeline import Pipeline
from plugins.framework.registry import PluginSpec, Registry
from plugins.registry import in_tree
from tests.builders import Json, container, job_patch, make_runtime, make_train_job, resources
from tests.reviews import samples
from tests.reviews.desk import ONE_WARNING, PHASES, Desk, Reply, create, delete, update
from webhook import logs
from webhook.metrics import Recorder
from webhook.mode import NAME, PREFIX, Fixed, Mode, Switch, find
from webhook.review import Looked, NotNow, Phase, Reviewer

RUNTIME = make_runtime().torch().node(container("node", resources=resources({"cpu": 2})))
JOB = make_train_job()
WRONG = samples.stored(JOB.nodes(-1))
WRONG_RUNTIME = samples.stored(make_runtime().torch().node(replicas=2))


def config_map(mode: Any, **metadata: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, **metadata},
        "data": {"mode": mode},
    }


# The switch


@dataclass
class Lever:
    """A switch, with what it wrote and counted."""

    log: io.BytesIO = field(default_factory=io.BytesIO)
    recorder: Recorder = field(default_factory=Recorder)

    def __post_init__(self) -> None:
        self.switch = Switch(recorder=self.recorder, logger=logs.build(self.log))

    @property
    def lines(self) -> list[Json]:
        return [orjson.loads(line) for line in self.log.getvalue().splitlines()]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.recorder.registry.get_sample_value(f"stationmaster_{name}", labels)

    def modes(self) -> list[str]:
        return [mode for mode in ("enforce", "warn", "off") if self.metric("mode", mode=mode)]


def test_until_anything_is_read_it_enforces() -> None:
    lever = Lever()
    assert (lever.switch.mode, lever.modes(), lever.lines) == ("enforce", ["enforce"], [])


UNDERSTOOD: dict[str, tuple[Any, Mode]] = {
    "enforce": ("enforce", "enforce"),
    "warn": ("warn", "warn"),
    "off": ("off", "off"),
    "in capitals": ("OFF", "off"),
    "with a line break, as --from-file has it": ("warn\n", "warn"),
}


@pytest.mark.parametrize(("said", "mode"), UNDERSTOOD.values(), ids=UNDERSTOOD)
@pytest.mark.parametrize("before", ["enforce", "warn", "off"])
def test_what_is_understood_is_done_told_and_counted(before: str, said: str, mode: Mode) -> None:
    lever = Lever()
    lever.switch.read(config_map(before))
    told = len(lever.lines)

    lever.switch.read(config_map(said))

    assert lever.switch.mode == mode
    assert lever.modes() == [mode]
    changes = [(line["msg"], line["before"], line["mode"]) for line in lever.lines[told:]]
    assert changes == ([("mode is set", before, mode)] if mode != before else [])


def test_without_the_config_map_it_enforces() -> None:
    lever = Lever()
    lever.switch.read(config_map("off"))

    lever.switch.read(None)

    assert (lever.switch.mode, lever.modes()) == ("enforce", ["enforce"])


MISTYPED: dict[str, tuple[Json, str]] = {
    "a word that is none": (config_map("of"), '"of"'),
    "nothing": (config_map(""), '""'),
    "off without quotes, in a folder": (config_map(False), "false"),
    "another key": ({**config_map(""), "data": {"mod": "off"}}, "null"),
    "no data": ({"metadata": {"name": NAME}}, "null"),
    "data that are none": ({**config_map(""), "data": ["off"]}, "null"),
}


@pytest.mark.parametrize(("said", "read"), MISTYPED.values(), ids=MISTYPED)
@pytest.mark.parametrize("before", ["enforce", "warn", "off"])
def test_what_is_not_understood_leaves_it_and_is_told_with_what_is_right(
    before: Mode, said: Json, read: str
) -> None:
    lever = Lever()
    lever.switch.read(config_map(before))

    lever.switch.read(said)
    lever.switch.read(said)

    assert (lever.switch.mode, lever.modes()) == (before, [before])
    labels = {"read": read, "right": "enforce, warn, off"}
    assert lever.metric("mode_not_understood", **labels) == 1
    [line] = [line for line in lever.lines if line["level"] == "error"]
    assert line["msg"] == "mode is not understood and stays as it was"
    assert (line["configMap"], line["key"], line["mode"]) == (NAME, "mode", before)
    assert (line["read"], line["right"]) == (read, "enforce, warn, off; in YAML in quotes")


def test_a_mistake_is_told_to_be_mended_also_where_the_mode_is_the_one_before() -> None:
    lever = Lever()
    lever.switch.read(config_map("enforced"))

    lever.switch.read(config_map("enforce"))

    assert [line["msg"] for line in lever.lines][-1] == "mode is set"
    labels = {"read": '"enforced"', "right": "enforce, warn, off"}
    assert lever.metric("mode_not_understood", **labels) is None


def test_what_is_read_is_told_in_few_characters_that_do_no_harm() -> None:
    lever = Lever()
    lever.switch.read(config_map("\x1b[2J" + "x" * 1000))
    assert lever.lines[0]["read"].startswith('"\\u001b[2J')
    assert len(lever.lines[0]["read"]) < 300


FOLDERS: dict[str, tuple[list[Json], bool]] = {
    "the ConfigMap": ([config_map("off", namespace="ours")], True),
    "one that does not say where": ([config_map("off")], True),
    "after others": ([{"kind": "Namespace"}, config_map("off", namespace="ours")], True),
    "another namespace's": ([config_map("off", namespace="theirs")], False),
    "another name": ([config_map("off", namespace="ours", name="other")], False),
    "another kind": ([{**config_map("off"), "kind": "Secret"}], False),
    "none": ([], False),
}


@pytest.mark.parametrize(("objects", "is_there"), FOLDERS.values(), ids=FOLDERS)
def test_in_a_folder_it_is_found_by_kind_and_name(objects: list[Json], is_there: bool) -> None:
    found = find(objects, "ours")
    assert (found is not None) == is_there
    assert found is None or found["data"] == {"mode": "off"}


# What is answered


def desk(mode: Mode, *objects: Any) -> Desk:
    return replace(Desk.of(RUNTIME, *objects), switch=Fixed(mode))


REFUSED: dict[str, Json] = {
    "a TrainJob": create(WRONG),
    "a change of a TrainJob": update(
        samples.stored(JOB.suspended()), samples.stored(JOB.suspended().nodes(-1))
    ),
    "a runtime": create(WRONG_RUNTIME),
    "a change of a runtime": update(samples.stored(RUNTIME), WRONG_RUNTIME),
}


@pytest.mark.parametrize("asked", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("phase", PHASES)
def test_warn_refuses_nothing_and_says_what_would_be(phase: Phase, asked: Json) -> None:
    refused = desk("enforce").post(phase, asked)
    assert not refused.allowed

    reply = desk("warn").post(phase, asked)

    assert (reply.allowed, reply.patch) == (True, None)
    assert reply.answer.decision == "would_be_denied"
    assert reply.answer.findings == refused.answer.findings
    assert reply.response["auditAnnotations"] == {"mode": "warn"}
    told = [w for w in reply.warnings if w.startswith(PREFIX)]
    assert told == reply.warnings[: len(refused.causes)]
    for warning, (path, _) in zip(told, refused.causes, strict=True):
        assert warning.startswith(f"{PREFIX} refuse this: {path}: ")


def test_both_calls_say_the_same_so_that_users_read_it_once() -> None:
    """The API server drops a warning that it has passed on already."""
    said = [desk("warn").post(phase, create(WRONG)).warnings for phase in PHASES]
    assert said[0] == said[1]


def test_more_refusals_than_fit_are_counted() -> None:
    labels = {f"bad key {i}": "v" for i in range(130)}
    job = JOB.patch("a.example/m", job_patch("node", pod_metadata={"labels": labels}))
    reply = desk("warn").mutate(create(samples.stored(job)))
    assert (reply.allowed, reply.answer.findings) == (True, 130)
    assert reply.warnings[-1].endswith("more warnings were left out")


def test_warn_changes_nothing_and_names_the_places_that_it_would_write() -> None:
    asked = create(samples.stored(JOB))
    assert desk("enforce").mutate(asked).patch

    reply = desk("warn").mutate(asked)

    assert (reply.allowed, reply.patch) == (True, None)
    assert reply.answer.decision == "would_be_patched"
    assert reply.warnings == [
        f"{PREFIX} write spec.trainer.numNodes, spec.trainer.numProcPerNode,"
        " spec.trainer.resourcesPerNode,"
        " metadata.annotations[stationmaster.dev/podgroup-totals],"
        " metadata.annotations[stationmaster.dev/applied]"
    ]


def test_places_that_do_not_fit_are_counted() -> None:
    class Labels(_Plugin, DefaultTrainJobPlugin):
        def default_train_job(self, ctx: Context, draft: Draft) -> None:
            del ctx
            for i in range(30):
                draft.set(Path("metadata", "labels").key(f"example.com/label-{i}"), "x")

    reply = with_plugin(Labels).mutate(create(samples.stored(JOB)))

    [warning] = reply.warnings
    assert len(warning) <= ONE_WARNING
    shown = warning.count("metadata.labels[")
    more = int(warning.rpartition(" and ")[2].removesuffix(" more"))
    assert 0 < shown < 30
    assert shown + warning.count("spec.") + more >= 30
    assert "..." not in warning


class _Plugin:
    name: ClassVar[str] = "Extra"


def with_plugin(plugin: Callable[[], Any], mode: Mode = "warn") -> Desk:
    """A desk whose profile runs one more plugin, behind all others."""
    specs = (*in_tree(), PluginSpec(name="Extra", build=lambda _args, _handle: plugin()))
    document = {
        "apiVersion": profile.API_VERSION,
        "kind": profile.KIND,
        "plugins": {"multiPoint": {"enabled": [{"name": "Extra"}]}},
    }
    chosen = profile.decode(document, [spec.name for spec in specs])
    return replace(desk(mode), pipeline=Pipeline(Registry(specs), chosen))


LABEL = Path("metadata", "labels").key("example.com/queue")


class Queue(_Plugin, DefaultTrainJobPlugin, CustomValidationPlugin):
    """Fills a label that it also asks for; may fail half-way."""

    fails = False

    def default_train_job(self, ctx: Context, draft: Draft) -> None:
        del ctx
        draft.set(LABEL, "default")
        if self.fails:
            raise RuntimeError

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        del ctx, info, old
        there = "example.com/queue" in new.labels
        return Findings() if there else Findings(errors=[required(LABEL)])


class HalfAQueue(Queue):
    fails = True


def test_the_validating_call_judges_what_the_mutating_one_would_have_made() -> None:
    """Under warn it meets the job without the queue, which enforced it would never see."""
    asked = create(samples.stored(JOB))
    assert not with_plugin(Queue, "enforce").validate(asked).allowed

    reply = with_plugin(Queue).validate(asked)

    assert reply.warnings == []
    assert reply.answer.decision == "allowed"


def test_of_what_a_failing_plugin_left_half_done_nothing_is_judged() -> None:
    asked = create(samples.stored(JOB))
    reply = with_plugin(HalfAQueue).validate(asked)
    assert reply.warnings == [f"{PREFIX} refuse this: {LABEL}: Required value"]


def test_what_failed_half_way_would_not_have_been_written() -> None:
    reply = with_plugin(HalfAQueue).mutate(create(samples.stored(JOB)))
    assert not [warning for warning in reply.warnings if f"{PREFIX} write" in warning]


def test_what_the_mutating_call_would_refuse_the_validating_one_would_never_see() -> None:
    """So it says the same, and nothing about what the refused job lacks."""
    desk_ = with_plugin(Queue)
    said = [desk_.post(phase, create(WRONG)).warnings for phase in PHASES]
    assert said[0] == said[1]
    assert not [warning for warning in said[1] if "queue" in warning]


WOULD = {"denied": "would_be_denied", "patched": "would_be_patched"}


def test_warn_says_of_every_sample_what_enforce_does() -> None:
    enforce = samples.desk()
    warn = replace(samples.desk(), switch=Fixed("warn"))
    for asked in samples.reviews():
        done, said = enforce.mutate(asked), warn.mutate(asked)
        assert said.answer.decision == WOULD.get(done.answer.decision, done.answer.decision)
        assert (said.allowed, said.patch) == (True, None)
        assert _others(said) == done.warnings
        if done.allowed and done.sent is not None:
            after = {**asked, "request": {**asked["request"], "object": done.after}}
            judged, said = enforce.validate(after), warn.validate(asked)
            decision = judged.answer.decision
            assert said.answer.decision == WOULD.get(decision, decision)
            assert _others(said) == judged.warnings


def _others(reply: Reply) -> list[str]:
    return [warning for warning in reply.warnings if not warning.startswith(PREFIX)]


@pytest.mark.parametrize("phase", PHASES)
def test_a_fault_of_ours_is_told_as_ever(phase: Phase) -> None:
    late = desk("warn")
    late.clock[0] = 10.0
    reply = late.post(phase, create(WRONG), deadline=9.0)
    assert (reply.allowed, reply.answer.decision) == (True, "error")
    assert reply.warnings[0].startswith("Stationmaster could not judge this object")


@pytest.mark.parametrize("phase", PHASES)
def test_warn_refuses_nothing_for_the_moment_either(phase: Phase) -> None:
    class Behind:
        async def look(self, ctx: Context, raw: Json) -> Looked:
            del ctx, raw
            await asyncio.sleep(0)
            raise NotNow("it has just started")

    reviewer = Reviewer(
        desk("warn").pipeline,
        Snapshot,
        line=lines.NEWEST,
        clock=lambda: 0.0,
        live=Behind(),
        switch=Fixed("warn"),
    )
    call = reviewer.mutate if phase == "mutate" else reviewer.validate
    answer = asyncio.run(call(orjson.dumps(create(WRONG)), deadline=1.0))
    assert answer.decision == "error"
    response = orjson.loads(answer.body)["response"]
    assert response["allowed"] is True
    assert response["warnings"] == [f"{PREFIX} refuse this for the moment: it has just started"]


OFF: dict[str, Json] = {
    **REFUSED,
    "what would be completed": create(samples.stored(JOB)),
    "a deletion of a TrainJob": delete(samples.stored(JOB)),
    "a deletion of a runtime": delete(samples.stored(RUNTIME)),
    "what is no object": create({**WRONG, "spec": ["x"]}),
}


@pytest.mark.parametrize("asked", OFF.values(), ids=OFF)
@pytest.mark.parametrize("phase", PHASES)
def test_off_lets_all_pass_without_a_word_or_a_look(phase: Phase, asked: Json) -> None:
    def touched() -> Snapshot:
        raise AssertionError

    reviewer = Reviewer(
        desk("off").pipeline,
        touched,
        line=None,
        clock=lambda: 0.0,
        switch=Fixed("off"),
    )
    call = reviewer.mutate if phase == "mutate" else reviewer.validate
    answer = asyncio.run(call(orjson.dumps(asked), deadline=-1.0))
    assert answer.decision == "off"
    assert orjson.loads(answer.body)["response"] == {
        "uid": asked["request"]["uid"],
        "allowed": True,
        "auditAnnotations": {"mode": "off"},
    }


@pytest.mark.parametrize("mode", ["enforce", "warn"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_deletion_is_answered_alike_where_it_is_looked_at(phase: Phase, mode: Mode) -> None:
    """It is never refused, so there is nothing to do otherwise."""
    for obj in (WRONG, WRONG_RUNTIME):
        reply = desk(mode).post(phase, delete(obj))
        assert (reply.allowed, reply.answer.decision) == (True, "allowed")
        assert not [w for w in reply.warnings if w.startswith(PREFIX)]


class Turning:
    """A switch that is thrown after each look."""

    def __init__(self) -> None:
        self.looks = 0

    @property
    def mode(self) -> Mode:
        self.looks += 1
        return "warn" if self.looks == 1 else "enforce"


@pytest.mark.parametrize("phase", PHASES)
def test_a_review_is_answered_by_one_mode_though_the_switch_is_thrown_meanwhile(
    phase: Phase,
) -> None:
    turning = Turning()
    reply = replace(Desk.of(RUNTIME), switch=turning).post(phase, create(WRONG))
    assert (reply.allowed, turning.looks) == (True, 1)
