from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs import authority, keypair
from tests.certs.handshake import client_context, shake

if TYPE_CHECKING:
    from certs.authority import Authority

NOW = datetime.now(UTC).replace(microsecond=0)
"""Handshakes are judged by OpenSSL's own clock, so these certificates have to be of today."""

NAMES = ("localhost", "127.0.0.1", "::1", "stationmaster.ns.svc")


@pytest.fixture(scope="module")
def ca() -> Authority:
    return authority.create(NOW)


def leaf(ca: Authority, *names: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(authority.issue(ca, names, NOW).certificate)


@pytest.mark.parametrize("host", NAMES)
def test_a_strict_verifier_accepts_the_leaf_under_each_of_its_names(
    ca: Authority, host: str
) -> None:
    server = keypair.server_context(authority.issue(ca, NAMES, NOW))

    seen = shake(server, client_context(ca.pem), host)

    assert (seen.version, seen.alpn) == ("TLSv1.3", "http/1.1")


def test_a_name_that_is_not_on_the_leaf_is_refused(ca: Authority) -> None:
    server = keypair.server_context(authority.issue(ca, ["localhost"], NOW))

    with pytest.raises(ssl.SSLCertVerificationError, match="stationmaster"):
        shake(server, client_context(ca.pem), "stationmaster")


def test_another_authority_is_not_believed(ca: Authority) -> None:
    server = keypair.server_context(authority.issue(ca, NAMES, NOW))

    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, client_context(authority.create(NOW).pem), "localhost")


def test_during_a_rotation_leaves_of_both_authorities_are_believed(ca: Authority) -> None:
    new = authority.create(NOW + timedelta(minutes=1))
    client = client_context(ca.pem, new.pem)

    for signer in (ca, new):
        shake(keypair.server_context(authority.issue(signer, NAMES, NOW)), client, "localhost")


def test_the_authority_has_what_strict_verifiers_ask_for(ca: Authority) -> None:
    extensions = ca.certificate.extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    subject = extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    issuer = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value

    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert usage.value.crl_sign
    assert not usage.value.digital_signature
    assert issuer.key_identifier == subject.digest


def test_the_leaf_can_serve_and_do_nothing_else(ca: Authority) -> None:
    extensions = leaf(ca, *NAMES).extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "stationmaster.ns.svc"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]


def test_names_given_twice_are_there_once(ca: Authority) -> None:
    names = leaf(ca, "localhost", "localhost").extensions

    assert len(list(names.get_extension_for_class(x509.SubjectAlternativeName).value)) == 1


def test_generations_differ_in_subject_and_serial() -> None:
    first, second = authority.create(NOW), authority.create(NOW + timedelta(seconds=1))

    assert first.certificate.subject != second.certificate.subject
    assert first.certificate.serial_number != second.certificate.serial_number


def test_both_are_backdated_for_clocks_that_are_behind(ca: Authority) -> None:
    assert ca.certificate.not_valid_before_utc == NOW - timedelta(hours=1)
    assert leaf(ca, "localhost").not_valid_before_utc == NOW - timedelta(hours=1)


def test_a_leaf_never_outlives_its_authority() -> None:
    short = authority.create(NOW, life=timedelta(days=3))

    assert authority.issue(short, ["localhost"], NOW).not_after == NOW + timedelta(days=3)
