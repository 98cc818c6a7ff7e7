"""Policies of equal priority that would fight over one place whatever the job: found when they are loaded.

Only what is certain is refused here: both are about exactly the same jobs, and both write a plain value. Everything else
is found per request (``merging``), and announced by lint (`likely`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugins.framework import field as fields
from plugins.framework import values
from plugins.framework.field import FieldError, show
from policies.claims import COMPUTED, Claim, claims_of

if TYPE_CHECKING:
    from policies.compile import CompiledPolicy
    from policies.document import Policy, Selector

_WILD: Final = frozenset("*?")


class Pair(NamedTuple):
    """Two claims that cannot both be met."""

    first: CompiledPolicy
    second: CompiledPolicy
    one: Claim
    other: Claim

    @property
    def is_certain(self) -> bool:
        """Whether both policies are about the same jobs."""
        return _signature(self.first.policy) == _signature(self.second.policy)

    def error(self, of: CompiledPolicy) -> FieldError:
        """The same as an error of one of the two."""
        mine, theirs, other = (
            (self.one, self.other, self.second)
            if of is self.first
            else (self.other, self.one, self.first)
        )
        detail = (
            f"{other.key.kind} {other.key} has the same priority ({of.policy.priority}) and sets {theirs} to "
            f"{show(theirs.value)} ({theirs.path}): give one of them a higher priority, or let only one say it"
        )
        return fields.invalid(mine.path, mine.value, detail)


def mark(policies: Iterable[CompiledPolicy]) -> None:
    """Make those whose matches are the same and whose values differ not Ready, both; and sound again what no longer is."""
    every = list(policies)
    found: dict[int, list[FieldError]] = {}
    for pair in pairs(every, certain_only=True):
        for policy in (pair.first, pair.second):
            error = pair.error(policy)
            if error not in found.setdefault(id(policy), []):
                found[id(policy)].append(error)
    for policy in every:
        policy.problems = (*policy.own_problems, *found.get(id(policy), ()))


def likely(policies: Iterable[CompiledPolicy]) -> Iterator[Pair]:
    """Pairs of which it depends on the job whether they are a conflict."""
    for pair in pairs(policies, certain_only=False):
        if not pair.is_certain and not are_apart(pair.first.policy, pair.second.policy):
            yield pair


def pairs(policies: Iterable[CompiledPolicy], *, certain_only: bool) -> Iterator[Pair]:
    """Pairs of equal priority with different plain values for one place."""
    groups: dict[Any, list[CompiledPolicy]] = {}
    for compiled in policies:
        policy = compiled.policy
        if (
            compiled.own_problems
            or not (policy.defaults or policy.overrides)
            or not _writes(policy)
        ):
            continue
        alike = _signature(policy) if certain_only else (policy.priority,)
        groups.setdefault(alike, []).append(compiled)
    for group in groups.values():
        if len(group) > 1:
            yield from _of_group(group)


def _of_group(group: list[CompiledPolicy]) -> Iterator[Pair]:
    claims: dict[Any, list[tuple[CompiledPolicy, Claim]]] = {}
    for compiled in group:
        for claim in claims_of(compiled.policy):
            if claim.rule == "set" and claim.value is not COMPUTED:
                claims.setdefault(claim.where, []).append((compiled, claim))
    for found in claims.values():
        for (first, one), (second, other) in combinations(found, 2):
            if first is not second and one.meets(other) and not values.same(one.value, other.value):
                yield Pair(first, second, one, other)


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
