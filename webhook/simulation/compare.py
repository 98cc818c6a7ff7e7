"""What differs between two answers about one TrainJob."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from plugins.framework import values

if TYPE_CHECKING:
    from webhook.simulation.judged import Judged, Leaves, Said

What = Literal[
    "newly refused",
    "no longer refused",
    "refused otherwise",
    "newly changed",
    "no longer changed",
    "changed otherwise",
    "newly warned",
    "no longer warned",
    "pods differ",
]
ORDER: Final[tuple[What, ...]] = (
    "newly refused",
    "refused otherwise",
    "no longer refused",
    "newly changed",
    "changed otherwise",
    "no longer changed",
    "pods differ",
    "newly warned",
    "no longer warned",
)
"""The worst first."""

NOT_KNOWN: Final = "the user's own value, which is not stored"

_KNOWN_BY: Final = ("name", "manager")
"""Fields by which the path of an item names it: ``containers[node]``."""
_ITEM_END: Final = re.compile(r"(?<=\])\.")

_NOTHING: Final = object()
_SPOKEN: Final = ("newly warned", "no longer warned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that would be otherwise."""

    what: What
    by: str
    """``policy/rule``, ``policy``, a plugin, or "" of the engine's own rules."""
    text: str = ""
    """What is said, with refusals and warnings."""
    path: str = ""
    """Which field, with changes."""
    before: Any = None
    after: Any = None
    """Its value now and then; None where there is none."""


def compare(asked: Leaves, now: Judged, then: Judged) -> list[Difference]:
    """What the second answer says otherwise than the first, about a job that was asked for so; the worst first."""
    found = [*_refusals(now, then)]
    if then.allowed:
        found += _spoken(now.warnings, then.warnings, _SPOKEN)
    if now.allowed and then.allowed:
        found += _changes(asked, now, then)
    return sorted(found, key=lambda d: (ORDER.index(d.what), d.by, d.path, d.text))


def _refusals(now: Judged, then: Judged) -> Iterator[Difference]:
    if now.allowed or then.allowed:
        yield from _spoken(now.refusals, then.refusals, ("newly refused", "no longer refused"))
    else:
        both = ("refused otherwise", "refused otherwise")
        yield from (d for d in _spoken(now.refusals, then.refusals, both) if d.after is not None)


def _spoken(
    now: Sequence[Said], then: Sequence[Said], words: Sequence[Any]
) -> Iterator[Difference]:
    """What only one of the two says."""
    for said in dict.fromkeys(then):
        if said not in now:
            yield Difference(what=words[0], by=said.by, text=said.text, after=said.text)
    for said in dict.fromkeys(now):
        if said not in then:
            yield Difference(what=words[1], by=said.by, text=said.text, before=said.text)


def _changes(asked: Leaves, now: Judged, then: Judged) -> Iterator[Difference]:
    differing = _differing(now.leaves, then.leaves)
    for path in _telling(differing, now.leaves, then.leaves):
        before, after = now.leaves.get(path), then.leaves.get(path)
        what: What = "changed otherwise"
        by = then.writer(path)
        if _is_same(asked, now.leaves, path):
            what = "newly changed"
        elif _is_same(asked, then.leaves, path):
            what, by = "no longer changed", now.writer(path)
        yield Difference(
            what=what, by=by or now.writer(path), path=path, before=before, after=after
        )
    for path in now.forced.keys() - then.forced.keys() - set(differing):
        yield Difference(
            what="no longer changed",
            by=now.forced[path],
            path=path,
            before=now.leaves.get(path),
            text=NOT_KNOWN,
        )


def _differing(now: Leaves, then: Leaves) -> list[str]:
    return [path for path in dict.fromkeys((*now, *then)) if not _is_same(now, then, path)]


def _telling(differing: Sequence[str], now: Leaves, then: Leaves) -> Iterator[str]:
    """Without what items of lists are known by, where another field of the item differs and names it already."""
    items = Counter(path[: at.start()] for path in differing for at in _ITEM_END.finditer(path))
    for path in differing:
        item, _, field = path.rpartition(".")
        known_by = then.get(path, now.get(path))
        is_known = field in _KNOWN_BY and item.endswith(f"[{known_by}]")
        if not is_known or items[item] == 1:
            yield path


def _is_same(left: Leaves, right: Leaves, path: str) -> bool:
    one, other = left.get(path, _NOTHING), right.get(path, _NOTHING)
    return one is other or (_NOTHING not in (one, other) and values.same(one, other))


def compare_pods(now: Leaves, then: Leaves, runtime: str) -> list[Difference]:
    """What a changed runtime does to the objects that the Trainer would make."""
    return [
        Difference(
            what="pods differ", by=runtime, path=path, before=now.get(path), after=then.get(path)
        )
        for path in _telling(_differing(now, then), now, then)
    ]
