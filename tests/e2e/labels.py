"""Which namespaces a part of the plane acts in: tests with it and without share one API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ADMISSION: Final[Mapping[str, str]] = {"e2e.stationmaster.dev/admission": "true"}
KUEUE: Final[Mapping[str, str]] = {"e2e.stationmaster.dev/kueue": "true"}
BARE: Final[Mapping[str, str]] = {"e2e.stationmaster.dev/bare": "true"}
"""Where a webhook acts that does nothing: the yardstick of the benchmarks."""
