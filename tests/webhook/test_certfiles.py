from __future__ import annotations

import asyncio
import io
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs import authority
from certs.authority import Authority
from certs.keypair import Front, KeyPair
from tests.certs.handshake import client_context, shake
from tests.webhook.fakes import LIMIT
from webhook import certfiles, logs
from webhook.certfiles import CertificateFiles
from webhook.metrics import Recorder

NOW = datetime.now(UTC).replace(microsecond=0)


class Setting:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = NOW
        self.ca: Authority = authority.create(NOW)
        self.front = Front()
        self.log = io.BytesIO()
        self.files = CertificateFiles(
            folder,
            front=self.front,
            recorder=Recorder(),
            logger=logs.build(self.log),
            clock=lambda: self.now,
        )

    def write(self, pair: KeyPair) -> None:
        (self.folder / "tls.crt").write_bytes(pair.certificate)
        (self.folder / "tls.key").write_bytes(pair.key)

    def issue(self) -> KeyPair:
        return authority.issue(self.ca, ["localhost"], NOW)

    def served(self) -> bytes:
        return shake(self.front.context, client_context(self.ca.pem), "localhost").certificate

    def is_served(self, pair: KeyPair) -> bool:
        return self.served() == ssl.PEM_cert_to_DER_cert(pair.certificate.decode())


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


def test_before_the_files_are_there_it_is_not_ready_and_says_why(setting: Setting) -> None:
    assert setting.files.unready() == "nothing has been read yet"

    setting.files.look()

    assert "No such file" in (setting.files.unready() or "")


def test_b135_a_new_pair_is_served_at_once_and_a_broken_one_never(setting: Setting) -> None:
    first, second = setting.issue(), setting.issue()
    setting.write(first)
    setting.files.look()
    assert setting.is_served(first)

    (setting.folder / "tls.crt").write_bytes(b"garbage")
    setting.files.look()
    assert setting.is_served(first)
    assert setting.files.unready() is None

    setting.write(second)
    setting.files.look()
    assert setting.is_served(second)


def test_a_problem_is_logged_once(setting: Setting) -> None:
    for _ in range(3):
        setting.files.look()

    assert setting.log.getvalue().count(b"cannot be used") == 1


def test_what_has_expired_is_a_reason(setting: Setting) -> None:
    setting.write(setting.issue())
    setting.files.look()
    setting.now += timedelta(days=31)
    setting.files.look()

    assert "is not valid now" in (setting.files.unready() or "")


async def test_the_files_are_followed_until_cancelled(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certfiles, "POLL_SECONDS", 0.0)
    task = asyncio.create_task(setting.files.follow())
    await asyncio.sleep(0)
    setting.write(setting.issue())
    async with asyncio.timeout(LIMIT):
        while setting.files.unready():  # noqa: ASYNC110  # each pass is a look
            await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
