"""A certificate authority of the test run, which signs for everything that serves on loopback."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

from certs import authority, keypair

LIFE: Final = timedelta(days=7)
"""Longer than any run, too short to be taken for a real one."""

LOOPBACK: Final = ("127.0.0.1", "localhost")


class Authority:
    """Made for one run, in memory; what it signs is strict enough for all clients of the plane."""

    def __init__(self) -> None:
        """A fresh one."""
        self._signer = authority.create(datetime.now(UTC), life=LIFE)

    @property
    def pem(self) -> bytes:
        """The certificate, as a ``caBundle`` or ``certificate-authority`` wants it."""
        return self._signer.pem

    def write(self, folder: Path, hosts: Sequence[str] = LOOPBACK) -> tuple[Path, Path]:
        """Sign for the hosts and write ``tls.crt`` and ``tls.key``, as Secrets of type TLS are mounted."""
        pair = authority.issue(self._signer, hosts, datetime.now(UTC), life=LIFE)
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = folder / "tls.crt", folder / "tls.key"
        certificate.write_bytes(pair.certificate)
        key.touch(mode=0o600)
        key.write_bytes(pair.key)
        return certificate, key


def service_account_key() -> bytes:
    """An RSA key, in PEM, that signs the tokens of service accounts and checks them."""
    return keypair.key_pem(rsa.generate_private_key(public_exponent=65537, key_size=2048))
