"""What the tests of the edge share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on the loop that serves: TLS and transports are its own, not asyncio's."""
    return {"uvloop": uvloop.new_event_loop}
