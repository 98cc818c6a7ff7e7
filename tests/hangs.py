"""A guard against work that grows without bound; how fast things are is shown by ``make bench``, not by tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

CPU_SECONDS = 20.0
"""What is bounded takes some hundredths of it on the slowest machine, what is not takes minutes, or all memory."""


@contextmanager
def no_hang() -> Iterator[None]:
    """Fails, in the middle of the work, what takes so much of the CPU. Not for use inside itself."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        pytest.fail(f"still at it after {CPU_SECONDS:.0f} s of CPU")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
