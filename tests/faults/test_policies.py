"""Known faults of policy engines, tried on ours: B009 to B158, as far as they are about policies."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.errors import BadInput, ConfigError
from policies import reading
from tests import test_golden as golden
from tests.builders import Json, MakeTrainJob, container, make_runtime, make_train_job
from tests.faults.kit import rt_torch, tj
from tests.faults.platform import posted, posted_each
from tests.folder import Folder, texts
from tests.policies.test_engine import at, policy, refusals, stored
from tests.reviews.desk import create, delete, update
from webhook import yamlio
from webhook.cli import main
from webhook.offline import Outcome

JOB = tj(rt_torch())


def admit(job: Any, *documents: Json, old: Any = None) -> Outcome:
    return Folder.of(rt_torch(), *documents).admit(job, old)


def validation(expression: str, name: str = "rule", **more: Any) -> Json:
    return {"name": name, "expression": expression, **more}


def exception(name: str = "leave", /, **spec: Any) -> Json:
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": names.EXCEPTION,
        "metadata": {"name": name, "namespace": JOB.raw["metadata"]["namespace"]},
        "spec": {
            "policies": [{"name": "rules"}],
            "owner": "us",
            "reason": "once",
            "expiresAt": "9999-01-01T00:00:00Z",
            **spec,
        },
    }


# What policies write


def test_b009_a_rule_about_one_field_leaves_its_neighbours_alone() -> None:
    job = JOB.env("A", "1").trainer(image="a.example/x:1", args=["--x"], command=["run"])
    rules = policy(overrides={"trainer": {"image": "b.example/x:1"}})
    outcome = admit(job, rules)
    assert {operation["op"] for operation in outcome.patch} <= {"add", "replace"}
    assert at(outcome, "spec", "trainer", "image") == "b.example/x:1"
    for field in ("args", "command", "env"):
        assert at(outcome, "spec", "trainer", field) == values.at(job.obj, "spec", "trainer", field)


def test_b009_a_container_of_two_keeps_what_no_rule_touches() -> None:
    side = container("side", {"B": "2"}, args=["--y"])
    runtime = make_runtime("two").torch().node(container("node", {"A": "1"}, args=["--x"]), side)
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    rules = policy(
        overrides={
            "podTemplateOverrides": [
                {
                    "spec": {
                        "volumes": [{"name": "scratch", "emptyDir": {}}],
                        "containers": [{"name": "side", "volumeMounts": mounts}],
                    }
                }
            ]
        }
    )
    rendered = Folder.of(runtime, rules).render(make_train_job().runtime("two"), admitted=True)
    [jobset] = [o for o in rendered.objects if o["kind"] == "JobSet"]
    [job] = jobset["spec"]["replicatedJobs"]
    found = {c["name"]: c for c in job["template"]["spec"]["template"]["spec"]["containers"]}
    assert found["node"]["args"] == ["--x"]
    assert {"name": "A", "value": "1"} in found["node"]["env"]
    assert "volumeMounts" not in found["node"]
    assert found["side"]["args"] == ["--y"]
    assert found["side"]["env"] == [{"name": "B", "value": "2"}]
    assert found["side"]["volumeMounts"] == mounts


def test_b011_the_order_in_which_policies_are_read_decides_nothing() -> None:
    one = policy("one", overrides={"trainer": {"env": [{"name": "A", "value": "x"}]}})
    two = policy(
        "two",
        match={"runtimes": [{"name": "base-*"}]},
        overrides={"trainer": {"env": [{"name": "A", "value": "y"}]}},
    )
    first, second = (admit(JOB, *order).review for order in ((one, two), (two, one)))
    assert first == second
    assert first["response"]["allowed"] is False


def test_b011_a_place_of_another_shape_is_a_mistake_of_the_document() -> None:
    found = reading.read(policy(overrides={"trainer": {"env": {"A": {"value": "x"}}}}))
    assert list(map(str, found.errors)) == [
        'spec.overrides.trainer.env: Invalid value: {"A":{"value":"x"}}: must be a list, not object'
    ]


def test_b042_what_cannot_be_looked_up_is_a_fault_and_never_an_empty_value() -> None:
    pool = {"expression": "runtime.metadata.labels['pool']"}
    section = {"podTemplateOverrides": [{"spec": {"nodeSelector": {"pool": pool}}}]}
    for mode in ("defaults", "overrides"):
        spec: Json = {mode: section}
        strict = admit(JOB, policy(**spec))
        [error] = refusals(strict)
        assert error.startswith(f"[rules] Forbidden: spec.{mode}.podTemplateOverrides[0]")
        easy = admit(JOB, policy(failurePolicy="Ignore", **spec))
        assert at(easy, "spec", "runtimePatches") is None
        assert any("passed over" in warning for warning in easy.findings.warnings)


@pytest.mark.parametrize("value", ["''", "null"])
def test_b042_what_an_expression_leaves_empty_is_not_written(value: str) -> None:
    section = {"trainer": {"image": {"expression": value}}}
    assert at(admit(JOB, policy(overrides=section)), "spec", "trainer", "image") is None


def test_b071_a_prefix_is_added_once_or_the_policy_is_at_fault() -> None:
    job = JOB.trainer(image="registry.example:5000/x@sha256:" + "0" * 64)
    again = {"expression": "'mirror.example/' + object.spec.trainer.image"}
    [error] = refusals(admit(job, policy(overrides={"trainer": {"image": again}})))
    assert "still changes in round 4" in error
    once = {
        "expression": "object.spec.trainer.image.startsWith('mirror.example/') ? object.spec.trainer.image "
        ": 'mirror.example/' + object.spec.trainer.image"
    }
    rules = policy(overrides={"trainer": {"image": once}})
    outcome = admit(job, rules)
    assert (
        at(outcome, "spec", "trainer", "image")
        == f"mirror.example/{job.raw['spec']['trainer']['image']}"
    )
    assert admit(stored(outcome), rules).patch == []


def test_b074_b076_keys_with_slashes_and_parents_that_are_missing() -> None:
    rules = policy(
        defaults={
            "labels": {"team.example/unit": "a"},
            "trainer": {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}},
            "podTemplateOverrides": [{"spec": {"nodeSelector": {"topo.example/rack": "r1"}}}],
        }
    )
    bare = make_train_job("demo").runtime("base-torch")
    full = bare.label("other", "b").resources(limits={"memory": "64Gi"})
    for job in (bare, full):
        outcome = admit(job, rules)
        assert refusals(outcome) == []
        assert at(outcome, "metadata", "labels", "team.example/unit") == "a"
        limits = at(outcome, "spec", "trainer", "resourcesPerNode", "limits")
        assert str(limits["nvidia.com/gpu"]) == "1"
    assert limits["memory"] == "64Gi"
    assert at(outcome, "metadata", "labels", "other") == "b"
    assert any("team.example~1unit" in operation["path"] for operation in outcome.patch)


def test_b081_a_policy_that_changes_nothing_makes_no_patch() -> None:
    rules = policy(defaults={"labels": {"a": "1"}}, limits=[{"name": "nodes", "nodes": {"max": 9}}])
    done = stored(admit(JOB, rules))
    [reply] = posted([rt_torch(), rules], ("mutate", create(done.obj)))
    assert reply.allowed
    assert reply.patch is None


def test_b083_a_policy_that_only_watches_changes_and_refuses_nothing() -> None:
    rules = policy(
        mutate="Warn",
        actions=["Audit"],
        defaults={"labels": {"a": "1"}},
        overrides={"trainer": {"numNodes": {"max": 1}}},
        limits=[{"name": "nodes", "nodes": {"max": 1}}],
        validations=[validation("false", message="never")],
    )
    done = stored(admit(JOB))
    [reply, judged] = posted(
        [rt_torch(), rules], ("mutate", create(done.obj)), ("validate", create(done.obj))
    )
    assert (reply.allowed, judged.allowed, reply.patch) == (True, True, None)
    assert any('policy rules would set metadata.labels[a] to "1"' in w for w in reply.warnings)
    assert judged.response["auditAnnotations"]["rules.rule"] == "never"
    assert "the job has 2 nodes" in judged.response["auditAnnotations"]["rules.nodes"]


# Amounts


@pytest.mark.parametrize(
    "expression",
    [
        "quantity('1Gi').isGreaterThan(quantity('1'))",
        "quantity('1').isLessThan(quantity('1Gi'))",
        "quantity(1).isLessThan(quantity('1Gi'))",
        "quantity('1024Mi').compareTo(quantity('1Gi')) == 0",
        "quantity('0.5').compareTo(quantity('500m')) == 0",
        "quantity(1).compareTo(quantity('1000m')) == 0",
    ],
)
def test_b084_amounts_compare_the_same_in_both_orders(expression: str) -> None:
    assert refusals(admit(JOB, policy(validations=[validation(expression)]))) == []


@pytest.mark.parametrize(("bound", "holds"), [("1024Mi", True), ("1Gi", True), ("1023Mi", False)])
def test_b084_limits_compare_amounts_and_not_their_texts(bound: str, holds: bool) -> None:
    job = JOB.resources(requests={"memory": "1Gi"})
    rules = policy(limits=[{"name": "m", "resource": "memory", "perNode": {"max": bound}}])
    assert (refusals(admit(job, rules)) == []) == holds


@pytest.mark.parametrize("bound", ["10GB", "10 Gi", "10GI", "1K", "1_000", "NaN", "", "Infinity"])
def test_b087_an_amount_that_is_none_is_a_mistake_of_the_document(bound: str) -> None:
    rules = policy(limits=[{"name": "m", "resource": "memory", "total": {"max": bound}}])
    [error] = reading.read(rules).errors
    assert error.field == "spec.limits[0].total.max"
    [refused] = refusals(admit(JOB, rules))
    assert "is not Ready: spec.limits[0].total.max" in refused


@pytest.mark.parametrize("amount", ["10GB", "10 Gi", "10GI", "1K", "1_000", "NaN", ""])
def test_b087_an_amount_that_is_none_is_a_mistake_of_an_expression(amount: str) -> None:
    text = f"quantity(totals.requests['memory']).isLessThan(quantity('{amount}'))"
    rules = policy(failurePolicy="Ignore", validations=[validation(text)])
    [warning] = admit(JOB, rules).findings.warnings
    assert "is not Ready: spec.validations[0].expression" in warning
    [(_, found)] = Folder.of(rules).engine.policies.problems()
    assert f'invalid quantity "{amount}"' in found[0].detail
    assert found[0].detail.startswith("column 48: ")


@pytest.mark.parametrize(
    "expression",
    [
        "podSets.map(p, p.name) < 'b'",
        "podSets[0].spec.containers.map(c, c.image) == 'a'",
        "object.spec.trainer.numNodes == '2'",
    ],
)
def test_b088_a_comparison_of_what_cannot_be_compared_is_no_policy(expression: str) -> None:
    rules = policy(validations=[validation(expression)])
    [error] = refusals(admit(JOB, rules))
    assert "is not Ready: spec.validations[0].expression" in error
    assert "column" in error


# Documents


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"matchs": {}, "actions": ["Deny"]},
            'spec.matchs: Forbidden: unknown field; did you mean "match"?',
        ),
        (
            {"validations": [{"name": "a", "expresion": "true"}]},
            'spec.validations[0].expresion: Forbidden: unknown field; did you mean "expression"?',
        ),
        ({"limits": [{"name": "a"}]}, "spec.limits[0]: Required value: must have exactly one of"),
    ],
)
def test_b046_a_misspelt_field_is_no_policy_and_named_with_what_was_meant(
    spec: Json, text: str
) -> None:
    assert any(str(error).startswith(text) for error in reading.read(policy(**spec)).errors)
    [error] = refusals(admit(JOB, policy(**spec)))
    assert error.startswith("[rules] Forbidden: the policy is not Ready: ")


def test_b046_a_key_that_is_there_twice_is_named_with_its_line() -> None:
    text = "kind: TrainJobPolicy\nspec:\n  actions: [Deny]\n  actions: [Warn]\n"
    with pytest.raises(BadInput, match=r"rules\.yaml:4"):
        yamlio.load(text, "rules.yaml")


def test_b047_exceptions_reach_only_what_a_policy_offers_offline_and_served() -> None:
    rules = policy(limits=[{"name": "nodes", "nodes": {"max": 1}}])
    assert len(refusals(admit(JOB, rules, exception()))) == 1
    done = stored(admit(JOB))
    replies = posted(
        [rt_torch(), rules, exception()],
        ("mutate", create(done.obj)),
        ("validate", create(done.obj)),
    )
    assert [reply.allowed for reply in replies] == [False, False]


def test_b048_words_in_a_message_are_no_reason_to_warn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "status subresource, DELETE, namespaceObject, object.spec.trainer.numNode"
    rules = policy(validations=[validation("totals.nodes > 0", message=message)])
    (tmp_path / "rules.yaml").write_text(yamlio.dump(rules))
    assert main(["lint", str(tmp_path), "--strict"]) == 0
    assert "warning" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["on", "yes", "1", "null", "{}"])
def test_b158_a_policy_whose_name_yaml_takes_for_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "runtime.yaml").write_text(yamlio.dump(rt_torch().obj))
    (tmp_path / "job.yaml").write_text(yamlio.dump(JOB.obj))
    (tmp_path / "rules.yaml").write_text(
        f"apiVersion: stationmaster.dev/v1alpha1\nkind: TrainJobPolicy\nmetadata: {{name: {name}}}\n"
        "spec: {limits: [{name: nodes, nodes: {max: 1}}]}\n"
    )
    assert main(["admit", "-f", str(tmp_path / "job.yaml"), "--from", str(tmp_path)]) == 2
    assert (
        "rules.yaml:1: metadata.name of a TrainJobPolicy must be a text" in capsys.readouterr().err
    )


# CEL


def test_b038_the_first_of_an_empty_list_is_a_readable_fault() -> None:
    job = JOB.trainer(command=[])
    rules = policy(validations=[validation("object.spec.trainer.command[0] != 'sh'")])
    [error] = refusals(admit(job, rules))
    assert error.startswith("[rules] Forbidden: rule: ")
    assert "index" in error.lower()
    guarded = "object.spec.trainer.?command[?0].orValue('') != 'sh'"
    assert refusals(admit(job, policy(validations=[validation(guarded)]))) == []


def test_b091_a_namespace_that_nobody_knows_has_its_name_and_no_more() -> None:
    condition = {"name": "gold", "expression": "namespaceObject.metadata.labels['tier'] == 'gold'"}
    rules = policy(matchConditions=[condition], validations=[validation("false", message="gold")])
    [error] = refusals(admit(JOB, rules))
    assert error.startswith("[rules] Forbidden: matchConditions[gold]: ")
    asked = {
        **condition,
        "expression": "namespaceObject.metadata.labels[?'tier'].orValue('') == 'gold'",
    }
    rules = policy(matchConditions=[asked], validations=[validation("false", message="gold")])
    assert refusals(admit(JOB, rules)) == []
    space: Json = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": JOB.raw["metadata"]["namespace"], "labels": {"tier": "gold"}},
    }
    assert refusals(admit(JOB, rules, space)) == ["[rules/rule] Forbidden: gold"]
    own = validation("namespaceObject.metadata.name == request.namespace")
    assert refusals(admit(JOB, policy(validations=[own]))) == []


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("objct.spec.suspend", "objct"),
        ("object.spec.trainer.numNodes == '2'", "=="),
        ("quanity('1').isInteger()", "quanity"),
        ("has(object.spec", "column"),
        ("object.spec.trainer.numNode > 1", 'did you mean "numNodes"?'),
    ],
)
def test_b092_an_expression_is_compiled_when_it_is_read(expression: str, text: str) -> None:
    rules = policy(validations=[validation("true", "fine"), validation(expression, "broken")])
    [(_, found)] = Folder.of(rules).engine.policies.problems()
    [error] = found
    assert str(error.path) == "spec.validations[1].expression"
    assert "column" in error.detail
    assert text in error.body


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_b093_a_loop_without_end_costs_its_policy_and_nobody_else(failure_policy: str) -> None:
    job = JOB
    for i in range(128):
        job = job.env(f"V{i}", "x")
    env = "object.spec.trainer.env"
    cubic = f"{env}.all(a, {env}.all(c, {env}.all(d, a.name != 'zz' || c.name != 'zz' || d.name != 'zz')))"
    greedy = policy("greedy", failurePolicy=failure_policy, validations=[validation(cubic)])
    other = policy("other", limits=[{"name": "nodes", "nodes": {"max": 1}}])
    outcome = admit(job, greedy, other)
    said = refusals(outcome) if failure_policy == "Fail" else outcome.findings.warnings
    assert any(text.startswith("[greedy]") for text in said)
    assert any("[other/nodes]" in text for text in refusals(outcome))


@pytest.mark.parametrize(
    "expression",
    [
        "[1, 2, 3].all(x, x > 0)",
        "[1, 2, 3].exists(x, x == 2) && [1, 2].exists_one(x, x == 2)",
        "[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6]",
        "[[1], [2, 3]].all(l, l.exists(x, x > 0))",
        "{'a': 1, 'b': 2}.all(k, k in ['a', 'b'])",
        "{'a': 1}.map(k, k) == ['a']",
    ],
)
def test_b096_loops_of_the_manual_work(expression: str) -> None:
    assert refusals(admit(JOB, policy(validations=[validation(expression)]))) == []


# Requests


@pytest.mark.parametrize(
    "expression",
    ["object.spec.suspend == true", "has(object.spec)", "oldObject.spec.suspend", "false"],
)
def test_b097_b100_nobody_is_kept_from_deleting(expression: str) -> None:
    rules = policy(validations=[validation(expression)], actions=["Deny", "Audit"])
    asked = delete(JOB.obj)
    bare = deepcopy(asked)
    del bare["request"]["object"], bare["request"]["oldObject"]
    questions = [(phase, one) for phase in ("mutate", "validate") for one in (asked, bare)]
    for reply in posted([rt_torch(), rules], *questions):  # type: ignore[arg-type]  # phases
        assert (reply.allowed, reply.patch, reply.warnings) == (True, None, [])
        assert "auditAnnotations" not in reply.response


def test_b101_a_policy_that_came_later_keeps_no_finalizer() -> None:
    rules = policy(
        limits=[{"name": "nodes", "nodes": {"max": 1}}],
        validations=[validation("totals.nodes < 2"), validation("false", "never")],
    )
    old = JOB.field(["a.example/f", "b.example/f"], "metadata", "finalizers").obj
    fewer = deepcopy(old)
    fewer["metadata"]["finalizers"] = ["a.example/f"]
    noted = deepcopy(old)
    noted["metadata"]["annotations"] = {"a.example/note": "x"}
    resumed = deepcopy(old)
    resumed["spec"]["suspend"] = False
    patched = MakeTrainJob(old).patch("a.example/m", metadata={"labels": {"a": "b"}}).obj
    for new in (fewer, noted, resumed, patched):
        for phase in ("mutate", "validate"):
            [reply] = posted([rt_torch(), rules], (phase, update(old, new)))
            assert reply.allowed, reply.message
    refused = admit(JOB, rules)
    assert len(refusals(refused)) == 3


def test_b103_a_generated_name_counts_by_its_prefix() -> None:
    rules = policy(
        limits=[{"name": "nodes", "nodes": {"max": 1}, "fix": "ask"}],
        exceptions={"rules": ["nodes"]},
    )
    leave = exception(match={"names": ["nightly-*"]})
    for prefix, allowed in (("nightly-", True), ("daily-", False)):
        job = JOB.without("metadata", "name").field(prefix, "metadata", "generateName").obj
        asked = create(job, name="")
        now = datetime(2026, 1, 1, tzinfo=UTC)
        [reply] = posted([rt_torch(), rules, leave], ("mutate", asked), now=now)
        assert reply.allowed == allowed
        if not allowed:
            assert reply.answer.name == "daily-"
            assert '""' not in reply.message


def test_b105_the_status_is_somebody_elses() -> None:
    rules = policy(validations=[validation("false")], overrides={"labels": {"a": "1"}})
    asked = update(JOB.obj, JOB.condition("Suspended").obj, subresource="status")
    for phase in ("mutate", "validate"):
        [reply] = posted([rt_torch(), rules], (phase, asked))
        assert (reply.allowed, reply.patch, reply.warnings) == (True, None, [])


@pytest.mark.parametrize("limit", [1, 9])
def test_b107_a_dry_run_is_judged_as_the_real_one(limit: int) -> None:
    rules = policy(
        limits=[{"name": "nodes", "nodes": {"max": limit}}], defaults={"labels": {"a": "1"}}
    )
    dry, real = posted(
        [rt_torch(), rules], ("mutate", create(JOB.obj, dryRun=True)), ("mutate", create(JOB.obj))
    )
    assert (dry.allowed, dry.patch, dry.message) == (real.allowed, real.patch, real.message)


def test_b108_many_long_warnings_are_cut_and_counted_and_no_refusal_is() -> None:
    many = [validation("false", f"r{i:02}", message=f"{i:02} " + "x" * 300) for i in range(40)]
    refused = [validation("false", "last", message="y" * 900, actions=["Deny"])]
    rules = policy(actions=["Warn"], validations=[*many, *refused])
    done = stored(admit(JOB))
    [reply] = posted([rt_torch(), rules], ("validate", create(done.obj)))
    assert len(reply.warnings) > 10
    assert "more" in reply.warnings[-1]
    assert "y" * 900 in reply.message


# Scope


def test_b152_nobody_lets_himself_off() -> None:
    """Labels of a job are its owner's: a policy that selects by them keeps those that it had."""
    rules = policy(
        match={"objectSelector": {"matchLabels": {"tier": "gold"}}},
        limits=[{"name": "team", "labels": {"require": ["team"]}}],
    )
    old = JOB.label("tier", "gold").label("team", "a")
    off = JOB.obj
    assert refusals(admit(off, rules, old=old)) == [
        "metadata.labels[team]: [rules/team] Required value: every TrainJob must have the label team, with a value"
    ]
    everybody = policy(limits=[{"name": "nodes", "nodes": {"max": 1}}])
    for key in (
        "stationmaster.dev/ignore",
        "stationmaster.dev/policies",
        "trainer.kubeflow.org/skip",
    ):
        job = JOB.label(key, "true").field({key: "true"}, "metadata", "annotations")
        assert len(refusals(admit(job, everybody))) == 1


def test_b152_who_created_a_job_is_not_the_jobs_to_say() -> None:
    """The record of it is written anew on CREATE, and on UPDATE that of the stored job counts."""
    rules = policy(
        match={"subjects": {"users": ["bob"]}}, limits=[{"name": "nodes", "nodes": {"max": 1}}]
    )
    claim = {names.POLICIES_ANNOTATION: '{"policies":["rules"]}'}
    job = JOB.field(claim, "metadata", "annotations")
    [reply] = posted([rt_torch(), rules], ("mutate", create(job.obj, userInfo={"username": "eve"})))
    assert reply.allowed
    assert names.POLICIES_ANNOTATION not in reply.after["metadata"].get("annotations", {})


def test_b153_a_namespace_that_is_not_meant_is_not_touched() -> None:
    rules = policy(
        match={"namespaceSelector": {"matchLabels": {"kueue": "on"}}},
        defaults={"labels": {"kueue.x-k8s.io/queue-name": "q"}},
        overrides={"suspend": True},
    )
    without = admit(JOB)
    assert admit(JOB, rules).patch == without.patch
    space: Json = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": JOB.raw["metadata"]["namespace"], "labels": {"kueue": "off"}},
    }
    assert admit(JOB, rules, space).patch == without.patch
    space["metadata"]["labels"]["kueue"] = "on"
    assert at(admit(JOB, rules, space), "metadata", "labels", "kueue.x-k8s.io/queue-name") == "q"


# Offline and served


CASES = [case for case in golden.CASES if golden.load(case)["plugin"] == "PlatformPolicy"]


def test_b157_offline_and_served_say_the_same_in_every_case_of_policies() -> None:
    """The same bytes: patches, refusals, warnings, audit annotations."""
    assert len(CASES) > 25
    outcomes = {case: golden.outcome_of(golden.load(case)["given"]) for case in CASES}
    first = dict(
        zip(CASES, posted_each(_asked(c, o, "mutate") for c, o in outcomes.items()), strict=True)
    )
    passed = {case: outcomes[case] for case in CASES if first[case].allowed}
    second = dict(
        zip(passed, posted_each(_asked(c, o, "validate") for c, o in passed.items()), strict=True)
    )
    for case, outcome in outcomes.items():
        mutated, judged = first[case], second.get(case)
        assert outcome.allowed == (judged is not None and judged.allowed), case
        offline = outcome.review["response"]
        if judged is None or not judged.allowed:
            assert (judged or mutated).response["status"] == offline["status"], case
        else:
            assert (mutated.patch or []) == outcome.patch, case
            assert texts(outcome.findings.errors) == []
        warned = [*mutated.warnings, *(judged.warnings if judged else [])]
        pruned = [w for w in outcome.findings.warnings if not w.startswith("unknown field")]
        assert list(dict.fromkeys(warned)) == [w[:256] for w in pruned], case
        served = {
            **mutated.response.get("auditAnnotations", {}),
            **(judged.response.get("auditAnnotations", {}) if judged else {}),
        }
        assert served == golden.audit(outcome), case


def _asked(case: str, outcome: Outcome, phase: Any) -> Any:
    given = golden.load(case)["given"]
    user = {"username": given.get("user", ""), "groups": given.get("groups", [])}
    obj = outcome.before if phase == "mutate" else outcome.after
    assert obj is not None
    about = {"userInfo": user, "dryRun": False}
    old = given.get("old")
    if old is not None:
        kept = golden.folder_of(given).admit(old).before
        review = update(kept or old, obj, **about)
    else:
        review = create(obj, **about)
    line = given.get("line", "2.3")
    now = datetime.fromisoformat(given.get("now", "2000-01-01T00:00:00Z"))
    return golden.cluster_of(given), line, now, (phase, review)


def test_a_folder_that_cannot_be_used_says_so_for_every_document() -> None:
    nameless = policy()
    del nameless["metadata"]["name"]
    with pytest.raises(ConfigError, match="there is none"):
        Folder.of(nameless)
