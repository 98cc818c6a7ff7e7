"""What a TrainJob's pods need together: per job, all at once, and at the peak of what runs at one time.

A job is over before another starts if a chain of ``dependsOn`` leads from the later back to the earlier and
its last link, the one that names the earlier, says ``Complete``; with ``Ready`` the earlier still runs
(resource-totals, 6.5). Being over before is an order: the chains of two such steps join to one. So the jobs
that can run at one time are the sets in which no two are ordered, and the peak is the heaviest of these. A
handful of jobs has a handful of such sets, and each is tried; where there are too many (50 initializers,
each with its own successor, make 2^50) weighted Dilworth finds the heaviest through a flow, just as exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

from plugins.framework.quantity import DECIMAL_SI, Quantity, add, fits_int64, mul

if TYPE_CHECKING:
    from plugins.framework.info import Info

COMPLETE: Final = "Complete"
"""The status of a ``dependsOn`` link whose target has ended when the dependent starts."""

MOST_SETS: Final = 32
"""Sets of jobs tried one by one. About the number from which the flow is the faster way."""
MOST_PEAKS: Final = 1000
"""Jobs times resource names up to which every peak is worked out. A peak over 100 jobs, the most that the
CRD takes, costs up to 20 ms, so the worst runtime costs 0.2 s; real ones have 3 jobs and 5 names."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One replicated job, as far as totals need it."""

    name: str
    count: int
    """Pods of all replicas: replicas x min(parallelism, completions)."""
    requests: Mapping[str, Quantity]
    """Effective requests of one pod."""
    depends_on: tuple[tuple[str, str], ...] = ()
    """Name and status (``Ready`` or ``Complete``) of each job that must get there first."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Pods and amounts of a TrainJob; shared by jobs of a runtime that ask for the same."""

    members: int
    """The most pods that can exist at one time."""
    resources: Mapping[str, Quantity]
    """Per resource, the most that can be asked for at one time; two resources may peak at different times."""
    exact: bool
    """False if there were more than `MOST_PEAKS`: ``resources`` then is the sum over all jobs, an upper bound."""
    per_part: Mapping[str, Mapping[str, Quantity]]
    """All pods of one job together, by the name of the job."""
    too_large: tuple[str, str] | None = None
    """The first amount that no int64 holds: the job, "" for all together, and the resource."""
    memo: dict[str, Any] = {}
    """What follows from them alone, by the names of plugins."""


_NOTE: Final = "totals"
"""Where a resolved job keeps its totals: the annotation, limits and expressions ask for the same numbers."""

_MOST_KEPT: Final = 64
"""Totals that a runtime keeps: its jobs mostly ask for the same few."""
_LONGEST_KEPT: Final = 1024
"""Bytes of the resources of a job whose totals are kept."""


def of(info: Info) -> Totals:
    """The totals of a resolved job, per pod set and for what can run at one time; worked out once a job.

    Raises QuantityError where an amount of the runtime cannot be read.
    """
    kept: Totals | None = info.notes.get(_NOTE)
    if kept is None:
        kept = info.notes[_NOTE] = _of(info)
    return kept


def _of(info: Info) -> Totals:
    """They follow from the runtime's jobs, their counts, and the one set of resources that a TrainJob may give."""
    asked = orjson.dumps([p.node_resources for p in info.pod_sets])
    bases, has_more = [p.base for p in info.pod_sets], any(p.extra_init for p in info.pod_sets)
    if has_more or bases != [*info.runtime.jobs] or len(asked) > _LONGEST_KEPT:
        return _added_up(info)
    known: dict[Any, Totals] = info.runtime.memo.setdefault(_NOTE, {})
    key = (info.facts.digest, asked, *[p.pods for p in info.pod_sets])
    found = known.get(key)
    if found is None:
        found = _added_up(info)
        if len(known) >= _MOST_KEPT:
            known.clear()
        known[key] = found
    return found


def _added_up(info: Info) -> Totals:
    return totals(
        [
            Part(name=p.name, count=p.pods, requests=p.requests, depends_on=p.base.depends_on)
            for p in info.pod_sets
        ]
    )


def totals(parts: Sequence[Part]) -> Totals:
    """Add up the jobs of one TrainJob, in the order in which the JobSet lists them.

    Exact for any number of jobs, save for the bound of `MOST_PEAKS`. Amounts must not be negative
    (`resources.problems` finds those).
    """
    amounts = [{n: mul(amount, p.count) for n, amount in p.requests.items()} for p in parts]
    counts = [part.count for part in parts]
    everything: dict[str, Quantity] = {}
    for part_amounts in amounts:
        for name, amount in part_amounts.items():
            kept = everything.get(name)
            everything[name] = amount if kept is None else add(kept, amount)
    members, peak, exact = sum(counts), everything, True
    later = _later(parts)
    if any(later):
        sets = _sets(later)
        members = sum(counts[i] for i in _heaviest(counts, later, sets))
        exact = bool(sets) or len(parts) * len(everything) <= MOST_PEAKS
        if exact:
            peak = {name: _peak(name, amounts, later=later, sets=sets) for name in everything}
    per_part = {part.name: own for part, own in zip(parts, amounts, strict=True)}
    too_large = (
        (part, name)
        for part, asked in (("", peak), *per_part.items())
        for name, amount in asked.items()
        if not fits_int64(name, amount)
    )
    return Totals(
        members=members,
        resources=peak,
        exact=exact,
        per_part=per_part,
        too_large=next(too_large, None),
    )


def _peak(
    name: str,
    amounts: Sequence[Mapping[str, Quantity]],
    *,
    later: Sequence[int],
    sets: Sequence[Sequence[int]],
) -> Quantity:
    """The most of one resource at one time. Its format follows the jobs of that time, as listed."""
    weights = [own[name].nano if name in own else 0 for own in amounts]
    total = Quantity(0, DECIMAL_SI)
    for i in _heaviest(weights, later, sets):
        if name in amounts[i]:
            total = add(total, amounts[i][name])
    return total


def _later(parts: Sequence[Part]) -> list[int]:
    """Per job, as bits, the jobs that start only after it is over.

    Links to a later or unknown job, or to itself, count for nothing: JobSet refuses the former and never
    starts the latter. Without them there is no cycle, and the peak can only become larger.
    """
    before: list[int] = []  # per job, as bits, the jobs over when it starts
    later = [0] * len(parts)
    places: dict[str, int] = {}
    for i, part in enumerate(parts):
        over = 0
        for name, status in part.depends_on:
            place = places.get(name)
            if place is not None:
                over |= before[place] | (1 << place if status == COMPLETE else 0)
        before.append(over)
        for place in _bits(over):
            later[place] |= 1 << i
        places[part.name] = i
    return later


def _sets(later: Sequence[int]) -> list[list[int]]:
    """All sets of jobs that can run at one time and take no other job in; none if they are too many.

    (Some are parts of others: that costs a little time and changes nothing.)
    """
    sets = [0]
    for i, after in enumerate(later):
        ordered = after | sum(1 << j for j in range(i) if later[j] >> i & 1)
        with_it = [chosen & ~ordered | 1 << i for chosen in sets]
        without = [chosen for chosen in sets if chosen & ordered]
        sets = list(dict.fromkeys(with_it + without))
        if len(sets) > MOST_SETS:
            return []
    return [_bits(chosen) for chosen in sets]


def _heaviest(
    weights: Sequence[int], later: Sequence[int], sets: Sequence[Sequence[int]]
) -> Sequence[int]:
    """The heaviest of the sets (the first, of equals); by the flow if there are none to try."""
    if sets:
        return max(sets, key=lambda chosen: sum([weights[i] for i in chosen]))
    active = sum(1 << i for i, weight in enumerate(weights) if weight > 0)
    after = {i: later[i] & active for i in _bits(active)}
    flow = _Flow(weights, after)
    while flow.augment():
        pass
    return [i for i in after if flow.ends >> i & 1 and not flow.starts >> i & 1]


class _Flow:
    """Ends of jobs matched to starts of later ones, along shortest augmenting paths.

    Every unit of weight is covered by a chain of successive jobs; a match joins two chains. As few chains as
    possible are as many as the heaviest set weighs, and the minimum cut shows that set (Dilworth, weighted):
    the jobs whose end the last search reached and whose start it did not.
    """

    __slots__ = ("after", "ends", "free_ends", "free_starts", "matched", "starts")

    def __init__(self, weights: Sequence[int], after: Mapping[int, int]) -> None:
        """Begin with nothing matched."""
        self.after = after
        self.free_ends = {i: weights[i] for i in after}
        self.free_starts = {i: weights[i] for i in after}
        self.matched: dict[int, dict[int, int]] = {i: {} for i in after}
        """Units by the later job, then the earlier."""
        self.ends = 0
        """Bits of the jobs whose end the last search reached."""
        self.starts = 0
        """The same of their starts."""

    def augment(self) -> bool:
        """Match more along one shortest path from a free end to a free start; False if there is none."""
        queue = [i for i, free in self.free_ends.items() if free]
        self.ends, self.starts = sum(1 << i for i in queue), 0
        came_from: dict[int, int] = {}  # the end that first reached a start
        turned_at: dict[int, int] = {}  # the start by whose match an end was reached
        for end in queue:
            new = self.after[end] & ~self.starts
            self.starts |= new
            for start in _bits(new):
                came_from[start] = end
                if self.free_starts[start]:
                    self._match(start, came_from, turned_at)
                    return True
                for other in self.matched[start]:
                    if not self.ends >> other & 1:
                        self.ends |= 1 << other
                        turned_at[other] = start
                        queue.append(other)
        return False

    def _match(
        self, start: int, came_from: Mapping[int, int], turned_at: Mapping[int, int]
    ) -> None:
        """Move as much as the path that ends at ``start`` can take."""
        path = [(came_from[start], start)]
        while (turn := turned_at.get(path[-1][0])) is not None:
            path.append((came_from[turn], turn))
        undone = [(end, turn) for (end, _), (_, turn) in pairwise(path)]
        amount = min(
            self.free_starts[start],
            self.free_ends[path[-1][0]],
            *(self.matched[turn][end] for end, turn in undone),
        )
        self.free_starts[start] -= amount
        self.free_ends[path[-1][0]] -= amount
        for end, begun in path:
            self.matched[begun][end] = self.matched[begun].get(end, 0) + amount
        for end, turn in undone:
            self.matched[turn][end] -= amount
            if not self.matched[turn][end]:
                del self.matched[turn][end]


def _bits(mask: int) -> list[int]:
    """The places of the ones in a number, lowest first."""
    places = []
    while mask:
        low = mask & -mask
        places.append(low.bit_length() - 1)
        mask ^= low
    return places
