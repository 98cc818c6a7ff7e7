"""The standalone certificate: made at start, renewed while we run, its CA left where callers find it."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from certs import authority, keypair
from certs.keypair import Front
from plugins.framework.errors import ConfigError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from webhook.metrics import Recorder

FILE: Final = "stationmaster-ca.crt"

LIFE: Final = timedelta(days=3650)
"""This authority lives in memory and dies with the process, so nobody could rotate it."""

RENEWAL_SECONDS: Final = 60.0
"""How often the wall clock is asked: one long timer would stop while a laptop sleeps."""


class Standalone:
    """An authority of our own, and the pair that it signed last."""

    def __init__(
        self,
        host: str,
        *,
        recorder: Recorder,
        logger: FilteringBoundLogger,
        clock: Callable[[], datetime],
    ) -> None:
        """Make both, for callers that reach us as ``host`` or as this machine."""
        self._names = names_of(host)
        self._recorder = recorder
        self._logger = logger
        self._clock = clock
        self._authority = authority.create(clock(), life=LIFE)
        self._pair = authority.issue(self._authority, self._names, clock())
        self._front = Front(keypair.server_context(self._pair))
        recorder.certificate("ca", self._authority.certificate.not_valid_after_utc)
        recorder.certificate("leaf", self._pair.not_after)
        self.context = self._front.context

    def problem(self) -> str | None:
        """What is wrong with the certificate now in use, if anything."""
        if self._pair.is_valid(self._clock()):
            return None
        return f"the certificate is not valid now, but until {self._pair.not_after:%Y-%m-%d %H:%M}"

    async def keep_valid(self) -> None:
        """Renew the pair whenever it is time, until cancelled."""
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            self.renew()

    def renew(self) -> None:
        """Sign a new pair if the present one is old; open connections keep theirs."""
        now = self._clock()
        if now < self._pair.renew_at():
            return
        self._pair = authority.issue(self._authority, self._names, now)
        self._front.use(keypair.server_context(self._pair))
        self._recorder.certificate("leaf", self._pair.not_after)
        self._logger.info("certificate renewed", notAfter=self._pair.not_after.isoformat())

    def write(self, directory: Path | None, port: int) -> Path:
        """Leave the CA certificate in ``directory``, or in a folder of this user; the file's path."""
        try:
            folder = directory or runtime_folder() / str(port)
            return _replace(folder / FILE, self._authority.pem)
        except OSError as error:
            raise ConfigError(
                f"cannot leave the CA certificate in {error.filename}: {error.strerror};"
                " name another folder by --cert-dir"
            ) from error


def names_of(host: str) -> list[str]:
    """What callers may have dialled: this machine's own names, and the one that we listen on."""
    is_everywhere = host in {"", "0.0.0.0", "::"}  # noqa: S104  # compared, not listened on
    return ["localhost", "127.0.0.1", "::1", socket.gethostname() if is_everywhere else host]


def runtime_folder() -> Path:
    """A folder for the files of this user's running programs. Below it, one a port: servers may be two."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "stationmaster"
    folder = Path(tempfile.gettempdir()) / f"stationmaster-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        # Whoever owns it could put a CA of theirs in the place of ours.
        raise PermissionError(errno.EPERM, "belongs to somebody else", str(folder))
    return folder


def _replace(file: Path, data: bytes) -> Path:
    """Write a file so that a reader sees the old one or the new one, never half of it."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as half:
        half.write(data)
    written = Path(half.name)
    written.chmod(0o644)
    return written.replace(file)
