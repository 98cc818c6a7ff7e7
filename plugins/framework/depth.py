"""How deep a JSON document is nested: bounded, since recursion elsewhere is."""

from __future__ import annotations

from gc import get_referents
from typing import Any, Final

MOST: Final = 200
"""Levels. A TrainJob with every field set has about 25; orjson reads some 1,000 and writes 254."""


def exceeds(body: bytes, document: Any) -> bool:
    """Whether a document that was parsed from ``body`` is nested deeper than ``MOST``.

    At each place no more is open than brackets have been opened before, and no more than are closed behind it. So the
    larger of what the first half opens and what the second half closes bounds the depth, whatever texts hold, and
    most reviews have fewer of either: one of 8 KB, with all that the API server notes of its fields, some 170.
    """
    half = len(body) // 2
    opened = body.count(b"{", 0, half) + body.count(b"[", 0, half)
    closed = body.count(b"}", half) + body.count(b"]", half)
    return max(opened, closed) >= MOST and exceeds_in(document)


def exceeds_in(document: Any) -> bool:
    """The same for a document without its text, by walking it level by level.

    ``get_referents`` gives what a container holds at the speed of C: 40 us for a review of 8 KB, where a walk in
    Python takes 120.
    """
    level = [document] if type(document) is dict or type(document) is list else []
    for _ in range(MOST):
        level = [v for v in get_referents(*level) if type(v) is dict or type(v) is list]
        if not level:
            return False
    return True
