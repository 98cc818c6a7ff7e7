"""Ends the processes of a control plane whose owner died without a chance to do so itself.

Started as a script with a pipe on standard input: ``+PID`` when a process starts, ``-PID`` when it has
ended. The pipe closes when the owner ends, however it ends; what is still on the list is killed then.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

GRACE_SECONDS = 3.0


def main() -> None:
    """Keep the list until the pipe closes, then end what is on it."""
    pids: set[int] = set()
    for line in sys.stdin:
        (pids.add if line[0] == "+" else pids.discard)(int(line[1:]))
    if not pids:
        return
    for number in (signal.SIGTERM, signal.SIGCONT):
        _send(pids, number)
    deadline = time.monotonic() + GRACE_SECONDS
    while _alive(pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    _send(_alive(pids), signal.SIGKILL)


def _send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _alive(pids: set[int]) -> set[int]:
    alive = set()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 0)
            alive.add(pid)
    return alive


if __name__ == "__main__":
    main()
