"""Warns of what the life of a TrainJob runs into outside of the TrainJob: deletions, leftovers, runtimes that go.

All of it was seen on the real thing (semantics G5, G33, G47), and none of it is anybody's mistake in the
manifest: so it warns, and has no way to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import gang, values
from plugins.framework.api import names
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.cluster import POD_GROUPS
from plugins.framework.interface import (
    WarnDeletionPlugin,
    WarnTrainJobPlugin,
    WatchExtensionPlugin,
)
from plugins.framework.registry import Args, Handle, PluginSpec

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.info import Info
    from plugins.framework.usage import Users

NAME: Final = "Lifecycle"

TRAIN_JOBS: Final = f"{names.TRAIN_JOB}.{names.GROUP}"
GENERATED: Final = (f"{names.JOB_SET}.jobset.x-k8s.io", *POD_GROUPS.values())

_REFUSED: Final = (
    "the Trainer's own webhook refuses every update of a TrainJob whose runtime does not exist, also of suspend, "
    "labels and finalizers: create {} again first"
)
_ANEW: Final = (
    "foreground deletion of an unfinished TrainJob: until it is gone, the Trainer makes its JobSet anew as often "
    "as that is deleted"
)
_AND_PODS: Final = ", and starts its pods again each time"
_INSTEAD: Final = (
    "delete in the background instead, which also ends this one: kubectl delete --cascade=background, "
    "propagationPolicy: Background, or the sync option PrunePropagationPolicy=background of Argo CD"
)

_MOST_NAMES: Final = 3
"""TrainJobs named in a warning, which may have 256 characters."""


class LifecycleArgs(Args, frozen=True):
    """Which warnings are given. In the profile: ``args: {leftovers: false}``."""

    foreground_deletion: bool = True
    leftovers: bool = True
    runtime_in_use: bool = True
    missing_runtime: bool = True


@dataclass(frozen=True)
class Lifecycle(WatchExtensionPlugin, WarnTrainJobPlugin, WarnDeletionPlugin):
    """Before a TrainJob is there, while it changes, and when it or its runtime goes."""

    name: ClassVar[str] = NAME
    args: LifecycleArgs

    def watches(self) -> tuple[str, ...]:
        """Only what the warnings that are wanted are made of."""
        generated = GENERATED if self.args.leftovers else ()
        jobs = (TRAIN_JOBS,) if generated or self.args.runtime_in_use else ()
        return (*jobs, *generated)

    def warn_train_job(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Sequence[str]:
        """On CREATE what is there under its name; on UPDATE that the Trainer will refuse it (G33, G5)."""
        if old is None:
            return list(_leftovers(ctx, info, new)) if self.args.leftovers else ()
        if info is None and self.args.missing_runtime and new.runtime_kind in names.RUNTIME_KINDS:
            return (_REFUSED.format(f"{new.runtime_kind} {new.runtime_name}"),)
        return ()

    def warn_deletion(self, ctx: Context, old: dict[str, Any]) -> Sequence[str]:
        """In the foreground, of an unfinished TrainJob (G47); of a runtime, while it is used (G5)."""
        if ctx.request.kind != names.TRAIN_JOB:
            return list(_in_use(ctx, old)) if self.args.runtime_in_use else ()
        if not self.args.foreground_deletion:
            return ()
        job = TrainJob(old)
        is_foreground = ctx.request.options.get("propagationPolicy") == "Foreground"
        return _foreground(job) if is_foreground and _is_driven(ctx, job) else ()


def _is_driven(ctx: Context, job: TrainJob) -> bool:
    """Whether the Trainer here makes objects for a job, and makes them again."""
    is_elsewhere = ctx.line.honours_managed_by and job.is_managed_elsewhere
    return not is_elsewhere and not job.is_finished


def _foreground(job: TrainJob) -> tuple[str, ...]:
    again = "" if job.is_suspended else _AND_PODS
    return (f"{_ANEW}{again}", _INSTEAD)


def _leftovers(ctx: Context, info: Info | None, job: TrainJob) -> Iterator[str]:
    """What stands where the Trainer will want to put the job's own objects.

    While there is a TrainJob of that name they are its, and the API server refuses a second one.
    """
    name = values.text(job.metadata.get("name"))  # the API server finishes a generateName later
    if not name or not _is_driven(ctx, job) or ctx.cluster.has_train_job(ctx.namespace, name):
        return
    owners = {kind: ctx.cluster.owner(kind, ctx.namespace, name) for kind in _generated(info)}
    left = [kind for kind, owner in owners.items() if owner == "TrainJob"]
    if left:
        yield (
            f"there is still {' and '.join(left)} {name} of an earlier TrainJob of this name: this one starts "
            "once the garbage collector has removed that"
        )
    for kind, owner in owners.items():
        if owner == "other":
            yield (
                f"there is already {kind} {name}, which is no TrainJob's: {_meant(kind, job)}; delete it first, or "
                "choose another name"
            )


def _generated(info: Info | None) -> tuple[str, ...]:
    """What the Trainer will make under the job's name, as far as it is known."""
    if info is None:
        return (names.JOB_SET,)
    policies = gang.policies(info.runtime.pod_group_policy)
    known = [p for p in policies if p != "volcano" or info.line.volcano]
    return (names.JOB_SET, *(POD_GROUPS[p] for p in known))


def _meant(kind: str, job: TrainJob) -> str:
    """What the Trainer does about an object that is not its own (semantics 7.3, 5.1)."""
    if kind == names.JOB_SET:
        return "the Trainer does not replace it, starts no training, and may report its state as this job's"
    if job.is_suspended:
        return "the Trainer writes over it"
    return "the Trainer leaves it as it is, so its minMember and minResources are this job's"


def _in_use(ctx: Context, runtime: dict[str, Any]) -> Iterator[str]:
    kind, name = ctx.request.kind, values.text(values.at(runtime, "metadata", "name"))
    users = ctx.cluster.users(kind, ctx.namespace, name, most=_MOST_NAMES)
    if not users.total:
        return
    what = "TrainJob uses" if users.total == 1 else "TrainJobs use"
    suspended = f" ({users.suspended} suspended)" if users.suspended else ""
    yield f"{users.total} unfinished {what} {kind} {name}{suspended}: {_listed(kind, users)}"
    if ctx.line.holds_used_runtimes:
        yield "it stays, being deleted, until no TrainJob uses it any more"
        return
    yield (
        "what runs goes on from the Trainer's own copy, but until the runtime exists again the Trainer refuses "
        "every update of these TrainJobs: none can be suspended or resumed"
    )


def _listed(kind: str, users: Users) -> str:
    is_wide = kind == names.CLUSTER_TRAINING_RUNTIME
    shown = [f"{namespace}/{name}" if is_wide else name for namespace, name in users.first]
    more = users.total - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def new(args: LifecycleArgs, _handle: Handle) -> Lifecycle:
    """Build the plugin."""
    return Lifecycle(args)


SPEC: Final = PluginSpec(name=NAME, build=new, args=LifecycleArgs)
