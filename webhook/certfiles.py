"""Serves a certificate from files that somebody else renews, and follows them while we run."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from certs import keypair, mounted

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from certs.keypair import Front, KeyPair
    from webhook.metrics import Recorder

POLL_SECONDS: Final = 10.0
"""The files are small, and what tells of changes does not tell of a mounted Secret's on every system."""


class CertificateFiles:
    """The pair in a folder, as it was when it was last good."""

    def __init__(
        self,
        folder: Path,
        *,
        front: Front,
        recorder: Recorder,
        logger: FilteringBoundLogger,
        clock: Callable[[], datetime],
    ) -> None:
        """Serve by ``front`` what is in ``folder``, from the first ``look`` on."""
        self._folder = folder
        self._front = front
        self._recorder = recorder
        self._logger = logger
        self._clock = clock
        self._pair: KeyPair | None = None
        self._problem: str | None = "nothing has been read yet"

    def unready(self) -> str | None:
        """For readiness: why nothing can be served; a renewal that fails is no reason yet."""
        if self._pair is None:
            return self._problem
        if self._pair.is_valid(self._clock()):
            return None
        return f"the certificate is not valid now, but until {self._pair.not_after:%Y-%m-%d %H:%M}"

    async def follow(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(POLL_SECONDS)

    def look(self) -> None:
        """Take over what is there if it can be used; else keep the last good pair, and say why once."""
        pair, problem = mounted.read(self._folder, self._clock())
        if pair is not None and pair != self._pair:
            problem = self._use(pair)
        if problem is not None and problem != self._problem:
            self._logger.error("certificate files cannot be used", problem=problem)
        self._problem = problem

    def _use(self, pair: KeyPair) -> str | None:
        try:
            self._front.use(keypair.server_context(pair))
        except ssl.SSLError as error:
            return f"{self._folder}: {error.reason}"
        self._pair = pair
        self._recorder.certificate("leaf", pair.not_after)
        self._logger.info("certificate taken over", notAfter=pair.not_after.isoformat())
        return None
