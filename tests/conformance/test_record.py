"""The recorded corpus is made so that each row of the ledger has cases in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.conformance import ledger, record
from tests.conformance.dice import Json
from tests.conformance.oracle import Oracle


class Refusing(Oracle):
    """An API server that stores nothing, so that no row ever comes up."""

    def run(self, cases: Iterable[Json]) -> list[Json]:
        refused: Json = {"runtimeSchemaErrors": [{}], "trainJobSchemaErrors": [{}]}
        return [dict(refused) for _ in cases]

    def stream(self, cases: Iterable[Json]) -> Iterator[Json]:
        yield from self.run(cases)

    def shipped_runtimes(self) -> list[Json]:
        return []


def test_a_row_without_cases_is_an_error_and_no_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "Oracle", Refusing)
    monkeypatch.setattr(record, "FURTHEST", 20)
    path = tmp_path / "2.3.jsonl.gz"
    with pytest.raises(record.RecordError) as raised:
        record.record("2.3", seed=1, count=5, path=path)
    assert all(row in str(raised.value) for row in ledger.rows_of("2.3"))
    assert not path.exists()


VARIANTS = [
    {"objects": [{"kind": "b"}, {"kind": "a"}]},
    {"objects": [{"kind": "a"}, {"kind": "b"}]},
]


def test_what_the_order_of_plugins_decides_is_settled() -> None:
    errors = [{"field": "b"}, {"field": "a"}]
    answer = {"id": "x", "variants": VARIANTS[:1], "webhookErrors": errors, **VARIANTS[0]}
    settled = record._settled(answer)
    assert settled == {"id": "x", **VARIANTS[1], "webhookErrors": errors[::-1]}


def test_outcomes_that_differ_stay_all() -> None:
    other = {"buildError": "fails"}
    settled = record._settled({"variants": [VARIANTS[0], other], **VARIANTS[0]})
    assert settled == {"buildError": "fails", "variants": [other, VARIANTS[1]]}
