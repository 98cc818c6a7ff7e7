"""A certificate authority of the test run, and what it signs."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE: Final = timedelta(days=7)
"""Longer than any run, too short to be taken for a real one."""

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write ``tls.crt`` and ``tls.key``, as Secrets of type TLS are mounted."""
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = folder / "tls.crt", folder / "tls.key"
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return certificate, key


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs the serving certificates of everything on loopback."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, name: str) -> Self:
        """A fresh authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(subject, subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @property
    def pem(self) -> bytes:
        """The certificate, as a ``caBundle`` or ``certificate-authority`` wants it."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, hosts: Sequence[str] = ("127.0.0.1", "localhost")) -> Pair:
        """A serving certificate for the hosts, names or addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self.certificate.subject
        certificate = (
            _builder(_name(name), issuer, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                # Python refuses chains without it from 3.13 on.
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def service_account_key() -> bytes:
    """An RSA key, in PEM, that signs the tokens of service accounts and checks them."""
    return _key_pem(rsa.generate_private_key(public_exponent=65537, key_size=2048))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        # The API server reads keys of service accounts in this form, Go's TLS either.
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
