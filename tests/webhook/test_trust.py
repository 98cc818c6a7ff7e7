from __future__ import annotations

import io
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from plugins.framework.errors import ConfigError
from tests.certs.handshake import client_context, shake
from webhook import logs, trust
from webhook.metrics import Recorder
from webhook.trust import Standalone


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(microsecond=0)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def standalone(clock: Clock, recorder: Recorder) -> Standalone:
    logger = logs.build(io.BytesIO())
    return Standalone("trainer.example.test", recorder=recorder, logger=logger, clock=clock)


def ends(recorder: Recorder, which: str) -> float | None:
    name = "stationmaster_tls_certificate_not_after_seconds"
    return recorder.registry.get_sample_value(name, {"which": which})


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "trainer.example.test"])
def test_the_ca_that_is_left_behind_makes_each_name_believed(
    standalone: Standalone, tmp_path: Path, host: str
) -> None:
    file = standalone.write(tmp_path, 9443)

    shake(standalone.context, client_context(file.read_bytes()), host)


def test_what_is_left_behind_is_a_certificate_and_no_key(
    standalone: Standalone, tmp_path: Path
) -> None:
    file = standalone.write(tmp_path, 9443)

    assert file == tmp_path / "stationmaster-ca.crt"
    assert list(tmp_path.iterdir()) == [file]
    assert b"PRIVATE" not in file.read_bytes()
    assert x509.load_pem_x509_certificate(file.read_bytes()).extensions


def test_a_file_of_an_earlier_run_is_replaced(standalone: Standalone, tmp_path: Path) -> None:
    (tmp_path / trust.FILE).write_text("old")

    assert standalone.write(tmp_path, 9443).read_bytes().startswith(b"-----BEGIN CERTIFICATE")


def test_a_folder_is_made_where_there_is_none(standalone: Standalone, tmp_path: Path) -> None:
    assert standalone.write(tmp_path / "a" / "b", 9443).exists()


def test_a_folder_that_cannot_be_used_is_an_error_that_says_what_to_do(
    standalone: Standalone, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match=r"file.*Not a directory; .* --cert-dir"):
        standalone.write(tmp_path / "file" / "x", 9443)


def test_by_default_it_is_left_among_the_users_running_programs(
    standalone: Standalone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    assert standalone.write(None, 9443) == tmp_path / "stationmaster/9443/stationmaster-ca.crt"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"stationmaster-{os.getuid()}"


def test_else_in_a_temporary_folder_that_only_this_user_can_change(
    standalone: Standalone, temporary: Path
) -> None:
    assert standalone.write(None, 9443) == temporary / "9443" / "stationmaster-ca.crt"
    assert temporary.stat().st_mode & 0o777 == 0o700


def test_a_temporary_folder_that_somebody_else_prepared_is_not_used(
    standalone: Standalone, temporary: Path, tmp_path: Path
) -> None:
    (tmp_path / "theirs").mkdir()
    temporary.symlink_to(tmp_path / "theirs")

    with pytest.raises(ConfigError, match="belongs to somebody else"):
        standalone.write(None, 9443)


def test_on_all_addresses_the_machine_is_known_by_its_own_name() -> None:
    assert trust.names_of("0.0.0.0")[:3] == ["localhost", "127.0.0.1", "::1"]
    assert trust.names_of("0.0.0.0")[3:] == trust.names_of("")[3:] != ["0.0.0.0"]


def test_a_young_pair_stays(standalone: Standalone, clock: Clock, recorder: Recorder) -> None:
    before = ends(recorder, "leaf")
    clock.now += timedelta(days=19)

    standalone.renew()

    assert ends(recorder, "leaf") == before


def test_an_old_pair_is_renewed_under_the_same_authority(
    recorder: Recorder, clock: Clock, tmp_path: Path
) -> None:
    today = clock.now
    clock.now -= timedelta(
        days=25
    )  # so that OpenSSL, which has a clock of its own, accepts both pairs
    logger = logs.build(io.BytesIO())
    standalone = Standalone("localhost", recorder=recorder, logger=logger, clock=clock)
    trusted = client_context(standalone.write(tmp_path, 9443).read_bytes())
    before = shake(standalone.context, trusted, "localhost")

    clock.now = today
    standalone.renew()

    after = shake(standalone.context, trusted, "localhost")
    assert after.certificate != before.certificate
    assert ends(recorder, "leaf") == (today + timedelta(days=30)).timestamp()


def test_a_pair_past_its_end_is_a_problem(standalone: Standalone, clock: Clock) -> None:
    assert standalone.problem() is None

    clock.now += timedelta(days=31)

    assert "is not valid now" in (standalone.problem() or "")
