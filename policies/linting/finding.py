"""What lint finds, and what it may know beside the documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from datetime import datetime

    from plugins.framework.lines import Line
    from plugins.framework.runtime import CompiledRuntime

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One mistake, or what is seldom meant."""

    at: int
    """Which of the documents, from 0."""
    path: str
    """In the document; "" for all of it."""
    severity: Severity
    """An error keeps a policy from being Ready, or from doing what it says; a warning does not."""
    rule: str
    """``document``, ``expression``, ``conflict``, ``feedback``, ``rollout``, ``target``, ``runtime``, ``line``,
    ``params``, ``exception``."""
    message: str
    """What is wrong, and what would be right."""
    expression: str = ""
    """The text of the CEL expression that it is about."""
    column: int = 0
    """Where in the expression, from 1 over the whole text; 0 for all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What stands around the documents. What is None is not known, and nothing is said of what may be missing."""

    documents: Mapping[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    """Policies, exceptions and params of the cluster (``plugins.framework.cluster``)."""
    config_maps: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    """Namespace and name of every ConfigMap in sight -> whether it has the label that makes it params."""
    runtimes: tuple[CompiledRuntime, ...] | None = None
    line: Line | None = None
    """Of the Trainer that will run the jobs."""
    is_cluster: bool = False
    """Whether this is all there is: then what is named and not in sight does not exist."""
    now: datetime | None = None
