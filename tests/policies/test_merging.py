from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.document import POLICY, Key
from policies.merging import UNSET, Conflict, Decided, Planned, clamp, decide, union
from policies.writes import Item, Mode, Place, Rule, Write

NODES = Place(None, ("spec", "trainer", "numNodes"))
POOL = Place("node", ("spec", "nodeSelector", "pool"))
TOLERATIONS = Place("node", ("spec", "tolerations"))
ENV = Place(None, ("spec", "trainer", "env", Item("name", "A")))


def key(name: str) -> Key:
    return Key(POLICY, "", name)


def plan(name: str, *writes: Write, priority: int = 0, mode: Mode = "overrides") -> Planned:
    return Planned(key(name), priority, mode, writes)


def to(place: Place, value: Any, rule: Rule = "set") -> Write:
    return Write(place, value, rule)


def only(*planned: Planned) -> Decided:
    decision = decide(planned)
    assert not decision.conflicts
    [decided] = decision.decided
    return decided


@pytest.mark.parametrize("mode", ["defaults", "overrides"])
def test_the_higher_priority_wins_in_both_modes(mode: Mode) -> None:
    low = plan("a", to(POOL, "slow"), priority=1, mode=mode)
    high = plan("b", to(POOL, "fast"), priority=2, mode=mode)
    assert only(low, high) == Decided(place=POOL, value="fast", keys=(key("b"),))


def test_equal_priorities_that_agree_are_one_and_the_first_by_name_is_credited() -> None:
    assert only(plan("b", to(POOL, "x")), plan("a", to(POOL, "x"))).keys == (key("a"),)


def test_equal_priorities_that_differ_write_nothing() -> None:
    decision = decide([plan("b", to(POOL, "x")), plan("a", to(POOL, "y")), plan("c", to(ENV, {}))])
    assert decision.conflicts == (Conflict(POOL, (key("a"), key("b"))),)
    assert [d.place for d in decision.decided] == [ENV]


def test_a_lower_priority_does_not_profit_from_a_conflict_above_it() -> None:
    below = plan("c", to(POOL, "z"), priority=-1)
    decision = decide([plan("a", to(POOL, "x")), plan("b", to(POOL, "y")), below])
    assert decision.decided == ()
    assert decision.conflicts == (Conflict(POOL, (key("a"), key("b"))),)


def test_a_conflict_below_the_winner_does_not_matter() -> None:
    top = plan("t", to(POOL, "x"), priority=1)
    assert only(top, plan("a", to(POOL, "y")), plan("b", to(POOL, "z"))).value == "x"


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), ("1", 1), ([1], [True])])
def test_values_are_compared_with_their_types(one: Any, other: Any) -> None:
    assert decide([plan("a", to(POOL, one)), plan("b", to(POOL, other))]).conflicts


def test_of_two_writes_of_one_policy_the_later_counts() -> None:
    assert only(plan("a", to(POOL, "x"), to(POOL, "y"))).value == "y"


def test_lists_are_joined_without_repeats_in_the_order_of_priority() -> None:
    decided = only(
        plan("a", to(TOLERATIONS, [{"key": "x"}, {"key": "y"}], "union")),
        plan("b", to(TOLERATIONS, [{"key": "z"}, {"key": "x"}], "union"), priority=1),
    )
    assert decided.value == [{"key": "z"}, {"key": "x"}, {"key": "y"}]
    assert decided.is_union
    assert decided.keys == (key("b"), key("a"))


def test_a_list_that_is_set_and_joined_has_both() -> None:
    decided = only(plan("a", to(TOLERATIONS, [1])), plan("b", to(TOLERATIONS, [1, 2], "union")))
    assert decided.value == [1, 2]


def test_ranges_combine_to_the_narrowest_whatever_the_priority() -> None:
    decided = only(
        plan("a", to(NODES, 1, "min"), to(NODES, 8, "max"), priority=9),
        plan("b", to(NODES, 2, "min"), to(NODES, 16, "max")),
    )
    assert (decided.value, decided.low, decided.high) == (UNSET, 2, 8)
    assert decided.keys == (key("b"), key("a"))


def test_a_range_without_a_number_in_it_is_a_conflict_of_those_who_made_it() -> None:
    decision = decide(
        [
            plan("a", to(NODES, 9, "min")),
            plan("b", to(NODES, 8, "max")),
            plan("c", to(NODES, 1, "min")),
        ]
    )
    assert decision.conflicts == (Conflict(NODES, (key("a"), key("b")), is_of_ranges=True),)


def test_a_value_and_a_range_combine() -> None:
    decided = only(plan("a", to(NODES, 32)), plan("b", to(NODES, 16, "max")))
    assert (decided.value, decided.low, decided.high) == (16, None, None)
    assert decided.keys == (key("a"), key("b"))


def test_a_value_within_the_range_is_nobody_elses() -> None:
    decided = only(plan("a", to(NODES, 4)), plan("b", to(NODES, 16, "max")))
    assert (decided.value, decided.keys) == (4, (key("a"),))


def test_a_value_outside_of_an_impossible_range_is_not_written_either() -> None:
    decision = decide(
        [plan("a", to(NODES, 4), to(NODES, 9, "min")), plan("b", to(NODES, 8, "max"))]
    )
    assert decision.decided == ()


def test_the_order_of_a_policy_is_kept() -> None:
    env = [Place(None, ("spec", "trainer", "env", Item("name", name))) for name in "ZAM"]
    decision = decide([plan("a", *(to(place, {}) for place in env))])
    assert [d.place for d in decision.decided] == env


def test_modes_are_decided_apart() -> None:
    with pytest.raises(ValueError, match="one after the other"):
        decide([plan("a"), plan("b", mode="defaults")])


def test_nothing_planned_is_nothing_decided() -> None:
    assert decide([]).decided == ()


NUMBER_RULES: st.SearchStrategy[Rule] = st.sampled_from(("set", "min", "max"))
places = st.sampled_from([NODES, POOL, TOLERATIONS, ENV])


@st.composite
def writes(draw: st.DrawFn) -> Write:
    place = draw(places)
    if place == TOLERATIONS:
        return to(place, draw(st.lists(st.integers(0, 3), max_size=3)), "union")
    if place == NODES:
        return Write(place, draw(st.integers(0, 6)), draw(NUMBER_RULES))
    return to(place, draw(st.sampled_from(["x", "y"])))


@st.composite
def plans(draw: st.DrawFn) -> list[Planned]:
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=5))
    return [
        plan(name, *draw(st.lists(writes(), max_size=4)), priority=draw(st.integers(0, 2)))
        for name in names
    ]


@given(plans().flatmap(lambda p: st.tuples(st.just(p), st.permutations(p))))
def test_the_order_in_which_policies_are_given_never_matters(
    both: tuple[list[Planned], list[Planned]],
) -> None:
    assert decide(both[0]) == decide(both[1])


@given(plans())
def test_a_place_is_decided_or_in_conflict_and_never_both(planned: list[Planned]) -> None:
    decision = decide(planned)
    decided = [d.place for d in decision.decided]
    undecided = [c.place for c in decision.conflicts]
    assert len(set(decided + undecided)) == len(decided) + len(undecided)
    assert set(decided + undecided) == {w.place for p in planned for w in p.writes}


@given(plans())
def test_a_decided_number_lies_in_every_policys_range(planned: list[Planned]) -> None:
    for decided in decide(planned).decided:
        if decided.place != NODES or decided.value is UNSET:
            continue
        for one in planned:
            for write in one.writes:
                if write.place == NODES and write.rule != "set":
                    bound = {write.rule: write.value}
                    assert clamp(decided.value, bound.get("min"), bound.get("max")) == decided.value


def test_union_keeps_the_first_of_equals() -> None:
    assert union([1, 2], [2, 3], [1]) == [1, 2, 3]
    assert union([True], [1]) == [True, 1]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (NODES, "spec.trainer.numNodes"),
        (ENV, "spec.trainer.env[A]"),
        (POOL, "spec.nodeSelector[pool] of the pods of job node"),
        (
            Place(None, ("metadata", "labels", "a/b"), "JobSet"),
            "metadata.labels[a/b] of the JobSet",
        ),
        (Place("x", ("metadata", "labels", "k"), "Job"), "metadata.labels[k] of the Job of job x"),
    ],
)
def test_places_print_as_paths(place: Place, text: str) -> None:
    assert str(place) == text
