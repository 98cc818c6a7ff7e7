"""What may be said otherwise than the manifests say it, and what becomes of them then."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from plugins.framework.errors import ConfigError
from plugins.framework.field import show
from webhook.install import kustomization
from webhook.install.kustomization import Object

Certificates: TypeAlias = Literal["self-managed", "cert-manager"]
"""Who makes them: the overlays."""

NAMESPACE: Final = "stationmaster-system"
"""Ours, as the manifests have it. They use this word for nothing else."""

KUEUE_USER: Final = "system:serviceaccount:kueue-system:kueue-controller-manager"
"""Kueue's controller, as the manifests have it."""

NO_EVENTS: Final = "--no-events"
"""The flag of ``serve``."""

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"

_CRD: Final = "CustomResourceDefinition"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ACCOUNT: Final = re.compile(r"system:serviceaccount:[-a-z0-9]+:[-.a-z0-9]+")
_IMAGE: Final = re.compile(
    r"(?:[\w.-]+(?::\d+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
    r"(?P<version>(?::[\w][\w.-]{0,127})?(?:@[a-z0-9]+:[0-9a-f]{32,})?)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is not said stays as the manifests have it. Raises ConfigError on what cannot be meant."""

    certificates: Certificates = "self-managed"
    namespace: str = NAMESPACE
    image: str = ""
    """Without a tag or digest it gets the tag of the manifests."""
    replicas: int | None = None
    log_level: str = ""
    excluded_namespaces: tuple[str, ...] = ()
    """In which nothing is done; ours and those of Kubernetes always are."""
    kueue_user: str = KUEUE_USER
    network_policy: bool = True
    crds: bool = True
    """Whether the kinds of policies are among them."""
    events: bool = True
    """Whether Events are written on TrainJobs."""
    podgroups: bool = False
    """Whether PodGroups are corrected, too."""

    def __post_init__(self) -> None:
        """The bounds are those of the chart (values.schema.json)."""
        for name in (self.namespace, *self.excluded_namespaces):
            if not _LABEL.fullmatch(name):
                raise ConfigError(
                    f"namespace {show(name)}: must be at most 63 of a-z, 0-9 and -,"
                    " with no - at either end"
                )
        if not _ACCOUNT.fullmatch(self.kueue_user):
            raise ConfigError(
                f"Kueue's user {show(self.kueue_user)}: must be system:serviceaccount:NAMESPACE:NAME"
            )
        if self.image and not _IMAGE.fullmatch(self.image):
            raise ConfigError(f"image {show(self.image)}: must be like registry.example/name:tag")


def source() -> Path:
    """The kustomizations: a wheel carries them, and a checkout has them in deploy/."""
    packaged = Path(__file__).parent / "kustomize"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "deploy" / "kustomize"


def manifests(settings: Settings) -> list[Object]:
    """All objects in the order in which to apply them: our namespace and kinds first, the registration last."""
    objects = kustomization.build(source() / "overlays" / settings.certificates)
    if not settings.events:
        objects = _without_events(objects)
    if settings.podgroups:
        objects = kustomization.build(source() / "components" / "podgroups", onto=objects)
    if settings.namespace != NAMESPACE:
        objects = [_moved(obj, settings.namespace) for obj in objects]
    if not settings.network_policy:
        objects = [obj for obj in objects if obj["kind"] != "NetworkPolicy"]
    if not settings.crds:
        objects = [obj for obj in objects if obj["kind"] != _CRD]
    for webhook in _webhooks(objects):
        _exclude(webhook, settings.excluded_namespaces)
        _know_kueue(webhook, settings.kueue_user)
    for obj in objects:
        if obj["kind"] == "Deployment" and settings.replicas is not None:
            obj["spec"]["replicas"] = settings.replicas
    for container in kustomization.containers(objects):
        _run(container, settings)
    return sorted(objects, key=_rank)  # stable: else as the files name them


def _rank(obj: Object) -> int:
    if obj["kind"] == "Namespace":
        return 0
    if obj["kind"] == _CRD:
        return 1
    return 3 if "webhooks" in obj else 2


def _webhooks(objects: Sequence[Object]) -> Iterator[Object]:
    for obj in objects:
        yield from obj.get("webhooks", ())


def _without_events(objects: Sequence[Object]) -> list[Object]:
    """Neither the rights nor the writing. The Lease stays: its holder also says how policies fare."""
    for container in kustomization.containers(objects):
        container["args"] = [*container["args"], NO_EVENTS]
    return [obj for obj in objects if obj["metadata"]["name"] != "stationmaster-events"]


def _moved(obj: Object, namespace: str) -> Object:
    """Into another namespace: in names, subjects, services, selectors, DNS names, wherever it is said."""
    moved: Object = _mapped(obj, lambda text: text.replace(NAMESPACE, namespace))
    return moved


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _mapped(each, change) for key, each in value.items()}
        case list():
            return [_mapped(each, change) for each in value]
        case _:
            return value


def _exclude(webhook: Object, namespaces: Sequence[str]) -> None:
    for expression in webhook["namespaceSelector"]["matchExpressions"]:
        if expression["key"] == NAMESPACE_NAME:
            # A list of its own: in the file the entries share one.
            expression["values"] = list(dict.fromkeys([*expression["values"], *namespaces]))


def _know_kueue(webhook: Object, user: str) -> None:
    for condition in webhook.get("matchConditions", ()):
        condition["expression"] = condition["expression"].replace(KUEUE_USER, user)


def _run(container: Object, settings: Settings) -> None:
    if settings.log_level:
        container["args"] = [
            f"--log-level={settings.log_level}" if arg.startswith("--log-level=") else arg
            for arg in container["args"]
        ]
    if settings.image:
        matched = _IMAGE.fullmatch(settings.image)
        is_whole = bool(matched and matched["version"])
        tag = container["image"].rpartition(":")[2]
        container["image"] = settings.image if is_whole else f"{settings.image}:{tag}"
