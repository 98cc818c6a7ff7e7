"""What is listed and watched. Secrets are not: to list them is to read every one there is.

Of ConfigMaps only those are asked for that say by a label that policies may read them, and, by its name, the one that is
our switch (``webhook/kube/mode.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from plugins.framework.api import names
from plugins.framework.cluster import TRAIN_JOB_CRD, kept_as
from plugins.framework.errors import ConfigError
from webhook.kube.client import JSON

METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

FORBIDDEN: Final = frozenset({"Secret."})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind to keep, and where it is."""

    kind: str
    group: str = ""
    version: str = "v1"
    plural: str
    label: str = ""
    """What readiness and metrics call it, where that is not the kind."""
    metadata_only: bool = False
    namespace: str = ""
    """Where it is, if not everywhere."""
    only: str = ""
    """The one object that is wanted of all."""
    where: str = ""
    """Which of them else, as a field selector."""
    labelled: str = ""
    """Those that have this label, whatever its value."""
    optional: bool = False
    """Not every cluster has the kind: it is followed while the cluster does."""
    beside: tuple[str, ...] = ()
    """CustomResourceDefinitions of which one must be there for an optional kind to be of use; its own, if none is named."""
    advisory: bool = False
    """Read only to warn by: where it cannot be read nothing is refused for that."""

    @property
    def title(self) -> str:
        """What readiness and metrics call it."""
        return self.label or self.kind

    @property
    def watch(self) -> str:
        """What a plugin asks for it by."""
        return f"{self.kind}.{self.group}"

    @property
    def crd(self) -> str:
        """The CustomResourceDefinition without which there is none of it, where there is such a thing."""
        return f"{self.plural}.{self.group}"

    def is_of_use(self, served: Collection[str]) -> bool:
        """Whether it is to be followed in a cluster with these CustomResourceDefinitions."""
        return not self.optional or any(name in served for name in self.beside or (self.crd,))

    @property
    def api_version(self) -> str:
        """As its objects have it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def kept_as(self) -> str:
        """What a Snapshot keeps it as."""
        return kept_as({"kind": self.kind, "apiVersion": self.api_version})

    @property
    def path(self) -> str:
        """The collection."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{root}{place}/{self.plural}"

    @property
    def selection(self) -> dict[str, str]:
        """The query that narrows the collection."""
        where = f"metadata.name={self.only}" if self.only else self.where
        fields = {"fieldSelector": where} if where else {}
        return {**fields, "labelSelector": self.labelled} if self.labelled else fields

    def accept(self, *, is_list: bool) -> str:
        """The form in which it is asked for."""
        if not self.metadata_only:
            return JSON
        return METADATA_LIST if is_list else METADATA


_CRD: Final = "CustomResourceDefinition"
_TRAINER: Final = "v1alpha1"

TRAIN_JOB_DEFINITION: Final = Resource(
    kind=_CRD,
    group="apiextensions.k8s.io",
    plural="customresourcedefinitions",
    label="TrainJob CRD",
    only=TRAIN_JOB_CRD,
)
"""The whole of this one: its schema tells the Trainer's line."""

DEFINITIONS: Final = Resource(
    kind=_CRD,
    group="apiextensions.k8s.io",
    plural="customresourcedefinitions",
    label="CRD names",
    metadata_only=True,
)
"""The names of all: a cluster's CRDs can be a hundred megabytes."""

RUNTIMES: Final = {
    names.CLUSTER_TRAINING_RUNTIME: Resource(
        kind=names.CLUSTER_TRAINING_RUNTIME,
        group=names.GROUP,
        version=_TRAINER,
        plural="clustertrainingruntimes",
    ),
    names.TRAINING_RUNTIME: Resource(
        kind=names.TRAINING_RUNTIME,
        group=names.GROUP,
        version=_TRAINER,
        plural="trainingruntimes",
    ),
}

ALWAYS: Final = (
    TRAIN_JOB_DEFINITION,
    DEFINITIONS,
    *RUNTIMES.values(),
    Resource(kind="LimitRange", plural="limitranges"),
    Resource(kind="RuntimeClass", group="node.k8s.io", plural="runtimeclasses"),
    Resource(kind="Namespace", plural="namespaces", metadata_only=True),
    Resource(
        kind="PriorityClass",
        group="scheduling.k8s.io",
        plural="priorityclasses",
        metadata_only=True,
    ),
)
"""What is read whatever the profile says."""


TRAIN_JOBS: Final = Resource(
    kind=names.TRAIN_JOB,
    group=names.GROUP,
    version=_TRAINER,
    plural="trainjobs",
    optional=True,
    advisory=True,
)
JOB_SETS: Final = Resource(
    kind=names.JOB_SET,
    group="jobset.x-k8s.io",
    version="v1alpha2",
    plural="jobsets",
    metadata_only=True,
    optional=True,
    advisory=True,
)

_POLICIES: Final = {
    names.POLICY: "trainjobpolicies",
    names.NAMESPACED_POLICY: "namespacedtrainjobpolicies",
    names.EXCEPTION: "policyexceptions",
}
POLICIES: Final = tuple(
    Resource(kind=kind, group=names.POLICY_GROUP, version="v1alpha1", plural=plural, optional=True)
    for kind, plural in _POLICIES.items()
)
PARAMS: Final = Resource(
    kind=names.CONFIG_MAP,
    plural="configmaps",
    labelled=names.PARAMS_LABEL,
    optional=True,
    beside=tuple(resource.crd for resource in POLICIES if resource.kind != names.EXCEPTION),
)
"""What policies may have their params in, while there can be policies."""

ASKED: Final = (
    *POLICIES,
    PARAMS,
    TRAIN_JOBS,
    JOB_SETS,
    *(
        Resource(
            kind=names.POD_GROUP,
            group=group,
            version=version,
            plural="podgroups",
            label=f"{names.POD_GROUP}.{group}",
            metadata_only=True,
            optional=True,
            advisory=True,
        )
        for group, version in (
            (names.GANG_GROUPS["coscheduling"], "v1alpha1"),
            (names.GANG_GROUPS["volcano"], "v1beta1"),
        )
    ),
)
"""What is read where a plugin asks for it (TrainJobs also where Events are written), while the cluster has the kind. Metadata alone where that is enough: whose
a JobSet is, its metadata say; which runtime a TrainJob uses, only its spec does."""


def asked_for(watches: Iterable[str]) -> tuple[Resource, ...]:
    """All that is kept for plugins that ask for these, each ``Kind.group``.

    Raises ConfigError where a plugin asks for what a Snapshot cannot hold, or what must not be listed.
    """
    known = {r.watch for r in (*ALWAYS, *ASKED)}
    wanted = set(watches)
    for watch in sorted(wanted):
        if watch in FORBIDDEN:
            raise ConfigError(
                f"a plugin asks to watch {watch}: to list them is to read all of them"
            )
        if watch not in known:
            raise ConfigError(f"a plugin asks to watch {watch}, which is none of {sorted(known)}")
    return (*ALWAYS, *(r for r in ASKED if r.watch in wanted))
