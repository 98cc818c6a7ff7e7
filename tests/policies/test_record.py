from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework.api import names
from plugins.framework.api.admission import UserInfo
from policies import record
from policies.document import Match, Subjects
from policies.exceptions import record_of
from policies.record import Record
from tests.policies.make import ALICE, exception, policy


def annotated(text: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {names.POLICIES_ANNOTATION: text}}}


NAMES = st.frozensets(st.text(min_size=1, max_size=20).filter(lambda t: t.isprintable()))


@given(NAMES, NAMES)
def test_what_is_written_is_read(policies: frozenset[str], exceptions: frozenset[str]) -> None:
    written = Record(policies=policies, exceptions=exceptions)
    assert record.read(annotated(record.write(written))) == written
    assert bool(written) == bool(policies or exceptions)


def test_the_text_is_compact_and_sorted() -> None:
    text = record.write(Record(policies=frozenset(("b", "a/c")), exceptions=frozenset("x")))
    assert text == '{"exceptions":["x"],"policies":["a/c","b"]}'
    assert record.write(Record()) == "{}"


@pytest.mark.parametrize(
    "text",
    [None, 1, [], {}, "", "x", "[]", "null", '{"policies":"a"}', '{"policies":{"a":1}}', '{"policies":[1,["a"],null]}',
     "[" * 5000, '{"policies":["' + "a" * record.LONGEST + '"]}', '{"policies":["\ud800"]}'],
)  # fmt: skip
def test_what_is_none_of_ours_says_nothing(text: Any) -> None:
    assert record.read(annotated(text)) == Record()


@pytest.mark.parametrize("raw", [{}, {"metadata": None}, {"metadata": {"annotations": []}}])
def test_an_object_without_says_nothing(raw: dict[str, Any]) -> None:
    assert record.read(raw) == Record()


def test_only_what_asks_for_the_creator_is_recorded() -> None:
    policies = [
        policy("for-alice", match=Match(subjects=Subjects(users=("alice@*",)))),
        policy("for-bob", match=Match(subjects=Subjects(users=("bob@*",)))),
        policy("for-all"),
        policy("quick", namespace="team", match=Match(subjects=Subjects(groups=("research",)))),
    ]
    exceptions = [
        exception("hers", requested_by=("alice@example.com",)),
        exception("his", requested_by=("bob@example.com",)),
        exception("anybody"),
    ]
    assert record_of(policies, exceptions, ALICE) == Record(
        policies=frozenset(("for-alice", "team/quick")), exceptions=frozenset(("hers",))
    )
    assert not record_of(policies, exceptions, UserInfo(username="carol"))
