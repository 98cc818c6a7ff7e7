"""Policies as a platform engineer meets them: written with kubectl, seen Ready, felt by jobs, rolled out, excepted, broken.

Two replicas as our manifests install them, with their rights and no others, on a control plane of its own.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote

import pytest

from tests.deploy.tools import NAMESPACE
from tests.e2e import jobs
from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.installed import Installed, installed
from tests.policies.cel.hostile import EXPRESSIONS
from webhook.mode import KEY, NAME

pytestmark = pytest.mark.e2e

API: Final = "stationmaster.dev/v1alpha1"
USER: Final = f"system:serviceaccount:{NAMESPACE}:stationmaster"
SEEN_SECONDS: Final = 120.0
"""Until a policy is followed, compiled and told of: a second or two where nothing else runs."""
_EVENTS: Final = "stationmaster_worker_events_total"
HOSTILE: Final = EXPRESSIONS["a text that doubles in a chain of bind"]
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with ControlPlane(tmp_path_factory.mktemp("policies-plane")) as plane:
        plane.install_runtimes()
        with installed(plane) as made:
            yield made


@pytest.fixture
def plane(made: Installed) -> ControlPlane:
    return made.plane


@pytest.fixture
def team(plane: ControlPlane) -> str:
    """A namespace of its own; its policies select it by this name."""
    name = f"team-{secrets.token_hex(4)}"
    return plane.namespace(name, {"team": name})


@pytest.fixture
def apply(plane: ControlPlane) -> Iterator[Callable[..., Done]]:
    """Kubectl apply, as the administrator; what was applied is deleted after the test."""
    applied: list[Object] = []

    def apply(obj: Object, *flags: str) -> Done:
        done = plane.kubectl("apply", "-f", "-", *flags, input=obj)
        if done.returncode == 0:
            applied.append(obj)
        return done

    yield apply
    for obj in applied:
        plane.admin.delete(obj)


def policy(name: str, team: str, **spec: Any) -> Object:
    """For the namespaces of a team."""
    match = {"namespaceSelector": {"matchLabels": {"team": team}}, **spec.pop("match", {})}
    return {
        "apiVersion": API,
        "kind": "TrainJobPolicy",
        "metadata": {"name": f"{name}-{team}"},
        "spec": {"match": match, **spec},
    }


def ready(plane: ControlPlane, obj: Object, wanted: str = "True") -> Object:
    """Its condition Ready, once it is about this generation and says this."""
    about = obj["metadata"]

    def found() -> Object | None:
        stored = plane.admin.get(API, obj["kind"], about["name"], about.get("namespace", ""))
        for each in stored.get("status", {}).get("conditions", []):
            is_new = each.get("observedGeneration") == stored["metadata"]["generation"]
            if each["type"] == "Ready" and each["status"] == wanted and is_new:
                return dict(each)
        return None

    return plane.wait_for(found, f"{about['name']} Ready={wanted}", timeout_seconds=SEEN_SECONDS)


def create(plane: ControlPlane, namespace: str, name: str, **spec: Any) -> Done:
    """A job, as a user creates one."""
    return plane.kubectl(
        "create", "-f", "-", user="alice", input=jobs.train_job(namespace, name, **spec)
    )


def until(plane: ControlPlane, what: str, check: Callable[[], bool]) -> None:
    """Both replicas have it, which may be some moments apart."""
    seen = [0]

    def often() -> bool:
        seen[0] = seen[0] + 1 if check() else 0
        return seen[0] >= 6

    plane.wait_for(often, what, timeout_seconds=SEEN_SECONDS)


def dry(plane: ControlPlane, namespace: str, **spec: Any) -> str:
    """What kubectl prints on its standard error for a job that is not stored."""
    done = plane.kubectl(
        *("create", "--dry-run=server", "-f", "-"),
        user="alice",
        input=jobs.train_job(namespace, "probe", **spec),
    )
    return done.stderr


FOUR: Final = {"trainer": {"numNodes": 4}}
LIMIT: Final = {"name": "nodes", "nodes": {"max": 2}, "fix": "ask the platform team"}
REFUSAL: Final = "at most 2 is allowed"


def test_a_policy_becomes_ready_and_jobs_are_changed_and_refused(
    plane: ControlPlane, team: str, apply: Callable[..., Done]
) -> None:
    rules = policy(
        "rules",
        team,
        defaults={"labels": {"queue": {"expression": "namespaceObject.metadata.labels.team"}}},
        limits=[LIMIT],
        validations=[
            {
                "name": "no-host-network",
                "expression": "podSets.all(p, !p.spec.?hostNetwork.orValue(false))",
                "message": "host network is not allowed",
            }
        ],
    )
    done = apply(rules)
    assert (done.returncode, done.stderr) == (0, "")
    name = rules["metadata"]["name"]
    waited = plane.kubectl("wait", "--for=condition=Ready", f"tjp/{name}", "--timeout=120s")
    assert waited.returncode == 0, waited.stderr
    header, row = (line.split() for line in plane.kubectl("get", "tjp", name).stdout.splitlines())
    assert dict(zip(header, row, strict=False))["READY"] == "True"

    until(plane, "the policy on both replicas", lambda: REFUSAL in dry(plane, team, **FOUR))
    changed = create(plane, team, "changed")
    assert changed.returncode == 0, changed.stderr
    assert jobs.get(plane, team, "changed")["metadata"]["labels"] == {"queue": team}

    refused = create(plane, team, "refused", **FOUR)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1] == (
        'Error from server (Forbidden): error when creating "STDIN": admission webhook'
        ' "trainjobs.stationmaster.dev" denied the request: spec.trainer.numNodes:'
        f" [{name}/nodes] Forbidden: the job has 4 nodes, and {REFUSAL}; ask the platform team"
    )

    def counted() -> bool:
        stored = plane.admin.get(API, "TrainJobPolicy", name)
        counts = stored["status"].get("counts", {})
        return bool(counts.get("changed", 0) >= 1 and counts.get("denied", 0) >= 1)

    plane.wait_for(counted, "counts", timeout_seconds=SEEN_SECONDS)


def test_it_is_rolled_out_by_namespace(
    plane: ControlPlane, team: str, apply: Callable[..., Done]
) -> None:
    canary = plane.namespace(f"{team}-canary", {"team": team, "ring": "canary"})
    rules = policy(
        "rollout",
        team,
        limits=[LIMIT],
        defaults={"labels": {"ring": "known"}},
        actions=["Warn"],
        mutate="Warn",
        rollout=[
            {
                "namespaceSelector": {"matchLabels": {"ring": "canary"}},
                "actions": ["Deny"],
                "mutate": "Apply",
            }
        ],
    )
    assert apply(rules).returncode == 0
    ready(plane, rules)
    until(plane, "both replicas", lambda: REFUSAL in dry(plane, canary, **FOUR))

    assert create(plane, canary, "refused", **FOUR).returncode == 1
    assert create(plane, canary, "changed").returncode == 0
    assert jobs.get(plane, canary, "changed")["metadata"]["labels"] == {"ring": "known"}
    warned = create(plane, team, "warned", **FOUR)
    assert warned.returncode == 0
    assert f"Warning: spec.trainer.numNodes: [{rules['metadata']['name']}/nodes]" in warned.stderr
    assert "labels" not in jobs.get(plane, team, "warned")["metadata"]

    rules["spec"]["rollout"][0]["namespaceSelector"] = {}
    assert apply(rules).returncode == 0
    ready(plane, rules)
    until(plane, "the wider stage", lambda: REFUSAL in dry(plane, team, **FOUR))


def test_an_exception_lets_through_until_it_ends(
    plane: ControlPlane, team: str, apply: Callable[..., Done]
) -> None:
    rules = policy("offering", team, limits=[LIMIT], exceptions={"rules": ["nodes"]})
    assert apply(rules).returncode == 0
    ready(plane, rules)
    until(plane, "both replicas", lambda: REFUSAL in dry(plane, team, **FOUR))
    ends = datetime.now(UTC) + timedelta(seconds=45)
    exception: Object = {
        "apiVersion": API,
        "kind": "PolicyException",
        "metadata": {"name": "large-run", "namespace": team},
        "spec": {
            "policies": [{"name": rules["metadata"]["name"], "rules": ["nodes"]}],
            "match": {"names": ["large-*", "probe"]},
            "grant": {"nodes": {"nodes": {"max": 4}}},
            "owner": team,
            "reason": "a large run",
            "expiresAt": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
    }
    done = apply(exception)
    assert (done.returncode, done.stderr) == (0, "")
    assert ready(plane, exception)["reason"] == "Active"
    until(plane, "the exception", lambda: REFUSAL not in dry(plane, team, **FOUR))

    assert create(plane, team, "large-1", **FOUR).returncode == 0
    assert create(plane, team, "other", **FOUR).returncode == 1
    assert create(plane, team, "large-2", trainer={"numNodes": 5}).returncode == 1

    assert ready(plane, exception, "False")["reason"] == "Expired"
    assert REFUSAL in create(plane, team, "large-3", **FOUR).stderr
    assert plane.kubectl("get", "tjpx", "--namespace", team).returncode == 0


WRONG: Final = {
    "validations": [
        {"name": "typo", "expression": "object.spec.trainer.numNode < 3"},
        {"name": "half", "expression": "1 +"},
    ]
}


def test_what_cannot_be_in_force_is_not_stored(team: str, apply: Callable[..., Done]) -> None:
    rules = policy("wrong", team, **WRONG)

    done = apply(rules)

    assert done.returncode == 1
    assert f'The TrainJobPolicy "{rules["metadata"]["name"]}" is invalid' in done.stderr
    assert "spec.validations[0].expression" in done.stderr
    assert "numNodes" in done.stderr
    assert "spec.validations[1].expression" in done.stderr


def test_what_is_seldom_meant_is_said(team: str, apply: Callable[..., Done]) -> None:
    rules = policy(
        "surprising",
        team,
        match={"runtimes": [{"kind": "ClusterTrainingRuntime", "name": "torch-distributed"}]},
        overrides={
            "podTemplateOverrides": [
                {"targetJobs": [{"name": "worker"}], "spec": {"nodeSelector": {"a": "b"}}}
            ]
        },
    )

    done = apply(rules)

    assert done.returncode == 0, done.stderr
    assert "Warning: spec.overrides.podTemplateOverrides[0].targetJobs[0]" in done.stderr


@contextmanager
def switched_off(made: Installed) -> Iterator[None]:
    switch: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": {KEY: "off"},
    }

    def are_all(mode: str) -> bool:
        return all(each.metric("stationmaster_mode", mode=mode) == 1 for each in made.replicas)

    made.plane.admin.create(switch)
    made.plane.wait_for(lambda: are_all("off"), "mode off")
    try:
        yield
    finally:
        made.plane.admin.delete(switch)
        made.plane.wait_for(lambda: are_all("enforce"), "mode enforce")


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_one_that_is_broken_says_so_and_does_what_its_failure_policy_says(
    made: Installed, team: str, apply: Callable[..., Done], failure_policy: str
) -> None:
    plane = made.plane
    rules = policy(f"broken-{failure_policy.lower()}", team, failurePolicy=failure_policy, **WRONG)
    name = rules["metadata"]["name"]
    with switched_off(made):
        assert apply(rules).returncode == 0

    told = ready(plane, rules, "False")
    assert told["reason"] == "NotCompiled"
    assert told["message"].startswith("spec.validations[0].expression: Invalid value")
    assert "(and 1 more)" in told["message"]
    described = plane.kubectl("describe", "tjp", name).stdout
    assert "NotCompiled" in described
    plane.wait_for(
        lambda: [
            each
            for each in plane.admin.list("v1", "Event", "default")
            if each["involvedObject"]["name"] == name and each["reason"] == "NotCompiled"
        ],
        "an Event",
    )
    labels = {"kind": "TrainJobPolicy", "ready": "false"}
    plane.wait_for(
        lambda: all(
            each.metric("stationmaster_policy_documents", **labels) == 1 for each in made.replicas
        ),
        "the gauge",
    )

    said = f"[{name}] {'Forbidden' if failure_policy == 'Fail' else 'is passed over'}: the policy is not Ready"
    until(plane, "both replicas", lambda: said in dry(plane, team))
    done = create(plane, team, "job")
    assert done.returncode == (1 if failure_policy == "Fail" else 0)
    assert said in done.stderr
    assert apply(policy("another", team, **WRONG)).returncode == 1, "we are asked again"

    mended = policy(f"broken-{failure_policy.lower()}", team, limits=[LIMIT])
    assert apply(mended).returncode == 0
    ready(plane, mended)
    until(plane, "both replicas", lambda: name not in dry(plane, team))


def test_a_hostile_one_of_a_namespace_takes_nobody_down_and_is_put_aside(
    made: Installed, team: str, apply: Callable[..., Done]
) -> None:
    """Workers are killed for it twice; then it is not Ready, on both replicas, until it changes."""
    plane = made.plane
    rules: Object = {
        "apiVersion": API,
        "kind": "NamespacedTrainJobPolicy",
        "metadata": {"name": "hostile", "namespace": team},
        "spec": {"validations": [{"name": "doubling", "expression": HOSTILE}]},
    }
    done = apply(rules)
    assert done.returncode == 0, done.stderr
    ready(plane, rules)

    def is_put_aside() -> bool:
        dry(plane, team)
        return any(each.metric(_EVENTS, outcome="quarantined") > 0 for each in made.replicas)

    plane.wait_for(is_put_aside, "two kills on one replica", timeout_seconds=SEEN_SECONDS)
    assert ready(plane, rules, "False")["reason"] == "Quarantined"
    until(plane, "both replicas", lambda: "not Ready until it changes" in dry(plane, team))
    elsewhere = plane.namespace(f"{team}-elsewhere")
    assert create(plane, elsewhere, "job").returncode == 0

    rules["spec"]["validations"][0]["expression"] = "true"
    assert apply(rules).returncode == 0
    ready(plane, rules)
    until(plane, "both replicas", lambda: f"{team}/hostile" not in dry(plane, team))


def test_the_rights_of_the_manifests_are_enough(
    plane: ControlPlane, team: str, apply: Callable[..., Done]
) -> None:
    rules = policy("rights", team, limits=[LIMIT])
    assert apply(rules).returncode == 0
    ready(plane, rules)

    asked = [
        event
        for event in plane.audit(user=USER)
        if event.get("objectRef", {}).get("apiGroup") == "stationmaster.dev"
    ]
    verbs = {event["verb"] for event in asked}
    assert {"list", "patch"} <= verbs <= {"list", "watch", "patch"}
    assert {e["objectRef"].get("subresource") for e in asked if e["verb"] == "patch"} == {"status"}
    codes = {event.get("responseStatus", {}).get("code") for event in asked}
    # Their kinds are served some moments after they are there (404, 429).
    assert codes <= {None, 200, 404, 409, 422, 429}
    listed = [
        event["requestURI"]
        for event in plane.audit(user=USER, resource="configmaps", verb="list")
        if "/namespaces/" not in event["requestURI"]
    ]
    assert listed
    assert all("labelSelector=stationmaster.dev/params" in unquote(uri) for uri in listed)
