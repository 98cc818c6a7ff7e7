"""Kubernetes' CEL libraries that the engine lacks, as Python functions.

Names, overloads and answers are those of ``k8s.io/apiserver/pkg/cel/library``; docs/policies/cel.md lists them.
"""

from __future__ import annotations

from functools import lru_cache

from policies.cel.library import formats, lists, maps, network, quantities, regex, semver, urls
from policies.cel.library.function import Function

__all__ = ["Function", "functions"]


@lru_cache(maxsize=1)
def functions() -> tuple[Function, ...]:
    """All of them, by library."""
    return (
        *lists.functions(),
        *maps.functions(),
        *regex.functions(),
        *quantities.functions(),
        *semver.functions(),
        *network.functions(),
        *urls.functions(),
        *formats.functions(),
    )
