from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from plugins.framework.draft import ABSENT
from plugins.framework.field import Findings, required
from tests.webhook.cli.conftest import Run, job, review
from tests.webhook.cli.fakes import Change, Engine, Explained, Layer, Outcome
from webhook.cli.page import Page

EXPLAIN = ("explain", "-f", "-", "--from", "cluster")
EXPLAINED = Explained(
    outcome=Outcome(
        changes=[
            Change(
                path=("spec", "trainer", "numNodes"), by="RuntimeDefaults", before=ABSENT, after=2
            ),
            Change(path=("metadata", "labels", "a.b/c"), by="Queue", before="x", after="y"),
            Change(path=("spec", "list", 0, "name"), by="Queue", before=None, after=ABSENT),
        ]
    ),
    layers=[
        Layer(path="node.spec.containers[node].image", value="x:1", layer="runtime", by="base")
    ],
)


def test_the_tables_tell_who_and_what_was_before(run: Run, engine: Engine) -> None:
    engine.on_explain = lambda _d: EXPLAINED
    ran = run(*EXPLAIN, stdin=job())
    assert (ran.code, ran.err) == (0, [])
    assert ran.out == (
        "TrainJob team/a\n"
        "FIELD                    CHANGED BY        BEFORE   AFTER\n"
        "spec.trainer.numNodes    RuntimeDefaults   -        2\n"
        'metadata.labels[a.b/c]   Queue             "x"      "y"\n'
        "spec.list[0].name        Queue             null     -\n"
        "\n"
        "VALUE OF                           VALUE   FROM\n"
        'node.spec.containers[node].image   "x:1"   runtime base\n'
    )


def test_json_is_for_programs(run: Run, engine: Engine) -> None:
    engine.on_explain = lambda _d: EXPLAINED
    assert json.loads(run(*EXPLAIN, "-o", "json", stdin=job()).out) == {
        "object": "TrainJob team/a",
        "allowed": True,
        "changes": [
            {"path": "spec.trainer.numNodes", "by": "RuntimeDefaults", "after": 2},
            {"path": "metadata.labels[a.b/c]", "by": "Queue", "before": "x", "after": "y"},
            {"path": "spec.list[0].name", "by": "Queue", "before": None},
        ],
        "layers": [
            {
                "path": "node.spec.containers[node].image",
                "value": "x:1",
                "layer": "runtime",
                "by": "base",
            }
        ],
    }


def test_refused_jobs_are_explained_too(run: Run, engine: Engine) -> None:
    findings = Findings([required("spec.runtimeRef")])
    refused = Explained(outcome=Outcome(allowed=False, findings=findings))
    engine.on_explain = lambda _d: refused
    ran = run(*EXPLAIN, "-o", "yaml", stdin=job() + "---\n" + review("b"))
    assert ran.code == 1
    assert ran.out == "---\n".join(
        [
            f"allowed: false\nchanges: []\nlayers: []\nobject: TrainJob {name}\n"
            for name in ("team/a", "b")
        ]
    )
    assert (
        ran.err[0] == "Error: TrainJob team/a: spec.runtimeRef: Required value (standard input:1)"
    )
    assert len(ran.err) == 2


# Policies, with the engine itself

RULES = """
apiVersion: stationmaster.dev/v1alpha1
kind: TrainJobPolicy
metadata: {name: rules}
spec:
  priority: 5
  match: {subjects: {excludeUsers: [admin]}, namespaceSelector: {matchLabels: {tier: research}}}
  matchConditions: [{name: small, expression: "totals.nodes < 9"}]
  params: {value: {most: 1}}
  defaults: {labels: {team: vision}}
  limits: [{name: nodes, nodes: {max: {expression: params.most}}}]
  validations:
  - {name: even, expression: "totals.nodes % 2 == 0"}
  - {name: named, expression: "object.metadata.name.startsWith('big')", message: "must be big", actions: [Warn]}
"""
SMALL_RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: "x:1", resources: {requests: {cpu: 1}}}]}}}
"""
OF_TORCH = job(extra="spec: {runtimeRef: {name: torch}}\n")
POLICIES = ("-p", "rules.yaml", "--namespace-labels", "tier=research", "-o", "policies")


@pytest.fixture
def folder(run: Run) -> None:
    del run  # which is in the folder
    Path("cluster/runtime.yaml").write_text(SMALL_RUNTIME)
    Path("rules.yaml").write_text(RULES)


@pytest.mark.usefixtures("folder")
def test_policies_are_explained_as_text(run: Run) -> None:
    ran = run(*EXPLAIN, *POLICIES, stdin=OF_TORCH)
    assert ran.code == 1
    assert ran.out == (
        "TrainJob team/a\n"
        "\n"
        "TrainJobPolicy rules (priority 5): matched; actions Deny; mutate Apply\n"
        "  matchConditions[small]\n"
        "    totals.nodes < 9  =  true\n"
        "      totals.nodes  =  2\n"
        '  params (value): {"most":1}\n'
        '  defaults: set metadata.labels[team] to "vision"\n'
        "  broken  limit nodes (Deny)\n"
        "          nodes 2 (at most 1)\n"
        "          spec.runtimeRef.name: Forbidden: the job has 2 nodes (from ClusterTrainingRuntime torch), and at "
        "most 1 is allowed\n"
        "          params.most  =  1\n"
        "  passes  validation even\n"
        "  broken  validation named (Warn)\n"
        "          Forbidden: must be big\n"
        "          object.metadata.name.startsWith('big')  =  false\n"
        '            object.metadata.name  =  "a"\n'
    )


@pytest.mark.usefixtures("folder")
def test_what_holds_is_explained_where_it_is_asked_for(run: Run) -> None:
    ran = run(*EXPLAIN, *POLICIES, "-v", stdin=OF_TORCH)
    assert "  passes  validation even\n          totals.nodes % 2 == 0  =  true\n" in ran.out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "  namespaceSelector: wants tier=research, and there is no tier on namespace team\n"),
        (
            ("--user", "admin", "--namespace-labels", "tier=research"),
            '  subjects: the job was created by "admin", whom excludeUsers admin leaves out\n',
        ),
    ],
)
def test_options_say_what_files_do_not(run: Run, words: tuple[str, ...], said: str) -> None:
    ran = run(*EXPLAIN, "-p", "rules.yaml", "-o", "policies", *words, stdin=OF_TORCH)
    assert (ran.code, ran.err) == (0, [])
    assert (
        ran.out
        == f"TrainJob team/a\n\nTrainJobPolicy rules (priority 5): not about this job\n{said}"
    )


@pytest.mark.usefixtures("folder")
def test_an_update_is_explained_with_what_was_stored(run: Run) -> None:
    Path("old.yaml").write_text(OF_TORCH)
    ran = run(*EXPLAIN, *POLICIES, "--old", "old.yaml", stdin=OF_TORCH)
    assert (ran.code, ran.err) == (0, [])


@pytest.mark.usefixtures("folder")
def test_programs_read_the_same(run: Run) -> None:
    words = ("-p", "rules.yaml", "--namespace-labels", "tier=research", "-o", "json")
    [found] = json.loads(run(*EXPLAIN, *words, stdin=OF_TORCH).out)["policies"]
    assert {key: found[key] for key in ("name", "priority", "matched", "params", "rollout")} == {
        "name": "rules",
        "priority": 5,
        "matched": True,
        "params": {"from": "value", "value": {"most": 1}},
        "rollout": {"stage": None, "share": 65, "actions": ["Deny"], "mutate": "Apply"},
    }
    assert found["rules"][0] == {
        "rule": "nodes",
        "kind": "limit",
        "outcome": "broken",
        "actions": ["Deny"],
        "messages": [
            "spec.runtimeRef.name: Forbidden: the job has 2 nodes (from ClusterTrainingRuntime torch), and at most 1 "
            "is allowed"
        ],
        "measures": ["nodes 2 (at most 1)"],
        "expressions": [
            {
                "expression": "params.most",
                "parts": [{"text": "params.most", "level": 0, "value": 1}],
            }
        ],
    }
    assert [rule["outcome"] for rule in found["rules"]] == ["broken", "passes", "broken"]


@pytest.mark.usefixtures("folder")
def test_without_policies_that_is_said(run: Run) -> None:
    assert run(*EXPLAIN, "-o", "policies", stdin=OF_TORCH).out == (
        "TrainJob team/a\n\nno policy was asked about it\n"
    )


@pytest.mark.usefixtures("folder")
def test_an_exception_that_cannot_be_read_is_not_passed_over(run: Run) -> None:
    """Else it looks as if nobody had written it."""
    for namespace in ("team", "other"):
        Path(f"cluster/{namespace}.yaml").write_text(
            "apiVersion: stationmaster.dev/v1alpha1\nkind: PolicyException\n"
            f"metadata: {{name: more, namespace: {namespace}}}\n"
            "spec: {policies: [{name: rules}], expiresAt: '2027-01-01T00:00:00Z', owner: o, reason: on}\n"
        )
    ran = run(*EXPLAIN, *POLICIES, stdin=OF_TORCH)
    assert ran.out.endswith(
        '"a"\n\n'
        "PolicyException team/more: cannot be read, and loosens nothing\n"
        "  not Ready: spec.reason: Invalid value: true: must be a string\n"
    )
    ran = run(*EXPLAIN, "-p", "rules.yaml", "-o", "json", stdin=OF_TORCH)
    assert json.loads(ran.out)["unread"] == [
        {
            "kind": "PolicyException",
            "name": "more",
            "namespace": "team",
            "notReady": ["spec.reason: Invalid value: true: must be a string"],
        }
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tier", "'tier' is not KEY=VALUE"),
        ("=research", "'=research' can be no label"),
        ("a=b,c", "'c' is not KEY=VALUE"),
    ],
)
def test_labels_are_pairs(run: Run, text: str, said: str) -> None:
    ran = run(*EXPLAIN, "--namespace-labels", text, stdin=job())
    assert ran.code == 2
    assert said in "\n".join(ran.err)


def test_a_terminal_gets_lines_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    page = Page()
    page.say(2, "word " * 30, head="broken", width=10)
    page.say(0, "x" * 70)
    assert all(len(line) <= 50 for line in page.lines)
    assert [line[:12] for line in page.lines[:2]] == ["  broken    ", " " * 12]
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    coloured = Page()
    coloured.say(0, "it", head="broken", width=8)
    assert coloured.text == "\x1b[1;31mbroken  \x1b[0mit\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["admit", "render"])
def test_the_other_commands_meet_the_same_policies(run: Run, command: str) -> None:
    words = (command, "-f", "-", "--from", "cluster", "-p", "rules.yaml")
    elsewhere = run(*words, stdin=OF_TORCH)
    there = run(*words, "--namespace-labels", "tier=research", stdin=OF_TORCH)
    admin = run(*words, "--namespace-labels", "tier=research", "--user", "admin", stdin=OF_TORCH)
    assert [
        any("[rules/nodes]" in line for line in ran.err) for ran in (elsewhere, there, admin)
    ] == [
        False,
        True,
        False,
    ]
