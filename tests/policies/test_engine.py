"""Policies over jobs from end to end, as a folder gives them: what is written, refused, warned, excused."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from plugins.framework import values
from plugins.framework.api import names
from tests.builders import (
    NAMESPACE,
    Builder,
    Json,
    container,
    job_patch,
    make_runtime,
    make_train_job,
)
from tests.folder import Folder, texts
from webhook.offline import Outcome

RUNTIME = make_runtime().torch().node(container("node", resources={"requests": {"cpu": "1"}}))
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Given(Builder):
    """Any object."""

    raw: Json = field(default_factory=dict)

    @property
    def obj(self) -> Json:
        return deepcopy(self.raw)


def policy(name: str = "rules", /, *, namespace: str = "", **spec: Any) -> Json:
    """A document; with a namespace a namespaced one."""
    kind = names.NAMESPACED_POLICY if namespace else names.POLICY
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }


def from_yaml(text: str, name: str = "rules", **more: Any) -> Json:
    """A policy from the YAML of its spec."""
    return policy(name, **yaml.safe_load(text), **more)


def admit(job: Any, *documents: Json, old: Any = None, line: str = "2.3") -> Outcome:
    """What admission makes of a job under these documents."""
    return Folder.of(RUNTIME, *documents, line=line).admit(job, old)


def stored(outcome: Outcome) -> Given:
    """A job as the API server keeps it after admission."""
    assert outcome.allowed, texts(outcome.findings.errors)
    assert outcome.after is not None
    return Given(outcome.after)


def at(outcome: Outcome, *steps: str) -> Any:
    """A value of the admitted job."""
    return values.at(outcome.after, *steps)


def refusals(outcome: Outcome) -> list[str]:
    """Why it is refused."""
    return texts(outcome.findings.errors)


LABEL = "metadata", "labels"
QUEUE: Json = {"labels": {"queue": "default-queue"}}


def test_a_default_fills_what_the_user_left_out() -> None:
    assert at(admit(make_train_job(), policy(defaults=QUEUE)), *LABEL, "queue") == "default-queue"


def test_a_user_beats_a_default() -> None:
    outcome = admit(make_train_job().label("queue", "mine"), policy(defaults=QUEUE))
    assert at(outcome, *LABEL, "queue") == "mine"
    assert outcome.findings.warnings == []


def test_an_override_beats_the_user_and_says_so_naming_the_policy() -> None:
    outcome = admit(make_train_job().label("queue", "mine"), policy("forced", overrides=QUEUE))
    assert at(outcome, *LABEL, "queue") == "default-queue"
    [warning] = outcome.findings.warnings
    assert "forced" in warning
    assert '"mine"' in warning


def test_of_two_defaults_the_higher_priority_fills() -> None:
    low = policy("a-low", priority=1, defaults={"labels": {"queue": "low", "only": "low"}})
    high = policy("z-high", priority=2, defaults={"labels": {"queue": "high"}})
    outcome = admit(make_train_job(), low, high)
    assert at(outcome, *LABEL) == {"queue": "high", "only": "low"}


def test_a_namespaced_policy_never_outranks_the_platform() -> None:
    ours = policy("platform", priority=-5, defaults={"labels": {"queue": "platform"}})
    theirs = policy("own", namespace=NAMESPACE, priority=9, defaults={"labels": {"queue": "own"}})
    assert at(admit(make_train_job(), ours, theirs), *LABEL, "queue") == "platform"


def test_equal_priorities_that_differ_write_nothing_and_both_are_named() -> None:
    one = policy("one", match={"operations": ["CREATE"]}, defaults={"labels": {"queue": "one"}})
    two = policy("two", defaults={"labels": {"queue": "two", "other": "two"}})
    outcome = admit(make_train_job(), one, two)
    assert refusals(outcome) == [
        "[one] Forbidden: conflicts with two of the same priority about metadata.labels[queue]: neither value is "
        "written",
        "[two] Forbidden: conflicts with one of the same priority about metadata.labels[queue]: neither value is "
        "written",
    ]


def test_ranges_without_a_common_number_are_found_when_they_are_loaded() -> None:
    low = policy("low", overrides={"trainer": {"numNodes": {"max": 2}}})
    high = policy("high", overrides={"trainer": {"numNodes": {"min": 3, "max": 9}}})
    wide = policy("wide", overrides={"trainer": {"numNodes": {"max": 5}}})
    job = make_train_job().nodes(2)
    errors = refusals(admit(job, low, high, wide))
    assert [error.partition("]")[0] for error in errors] == ["[high", "[low"]
    assert "TrainJobPolicy high is about the same jobs and wants spec.trainer.numNodes" in errors[1]
    assert "to be at least 3 (spec.overrides.trainer.numNodes.min): no number" in errors[1]
    assert admit(job, low, wide).allowed


def test_ranges_of_any_priority_conflict_and_nobody_claims_it_is_the_same() -> None:
    low = policy("low", priority=5, overrides={"trainer": {"numNodes": {"max": 2}}})
    high = policy("high", overrides={"trainer": {"numNodes": {"min": 3}}})
    errors = refusals(admit(make_train_job().nodes(2), low, high))
    assert len(errors) == 2
    assert all("no number is in all of their ranges" in error for error in errors)
    assert not any("same priority" in error for error in errors)


def test_a_conflict_of_policies_that_may_be_ignored_is_passed_over_and_said() -> None:
    one = policy("one", failurePolicy="Ignore", defaults={"labels": {"queue": "one"}})
    two = policy(
        "two",
        failurePolicy="Ignore",
        match={"operations": ["CREATE"]},
        defaults={"labels": {"queue": "two", "other": "two"}},
    )
    outcome = admit(make_train_job(), one, two)
    assert outcome.allowed
    assert at(outcome, *LABEL) == {"other": "two"}
    assert [w.partition(":")[0] for w in outcome.findings.warnings] == [
        "[one] is passed over",
        "[two] is passed over",
    ]


def test_values_may_be_expressions_over_variables_and_the_job() -> None:
    rules = policy(
        variables=[{"name": "team", "expression": "object.metadata.?labels.?team.orValue('none')"}],
        defaults={"labels": {"queue": {"expression": "variables.team + '-queue'"}}},
    )
    assert at(admit(make_train_job().label("team", "vision"), rules), *LABEL, "queue") == (
        "vision-queue"
    )
    assert at(admit(make_train_job(), rules), *LABEL, "queue") == "none-queue"


def test_rounds_go_on_until_nothing_changes() -> None:
    """The second policy matches only what the first one writes."""
    first = policy("first", defaults={"labels": {"tier": "gold"}})
    second = policy(
        "second",
        match={"objectSelector": {"matchLabels": {"tier": "gold"}}},
        defaults={"labels": {"queue": "gold-queue"}},
    )
    outcome = admit(make_train_job(), first, second)
    assert at(outcome, *LABEL) == {"tier": "gold", "queue": "gold-queue"}


def test_policies_that_never_come_to_rest_are_named() -> None:
    rules = policy(
        matchConditions=[
            {
                "name": "unlabelled",
                "expression": "!has(object.metadata.labels) || !('a' in object.metadata.labels)",
            }
        ],
        defaults={"labels": {"a": "x"}},
    )
    [error] = refusals(admit(make_train_job(), rules))
    assert error.startswith("[rules] Forbidden: what policies write still changes in round 4")


def test_all_that_still_change_are_named_and_nobody_else() -> None:
    """One sets what the other selects, and that what the first does not: neither comes to rest, and not in one round."""
    sets = policy(
        "sets",
        match={"objectSelector": {"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}},
        overrides={"labels": {"a": "1"}},
    )
    answers = policy(
        "answers",
        match={"objectSelector": {"matchLabels": {"a": "1"}}},
        overrides={"labels": {"b": "1"}},
    )
    calm = policy("calm", priority=1, defaults=QUEUE, overrides={"labels": {"c": "1"}})
    late = policy(
        "late",
        match={"objectSelector": {"matchLabels": {"c": "1"}}},
        overrides={"labels": {"d": "1"}},
    )
    errors = refusals(admit(make_train_job(), sets, answers, calm, late))
    assert [error.partition("]")[0] for error in errors] == ["[answers", "[sets"]
    assert all(error.endswith("these change: answers, sets") for error in errors)


@pytest.mark.parametrize(
    "rules",
    [
        policy(defaults=QUEUE),
        policy(overrides={"labels": {"queue": "q"}, "activeDeadlineSeconds": {"max": 60}}),
        policy(defaults={"trainer": {"numNodes": 3, "env": [{"name": "A", "value": "1"}]}}),
        from_yaml("""
          overrides:
            podTemplateOverrides:
            - targetJobs: [{name: node}]
              spec: {nodeSelector: {pool: h100}, tolerations: [{key: gpu, operator: Exists}]}
        """),
        from_yaml("""
          defaults: {labels: {queue: {expression: "string(totals.nodes)"}}}
          overrides: {trainer: {numNodes: {max: 1}}}
        """),
    ],
    ids=["default", "override", "trainer", "pods", "expression"],
)
@pytest.mark.parametrize("line", ["2.1", "2.2", "2.3"])
def test_admission_of_its_own_output_changes_nothing(rules: Json, line: str) -> None:
    if line == "2.1" and "activeDeadlineSeconds" in rules["spec"].get("overrides", {}):
        pytest.skip("2.1 has no activeDeadlineSeconds")
    folder = Folder.of(RUNTIME, rules, line=line)
    first = folder.admit(make_train_job().nodes(2))
    assert first.patch
    again = folder.admit(stored(first))
    assert again.allowed, refusals(again)
    assert again.patch == []


def test_pod_overrides_stand_where_precedence_wants_them() -> None:
    rules = from_yaml("""
      defaults: {podTemplateOverrides: [{targetJobs: [{name: node}], spec: {nodeSelector: {pool: any, zone: a}}}]}
      overrides: {podTemplateOverrides: [{targetJobs: [{name: node}], spec: {nodeSelector: {arch: amd64}}}]}
    """)
    folder = Folder.of(RUNTIME, rules)
    job = make_train_job().patch(
        "example.com/mine", job_patch("node", pod={"nodeSelector": {"pool": "mine"}})
    )
    outcome = folder.admit(job)
    managers = [p["manager"] for p in at(outcome, "spec", "runtimePatches")]
    assert managers == [
        "stationmaster.dev/defaults",
        "example.com/mine",
        "stationmaster.dev/overrides",
    ]
    rendered = folder.render(job, admitted=True)
    [jobset] = [o for o in rendered.objects if o["kind"] == "JobSet"]
    pod = values.at(jobset["spec"]["replicatedJobs"][0], "template", "spec", "template", "spec")
    assert pod["nodeSelector"] == {"pool": "mine", "zone": "a", "arch": "amd64"}


def test_a_user_cannot_take_our_manager() -> None:
    rules = policy(defaults=QUEUE)
    job = make_train_job().patch(
        "stationmaster.dev/overrides", job_patch("node", pod={"nodeSelector": {"a": "b"}})
    )
    assert "belongs to Stationmaster" in refusals(admit(job, rules))[0]


def test_mutate_warn_announces_and_writes_nothing() -> None:
    outcome = admit(make_train_job(), policy(mutate="Warn", defaults=QUEUE))
    assert at(outcome, *LABEL) is None
    assert outcome.findings.warnings == [
        'policy rules would set metadata.labels[queue] to "default-queue"'
    ]


# Limits and validations


LIMIT: Json = {"limits": [{"name": "few", "nodes": {"max": 2}}]}


def test_a_limit_judges_the_resolved_job() -> None:
    """The user names no number: it comes from the runtime."""
    folder = Folder.of(make_runtime().torch().nodes(3).node(), policy(**LIMIT))
    [error] = refusals(folder.admit(make_train_job()))
    assert "[rules/few] Forbidden: the job has 3 nodes" in error
    assert "at most 2 is allowed" in error


def test_a_limit_may_be_about_some_resources_of_a_domain_together() -> None:
    slices = {"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-2g.10gb": 1}
    job = make_train_job().nodes(2).trainer(resourcesPerNode={"limits": slices})
    cap = {"name": "slices", "resource": "nvidia.com/mig-*", "total": {"max": 5}}
    [error] = refusals(admit(job, policy(limits=[cap])))
    assert (
        "[rules/slices] Forbidden: nvidia.com/mig-* of all pods that run at one time is 6" in error
    )
    assert admit(job, policy(limits=[{**cap, "total": {"max": 6}}])).allowed


def test_overrides_are_applied_before_limits_judge() -> None:
    outcome = admit(
        make_train_job().nodes(9), policy(overrides={"trainer": {"numNodes": {"max": 2}}}, **LIMIT)
    )
    assert outcome.allowed
    assert at(outcome, "spec", "trainer", "numNodes") == 2


def test_a_refusal_by_policies_alone_is_403_with_every_line() -> None:
    rules = policy(
        limits=[{"name": "team", "labels": {"require": ["team"]}}],
        validations=[{"name": "no", "expression": "false", "message": "never", "fix": "ask"}],
    )
    status = admit(make_train_job(), rules).review["response"]["status"]
    assert status["code"] == 403
    assert status["message"] == (
        "metadata.labels[team]: [rules/team] Required value: every TrainJob must have the label team, with a value\n"
        "[rules/no] Forbidden: never; ask"
    )


@pytest.mark.parametrize(
    ("actions", "allowed", "warned", "audited"),
    [
        (["Deny"], False, False, False),
        (["Warn"], True, True, False),
        (["Audit"], True, False, True),
    ],
)
def test_actions(actions: list[str], allowed: bool, warned: bool, audited: bool) -> None:
    rules = policy(
        actions=actions, validations=[{"name": "no", "expression": "false", "message": "never"}]
    )
    outcome = admit(make_train_job(), rules)
    assert outcome.allowed is allowed
    assert (outcome.findings.warnings == ["[rules/no] Forbidden: never"]) is warned
    audit = outcome.review["response"].get("auditAnnotations", {})
    assert (audit == {"rules.no": "never"}) is audited


def test_the_first_stage_that_matches_decides() -> None:
    space = {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": NAMESPACE, "labels": {"ring": "canary"}},
    }
    rules = policy(
        actions=["Warn"],
        rollout=[{"namespaceSelector": {"matchLabels": {"ring": "canary"}}, "actions": ["Deny"]}],
        **LIMIT,
    )
    assert not admit(make_train_job().nodes(3), rules, space).allowed
    assert admit(make_train_job().nodes(3), rules).allowed


def test_audit_annotations_are_given_to_the_api_server() -> None:
    rules = policy(auditAnnotations=[{"key": "nodes", "valueExpression": "string(totals.nodes)"}])
    review = admit(make_train_job().nodes(3), rules).review
    assert review["response"]["auditAnnotations"] == {"rules.nodes": "3"}


def audit(job: Any, *documents: Json) -> Json:
    found: Json = admit(job, *documents).review["response"].get("auditAnnotations", {})
    return found


def test_an_annotation_and_a_rule_of_one_name_are_both_in_the_audit_log() -> None:
    rules = policy(
        **LIMIT,
        actions=["Audit"],
        auditAnnotations=[{"key": "few", "valueExpression": "string(totals.nodes)"}],
    )
    assert audit(make_train_job().nodes(3), rules) == {
        "rules.few": "3",
        "rules.few.rule": "the job has 3 nodes, and at most 2 is allowed",
    }


def test_every_way_in_which_a_rule_is_broken_is_in_the_audit_log() -> None:
    both = {"name": "cpu", "resource": "cpu", "total": {"max": 2}, "perNode": {"max": "500m"}}
    text = audit(make_train_job().nodes(3), policy(limits=[both], actions=["Audit"]))["rules.cpu"]
    assert text.startswith("cpu of all pods that run at one time is 3 (node: 3 pods with 1)")
    assert "; cpu of one pod of job node is 1 (" in text


def test_rules_of_policies_with_long_names_have_keys_of_their_own_in_the_audit_log() -> None:
    rules = [{"name": f"rule-{i}", "nodes": {"max": i}} for i in range(2)]
    found = audit(make_train_job().nodes(3), policy("p" * 100, limits=rules, actions=["Audit"]))
    assert len(found) == 2
    assert all(len(key) <= 63 for key in found)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("totals.nodes", "must give a text (string), or null, and gives int"),
        ("dyn(totals.nodes)", "must be a text, or null, is of type int"),
    ],
)
def test_an_audit_annotation_that_is_no_text_is_a_fault(expression: str, said: str) -> None:
    rules = policy(auditAnnotations=[{"key": "n", "valueExpression": expression}])
    [error] = refusals(admit(make_train_job(), rules))
    assert said in error


@pytest.mark.parametrize("expression", ["null", "''"])
def test_an_audit_annotation_may_be_left_out(expression: str) -> None:
    rules = policy(auditAnnotations=[{"key": "n", "valueExpression": expression}])
    assert audit(make_train_job(), rules) == {}


def test_a_message_that_cannot_be_worked_out_gives_way_to_the_plain_one() -> None:
    rules = policy(
        validations=[
            {
                "name": "no",
                "expression": "false",
                "message": "plain",
                "messageExpression": "string(1 / 0)",
            }
        ]
    )
    assert refusals(admit(make_train_job(), rules)) == ["[rules/no] Forbidden: plain"]


# Faults


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    "spec",
    [
        {"validations": [{"name": "v", "expression": "object.spec.trainer.numNodez > 1"}]},
        {"validations": [{"name": "v", "expression": "params.absent > 1"}]},
        {"matchConditions": [{"name": "c", "expression": "1 / 0 > 1"}], **LIMIT},
        {"limits": [{"name": "l", "nodes": {"max": {"expression": "'many'"}}}]},
        {"defaults": {"labels": {"a": {"expression": "object.metadata.labels.b"}}}},
        {
            "params": {"configMapRef": {"name": "none"}},
            "limits": [{"name": "l", "nodes": {"max": {"expression": "params.n"}}}],
        },
        {"limits": [{"name": "l", "nodes": {"most": 1}}]},
    ],
    ids=["misspelt", "missing", "condition", "type", "value", "params", "unread"],
)
def test_a_fault_has_the_effect_that_failure_policy_says(spec: Json, failure_policy: str) -> None:
    outcome = admit(make_train_job().nodes(3), policy(failurePolicy=failure_policy, **spec))
    assert outcome.allowed is (failure_policy == "Ignore")
    told = refusals(outcome) or outcome.findings.warnings
    assert len(told) == 1
    assert told[0].startswith("[rules]")


def test_a_policy_that_fails_harms_no_other() -> None:
    broken = policy(
        "broken", failurePolicy="Ignore", validations=[{"name": "v", "expression": "nonsense"}]
    )
    [error] = refusals(admit(make_train_job().nodes(3), broken, policy("good", **LIMIT)))
    assert "[good/few]" in error


NAMING: Json = {"naming": {"pattern": "[a-z]+-[0-9]+"}}


def test_naming_is_advice_under_defaults_and_a_refusal_under_overrides() -> None:
    assert admit(make_train_job("a-1"), policy(overrides=NAMING)).allowed
    outcome = admit(make_train_job("nope"), policy(defaults=NAMING))
    assert outcome.allowed
    assert "must match the pattern" in outcome.findings.warnings[0]
    [error] = refusals(admit(make_train_job("nope"), policy(overrides=NAMING)))
    assert error.startswith('metadata.name: [rules/naming] Invalid value: "nope": must match')


def test_pods_of_a_line_that_has_no_words_for_them_are_refused_by_name() -> None:
    rules = from_yaml("""
      defaults: {podTemplateOverrides: [{targetJobs: [{name: node}], spec: {nodeSelector: {a: b}}}]}
    """)
    [error] = refusals(admit(make_train_job(), rules, line="2.0"))
    assert error.startswith("[rules] Forbidden:")
    assert "2.0" in error


def test_what_policies_wrote_goes_when_they_are_gone() -> None:
    rules = from_yaml("""
      defaults: {labels: {queue: q}}
      overrides: {podTemplateOverrides: [{targetJobs: [{name: node}], spec: {nodeSelector: {a: b}}}]}
    """)
    before = stored(admit(make_train_job().suspended(), rules))
    touched = deepcopy(before.obj)
    touched["metadata"]["labels"]["new"] = "label"
    after = admit(Given(touched), old=before)
    assert at(after, *LABEL) == {"new": "label"}
    assert at(after, "spec", "runtimePatches") in (None, [])


# Params and exceptions


def params(**data: str) -> Json:
    """A ConfigMap for policies."""
    metadata = {"name": "gpu-rules", "namespace": NAMESPACE, "labels": {names.PARAMS_LABEL: ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


BY_PARAMS = policy(
    params={"configMapRef": {"name": "gpu-rules"}, "default": {"maxNodes": 8}},
    limits=[{"name": "few", "nodes": {"max": {"expression": "params.maxNodes"}}}],
)


@pytest.mark.parametrize(
    ("documents", "nodes", "allowed"),
    [
        ([], 8, True),
        ([], 9, False),
        ([params(maxNodes="2")], 2, True),
        ([params(maxNodes="2")], 3, False),
        ([params(other="2")], 8, True),
    ],
)
def test_params_of_the_namespace_stand_over_the_default(
    documents: list[Json], nodes: int, allowed: bool
) -> None:
    assert admit(make_train_job().nodes(nodes), BY_PARAMS, *documents).allowed is allowed


def test_without_params_a_policy_may_be_about_nobody() -> None:
    rules = policy(params={"configMapRef": {"name": "gpu-rules"}, "notFound": "Allow"}, **LIMIT)
    assert admit(make_train_job().nodes(9), rules).allowed
    assert not admit(make_train_job().nodes(9), rules, params(a="b")).allowed


def an_exception(**spec: Any) -> Json:
    """Loosens ``rules`` in the namespace of the job."""
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "PolicyException",
        "metadata": {"name": "big-run", "namespace": NAMESPACE},
        "spec": {
            "policies": [{"name": "rules", "rules": ["few"]}],
            "owner": "team",
            "reason": "run",
            "expiresAt": "2999-01-01T00:00:00Z",
            **spec,
        },
    }


OFFERS = policy(exceptions={"rules": ["few"]}, **LIMIT)


@pytest.mark.parametrize(
    ("exception", "rules", "nodes", "allowed"),
    [
        (an_exception(), OFFERS, 9, True),
        (an_exception(), policy(**LIMIT), 9, False),
        (an_exception(grant={"few": {"nodes": {"max": 4}}}), OFFERS, 4, True),
        (an_exception(grant={"few": {"nodes": {"max": 4}}}), OFFERS, 5, False),
        (an_exception(expiresAt="2020-01-01T00:00:00Z"), OFFERS, 9, False),
        (an_exception(match={"names": ["other-*"]}), OFFERS, 9, False),
    ],
    ids=["off", "not offered", "granted", "beyond the grant", "expired", "another job"],
)
def test_exceptions(exception: Json, rules: Json, nodes: int, allowed: bool) -> None:
    outcome = admit(make_train_job().nodes(nodes), rules, exception)
    assert outcome.allowed is allowed, refusals(outcome)


@pytest.mark.parametrize("more", [{}, {"grant": {"few": {"nodes": {"max": 9}}}}])
def test_what_an_exception_lets_through_is_in_the_audit(more: Json) -> None:
    review = admit(make_train_job().nodes(9), OFFERS, an_exception(**more)).review
    assert review["response"]["auditAnnotations"] == {"rules.few": "excepted by big-run"}


def test_what_an_exception_does_not_let_through_is_told_beside_it() -> None:
    both = {"name": "few", "resource": "cpu", "total": {"max": 4}, "perNode": {"max": "500m"}}
    rules = policy(exceptions={"rules": ["few"]}, limits=[both], actions=["Audit"])
    loose = an_exception(grant={"few": {"perNode": {"max": 1}}})
    review = admit(make_train_job().nodes(9), rules, loose).review
    text = review["response"]["auditAnnotations"]["rules.few"]
    assert text.startswith("cpu of all pods that run at one time is 9 ")
    assert text.endswith("; excepted by big-run")


@pytest.mark.parametrize(
    ("rules", "more"),
    [
        (OFFERS, {"grant": {"few": {"nodes": {"max": 9}}}}),
        (OFFERS, {}),
        (
            policy(
                exceptions={"rules": ["few"]},
                validations=[{"name": "few", "expression": "totals.nodes < 3"}],
            ),
            {},
        ),
    ],
    ids=["granted", "off", "validation"],
)
def test_an_exception_lets_nothing_through_that_a_stored_job_broke_already(
    rules: Json, more: Json
) -> None:
    before = stored(admit(make_train_job().nodes(9).suspended()))
    patch = make_train_job().patch("example.com/a", job_patch("node", pod={"nodeSelector": {}}))
    patched = deepcopy(before.obj)
    patched["spec"]["runtimePatches"] = patch.obj["spec"]["runtimePatches"]
    folder = Folder.of(RUNTIME, rules, an_exception(**more))
    outcome = folder.admit(Given(patched), before)
    assert outcome.allowed
    assert "auditAnnotations" not in outcome.review["response"]


# Updates


def test_a_stricter_rule_blocks_no_update_that_does_not_worsen_it() -> None:
    before = stored(admit(make_train_job().nodes(9).suspended()))
    folder = Folder.of(RUNTIME, policy(**LIMIT))
    resumed = Given({**before.obj, "spec": {**before.obj["spec"], "suspend": False}})
    assert folder.admit(resumed, before).allowed
    labelled = deepcopy(before.obj)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert folder.admit(Given(labelled), before).allowed
    patched = deepcopy(before.obj)
    patched["spec"]["runtimePatches"] = (
        make_train_job()
        .patch("example.com/mine", job_patch("node", pod={"nodeSelector": {"a": "b"}}))
        .obj["spec"]["runtimePatches"]
    )
    assert folder.admit(Given(patched), before).allowed


def test_a_label_that_a_policy_requires_cannot_be_taken_away() -> None:
    rules = policy(limits=[{"name": "team", "labels": {"require": ["team"]}}])
    before = stored(admit(make_train_job().label("team", "a"), rules))
    bare = deepcopy(before.obj)
    del bare["metadata"]["labels"]
    [error] = refusals(admit(Given(bare), rules, old=before))
    assert error.startswith("metadata.labels[team]: [rules/team] Required value")
    assert admit(Given(bare), rules, old=Given(bare)).allowed


def test_a_default_label_comes_back_when_an_update_takes_it_away() -> None:
    rules = policy(defaults=QUEUE)
    before = stored(admit(make_train_job(), rules))
    bare = deepcopy(before.obj)
    del bare["metadata"]["labels"]
    assert at(admit(Given(bare), rules, old=before), *LABEL, "queue") == "default-queue"


def test_finalizers_and_status_are_nobodys_to_judge() -> None:
    rules = policy(validations=[{"name": "no", "expression": "false"}])
    before = stored(admit(make_train_job()))
    after = deepcopy(before.obj)
    after["metadata"]["finalizers"] = ["example.com/mine"]
    outcome = admit(Given(after), rules, old=before)
    assert outcome.allowed
    assert outcome.patch == []


def test_the_same_manifest_again_is_a_no_op() -> None:
    """As ``kubectl replace`` and Argo CD send it: without anything that policies wrote."""
    rules = from_yaml("""
      defaults: {labels: {queue: q}, trainer: {env: [{name: A, value: "1"}]}}
      overrides: {podTemplateOverrides: [{targetJobs: [{name: node}], spec: {nodeSelector: {pool: h100}}}]}
    """)
    manifest = make_train_job()
    before = stored(admit(manifest, rules))
    again = deepcopy(manifest.obj)
    again["metadata"].pop("annotations", None)
    outcome = admit(Given(again), rules, old=before)
    assert outcome.allowed, refusals(outcome)
    assert outcome.after is not None
    assert outcome.after["spec"] == before.obj["spec"]
    assert outcome.after["metadata"]["labels"] == before.obj["metadata"]["labels"]
    assert outcome.after["metadata"]["annotations"] == before.obj["metadata"]["annotations"]


# Who created the job


SUBJECTS: Json = {"subjects": {"users": ["alice*"]}}


def test_subjects_are_those_who_created_the_job() -> None:
    rules = policy(match=SUBJECTS, **LIMIT)
    assert admit(make_train_job().nodes(3), rules).allowed
    review = Folder.of(RUNTIME, rules).admit(
        as_review(make_train_job().nodes(3).obj, "alice@example.com")
    )
    assert not review.allowed


def test_who_created_it_is_recorded_and_cannot_be_forged() -> None:
    rules = policy(match=SUBJECTS, defaults=QUEUE)
    job = make_train_job().annotation(names.POLICIES_ANNOTATION, '{"policies":["rules"]}')
    assert names.POLICIES_ANNOTATION not in (at(admit(job, rules), "metadata", "annotations") or {})
    made = Folder.of(RUNTIME, rules).admit(as_review(make_train_job().obj, "alice@example.com"))
    assert made.after is not None
    assert (
        made.after["metadata"]["annotations"][names.POLICIES_ANNOTATION] == '{"policies":["rules"]}'
    )


def as_review(obj: Json, user: str) -> Json:
    """The same object as the API server would send it."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": names.GROUP, "version": "v1alpha1", "kind": names.TRAIN_JOB},
            "resource": {"group": names.GROUP, "version": "v1alpha1", "resource": "trainjobs"},
            "operation": "CREATE",
            "namespace": NAMESPACE,
            "name": obj["metadata"]["name"],
            "userInfo": {"username": user},
            "object": obj,
        },
    }


def test_the_same_documents_in_any_order_give_the_same_bytes() -> None:
    documents = [
        policy("a", priority=1, defaults={"labels": {"q": "a"}}, **LIMIT),
        policy("b", overrides={"labels": {"z": "b"}}),
        policy("c", namespace=NAMESPACE, defaults={"labels": {"q": "c", "r": "c"}}),
        an_exception(),
    ]
    there = Folder.of(RUNTIME, *documents).admit(make_train_job())
    back = Folder.of(RUNTIME, *reversed(documents)).admit(make_train_job())
    assert there.patch == back.patch
    assert there.review == back.review
