"""Policies whose writes change what they, or each other, match by: rounds over them may never come to rest.

``request``, ``oldObject`` and ``params`` are nobody's to write. What counts as read is what decides about writes: match
conditions, the object selector, and the expressions of defaults and overrides; a limit or validation writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from plugins.framework import lines
from plugins.framework.field import Path, pointer
from policies import conflicts
from policies.cel.reads import ITEMS, PRESENCE
from policies.claims import Claim, claims_of
from policies.writes import Item

if TYPE_CHECKING:
    from policies.cel import ReadPath
    from policies.compile import CompiledPolicy
    from policies.document import Selector

_GENERATIONS: Final = tuple(sorted({line.generation for line in lines.LINES.values()}))
_POD: Final = ("podSets", ITEMS)
_CONTAINERS: Final = (*_POD, "spec", "containers")
_MOVES: Final[dict[str, tuple[ReadPath, ...]]] = {
    "numNodes": (("totals",), (*_POD, "count"), _CONTAINERS),
    "numProcPerNode": (_CONTAINERS,),
    "resourcesPerNode": (("totals", "requests"), (*_POD, "requests"), _CONTAINERS),
    "image": (_CONTAINERS,),
    "command": (_CONTAINERS,),
    "args": (_CONTAINERS,),
    "env": (_CONTAINERS,),
}
"""What of the resolved job moves with a field of ``spec.trainer``."""


class Read(NamedTuple):
    """One thing that decides about a policy's writes."""

    path: ReadPath
    at: Path
    """Where in the document it is read."""


class Feed(NamedTuple):
    """Two policies that feed each other, or one that feeds itself."""

    first: CompiledPolicy
    second: CompiledPolicy
    there: tuple[Claim, Read]
    """What the first writes, and where the second reads it."""
    back: tuple[Claim, Read]

    def path_in(self, of: CompiledPolicy) -> str:
        """Where the one reads what the other writes."""
        return str((self.back if of is self.first else self.there)[1].at)

    def text(self, of: CompiledPolicy) -> str:
        """What to think about, seen from one of the two."""
        if self.first is self.second:
            return (
                f"depends on {_name(self.there[1].path)}, which the policy itself writes ({self.there[0].path}): after "
                "the write it may no longer match, and rounds may not come to rest"
            )
        (mine, read), (theirs, own) = (
            (self.there, self.back) if of is self.first else (self.back, self.there)
        )
        other = self.second if of is self.first else self.first
        return (
            f"depends on {_name(own.path)}, which {other.key.kind} {other.key} writes ({theirs.path}), which in turn "
            f"depends on {_name(read.path)} ({read.at}), which this policy writes ({mine.path}): rounds may not come "
            "to rest"
        )


def feeds(policies: Iterable[CompiledPolicy]) -> Iterator[Feed]:
    """Each pair once, with one example for each direction; then those that feed themselves."""
    known = [
        (compiled, claims, reads)
        for compiled in policies
        if not compiled.own_problems
        and (claims := list(claims_of(compiled.policy)))
        and (reads := list(reads_of(compiled)))
    ]
    for i, (first, claims, reads) in enumerate(known):
        own = _touched(claims, reads)
        if own is not None:
            yield Feed(first, first, own, own)
        for second, other_claims, other_reads in known[i + 1 :]:
            there = _touched(claims, other_reads)
            back = None if there is None else _touched(other_claims, reads)
            if there is None or back is None:
                continue
            if not conflicts.are_apart(first.policy, second.policy):
                yield Feed(first, second, there, back)


def reads_of(compiled: CompiledPolicy) -> Iterator[Read]:
    """All that decides whether, and what, a policy writes."""
    policy = compiled.policy
    for key in _labels(policy.match.object_selector):
        yield Read(("object", "metadata", "labels", key), Path("spec", "match", "objectSelector"))
    expressions = [named.expression for named in policy.match_conditions]
    for option in (*policy.defaults, *policy.overrides):
        expressions += option.expressions()
    for expression in expressions:
        program = compiled.programs.get(expression.path)
        for path in sorted(program.reads) if program is not None else ():
            yield Read(path, expression.path)


def _labels(selector: Selector) -> Iterator[str]:
    for key, _ in selector.match_labels:
        yield key
    for requirement in selector.match_expressions:
        yield requirement.key


def _touched(claims: Iterable[Claim], reads: list[Read]) -> tuple[Claim, Read] | None:
    for claim in claims:
        places = list(_places(claim))
        for read in reads:
            if any(_meet(place, read.path) for place in places) or _is_owner(claim, read.path):
                return claim, read
    return None


def _places(claim: Claim) -> Iterator[ReadPath]:
    """Paths of CEL's variables that a write moves."""
    steps = tuple(ITEMS if isinstance(step, Item) else step for step in claim.steps)
    if claim.target is None and not claim.level:
        yield ("object", *steps)
        if steps[:2] == ("spec", "trainer"):
            yield from _MOVES.get(steps[2], ())
        elif steps[:2] == ("spec", "initializer"):
            yield _CONTAINERS
        return
    for generation in _GENERATIONS:
        yield ("object", "spec", generation)
    if claim.level == "JobSet":
        yield ("object", "spec", *steps[1:])
    elif not claim.level:
        yield (*_POD, *steps)


def _meet(place: ReadPath, read: ReadPath) -> bool:
    """Whether one lies in the other."""
    for mine, theirs in zip(place, read, strict=False):
        if theirs == PRESENCE:
            return True
        if mine != theirs and ITEMS not in {mine, theirs}:
            return False
    return True


def _is_owner(claim: Claim, read: ReadPath) -> bool:
    """Whether ``provenance`` of that place is read."""
    if read[0] != "provenance":
        return False
    if len(read) == 1 or read[1] in {ITEMS, PRESENCE}:
        return True
    own = pointer(step if isinstance(step, str) else step.value for step in claim.steps)
    return claim.target is None and (own == read[1] or read[1].startswith(f"{own}/"))


def _name(path: ReadPath) -> str:
    """``object.metadata.labels[team]``, ``podSets[].spec``."""
    out = path[0]
    free = False
    for step in path[1:]:
        if step == PRESENCE:
            break
        out += "[]" if step == ITEMS else f"[{step}]" if free else f".{step}"
        free = step in {"labels", "annotations", "requests", "limits", "nodeSelector"}
    return out
