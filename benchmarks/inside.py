"""The same pair without a server: what deciding costs, in this process."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks import review
from webhook import files, offline
from webhook.assembly import build_pipeline
from webhook.review import Reviewer

BATCH: Final = 200


def main() -> None:
    """Print the CPU microseconds a pair in each cluster, a batch a line."""
    clusters, batches = [Path(arg) for arg in sys.argv[2:]], int(sys.argv[1])
    asyncio.run(measure(clusters, batches))


async def measure(clusters: Sequence[Path], batches: int) -> None:
    """Decide the pair again and again, for each cluster in turn."""
    subjects = [await subject(cluster) for cluster in clusters]
    for _ in range(batches):
        costs: list[float] = []
        for reviewer, first, second in subjects:
            deadline = time.monotonic() + 3600
            begin = time.process_time()
            for _ in range(BATCH):
                await reviewer.mutate(first, deadline=deadline)
                await reviewer.validate(second, deadline=deadline)
            costs.append((time.process_time() - begin) / BATCH * 1e6)
        sys.stdout.write(f"{' '.join(map(str, costs))}\n")


async def subject(cluster: Path) -> tuple[Reviewer, bytes, bytes]:
    """A reviewer, warm, and the two reviews of the pair."""
    snapshot = offline.snapshot_of(files.read_tree(cluster))
    reviewer = Reviewer(build_pipeline(None), lambda: snapshot, line=None, clock=time.monotonic)
    first = review.create_review("mnist", review.runtime_name(0))
    answer = await reviewer.mutate(first, deadline=time.monotonic() + 3600)
    second = review.after(first, answer.body)
    await reviewer.validate(second, deadline=time.monotonic() + 3600)
    return reviewer, first, second


if __name__ == "__main__":
    main()
