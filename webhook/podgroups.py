"""PodGroups that the Trainer has made: whose they are, and where their TrainJob is read.

A review of a PodGroup names its TrainJob, but does not hold it. So this is the one kind for whose answer an
object is looked up that no cache keeps: caches of whole TrainJobs would cost more than all else together.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from plugins.framework import lines, schema, values
from plugins.framework.api import names
from plugins.framework.errors import StationmasterError
from plugins.framework.field import show

if TYPE_CHECKING:
    from plugins.framework.api.admission import AdmissionRequest
    from plugins.framework.cluster import Snapshot
    from plugins.framework.context import Context
    from plugins.framework.lines import Line

RESOURCE: Final = "podgroups"
GROUPS: Final = frozenset({"scheduling.x-k8s.io", "scheduling.volcano.sh"})
"""Of the scheduler-plugins and of Volcano. Kubernetes' own PodGroup has no totals, and the Trainer makes none."""

FIELD_MANAGER: Final = "trainer"
"""As whom the Trainer's controller applies."""

_JUDGED: Final = ("minMember", "minResources")


class Unresolved(StationmasterError):
    """Nothing is known of the TrainJob of a PodGroup, which is let be for that; the text says why."""


class Owner(NamedTuple):
    """The TrainJob that a PodGroup names as its controller."""

    name: str
    uid: str


class Owned(NamedTuple):
    """A TrainJob, and the cluster as it should be resolved in."""

    job: dict[str, Any]
    cluster: Snapshot
    warnings: tuple[str, ...] = ()


class Owners(Protocol):
    """Where TrainJobs are read."""

    @abstractmethod
    async def owned(self, ctx: Context, owner: Owner) -> Owned:
        """The TrainJob as it is stored, within the deadline. Raises Unresolved."""


def is_one(request: AdmissionRequest) -> bool:
    """Whether a request is about a PodGroup that can be corrected."""
    return request.resource == RESOURCE and request.group in GROUPS


def owner_of(request: AdmissionRequest) -> Owner | None:
    """Whose PodGroup it is; None where there is nothing to correct, or nothing of the Trainer's.

    The Trainer names the PodGroup after the TrainJob; one of another name is somebody else's idea. An update
    that leaves both fields alone is let be, so that whoever labels the PodGroup of a running job does not
    change its gang; but what the Trainer itself applies again is looked at, for what was stored before us.
    """
    raw, metadata = request.object, values.at_obj(request.object, "metadata")
    if raw is None or request.subresource or "deletionTimestamp" in metadata:
        return None
    if request.operation != "CREATE" and (request.operation != "UPDATE" or _is_settled(request)):
        return None
    for owner in values.objects(metadata.get("ownerReferences")):
        group = values.text(owner.get("apiVersion")).partition("/")[0]
        if owner.get("controller") is True and (group, owner.get("kind")) == _TRAIN_JOB:
            found = Owner(values.text(owner.get("name")), values.text(owner.get("uid")))
            return found if found.name and found.name == metadata.get("name") else None
    return None


_TRAIN_JOB: Final = (names.GROUP, names.TRAIN_JOB)


def _is_settled(request: AdmissionRequest) -> bool:
    if request.options.get("fieldManager") == FIELD_MANAGER:
        return False
    new, old = (values.at_obj(o, "spec") for o in (request.object, request.old_object))
    return all(values.same(new.get(key), old.get(key)) for key in _JUDGED)


def check_uid(job: dict[str, Any], owner: Owner) -> None:
    """Raise Unresolved where this is another TrainJob of the same name."""
    uid = values.at(job, "metadata", "uid")
    if uid != owner.uid:
        raise Unresolved(f"TrainJob {owner.name} is {show(uid)}, not {show(owner.uid)}")


def line_of(line: Line | None, cluster: Snapshot, job: dict[str, Any]) -> Line:
    """Whose semantics a TrainJob follows: the given one's, else the CRD's, else those of its own fields."""
    return line or cluster.crd_line or lines.of_job(values.obj(job.get("spec")))


class Documents:
    """The TrainJobs of a folder that stands for the cluster."""

    def __init__(self, objects: Iterable[dict[str, Any]], line: Line | None) -> None:
        """Index them by namespace and name; ``line`` is what is served, where that was said."""
        self._line = line
        self._jobs: dict[tuple[str, str], dict[str, Any]] = {}
        for obj in objects:
            if obj.get("kind") == names.TRAIN_JOB:
                metadata = values.at_obj(obj, "metadata")
                namespace = values.text(metadata.get("namespace")) or names.DEFAULT_NAMESPACE
                self._jobs[namespace, values.text(metadata.get("name"))] = obj

    async def owned(self, ctx: Context, owner: Owner) -> Owned:
        """As the API server would have stored it. A manifest has no uid, and is taken for the one that is meant."""
        obj = self._jobs.get((ctx.namespace, owner.name))
        if obj is None:
            raise Unresolved(f"TrainJob {owner.name} is not in the folder")
        if values.at(obj, "metadata", "uid") is not None:
            check_uid(obj, owner)
        schemas = schema.load(line_of(self._line, ctx.cluster, obj).name)
        return Owned(schemas.admit(names.TRAIN_JOB, obj, obj).obj, ctx.cluster)
