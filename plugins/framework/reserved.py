"""Environment names that the controller sets itself: found in ``spec.trainer.env``, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final

from plugins.framework import field, values
from plugins.framework.field import FieldError, Findings, Path

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.info import Info

ENV: Final = Path("spec", "trainer", "env")


def each(
    job: TrainJob, names: Collection[str], detail: Callable[[str], str]
) -> Iterator[FieldError]:
    """A ``Forbidden`` for each entry with one of these names, at its own name; it lists them all."""
    if job.trainer is None or job.env_names.isdisjoint(names):
        return
    rule = f"reserved are {listed(names)}"
    for i, entry in enumerate(values.items(job.trainer.get("env"))):
        name = values.text(values.obj(entry).get("name"))
        if name in names:
            yield field.forbidden(ENV.index(i).child("name"), f"{detail(name)} ({rule})")


def of_policy(
    info: Info | None, policy: str, names: Collection[str], detail: Callable[[str], str]
) -> Findings:
    """All that a policy without rules of its own has to say: its names are reserved where it is the runtime's."""
    found = Findings()
    if info is not None and info.runtime.policy == policy:
        found.error(*each(info.job, names, detail))
    return found


def listed(names: Collection[str]) -> str:
    """``A, B and C``, for messages."""
    *most, last = sorted(names)
    return f"{', '.join(most)} and {last}" if most else last
