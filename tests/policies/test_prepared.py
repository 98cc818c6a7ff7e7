"""Policies are compiled once, when they are prepared, and no request waits for them."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.framework.cluster import Snapshot
from policies import compile as compiling
from policies.compile import PolicySet
from policies.engine import MOST_SETS, Engine
from policies.strikes import Strikes
from tests.policies.documents import policy


def rules(name: str, **spec: Any) -> dict[str, Any]:
    whole = {"validations": [{"name": "v", "expression": "totals.nodes < 9"}], **spec}
    return {**policy(whole, name=name), "apiVersion": "stationmaster.dev/v1alpha1"}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of documents that are compiled."""
    names: list[str] = []
    original = compiling._read

    def reading(raw: dict[str, Any]) -> Any:
        names.append(raw["metadata"]["name"])
        return original(raw)

    monkeypatch.setattr(compiling, "_read", reading)
    return names


def names(found: PolicySet) -> list[str]:
    return [str(compiled.key) for compiled in found.policies]


def test_what_is_prepared_is_not_compiled_again(read: list[str]) -> None:
    plugin = Engine(Strikes())
    snapshot = Snapshot.of([rules("a"), rules("b")])

    prepared = plugin.prepare(snapshot.documents)

    assert plugin.policies(snapshot) is prepared
    assert plugin.policies(snapshot.serving(frozenset())) is prepared
    assert (names(prepared), read) == (["a", "b"], ["a", "b"])


def test_only_what_has_changed_is_compiled_even_if_all_is_read_anew(read: list[str]) -> None:
    plugin = Engine(Strikes())
    plugin.prepare(Snapshot.of([rules("a"), rules("b")]).documents)

    plugin.prepare(Snapshot.of([rules("a"), rules("b", priority=2)]).documents)

    assert read == ["a", "b", "b"]


def test_a_request_that_has_the_snapshot_before_compiles_nothing(read: list[str]) -> None:
    plugin = Engine(Strikes())
    before = Snapshot.of([rules("a")])
    first = plugin.prepare(before.documents)
    after = before.replaced(rules("a", priority=7))
    second = plugin.prepare(after.documents)

    assert (plugin.policies(before), plugin.policies(after)) == (first, second)
    assert read == ["a", "a"]


def test_older_ones_are_forgotten() -> None:
    plugin = Engine(Strikes())
    snapshots = [Snapshot.of([rules(f"p{number}")]) for number in range(MOST_SETS + 2)]
    for snapshot in snapshots:
        plugin.prepare(snapshot.documents)

    assert len(plugin._sets) == MOST_SETS
    assert names(plugin.policies(snapshots[0])) == ["p0"]


def test_a_fault_in_one_document_is_that_policys(monkeypatch: pytest.MonkeyPatch) -> None:
    original = compiling._read

    def reading(raw: dict[str, Any]) -> Any:
        if raw["metadata"]["name"] == "bad":
            raise ZeroDivisionError
        return original(raw)

    monkeypatch.setattr(compiling, "_read", reading)

    found = PolicySet.of(Snapshot.of([rules("bad"), rules("good")]).documents)

    bad, good = found.policies
    assert [str(problem) for problem in bad.problems] == [
        "Internal error: an internal fault (ZeroDivisionError) while it was compiled"
    ]
    assert good.problems == ()
