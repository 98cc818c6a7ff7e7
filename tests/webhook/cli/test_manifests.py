from __future__ import annotations

import json

import pytest

from tests.webhook.cli.conftest import Run
from webhook import yamlio

WRONG = {
    "no such certificates": (("--certificates", "none"), "'none' is not one of"),
    "no replicas": (("--replicas", "0"), "0 is not in the range"),
    "a namespace that cannot be": (("--namespace", "A_b"), 'namespace "A_b": must be'),
    "an image that cannot be": (("--image", "a b"), 'image "a b": must be'),
    "a policy that is none": (("--failure-policy", "fail"), "'fail' is not one of"),
    "fewer than no replicas": (("--fail-with-replicas", "-1"), "-1 is not in the range"),
    "a timeout that Kubernetes refuses": (("--timeout-seconds", "31"), "31 is not in the range"),
    "to arm what is never to fail": (
        ("--failure-policy=Ignore", "--fail-with-replicas=2"),
        "fail with replicas 2: must not be said with failure policy Ignore",
    ),
    "to arm where nothing may be written": (
        ("--certificates=cert-manager", "--fail-with-replicas=2"),
        "fail with replicas 2: must be 0 with cert-manager",
    ),
}
NEVER_ARMED = (
    "Warning: Fail is armed once 2 replicas are Ready, and there are to be 1: new TrainJobs will be let through"
    " whenever none answers"
)
CAUTIONS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "one replica alone is never enough": (("--replicas=1",), [NEVER_ARMED]),
    "one that is said to be enough": (("--replicas=1", "--fail-with-replicas=1"), []),
    "one that fails closed from the start": (("--replicas=1", "--fail-with-replicas=0"), []),
    "one that never does": (("--replicas=1", "--failure-policy=Ignore"), []),
    "one with cert-manager": (("--replicas=1", "--certificates=cert-manager"), []),
    "as many as it takes": (("--replicas=2",), []),
}


def test_every_option_is_handed_on(run: Run) -> None:
    ran = run(
        "manifests",
        *("--certificates=cert-manager", "--namespace=here", "--image=r.example/sm:v1"),
        *("--replicas=3", "--exclude-namespace=team-a", "--exclude-namespace=team-b"),
        *("--kueue-user=system:serviceaccount:q:kueue", "--log-level=debug"),
        *("--failure-policy=Ignore", "--fail-with-replicas=0", "--timeout-seconds=7"),
        *("--image-pull-secret=one", "--image-pull-secret=two", "--priority-class=high"),
        *("--no-network-policy", "--podgroups", "--no-events", "-o", "json"),
    )

    assert (ran.code, ran.err) == (0, [])
    objects = {obj["kind"]: obj for obj in json.loads(ran.out)["items"]}
    assert "Certificate" in objects
    assert "NetworkPolicy" not in objects
    assert objects["Namespace"]["metadata"]["name"] == "here"
    deployment = objects["Deployment"]["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    assert deployment["replicas"] == 3
    assert container["image"] == "r.example/sm:v1"
    assert "--log-level=debug" in container["args"]
    assert "--podgroups" in container["args"]
    assert deployment["template"]["spec"]["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert deployment["template"]["spec"]["priorityClassName"] == "high"
    assert "--no-events" in container["args"]
    webhook, podgroups = objects["MutatingWebhookConfiguration"]["webhooks"]
    assert podgroups["name"] == "podgroups.stationmaster.dev"
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 7)
    assert json.dumps(webhook).count("system:serviceaccount:q:kueue") == 1
    (expression,) = webhook["namespaceSelector"]["matchExpressions"]
    assert expression["values"][-3:] == ["here", "team-a", "team-b"]


def test_yaml_is_the_default_and_is_several_documents(run: Run) -> None:
    ran = run("manifests")

    assert ran.code == 0
    assert len(yamlio.read(ran.out, "stdout")) == ran.out.count("\n---\n") + 1 > 10


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_meant_is_refused_and_nothing_printed(run: Run, case: str) -> None:
    words, message = WRONG[case]

    ran = run("manifests", *words)

    assert (ran.code, ran.out) == (2, "")
    assert message in "\n".join(ran.err)


@pytest.mark.parametrize("case", CAUTIONS)
def test_what_will_never_fail_closed_is_said_beside_what_is_printed(run: Run, case: str) -> None:
    words, said = CAUTIONS[case]

    ran = run("manifests", *words)

    assert (ran.code, ran.err) == (0, said)
    assert yamlio.read(ran.out, "stdout")
