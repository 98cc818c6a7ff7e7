"""Two owners who set the same field of the same job: the later entry wins, and somebody should know (B013)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import field, values

if TYPE_CHECKING:
    from plugins.overrides.contents import Target

LONGEST_NAME: Final = 35
LONGEST_FIELD: Final = 84
"""Three names of owners, one of a job, the field and 30 characters of ours fit a warning."""

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
                and not _has_all(value, before[1])
            ):
                yield _said(before[0], target.owner, name, target.job)
            set_by[target.job, name] = (target.owner, value)


def _has_all(value: Any, before: Any) -> bool:
    """Whether a list keeps every item of the one that it replaces, as where a policy joins tolerations: nobody loses."""
    return (
        type(value) is list
        and type(before) is list
        and all(any(values.same(item, kept) for kept in value) for item in before)
    )


def _said(loser: str, winner: str, name: str, job: str) -> str:
    """The warning, short enough to come whole: cut at its end, it would lose the field."""
    loser, winner, name, job = map(field.escape, (loser, winner, name, job))
    text = f"{loser} and {winner} both set {name} of job {job}: {winner} wins"
    if len(text) <= field.LONGEST_WARNING:
        return text
    loser, winner, job = _cut(loser), _cut(winner), _cut(job)
    name = _cut(name, most=LONGEST_FIELD)
    return f"{loser} and {winner} both set {name} of job {job}: {winner} wins"


def _cut(text: str, *, most: int = LONGEST_NAME) -> str:
    """A name without its middle: prefixes tell who it is, and ends which one."""
    kept = (most - 3) // 2
    return text if len(text) <= most else f"{text[:kept]}...{text[-kept:]}"


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
