"""A serving pair from files that somebody else renews: cert-manager by a mounted Secret, or a person.

Files change one after the other, and a reader may come in between. Two things are done about it: a
Secret that is mounted appears below ``..data``, a link that is switched as a whole, so both files are
read through where it led once; and what does not fit together is a problem, not a pair, so that the
last good one stays in use until the rest has come.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from certs.keypair import KeyPair

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
LINK: Final = "..data"


def read(folder: Path, now: datetime) -> tuple[KeyPair | None, str | None]:
    """The pair in ``folder``, or what is wrong with it."""
    try:
        # Not "has the time of change moved?": a link's target may be of the same second.
        place = (folder / LINK).resolve(strict=True) if (folder / LINK).is_symlink() else folder
        certificate, key = (place / CERTIFICATE).read_bytes(), (place / KEY).read_bytes()
    except OSError as error:
        return None, f"{error.filename}: {error.strerror}"
    pair = _pair(certificate, key)
    if isinstance(pair, str):
        return None, f"{folder}: {pair}"
    if not pair.is_valid(now):
        return (
            None,
            f"{folder / CERTIFICATE}: valid from {pair.not_before} to {pair.not_after}, not now",
        )
    return pair, None


def _pair(certificate: bytes, key: bytes) -> KeyPair | str:
    try:
        chain = x509.load_pem_x509_certificates(certificate)
    except ValueError:
        return f"{CERTIFICATE} is broken"
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return f"{KEY} is broken"
    if private.public_key() != chain[0].public_key():
        return f"{KEY} does not belong to {CERTIFICATE}"
    return KeyPair(
        certificate=certificate,  # the whole chain is served
        key=key,
        not_before=chain[0].not_valid_before_utc,
        not_after=chain[0].not_valid_after_utc,
    )
