from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
    assert pair.renew_at() == pair.not_before + (pair.not_after - pair.not_before) * 2 / 3
