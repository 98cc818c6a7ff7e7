from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policies import rollout
from policies.document import Selector, Stage
from policies.rollout import Effect, effect
from tests.policies.make import policy

CANARY = Selector(match_labels=(("ring", "canary"),))
STAGED = policy(
    actions=("Warn", "Audit"),
    mutate="Warn",
    rollout=(
        Stage(namespace_selector=CANARY, actions=("Deny",), mutate="Apply"),
        Stage(percent=10, actions=("Deny",)),
    ),
)
NAMESPACES = [f"team-{i}" for i in range(1000)]


def reached(percent: int, name: str = "rules") -> set[str]:
    staged = policy(name, actions=("Warn",), rollout=(Stage(percent=percent, actions=("Deny",)),))
    return {n for n in NAMESPACES if effect(staged, n, {}).stage == 0}


def test_the_first_stage_that_matches_decides() -> None:
    assert effect(STAGED, "a", {"ring": "canary"}) == Effect(
        actions=("Deny",), mutate="Apply", stage=0
    )


def test_what_a_stage_does_not_say_the_policy_says() -> None:
    inside = next(n for n in NAMESPACES if rollout.share(STAGED.key, n) < 10)
    outside = next(n for n in NAMESPACES if rollout.share(STAGED.key, n) >= 10)
    assert effect(STAGED, inside, {}) == Effect(actions=("Deny",), mutate="Warn", stage=1)
    assert effect(STAGED, outside, {}) == Effect(
        actions=("Warn", "Audit"), mutate="Warn", stage=None
    )


def test_both_parts_of_a_stage_must_hold() -> None:
    both = policy(rollout=(Stage(namespace_selector=CANARY, percent=0, actions=("Warn",)),))
    assert effect(both, "a", {"ring": "canary"}).stage is None
    assert effect(policy(rollout=(Stage(actions=("Warn",)),)), "a", {}).stage == 0


def test_a_rules_own_actions_are_stronger_than_stage_and_policy() -> None:
    found = effect(STAGED, "a", {"ring": "canary"})
    assert found.actions_of(("Audit",)) == ("Audit",)
    assert found.actions_of(None) == ("Deny",)
    assert found.actions_of(()) == ()


def test_percents_reach_that_share_of_namespaces() -> None:
    assert reached(0) == set()
    assert reached(100) == set(NAMESPACES)
    assert 60 < len(reached(10)) < 140


@given(st.integers(0, 100), st.integers(0, 100), st.text(min_size=1))
def test_raising_percent_drops_no_namespace(a: int, b: int, namespace: str) -> None:
    low, high = sorted((a, b))
    stages = [policy(rollout=(Stage(percent=p, actions=("Deny",)),)) for p in (low, high)]
    first, then = (effect(p, namespace, {}).stage == 0 for p in stages)
    assert then or not first


def test_the_share_is_of_policy_and_namespace_and_never_changes() -> None:
    """Written down: a change of the hash would move every stage of every cluster."""
    assert [rollout.share(policy(n).key, "team-vision") for n in ("a", "b", "c")] == [58, 94, 11]
    assert reached(10, "a") != reached(10, "b")


def test_a_later_stage_that_is_stricter_is_told() -> None:
    assert list(rollout.surprises(STAGED)) == []
    loose = policy(
        actions=("Deny",),
        rollout=(Stage(namespace_selector=CANARY, actions=("Warn",)), Stage(percent=5)),
    )
    assert list(rollout.surprises(loose)) == [
        "rollout[0] (Warn) is less strict than rollout[1] (Deny), which reaches whoever is in no stage before it: "
        "the first stage that matches decides"
    ]
    silent = policy(actions=("Audit",), rollout=(Stage(percent=5, actions=()),))
    assert "rollout[0] (nothing) is less strict than spec.actions (Audit)" in next(
        rollout.surprises(silent)
    )
