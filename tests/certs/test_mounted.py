from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs import authority, keypair, mounted
from certs.authority import Authority
from certs.keypair import KeyPair
from tests.certs.handshake import client_context, shake

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(scope="module")
def ca() -> Authority:
    return authority.create(NOW)


@pytest.fixture
def pair(ca: Authority) -> KeyPair:
    return authority.issue(ca, ["localhost"], NOW)


def write(folder: Path, pair: KeyPair) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)


def test_what_is_there_is_read_and_can_be_served(
    tmp_path: Path, ca: Authority, pair: KeyPair
) -> None:
    write(tmp_path, pair)

    found, problem = mounted.read(tmp_path, NOW)

    assert (found, problem) == (pair, None)
    shake(keypair.server_context(pair), client_context(ca.pem), "localhost")


def test_a_chain_is_served_whole(tmp_path: Path, ca: Authority, pair: KeyPair) -> None:
    write(tmp_path, pair)
    (tmp_path / "tls.crt").write_bytes(pair.certificate + ca.pem)

    found, _ = mounted.read(tmp_path, NOW)

    assert found is not None
    assert found.certificate == pair.certificate + ca.pem
    assert found.not_after == pair.not_after


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("tls.crt", b"", "tls.crt is broken"),
        ("tls.crt", b"-----BEGIN CERTIFICATE-----\nMIIB", "tls.crt is broken"),
        ("tls.key", b"", "tls.key is broken"),
        ("tls.key", b"-----BEGIN PRIVATE KEY-----\nMIIB", "tls.key is broken"),
        ("tls.key", None, "No such file or directory"),
        ("tls.crt", None, "No such file or directory"),
    ],
)
def test_b135_a_file_that_is_cut_or_gone_is_a_problem_with_a_name(
    tmp_path: Path, pair: KeyPair, file: str, content: bytes | None, problem: str
) -> None:
    write(tmp_path, pair)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)

    found, said = mounted.read(tmp_path, NOW)

    assert found is None
    assert problem in (said or "")


def test_b135_a_key_that_comes_before_its_certificate_waits_for_it(
    tmp_path: Path, ca: Authority, pair: KeyPair
) -> None:
    write(tmp_path, pair)
    new = authority.issue(ca, ["localhost"], NOW)

    (tmp_path / "tls.key").write_bytes(new.key)
    assert "does not belong" in (mounted.read(tmp_path, NOW)[1] or "")
    (tmp_path / "tls.crt").write_bytes(new.certificate)

    assert mounted.read(tmp_path, NOW) == (new, None)


def test_b135_a_link_that_is_switched_is_followed(
    tmp_path: Path, ca: Authority, pair: KeyPair
) -> None:
    new = authority.issue(ca, ["localhost"], NOW)
    write(tmp_path / "..1", pair)
    write(tmp_path / "..2", new)
    (tmp_path / "..data").symlink_to("..1")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    assert mounted.read(tmp_path, NOW) == (pair, None)

    (tmp_path / "..next").symlink_to("..2")
    (tmp_path / "..next").replace(tmp_path / "..data")

    assert mounted.read(tmp_path, NOW) == (new, None)


def test_a_link_that_leads_nowhere_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "..data").symlink_to("..gone")

    found, problem = mounted.read(tmp_path, NOW)

    assert found is None
    assert "No such file" in (problem or "")


def test_b135_the_time_of_change_decides_nothing(
    tmp_path: Path, ca: Authority, pair: KeyPair
) -> None:
    write(tmp_path, pair)
    stamp = (tmp_path / "tls.crt").stat().st_mtime
    new = authority.issue(ca, ["localhost"], NOW)

    write(tmp_path, new)
    for name in ("tls.crt", "tls.key"):
        os.utime(tmp_path / name, (stamp, stamp))

    assert mounted.read(tmp_path, NOW) == (new, None)


@pytest.mark.parametrize("days", [-1, 31])
def test_what_is_not_valid_now_is_not_taken(tmp_path: Path, pair: KeyPair, days: int) -> None:
    write(tmp_path, pair)

    found, problem = mounted.read(tmp_path, NOW + timedelta(days=days))

    assert found is None
    assert "not now" in (problem or "")
