"""Two owners who set the same field of the same job: the later entry wins, and somebody should know (B013)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import values

if TYPE_CHECKING:
    from plugins.overrides.contents import Target

_WHOLE: Final = (
    "serviceAccountName",
    "tolerations",
    "terminationGracePeriodSeconds",
)


def between(targets: list[Target]) -> Iterator[str]:
    """A warning for each field that two different owners set to different values."""
    if len(targets) < 2:  # one owner has nobody to disagree with
        return
    set_by: dict[tuple[str, str], tuple[str, Any]] = {}
    for target in targets:
        for name, value in _settings(target):
            before = set_by.get((target.job, name))
            if (
                before is not None
                and before[0] != target.owner
                and not values.same(before[1], value)
            ):
                yield f"{before[0]} and {target.owner} both set {name} of job {target.job}: {target.owner} wins"
            set_by[target.job, name] = (target.owner, value)


def _settings(target: Target) -> Iterator[tuple[str, Any]]:
    for key in _WHOLE:
        if target.pod.get(key) is not None:
            yield key, target.pod[key]
    for key, value in values.obj(target.pod.get("nodeSelector")).items():
        yield f"nodeSelector[{key}]", value
    for level, metadata in target.metadata:
        for kind in ("labels", "annotations"):
            for key, value in values.obj(metadata.get(kind)).items():
                yield f"{level} {kind}[{key}]", value
