from __future__ import annotations

import json

from plugins.framework.draft import ABSENT
from plugins.framework.field import Findings, required
from tests.webhook.cli.conftest import Run, job, review
from tests.webhook.cli.fakes import Change, Engine, Explained, Layer, Outcome

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
