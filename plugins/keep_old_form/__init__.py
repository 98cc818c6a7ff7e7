"""On UPDATE, gives back the stored form of what differs from it in form alone.

Applying a manifest a second time sends it as the user wrote it: without what admission added, with ``cpu: 2``
where ``"2"`` is stored, without Kueue's entry. The API server takes each for a change, and refuses it. Here the
stored form is put back, in the stored order, so that applying again changes nothing (webhook-server A.8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import applied, field, values
from plugins.framework.api import names
from plugins.framework.field import Path
from plugins.framework.interface import ReconcileUpdatePlugin
from plugins.framework.registry import Args, Handle, PluginSpec

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.draft import Draft

NAME: Final = "KeepOldForm"

_WHOLE: Final = ("trainer", "initializer", "activeDeadlineSeconds", "managedBy")
_ANNOTATIONS: Final = Path("metadata", "annotations")
_PATCHES: Final = "runtimePatches"
_KEYED: Final = {"env": "name"}
"""Lists that the API keys by a field: their order says nothing to the user (env of trainer and initializers)."""
_UNSET: Final[dict[str, dict[str, Any]]] = {
    "env": {"value": ""},
    "volumeMounts": {"readOnly": False, "subPath": ""},
}
"""Fields of list items whose zero is the same as their absence: clients written in Go drop it when they send
the object back (kubeflow/trainer#3888)."""


@dataclass(frozen=True)
class KeepOldForm(ReconcileUpdatePlugin):
    """Restores what the record, Kueue's entry, the form of a quantity or ``time`` explains."""

    name: ClassVar[str] = NAME

    def reconcile_update(self, ctx: Context, draft: Draft, old: TrainJob) -> None:
        """Put back fields of ``spec`` where nothing but the form differs, and our own annotations always."""
        record = applied.read(old.raw)
        new_spec = values.obj(draft.raw.get("spec"))
        for key in _WHOLE:
            pointer = f"/spec/{key}"
            if _differs(old.spec, new_spec, key) and _explained(
                record, pointer, old.spec.get(key), new_spec.get(key)
            ):
                _restore(draft, Path("spec", key), old.spec.get(key))
        if (
            ctx.line.has_managers
            and _differs(old.spec, new_spec, _PATCHES)
            and _patches_explained(old.spec.get(_PATCHES), new_spec.get(_PATCHES))
        ):
            _restore(draft, Path("spec", _PATCHES), old.spec.get(_PATCHES))
        _restore_annotations(draft, old)


def _differs(old: dict[str, Any], new: dict[str, Any], key: str) -> bool:
    return not values.same(old.get(key), new.get(key))


def _restore(draft: Draft, path: Path, value: Any) -> None:
    if value is None:
        draft.remove(path)
    else:
        draft.set(path, value)


def _restore_annotations(draft: Draft, old: TrainJob) -> None:
    """Nobody but us writes our annotations: they stay as stored, present or absent."""
    for name in names.OUR_ANNOTATIONS:
        _restore(draft, _ANNOTATIONS.key(name), old.annotations.get(name))


def _explained(record: dict[str, str], pointer: str, old: Any, new: Any) -> bool:
    """Whether ``new`` is ``old`` in another form, or without what the record says that we added or forced."""
    if applied.is_forced(record, pointer, old):
        return True  # the user still sends what an override has replaced
    if new is None:
        return old is None or _ours(record, pointer, old)
    if type(old) is dict and type(new) is dict:
        return _objects_explained(record, pointer, old, new)
    if type(old) is list and type(new) is list:
        return _lists_explained(record, pointer, old, new)
    return values.same(old, new)


def _objects_explained(
    record: dict[str, str], pointer: str, old: dict[str, Any], new: dict[str, Any]
) -> bool:
    if pointer.endswith(("/limits", "/requests")):
        return _amounts_explained(record, pointer, old, new)
    if new.keys() - old.keys():
        return all(new[k] is None for k in new.keys() - old.keys()) and _objects_explained(
            record, pointer, old, {k: v for k, v in new.items() if k in old}
        )
    return all(
        _explained(record, pointer + field.pointer((key,)), value, new.get(key))
        for key, value in old.items()
    )


def _amounts_explained(
    record: dict[str, str], pointer: str, old: dict[str, Any], new: dict[str, Any]
) -> bool:
    """Whether the amounts are the same by value, but for those that a policy added or forced."""
    if new.keys() - old.keys():
        return False
    for name, value in old.items():
        at = pointer + field.pointer((name,))
        if name in new and applied.canonical(value) == applied.canonical(new[name]):
            continue
        if not applied.is_forced(record, at, value) and (
            name in new or not applied.explains(record, at, value)
        ):
            return False
    return True


def _lists_explained(record: dict[str, str], pointer: str, old: list[Any], new: list[Any]) -> bool:
    """Whether two lists hold the same, in any order where the API keys them, but for items that are ours."""
    name = pointer.rpartition("/")[2]
    key = _KEYED.get(name)
    if key is None:
        return values.same(old, new)
    before, after = _by_name(old, key), _by_name(new, key)
    if len(before) != len(old) or len(after) != len(new) or after.keys() - before.keys():
        return values.same(old, new)
    return all(
        values.same(_terse([before[item]], name), _terse([after[item]], name))
        or applied.is_forced(record, pointer + field.pointer((item,)), before[item])
        for item in after
    ) and all(
        _ours(record, pointer + field.pointer((item,)), before[item])
        for item in before.keys() - after.keys()
    )


def _by_name(items: list[Any], key: str) -> dict[str, Any]:
    return {values.text(values.obj(item).get(key)): item for item in items}


def _ours(record: dict[str, str], pointer: str, value: Any) -> bool:
    """Whether all that stands here was written by us: this very value, or an object of such values."""
    if applied.explains(record, pointer, value):
        return True
    if type(value) is list and (key := _KEYED.get(pointer.rpartition("/")[2])) is not None:
        value = _by_name(value, key)
    if type(value) is not dict or not value:
        return False
    return all(_ours(record, pointer + field.pointer((key,)), item) for key, item in value.items())


def _patches_explained(old: Any, new: Any) -> bool:
    """Whether users' entries are the same, and Kueue's is as it was or left out.

    Another one is Kueue admitting or evicting the job: it may run under a name that the profile does not
    know, and putting its old entry back would undo what it decided.
    """
    kueues = _entries(new, {names.KUEUE_MANAGER})
    if kueues and not values.same(kueues, _entries(old, {names.KUEUE_MANAGER})):
        return False
    others = {names.KUEUE_MANAGER, *names.OUR_MANAGERS}
    return values.same(
        _terse(_entries(old, others, invert=True)), _terse(_entries(new, others, invert=True))
    )


def _entries(patches: Any, managers: set[str], *, invert: bool = False) -> list[Any]:
    """The entries of these managers (or of all others), without ``time``."""
    out: list[Any] = []
    for patch in values.items(patches):
        if type(patch) is not dict:
            out.append(patch)
        elif (values.text(patch.get("manager")) in managers) != invert:
            out.append({k: v for k, v in patch.items() if k != "time"})
    return out


def _terse(value: Any, name: str = "") -> Any:
    """A value without the zeros that mean the same as absence; ``name`` is the field that holds it."""
    if type(value) is dict:
        return {key: _terse(item, key) for key, item in value.items()}
    if type(value) is not list:
        return value
    unset = _UNSET.get(name, {})
    return [
        {k: v for k, v in item.items() if k not in unset or not values.same(v, unset[k])}
        if unset and type(item) is dict
        else _terse(item)
        for item in value
    ]


def new(_args: Args, _handle: Handle) -> KeepOldForm:
    """Build the plugin."""
    return KeepOldForm()


SPEC: Final = PluginSpec(name=NAME, build=new)
