"""How far a long command is, on stderr: a bar for people, a line now and then for logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from plugins.framework.field import escape

EVERY_SECONDS: Final = 10.0
"""Between two lines of a log."""

Step = Callable[[int, int | None], None]
"""How many are done, and of how many, where that is known."""


@contextmanager
def progress(clock: Callable[[], float] = time.monotonic) -> Iterator[Step]:
    """Show how many TrainJobs are done; the bar is gone when it is over."""
    if not sys.stderr.isatty():
        yield _lines(clock)
        return
    from rich import progress as bars  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415  # 50 ms, and only terminals need it

    columns = (
        bars.TextColumn("judging TrainJobs"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _lines(clock: Callable[[], float]) -> Step:
    last = clock()

    def step(done: int, of: int | None) -> None:
        nonlocal last
        if clock() - last >= EVERY_SECONDS:
            last = clock()
            total = "" if of is None else f" of {of}"
            sys.stderr.write(f"judged {done}{total} TrainJobs\n")

    return step


def say(kind: str) -> None:
    """Say what is being read, where somebody watches; the next thing takes its place."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[Kreading {escape(kind)}\r")
        sys.stderr.flush()
