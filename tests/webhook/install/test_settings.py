from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

import pytest

from plugins.framework.errors import ConfigError
from webhook.install.kustomization import containers
from webhook.install.settings import NAMESPACE, NO_EVENTS, Certificates, Settings, manifests

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


def test_what_is_changed_is_not_changed_for_the_next() -> None:
    first = manifests(Settings())
    manifests(Settings(replicas=7, excluded_namespaces=("a",), image="other", namespace="b"))

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
