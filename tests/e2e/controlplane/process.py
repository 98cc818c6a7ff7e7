"""Programs that run beside the tests: started, waited for, paused, killed, started again."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

START_SECONDS: Final = 300.0
"""Until ready; several compiles may run on the same two cores."""

STOP_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.05
LOG_TAIL: Final = 4000

_PORTS: Final = range(20_000, 32_000)
"""Below the ports that the system gives to connections: a restarted server finds its own port free."""


class StartError(Exception):
    """A program ended early or did not become ready; the message ends with its log."""


class Guard:
    """A small process that outlives us by seconds and leaves nothing behind (``guard.py``)."""

    def __init__(self) -> None:
        """Start it, in a session of its own: a Ctrl-C in our terminal is not for it."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("guard.py"))],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        """End this process if we die."""
        self._write(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """It has ended; its number may soon be another's."""
        self._write(f"-{pid}\n")

    def close(self) -> None:
        """End the guard; what it still watches goes with it."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=STOP_SECONDS)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None  # piped above
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line)
            self._process.stdin.flush()


class Component:
    """One program: its command, its log, and whether it answers."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        guard: Guard,
        ready: Callable[[], bool],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the program; ``start`` starts it."""
        self.name = name
        self.command = tuple(command)
        self.log = log
        self._guard = guard
        self._ready = ready
        self._environ = {**os.environ, **(environ or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self.started_in_seconds = 0.0

    def __enter__(self) -> Self:
        """Start, and wait until it is ready."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the process is there; paused counts."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    def start(self, *, wait: bool = True) -> Self:
        """Start the process, again if it ran before; ``wait`` until it is ready."""
        assert not self.running, f"{self.name} runs already"
        self._began = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environ,
                start_new_session=True,
            )
        self._guard.watch(self._process.pid)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout_seconds: float = START_SECONDS) -> None:
        """Wait until it answers. Raises StartError, with the end of its log, if it does not."""
        deadline = time.monotonic() + timeout_seconds
        while not self._ready():
            if not self.running:
                self.stop()
                raise StartError(f"{self.name} ended early\n{self.tail()}")
            if time.monotonic() > deadline:
                raise StartError(
                    f"{self.name} is not ready after {timeout_seconds} s\n{self.tail()}"
                )
            time.sleep(POLL_SECONDS)
        self.started_in_seconds = time.monotonic() - self._began

    def is_ready(self) -> bool:
        """Whether it answers now."""
        return self.running and self._ready()

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> None:
        """Ask it to leave, and kill it if it does not; nothing if it does not run."""
        if self._process is None:
            return
        self._signal(signal.SIGTERM)
        self.resume()
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
        self._reap()

    def kill(self) -> None:
        """Kill it, as a crash would."""
        self._signal(signal.SIGKILL)
        self._reap()

    def pause(self) -> None:
        """Stop it where it stands: it holds its port and its connections, and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after ``pause``."""
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def tail(self, characters: int = LOG_TAIL) -> str:
        """The end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return text[-characters:]

    def memory_mib(self) -> float:
        """What the process holds in memory now, in MiB; Linux only."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._guard.forget(self._process.pid)


def free_port() -> int:
    """A port of loopback that nobody listens on, and that no other run on this machine is given meanwhile."""
    while True:
        port = random.choice(_PORTS)
        if not _reserve(port):
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _reserve(port: int) -> bool:
    """Lock a file that stands for the port until this process ends; whether nobody else has."""
    folder = Path(tempfile.gettempdir()) / f"stationmaster-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    return True


def is_listening(port: int) -> bool:
    """Whether a connection to the port of loopback is accepted."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
