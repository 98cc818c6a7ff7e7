"""A serving certificate with its key, and the TLS context that is made of it.

The key lives in memory. OpenSSL, as Python wraps it, loads keys from named files only
(python/cpython#129216), so it is handed a file in memory under its ``/dev/fd`` name.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING, Final, TypeAlias

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

if TYPE_CHECKING:
    from cryptography import x509

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

BACKDATE: Final = timedelta(hours=1)
"""A verifier whose clock is behind ours must not see a certificate from the future."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate and its private key, as PEM. The key is not shown when the value is printed."""

    certificate: bytes
    key: bytes = field(repr=False)
    not_before: datetime
    not_after: datetime

    @classmethod
    def of(cls, certificate: x509.Certificate, key: PrivateKey) -> KeyPair:
        """The pair of what the authority has just signed."""
        return cls(
            certificate=certificate.public_bytes(serialization.Encoding.PEM),
            key=key_pem(key),
            not_before=certificate.not_valid_before_utc,
            not_after=certificate.not_valid_after_utc,
        )

    def is_valid(self, now: datetime) -> bool:
        """Whether a verifier with this clock accepts the dates."""
        return self.not_before <= now < self.not_after

    def renew_at(self) -> datetime:
        """Two thirds into its life: late enough to be rare, early enough to fail many times and heal."""
        return two_thirds(self.not_before, self.not_after)


def two_thirds(not_before: datetime, not_after: datetime) -> datetime:
    """Two thirds of the way from the making of a certificate, which is not its backdated start, to its end."""
    made = not_before + BACKDATE
    return made + max(not_after - made, timedelta()) * 2 / 3


def key_pem(key: PrivateKey) -> bytes:
    """The key as PEM (PKCS#8), readable by whoever gets hold of it."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def server_context(pair: KeyPair, *, callers: bytes | None = None) -> ssl.SSLContext:
    """A context for serving ``pair``: TLS 1.2 or later, HTTP/1.1, no session tickets.

    With ``callers``, CA certificates, only who shows a certificate of one of them is answered: an API
    server shows what its admission configuration's kubeconfig names.
    Raises ``ssl.SSLError`` if certificate and key do not belong together, which is why a new pair gets
    a new context: loaded into the one in use, a wrong pair breaks every handshake from then on.
    """
    context = _bare_context()
    with _readable(pair.certificate) as certificate, _readable(pair.key) as key:
        context.load_cert_chain(certificate, key)
    _demand(context, callers)
    return context


class Front:
    """The context that a listener keeps for life; ``use`` changes what new connections are served.

    It holds no pair itself. Its ``sni_callback`` hands each handshake to the context in use, and is
    called for clients that send no server name, too. Open connections keep what they began with.
    """

    def __init__(
        self, current: ssl.SSLContext | None = None, *, callers: bytes | None = None
    ) -> None:
        """Start with the context ``current``; without one, handshakes fail until there is.

        ``callers`` must be what each context is made with: whether a certificate is asked for, OpenSSL
        takes from the context that a handshake began with, and whom to believe, from the one in use.
        """
        self._current = current
        self.context = _bare_context()
        _demand(self.context, callers)
        self.context.sni_callback = self._choose

    def use(self, context: ssl.SSLContext) -> None:
        """Serve this one from the next handshake on."""
        self._current = context

    def _choose(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _front: ssl.SSLContext
    ) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def _bare_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The API server offers only this, so that its calls spread over replicas (kubernetes#75791).
    context.set_alpn_protocols(["http/1.1"])
    # Go's client does not resume sessions; making tickets is CPU for nothing.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return context


def _demand(context: ssl.SSLContext, callers: bytes | None) -> None:
    """Answer only who shows a certificate of these authorities, if any are given."""
    if callers is not None:
        context.load_verify_locations(cadata=callers.decode("ascii"))
        context.verify_mode = ssl.CERT_REQUIRED


@contextmanager
def _readable(pem: bytes) -> Iterator[str]:
    """The bytes under a file name, for as long as OpenSSL reads them."""
    with _anonymous_file() as file:
        file.write(pem)
        file.flush()
        file.seek(0)
        yield f"/dev/fd/{file.fileno()}"


def _anonymous_file() -> IO[bytes]:
    """Memory on Linux; elsewhere (development machines) a temporary file that has no name.

    A pipe would do everywhere, but then a wrong pair ends in ``OSError: Illegal seek``.
    """
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("pem", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()
