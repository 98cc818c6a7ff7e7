"""Names that the API server makes of ``generateName`` (k8s.io/apiserver/pkg/storage/names/generate.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from plugins.framework import values

SUFFIX: Final = 5
"""Characters that are put behind the prefix."""
_LONGEST: Final = 63 - SUFFIX
"""Of a prefix; the rest of a longer one is cut off."""


def prefix_of(metadata: Mapping[str, Any]) -> str:
    """The ``generateName`` that a job's name will be made from, or looks as if it was; empty where the user chose it.

    The mutating call sees no name yet, the validating one sees it made.
    """
    name, prefix = (values.text(metadata.get(key)) for key in ("name", "generateName"))
    base = prefix[:_LONGEST]
    if not name or (name.startswith(base) and len(name) == len(base) + SUFFIX):
        return prefix
    return ""
