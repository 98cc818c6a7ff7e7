"""The same pair without a server: what deciding costs, in this process."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks import review
from webhook import files, offline
from webhook.assembly import build_pipeline
from webhook.review import Reviewer

BATCH: Final = 200


def main() -> None:
    """Print the CPU microseconds a pair, a batch a line."""
    cluster, batches = Path(sys.argv[1]), int(sys.argv[2])
    asyncio.run(measure(cluster, batches))


async def measure(cluster: Path, batches: int) -> None:
    """Decide the pair again and again."""
    snapshot = offline.snapshot_of(files.read_tree(cluster))
    reviewer = Reviewer(build_pipeline(None), lambda: snapshot, line=None, clock=time.monotonic)
    first = review.create_review("mnist", review.runtime_name(0))
    deadline = time.monotonic() + 3600
    answer = await reviewer.mutate(first, deadline=deadline)
    second = review.after(first, answer.body)
    for _ in range(batches):
        begin = time.process_time()
        for _ in range(BATCH):
            await reviewer.mutate(first, deadline=deadline)
            await reviewer.validate(second, deadline=deadline)
        sys.stdout.write(f"{(time.process_time() - begin) / BATCH * 1e6}\n")


if __name__ == "__main__":
    main()
