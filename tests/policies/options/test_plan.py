from __future__ import annotations

from typing import Any

import pytest

from plugins.framework import lines
from plugins.framework.info import Info
from policies.document import Expression
from policies.options import NotExpressible, OptionFault, Subject
from policies.writes import Item, Mode, Place, Rule, Write
from tests.builders import MakeRuntime, MakeTrainJob, container, make_runtime, make_train_job
from tests.plugins.kit import LINES, Case, resolve
from tests.policies.kit import Rules, options

RUNTIME = make_runtime().torch().node(container("node"), container("side"))
FUNCTION = (
    "bash",
    "-c",
    '\nread -r -d \'\' SCRIPT << EOM\n\ndef train(): ...\n\nEOM\nprintf "%s" "$SCRIPT" > "x.py"\ntorchrun "x.py"',
)


def info_of(
    job: MakeTrainJob | None = None, runtime: MakeRuntime = RUNTIME, line: str = "2.3"
) -> Info:
    return resolve(Case(job=job or make_train_job(), runtime=runtime, line=line))


def planned(
    section: Any,
    info: Info | None = None,
    *,
    mode: Mode = "overrides",
    notes: list[str] | None = None,
    **expressions: Any,
) -> list[Write]:
    rules = Rules(overrides=section, defaults=section, expressions=expressions)
    return rules.plan(mode, info or info_of(), notes)


def E(name: str) -> dict[str, str]:  # noqa: N802  # reads as a value
    return {"expression": name}


def to(value: Any, *steps: str | Item, rule: Rule = "set") -> Write:
    return Write(Place(None, steps), value, rule)


def pod(value: Any, *steps: str | Item, rule: Rule = "set") -> Write:
    return Write(Place("node", ("spec", *steps)), value, rule)


def spec(**fields: Any) -> dict[str, Any]:
    return {"podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": fields}]}


def test_values_go_where_they_are_decided_by_themselves() -> None:
    section = {
        "trainer": {
            "resourcesPerNode": {"limits": {"cpu": 1, "memory": "1Gi"}},
            "env": [{"name": "A", "value": "1"}],
            "numNodes": {"min": 1, "max": 4},
        },
        "initializer": {"dataset": {"secretRef": {"name": "s"}}},
    }
    job = make_train_job().initializer("dataset", storageUri="hf://a/b")
    assert planned(section, info_of(job, RUNTIME.initializers())) == [
        to({"name": "A", "value": "1"}, "spec", "trainer", "env", Item("name", "A")),
        to(1, "spec", "trainer", "numNodes", rule="min"),
        to(4, "spec", "trainer", "numNodes", rule="max"),
        to(1, "spec", "trainer", "resourcesPerNode", "limits", "cpu"),
        to("1Gi", "spec", "trainer", "resourcesPerNode", "limits", "memory"),
        to("s", "spec", "initializer", "dataset", "secretRef", "name"),
    ]


def test_an_initializer_that_the_job_does_not_have_gets_nothing() -> None:
    assert planned({"initializer": {"model": {"env": [{"name": "A", "value": "1"}]}}}) == []


def test_pods_are_planned_to_the_finest_piece() -> None:
    section = spec(
        nodeSelector={"a": "b"},
        tolerations=[{"key": "t", "operator": "Exists"}],
        volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}],
        securityContext={"runAsUser": 5, "seLinuxOptions": {"level": "s0"}},
        containers=[{"name": "side", "securityContext": {"privileged": False}}],
        imagePullSecrets=[{"name": "s"}],
    )
    side = ("containers", Item("name", "side"), "securityContext", "privileged")
    assert planned(section) == [
        pod("b", "nodeSelector", "a"),
        pod([{"key": "t", "operator": "Exists"}], "tolerations", rule="union"),
        pod({"name": "v", "emptyDir": {"medium": "Memory"}}, "volumes", Item("name", "v")),
        pod(False, *side),
        pod({"name": "s"}, "imagePullSecrets", Item("name", "s")),
        pod(5, "securityContext", "runAsUser"),
        pod("s0", "securityContext", "seLinuxOptions", "level"),
    ]


def test_expressions_may_stand_for_any_value() -> None:
    section: dict[str, Any] = {
        "labels": {"l": E("text")},
        "trainer": {
            "numNodes": {"max": E("two")},
            "env": [{"name": "A", "value": E("text")}],
            "resourcesPerNode": {"limits": {"cpu": E("two")}},
            "args": [E("text"), "b"],
        },
    } | spec(tolerations=E("tolerations"), affinity=E("affinity"), volumes=E("volumes"))
    found = planned(
        section,
        text="x",
        two=2,
        tolerations=[{"key": "k", "operator": "Exists"}],
        affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
    )
    assert to("x", "metadata", "labels", "l") in found
    assert to(["x", "b"], "spec", "trainer", "args") in found
    assert to({"name": "A", "value": "x"}, "spec", "trainer", "env", Item("name", "A")) in found
    assert to(2, "spec", "trainer", "numNodes", rule="max") in found
    assert to(2, "spec", "trainer", "resourcesPerNode", "limits", "cpu") in found
    assert pod([{"key": "k", "operator": "Exists"}], "tolerations", rule="union") in found
    assert pod({"name": "w", "emptyDir": {}}, "volumes", Item("name", "w")) in found


@pytest.mark.parametrize(
    "section",
    [
        {"labels": {"l": E("x")}},
        {"trainer": {"image": E("x")}},
        {"trainer": {"numNodes": E("x")}},
        {"activeDeadlineSeconds": {"max": E("x")}},
        {"suspend": E("x")},
        spec(nodeSelector={"a": E("x")}),
    ],
)
def test_null_writes_nothing(section: Any) -> None:
    assert planned(section, x=None) == []


@pytest.mark.parametrize(
    ("section", "value", "says"),
    [
        ({"labels": {"l": E("x")}}, 5, "must give a string, and gave 5"),
        ({"labels": {"l": E("x")}}, "a b", "a valid label must be"),
        ({"trainer": {"image": E("x")}}, 5, "must be of type string"),
        ({"trainer": {"numNodes": E("x")}}, "5", "must be a whole number"),
        ({"trainer": {"resourcesPerNode": {"limits": {"cpu": E("x")}}}}, -1, "must be 0 or more"),
        ({"trainer": {"resourcesPerNode": E("x")}}, {"limits": {"gpu": 1}}, "must be of cpu,"),
        ({"trainer": {"numNodes": E("x")}}, True, "must be a whole number"),
        ({"trainer": {"numNodes": {"max": E("x")}}}, 0, "must be at least 1"),
        ({"suspend": E("x")}, "yes", "must be true or false"),
        ({"managedBy": E("x")}, "me", "must be trainer.kubeflow.org/trainjob-controller"),
        (spec(nodeSelector={"a": E("x")}), ["b"], "must be of type string"),
        (spec(nodeSelector={"a": E("x")}), "a b", "a valid label must be"),
        (spec(tolerations=E("x")), [{"operator": "Equal"}], "operator must be Exists"),
        (spec(volumes=E("x")), [{"name": "v"}, {"name": "v"}], "Duplicate value"),
        (spec(affinity=E("x")), {"nodeAffinity": 5}, "must be of type object"),
    ],
)
def test_an_expression_that_gives_something_else_is_a_fault_of_its_policy(
    section: Any, value: Any, says: str
) -> None:
    with pytest.raises(OptionFault) as caught:
        planned(section, x=value)
    assert says in str(caught.value)
    assert "spec.overrides." in str(caught.value)


# Commands that the SDK made


@pytest.mark.parametrize(
    ("job", "runtime", "made_by"),
    [
        (make_train_job().command(*FUNCTION), RUNTIME, "CustomTrainer"),
        (
            make_train_job().command("mpirun", "--hostfile", "/etc/mpi/hostfile", *FUNCTION),
            RUNTIME,
            "CustomTrainer",
        ),
        (make_train_job().command("tune", "run"), RUNTIME, "BuiltinTrainer"),
        (
            make_train_job(),
            RUNTIME.label("trainer.kubeflow.org/framework", "torchtune"),
            "BuiltinTrainer",
        ),
        (
            make_train_job(),
            make_runtime().torch().node(container("node", command=["tune", "run"])),
            "BuiltinTrainer",
        ),
    ],
)
@pytest.mark.parametrize("key", ["command", "args"])
@pytest.mark.parametrize("mode", ["defaults", "overrides"])
def test_a_command_that_the_sdk_made_is_left_alone_unless_forced(
    mode: Mode, key: str, job: MakeTrainJob, runtime: MakeRuntime, made_by: str
) -> None:
    notes: list[str] = []
    info = info_of(job, runtime)
    assert planned({"trainer": {key: ["x"]}}, info, mode=mode, notes=notes) == []
    said = f"spec.trainer.{key} is left alone: the SDK's {made_by} made the command (force: true insists)"
    would_yield = mode == "defaults" and info.job.words(key) is not None
    assert notes == ([] if would_yield else [said]), "and nobody is told of what no default does"
    forced = planned({"trainer": {key: ["x"], "force": True}}, info, mode=mode)
    assert forced == [to(["x"], "spec", "trainer", key)]


def test_a_command_of_the_users_own_is_not_the_sdks() -> None:
    info = info_of(make_train_job().command("bash", "-c", "python train.py"))
    assert planned({"trainer": {"args": ["x"]}}, info) == [to(["x"], "spec", "trainer", "args")]


# Lines


@pytest.mark.parametrize("line", LINES)
def test_auto_is_written_only_where_the_line_has_words(line: str) -> None:
    found = planned({"trainer": {"numProcPerNode": "auto"}}, info_of(line=line), mode="defaults")
    has_words = lines.LINES[line].proc_per_node_text
    assert found == ([to("auto", "spec", "trainer", "numProcPerNode")] if has_words else [])


@pytest.mark.parametrize("line", ["2.0", "2.1"])
def test_what_a_line_cannot_say_is_raised_with_its_place(line: str) -> None:
    with pytest.raises(NotExpressible, match=r"spec\.overrides\.activeDeadlineSeconds: Forbidden"):
        planned({"activeDeadlineSeconds": 5}, info_of(line=line))


@pytest.mark.parametrize("line", LINES)
def test_spec_labels_are_translated(line: str) -> None:
    [write] = planned({"specLabels": {"a": "b"}}, info_of(line=line))
    if lines.LINES[line].spec_metadata:
        assert write == to("b", "spec", "labels", "a")
    else:
        assert write == Write(Place(None, ("metadata", "labels", "a"), "JobSet"), "b")


# Naming


def checked(
    section: Any, metadata: dict[str, str], mode: Mode = "overrides", **given: Any
) -> list[str]:
    job = make_train_job()
    info = info_of(job)
    info.job.metadata.clear()
    info.job.metadata.update(metadata)

    def evaluate(expression: Expression) -> Any:
        return given.get(expression.text, given.get("matches"))

    subject = Subject(resolved=lambda: info, line=info.line, mode=mode, evaluate=evaluate)
    return [str(e) for o in options(mode, {"naming": section}) for e in o.check(subject)]


def test_a_name_must_match() -> None:
    section = {"pattern": "team-.*"}
    assert checked(section, {"name": "team-a"}, matches=True) == []
    assert checked(section, {"name": "a"}, matches=False) == [
        'metadata.name: Invalid value: "a": must match the pattern "team-.*"'
    ]


def test_a_generated_name_must_begin_as_wanted_and_is_not_matched() -> None:
    section = {"pattern": "team-.*", "generateNamePrefix": E("prefix")}
    assert checked(section, {"generateName": "team-"}, prefix="team-") == []
    assert checked(section, {"generateName": "x-"}, prefix="team-") == [
        'metadata.generateName: Invalid value: "x-": must begin with team-'
    ]


GENERATED: dict[str, tuple[Any, dict[str, str], str]] = {
    "one that was made is held to the prefix alone": (
        {"pattern": "nlp-[a-z]+", "generateNamePrefix": "nlp-"},
        {"name": "nlp-7x2k9", "generateName": "nlp-"},
        "",
    ),
    "of a wrong prefix": (
        {"pattern": "nlp-[a-z]+", "generateNamePrefix": "nlp-"},
        {"name": "x-7x2k9", "generateName": "x-"},
        'metadata.generateName: Invalid value: "x-": must begin with nlp-',
    ),
    "of a prefix that is too long to be used whole": (
        {"pattern": "b", "generateNamePrefix": "a"},
        {"name": "a" * 58 + "7x2k9", "generateName": "a" * 60},
        "",
    ),
    "one beside which a prefix only stands": (
        {"pattern": "nlp-[a-z]+", "generateNamePrefix": "nlp-"},
        {"name": "x", "generateName": "nlp-"},
        'metadata.name: Invalid value: "x": must match the pattern "nlp-[a-z]+"',
    ),
    "where no prefix is to be held": (
        {"pattern": "nlp-[a-z]+"},
        {"name": "nlp-7x2k9", "generateName": "nlp-"},
        'metadata.name: Invalid value: "nlp-7x2k9": must match the pattern "nlp-[a-z]+"',
    ),
    "where an expression gives no prefix": (
        {"pattern": "nlp-[a-z]+", "generateNamePrefix": E("prefix")},
        {"name": "nlp-7x2k9", "generateName": "nlp-"},
        'metadata.name: Invalid value: "nlp-7x2k9": must match the pattern "nlp-[a-z]+"',
    ),
}


@pytest.mark.parametrize("case", GENERATED)
def test_a_name_that_the_api_server_has_made(case: str) -> None:
    """The validating call sees it; its five random characters must not decide."""
    section, metadata, said = GENERATED[case]
    found = checked(section, metadata, matches=False, prefix=None)
    assert found == ([said] if said else [])


def test_naming_writes_nothing() -> None:
    assert planned({"naming": {"pattern": "a"}}) == []


def test_a_policy_writes_nothing_to_jobs_that_it_does_not_name() -> None:
    runtime = RUNTIME.job("other", containers=[container("x")])
    found = planned(spec(nodeSelector={"a": "b"}), info_of(runtime=runtime))
    assert {write.place.target for write in found} == {"node"}
