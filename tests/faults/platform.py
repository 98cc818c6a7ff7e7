"""A webhook with policies, put together as ``serve`` does it: workers and all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import orjson

from plugins.framework import lines
from plugins.framework.cluster import Snapshot
from tests.builders import Builder, Json
from tests.reviews.desk import Reply, read, snapshot_of
from webhook.assembly import build_pipeline
from webhook.review import Phase, Reviewer
from webhook.workers import Pool

DEADLINE: float = 30.0
"""Seconds; no test is about it, and other tests run beside."""
NOW = datetime(2000, 1, 1, tzinfo=UTC)

Asked = tuple[Phase, Json]


def posted(
    objects: Sequence[Builder | Json], *asked: Asked, line: str = "2.3", now: datetime = NOW
) -> list[Reply]:
    """The replies to reviews, in a cluster that holds these objects."""
    return asyncio.run(_posted([(snapshot_of(*objects), line, now, each) for each in asked]))


def posted_each(questions: Iterable[tuple[Sequence[Json], str, datetime, Asked]]) -> list[Reply]:
    """The replies to reviews, each in a cluster of its own, by the same workers."""
    return asyncio.run(_posted([(snapshot_of(*o), *rest) for o, *rest in questions]))  # type: ignore[misc]  # a tuple's tail


async def _posted(questions: list[tuple[Snapshot, str, datetime, Asked]]) -> list[Reply]:
    pool, loop = Pool(), asyncio.get_running_loop()
    replies = []
    try:
        for snapshot, line, now, (phase, review) in questions:
            reviewer = Reviewer(
                build_pipeline(None),
                lambda snapshot=snapshot: snapshot,  # type: ignore[misc]  # of this turn
                line=lines.LINES[line],
                clock=loop.time,
                now=lambda now=now: now,  # type: ignore[misc]
                evaluate=pool.evaluate,
            )
            call = reviewer.mutate if phase == "mutate" else reviewer.validate
            answer = await call(orjson.dumps(review), deadline=loop.time() + DEADLINE)
            replies.append(read(phase, review, answer))
    finally:
        await pool.close()
    return replies
