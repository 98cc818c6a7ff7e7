"""Folders and files of YAML: the cluster of ``--from DIR``, and the objects of ``-f FILE``.

A folder is taken whole or not at all: a file that cannot be read, or an object that is there twice, is an error that
names the places, since a runtime that silently goes missing refuses somebody's job.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias

from plugins.framework.errors import BadInput, ConfigError
from plugins.framework.field import LONGEST_VALUE, escape
from webhook.yamlio import MAX_BYTES, Document, read_each

SUFFIXES: Final = (".yaml", ".yml", ".json")
STDIN: Final = "-"

_SETTLE_POLLS: Final = 5
"""How often a folder that goes on changing is left to settle before it is read as it is."""

Signature: TypeAlias = tuple[tuple[str, int, int, int, int], ...]
"""What tells one state of a folder from another: of each file its path, inode, size and times. The
time of change is among them, for a file that becomes readable."""


class Identity(NamedTuple):
    """What an object is called in a cluster; no namespace and ``default`` are the same."""

    group: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a file holds: its documents in order, and what in it could not be read."""

    source: str
    documents: list[Document] = field(default_factory=list)
    broken: list[BadInput] = field(default_factory=list)


def read_inputs(path: str, stdin: IO[bytes]) -> Inputs:
    """All documents of a file, or of standard input for ``-``; Lists are taken apart.

    A document that cannot be read does not hide the others, so that all of them are judged.

    Raises:
        ConfigError: the file cannot be opened or read.
    """
    if path != STDIN:
        return read_file(Path(path))
    try:
        data = stdin.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"standard input: {error.strerror}") from error
    return _inputs("standard input", data)


def read_file(path: Path) -> Inputs:
    """The same for a file. Raises ConfigError where it cannot be opened or read."""
    try:
        data = _read(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return _inputs(str(path), data)


def _inputs(source: str, data: bytes) -> Inputs:
    inputs = Inputs(source)
    for item in read_each(data, source, with_lines=True):
        if isinstance(item, BadInput):
            inputs.broken.append(item)
        else:
            inputs.documents.extend(flatten(item))
    return inputs


def read_tree(directory: Path, *also: Path, with_lines: bool = False) -> list[Document]:
    """All objects of a folder and the folders in it, in the order of their paths, and those of more folders or files.

    A file that is named itself may be called anything. Documents without a kind are left out. Hidden files and folders are too, among them the ``..data`` of
    a mounted ConfigMap, whose files are read through the links beside it; a file with two names is read once.

    Raises:
        ConfigError: a folder or a file cannot be read, or an object is there twice; with all places.
    """
    documents: list[Document] = []
    problems: list[str] = []
    for file in _files((directory, *also)):
        try:
            data = _read(file.path)
        except OSError as error:
            problems.append(f"{file.path}: {error.strerror}")
            continue
        for item in read_each(data, str(file.path), with_lines=with_lines):
            if isinstance(item, BadInput):
                problems.append(str(item))
            else:
                documents.extend(found for found in flatten(item) if kind_of(found.obj))
    problems += duplicates(documents)
    if problems:
        raise ConfigError("\n".join(problems))
    return documents


def _read(path: Path) -> bytes:
    """The bytes of a file, and of one that is too large enough of them to see that."""
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def flatten(document: Document) -> list[Document]:
    """A ``List``, or a list of one kind such as ``TrainJobList``, as its items; all else as it is."""
    kind = kind_of(document.obj)
    if not kind.endswith("List") or not isinstance(document.obj.get("items"), list):
        return [document]
    found = []
    for i, item in enumerate(document.obj["items"]):
        place = f"{document.item}.items[{i}]" if document.item else f"items[{i}]"
        item = _with_kind(item, document.obj, kind.removesuffix("List"))  # noqa: PLW2901  # the same item
        found += flatten(replace(document, obj=item, item=place))
    return found


def _with_kind(item: Any, parent: dict[str, Any], kind: str) -> Any:
    """The API server leaves kind and apiVersion out of the items of typed lists."""
    if not kind or not isinstance(item, dict) or "kind" in item:
        return item
    return {"apiVersion": parent.get("apiVersion"), "kind": kind, **item}


def kind_of(obj: Any) -> str:
    """The kind of an object; empty for whatever is none."""
    kind = obj.get("kind") if isinstance(obj, dict) else None
    return kind if isinstance(kind, str) else ""


def identity_of(obj: Any) -> Identity | None:
    """What an object is called; None if it has no kind or no name."""
    metadata = obj.get("metadata") if kind_of(obj) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name or not isinstance(metadata, dict):
        return None
    group, slash, _ = str(obj.get("apiVersion") or "").partition("/")
    namespace = metadata.get("namespace")
    return Identity(
        group=group if slash else "",
        kind=kind_of(obj),
        namespace=namespace if isinstance(namespace, str) and namespace else "default",
        name=name,
    )


def title_of(obj: Any) -> str:
    """What a message calls an object: ``TrainJob team-a/llm``, ``ClusterTrainingRuntime torch``."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name") or metadata.get("generateName") or "(no name)"
    namespace = metadata.get("namespace")
    shown = escape(f"{namespace}/{name}" if namespace else str(name))
    return f"{escape(kind_of(obj)) or 'object'} {shown[:LONGEST_VALUE]}"


def duplicates(documents: Iterable[Document]) -> Iterator[str]:
    """What is there twice, with both places."""
    first: dict[Identity, Document] = {}
    for document in documents:
        identity = identity_of(document.obj)
        if identity is None:
            continue
        if identity in first:
            places = f"{first[identity].where} and {document.where}"
            yield f"{title_of(document.obj)} is there twice: {places}"
        else:
            first[identity] = document


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    status: os.stat_result

    @property
    def identity(self) -> tuple[int, int]:
        return self.status.st_dev, self.status.st_ino


def _files(paths: Iterable[Path]) -> Iterator[_File]:
    """The files to read, each once, sorted by path."""
    seen: set[tuple[int, int]] = set()
    entered: set[tuple[int, int]] = set()
    found = [file for path in paths for file in _walk(path, entered)]
    for file in sorted(found, key=lambda file: file.path.parts):
        if file.identity not in seen:
            seen.add(file.identity)
            yield file


def _walk(directory: Path, visited: set[tuple[int, int]]) -> Iterator[_File]:
    """Links to folders are followed, but no folder is entered twice: links may run in a circle."""
    try:
        status = directory.stat()
        if not stat.S_ISDIR(status.st_mode):  # a pipe too, as of ``lint <(kustomize build)``
            yield _File(directory, status)
            return
        if (status.st_dev, status.st_ino) in visited:
            return
        visited.add((status.st_dev, status.st_ino))
        entries = sorted(directory.iterdir())
    except OSError as error:
        raise ConfigError(f"{directory}: {error.strerror}") from error
    for path in entries:
        if path.name.startswith("."):
            continue
        try:
            status = path.stat()
        except OSError as error:
            if path.suffix in SUFFIXES:
                raise ConfigError(f"{path}: {error.strerror}") from error
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(path, visited)
        elif path.suffix in SUFFIXES and stat.S_ISREG(status.st_mode):
            yield _File(path, status)


def files_of(*paths: Path) -> list[Path]:
    """The files that ``read_tree`` would read. Raises ConfigError where one is not there."""
    return [file.path for file in _files(paths)]


def signature(*paths: Path) -> Signature:
    """The state of folders and files, as far as it can be told without reading them. Raises ConfigError."""
    return tuple(
        (str(f.path), f.status.st_ino, f.status.st_size, f.status.st_mtime_ns, f.status.st_ctime_ns)
        for f in _files(paths)
    )


class Follower:
    """Follows a folder, and more of them or files: hands over the whole new state when it changes, and keeps the last good one.

    ::

        follower = Follower(directory, on_change=store.swap, on_problem=log)
        store.swap(follower.load())
        await follower.run()  # until cancelled

    Polling sees what happens on mounted ConfigMaps and network file systems, where notifications do not
    come. A change is read once two polls in a row see the same state: editors and ``git`` write piece by piece.
    """

    def __init__(
        self,
        directory: Path,
        *also: Path,
        on_change: Callable[[list[Document]], None],
        on_problem: Callable[[str], None],
        interval_seconds: float = 1.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        read: Callable[..., list[Document]] = read_tree,
    ) -> None:
        """Name what to follow and whom to tell; ``on_change`` may refuse a state by a ConfigError."""
        self._paths = (directory, *also)
        self._on_change = on_change
        self._on_problem = on_problem
        self._interval_seconds = interval_seconds
        self._sleep = sleep
        self._read = read
        self._tried: Signature | None = None
        self._seen: Signature | None = None
        self._unsettled = 0
        self._problem = ""

    def load(self) -> list[Document]:
        """Read the folder for the first time.

        Raises:
            ConfigError: it cannot be used; without a last good state there is nothing to serve.
        """
        now = signature(*self._paths)
        documents = self._read(*self._paths)
        self._tried = self._seen = now
        return documents

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self._sleep(self._interval_seconds)
            await self.poll()

    async def poll(self) -> None:
        """Look once; files are read in a thread, both callbacks are called in the event loop."""
        try:
            now = await asyncio.to_thread(signature, *self._paths)
        except ConfigError as error:
            self._tried = None  # to read it again when it is back, even if nothing in it changed
            self._complain(str(error))
            return
        try:
            if now == self._tried or not self._is_settled(now):
                return
            self._tried = now
            self._on_change(await asyncio.to_thread(self._read, *self._paths))
        except ConfigError as error:
            self._complain(str(error))
        else:
            self._problem = ""

    def _is_settled(self, now: Signature) -> bool:
        if now != self._seen and self._unsettled < _SETTLE_POLLS:
            self._seen = now
            self._unsettled += 1
            return False
        self._seen, self._unsettled = now, 0
        return True

    def _complain(self, problem: str) -> None:
        """Report a failure once, until another one or success takes its place."""
        if problem != self._problem:
            self._problem = problem
            self._on_problem(problem)
