from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework.api.admission import UserInfo
from policies.document import Match, Requirement, RuntimeMatch, Selector, Subjects
from policies.matching import (
    Place,
    dynamic_misses,
    namespace_labels,
    selector_misses,
    selects,
    static_misses,
)
from policies.record import Record
from tests.policies.make import ALICE, policy

PLACE = Place(
    namespace="team",
    labels=namespace_labels("team", {"labels": {"tier": "research"}}),
    operation="CREATE",
    runtime_kind="ClusterTrainingRuntime",
    runtime_name="torch-distributed",
)


def static(match: Match, **fields: Any) -> list[str]:
    return [str(miss) for miss in static_misses(policy(match=match, **fields), PLACE)]


def dynamic(
    match: Match, labels: dict[str, Any] | None = None, creator: Any = ALICE, **more: Any
) -> list[str]:
    key = policy().key
    return [
        str(m) for m in dynamic_misses(match, key, labels=labels or {}, creator=creator, **more)
    ]


def wants(*labels: tuple[str, str]) -> Selector:
    return Selector(match_labels=labels)


def expressions(*requirements: Requirement) -> Selector:
    return Selector(match_expressions=requirements)


# Selectors

KEYS = ("a", "b")
VALUES = ("x", "y", "")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
REQUIREMENTS = st.builds(
    Requirement,
    key=st.sampled_from(KEYS),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    values=st.frozensets(st.sampled_from(VALUES), min_size=1),
)
SELECTORS = st.builds(
    Selector,
    match_labels=LABELS.map(lambda labels: tuple(labels.items())),
    match_expressions=st.lists(REQUIREMENTS, max_size=3).map(tuple),
)


def as_kubernetes(selector: Selector, labels: dict[str, str]) -> bool:
    """``labels.Requirement.Matches`` (apimachinery), one requirement a label or expression."""
    for key, value in selector.match_labels:
        if not (key in labels and labels[key] == value):
            return False
    for r in selector.match_expressions:
        has = r.key in labels
        holds = {
            "In": has and labels.get(r.key) in r.values,
            "NotIn": not has or labels.get(r.key) not in r.values,
            "Exists": has,
            "DoesNotExist": not has,
        }[r.operator]
        if not holds:
            return False
    return True


@given(SELECTORS, LABELS)
def test_selectors_mean_what_they_mean_in_kubernetes(
    selector: Selector, labels: dict[str, str]
) -> None:
    assert selects(selector, labels) == as_kubernetes(selector, labels)


@given(
    SELECTORS,
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from([None, 1, True, ["x"], {}, "x"])),
)
def test_labels_of_any_shape_break_nothing(selector: Selector, labels: dict[str, Any]) -> None:
    assert all(isinstance(reason, str) for reason in selector_misses(selector, labels))


def test_each_part_of_a_selector_says_what_there_is() -> None:
    selector = Selector(
        match_labels=(("tier", "gold"), ("zone", "a")),
        match_expressions=(
            Requirement(key="team", operator="In", values=frozenset(("x", "y"))),
            Requirement(key="tier", operator="NotIn", values=frozenset(("research",))),
            Requirement(key="ring", operator="Exists"),
            Requirement(key="tier", operator="DoesNotExist"),
        ),
    )
    assert list(selector_misses(selector, {"tier": "research", "team": 'z"\n'})) == [
        "wants tier=gold, and there is tier=research",
        "wants zone=a, and there is no zone",
        'wants team in (x, y), and there is team="z\\"\\n"',
        "wants tier not in (research), and there is tier=research",
        "wants ring to exist, and there is no ring",
        "wants tier not to exist, and there is tier=research",
    ]


# Static


@pytest.mark.parametrize(
    "match",
    [
        Match(),
        Match(namespace_selector=wants(("tier", "research"))),
        Match(namespace_selector=wants(("kubernetes.io/metadata.name", "team"))),
        Match(operations=frozenset(("CREATE",))),
        Match(
            runtimes=(RuntimeMatch(kind=None, name="jax"), RuntimeMatch(kind=None, name="torch-*"))
        ),
        Match(runtimes=(RuntimeMatch(kind="ClusterTrainingRuntime", name="*"),)),
    ],
)
def test_what_matches_wherever_the_job_is(match: Match) -> None:
    assert static(match) == []


def test_what_does_not_match_says_which_part_and_what_there_is() -> None:
    match = Match(
        namespace_selector=wants(("tier", "gold")),
        operations=frozenset(("UPDATE",)),
        runtimes=(
            RuntimeMatch(kind="TrainingRuntime", name="torch-*"),
            RuntimeMatch(kind=None, name="jax"),
        ),
    )
    assert static(match) == [
        "namespaceSelector: wants tier=gold, and there is tier=research on namespace team",
        "operations: wants UPDATE, and this is CREATE",
        "runtimes: wants TrainingRuntime torch-*, jax, and the job runs on ClusterTrainingRuntime torch-distributed",
    ]


def test_a_long_list_of_runtimes_is_cut() -> None:
    many = tuple(RuntimeMatch(kind=None, name=f"r{i}") for i in range(12))
    assert "r9 and 2 more" in static(Match(runtimes=many))[0]


def test_a_namespaced_policy_is_about_its_own_namespace() -> None:
    assert static(Match(), namespace="team") == []
    assert static(Match(), namespace="other") == [
        "namespace: the policy is of namespace other, the job of team"
    ]


def test_deletions_match_nothing_b097() -> None:
    place = Place(namespace="team", labels={}, operation="DELETE", runtime_kind="", runtime_name="")
    assert [m.part for m in static_misses(policy(), place)] == ["operations"]


def test_of_an_unknown_namespace_the_name_is_known() -> None:
    """B153: a failing look-up is documented behaviour: the selector sees the label that every namespace has."""
    assert namespace_labels("new", None) == {"kubernetes.io/metadata.name": "new"}


def test_a_namespace_cannot_call_itself_another() -> None:
    metadata = {"labels": {"kubernetes.io/metadata.name": "kube-system", "a": "b", "bad": 1}}
    assert namespace_labels("team", metadata) == {"kubernetes.io/metadata.name": "team", "a": "b"}
    assert namespace_labels("team", {"labels": []}) == {"kubernetes.io/metadata.name": "team"}


# Dynamic

UNLESS_EXEMPT = Match(
    object_selector=expressions(Requirement(key="exempt", operator="DoesNotExist"))
)


def test_the_labels_of_the_round_decide() -> None:
    match = Match(object_selector=wants(("team", "vision")))
    assert dynamic(match, {"team": "vision"}) == []
    assert dynamic(match) == [
        "objectSelector: wants team=vision, and there is no team on the TrainJob"
    ]


def test_nobody_leaves_a_policy_by_the_change_that_takes_its_label_away_b152() -> None:
    assert dynamic(UNLESS_EXEMPT, {"exempt": "true"}, old_labels={}) == []
    assert dynamic(UNLESS_EXEMPT, {"exempt": "true"}, old_labels={"exempt": "true"}) == [
        "objectSelector: wants exempt not to exist, and there is exempt=true on the TrainJob"
    ]


@pytest.mark.parametrize(
    ("subjects", "wanted"),
    [
        (Subjects(), ""),
        (Subjects(users=("alice@*",)), ""),
        (Subjects(groups=("res*",)), ""),
        (Subjects(users=("bob",), groups=("research",)), ""),
        (Subjects(exclude_users=("bob",), exclude_groups=("platform-*",)), ""),
        (
            Subjects(users=("bob",), groups=("ops",)),
            'subjects: wants users bob or groups ops, and the job was created by "alice@example.com" of groups '
            '"research", "system:authenticated"',
        ),
        (
            Subjects(exclude_users=("alice*",)),
            'subjects: the job was created by "alice@example.com", whom excludeUsers alice* leaves out',
        ),
        (
            Subjects(users=("alice*",), exclude_groups=("research",)),
            'subjects: the job was created by "alice@example.com" of group "research", which excludeGroups research '
            "leaves out",
        ),
    ],
)
def test_subjects_on_create(subjects: Subjects, wanted: str) -> None:
    assert dynamic(Match(subjects=subjects)) == ([wanted] if wanted else [])


def test_somebody_without_groups() -> None:
    match = Match(subjects=Subjects(groups=("ops",)))
    assert dynamic(match, creator=UserInfo(username="eve")) == [
        'subjects: wants groups ops, and the job was created by "eve"'
    ]


def test_on_update_the_record_decides_not_who_updates() -> None:
    match = Match(subjects=Subjects(users=("nobody",)))
    assert dynamic(match, creator=Record(policies=frozenset(("rules",)))) == []
    assert dynamic(match, creator=Record(policies=frozenset(("team/rules",)))) == [
        "subjects: the job's record does not say that its creator was meant when it was created"
    ]
    assert dynamic(Match(), creator=Record()) == []
