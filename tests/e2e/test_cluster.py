"""``make cluster``: what it prints is what works, and nothing is left of it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.controlplane.waiting import wait_for

pytestmark = pytest.mark.e2e

ROOT: Final = Path(__file__).parents[2]
COMMANDS: Final = 4
STOP_SECONDS: Final = 120.0


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """A run in the background ignores Ctrl-C, and what it starts would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def processes_of(folder: Path) -> list[str]:
    """The command lines of all processes that name the folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if str(folder) in command:
            found.append(command)
    return found


def typed(line: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = shlex.split(line, comments=True)
    return subprocess.run(
        command, env=environ, cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_what_is_printed_works_and_nothing_is_left(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "cluster"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.cluster", f"--folder={folder}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        export, create, refuse, doctor = (process.stdout.readline() for _ in range(COMMANDS))
        variable, _, kubeconfig = shlex.split(export)[1].partition("=")
        environ = {**os.environ, variable: kubeconfig}

        created = typed(create, environ)
        assert "stationmaster.dev/applied" in created.stdout, created.stderr
        refused = typed(refuse, environ)
        assert 'The TrainJob "refused" is invalid' in refused.stderr
        well = typed(doctor, environ)
        assert well.stdout.endswith("all is well\n"), well.stdout

        assert len(processes_of(folder)) > COMMANDS
        process.send_signal(number)
        assert process.wait(STOP_SECONDS) == 0

    wait_for(lambda: not processes_of(folder), "all processes to be gone")


def test_it_can_be_stopped_before_it_is_ready(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.cluster", f"--folder={folder}"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        wait_for(lambda: processes_of(folder / "etcd"), "etcd")
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert process.stderr.read().endswith("==> stopped\n")
        assert process.wait(STOP_SECONDS) == 130

    wait_for(lambda: not processes_of(folder), "all processes to be gone")


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.cluster", f"--folder={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == f"==> {tmp_path} is not empty: name a new folder\n"
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
