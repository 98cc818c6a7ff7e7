"""Waiting for what others do in their own time: always with a deadline, and saying what was seen last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from tests.e2e.controlplane.client import ApiError

T = TypeVar("T")

WAIT_SECONDS: Final = 180.0
"""A bound on hanging, not a measure: machines of CI are slow, and shared."""

POLL_SECONDS: Final = 0.1


def wait_for(
    check: Callable[[], T | None], what: str, *, timeout_seconds: float = WAIT_SECONDS
) -> T:
    """Call ``check`` until what it returns is true, and return that.

    API errors count as not yet. Raises TimeoutError, which says what was seen last.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        seen: object
        try:
            if found := check():
                return found
            seen = found
        except (ApiError, OSError) as error:
            seen = error
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_seconds} s for {what}; last seen: {seen!r}")
        time.sleep(POLL_SECONDS)


def hold_for(check: Callable[[], bool], what: str, *, seconds: float) -> None:
    """Fail as soon as ``check`` is false within the time: for what must not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not check():
            raise AssertionError(what)
        time.sleep(POLL_SECONDS)
