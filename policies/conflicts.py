"""Policies of equal priority that would fight over one place whatever the job: found when they are loaded.

Only what is certain is refused here: both are about exactly the same jobs, and both write a plain value. Everything else
is found per request (``merging``), and announced by lint (`likely`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, permutations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from plugins.framework import field as fields
from plugins.framework import values
from plugins.framework.field import FieldError, show
from policies.claims import COMPUTED, EVERY_JOB, Claim, Target, claims_of

if TYPE_CHECKING:
    from policies.compile import CompiledPolicy
    from policies.document import Policy, Selector

_BOUNDS: Final = {"min": "at least", "max": "at most"}
_WILD: Final = frozenset("*?")


class Pair(NamedTuple):
    """A claim of one policy, and that of another which cannot be met beside it."""

    first: CompiledPolicy
    second: CompiledPolicy
    one: Claim
    other: Claim

    @property
    def error(self) -> FieldError:
        """The same as an error of the first of the two."""
        other = self.other
        who = f"{self.second.key.kind} {self.second.key}"
        if other.rule in _BOUNDS:
            detail = (
                f"{who} is about the same jobs and wants {other} to be {_BOUNDS[other.rule]} {show(other.value)} "
                f"({other.path}): no number is in both ranges"
            )
        else:
            detail = (
                f"{who} has the same priority ({self.first.policy.priority}) and sets {other} to {show(other.value)} "
                f"({other.path}): give one of them a higher priority, or let only one say it"
            )
        return fields.invalid(self.one.path, self.one.value, detail)


def mark(policies: Iterable[CompiledPolicy]) -> None:
    """Make those whose matches are the same and whose values differ not Ready, both; and sound again what no longer is."""
    every = list(policies)
    found: dict[int, list[FieldError]] = {}
    for group in _groups(every, _signature):
        for pair in (*_of_group(group), *_of_ranges(group)):
            found.setdefault(id(pair.first), []).append(pair.error)
    for policy in every:
        policy.problems = (*policy.own_problems, *found.get(id(policy), ()))


def likely(policies: Iterable[CompiledPolicy]) -> Iterator[Pair]:
    """Pairs of which it depends on the job whether they are a conflict, seen from each of the two."""
    for group in _groups(policies, lambda policy: policy.priority):
        for claims in _by_place(group).values():
            for (first, one), (second, other) in permutations(claims, 2):
                if (
                    first is not second
                    and one.meets(other)
                    and not values.same(one.value, other.value)
                    and _signature(first.policy) != _signature(second.policy)
                    and not are_apart(first.policy, second.policy)
                ):
                    yield Pair(first, second, one, other)


def _groups(
    policies: Iterable[CompiledPolicy], alike: Callable[[Policy], Any]
) -> Iterator[list[CompiledPolicy]]:
    """Sound policies that write, with others of their kind."""
    groups: dict[Any, list[CompiledPolicy]] = {}
    for compiled in policies:
        policy = compiled.policy
        if not compiled.own_problems and (policy.defaults or policy.overrides) and _writes(policy):
            groups.setdefault(alike(policy), []).append(compiled)
    for group in groups.values():
        if len(group) > 1:
            yield group


Claimed = tuple["CompiledPolicy", Claim]


def _by_place(group: list[CompiledPolicy]) -> dict[Any, list[Claimed]]:
    """Every plain value that somebody sets."""
    claims: dict[Any, list[Claimed]] = {}
    for compiled in group:
        for claim in claims_of(compiled.policy):
            if claim.rule == "set" and claim.value is not COMPUTED:
                claims.setdefault(claim.where, []).append((compiled, claim))
    return claims


def _of_group(group: list[CompiledPolicy]) -> Iterator[Pair]:
    """For each claim one that stands against it; a thousand that all want something else are not a million errors."""
    for claims in _by_place(group).values():
        firsts: dict[Target | None, dict[bytes, Claimed]] = {}
        keyed = [(one, orjson.dumps(one[1].value, option=orjson.OPT_SORT_KEYS)) for one in claims]
        for one, value in keyed:
            firsts.setdefault(one[1].target, {}).setdefault(value, one)
        for (compiled, claim), value in keyed:
            if claim.target == EVERY_JOB:
                against = list(firsts.values())
            else:
                against = [firsts[t] for t in (claim.target, EVERY_JOB) if t in firsts]
            other = next(
                (
                    found
                    for by_value in against
                    for theirs, found in islice(by_value.items(), 3)
                    if theirs != value and found[0] is not compiled
                ),
                None,
            )
            if other is not None:
                yield Pair(compiled, other[0], claim, other[1])


def _of_ranges(group: list[CompiledPolicy]) -> Iterator[Pair]:
    """The highest minimum and the lowest maximum of a place, where no number is between them; each seen from the other."""
    bounds: dict[Any, dict[str, list[Claimed]]] = {}
    for compiled in group:
        for claim in claims_of(compiled.policy):
            if claim.rule in _BOUNDS and claim.value is not COMPUTED:
                sides = bounds.setdefault(claim.where, {"min": [], "max": []})
                sides[claim.rule].append((compiled, claim))
    for sides in bounds.values():
        low = max(sides["min"], key=_bound, default=None)
        high = min(sides["max"], key=_bound, default=None)
        if low and high and low[0] is not high[0] and _bound(low) > _bound(high):
            yield Pair(low[0], high[0], low[1], high[1])
            yield Pair(high[0], low[0], high[1], low[1])


def _bound(claimed: Claimed) -> int:
    bound: int = claimed[1].value
    return bound


def _writes(policy: Policy) -> bool:
    """Whether it writes anywhere, or announces only."""
    return policy.mutate == "Apply" or any(stage.mutate == "Apply" for stage in policy.rollout)


def _signature(policy: Policy) -> tuple[Any, ...]:
    """Equal for policies that are about the same jobs in the same way."""
    is_dynamic = bool(policy.match_conditions)
    return (
        policy.priority,
        policy.key.namespace,
        policy.match,
        tuple(condition.expression.text for condition in policy.match_conditions),
        tuple((v.name, v.expression.text) for v in policy.variables) if is_dynamic else (),
        repr(policy.params) if is_dynamic else "",
        policy.mutate,
        policy.rollout,
    )


def are_apart(one: Policy, other: Policy) -> bool:
    """Whether it is certain that no job is matched by both."""
    if one.is_namespaced and other.is_namespaced and one.key.namespace != other.key.namespace:
        return True
    a, b = one.match, other.match
    if not a.operations & b.operations:
        return True
    if _exclude(a.namespace_selector, b.namespace_selector):
        return True
    if _exclude(a.object_selector, b.object_selector):
        return True
    plain = [
        [(r.kind, r.name) for r in match.runtimes if not _WILD & set(r.name)] for match in (a, b)
    ]
    if len(plain[0]) != len(a.runtimes) or len(plain[1]) != len(b.runtimes):
        return False
    return bool(a.runtimes and b.runtimes) and not any(
        name == theirs and (kind is None or whose is None or kind == whose)
        for kind, name in plain[0]
        for whose, theirs in plain[1]
    )


def _exclude(one: Selector, other: Selector) -> bool:
    wanted = dict(one.match_labels)
    return any(wanted.get(key, value) != value for key, value in other.match_labels)
