"""Builds the oracle of a Trainer line once, and keeps it in a cache; the program ``later`` too.

``python -m tests.conformance.build`` builds all; ``--line 2.3`` only that one. The first build of a
line compiles a good part of Kubernetes and takes minutes; progress goes to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests import gobuild

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LINES: Final[Mapping[str, str]] = {
    "2.0": "line20",
    "2.1": "line21",
    "2.2": "line22",
    "2.3": "line23",
}
SOURCES: Final = Path(__file__).parent / "oracle"
TRAINER: Final = "github.com/kubeflow/trainer/v2"
JOBSET: Final = "sigs.k8s.io/jobset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A line's oracle in the cache, and the manifests of the Trainer that it was built from."""

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

    def folder(self, environ: Mapping[str, str]) -> Path:
        """Its place in the cache, named after everything of ours that decides what it does."""
        files = [
            (f"{folder.name}/{file.name}", file)
            for folder in (SOURCES / name for name in self.sources)
            for file in sorted(folder.iterdir())
            if file.suffix in {".go", ".mod", ".sum"}
        ]
        name = f"{self.module.name}-{gobuild.digest(files)}"
        return gobuild.cache_root(environ) / "oracle" / name

    def is_built(self, environ: Mapping[str, str]) -> bool:
        """Whether the cache has it."""
        return (self.folder(environ) / "oracle").exists()


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
    folder = _built(_oracle(line), environ)
    return Built(
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


def is_built(line: str, *, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the cache has the line's oracle for the present sources."""
    return _oracle(line).is_built(environ)


def later_is_built(*, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the cache has the program ``later`` for the present sources."""
    return _LATER.is_built(environ)


def _built(program: _Program, environ: Mapping[str, str]) -> Path:
    folder = program.folder(environ)
    if not program.is_built(environ):
        with gobuild.workshop(program.module, environ=environ) as workshop:
            if not program.is_built(environ):  # made while we waited for the lock
                _build_into(folder, program, workshop)
    return folder


def _build_into(folder: Path, program: _Program, workshop: gobuild.Workshop) -> None:
    with gobuild.moved_to(folder) as made:
        made.mkdir()
        workshop.say(f"{program.label}: fetching modules")
        other = workshop.sources(program.manifests_of)
        workshop.compile(".", made / "oracle", label=program.label)
        for part, source in program.manifests.items():
            gobuild.copy_tree(other / source, made / part)


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
    except gobuild.BuildError as error:
        gobuild.say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
