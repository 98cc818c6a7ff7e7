"""What policies did is counted once a request, in whichever of the two calls it ends."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import jsonpatch
import orjson
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from plugins.framework import lines
from plugins.framework.cluster import Snapshot
from policies import standing
from policies.compile import PolicySet
from policies.counts import Counts
from policies.document import Key
from tests.builders import NAMESPACE, Json, make_runtime, make_train_job
from tests.policies.test_engine import policy
from tests.reviews.desk import review
from webhook.assembly import build_pipeline
from webhook.metrics import MOST_POLICIES, PolicyMetrics
from webhook.mode import Fixed
from webhook.review import Reviewer, request_of

RUNTIME = make_runtime().torch().node()
JOB = make_train_job()
NOW = datetime(2027, 1, 1, tzinfo=UTC)


def stored() -> Json:
    return deepcopy(JOB.obj)


class Server:
    """A Reviewer that counts, and what the API server does with a new job."""

    def __init__(self, *documents: Json, mode: Any = "enforce") -> None:
        snapshot = Snapshot.of([RUNTIME.obj, *documents], admit=True)
        self.counts = Counts(lambda: 7.0)
        self.reviewer = Reviewer(
            build_pipeline(None),
            lambda: snapshot,
            line=lines.LINES["2.3"],
            clock=lambda: 0.0,
            now=lambda: NOW,
            switch=Fixed(mode),
            counts=self.counts,
        )

    def create(self, *, dry_run: bool = False) -> bool:
        """Both calls, as far as it gets."""
        return asyncio.run(self._create(dry_run=dry_run))

    async def _create(self, *, dry_run: bool) -> bool:
        obj = stored()
        asked = review(obj, None, dryRun=dry_run)
        answer = await self.reviewer.mutate(orjson.dumps(asked), deadline=1.0)
        response = orjson.loads(answer.body)["response"]
        if not response["allowed"]:
            return False
        patch = orjson.loads(base64.b64decode(response.get("patch", "W10=")))
        obj = jsonpatch.apply_patch(obj, patch)
        asked = review(obj, None, dryRun=dry_run)
        answer = await self.reviewer.validate(orjson.dumps(asked), deadline=1.0)
        return bool(orjson.loads(answer.body)["response"]["allowed"])

    @property
    def totals(self) -> Mapping[str, Mapping[str, int]]:
        return {str(key): dict(counter.items()) for key, counter in self.counts.totals.items()}


NODES: dict[str, Any] = {
    "limits": [{"name": "nodes", "nodes": {"max": 0}}, {"name": "pods", "pods": {"max": 0}}]
}

DOING: dict[str, tuple[Json, bool, dict[str, int]]] = {
    "nothing": (policy(limits=[{"name": "nodes", "nodes": {"max": 99}}]), True, {"matched": 1}),
    "elsewhere": (policy(**NODES, match={"runtimes": [{"name": "x"}]}), True, {}),
    "denying by two rules": (policy(**NODES), False, {"matched": 1, "denied": 1}),
    "warning": (
        policy(**NODES, actions=["Warn", "Audit"]),
        True,
        {"matched": 1, "warned": 1, "audited": 1},
    ),
    "changing": (policy(defaults={"labels": {"a": "b"}}), True, {"matched": 1, "changed": 1}),
    "announcing": (policy(defaults={"labels": {"a": "b"}}, mutate="Warn"), True, {"matched": 1}),
    "a fault that is refused": (
        policy(validations=[{"name": "v", "expression": "object.metadata.labels.nobody == ''"}]),
        False,
        {"matched": 1, "faults": 1},
    ),
    "a fault that is passed over": (
        policy(
            validations=[{"name": "v", "expression": "object.metadata.labels.nobody == ''"}],
            failurePolicy="Ignore",
        ),
        True,
        {"matched": 1, "faults": 2},
    ),
}


@pytest.mark.parametrize("name", DOING)
def test_it_is_counted(name: str) -> None:
    document, is_allowed, counts = DOING[name]
    server = Server(document)

    assert server.create() is is_allowed
    assert server.totals == ({"rules": counts} if counts else {})


def test_an_exception_is_counted_with_the_policy() -> None:
    exception = {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "PolicyException",
        "metadata": {"name": "run", "namespace": NAMESPACE},
        "spec": {"policies": [{"name": "rules"}], "expiresAt": "2028-01-01T00:00:00Z"},
    }
    server = Server(policy(**NODES, exceptions={"rules": ["nodes", "pods"]}), exception)

    assert server.create()
    assert server.totals == {"rules": {"matched": 1, "excepted": 1}}


def test_a_conflict_is_counted_and_remembered() -> None:
    condition = [{"name": "c", "expression": "totals.nodes > 0"}]
    rivals = [
        policy(name, defaults={"labels": {"a": name}}, matchConditions=condition[:i])
        for i, name in enumerate(("one", "two"))
    ]
    server = Server(*rivals)

    assert not server.create()
    assert {name: found["conflicts"] for name, found in server.totals.items()} == {
        "one": 1,
        "two": 1,
    }
    found = server.counts.conflicts[Key("TrainJobPolicy", "", "one")]
    assert (found.at, "conflicts with two" in found.text) == (7.0, True)


def test_of_a_dry_run_nothing_is() -> None:
    server = Server(policy(**NODES))

    server.create(dry_run=True)

    assert server.totals == {}


def test_what_would_be_refused_is_counted_once() -> None:
    server = Server(policy(**NODES), mode="warn")

    assert server.create()
    assert server.totals == {"rules": {"matched": 1, "denied": 1}}


def test_switched_off_nothing_is_done_nor_counted() -> None:
    server = Server(policy(**NODES), mode="off")

    assert server.create()
    assert server.totals == {}


def test_one_that_is_unsound_beside_another_does_not_run_though_it_is_about_all_jobs() -> None:
    rivals = [policy(name, defaults={"labels": {"a": name}}) for name in ("one", "two")]
    server = Server(*rivals)
    asked = request_of(review(stored(), None))

    verdict = asyncio.run(server.reviewer.judge("mutate", asked, deadline=1.0))

    assert not verdict.result.allowed
    assert all("the policy is not Ready" in str(e) for e in verdict.result.findings.errors)
    assert server.totals == {"one": {"faults": 1}, "two": {"faults": 1}}


# As metrics


def shown(counts: Counts, *documents: Json, quarantined: Mapping[str, str] | None = None) -> str:
    registry = CollectorRegistry()
    policies = PolicySet.of(Snapshot.of(documents).documents)
    registry.register(PolicyMetrics(counts, lambda: standing.count(policies, quarantined or {})))
    return generate_latest(registry).decode()


def test_metrics_say_what_policies_did_and_which_are_sound() -> None:
    server = Server(policy(**NODES))
    server.create()
    digest = PolicySet.of(Snapshot.of([policy("out")]).documents).policies[0].digest

    text = shown(
        server.counts,
        policy(**NODES),
        policy("bad", limitz=[]),
        policy("out"),
        quarantined={"out": digest},
    )

    assert 'stationmaster_policy_requests_total{outcome="denied",policy="rules"} 1.0' in text
    documents = 'stationmaster_policy_documents{kind="TrainJobPolicy",ready='
    assert f'{documents}"true"}} 1.0' in text
    assert f'{documents}"false"}} 2.0' in text
    assert 'stationmaster_policy_documents{kind="PolicyException",ready="true"} 0.0' in text


def test_only_so_many_policies_have_series_of_their_own() -> None:
    counts = Counts(lambda: 0.0)
    counts._count("matched", [Key("TrainJobPolicy", "", f"p{i}") for i in range(MOST_POLICIES + 3)])

    text = shown(counts)

    assert text.count('outcome="matched"') == MOST_POLICIES + 1
    assert 'policy="(others)"} 3.0' in text
