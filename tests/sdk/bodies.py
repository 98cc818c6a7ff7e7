"""The bodies of ``tests/data/sdk-trainjobs``, and the cluster of each Trainer line that they were meant for."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

import orjson

from tests.builders import Json
from tests.folder import Folder
from webhook.files import read_tree

DATA: Final = Path(__file__).parents[1] / "data" / "sdk-trainjobs"
NAMESPACE: Final = "team-a"
"""The one that the URL named."""


def names() -> list[str]:
    """All bodies, in order."""
    return sorted(path.stem for path in DATA.glob("*.json"))


def body(name: str) -> Json:
    """One body, in the namespace that its URL named."""
    found: Json = orjson.loads((DATA / f"{name}.json").read_bytes())
    found["metadata"]["namespace"] = NAMESPACE
    return found


def is_old(name: str) -> bool:
    """Whether it was made for Trainer 2.0 and 2.1."""
    return name.startswith("0.3.1")


def line_of(name: str) -> str:
    """The newest line that has all fields of the body."""
    return "2.1" if is_old(name) else "2.3"


def runtimes(line: str) -> list[Json]:
    """The runtimes of a line, as Trainer ships them, in words of our own."""
    folder = DATA / ("cluster-2.1" if line in {"2.0", "2.1"} else "cluster-2.3")
    return [document.obj for document in read_tree(folder)]


@lru_cache(maxsize=4)
def folder(line: str) -> Folder:
    """The engine over the runtimes of a line."""
    return Folder.of(*runtimes(line), line=line)
