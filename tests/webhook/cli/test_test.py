from __future__ import annotations

import textwrap
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.webhook.cli.conftest import Run
from webhook.cli.test import follow

EXAMPLES = Path(__file__).parents[3] / "examples" / "cluster"
POLICY = """apiVersion: stationmaster.dev/v1alpha1
kind: TrainJobPolicy
metadata: {name: rules}
spec:
  match: {namespaceSelector: {matchLabels: {tier: research}}}
  defaults:
    labels: {queue: default}
  overrides:
    trainer: {numNodes: {max: 8}}
    podTemplateOverrides: [{spec: {nodeSelector: {pool: h100}}}]
  limits:
  - {name: nodes, nodes: {max: 4}}
  validations:
  - {name: owner, expression: "'owner' in object.metadata.?annotations.orValue({})", message: owner please, actions: [Warn]}
  exceptions: {rules: [nodes]}
  auditAnnotations: [{key: nodes, valueExpression: string(totals.nodes)}]
"""
HEAD = f"""apiVersion: stationmaster.dev/v1alpha1
kind: PolicyTest
from: [{EXAMPLES}]
policies: [rules.yaml]
namespaceLabels: {{tier: research}}
trainJob: &job
  metadata: {{name: llm, namespace: team, annotations: {{owner: me}}}}
  spec: {{runtimeRef: {{name: torch-distributed}}, trainer: {{numNodes: 2}}}}
cases:
"""
PASSING = """- name: all is well
  want:
    allowed: true
    warned: []
    patched: {"metadata.labels[queue]": default, /spec/trainer/numNodes: 2}
    absent: [spec.podTemplateOverrides]
    pods: {node: {"spec.nodeSelector[pool]": h100, "spec.containers[node].env[PET_NNODES].value": "2"}}
    audit: {rules.nodes: "2"}
- name: six nodes
  change: {spec: {trainer: {numNodes: 6}}, metadata: {labels: {queue: mine}}}
  want: {refused: ["[rules/nodes]"], refusedOnly: [at most 4]}
- name: no owner
  change: {metadata: {annotations: null}}
  want: {warned: [owner please]}
- name: elsewhere
  namespaceLabels: {}
  change: {spec: {trainer: {numNodes: 6}}}
  want: {allowed: true, absent: [metadata.labels]}
- name: a change of what was too large already
  old: {metadata: {name: llm, namespace: team}, spec: {runtimeRef: {name: torch-distributed}, trainer: {numNodes: 6}}}
  trainJob: {metadata: {name: llm, namespace: team, labels: {a: b}}, spec: {runtimeRef: {name: torch-distributed}, trainer: {numNodes: 6}}}
  want: {allowed: true}
- name: an exception
  change: {spec: {trainer: {numNodes: 6}}}
  now: "2026-12-31T00:00:00Z"
  objects:
  - apiVersion: stationmaster.dev/v1alpha1
    kind: PolicyException
    metadata: {name: big, namespace: team}
    spec: {policies: [{name: rules}], expiresAt: "2027-01-01T00:00:00Z"}
  want: {allowed: true}
"""


def write(cases: str, policy: str = POLICY, head: str = HEAD) -> None:
    Path("t").mkdir(exist_ok=True)
    Path("t/rules.yaml").write_text(policy)
    Path("t/rules_test.yaml").write_text(head + cases)


def test_cases_that_come_as_they_are_wanted(run: Run) -> None:
    write(PASSING)
    ran = run("test", "t")
    assert ran.out.splitlines() == [
        "t/rules_test.yaml",
        "  ok      all is well",
        "  ok      six nodes",
        "  ok      no owner",
        "  ok      elsewhere",
        "  ok      a change of what was too large already",
        "  ok      an exception",
        "6 cases: 6 ok",
    ]
    assert (ran.code, ran.err) == (0, [])


@pytest.mark.parametrize(
    ("want", "lines"),
    [
        ("{allowed: false}", ["wanted the job to be refused", "came   it was allowed"]),
        (
            "{refused: [a, b]}",
            ['wanted a refusal with "a", "b"', "came   it was allowed"],
        ),
        (
            "{patched: {spec.trainer.numNodes: 3}}",
            ["wanted spec.trainer.numNodes to be 3", "came   2"],
        ),
        (
            "{patched: {spec.nothing: 3}}",
            ["wanted spec.nothing to be 3", "came   nothing is there"],
        ),
        (
            "{absent: ['spec.trainer']}",
            ["wanted nothing at spec.trainer", 'came   {"numNodes":2,'],
        ),
        (
            "{warned: [something]}",
            ['wanted a warning with "something"', "came   there was no warning"],
        ),
        (
            "{pods: {nodes: {spec.x: 1}}}",
            ["wanted pods of nodes", "came   the job's pod sets are node"],
        ),
        (
            "{pods: {node: {'spec.nodeSelector[pool]': a100}}}",
            ['wanted spec.nodeSelector[pool] of the pods of node to be "a100"', 'came   "h100"'],
        ),
        (
            "{audit: {other: x}}",
            ["wanted an audit annotation other", "came   there are: rules.nodes"],
        ),
        (
            "{audit: {rules.nodes: '3'}}",
            ['wanted the audit annotation rules.nodes with "3"', 'came   "2"'],
        ),
    ],
)
def test_what_came_instead_is_said(run: Run, want: str, lines: list[str]) -> None:
    write(f"- name: x\n  want: {want}\n")
    ran = run("test", "t")
    assert ran.code == 1
    shown = ran.out.splitlines()
    assert shown[1] == "  FAILED  x (t/rules_test.yaml:10)"
    for line, wanted in zip(shown[2:], lines, strict=False):
        assert line.strip().startswith(wanted)
    assert shown[-1] == "1 case: 0 ok, 1 failed"


def test_a_refusal_where_none_was_wanted_shows_every_error(run: Run) -> None:
    write("- name: x\n  change: {spec: {trainer: {numNodes: 6}}}\n  want: {patched: {a: 1}}\n")
    ran = run("test", "t")
    assert [line.strip() for line in ran.out.splitlines()[2:5]] == [
        "wanted the job to be allowed",
        "came   it was refused:",
        "- spec.trainer.numNodes: [rules/nodes] Forbidden: the job has 6 nodes, and at most 4 is allowed",
    ]


def test_errors_that_were_not_wanted(run: Run) -> None:
    pods = POLICY.replace("limits:\n", "limits:\n  - {name: pods, pods: {max: 5}}\n")
    cases = "- name: x\n  change: {spec: {trainer: {numNodes: 6}}}\n"
    write(cases + "  want: {refusedOnly: ['[rules/nodes]'], refused: [quota]}\n", policy=pods)
    lines = [line.strip() for line in run("test", "t").out.splitlines()[2:-1]]
    assert lines[0] == 'wanted an error with "quota"'
    assert lines[4] == 'wanted no error but those with "[rules/nodes]"'
    assert lines[5:6] == ["came   there were also:"]
    assert lines[6].startswith("- spec.trainer.numNodes: [rules/pods] ")


def test_the_help_shows_a_whole_test(run: Run) -> None:
    shown = run("test", "--help").out
    sample = shown.partition("the shortest test there is:\n\n")[2].partition("\n\n")[0]
    Path("t").mkdir()
    Path("t/a_test.yaml").write_text(
        textwrap.dedent(sample).replace("../cluster", str(EXAMPLES)).replace("my-policy", "team")
    )
    Path("t/team.yaml").write_text(
        POLICY.partition("spec:")[0].replace("rules", "team")
        + "spec: {limits: [{name: team, labels: {require: [team]}}]}\n"
    )
    assert run("test", "t").code == 0


def test_only_the_cases_that_are_asked_for(run: Run) -> None:
    write(PASSING)
    assert run("test", "t", "-k", "SIX").out.splitlines()[1:] == [
        "  ok      six nodes",
        "1 case: 1 ok",
    ]
    ran = run("test", "t", "-k", "nothing")
    assert (ran.code, ran.err) == (2, ["Error: no case has 'nothing' in its file or name"])


def test_coverage_of_rules(run: Run) -> None:
    write(PASSING)
    ran = run("test", "t", "--coverage")
    rows = [line.split() for line in ran.out.splitlines() if line.startswith("rules ")]
    assert rows == [
        ["rules", "defaults.labels", "3", "write,", "3", "let", "be"],
        [
            "rules",
            "overrides.trainer.numNodes",
            "0",
            "write,",
            "6",
            "let",
            "be",
            "no",
            "case",
            "has",
            "it",
            "written",
        ],
        ["rules", "overrides.podTemplateOverrides", "4", "write,", "2", "let", "be"],
        ["rules", "limits.nodes", "2", "kept,", "2", "broken"],
        ["rules", "validations.owner", "3", "kept,", "2", "broken"],
    ]
    assert "4 of 5 rules go both ways in the cases (80 %)" in ran.out
    assert run("test", "t", "--coverage-min", "80").code == 0
    ran = run("test", "t", "--coverage-min", "81")
    assert ran.code == 1
    assert ran.err == [
        "Error: 80 % of the rules go both ways in the cases, and --coverage-min wants 81 %"
    ]


def test_coverage_of_no_rules_is_not_enough(run: Run) -> None:
    """Else a folder that is misspelt in ``from`` passes."""
    head = HEAD.replace("policies: [rules.yaml]\n", "")
    write("- name: x\n  want: {allowed: true}\n", head=head)
    assert run("test", "t", "--coverage").out.splitlines()[-2:] == [
        "no rule is under test",
        "1 case: 1 ok",
    ]
    assert run("test", "t", "--coverage-min", "0").code == 0
    ran = run("test", "t", "--coverage-min", "80")
    assert (ran.code, ran.err) == (
        1,
        ["Error: no rule is under test, and --coverage-min wants 80 % of them"],
    )


def test_names_of_cases_move_no_cursor(run: Run) -> None:
    write('- name: "x\\e[2J"\n  want: {allowed: true}\n')
    assert "  ok      x\\u001b[2J\n" in run("test", "t").out


def test_results_as_junit(run: Run) -> None:
    write('- name: <a> & "b"\n  want: {allowed: true}\n- name: bad\n  want: {allowed: false}\n')
    assert run("test", "t", "--junit", "out.xml").code == 1
    root = ET.fromstring(Path("out.xml").read_text())
    assert (root.tag, root.get("tests"), root.get("failures")) == ("testsuites", "2", "1")
    good, bad = root.iter("testcase")
    assert (good.get("name"), len(good)) == ('<a> & "b"', 0)
    assert (bad.get("line"), bad[0].tag) == ("12", "failure")
    assert bad[0].text == "wanted the job to be refused\ncame   it was allowed"


def test_mistakes_in_test_files_stand_with_file_and_line(run: Run) -> None:
    write(
        "- name: x\n  wnat: {allowed: true}\n- name: x\n  user: 1\n  want: {patched: {'a..b': null}}\n",
        head=HEAD.replace("policies:", "polices:"),
    )
    ran = run("test", "t")
    assert ran.code == 2
    assert [line.partition(": ")[2] for line in ran.err[:1]] == [
        't/rules_test.yaml:4: polices: Forbidden: unknown field; did you mean "policies"?'
    ]
    text = "\n".join(ran.err)
    for wanted in (
        't/rules_test.yaml:11: cases[0].wnat: Forbidden: unknown field; did you mean "want"?',
        "t/rules_test.yaml:13: cases[1].user: Invalid value: 1: must be a string",
        't/rules_test.yaml:14: cases[1].want.patched[a..b]: Invalid value: "a..b": must be a path',
        "what is to be missing stands under absent",
    ):
        assert wanted in text


def test_a_case_without_a_name_is_no_other_one_of_that_name(run: Run) -> None:
    write("- want: {allowed: true}\n- want: {allowed: true}\n")
    ran = run("test", "t")
    assert [line.partition(": ")[2] for line in ran.err] == [
        f"t/rules_test.yaml:{line}: cases[{i}].name: Required value: a case is known by its name"
        for i, line in enumerate((10, 11))
    ]


def test_an_unsound_policy_under_test(run: Run) -> None:
    write(
        "- name: x\n  want: {allowed: true}\n",
        policy=POLICY.replace("nodes: {max: 4}", "nodes: {mx: 4}"),
    )
    ran = run("test", "t")
    assert ran.code == 2
    assert ran.err == [
        "Error: t/rules.yaml:1: TrainJobPolicy rules is not sound: spec.limits[0].nodes.mx: Forbidden: unknown "
        'field; did you mean "max"?; `stationmaster lint` says all'
    ]


EXCEPTION = """apiVersion: stationmaster.dev/v1alpha1
kind: PolicyException
metadata: {name: big, namespace: team}
spec: {policies: [{name: rules}], expires: "2027-01-01T00:00:00Z"}
"""
NO_EXPIRY = 'spec.expires: Forbidden: unknown field; did you mean "expiresAt"?'


def test_an_unsound_exception_beside_a_policy_under_test(run: Run) -> None:
    """Else the job is refused, and it looks as if the policy did not offer it."""
    write("- name: x\n  want: {allowed: true}\n", policy=f"{POLICY}---\n{EXCEPTION}")
    ran = run("test", "t")
    assert ran.code == 2
    [said] = ran.err
    assert f"t/rules.yaml:18: PolicyException team/big is not sound: {NO_EXPIRY}" in said


def test_unsound_exceptions_written_out_in_a_test(run: Run) -> None:
    item = "\n".join(f"    {line}" for line in EXCEPTION.splitlines())
    write(f"- name: x\n  objects:\n  -{item[3:]}\n  want: {{allowed: true}}\n")
    ran = run("test", "t")
    assert ran.code == 2
    assert f"Error: t/rules_test.yaml:15: cases[0].objects[0].{NO_EXPIRY}" in ran.err


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("cluster", "Error: no file named *_test.yaml in cluster"),
        ("x", "Error: x: No such file or directory"),
    ],
)
def test_nothing_to_test(run: Run, path: str, said: str) -> None:
    ran = run("test", path)
    assert (ran.code, ran.err) == (2, [said])


def test_jobs_of_files_and_trainers_of_other_versions(run: Run) -> None:
    Path("t").mkdir()
    Path("t/job.yaml").write_text(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: j}\n"
        "spec: {runtimeRef: {name: torch-distributed}, activeDeadlineSeconds: 60}\n"
    )
    write(
        "- name: then\n  trainJob: {file: job.yaml}\n  trainerVersion: '2.1'\n"
        "  want: {warned: [Trainer 2.1 has no such field]}\n"
        "- name: now\n  trainJob: {file: job.yaml}\n  trainerVersion: '2.3'\n"
        "  want: {patched: {spec.activeDeadlineSeconds: 60}}\n"
    )
    assert run("test", "t").code == 0


def test_what_cannot_be_opened_is_said_and_hides_nothing_else(run: Run) -> None:
    """A test that silently goes missing lets somebody's change through."""
    write("- name: x\n  want: {allowed: true}\n")
    Path("u").mkdir()
    Path("u/gone_test.yaml").symlink_to("nowhere.yaml")
    ran = run("test", "t", "u", "--junit", "r.xml")
    assert (ran.code, ran.err) == (2, ["Error: u/gone_test.yaml: No such file or directory"])
    assert ran.out.endswith("1 case: 1 ok\n")
    [error] = ET.parse("r.xml").getroot().iter("error")
    assert error.get("message") == "u/gone_test.yaml: No such file or directory"


class Watched:
    """What ``follow`` is given: states in turn until there is none, and runs that are counted."""

    def __init__(self, *states: str) -> None:
        self.runs = 0
        self._states = iter(states)

    def look(self) -> str:
        try:
            return next(self._states)
        except StopIteration:
            raise KeyboardInterrupt from None

    def run(self) -> tuple[int, str]:
        self.runs += 1
        return self.runs, self.look()


@pytest.mark.parametrize(
    ("states", "runs"),
    [
        pytest.param("aaa", 1, id="nothing changes"),
        pytest.param("aabcccc", 2, id="once a change has settled"),
        pytest.param("abbc", 2, id="a change while it runs"),
    ],
)
def test_watching_runs_again(states: str, runs: int) -> None:
    watched = Watched(*states)
    slept: list[float] = []
    assert follow(watched.run, watched.look, slept.append) == runs
    assert slept
    assert watched.runs == runs


def test_what_the_tests_name_is_watched_too_and_nothing_that_has_not_changed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("policies").mkdir()
    write(
        "- name: x\n  want: {allowed: true}\n",
        head=HEAD.replace("[rules.yaml]", "[../policies/rules.yaml]"),
    )
    Path("t/rules.yaml").rename("policies/rules.yaml")
    rules = Path("policies/rules.yaml")
    meanwhile = iter(
        (
            lambda: None,
            lambda: rules.write_text(POLICY.replace("max: 4", "max: 1")),
            lambda: None,
            lambda: Path("t").rename("away"),
            lambda: None,
        )
    )

    def sleep(_seconds: float) -> None:
        if (change := next(meanwhile, None)) is None:
            raise KeyboardInterrupt
        change()

    monkeypatch.setattr("webhook.cli.test.time.sleep", sleep)
    ended = run("test", "t", "--watch")
    assert ended.out.count("1 case") == 2
    assert ended.out.count("1 case: 1 ok") == 1
    assert ended.err == ["Error: t: No such file or directory"]
    assert ended.code == 2
