"""A certificate authority of our own, and the serving certificates that it signs.

Everything here is a pure step: the clock is passed in, nothing is read or written. What the
certificates must contain is dictated by the strictest verifiers among our callers: Python 3.13 and
later set ``VERIFY_X509_STRICT`` and refuse a CA without key usage or key identifiers
(kubernetes-client/python#2394, canonical/microk8s#5537), and Go ignores the common name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs import keypair
from certs.keypair import BACKDATE, KeyPair, PrivateKey, two_thirds

Algorithm: TypeAlias = Literal["ecdsa", "rsa"]
"""ECDSA is P-256: all that speak TLS 1.2 know it, and signing costs a tenth of RSA's 2,048 bits."""

RSA_BITS: Final = 2048

AUTHORITY_LIFE: Final = timedelta(days=365)
"""In a cluster an authority is replaced at two thirds of this, so everyone has four months to notice."""

LEAF_LIFE: Final = timedelta(days=30)
"""Short, since a leaf is signed in memory in 0.6 ms and never travels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A CA certificate and the key that signs for it."""

    certificate: x509.Certificate
    key: PrivateKey

    @property
    def pem(self) -> bytes:
        """The certificate, for those who should trust it; never the key."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        """The key, for the one place that keeps it."""
        return keypair.key_pem(self.key)

    def is_valid(self, now: datetime) -> bool:
        """Whether a verifier with this clock accepts the dates."""
        certificate = self.certificate
        return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc

    def renew_at(self) -> datetime:
        """When to make the next one."""
        certificate = self.certificate
        return two_thirds(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def create(
    now: datetime, *, life: timedelta = AUTHORITY_LIFE, algorithm: Algorithm = "ecdsa"
) -> Authority:
    """Make a new authority, valid from an hour before ``now``."""
    key = _new_key(algorithm)
    # Each generation has a subject of its own, so that verifiers choose the right one of a bundle.
    name = _name(f"stationmaster-ca {now:%Y-%m-%dT%H:%M:%SZ}")
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate=certificate, key=key)


def issue(
    authority: Authority,
    names: Sequence[str],
    now: datetime,
    *,
    life: timedelta = LEAF_LIFE,
    algorithm: Algorithm = "ecdsa",
) -> KeyPair:
    """Sign a serving certificate for ``names`` (DNS names and IP addresses); it never outlives its CA."""
    key = _new_key(algorithm)
    not_after = min(now + life, authority.certificate.not_valid_after_utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name("stationmaster"))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_issuer_identifier(authority), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return KeyPair.of(certificate, key)


def _new_key(algorithm: Algorithm) -> PrivateKey:
    if algorithm == "rsa":
        return rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternatives(names: Sequence[str]) -> list[x509.GeneralName]:
    """Addresses as addresses: a client that dials an IP does not look among the DNS names."""
    return [_alternative(name) for name in dict.fromkeys(names)]


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _issuer_identifier(authority: Authority) -> x509.AuthorityKeyIdentifier:
    extension = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(extension.value)


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
