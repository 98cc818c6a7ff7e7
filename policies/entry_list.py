"""The list of overrides of a TrainJob, told apart by owner: users, Kueue, and ours of each mode.

With Trainer 2.2 and later entries have managers. In 2.1 they have none: ours are known by the record of what we wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import applied, goform, values
from plugins.framework.api import names
from plugins.framework.draft import Draft
from plugins.framework.field import Path
from policies.walk import read
from policies.writes import Mode, Place

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.lines import Line

MANAGERS: Final[Mapping[Mode, str]] = dict(
    zip(("defaults", "overrides"), names.OUR_MANAGERS, strict=True)
)
TEMPLATE: Final = ("trainingRuntimeSpec", "template")
_TYPES: Final = {
    "runtimePatches": "RuntimePatch",
    "podTemplateOverrides": "PodTemplateOverride",
    "podSpecOverrides": "PodSpecOverride",
}

_POINTERS: Final = tuple(f"/spec/{name}/" for name in _TYPES)

Tree = dict[str, Any]


def pointer_of(line: Line, mode: Mode, job: str = "") -> str:
    """Under which pointer the record knows our entry; of a job where the line has one entry each."""
    at = Path("spec", line.generation).key(MANAGERS[mode])
    return at.pointer if line.has_managers else at.key(job).pointer


def is_entry_pointer(at: str) -> bool:
    """Whether a recorded pointer is about one of our entries."""
    return at.startswith(_POINTERS)


def is_of(line: Line, mode: Mode, at: str) -> bool:
    """Whether a recorded pointer is about our entries of a mode."""
    prefix = _prefix(line.generation, mode)
    return at.startswith(prefix) and at[len(prefix) : len(prefix) + 1] in {"", "/"}


@lru_cache(maxsize=8)
def _prefix(generation: str, mode: Mode) -> str:
    return Path("spec", generation).key(MANAGERS[mode]).pointer


class Entries:
    """The list of overrides, told apart by owner."""

    def __init__(self, ctx: Context, draft: Draft, claims: Mapping[str, str]) -> None:
        """Tell the entries of the draft apart; ``claims`` is what was recorded before this call."""
        self.line = ctx.line
        self.draft = draft
        self.claims = claims
        self.all: list[Any] = values.items(draft.get(Path("spec", self.line.generation)))
        stored = values.obj(ctx.request.old_object).get("spec") if ctx.is_update else None
        self._stored = values.objects(values.obj(stored).get(self.line.generation))
        self._is_update = ctx.is_update
        self._taken: set[str] = set()
        self._kinds = [self._kind(entry) for entry in self.all]

    def ours(self, mode: Mode) -> list[int]:
        """Where our entries of a mode stand."""
        return [i for i, kind in enumerate(self._kinds) if kind == mode]

    def is_forged(self, mode: Mode) -> bool:
        """Whether an entry is under our manager that we have not written."""
        return any(
            self._kinds[i] == "user" and values.obj(entry).get("manager") == MANAGERS[mode]
            for i, entry in enumerate(self.all)
        )

    def foreign(self) -> list[int]:
        """Where users' entries stand."""
        return [i for i, kind in enumerate(self._kinds) if kind == "user"]

    def users(self, place: Place) -> Any:
        """The value that users' entries end with at a place; None where none sets it."""
        return self._last(place, self.foreign())

    def of_defaults(self, place: Place) -> Any:
        """The value in our entry of defaults."""
        return self._last(place, self.ours("defaults"))

    def _last(self, place: Place, indexes: list[int]) -> Any:
        value: Any = None
        for i in indexes:
            for tree in _trees(self.line, self.all[i], place):
                found = read(tree, place.steps)
                if found is not None and found not in ("", [], {}):
                    value = found
        return value

    def _kind(self, entry: Any) -> str:
        if type(entry) is not dict:
            return "user"
        if not self.line.has_managers:
            return self._recorded(entry) or "user"
        manager = entry.get("manager")
        if manager == names.KUEUE_MANAGER:
            return "kueue"
        for mode, name in MANAGERS.items():
            if manager == name:
                return mode if self._is_known(mode, entry) else "user"
        return "user"

    def _is_known(self, mode: Mode, entry: Tree) -> bool:
        if self._is_update and any(e.get("manager") == MANAGERS[mode] for e in self._stored):
            return True
        return self._recorded(entry) == mode

    def _recorded(self, entry: Tree) -> str:
        """The mode under which this very entry is recorded; empty where it is not.

        Each record answers for one entry: ours of both modes may say the same.
        """
        known: Any = None
        for record in (self.draft.record, self.claims):
            for mode in MANAGERS:
                for at, mark in record.items():
                    if at in self._taken or not is_of(self.line, mode, at):
                        continue
                    known = known or normal(self.line, entry)
                    if applied.mark(mark.rpartition(":")[0], known) == mark:
                        self._taken.add(at)
                        return mode
        return ""


def normal(line: Line, entry: Any) -> Any:
    """An entry as Go reads it, without ``time``: what comes back from controllers is the same in this form."""
    kind = _TYPES[line.generation]
    typed = values.without_empty(goform.load(line.name).normalize(entry, kind))
    return {k: v for k, v in typed.items() if k != "time"} if type(typed) is dict else typed


def _trees(line: Line, entry: Any, place: Place) -> Iterator[Tree]:
    """What an entry says at the level of a place, about its target."""
    if not line.has_managers:
        jobs = [target.get("name") for target in values.objects(values.at(entry, "targetJobs"))]
        if place.target in jobs:
            yield entry if line.generation != "podSpecOverrides" else {"spec": entry}
        return
    template = values.at_obj(entry, *TEMPLATE)
    if place.level == "JobSet":
        yield template
        return
    for job in values.objects(values.at(template, "spec", "replicatedJobs")):
        if job.get("name") == place.target:
            below = values.obj(job.get("template"))
            yield below if place.level == "Job" else values.at_obj(below, "spec", "template")
