"""A mapping of which each change makes the next one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plugins.framework.shards import PARTS, Shards

KEYS = st.integers(0, 3 * PARTS)
STEPS = st.lists(st.tuples(st.sampled_from(["put", "drop"]), KEYS, st.integers()), max_size=60)


@given(st.dictionaries(KEYS, st.integers()), STEPS)
def test_it_does_what_a_dict_does_and_leaves_every_earlier_one_alone(
    first: dict[int, int], steps: list[tuple[str, int, int]]
) -> None:
    made, wanted = [Shards(first.items())], [dict(first)]
    for step, key, value in steps:
        now = dict(wanted[-1])
        if step == "put":
            now[key] = value
            made.append(made[-1].having(key, value))
        else:
            now.pop(key, None)
            made.append(made[-1].lacking(key))
        wanted.append(now)

    for shards, all_of_it in zip(made, wanted, strict=True):
        assert dict(shards.items()) == all_of_it
        assert len(shards) == len(all_of_it)
        assert all(shards.get(key) == all_of_it.get(key) for key in range(3 * PARTS + 1))


def test_taking_away_what_is_not_there_makes_nothing() -> None:
    shards: Shards[str, int] = Shards([("a", 1)])

    assert shards.lacking("b") is shards


def test_of_two_with_the_same_key_the_later_one_counts() -> None:
    assert Shards([("a", 1), ("a", 2)]).get("a") == 2
