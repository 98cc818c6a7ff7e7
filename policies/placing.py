"""Writes a Decision into the Draft: fields of the TrainJob, and one entry of overrides for each mode.

What is written is recorded in the annotation ``stationmaster.dev/applied`` (``plugins.framework.applied``), so that
the next call knows what is ours: a default yields to the user and may be changed or taken away later, what an
override forced stays forced. On its own output it changes nothing.

Order of entries is precedence: ours for defaults stands before the user's, ours for overrides after all but Kueue's
(trainer-semantics 3.1). On UPDATE only what may change is touched (6.3, 10.2): metadata, and our entries while the job
is suspended before or after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from plugins.framework import applied, values
from plugins.framework.draft import ABSENT, Draft
from plugins.framework.field import escape, pointer, show
from policies import entries
from policies.entry_list import is_entry_pointer
from policies.merging import UNSET, Decided, Decision, clamp, named
from policies.ownership import Original, Ownership, same
from policies.walk import (
    concrete,
    index_of,
    is_free_map,
    leaves_of,
    path_of_place,
    pointer_of,
    pointer_of_place,
    read,
    step_down,
    steps_of,
)
from policies.writes import Item, Mode, Place, Step

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from policies.document import Key
    from policies.entries import Unplaced

RESOURCES: Final = ("spec", "trainer", "resourcesPerNode")
_NODES: Final = ("spec", "trainer", "numNodes")
_DEADLINE: Final = ("spec", "activeDeadlineSeconds")
_SHOWN: Final = 48
"""Characters of a value in a warning, of which the API server passes 256 on."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One value that a policy writes: where, over what (ABSENT: nothing), and what."""

    place: Place
    before: Any
    after: Any
    keys: tuple[Key, ...]
    """The policies that it comes from."""
    replaces_users: bool = False
    """Whether the user had set another value there."""

    @property
    def by(self) -> str:
        """Who wrote it, as messages name it."""
        return named(self.keys)


class Placed(msgspec.Struct):
    """What came of a decision."""

    warnings: list[str] = []
    """One for each value of the user that an override replaced."""
    unplaced: list[Unplaced] = []
    effects: list[Effect] = []


def place(ctx: Context, draft: Draft, mode: Mode, decision: Decision) -> Placed:
    """Write a decision of one mode. The draft must have a runtime.

    Called once for each mode and round, defaults first, with everything that all policies want: what an earlier
    round wrote and this decision no longer holds is put back as the user had it, or taken away.
    """
    placer = _Placer(ctx, draft, mode, writes=True)
    placer.run(decision)
    return placer.placed


def foresee(ctx: Context, draft: Draft, mode: Mode, decision: Decision) -> list[Effect]:
    """What ``place`` would write; nothing is written."""
    placer = _Placer(ctx, draft, mode, writes=False)
    placer.run(decision)
    return placer.placed.effects


def announced(effect: Effect) -> str:
    """What a policy with ``mutate: Warn`` says of a value."""
    was = "" if effect.before is ABSENT else f" (now {_short(effect.before)})"
    text = f"policy {effect.by} would set {effect.place} to {_short(effect.after)}{was}"
    return escape(text)


def _short(value: Any) -> str:
    text = show(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


class _Placer:
    """One call: who owns what stands there, and what becomes of it."""

    def __init__(self, ctx: Context, draft: Draft, mode: Mode, *, writes: bool) -> None:
        self.ctx = ctx
        self.draft = draft
        self.mode: Mode = mode
        self.writes = writes
        self.placed = Placed()
        self.may_change = not ctx.is_update or entries.may_change(ctx, draft.raw)
        self.ours = Ownership(ctx, draft, mode, writes=writes)

    def run(self, decision: Decision) -> None:
        """Everything: fields first, then what is no longer wanted, then our entry."""
        of_job = [one for one in decision.decided if not one.place.is_of_pods]
        if not self.ctx.is_update:
            of_job += self._seeds(of_job)
        wanted = set()
        for one in of_job:
            if not self._is_touchable(one.place.steps):
                continue
            at = pointer_of_place(one.place)
            wanted.add(at)
            if self.mode == "defaults":
                self._default(one, at)
            else:
                self._override(one, at)
        if self.writes:
            self._withdraw(wanted)
            self.ours.carry(RESOURCES)
        of_pods = [one for one in decision.decided if one.place.is_of_pods]
        if self.may_change:
            self._entry(of_pods)

    def _is_touchable(self, steps: tuple[Step, ...]) -> bool:
        """On UPDATE: metadata alone; the rest is immutable, or the user's to change (``suspend``)."""
        return not self.ctx.is_update or steps[0] == "metadata"

    # Fields

    def _default(self, one: Decided, at: str) -> None:
        current = self._get(one.place.steps)
        if one.value is UNSET:
            return
        owner = "" if current is None else self.ours.owner(at, current)
        if owner == "overrides":
            self._default_below(one, at)
        if owner in {"user", "overrides"}:
            return
        self._write(one, at, current, one.value)

    def _default_below(self, one: Decided, at: str) -> None:
        """An override of an earlier round stands there: let it stand on this default, if on nothing of the user's."""
        kept = self.ours.originals("overrides").get(at)
        if kept is not None and (kept.value is None or kept.mark is not None):
            mark = applied.mark_at(at, self.ours.who(one.by), one.value)
            self.ours.originals("defaults").setdefault(at, kept)
            self.ours.originals("overrides")[at] = Original(one.value, mark)

    def _override(self, one: Decided, at: str) -> None:
        steps = one.place.steps
        current = self._get(steps)
        original = self.ours.original(at, current)
        value = one.value
        if value is UNSET:
            base = self._base(steps, original)
            value = None if base is None else clamp(base, one.low, one.high)
            if base is None and one.high is not None and steps == _DEADLINE:
                value = one.high
            if value is None or value == base:
                self._back(steps, at, current, original)
                return
        users = original is not None and self._is_users(at, original)
        if users and not same(at, original, value):
            self._warn(one, original, value)
        self._write(one, at, current, value, users=users)

    def _is_users(self, at: str, original: Any) -> bool:
        """Whether the user set it: no default, no plugin and no override of an earlier call."""
        kept = self.ours.originals("overrides").get(at)
        if kept is not None and kept.mark is not None:
            return False
        return self.ours.owner(at, original) == "user"

    def _base(self, steps: tuple[Step, ...], original: Any) -> int | None:
        """The number that a range is about: the user's or a default's, else what the runtime gives."""
        if type(original) is int:
            return original
        runtime = self.draft.runtime
        if original is None and steps == _NODES and runtime is not None:
            return max(runtime.num_nodes, 1)
        return None

    def _back(self, steps: tuple[Step, ...], at: str, current: Any, original: Any) -> None:
        """A range needs nothing here: what it wrote in an earlier round goes, what an earlier call wrote stays."""
        if not same(at, current, original) and self.writes:
            self._restore(steps, at)
        else:
            self.ours.keep(at, current)

    def _write(
        self, one: Decided, at: str, current: Any, value: Any, *, users: bool = False
    ) -> None:
        if current is not None and same(at, current, value):
            self.ours.keep(at, current)
            return
        if not self._may_write(one.place.steps, at, value):
            return
        before = ABSENT if current is None else current
        self.placed.effects.append(
            Effect(place=one.place, before=before, after=value, keys=one.keys, replaces_users=users)
        )
        if not self.writes:
            return
        self.ours.split(at)
        with self.draft.by(one.by):
            path = path_of_place(one.place)
            is_put = (
                self._put(one.place.steps, value) if path is None else self.draft.set(path, value)
            )
        if is_put:
            self.ours.remember(at, current)
            self.draft.record[at] = applied.mark_at(at, self.ours.who(one.by), value)

    def _may_write(self, steps: tuple[Step, ...], at: str, value: Any) -> bool:
        """On UPDATE of a job that is not suspended: only what the stored object had, by our record, comes back."""
        if self.may_change:
            return True
        stored = read(values.obj(self.ctx.request.old_object), steps)
        return (
            stored is not None
            and same(at, stored, value)
            and applied.explains(self.ours.claims, at, stored)
        )

    def _warn(self, one: Decided, before: Any, after: Any) -> None:
        text = f"policy {one.by} sets {one.place} to {_short(after)}; it was {_short(before)}"
        self.placed.warnings.append(escape(text))

    def _get(self, steps: Sequence[Step]) -> Any:
        return read(self.draft.raw, steps)

    def _put(self, steps: tuple[Step, ...], value: Any) -> bool:
        """Write; False where the object has another shape there, which is for the API server to name."""
        *above, last = steps
        path = concrete(self.draft.raw, above)
        if path is None:
            return False
        if not isinstance(last, Item):
            return self.draft.set(step_down(path, last, is_key=is_free_map(above)), value)
        holder = self.draft.get(path)
        index = index_of(holder, last)
        if index is not None:
            return self.draft.set(path.index(index), value)
        return (holder is None or type(holder) is list) and self.draft.append(path, value)

    # What is no longer wanted

    def _withdraw(self, wanted: set[str]) -> None:
        for at, entry in list(self.draft.record.items()):
            if not entry.startswith(applied.POLICY) or at in wanted or is_entry_pointer(at):
                continue
            who = entry.rpartition(":")[0]
            if who.endswith(applied.FORCED) != (self.mode == "overrides"):
                continue
            steps = steps_of(self.draft.raw, at)
            if steps is None:
                self.draft.record.pop(at)
            elif self._is_touchable(steps) and self.may_change:
                with self.draft.by(who.removeprefix(applied.POLICY).removesuffix(applied.FORCED)):
                    self._restore(steps, at)
        if self.mode == "defaults":
            self._withdraw_below(wanted)

    def _withdraw_below(self, wanted: set[str]) -> None:
        """Defaults that an override of an earlier round has replaced, and that nobody wants any more."""
        below = self.ours.originals("defaults")
        for at, kept in self.ours.originals("overrides").items():
            if at not in wanted and at in below and (kept.mark or "").startswith(applied.POLICY):
                self.ours.originals("overrides")[at] = below.pop(at)

    def _restore(self, steps: tuple[Step, ...], at: str) -> None:
        """Put back what stood there before this call, or take away what an earlier call wrote."""
        entry = self.draft.record.pop(at, None)
        current = self._get(steps)
        if entry is None or not applied.explains({at: entry}, at, current):
            return
        kept = self.ours.originals(self.mode).pop(at, None)
        if kept is not None and kept.mark is not None:
            self.draft.record[at] = kept.mark
        if kept is not None and kept.value is not None:
            self._put(steps, kept.value)
            return
        *above, last = steps
        path = concrete(self.draft.raw, above)
        if path is None:
            return
        if isinstance(last, Item):
            index = index_of(self.draft.get(path), last)
            if index is not None:
                self.draft.remove(path.index(index))
        else:
            self.draft.remove(step_down(path, last, is_key=is_free_map(above)))
        self._prune(above)

    def _prune(self, above: Sequence[Step]) -> None:
        """Parents that were made for the value go with it, if they are left empty and were not the user's."""
        steps = list(above)
        while len(steps) > 1:
            path = concrete(self.draft.raw, steps)
            if path is None or self.draft.get(path) not in ({}, []):
                return
            if (
                not any(
                    change.path[: len(path.steps)] == path.steps and change.before is ABSENT
                    for change in self.draft.changes
                )
                and not self.ctx.is_update
            ):
                return
            self.draft.remove(path)
            steps.pop()

    # Resources

    def _seeds(self, of_job: list[Decided]) -> list[Decided]:
        """The runtime's other resources beside those of policies, where the user set none.

        Until 2.2 ``resourcesPerNode`` replaces them; and on every line process counts follow it alone as soon as it
        is there, so that a default for memory would leave a node of eight GPUs with one process (semantics 2.6.2).
        """
        depth = len(RESOURCES)
        ours = [one for one in of_job if one.place.steps[:depth] == RESOURCES]
        runtime = self.draft.runtime
        if not ours or runtime is None:
            return []
        current = values.obj(self._get(RESOURCES))
        root = pointer(RESOURCES)
        if any(self.ours.owner(at, leaf) == "user" for at, leaf in leaves_of(root, current)):
            return []
        job = runtime.trainer_job
        node = job.container("node") if job is not None else None
        resources = values.obj((node or {}).get("resources"))
        known = {one.place for one in of_job}
        out = []
        for part in ("limits", "requests"):
            for name, amount in values.obj(resources.get(part)).items():
                place_ = Place(None, (*RESOURCES, part, name))
                there = values.at(current, part, name)
                at = pointer_of(place_.steps)
                is_open = there is None or (
                    self.ours.owner(at, there) == self.mode and self.ours.original(at, None) is None
                )
                if place_ not in known and is_open:
                    out.append(Decided(place=place_, value=amount, keys=ours[0].keys))
        return out

    # Pods

    def _entry(self, of_pods: list[Decided]) -> None:
        if not of_pods and not entries.may_be_ours(self.ctx, self.draft, self.ours.claims):
            return
        found = entries.plan(self.ctx, self.draft, self.mode, of_pods, self.ours.claims)
        self.placed.unplaced += found.unplaced
        for one, before, users in found.written:
            if users:
                self._warn(one, before, one.value)
            self.placed.effects.append(
                Effect(
                    place=one.place,
                    before=before,
                    after=one.value,
                    keys=one.keys,
                    replaces_users=users,
                )
            )
        if self.writes:
            entries.write(self.draft, self.mode, found)
