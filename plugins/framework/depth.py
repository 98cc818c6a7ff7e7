"""How deep a JSON document is nested: bounded, since recursion elsewhere is."""

from __future__ import annotations

from gc import get_referents
from typing import Any, Final

MOST: Final = 200
"""Levels. A TrainJob with every field set has about 25; orjson reads some 1,000 and writes 254."""


def exceeds(body: bytes, document: Any) -> bool:
    """Whether a document that was parsed from ``body`` is nested deeper than ``MOST``.

    Most reviews have fewer brackets than that altogether, not counting empty objects: fields that are managed are
    keys of such, a hundred in a review. Brackets alone do not tell more: those in texts can be set so that any
    depth looks flat.
    """
    most = body.count(b"{") - body.count(b"{}") + body.count(b"[")
    return most >= MOST and exceeds_in(document)


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
