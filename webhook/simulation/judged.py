"""What admission makes of one TrainJob, in a form in which two answers can be laid side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugins.framework import applied
from plugins.framework.api import names
from plugins.framework.field import Key, Path, Segment, path_of
from policies import walk
from policies.placing import announced
from policies.writes import Item

if TYPE_CHECKING:
    from policies.trace import Trace
    from webhook.offline import Outcome

_KEYS: Final = ("name", "manager")
"""What items of lists are known by."""
_KINDS_OF_NOTES: Final = frozenset(names.OUR_ANNOTATIONS)

Leaves = Mapping[str, Any]
"""Path, as messages show it -> value."""


class Said(NamedTuple):
    """A refusal or a warning, and whose it is: ``policy/rule``, ``policy``, or "" of the engine's own rules."""

    by: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One answer."""

    refusals: tuple[Said, ...] = ()
    """Why it is refused; empty where it is not."""
    warnings: tuple[Said, ...] = ()
    """Rules of policies that the job breaks and that only warn or audit, what is announced, what is passed over."""
    leaves: Leaves = field(default_factory=dict)
    """The object as it is then; empty where it is refused."""
    writers: Leaves = field(default_factory=dict)
    """Path of what was changed -> who changed it."""
    forced: Mapping[str, str] = field(default_factory=dict)
    """Path -> policy, of the values that overrides put in the place of the user's."""

    @property
    def allowed(self) -> bool:
        """Whether nothing refuses it."""
        return not self.refusals

    def writer(self, path: str) -> str:
        """Who wrote what stands at a path, or what it is in; "" where nobody did."""
        found = max((at for at in self.writers if _holds(at, path)), key=len, default=None)
        return "" if found is None else str(self.writers[found])


def _holds(outer: str, path: str) -> bool:
    return path == outer or (path.startswith(outer) and path[len(outer)] in ".[")


def judged(outcome: Outcome, traces: Sequence[Trace]) -> Judged:
    """The answer that the two calls came to."""
    errors = outcome.findings.errors
    refusals = tuple(Said(error.origin, str(replace(error, origin=""))) for error in errors)
    if not outcome.allowed or outcome.after is None:
        return Judged(refusals=refusals, warnings=tuple(_warnings(traces)))
    after = outcome.after
    return Judged(
        warnings=tuple(_warnings(traces)),
        leaves=flattened(after),
        writers=dict(_writers(outcome)),
        forced=_forced(after),
    )


def _warnings(traces: Sequence[Trace]) -> Iterator[Said]:
    told: dict[Said, None] = {}
    last = next((trace for trace in reversed(traces) if trace.view is not None), None)
    for key, rules in last.rules.items() if last is not None else ():
        for ruled in rules:
            if ruled.outcome == "broken" and "Deny" not in ruled.actions:
                how = ", ".join(ruled.actions) or "no actions"
                for error in ruled.errors:
                    told[Said(f"{key}/{ruled.name}", f"({how}) {error}")] = None
    for trace in traces:
        for wrote in trace.wrote:
            if wrote.is_announced:
                told[Said(wrote.effect.by, announced(wrote.effect))] = None
        for key, faults in trace.faults.items():
            for fault in faults:
                told[Said(str(key), f"fault: {fault}")] = None
    yield from told


def _forced(after: Mapping[str, Any]) -> dict[str, str]:
    out: dict[str, str] = {}
    for at, mark in applied.read(dict(after)).items():
        who = mark.rpartition(":")[0]
        steps = walk.steps_of(after, at)
        if steps and who.startswith(applied.POLICY) and who.endswith(applied.FORCED):
            path = _text([Key(s.value) if isinstance(s, Item) else s for s in steps])
            out[path] = who.removeprefix(applied.POLICY).removesuffix(applied.FORCED)
    return out


def _writers(outcome: Outcome) -> Iterator[tuple[str, str]]:
    for change in outcome.changes:
        yield shown(outcome.after, change.path, change.after), change.by


# Paths


def flattened(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a TrainJob by their paths, without its status and what we note down in it."""
    out: dict[str, Any] = {}
    for part, value in applied.stable(dict(raw)).items():  # amounts by what they are worth
        if part != "status":
            out.update(_leaves((part,), value))
    return out


def _leaves(steps: tuple[Segment, ...], value: Any) -> Iterator[tuple[str, Any]]:
    """Objects, and lists whose items have names, are taken apart; any other list is one value."""
    if type(value) is dict and value:
        for key, item in value.items():
            is_note = steps == ("metadata", "annotations") and key in _KINDS_OF_NOTES
            if not is_note and (steps, key) != (("metadata",), "managedFields"):
                yield from _leaves((*steps, key), item)
        return
    key = _key(value)
    if key:
        for item in value:
            yield from _leaves((*steps, Key(item[key])), item)
        return
    yield _text(steps), value


def _key(value: Any) -> str:
    """By which field the items of a list are known, if they are: all have it, each another."""
    if type(value) is not list or not value:
        return ""
    for key in _KEYS:
        found = [item.get(key) if type(item) is dict else None for item in value]
        if all(type(name) is str for name in found) and len(set(found)) == len(found):
            return key
    return ""


def shown(raw: Any, path: Sequence[str | int], after: Any) -> str:
    """A path with indexes as the same with names. ``after`` is what was put at its end, which may have moved since."""
    steps: list[Segment] = []
    node: Any = raw
    for depth, step in enumerate(path):
        name: Segment = step
        if type(step) is int:
            key = _key(node)
            item = node[step] if type(node) is list and -1 < step < len(node) else None
            if depth == len(path) - 1 and type(after) is dict:
                item, key = after, key or next((k for k in _KEYS if k in after), "")
            if key and type(item) is dict and type(item.get(key)) is str:
                name = Key(item[key])
            node = item
        else:
            node = node.get(step) if type(node) is dict else None
        steps.append(name)
    return _text(steps)


def _text(steps: Sequence[Segment]) -> str:
    """As messages show it: keys that can be no field's name in brackets, as names of items are."""
    return str(
        Path(
            *(
                part
                for step in steps
                for part in (path_of([step]) if type(step) is str else (step,))
            )
        )
    )
