"""The reviews of ``tests/data/admission-reviews``, and the runtimes that fit them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

import orjson

from tests.builders import Json
from webhook.files import read_tree

FOLDER: Final = Path(__file__).parents[1] / "data" / "admission-reviews"


def review(number: int) -> Json:
    """One review, as it was recorded."""
    [path] = FOLDER.glob(f"{number:02}-*.json")
    found: Json = orjson.loads(path.read_bytes())
    return found


def names() -> list[str]:
    """Names of all files, in order."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


@lru_cache(maxsize=1)
def _documents() -> tuple[bytes, ...]:
    return tuple(orjson.dumps(document.obj) for document in read_tree(FOLDER / "cluster"))


def cluster() -> list[Json]:
    """The runtimes that the reviews name."""
    return [orjson.loads(data) for data in _documents()]
