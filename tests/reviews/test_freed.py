"""What is between the bytes of a review and those of its answer is freed when the answer is there.

Not by the garbage collector: until that comes, each review would fill memory that no cache of the processor knows.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import orjson
import pytest

from tests.builders import Json
from tests.plugins.kit import run
from tests.policies import documents
from tests.reviews import samples
from tests.reviews.desk import PHASES, Desk
from webhook.review import Phase

SPECS: dict[str, Json] = {
    "writes": {"defaults": {"labels": {"a": {"expression": "'of-' + object.kind"}}}},
    "forces": {"overrides": {"activeDeadlineSeconds": {"max": 3600}}},
    "bounds": {"limits": [{"name": "nodes", "nodes": {"max": 1}}]},
    "asks": {
        "validations": [{"name": "few", "expression": "totals.pods < 2"}],
        "actions": ["Warn", "Audit"],
    },
}
POLICIES = [documents.policy(spec, name=name) for name, spec in SPECS.items()]


@pytest.fixture
def no_collector() -> Iterator[None]:
    """All garbage of the tests before is gone, and what comes is kept to be looked at."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def left() -> Counter[str]:
    """What only a collection frees: our objects, and reviews."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    found = Counter(
        type(thing).__qualname__
        for thing in gc.garbage
        if type(thing).__module__.partition(".")[0] in {"plugins", "policies", "webhook"}
        or (type(thing) is dict and "runtimeRef" in thing)
    )
    gc.garbage.clear()
    gc.set_debug(0)
    return found


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("policies", [[], POLICIES], ids=["no policies", "policies"])
@pytest.mark.parametrize("phase", PHASES)
def test_nothing_of_a_review_is_left_for_the_collector(phase: Phase, policies: list[Json]) -> None:
    reviewer = Desk.of(*samples.cluster(), *policies).reviewer
    call = reviewer.mutate if phase == "mutate" else reviewer.validate
    bodies = [orjson.dumps(review) for review in samples.reviews()]
    for body in bodies:
        run(call(body, deadline=1.0))  # what is kept for good is made by the first
    left()
    found = {}
    for number, body in enumerate(bodies):
        answer = run(call(body, deadline=1.0))
        if rings := left():
            found[number, answer.operation, answer.kind, answer.decision] = rings
    assert found == {}


@pytest.mark.usefixtures("no_collector")
def test_a_ring_would_be_seen() -> None:
    class Ring:
        __module__ = "plugins.test"

    ring = Ring()
    ring.itself = ring  # type: ignore[attr-defined]
    del ring
    assert sum(left().values()) == 1
