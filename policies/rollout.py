"""How far a policy is rolled out: what its rules do in one namespace.

The first stage of ``rollout`` that a namespace belongs to decides, and what that stage does not say the policy itself
says. A namespace in no stage gets the policy's own ``actions`` and ``mutate``.

A rule's own ``actions`` are stronger than both: whoever writes ``[Deny]`` at one rule of a policy that only warns
means that rule to deny everywhere, and ``[Audit]`` at a new rule keeps it from denying where the others do already.

``percent`` is by a hash of policy and namespace, so it is the same on every replica and after every restart, and a
namespace that is in at 10 is in at every higher number. Two policies at 10 percent reach different namespaces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from policies.matching import selects

if TYPE_CHECKING:
    from policies.document import Action, Key, Mutate, Policy, Stage

_SHARES: Final = 100
_STRENGTH: Final[Mapping[str, int]] = {"Audit": 0, "Warn": 1, "Deny": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a policy does in one namespace."""

    actions: tuple[Action, ...]
    mutate: Mutate
    stage: int | None
    """Index of the stage of ``rollout`` that decided; None where the policy itself did."""

    def actions_of(self, own: tuple[Action, ...] | None) -> tuple[Action, ...]:
        """The actions of a rule with actions of its own, or None without."""
        return self.actions if own is None else own


def effect(policy: Policy, namespace: str, labels: Mapping[str, str]) -> Effect:
    """What the policy does to jobs in a namespace with these labels (`matching.namespace_labels`)."""
    for i, stage in enumerate(policy.rollout):
        if _includes(stage, policy.key, namespace, labels):
            return Effect(
                actions=policy.actions if stage.actions is None else stage.actions,
                mutate=policy.mutate if stage.mutate is None else stage.mutate,
                stage=i,
            )
    return Effect(actions=policy.actions, mutate=policy.mutate, stage=None)


def share(key: Key, namespace: str) -> int:
    """0 to 99: a namespace belongs to a stage of so many percent if its share is below that number."""
    digest = hashlib.sha256(f"{key}\0{namespace}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) % _SHARES


def surprises(policy: Policy) -> Iterator[str]:
    """Stages that are stricter than one before them, for lint.

    Stages go from the most careful to the widest. Where a later one denies and an earlier one only warns, the
    namespaces that were to try the policy first are let off, which is seldom meant.
    """
    steps: list[tuple[str, Sequence[Action]]] = [
        (f"rollout[{i}]", policy.actions if stage.actions is None else stage.actions)
        for i, stage in enumerate(policy.rollout)
    ]
    steps.append(("spec.actions", policy.actions))
    for (earlier, first), (later, then) in pairwise(steps):
        if _strength(then) > _strength(first):
            yield (
                f"{earlier} ({', '.join(first) or 'nothing'}) is less strict than {later} ({', '.join(then)}), which "
                "reaches whoever is in no stage before it: the first stage that matches decides"
            )


def _includes(stage: Stage, key: Key, namespace: str, labels: Mapping[str, str]) -> bool:
    """Both parts must hold; a stage with neither is for everybody."""
    if stage.namespace_selector is not None and not selects(stage.namespace_selector, labels):
        return False
    return stage.percent is None or share(key, namespace) < stage.percent


def _strength(actions: Sequence[Action]) -> int:
    return max((_STRENGTH[action] for action in actions), default=-1)
