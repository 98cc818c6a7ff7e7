"""``python -m tests.e2e.controlplane``: build the programs, or run a control plane until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.conformance.build import BuildError
from tests.e2e.controlplane.build import Programs
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import StartError


def main(argv: Sequence[str] | None = None) -> int:
    """Do what was asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="compile what is not there yet, and say where it is")
    up = commands.add_parser("up", help="run a control plane until Ctrl-C")
    up.add_argument("--no-kueue", action="store_true", help="leave Kueue out")
    up.add_argument("--folder", type=Path, help="keep certificates, logs and etcd's data here")
    arguments = parser.parse_args(argv)
    try:
        if arguments.command == "build":
            return _build()
        return _up(arguments.folder, kueue=not arguments.no_kueue)
    except (BuildError, StartError) as error:
        _say(str(error))
        return 1
    except KeyboardInterrupt:
        return 130


def _build() -> int:
    for path in Programs().build_all():
        _tell(str(path))
    return 0


def _up(folder: Path | None, *, kueue: bool) -> int:
    # SIGTERM leaves as Ctrl-C does: through the `with`, which stops everything.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _folder(folder) as home, ControlPlane(home) as plane:
        _say("kube-apiserver, etcd and kube-controller-manager run")
        plane.start_jobset()
        plane.start_trainer()
        if kueue:
            plane.start_kueue()
        plane.install_runtimes()
        _say(", ".join(plane.components) + " run; logs in " + str(home / "logs"))
        _tell(f"export KUBECONFIG={plane.kubeconfig()}")
        _tell(f"{plane.programs.path('kubectl')} get clustertrainingruntimes")
        _say("Ctrl-C stops it")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
        _say("stopping")
    return 0


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    if chosen:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="stationmaster-") as made:
        yield Path(made)


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
