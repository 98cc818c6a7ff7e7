"""Policies beside the folder, and who asks, where and when."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from plugins.framework.api.admission import UserInfo
from tests.webhook.cli.conftest import Run, job
from tests.webhook.cli.fakes import Engine

EXAMPLES = Path(__file__).parents[3] / "examples" / "cluster"
POLICY = """
apiVersion: stationmaster.dev/v1alpha1
kind: TrainJobPolicy
metadata: {name: small}
spec:
  match:
    namespaceSelector: {matchLabels: {tier: research}}
    subjects: {users: [ann], groups: [vision], excludeGroups: [admins]}
  limits: [{name: nodes, nodes: {max: 2}}]
  exceptions: {rules: [nodes]}
"""
EXCEPTION = """
apiVersion: stationmaster.dev/v1alpha1
kind: PolicyException
metadata: {name: big, namespace: team}
spec: {policies: [{name: small}], expiresAt: "2027-01-01T00:00:00Z"}
"""
JOB = job(extra="spec: {runtimeRef: {name: torch-distributed}, trainer: {numNodes: 3}}\n")
RESEARCH = ("--namespace-labels", "tier=research")


def admit(run: Run, *words: str, stdin: str = JOB) -> int:
    Path("small.yaml").write_text(POLICY)
    return run("admit", "-f", "-", "--from", str(EXAMPLES), *words, stdin=stdin).code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param((), 0, id="no policy"),
        pytest.param(("-p", "small.yaml", "--user", "ann"), 0, id="no label"),
        pytest.param(("-p", "small.yaml", *RESEARCH), 0, id="nobody"),
        pytest.param(("-p", "small.yaml", *RESEARCH, "--user", "ann"), 1, id="its user"),
        pytest.param(("-p", "small.yaml", *RESEARCH, "--groups", "a,vision"), 1, id="its group"),
        pytest.param(
            ("-p", "small.yaml", *RESEARCH, "--user", "ann", "--groups", "a", "--groups", "admins"),
            0,
            id="a group that is left out",
        ),
    ],
)
def test_a_policy_beside_the_folder_reaches_whom_it_means(
    run: Run, words: tuple[str, ...], code: int
) -> None:
    assert admit(run, *words) == code


@pytest.mark.parametrize(
    ("now", "code"), [("2026-12-31T00:00:00Z", 0), ("2027-01-01T00:00:00Z", 1)]
)
def test_exceptions_expire_by_the_time_that_is_said(run: Run, now: str, code: int) -> None:
    Path("exceptions").mkdir()
    Path("exceptions/big.yaml").write_text(EXCEPTION)
    words = ("-p", "small.yaml", "-p", "exceptions", *RESEARCH, "--user", "ann", "--now", now)
    assert admit(run, *words) == code


@pytest.mark.parametrize(
    ("user", "code"), [("{username: ann}", 1), ("{username: bob}", 0), ("{}", 1)]
)
def test_the_user_of_a_review_wins(run: Run, user: str, code: int) -> None:
    review = f"""
apiVersion: admission.k8s.io/v1
kind: AdmissionReview
request:
  uid: u
  kind: {{group: trainer.kubeflow.org, version: v1alpha1, kind: TrainJob}}
  resource: {{group: trainer.kubeflow.org, version: v1alpha1, resource: trainjobs}}
  operation: CREATE
  namespace: team
  userInfo: {user}
  object:
    apiVersion: trainer.kubeflow.org/v1alpha1
    kind: TrainJob
    metadata: {{name: a, namespace: team}}
    spec: {{runtimeRef: {{name: torch-distributed}}, trainer: {{numNodes: 3}}}}
"""
    words = ("-p", "small.yaml", *RESEARCH, "--user", "ann")
    assert admit(run, *words, stdin=review) == code


def test_labels_come_before_those_of_the_folder(run: Run) -> None:
    spaced = job(extra="spec: {runtimeRef: {name: torch-distributed}, trainer: {numNodes: 3}}\n")
    Path("cluster/namespace.yaml").write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {tier: prod, a: b}}\n"
    )
    words = ("-p", "small.yaml", "-p", "cluster", "--user", "ann")
    assert admit(run, *words, stdin=spaced) == 0
    assert admit(run, *words, *RESEARCH, stdin=spaced) == 1


@pytest.mark.parametrize("command", ["admit", "render", "explain"])
def test_every_command_hands_on_who_asks(run: Run, engine: Engine, command: str) -> None:
    words = ("--user", "ann", "--groups", "a,b", "--groups", "c", "--namespace-labels", "x=y,z=")
    run(command, "-f", "-", "--from", "cluster", *words, "--now", "2027-01-01T00:00:00Z", stdin=JOB)
    assert engine.asked is not None
    assert engine.asked.user == UserInfo(username="ann", groups=("a", "b", "c"))
    assert engine.asked.namespace_labels == {"x": "y", "z": ""}
    assert engine.asked.now == datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--now", "tomorrow"), "'tomorrow' is no time by RFC 3339"),
        (("--namespace-labels", "x"), "'x' is not KEY=VALUE"),
        (("--namespace-labels", "x=a b"), "'x=a b' can be no label"),
        (("--namespace-labels", "x=a,x=b"), "x has two values"),
        (("--groups", "a,,b"), "'a,,b' has an empty name in it"),
    ],
)
def test_what_cannot_be_asked(run: Run, words: tuple[str, ...], text: str) -> None:
    ran = run("admit", "-f", "-", "--from", "cluster", *words, stdin=JOB)
    assert ran.code == 2
    assert text in ran.err[-1]


def test_a_policy_file_that_is_not_there(run: Run) -> None:
    ran = run("admit", "-f", "-", "--from", "cluster", "-p", "nowhere.yaml", stdin=JOB)
    assert (ran.code, ran.err) == (2, ["Error: nowhere.yaml: No such file or directory"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            POLICY.replace("TrainJobPolicy", "TrainjobPolicy"),
            'kind: Unsupported value: "TrainjobPolicy": supported values: "TrainJobPolicy", '
            '"NamespacedTrainJobPolicy", "PolicyException"; did you mean "TrainJobPolicy"?',
            id="a kind that there is not",
        ),
        pytest.param(
            POLICY.replace("stationmaster.dev", "trainer.kubeflow.org"),
            'apiVersion: Invalid value: "trainer.kubeflow.org/v1alpha1": must be stationmaster.dev/v1alpha1',
            id="another group",
        ),
        pytest.param(
            POLICY.replace("name: small", "name: on"),
            "metadata.name of a TrainJobPolicy must be a text, and is true",
            id="a name that is none",
        ),
        pytest.param(
            POLICY.replace("name: small", ""),
            "metadata.name of a TrainJobPolicy must be a text, and there is none",
            id="no name",
        ),
    ],
)
def test_a_policy_that_would_be_in_force_nowhere_is_no_policy_to_pass_over(
    run: Run, text: str, said: str
) -> None:
    Path("p.yaml").write_text(text)
    ran = run("admit", "-f", "-", "--from", str(EXAMPLES), "-p", "p.yaml", stdin=JOB)
    assert (ran.code, ran.err) == (2, [f"Error: p.yaml:2: {said}"])


def test_tests_and_exceptions_of_others_may_stand_beside_policies(run: Run) -> None:
    Path("p").mkdir()
    Path("p/a_test.yaml").write_text("apiVersion: stationmaster.dev/v1alpha1\nkind: PolicyTest\n")
    Path("p/b.yaml").write_text("apiVersion: kyverno.io/v2\nkind: PolicyException\n")
    assert admit(run, "-p", "p") == 0


def test_serve_takes_policies_beside_a_folder_only(run: Run) -> None:
    ran = run("serve", "--in-cluster", "-p", "small.yaml")
    assert ran.code == 2
    assert ran.err[-1] == "Error: --policies goes with --from; a cluster has its policies itself"
