"""Bundles of CA certificates: read from whatever is there, written in one form.

A bundle comes back from places where others write, too (a Secret, a ``caBundle``), so reading never
fails: what is broken is left out, and said. An API server that gets a broken ``caBundle`` refuses the
whole configuration, hence all that we publish is composed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----\s.*?-----END CERTIFICATE-----", re.DOTALL)
BEGIN: Final = b"-----BEGIN"

LINGER: Final = timedelta(hours=1)
"""An expired authority is trusted for this long still: a verifier's clock may be behind ours."""


class Parsed(NamedTuple):
    """What was found."""

    authorities: tuple[x509.Certificate, ...]
    is_whole: bool
    """Whether all of it could be read."""


def parse(data: bytes) -> Parsed:
    """The CA certificates in PEM ``data``, each once, in the order found."""
    found: dict[bytes, x509.Certificate] = {}
    blocks = BLOCK.findall(data)
    is_whole = len(blocks) == data.count(BEGIN) and bool(blocks or not data.strip())
    for block in blocks:
        certificate = read_certificate(block)
        if certificate is None or not _is_authority(certificate):
            is_whole = False
        else:
            found[fingerprint(certificate)] = certificate
    return Parsed(tuple(found.values()), is_whole)


def read_certificate(pem: bytes) -> x509.Certificate | None:
    """The first certificate, or None if that cannot be read."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        return None


def compose(authorities: Iterable[x509.Certificate]) -> bytes:
    """The bundle of these, each once."""
    return b"".join(_pem(certificate) for certificate in union(authorities))


def union(*groups: Iterable[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """All of them, each once, in the order of their first mention."""
    found = {fingerprint(each): each for group in groups for each in group}
    return tuple(found.values())


def lacks(published: bytes, wanted: Iterable[x509.Certificate]) -> bool:
    """Whether one of the ``wanted`` is not in the bundle ``published``."""
    present = set(map(fingerprint, parse(published).authorities))
    return any(fingerprint(certificate) not in present for certificate in wanted)


def unexpired(
    authorities: Iterable[x509.Certificate], now: datetime
) -> tuple[x509.Certificate, ...]:
    """Without those that no clock near ours accepts any more."""
    return tuple(each for each in authorities if now < each.not_valid_after_utc + LINGER)


def valid(authorities: Iterable[x509.Certificate], now: datetime) -> tuple[x509.Certificate, ...]:
    """Those that a verifier with this clock accepts."""
    return tuple(
        each for each in authorities if each.not_valid_before_utc <= now < each.not_valid_after_utc
    )


def issuer_of(
    leaf: x509.Certificate, authorities: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    """Which of these signed ``leaf``."""
    for authority in authorities:
        try:
            leaf.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return authority
    return None


def fingerprint(certificate: x509.Certificate) -> bytes:
    """What tells one certificate from another: its bytes."""
    return certificate.public_bytes(serialization.Encoding.DER)


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return constraints.value.ca


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
