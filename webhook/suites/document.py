"""A PolicyTest, typed: see docs/policies/testing.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from webhook.asked import Asked

SUFFIXES: Final = ("_test.yaml", "_test.yml")
LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""When a case happens that does not say when: a test must say the same every day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What must come of a case; None where a part is not asked for."""

    allowed: bool | None = None
    refused: tuple[str, ...] | None = None
    """Parts of errors; the case wants a refusal."""
    refused_only: tuple[str, ...] | None = None
    """The same, and every error must have one of these in it."""
    warned: tuple[str, ...] | None = None
    """Parts of warnings; none: there must be no warning."""
    patched: Mapping[str, Any] = field(default_factory=dict)
    """Path -> value in the admitted job."""
    absent: tuple[str, ...] = ()
    pods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Pod set -> path in its pod template -> value."""
    audit: Mapping[str, str] = field(default_factory=dict)
    """Key -> part of the audit annotation."""

    @property
    def is_refusal(self) -> bool | None:
        """Whether the job must be refused; None where either will do."""
        if self.refused is not None or self.refused_only is not None or self.allowed is False:
            return True
        if self.allowed or self.patched or self.absent or self.pods:
            return False
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question, and the answer that is wanted."""

    name: str
    line: int
    """Of the file, from 1."""
    job: dict[str, Any]
    old: dict[str, Any] | None
    asked: Asked
    trainer_version: str | None
    want: Want


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One PolicyTest."""

    source: Path
    cluster: tuple[Path, ...]
    """Folders and files that stand for the cluster."""
    policies: tuple[Path, ...]
    """Those under test; none: all of the cluster."""
    objects: tuple[dict[str, Any], ...]
    cases: tuple[Case, ...]
