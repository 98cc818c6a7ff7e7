"""A stored TrainJob as its user once asked for it: without what the API server, controllers and admission wrote.

So "if it were created again" means what a pipeline does that creates the same manifest every night. What an override
of a policy put in the place of the user's own value cannot be undone, since nobody kept that; it stays, marked as
forced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import applied, values
from plugins.framework.api import names
from policies import entry_list, walk
from policies.writes import Item, Step

if TYPE_CHECKING:
    from plugins.framework.lines import Line

_OF_THE_SERVER: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_NOT_THE_USERS: Final = frozenset({*names.OUR_MANAGERS, names.KUEUE_MANAGER})


def as_asked(raw: dict[str, Any], line: Line) -> dict[str, Any]:
    """A copy with all of that taken away. An object of any shape is taken; of a strange one as much as can be."""
    obj: dict[str, Any] = values.copy(raw)
    obj.pop("status", None)
    record = applied.read(obj)
    _take_away_entries(obj, line, record)
    forced = _take_away(obj, record)
    metadata = values.obj(obj.get("metadata"))
    for key in _OF_THE_SERVER:
        metadata.pop(key, None)
    annotations = metadata.get("annotations")
    if type(annotations) is dict:
        for key in names.OUR_ANNOTATIONS:
            annotations.pop(key, None)
        if forced:
            annotations[names.APPLIED_ANNOTATION] = applied.write(forced)
        if not annotations:
            del metadata["annotations"]
    return obj


def _take_away(obj: dict[str, Any], record: dict[str, str]) -> dict[str, str]:
    """Remove what we recorded and what is still so; what is left of the record are the values that we forced."""
    forced: dict[str, str] = {}
    for at in sorted(record, key=lambda at: (-at.count("/"), at)):  # what is deepest first
        steps = walk.steps_of(obj, at)
        if not steps or not applied.explains(record, at, walk.read(obj, steps)):
            continue
        if record[at].rpartition(":")[0].endswith(applied.FORCED):
            forced[at] = record[at]
        else:
            _remove(obj, steps)
    return forced


def _remove(obj: dict[str, Any], steps: Sequence[Step]) -> None:
    """Remove one value, and the objects and lists around it that are empty then."""
    *above, last = steps
    holder: Any = walk.read(obj, above) if above else obj
    if isinstance(last, Item) and type(holder) is list:
        index = walk.index_of(holder, last)
        if index is not None:
            del holder[index]
    elif type(holder) is dict:
        holder.pop(last, None)
    if len(above) > 1 and holder in ({}, []):
        _remove(obj, above)


def _take_away_entries(obj: dict[str, Any], line: Line, record: dict[str, str]) -> None:
    """Remove our own overrides of pods, which are made anew as wholes, and Kueue's, which come after admission."""
    spec = values.obj(obj.get("spec"))
    listed = spec.get(line.generation)
    if type(listed) is not list:
        return
    kept = [entry for entry in listed if not _is_not_the_users(entry, line, record)]
    if kept:
        spec[line.generation] = kept
    elif listed:
        del spec[line.generation]


def _is_not_the_users(entry: Any, line: Line, record: dict[str, str]) -> bool:
    if type(entry) is not dict:
        return False
    if line.has_managers:
        return entry.get("manager") in _NOT_THE_USERS
    return any(
        entry_list.is_entry_pointer(at)
        and applied.mark(mark.rpartition(":")[0], entry_list.normal(line, entry)) == mark
        for at, mark in record.items()
    )
