from __future__ import annotations

import json

from policies import cel
from tests.policies.cel.conformance import KNOWN, passes, rows


def test_every_test_of_cel_spec_passes_but_those_with_a_reason() -> None:
    failed = {
        row.name
        for row in rows()
        if not passes(
            row,
            cel.ask(
                cel.Question(
                    policy="p",
                    digest="conformance",
                    expressions=(cel.Ask("x", row.expr),),
                    data=row.data,
                )
            )["x"],
        )
    }
    assert failed == json.loads(KNOWN.read_text(encoding="utf-8")).keys()


def test_the_rate_is_as_recorded() -> None:
    known = json.loads(KNOWN.read_text(encoding="utf-8"))
    names = [row.name for row in rows()]
    assert len(names) == len(set(names)) == 1963
    assert known.keys() <= set(names)
    assert 1 - len(known) / len(names) > 0.965
