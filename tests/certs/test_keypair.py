from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs import authority, keypair
from certs.keypair import Front, KeyPair
from tests.certs.handshake import client_context, shake

if TYPE_CHECKING:
    from certs.authority import Authority

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(scope="module")
def ca() -> Authority:
    return authority.create(NOW)


@pytest.fixture(scope="module")
def pair(ca: Authority) -> KeyPair:
    return authority.issue(ca, ["localhost"], NOW)


def old_client(ca: Authority, version: ssl.TLSVersion) -> ssl.SSLContext:
    client = client_context(ca.pem)
    client.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    client.maximum_version = version
    client.set_ciphers("DEFAULT:@SECLEVEL=0")
    return client


def write_client(signer: Authority, file: Path) -> Path:
    """What an API server shows to a webhook that asks for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")]))
        .issuer_name(signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer.key, hashes.SHA256())
    )
    pair = KeyPair.of(certificate, key)
    file.write_bytes(pair.certificate + pair.key)
    return file


def test_tls_1_2_is_served(ca: Authority, pair: KeyPair) -> None:
    client = old_client(ca, ssl.TLSVersion.TLSv1_2)

    assert shake(keypair.server_context(pair), client, "localhost").version == "TLSv1.2"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_tls_1_1_is_refused(ca: Authority, pair: KeyPair) -> None:
    client = old_client(ca, ssl.TLSVersion.TLSv1_1)

    with pytest.raises(ssl.SSLError):
        shake(keypair.server_context(pair), client, "localhost")


def test_a_certificate_with_another_key_is_refused_before_it_is_used(
    ca: Authority, pair: KeyPair
) -> None:
    other = authority.issue(ca, ["localhost"], NOW)

    with pytest.raises(ssl.SSLError, match="KEY_VALUES_MISMATCH"):
        keypair.server_context(replace(pair, key=other.key))


def test_a_truncated_certificate_is_refused(pair: KeyPair) -> None:
    with pytest.raises(ssl.SSLError):
        keypair.server_context(replace(pair, certificate=pair.certificate[:100]))


def test_new_connections_see_the_pair_that_is_in_use(ca: Authority, pair: KeyPair) -> None:
    client = client_context(ca.pem)
    front = Front(keypair.server_context(pair))
    before = shake(front.context, client, "localhost")

    front.use(keypair.server_context(authority.issue(ca, ["localhost"], NOW)))
    after = shake(front.context, client, "localhost")

    assert before.certificate == ssl.PEM_cert_to_DER_cert(pair.certificate.decode())
    assert after.certificate != before.certificate


def test_before_there_is_a_pair_handshakes_fail_and_afterwards_they_do_not(
    ca: Authority, pair: KeyPair
) -> None:
    front = Front()
    with pytest.raises(ssl.SSLError, match=r"(?i)internal.error|callback"):
        shake(front.context, client_context(ca.pem), "localhost")

    front.use(keypair.server_context(pair))

    shake(front.context, client_context(ca.pem), "localhost")


@pytest.mark.parametrize("behind_front", [False, True])
@pytest.mark.parametrize("shown", ["nothing", "another's", "the right one"])
def test_callers_that_must_show_a_certificate_are_checked(
    ca: Authority, pair: KeyPair, tmp_path: Path, shown: str, behind_front: bool
) -> None:
    callers = authority.create(NOW)
    client = client_context(ca.pem)
    if shown != "nothing":
        signer = callers if shown == "the right one" else authority.create(NOW)
        client.load_cert_chain(write_client(signer, tmp_path / "client.pem"))
    context = keypair.server_context(pair, callers=callers.pem)
    server = Front(context, callers=callers.pem).context if behind_front else context

    if shown == "the right one":
        shake(server, client, "localhost")
    else:
        with pytest.raises(ssl.SSLError):
            shake(server, client, "localhost")


def test_a_client_without_a_server_name_is_served(ca: Authority) -> None:
    front = Front(keypair.server_context(authority.issue(ca, ["127.0.0.1"], NOW)))

    # For an address OpenSSL sends no server name.
    assert shake(front.context, client_context(ca.pem), "127.0.0.1").version == "TLSv1.3"


def test_the_key_is_not_shown(pair: KeyPair) -> None:
    assert "PRIVATE" not in repr(pair)
    assert b"PRIVATE" in pair.key


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files by /proc")
def test_loading_leaves_no_file_open(pair: KeyPair) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))

    keypair.server_context(pair)

    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_pair_is_valid_between_its_dates(pair: KeyPair) -> None:
    assert pair.is_valid(NOW)
    assert not pair.is_valid(pair.not_before - timedelta(seconds=1))
    assert not pair.is_valid(pair.not_after)


def test_a_pair_is_renewed_two_thirds_into_its_life(pair: KeyPair) -> None:
    assert pair.renew_at() == NOW + (pair.not_after - NOW) * 2 / 3


def test_what_lives_shorter_than_it_is_backdated_is_not_old_at_birth(ca: Authority) -> None:
    short = authority.issue(ca, ["localhost"], NOW, life=timedelta(minutes=9))

    assert short.renew_at() == NOW + timedelta(minutes=6)
