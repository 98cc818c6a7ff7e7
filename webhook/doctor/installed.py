"""What was installed, and how, as far as it can be seen: our registration, and the options behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from plugins.framework import values
from webhook.doctor.facts import Facts, Many, Object, Unread
from webhook.install.settings import NAMESPACE, POD_GROUPS, Settings
from webhook.kube.injector import Configuration
from webhook.kube.shared import CONFIGURATIONS, SERVICE

_FLAG: Final = "--podgroups"
_PROFILE: Final = "--profile"


def of(facts: Facts, configuration: Configuration) -> Object | None:
    """One of our configurations."""
    among = facts.mutating if configuration.kind == "mutating" else facts.validating
    if isinstance(among, Unread):
        return None
    return next((e for e in among if e["metadata"]["name"] == configuration.name), None)


def entries(facts: Facts, configuration: Configuration) -> Sequence[Object]:
    """The entries of one of our configurations; none where it is missing or could not be read."""
    found = of(facts, configuration)
    return webhooks(found) if found else ()


def ours(configurations: Many) -> Iterator[Object]:
    """The entries of our configuration among these."""
    for each in () if isinstance(configurations, Unread) else configurations:
        if values.at(each, "metadata", "name") in {known.name for known in CONFIGURATIONS}:
            yield from webhooks(each)


def webhooks(configuration: Object) -> Sequence[Object]:
    """Its entries."""
    return values.objects(configuration.get("webhooks"))


def calls_for_pod_groups(mutating: Many) -> bool:
    """Whether the API server is told to ask us about PodGroups."""
    return any(entry.get("name") == POD_GROUPS for entry in ours(mutating))


def corrects_pod_groups(facts: Facts) -> bool | None:
    """Whether the replicas would correct them; None where the Deployment does not say, or was not read."""
    if facts.deployment is None or isinstance(facts.deployment, Unread):
        return None
    said = _command_line(facts.deployment)
    if _FLAG in said:
        return True
    return None if any(word.startswith(_PROFILE) for word in said) else False


def settings(facts: Facts) -> Settings:
    """What the manifests are to be compared with: as it was installed, as far as it can be seen."""
    return Settings(
        namespace=facts.namespace,
        certificates=facts.certificates,
        podgroups=calls_for_pod_groups(facts.mutating),
    )


def again(facts: Facts, *, pod_groups: bool | None = None) -> str:
    """The command that installs it once more; what cannot be seen, as the image, is for who knows it."""
    if pod_groups is None:
        pod_groups = calls_for_pod_groups(facts.mutating) or bool(corrects_pod_groups(facts))
    options = (
        ("--certificates cert-manager", facts.certificates == "cert-manager"),
        (f"--namespace {facts.namespace}", facts.namespace != NAMESPACE),
        (_FLAG, pod_groups),
    )
    words = ("stationmaster manifests", *(option for option, is_said in options if is_said))
    return f"{' '.join(words)} | kubectl apply -f -"


def _command_line(deployment: Object) -> Sequence[str]:
    containers = values.objects(values.at(deployment, "spec", "template", "spec", "containers"))
    return [
        values.text(word)
        for container in containers
        if container.get("name") == SERVICE
        for part in ("command", "args")
        for word in values.items(container.get(part))
    ]
