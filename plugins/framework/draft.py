"""The raw TrainJob being edited in place: each edit is recorded and knows who made it.

Nothing is copied and nothing is compared at the end: a plugin writes through the Draft, which changes the
object and remembers the operation. The record becomes the JSON Patch of the answer, the reasons that
``stationmaster explain`` shows, and the pointers of the ``stationmaster.dev/applied`` annotation.

An edit inside something that this Draft itself put there needs no operation of its own: the operation that
added the parent renders the parent as it is at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from plugins.framework import applied, field, values

if TYPE_CHECKING:
    from plugins.framework.field import Path
    from plugins.framework.info import Info
    from plugins.framework.runtime import CompiledRuntime

Op = Literal["add", "replace", "remove"]

_FOR_GOOD: Final = -1

ABSENT: Final = object()
"""What a change says of a place where nothing was."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded edit: where, by whom, from what, to what (``ABSENT`` for nothing)."""

    path: tuple[str | int, ...]
    by: str
    before: Any
    after: Any

    @property
    def pointer(self) -> str:
        """The JSON Pointer of the place."""
        return field.pointer(self.path)


class _Operation:
    """One operation of the patch. Its value is read from the object when the patch is rendered."""

    __slots__ = ("before", "container", "key", "op", "pointer")

    def __init__(self, op: Op, pointer: str, container: Any, key: str | int, before: Any) -> None:
        self.op: Op = op
        self.pointer = pointer
        self.container = container
        self.key = key
        self.before = before


class _Editing:
    """Who edits a Draft for the length of a block. A class, since each plugin has its turn in each review."""

    __slots__ = ("_draft", "_previous", "_who")

    def __init__(self, draft: Draft, who: str) -> None:
        self._draft = draft
        self._who = who
        self._previous = ""

    def __enter__(self) -> None:
        draft = self._draft
        self._previous, draft._by = draft._by, self._who  # noqa: SLF001  # a part of it

    def __exit__(self, *_: object) -> None:
        self._draft._by = self._previous  # noqa: SLF001


class Draft:
    """A raw object under edit.

    ``raw`` is the object itself and is changed in place. ``by`` is whoever edits now; the Pipeline sets it.
    Every writing method takes the place as a ``Path``, builds missing or null parents, skips what would
    change nothing (types compared exactly) and returns whether anything changed.
    """

    __slots__ = (
        "_by",
        "_claims",
        "_info",
        "_operations",
        "_ours",
        "_resolver",
        "_slots",
        "changes",
        "memory",
        "raw",
        "record",
        "revision",
        "runtime",
    )

    def __init__(
        self,
        raw: dict[str, Any],
        *,
        runtime: CompiledRuntime | None = None,
        resolver: Callable[[dict[str, Any]], Info] | None = None,
    ) -> None:
        """Start to edit ``raw``, which stays the caller's; ``resolver`` makes ``info`` when it is asked for."""
        self.raw = raw
        self.runtime = runtime
        self.record: dict[str, str] = {}
        """Pointer -> ``<who>:<hash of the value>`` of what we wrote, for the applied annotation."""
        self.changes: list[Change] = []
        self.memory: dict[str, Any] = {}
        """What whoever edits keeps for its next turn in the same call, by its name."""
        self._resolver = resolver
        self._info: tuple[int, Info] | None = None
        self._claims: dict[str, str] | None = None
        self.revision = 0
        self._by = ""
        self._operations: list[_Operation] = []
        self._ours: dict[int, Any] = {}
        self._slots: dict[tuple[int, str | int], _Operation] = {}

    def by(self, who: str) -> _Editing:
        """Edits inside this block are recorded as made by ``who``."""
        return _Editing(self, who)

    @property
    def info(self) -> Info:
        """The job resolved as the draft is now; made at most once per revision."""
        if self._info is None or self._info[0] not in {self.revision, _FOR_GOOD}:
            if self._resolver is None:
                raise LookupError("this draft has no runtime to be resolved against")
            self._info = (self.revision, self._resolver(self.raw))
        return self._info[1]

    def keep_info(self) -> None:
        """What comes now writes annotations only, which nothing is resolved from."""
        if self._info is not None:
            self._info = (_FOR_GOOD, self._info[1])

    @property
    def claims(self) -> dict[str, str]:
        """What the object's own annotation says that we wrote: proof of nothing until the value agrees."""
        if self._claims is None:
            self._claims = applied.read(self.raw)
        return self._claims

    def default(self, path: Path, value: Any) -> bool:
        """Write a value where nothing stands, and remember that it is ours.

        Where the value stands already and the object says that we wrote it (a reinvocation of the same
        request), the memory is kept; a claim that does not match what we would write is forgotten. What the same
        editor wrote earlier in this call is replaced: what it follows from may have changed since.
        """
        current = self.get(path)
        if current is None:
            if not self.set(path, value):
                return False
            self.record[path.pointer] = applied.mark(self._by, value)
            return True
        mark = applied.mark(self._by, value)
        if self._is_own(path, current) and not values.same(current, value):
            self.record[path.pointer] = mark
            return self.set(path, value)
        self.confirm(path, value)
        return False

    def confirm(self, path: Path, value: Any) -> None:
        """Keep the memory of a value that was written before us and is the one that we would write.

        For what this plugin writes under another profile: while one is rolled out, replicas of both are asked
        about the same new object, and what one has written is not the user's to the other.
        """
        claim = self.claims.get(path.pointer)
        if claim is None:
            return
        current, mark = self.get(path), applied.mark(self._by, value)
        if claim == mark and (
            applied.mark(self._by, current) == mark or _is_filled(value, current)
        ):
            self.record[path.pointer] = mark

    def undo_default(self, path: Path) -> bool:
        """Take away what ``default`` put there in this call, by the same editor; nothing else."""
        if not self._is_own(path, self.get(path)):
            return False
        del self.record[path.pointer]
        return self.remove(path)

    def _is_own(self, path: Path, current: Any) -> bool:
        entry = self.record.get(path.pointer)
        return entry is not None and entry == applied.mark(self._by, current)

    def default_item(self, path: Path, key: str, item: dict[str, Any]) -> bool:
        """Append an item to a list that the API keys by ``key``, unless one of its name is there.

        It is remembered as ``default`` remembers a value, under the list's pointer and the name.
        """
        at = path.key(item[key])
        mark = applied.mark(self._by, item)
        for current in values.objects(self.get(path)):
            if current.get(key) == item[key]:
                ours = applied.mark(self._by, current) == mark
                if ours and self.claims.get(at.pointer) == mark:
                    self.record[at.pointer] = mark
                return False
        if not self.append(path, item):
            return False
        self.record[at.pointer] = mark
        return True

    def get(self, path: Path) -> Any:
        """What stands at the path, or None."""
        node: Any = self.raw
        for step in path.steps:
            if type(node) is dict:
                node = node.get(step)
            elif type(node) is list and type(step) is int and -1 < step < len(node):
                node = node[step]
            else:
                return None
        return node

    def set(self, path: Path, value: Any) -> bool:
        """Put a value at a place, whatever was there. Returns False where it already was so."""
        container, key, ours = self._parent(path.steps)
        if container is None:
            return False
        before = self._read(container, key)
        if before is not ABSENT and values.same(before, value):
            return False
        value = values.copy(value)
        container[key] = value
        if not ours:
            self._record(
                "replace" if before is not ABSENT else "add", path.steps, container, key, before
            )
        self._own(value)
        self._note(path.steps, before, value)
        return True

    def setdefault(self, path: Path, value: Any) -> bool:
        """Put a value only where nothing (or null) stands."""
        current = self.get(path)
        return current is None and self.set(path, value)

    def remove(self, path: Path) -> bool:
        """Take away what stands at a place. Returns False where nothing does."""
        steps = path.steps
        node: Any = self.raw
        ours = False
        for step in steps[:-1]:
            ours = ours or id(node) in self._ours
            node = self._read(node, step)
            if node is ABSENT:
                return False
        ours = ours or id(node) in self._ours
        before = self._read(node, steps[-1])
        if before is ABSENT:
            return False
        key = steps[-1]
        del node[key]
        if not ours:
            self._forget_or_remove(steps, node, key, before)
        self._note(steps, before, ABSENT)
        return True

    def append(self, path: Path, value: Any) -> bool:
        """Append an item to the list at a place (the list is made where there is none)."""
        target = self.get(path)
        if type(target) is not list:
            return self.set(path, [value])
        return self.insert(path, len(target), value)

    def insert(self, path: Path, index: int, value: Any) -> bool:
        """Insert an item into the list at a place; at its end it is written as ``/-``."""
        target, ours = self._list(path)
        if target is None:
            return self.set(path, [value])
        value = values.copy(value)
        end = index >= len(target)
        if not ours:
            pointer = field.pointer(path.steps) + ("/-" if end else f"/{index}")
            self._operations.append(_Operation("add", pointer, [value], 0, ABSENT))
        target.insert(index, value)
        self._own(value)
        self._note((*path.steps, len(target) - 1 if end else index), ABSENT, value)
        return True

    def patch(self) -> list[dict[str, Any]]:
        """The record as JSON Patch (RFC 6902), minimal: nothing that would change nothing is in it."""
        out: list[dict[str, Any]] = []
        for operation in self._operations:
            if operation.op == "remove":
                out.append({"op": "remove", "path": operation.pointer})
                continue
            value = operation.container[operation.key]
            if operation.op == "replace" and values.same(value, operation.before):
                continue
            out.append({"op": operation.op, "path": operation.pointer, "value": value})
        return out

    @property
    def changed(self) -> bool:
        """Whether anything was edited at all."""
        return bool(self._operations)

    def _note(self, path: tuple[str | int, ...], before: Any, after: Any) -> None:
        self.revision += 1
        self.changes.append(Change(path=path, by=self._by, before=before, after=after))

    def _own(self, value: Any) -> None:
        """Remember what we put in, by identity: edits below it need no operation."""
        if type(value) is dict:
            self._ours[id(value)] = value
            for item in value.values():
                self._own(item)
        elif type(value) is list:
            self._ours[id(value)] = value
            for item in value:
                self._own(item)

    @staticmethod
    def _read(container: Any, key: str | int) -> Any:
        if type(container) is dict:
            return container.get(key, ABSENT)
        if type(container) is list and type(key) is int and -1 < key < len(container):
            return container[key]
        return ABSENT

    def _parent(self, steps: tuple[str | int, ...]) -> tuple[Any, str | int, bool]:
        """The container of the last step, made where it is missing or null; None where that cannot be.

        A scalar in the way cannot be written below, and an item of a list can only be written where it is.
        """
        node: Any = self.raw
        ours = False
        for depth, step in enumerate(steps[:-1]):
            child = self._read(node, step)
            if child is ABSENT or child is None:
                below = steps[depth:] if type(node) is dict else (0,)
                if any(type(name) is int for name in below):
                    return None, 0, False
                made: Any = {}
                node[step] = made
                if not ours:
                    op: Op = "add" if child is ABSENT else "replace"
                    self._record(op, steps[: depth + 1], node, step, child)
                self._ours[id(made)] = made
                child = made
            elif type(child) is not dict and type(child) is not list:
                return None, 0, False
            node = child
            ours = ours or id(node) in self._ours
        key = steps[-1]
        fits = type(node) is dict if type(key) is str else self._read(node, key) is not ABSENT
        return (node, key, ours) if fits else (None, 0, False)

    def _list(self, path: Path) -> tuple[list[Any] | None, bool]:
        node: Any = self.raw
        ours = id(node) in self._ours
        for step in path.steps:
            node = self._read(node, step)
            ours = ours or id(node) in self._ours
        return (node, ours) if type(node) is list else (None, False)

    def _record(
        self, op: Op, steps: tuple[str | int, ...], container: Any, key: str | int, before: Any
    ) -> None:
        if type(container) is list and type(key) is int:
            # Its index may be another's by the time the patch is rendered.
            self._operations.append(
                _Operation(op, field.pointer(steps), [container[key]], 0, before)
            )
            return
        slot = (id(container), key)
        earlier = self._slots.get(slot)
        if earlier is None:
            operation = _Operation(op, field.pointer(steps), container, key, before)
            self._operations.append(operation)
            self._slots[slot] = operation
        elif earlier.op == "remove":
            earlier.op = "replace"  # of what stood there before: the same value again is no change

    def _forget_or_remove(
        self, steps: tuple[str | int, ...], container: Any, key: str | int, before: Any
    ) -> None:
        slot = (id(container), key)
        earlier = self._slots.get(slot) if type(container) is dict else None
        if earlier is None:
            operation = _Operation("remove", field.pointer(steps), container, key, before)
            self._operations.append(operation)
            if type(container) is dict:
                self._slots[slot] = operation
        elif earlier.op == "add":
            self._operations.remove(earlier)
            del self._slots[slot]
        else:
            earlier.op = "remove"


def _is_filled(value: Any, current: Any) -> bool:
    """Whether an object that we put in empty has got fields since, ours or not: each has a claim of its own."""
    return value == {} and type(value) is dict and type(current) is dict
