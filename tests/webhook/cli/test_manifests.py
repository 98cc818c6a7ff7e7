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
}


def test_every_option_is_handed_on(run: Run) -> None:
    ran = run(
        "manifests",
        *("--certificates=cert-manager", "--namespace=here", "--image=r.example/sm:v1"),
        *("--replicas=3", "--exclude-namespace=team-a", "--exclude-namespace=team-b"),
        *("--kueue-user=system:serviceaccount:q:kueue", "--log-level=debug"),
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
    assert "--no-events" in container["args"]
    webhook, podgroups = objects["MutatingWebhookConfiguration"]["webhooks"]
    assert podgroups["name"] == "podgroups.stationmaster.dev"
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
