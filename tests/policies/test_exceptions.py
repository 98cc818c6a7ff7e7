from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework.api.admission import UserInfo
from plugins.framework.context import Context
from plugins.framework.field import Path
from plugins.framework.info import Info
from policies.document import (
    Bounds,
    Images,
    Limit,
    Offer,
    PolicyException,
    Selector,
    Validation,
)
from policies.exceptions import NOTHING, Loosening, Subject, ends, loosen, names_of
from policies.grants import Grant
from policies.limits import check
from policies.record import Record
from tests.builders import NAMESPACE, container, make_runtime, make_train_job, resources
from tests.policies.make import (
    ALICE,
    NOW,
    exception,
    expression,
    limit,
    most,
    mutated,
    no_value,
    offers,
    policy,
)

GPU = "nvidia.com/gpu"
GPUS = limit("gpus", resource=GPU, total=most(8), per_node=most(4))
VALIDATION = Validation(name="host", path=Path("spec"), expression=expression("x"))
POLICY = policy(
    limits=(GPUS, limit("nodes", nodes=most(2))),
    validations=(VALIDATION,),
    exceptions=offers("gpus", "host"),
)


def subject(**fields: Any) -> Subject:
    whole: dict[str, Any] = {
        "namespace": NAMESPACE,
        "names": ("llama-70b-a",),
        "labels": {"team": "vision"},
        "creator": ALICE,
        **fields,
    }
    return Subject(**whole)


def loosened(
    *exceptions: PolicyException, now: datetime = NOW, offer: Offer | None = None, **fields: Any
) -> Loosening:
    rules = (
        POLICY
        if offer is None
        else policy(limits=POLICY.limits, validations=POLICY.validations, exceptions=offer)
    )
    return loosen(rules, exceptions, subject(**fields), now=now)


def off(found: Loosening) -> dict[str, str]:
    return {rule: one.off for rule, one in found.rules.items()}


def reasons(found: Loosening) -> list[str]:
    return [f"{note.exception} {note.rule}: {note.reason}" for note in found.notes]


# What is offered


def test_an_exception_switches_off_what_it_names() -> None:
    found = loosened(exception("let", "gpus"))
    assert off(found) == {"gpus": "let"}
    assert found.notes == ()


def test_without_names_it_reaches_all_that_is_offered_and_no_more() -> None:
    assert off(loosened(exception())) == {"gpus": "let", "host": "let"}


def test_nobody_switches_off_what_is_not_offered() -> None:
    found = loosened(exception("let", "nodes", "gpus"))
    assert off(found) == {"gpus": "let"}
    assert reasons(found) == ["team/let nodes: rules does not offer it; it offers gpus, host"]


def test_a_policy_offers_nothing_by_default() -> None:
    found = loosened(exception("let", "gpus"), offer=offers())
    assert found.rules == {}
    assert reasons(found) == ["team/let gpus: rules does not offer it; it offers none"]
    assert loosened(exception(), offer=offers()) == NOTHING


def test_exceptions_of_other_policies_are_passed_over() -> None:
    assert loosened(exception("let", "gpus", of="others")) == NOTHING


@pytest.mark.parametrize("namespace", ["team", "other"])
def test_a_namespaced_policy_is_not_the_cluster_policy_of_its_name(namespace: str) -> None:
    own = policy(namespace=namespace, limits=(GPUS,), exceptions=offers("gpus"))
    assert loosen(own, [exception()], subject(), now=NOW) == NOTHING


# For whom


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"namespace": "other"}, "it is of namespace other, the job of team"),
        (
            {"expires_at": datetime(2026, 12, 31, tzinfo=UTC)},
            "it expired at 2026-12-31T00:00:00Z",
        ),
        ({"expires_at": NOW}, "it expired at 2027-01-01T00:00:00Z"),
        (
            {"names": ("nightly-*", "x")},
            'it is for jobs named nightly-*, x, and this one is named "llama-70b-a"',
        ),
        (
            {"object_selector": Selector(match_labels=(("team", "nlp"),))},
            "its objectSelector wants team=nlp, and there is team=vision on the TrainJob",
        ),
        (
            {"requested_by": ("nightly@example.com",)},
            'it is for jobs created by nightly@example.com, and this one was created by "alice@example.com"',
        ),
        (
            {"names": ("a" * 600,)},
            "it has a pattern that cannot be used: it a pattern has at most 512",
        ),
    ],
)
def test_an_exception_that_does_not_hold_says_why(fields: dict[str, Any], wanted: str) -> None:
    found = loosened(exception("let", "gpus", **fields))
    assert found.rules == {}
    [note] = found.notes
    assert note.reason.startswith(wanted)


def test_an_exception_that_holds_for_this_job() -> None:
    one = exception(
        "let",
        "gpus",
        names=("x", "llama-*"),
        requested_by=("alice@*",),
        object_selector=Selector(match_labels=(("team", "vision"),)),
    )
    assert off(loosened(one)) == {"gpus": "let"}


def test_on_update_the_record_says_who_requested_it() -> None:
    one = exception("let", "gpus", requested_by=("nightly@example.com",))
    assert off(loosened(one, creator=Record(exceptions=frozenset(("let",))))) == {"gpus": "let"}
    assert reasons(loosened(one, creator=Record(exceptions=frozenset(("other",))))) == [
        "team/let : the job's record does not say that one of its requestedBy created it"
    ]


@pytest.mark.parametrize(
    ("metadata", "wanted"),
    [
        ({"name": "a"}, ("a",)),
        ({"generateName": "nightly-"}, ("nightly-", "nightly-00000")),
        ({"name": "", "generateName": "nightly-"}, ("nightly-", "nightly-00000")),
        ({"name": "nightly-x7k2p", "generateName": "nightly-"}, ("nightly-x7k2p", "nightly-")),
        ({"name": "other", "generateName": "nightly-"}, ("other",)),
        ({"name": 1, "generateName": ["x"]}, ()),
        ({}, ()),
    ],
)
def test_names_b103_f036(metadata: dict[str, Any], wanted: tuple[str, ...]) -> None:
    assert names_of(metadata) == wanted


@pytest.mark.parametrize("pattern", ["nightly-*", "nightly-?????", "nightly-"])
def test_a_generated_name_matches_before_and_after_it_is_made_b103(pattern: str) -> None:
    one = exception("let", "gpus", names=(pattern,))
    prefix = {"generateName": "nightly-"}
    assert off(loosened(one, names=names_of(prefix))) == {"gpus": "let"}
    assert off(loosened(one, names=names_of({**prefix, "name": "nightly-x7k2p"}))) == {
        "gpus": "let"
    }


def test_a_job_without_any_name_meets_no_name() -> None:
    found = loosened(exception("let", "gpus", names=("a*",)), names=())
    assert "this one is named nothing" in found.notes[0].reason


# How long

DAYS = timedelta(days=20)
MADE = datetime(2026, 12, 1, tzinfo=UTC)


def test_no_longer_than_the_policy_offers() -> None:
    offer = offers("gpus", longest=DAYS)
    one = exception("let", "gpus")
    assert off(loosened(one, now=MADE + DAYS - timedelta(seconds=1), offer=offer)) == {
        "gpus": "let"
    }
    found = loosened(one, now=MADE + DAYS, offer=offer)
    assert found.rules == {}
    assert found.notes[0].reason == (
        "it expired at 2026-12-21T00:00:00Z, the longest after its creation that rules offers"
    )


def test_an_exception_that_ends_sooner_ends_when_it_says() -> None:
    soon = exception("let", "gpus", expires_at=MADE + timedelta(days=1))
    assert ends(soon, policy(exceptions=offers("gpus", longest=DAYS)), now=NOW) == soon.expires_at


def test_without_a_creation_time_it_counts_as_made_now() -> None:
    undated = exception("let", "gpus", created_at=None)
    offer = policy(exceptions=offers("gpus", longest=DAYS))
    assert ends(undated, offer, now=NOW) == NOW + DAYS
    assert off(loosened(undated, offer=offer.exceptions)) == {"gpus": "let"}
    assert loosened(undated, offer=offer.exceptions, now=undated.expires_at).rules == {}


def test_a_time_past_all_calendars_is_no_fault() -> None:
    forever = policy(exceptions=offers("gpus", longest=timedelta.max))
    assert ends(exception(), forever, now=NOW) == exception().expires_at


# To what


def test_a_grant_is_kept_beside_the_rule() -> None:
    wider = limit("gpus", total=most(128))
    found = loosened(exception("let", "gpus", "host", grant={"gpus": wider}))
    assert found.rules["gpus"].grants == (Grant("let", wider),)
    assert off(found) == {"gpus": "", "host": "let"}


def test_a_rule_without_a_value_takes_no_grant() -> None:
    both = [exception("a", "host"), exception("b", "host", grant={"host": limit("host")})]
    assert reasons(loosened(both[1])) == [
        "team/b host: it grants a value, and the rule has none: leave out the grant to switch the rule off"
    ]
    assert off(loosened(*both)) == {"host": "a"}, "a useless one takes nothing from another"


def test_several_exceptions_in_any_order_say_the_same() -> None:
    first = exception("a", "gpus", grant={"gpus": limit("gpus", total=most(16))})
    second, third = exception("b", "gpus"), exception("c", "gpus")
    assert loosened(first, second, third) == loosened(third, first, second)
    assert off(loosened(third, first, second)) == {"gpus": "b"}


RUNTIME = (
    make_runtime("torch").torch().node(container("node", resources=resources(limits={GPU: 2})))
)


@cache
def resolved(nodes: int, gpus: int, image: str, team: str) -> tuple[Info, Context]:
    job = make_train_job().runtime("torch").nodes(nodes).resources(limits={GPU: gpus})
    return mutated(job.trainer(image=image).label("team", team), RUNTIME)


def broken(
    rule: Limit,
    *grants: Limit,
    nodes: int = 4,
    gpus: int = 8,
    image: str = "quay.io/a",
    team: str = "",
) -> set[str]:
    info, ctx = resolved(nodes, gpus, image, team)
    asked = tuple(Grant(f"e{i}", grant) for i, grant in enumerate(grants))
    found = check(rule, info, ctx, evaluate=no_value, grants=asked)
    return {"/".join(v.part[:2]) for v in found if not v.excepted_by}


def test_a_looser_value_lets_through_what_it_covers() -> None:
    assert broken(GPUS) == {"total/max", "perNode/max"}
    assert broken(GPUS, limit("gpus", total=most(32))) == {"perNode/max"}
    assert broken(GPUS, limit("gpus", total=most(32), per_node=most(8))) == set()


def test_the_loosest_of_several_counts() -> None:
    grants = [limit("gpus", total=most(n)) for n in (16, 32, 2)]
    assert broken(GPUS, *grants) == {"perNode/max"}


def test_what_a_grant_lets_through_has_its_name() -> None:
    info, ctx = resolved(4, 8, "quay.io/a", "")
    grants = (Grant("a", limit("gpus", total=most(9))), Grant("b", limit("gpus", total=most(32))))
    found = check(GPUS, info, ctx, evaluate=no_value, grants=grants)
    assert {v.part[0]: v.excepted_by for v in found} == {"total": "b", "perNode": ""}


def test_beyond_a_grant_the_message_tells_it() -> None:
    info, ctx = resolved(4, 8, "quay.io/a", "")
    grants = (Grant("let", limit("gpus", total=most("16"))),)
    [found, _] = check(GPUS, info, ctx, evaluate=no_value, grants=grants)
    assert "and at most 8 is allowed (exception let grants 16)" in str(found.error)


def test_a_stricter_grant_changes_nothing() -> None:
    assert broken(GPUS, limit("gpus", total=most(1)), nodes=1, gpus=4) == set()
    low = limit("nodes", nodes=Bounds(min=8))
    assert broken(low, limit("nodes", nodes=Bounds(min=9))) == {"nodes/min"}
    assert broken(low, limit("nodes", nodes=Bounds(min=2))) == set()


def test_a_grant_with_a_fault_grants_nothing_and_is_no_fault_of_the_policy() -> None:
    faulty = limit("gpus", total=most(expression("1/0")), per_node=most("8GB"))
    assert broken(GPUS, faulty) == {"total/max", "perNode/max"}
    bad = limit("images", images=Images(allow=("*/x",)))
    assert broken(limit("images", images=Images(deny=("quay.io/**",))), bad) == {"images/deny"}


@pytest.mark.parametrize(
    ("granted", "left"),
    [
        (Images(allow=("quay.io/**",)), set()),
        (Images(allow=("ghcr.io/**",)), {"images/allow", "images/digest"}),
        (Images(allow=("quay.io/**",), deny=("quay.io/a",)), {"images/allow", "images/digest"}),
        (Images(allow=("quay.io/**",), require_digest=True), {"images/digest"}),
        (Images(), {"images/allow"}),
        (Images(deny=("ghcr.io/**",)), {"images/allow", "images/digest"}),
    ],
)
def test_granted_images_loosen_what_they_name(granted: Images, left: set[str]) -> None:
    rule = limit("images", images=Images(allow=("registry.example.com/**",), require_digest=True))
    assert broken(rule, limit("images", images=granted)) == left


def test_a_granted_list_of_denied_images_stands_in_place_of_the_rules() -> None:
    rule = limit("images", images=Images(deny=("quay.io/**",)))
    assert broken(rule, limit("images", images=Images(deny=("quay.io/b",)))) == set()
    assert broken(rule, limit("images", images=Images())) == {"images/deny"}
    assert broken(rule, limit("images", images=Images(allow=("quay.io/a",)))) == set()


def test_no_value_lets_through_what_no_kubelet_runs() -> None:
    rule = limit("images", images=Images(require_digest=True))
    grant = limit("images", images=Images(allow=("**",)))
    assert broken(rule, grant, image="A:1") == {"images/unreadable"}


def test_granted_labels_and_runtimes() -> None:
    rule = limit("team", require_labels=("team", "cost"))
    assert broken(rule, limit("team", require_labels=("team",))) == {"labels/team"}
    assert broken(rule, limit("team")) == set()
    assert broken(rule, limit("team", total=most(1))) == {"labels/team", "labels/cost"}
    runtimes = limit("runtimes", runtimes=("jax",))
    assert broken(runtimes, limit("runtimes", runtimes=("torch",))) == set()
    assert broken(runtimes, limit("runtimes", runtimes=("mpi",))) == {
        "runtimes/ClusterTrainingRuntime"
    }


AMOUNTS = st.none() | st.integers(0, 40) | st.sampled_from(["16", "1500m", "bad", expression("x")])
BOUNDS = st.none() | st.builds(Bounds, min=AMOUNTS, max=AMOUNTS)
PATTERNS = st.lists(
    st.sampled_from(["**", "quay.io/**", "quay.io/a", "nginx", "*/x"]), max_size=2
).map(tuple)
GRANTS = st.builds(
    limit,
    total=BOUNDS,
    per_node=BOUNDS,
    nodes=BOUNDS,
    pods=BOUNDS,
    images=st.none()
    | st.builds(Images, allow=PATTERNS, deny=PATTERNS, require_digest=st.booleans()),
    require_labels=st.sampled_from([(), ("team",), ("other",)]),
    runtimes=st.sampled_from([(), ("torch",), ("x",)]),
)
RULES = [
    GPUS,
    limit("low", resource=GPU, total=Bounds(min=64), nodes=Bounds(min=8, max=2), pods=most(1)),
    limit(
        "images",
        images=Images(
            allow=("registry.example.com/**",), deny=("quay.io/**",), require_digest=True
        ),
    ),
    limit("team", require_labels=("team", "cost"), runtimes=("jax",)),
]


@given(
    st.sampled_from(RULES),
    st.lists(GRANTS, max_size=3),
    st.sampled_from([1, 4]),
    st.sampled_from([1, 8]),
    st.sampled_from(["quay.io/a", "registry.example.com/a", "A"]),
    st.sampled_from(["", "x"]),
)
def test_exceptions_never_make_anything_stricter(
    rule: Limit, grants: list[Limit], nodes: int, gpus: int, image: str, team: str
) -> None:
    job: dict[str, Any] = {"nodes": nodes, "gpus": gpus, "image": image, "team": team}
    alone = broken(rule, **job)
    left = broken(rule, *grants, **job)
    assert left <= alone
    for i in range(len(grants)):
        assert left <= broken(rule, *grants[:i], *grants[i + 1 :], **job), (
            "another one only loosens"
        )


def test_whoever_created_it_may_have_any_name() -> None:
    one = exception("let", "gpus", requested_by=("a*",))
    evil = UserInfo(username="b\n" + "x" * 1000)
    assert "\n" not in loosened(one, creator=evil).notes[0].reason
