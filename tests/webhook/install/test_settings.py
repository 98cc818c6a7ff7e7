from __future__ import annotations

import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from plugins.framework.errors import ConfigError
from webhook import yamlio
from webhook.install.kustomization import containers
from webhook.install.settings import (
    CLOSED,
    DELETIONS,
    FAIL_WITH_REPLICAS,
    MOST_REPLICAS,
    NAMESPACE,
    NO_EVENTS,
    Certificates,
    Settings,
    manifests,
)
from webhook.kube import arming

REFUSED: dict[str, tuple[Callable[[], Settings], str]] = {
    "a namespace in upper case": (lambda: Settings(namespace="Team"), 'namespace "Team"'),
    "a namespace that is too long": (lambda: Settings(namespace="a" * 64), "at most 63"),
    "an excluded namespace that is none": (
        lambda: Settings(excluded_namespaces=("ok", "not ok")),
        'namespace "not ok"',
    ),
    "a user that would end the expression": (
        lambda: Settings(kueue_user="a' || true || '"),
        "must be system:serviceaccount:NAMESPACE:NAME",
    ),
    "an image with a space": (lambda: Settings(image="a b"), 'image "a b"'),
    "a pull secret that cannot be": (
        lambda: Settings(image_pull_secrets=("ok", "a..b")),
        'image pull secret "a..b"',
    ),
    "a priority class that cannot be": (lambda: Settings(priority_class="High"), '"High"'),
    "more replicas than the annotation can say": (
        lambda: Settings(fail_with_replicas=MOST_REPLICAS + 1),
        "must be 0 to 999999",
    ),
    "no time to answer": (lambda: Settings(timeout_seconds=0), "must be 1 to 30 seconds"),
    "an image with an empty tag": (lambda: Settings(image="a:"), 'image "a:"'),
}
VERSION = metadata.version("stationmaster")
IMAGES = {
    "stationmaster": f"stationmaster:{VERSION}",
    "registry.example:5000/sm": f"registry.example:5000/sm:{VERSION}",
    "registry.example/sm:v1": "registry.example/sm:v1",
    "localhost:5000/a/b_c:v1": "localhost:5000/a/b_c:v1",
    f"sm@sha256:{'a' * 64}": f"sm@sha256:{'a' * 64}",
    f"r.example/sm:v1@sha256:{'a' * 64}": f"r.example/sm:v1@sha256:{'a' * 64}",
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused(case: str) -> None:
    make, message = REFUSED[case]

    with pytest.raises(ConfigError) as refused:
        make()

    assert message in str(refused.value)


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_keeps_its_tag_or_gets_that_of_the_version(image: str) -> None:
    (deployment,) = [o for o in manifests(Settings(image=image)) if o["kind"] == "Deployment"]

    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGES[image]


def test_our_namespace_comes_first_and_the_registration_last() -> None:
    kinds = [obj["kind"] for obj in manifests(Settings())]

    assert kinds[0] == "Namespace"
    assert kinds[-2:] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]


def test_a_namespace_that_is_excluded_twice_is_named_once() -> None:
    rendered = manifests(Settings(excluded_namespaces=("team", "kube-system", "team")))

    for webhook in (each for obj in rendered for each in obj.get("webhooks", ())):
        (expression,) = webhook["namespaceSelector"]["matchExpressions"]
        assert expression["values"] == [
            *("kube-system", "kube-public", "kube-node-lease", NAMESPACE, "team")
        ]


@pytest.mark.parametrize("podgroups", [False, True])
def test_gitops_tools_are_told_of_the_field_that_is_armed(*, podgroups: bool) -> None:
    page = (Path(__file__).parents[3] / "docs/install.md").read_text(encoding="utf-8")
    snippets = [
        yamlio.load(text) for text in re.findall(r"```yaml\n(# Flux.*?)```", page, re.DOTALL)
    ]
    ((rule,),) = [each["spec"]["driftDetection"]["ignore"] for each in snippets]
    ours = [obj for obj in manifests(Settings(podgroups=podgroups)) if "webhooks" in obj]
    assert all(re.fullmatch(rule["target"]["kind"], obj["kind"]) for obj in ours)
    for obj in ours:
        armed = [i for i, entry in enumerate(obj["webhooks"]) if entry["name"] == CLOSED]
        assert rule["paths"] == [f"/webhooks/{i}/failurePolicy" for i in armed]


def test_what_arms_reads_what_is_said() -> None:
    assert FAIL_WITH_REPLICAS == arming.ANNOTATION
    assert arming.NUMBER.fullmatch(str(MOST_REPLICAS))
    assert not arming.NUMBER.fullmatch(str(MOST_REPLICAS + 1))


def test_a_timeout_is_of_all_but_deletions() -> None:
    rendered = manifests(Settings(timeout_seconds=9, podgroups=True))

    entries = [each for obj in rendered for each in obj.get("webhooks", ())]
    assert len(entries) == 6
    assert {e["name"]: e["timeoutSeconds"] for e in entries} == {
        **{e["name"]: 9 for e in entries},
        DELETIONS: 2,
    }


FAILING: dict[str, tuple[Settings, str, str | None]] = {
    "armed by two": (Settings(), "Ignore", "2"),
    "armed by three": (Settings(fail_with_replicas=3), "Ignore", "3"),
    "from the start": (Settings(fail_with_replicas=0), "Fail", None),
    "never": (Settings(failure_policy="Ignore"), "Ignore", None),
    "never, said twice": (
        Settings(failure_policy="Ignore", fail_with_replicas=0),
        "Ignore",
        None,
    ),
    "with cert-manager": (Settings(certificates="cert-manager"), "Fail", None),
    "with cert-manager, never": (
        Settings(certificates="cert-manager", failure_policy="Ignore"),
        "Ignore",
        None,
    ),
}


@pytest.mark.parametrize("case", FAILING)
def test_what_fails_closed_and_when(case: str) -> None:
    settings, policy, number = FAILING[case]

    found = [obj for obj in manifests(settings) if "webhooks" in obj]

    assert len(found) == 2
    for obj in found:
        annotations = obj["metadata"].get("annotations", {})
        assert annotations.get(FAIL_WITH_REPLICAS) == number
        assert ("cert-manager.io/inject-ca-from" in annotations) == (
            settings.certificates == "cert-manager"
        )
        assert {entry["failurePolicy"] for entry in obj["webhooks"] if entry["name"] == CLOSED} == {
            policy
        }
        assert {entry["failurePolicy"] for entry in obj["webhooks"] if entry["name"] != CLOSED} <= {
            "Ignore"
        }


def test_what_is_changed_is_not_changed_for_the_next() -> None:
    first = manifests(Settings())
    manifests(Settings(replicas=7, excluded_namespaces=("a",), image="other", namespace="b"))
    manifests(Settings(fail_with_replicas=7, timeout_seconds=7, image_pull_secrets=("a",)))

    assert manifests(Settings()) == first


@pytest.mark.parametrize("certificates", ["self-managed", "cert-manager"])
def test_without_events_neither_the_writing_nor_the_rights_are_there(
    certificates: Certificates,
) -> None:
    """The Lease stays: its holder writes the status of policies."""
    before = manifests(Settings(certificates=certificates))
    after = manifests(Settings(certificates=certificates, events=False))

    names = {obj["metadata"]["name"] for obj in before}
    assert names >= {"stationmaster-lease", "stationmaster-events"}
    gone = names - {obj["metadata"]["name"] for obj in after}
    assert gone == {"stationmaster-events"}
    for objects, is_said in ((before, False), (after, True)):
        (container,) = containers(objects)
        assert (NO_EVENTS in container["args"]) is is_said
