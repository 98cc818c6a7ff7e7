"""``stationmaster simulate``, with the engine itself behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from plugins.framework.errors import StationmasterError
from tests.builders import Builder, Json, container, make_runtime, make_train_job, resources
from tests.webhook.cli.conftest import Run
from tests.webhook.simulation.test_live import JOBS, Api, cluster
from webhook.cli import progress
from webhook.kube import client
from webhook.kube import resources as kinds
from webhook.simulation.simulator import Simulator

RUNTIME = make_runtime().torch().nodes(2).node(container("node", resources=resources({"cpu": "2"})))
SIMULATE = ("simulate", "-p", "new.yaml", "--from", "cluster")


def policy(name: str = "rules", **spec: Any) -> Json:
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "TrainJobPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def nodes(most: int) -> Json:
    return policy(limits=[{"name": "nodes", "nodes": {"max": most}}])


def put(path: str, *things: Builder | Json) -> None:
    objects = [thing.obj if isinstance(thing, Builder) else thing for thing in things]
    Path(path).write_text(yaml.safe_dump_all(objects))


@pytest.fixture(autouse=True)
def folder(run: Run) -> None:
    """A cluster with a runtime, a policy and two TrainJobs."""
    del run  # which is in the folder
    small = make_train_job("small").nodes(2)
    put("cluster/all.yaml", RUNTIME, nodes(8), small, make_train_job("large").nodes(8))


def test_nothing_would_change(run: Run) -> None:
    put("new.yaml", nodes(8))
    ran = run(*SIMULATE)
    assert (ran.code, ran.err) == (0, [])
    assert ran.out == (
        "POLICIES\nthe same (1)\n\n"
        "2 TrainJobs judged (2 running)\n"
        "If created again: nothing would be otherwise.\n"
        "TrainJobs that exist: none is stopped or blocked; a stricter rule never refuses a change that does not "
        "worsen what it is about.\n"
    )


def test_tests_of_policies_may_stand_beside_them(run: Run) -> None:
    Path("new").mkdir()
    put("new/rules.yaml", nodes(8))
    test = {"apiVersion": "stationmaster.dev/v1alpha1", "kind": "PolicyTest", "cases": []}
    put("new/rules_test.yaml", test)
    ran = run("simulate", "-p", "new", "--from", "cluster")
    assert (ran.code, ran.err) == (0, [])


def test_what_would_change_by_namespace_and_policy_and_job(run: Run) -> None:
    put("new.yaml", nodes(4))
    ran = run(*SIMULATE)
    assert (ran.code, ran.err) == (1, [])
    assert ran.out == (
        "POLICIES\nchanged (1): TrainJobPolicy rules\n\n"
        "IF CREATED AGAIN\n"
        "NAMESPACE   POLICY        WHAT            TRAINJOBS\n"
        "team        rules/nodes   newly refused           1\n\n"
        "TRAINJOBS\n"
        "team/large (running)\n"
        "  if created again:\n"
        "    newly refused      rules/nodes: spec.trainer.numNodes: Forbidden: the job has 8 nodes, and at most 4 is "
        "allowed\n\n"
        "2 TrainJobs judged (2 running)\n"
        "If created again: 1 newly refused.\n"
        "TrainJobs that exist: none is stopped or blocked; a stricter rule never refuses a change that does not "
        "worsen what it is about.\n"
    )


def test_json_says_all_of_it(run: Run) -> None:
    put("new.yaml", nodes(4), policy("label", defaults={"labels": {"team": "vision"}}))
    ran = run(*SIMULATE, "-o", "json", "--most", "1")
    assert ran.code == 1
    found = json.loads(ran.out)
    assert found["policies"]["new"] == ["TrainJobPolicy label"]
    assert (found["trainJobs"], found["states"], found["notShown"]) == (2, {"running": 2}, 1)
    assert found["ifCreatedAgain"] == {
        "trainJobs": {"newly refused": 1, "newly changed": 1},
        "byPolicy": [
            {"namespace": "team", "policy": "label", "what": "newly changed", "trainJobs": 1},
            {"namespace": "team", "policy": "rules/nodes", "what": "newly refused", "trainJobs": 1},
        ],
    }
    assert found["withNextChange"] == {"trainJobs": {}, "byPolicy": []}
    [row] = found["changes"]
    assert row == {
        "namespace": "team",
        "name": "small",
        "runtime": "runtime",
        "state": "running",
        "ifCreatedAgain": [
            {
                "what": "newly changed",
                "policy": "label",
                "path": "metadata.labels.team",
                "after": "vision",
            }
        ],
        "withNextChange": [],
    }


def test_a_set_is_the_whole_set_unless_it_is_applied(run: Run) -> None:
    put("new.yaml", policy("other", limits=[{"name": "few", "nodes": {"max": 9}}]))
    put("cluster/all.yaml", RUNTIME, nodes(4), make_train_job("large").nodes(8))
    whole, applied = run(*SIMULATE), run(*SIMULATE, "--apply")
    assert (whole.code, applied.code) == (1, 0)
    assert "gone (1): TrainJobPolicy rules\n" in whole.out
    assert "1 no longer refused" in whole.out
    assert "gone" not in applied.out


def test_a_runtime_is_tried(run: Run) -> None:
    node = container("node", image="other:1", resources=resources({"cpu": "2"}))
    put("runtime.yaml", make_runtime().torch().nodes(2).node(node))
    ran = run("simulate", "--runtime", "runtime.yaml", "--from", "cluster")
    assert (ran.code, ran.err) == (1, [])
    assert ran.out.startswith("RUNTIMES\nchanged (1): ClusterTrainingRuntime runtime\n\n")
    assert 'containers[node].image: "' in ran.out
    assert '-> "other:1"' in ran.out
    assert "Their pods: TrainJobs keep the runtime" in ran.out
    older = run(
        *("simulate", "--runtime", "runtime.yaml", "--from", "cluster", "--trainer-version", "2.1")
    )
    assert "suspended TrainJobs take the changed runtime" in older.out


def test_a_runtime_that_is_not_stored_or_no_other_is_said(run: Run) -> None:
    """A misspelt name would look like a change that harms nobody."""
    node = container("node", image="other:1")
    put("new.yaml", make_runtime("other").torch().node(node))
    put("same.yaml", RUNTIME)
    words = ("simulate", "--runtime", "new.yaml", "--runtime", "same.yaml", "--from", "cluster")
    ran = run(*words)
    assert (ran.code, ran.err) == (0, [])
    assert ran.out.startswith(
        "RUNTIMES\nnew (1): ClusterTrainingRuntime other\nthe same (1)\n\n2 TrainJobs judged"
    )
    assert json.loads(run(*words, "-o", "json").out)["runtimes"] == {
        "new": ["ClusterTrainingRuntime other"],
        "changed": [],
        "gone": [],
        "same": ["ClusterTrainingRuntime runtime"],
    }


def test_a_folder_without_policies(run: Run) -> None:
    Path("new").mkdir()
    words = ("simulate", "-p", "new", "--from", "cluster")
    ran = run(*words)
    assert (ran.code, ran.err) == (
        0,
        [
            "Warning: no policies in new: this is what it would be like without any TrainJobPolicy",
        ],
    )
    assert ran.out.startswith("POLICIES\ngone (1): TrainJobPolicy rules\n")
    ran = run(*words, "--apply")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == ["Error: no policies in new: there is nothing to apply"]


def test_one_namespace(run: Run) -> None:
    put("new.yaml", nodes(4))
    assert "0 TrainJobs judged" in run(*SIMULATE, "-n", "elsewhere").out
    assert "2 TrainJobs judged" in run(*SIMULATE, "-n", "team").out


def test_unsound_policies_are_named_with_their_place_and_nothing_is_judged(run: Run) -> None:
    put("new.yaml", policy(validations=[{"name": "x", "expression": "object.spec.trainr == 1"}]))
    ran = run(*SIMULATE)
    assert (ran.code, ran.out) == (2, "")
    assert "trainr" in ran.err[0]
    assert "new.yaml:" in ran.err[0]


def test_who_created_it_is_not_known(run: Run) -> None:
    put(
        "new.yaml",
        {**nodes(4), "spec": {**nodes(4)["spec"], "match": {"subjects": {"users": ["bob"]}}}},
    )
    unknown, known = run(*SIMULATE), run(*SIMULATE, "--user", "bob")
    assert "TrainJobPolicy rules: asks who created a TrainJob" in unknown.err[0]
    assert "no longer refused" not in unknown.out
    assert known.err == []
    assert "1 newly refused" in known.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-p", "new.yaml"), "one of --from DIR and --cluster is needed"),
        (("-p", "new.yaml", "--from", "cluster", "--cluster"), "one of --from DIR and --cluster"),
        (("--from", "cluster"), "nothing to try"),
        (("-p", "job.yaml", "--from", "cluster"), "TrainJob team/a is none of TrainJobPolicy"),
        (
            ("--runtime", "job.yaml", "--from", "cluster"),
            "is none of ClusterTrainingRuntime, TrainingRuntime",
        ),
        (("-p", "gone.yaml", "--from", "cluster"), "gone.yaml: No such file"),
        (("-p", "new.yaml", "-p", "new.yaml", "--from", "cluster"), "is there twice"),
        (("--runtime", "broken.yaml", "--from", "cluster"), "broken.yaml:"),
    ],
)
def test_what_cannot_be_used_is_said(run: Run, words: tuple[str, ...], said: str) -> None:
    put("new.yaml", nodes(4))
    put("job.yaml", make_train_job("a"))
    put("broken.yaml", {**RUNTIME.obj, "spec": {"template": 1}})
    ran = run("simulate", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in "\n".join(ran.err)


def test_a_job_that_cannot_be_judged_does_not_hide_the_others(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Simulator.judge

    def fails(self: Simulator, raw: Json) -> Any:
        if raw["metadata"]["name"] == "small":
            raise StationmasterError("no")
        return judge(self, raw)

    monkeypatch.setattr(Simulator, "judge", fails)
    put("new.yaml", nodes(4))
    ran = run(*SIMULATE)
    assert ran.code == 2
    assert ran.err == ["Error: TrainJob team/small: cannot be judged: no"]
    assert "1 newly refused" in ran.out


# A cluster


class Client(Api):
    """In the place of the client of a real one."""

    closed = False

    async def connect(self) -> None:
        """Log in."""

    async def close(self) -> None:
        """Close."""
        self.closed = True


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Client:
    objects = cluster()
    objects[kinds.RUNTIMES["ClusterTrainingRuntime"].path] = [RUNTIME.obj]
    jobs = [make_train_job(f"job-{i:03}").nodes(i % 2 * 8 + 1).obj for i in range(250)]
    for job in jobs:
        del job["kind"], job["apiVersion"]  # as items of lists have them
    objects[JOBS] = jobs
    fake = Client(objects)
    monkeypatch.setattr(client, "Client", lambda _login: fake)
    return fake


def test_a_cluster_is_only_read_a_page_at_a_time(run: Run, api: Client) -> None:
    put("new.yaml", nodes(4))
    ran = run("simulate", "-p", "new.yaml", "--cluster", "--kubeconfig", "gone")
    assert ran.code == 1
    assert "250 TrainJobs judged (250 running)" in ran.out
    assert "team        rules/nodes   newly refused         125\n" in ran.out
    assert [query for path, query in api.asked if path == JOBS] == [
        {"limit": "100"},
        {"limit": "100", "continue": "100"},
        {"limit": "100", "continue": "200"},
    ]
    assert api.closed


def test_the_client_is_closed_where_something_may_not_be_read(run: Run, api: Client) -> None:
    api.forbidden = "trainjobs"
    put("new.yaml", nodes(4))
    ran = run("simulate", "-p", "new.yaml", "--cluster")
    assert (ran.code, ran.out, api.closed) == (2, "", True)
    assert "may not list trainjobs in all namespaces: 403" in ran.err[0]


# Progress


def test_a_log_gets_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 1.0, 11.0, 11.0, 12.0, 30.0, 30.0])
    with progress.progress(lambda: next(times)) as step:
        step(1, None)
        step(2, None)
        step(3, 9)
        step(4, 9)
    assert capsys.readouterr().err == "judged 2 TrainJobs\njudged 4 of 9 TrainJobs\n"
