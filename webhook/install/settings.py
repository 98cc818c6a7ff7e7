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

FailurePolicy: TypeAlias = Literal["Fail", "Ignore"]

NAMESPACE: Final = "stationmaster-system"
"""Ours, as the manifests have it. They use this word for nothing else."""

KUEUE_USER: Final = "system:serviceaccount:kueue-system:kueue-controller-manager"
"""Kueue's controller, as the manifests have it."""

NO_EVENTS: Final = "--no-events"
"""The flag of ``serve``."""

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"

_CRD: Final = "CustomResourceDefinition"
CLOSED: Final = "trainjobs.stationmaster.dev"
"""The entry that may fail closed, of either configuration."""

DELETIONS: Final = "deletions.stationmaster.dev"
"""The entry that a deletion waits for, which is never long."""

MOST_REPLICAS: Final = 999_999
"""As many as that annotation can say."""

POD_GROUPS: Final = "podgroups.stationmaster.dev"
"""The entry of the component podgroups."""

FAIL_WITH_REPLICAS: Final = "stationmaster.dev/fail-with-replicas"
"""The annotation that kube/arming.py goes by, which is not imported for its name: it brings an HTTP client."""

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"(?=.{{1,253}}\Z){_LABEL.pattern}(?:\.{_LABEL.pattern})*")
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
    failure_policy: FailurePolicy = "Fail"
    """Of the entries for new and changed TrainJobs; all others fail open."""
    fail_with_replicas: int | None = None
    """Fail is armed once this many replicas are Ready; with 0 it is said from the start, and never changed."""
    timeout_seconds: int | None = None
    """1 to 30, as Kubernetes has it; of all but deletions."""
    image_pull_secrets: tuple[str, ...] = ()
    priority_class: str = ""
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
        for what, names in (
            ("image pull secret", self.image_pull_secrets),
            ("priority class", (self.priority_class,) if self.priority_class else ()),
        ):
            for name in names:
                if not _SUBDOMAIN.fullmatch(name):
                    raise ConfigError(f"{what} {show(name)}: must be the name of an object")
        if self.timeout_seconds is not None and not 1 <= self.timeout_seconds <= 30:
            raise ConfigError(f"timeout {self.timeout_seconds}: must be 1 to 30 seconds")
        self._check_arming()

    def _check_arming(self) -> None:
        """Refuse what would be without effect."""
        number = self.fail_with_replicas
        if number is None:
            return
        said = f"fail with replicas {number}"
        if not 0 <= number <= MOST_REPLICAS:
            raise ConfigError(f"{said}: must be 0 to {MOST_REPLICAS}")
        if number and self.failure_policy == "Ignore":
            raise ConfigError(f"{said}: must not be said with failure policy Ignore")
        if number and self.certificates == "cert-manager":
            raise ConfigError(
                f"{said}: must be 0 with cert-manager, as nothing may be written then"
            )


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
    _set(objects, settings)
    return sorted(objects, key=_rank)  # stable: else as the files name them


def _set(objects: Sequence[Object], settings: Settings) -> None:
    """Say in the objects themselves what is not a matter of which there are."""
    for obj in objects:
        if "webhooks" in obj:
            _fail(obj, settings)
        if obj["kind"] == "Deployment":
            _deploy(obj["spec"], settings)
    for webhook in _webhooks(objects):
        _wait(webhook, settings.timeout_seconds)
        _exclude(webhook, settings.excluded_namespaces)
        _know_kueue(webhook, settings.kueue_user)
    for container in kustomization.containers(objects):
        _run(container, settings)


def cautions(objects: Sequence[Object]) -> Iterator[str]:
    """What may be meant but hardly is, as the chart's notes say it."""
    (wanted,) = (obj["spec"]["replicas"] for obj in objects if obj["kind"] == "Deployment")
    said = (o["metadata"].get("annotations", {}) for o in objects if "webhooks" in o)
    number = next((int(each[FAIL_WITH_REPLICAS]) for each in said if FAIL_WITH_REPLICAS in each), 0)
    if wanted < number:
        yield (
            f"Fail is armed once {number} replicas are Ready, and there are to be {wanted}: new"
            " TrainJobs will be let through whenever none answers"
        )


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


def _fail(configuration: Object, settings: Settings) -> None:
    """The policy, and the annotation by which it is armed, as the chart has both (_helpers.tpl)."""
    metadata, number = configuration["metadata"], settings.fail_with_replicas
    if settings.failure_policy == "Fail" and number != 0:
        if number is not None:
            metadata["annotations"][FAIL_WITH_REPLICAS] = str(number)
        return
    annotations = metadata.pop("annotations", {})
    annotations.pop(FAIL_WITH_REPLICAS, None)
    if annotations:
        metadata["annotations"] = annotations
    for webhook in configuration["webhooks"]:
        if webhook["name"] == CLOSED:
            webhook["failurePolicy"] = settings.failure_policy


def _wait(webhook: Object, seconds: int | None) -> None:
    if seconds is not None and webhook["name"] != DELETIONS:
        webhook["timeoutSeconds"] = seconds


def _exclude(webhook: Object, namespaces: Sequence[str]) -> None:
    for expression in webhook["namespaceSelector"]["matchExpressions"]:
        if expression["key"] == NAMESPACE_NAME:
            # A list of its own: in the file the entries share one.
            expression["values"] = list(dict.fromkeys([*expression["values"], *namespaces]))


def _know_kueue(webhook: Object, user: str) -> None:
    for condition in webhook.get("matchConditions", ()):
        condition["expression"] = condition["expression"].replace(KUEUE_USER, user)


def _deploy(deployment: Object, settings: Settings) -> None:
    pod = deployment["template"]["spec"]
    if settings.replicas is not None:
        deployment["replicas"] = settings.replicas
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    if settings.priority_class:
        pod["priorityClassName"] = settings.priority_class


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
