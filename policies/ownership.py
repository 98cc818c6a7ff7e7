"""Who wrote what stands in a TrainJob: the user, a plugin, a default or an override of a policy.

Two records tell: the Draft's, of this call, and the one that came with the object (on UPDATE with the stored one), whose
claims count where they agree with the value. What stood at a place before a mode first wrote there is kept for the
length of the call, so that a later round of it can put it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugins.framework import applied, values
from policies.walk import leaves_of, pointer_of, read, steps_of
from policies.writes import Mode, Step

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.draft import Draft

_CLAIMS: Final = "policies/claims"


class Original(NamedTuple):
    """What stood at a place, and how it was recorded."""

    value: Any
    mark: str | None


class Ownership:
    """What one mode of policies knows of a draft."""

    def __init__(self, ctx: Context, draft: Draft, mode: Mode, *, writes: bool) -> None:
        """Look at the draft; ``writes`` False leaves its record alone."""
        self.ctx = ctx
        self.draft = draft
        self.mode: Mode = mode
        self.writes = writes
        self.claims = self._claims()
        """What was recorded before this call."""

    def _claims(self) -> dict[str, str]:
        """What was recorded before this call. On UPDATE only the stored object's record counts, and it goes on."""
        if not self.ctx.is_update:
            return self.draft.claims
        claims = applied.read(values.obj(self.ctx.request.old_object))
        if self.writes and _CLAIMS not in self.draft.memory:
            self.draft.memory[_CLAIMS] = claims
            for at, entry in claims.items():
                self.draft.record.setdefault(at, entry)
        return claims

    def owner(self, at: str, current: Any) -> str:
        """``user``, ``plugin``, ``defaults`` or ``overrides``: who wrote what stands there."""
        for record in (self.draft.record, self.claims):
            if not applied.explains(record, at, current):
                continue
            who = record[at].rpartition(":")[0]
            if not who.startswith(applied.POLICY):
                return "plugin"
            return "overrides" if who.endswith(applied.FORCED) else "defaults"
        if _is_below_plugin(self.draft, self.claims, at):
            return "plugin"
        return "user"

    def who(self, by: str) -> str:
        """How the record names policies of this mode."""
        return f"{applied.POLICY}{by}{applied.FORCED if self.mode == 'overrides' else ''}"

    def keep(self, at: str, current: Any) -> None:
        """Remember what the object's own record says of a value that stays."""
        if (
            self.writes
            and at not in self.draft.record
            and applied.explains(self.claims, at, current)
        ):
            self.draft.record[at] = self.claims[at]

    def original(self, at: str, current: Any) -> Any:
        """What stands there without what this mode wrote in this very call."""
        kept = self.originals(self.mode).get(at)
        return current if kept is None else kept.value

    def originals(self, mode: Mode) -> dict[str, Original]:
        """By pointer, what stood there before a mode first wrote in this call."""
        kept: dict[str, Original] = self.draft.memory.setdefault(f"policies/{mode}", {})
        return kept

    def remember(self, at: str, current: Any) -> None:
        """Before this mode writes to a place for the first time in this call."""
        kept = Original(current, self.draft.record.get(at))
        self.originals(self.mode).setdefault(at, kept)

    def split(self, at: str) -> None:
        """A recorded object that a policy now writes into is recorded by its leaves, or nothing would explain it."""
        for above, entry in list(self.draft.record.items()):
            if not at.startswith(f"{above}/"):
                continue
            steps = steps_of(self.draft.raw, above)
            whole = None if steps is None else read(self.draft.raw, steps)
            if type(whole) is not dict or not whole:
                continue
            del self.draft.record[above]
            who = entry.rpartition(":")[0]
            for below, leaf in leaves_of(above, whole):
                self.draft.record.setdefault(below, applied.mark_at(below, who, leaf))

    def carry(self, root: Sequence[Step]) -> None:
        """What an earlier call split below ``root`` stays recorded by its leaves."""
        if not self.claims:
            return
        prefix = f"{pointer_of(root)}/"
        for at, entry in self.claims.items():
            if at.startswith(prefix) and at not in self.draft.record:
                if entry.startswith(applied.POLICY):
                    continue
                steps = steps_of(self.draft.raw, at)
                current = None if steps is None else read(self.draft.raw, steps)
                if current is not None and applied.explains(self.claims, at, current):
                    self.draft.record[at] = entry


def same(at: str, one: Any, other: Any) -> bool:
    """Whether two values are the same there: amounts by value."""
    if values.same(one, other):
        return True
    return at.rpartition("/")[0].endswith(("/limits", "/requests")) and values.same(
        applied.canonical(one), applied.canonical(other)
    )


def _is_below_plugin(draft: Draft, claims: dict[str, str], at: str) -> bool:
    """Whether an object above the place was written whole by a plugin."""
    for record in (draft.record, claims):
        for above, entry in record.items():
            if not at.startswith(f"{above}/") or entry.startswith(applied.POLICY):
                continue
            steps = steps_of(draft.raw, above)
            whole = None if steps is None else read(draft.raw, steps)
            if whole and applied.explains(record, above, whole):
                return True
    return False
