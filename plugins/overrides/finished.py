"""What an override leaves in the finished pod, where the rest may come from the runtime, others and the policy.

The API server judges that pod, not the override. So do the rules here: each looks up what became of the piece that
the override brings, and names the override.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import podrules, values
from plugins.framework.field import Path

if TYPE_CHECKING:
    from plugins.framework.field import FieldError
    from plugins.framework.info import Info
    from plugins.overrides.contents import Target


JUDGED: Final = frozenset({"containers", "initContainers", "volumes", "tolerations"})
"""The fields of a pod that any rule is about, here and in ``contents``."""


def problems(info: Info, target: Target, all_targets: list[Target]) -> Iterator[FieldError]:
    """Tolerations, sources of variables and references to resources that no pod may have."""
    pod = target.pod
    if pod.keys().isdisjoint(JUDGED):
        return
    later = [t for t in _after(target, all_targets) if t.job == target.job]
    if pod.get("tolerations"):
        yield from _tolerations(target, later)
    if pod.get("containers") or pod.get("initContainers"):
        yield from _env(info, target, later)
    if pod.get("volumes"):
        yield from _volumes(target, later)


def has_mount(info: Info, place: tuple[str, str, dict[str, Any]], mount: dict[str, Any]) -> bool:
    """Whether the finished container mounts the same volume at the same path (mounts are merged by path)."""
    job, kind, container = place
    pod_set = info.by_name(job)
    if pod_set is None or info.build_error:
        return True
    return any(
        values.same(there.get("mountPath"), mount.get("mountPath"))
        and values.same(there.get("name"), mount.get("name"))
        for built in _named(pod_set.spec.get(kind), container.get("name"))
        for there in values.objects(built.get("volumeMounts"))
    )


def _after(target: Target, all_targets: list[Target]) -> list[Target]:
    at = next(i for i, other in enumerate(all_targets) if other is target)
    return all_targets[at + 1 :]


def _named(items: Any, name: Any) -> Iterator[dict[str, Any]]:
    return (item for item in values.objects(items) if item.get("name") == name)


def _tolerations(target: Target, later: list[Target]) -> Iterator[FieldError]:
    """The last list that is not empty replaces all others."""
    if any(values.items(other.pod.get("tolerations")) for other in later):
        return
    for i, one in enumerate(values.items(target.pod.get("tolerations"))):
        for error in podrules.toleration(one) if type(one) is dict else ():
            yield error.under(target.at.child("tolerations").index(i))


def _env(info: Info, target: Target, later: list[Target]) -> Iterator[FieldError]:
    """Variables are merged by name, down to the fields of a reference; the last override to name a source answers."""
    for kind in ("containers", "initContainers"):
        for k, container in enumerate(values.items(target.pod.get(kind))):
            for n, entry in enumerate(values.items(values.obj(container).get("env"))):
                name = container.get("name"), values.obj(entry).get("name")
                if type(values.obj(entry).get("valueFrom")) is not dict:
                    continue
                if any(_has_source(other, kind, name) for other in later):
                    continue
                for error in podrules.value_from(_merged_source(info, target.job, kind, name)):
                    at = target.at.child(kind).index(k).child("env").index(n).child("valueFrom")
                    yield error.under(at)


def _has_source(target: Target, kind: str, name: tuple[Any, Any]) -> bool:
    return any(
        type(entry.get("valueFrom")) is dict
        for container in _named(target.pod.get(kind), name[0])
        for entry in _named(container.get("env"), name[1])
    )


def _merged_source(info: Info, job: str, kind: str, name: tuple[Any, Any]) -> Any:
    pod_set = info.by_name(job)
    if pod_set is None or info.build_error:
        return None
    for container in _named(pod_set.job.pod.get(kind), name[0]):
        for entry in _named(container.get("env"), name[1]):
            return entry.get("valueFrom")
    return None


def _volumes(target: Target, later: list[Target]) -> Iterator[FieldError]:
    """References to resources in the items of downward API volumes; their lists are replaced whole."""
    for k, volume in enumerate(values.items(target.pod.get("volumes"))):
        if type(volume) is not dict or any(
            True for other in later for _ in _named(other.pod.get("volumes"), volume.get("name"))
        ):
            continue
        for below, item in _downward(volume):
            for error in podrules.resource_ref(item.get(podrules.RESOURCE_REF)):
                at = target.at.child("volumes").index(k)
                yield error.under(Path(*at, *below, podrules.RESOURCE_REF))


def _downward(volume: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The items of a downward API volume, and of those that a projected one is made of."""
    found = [(Path("downwardAPI"), volume.get("downwardAPI"))]
    for i, source in enumerate(values.items(values.at(volume, "projected", "sources"))):
        found.append(
            (Path("projected", "sources", i, "downwardAPI"), values.at(source, "downwardAPI"))
        )
    for at, source in found:
        for i, item in enumerate(values.items(values.at(source, "items"))):
            if type(item) is dict:
                yield at.child("items").index(i), item
