"""What a package publishes under the entry-point group ``stationmaster.options``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

GROUP: Final = "stationmaster.options"

ENTRY: Final = "options"
"""The key of ``defaults`` and ``overrides`` under which policies name them."""

Call = Callable[[dict[str, Any], Any, Any], Any]
"""``(job_spec, trainer, backend)``: writes to ``job_spec`` what it wants of the TrainJob; what it returns is ignored."""


@dataclass(frozen=True, kw_only=True)
class CustomOption:
    """One option: what policies call it, what makes it, and where it may be used.

    ::

        DEADLINE = CustomOption(
            name="deadline",
            make=Deadline,
            args={"type": "object", "properties": {"seconds": {"type": "integer", "minimum": 1}}},
            example={"seconds": 3600},
        )
    """

    name: str
    """As policies name it; the name of the entry point, too."""
    make: Callable[..., Call]
    """Called with the policy's ``args`` as keywords (``maxRetries`` arrives as ``max_retries``) for every job; gives
    the option itself. The SDK's own classes are such, and so is ``lambda: my_function``."""
    args: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    """The schema of ``args``, as in CRDs: object, array, string, integer and boolean with their bounds."""
    summary: str = ""
    """One sentence for ``stationmaster options``."""
    modes: tuple[Literal["defaults", "overrides"], ...] = ("defaults", "overrides")
    """Under which of them it may stand."""
    lines: tuple[str, ...] = ("2.0", "2.1", "2.2", "2.3")
    """The lines of the Trainer that it is for."""
    backends: tuple[str, ...] = ("Kubernetes",)
    """As in the SDK. A policy can use it only where ``Kubernetes`` is among them."""
    example: Mapping[str, Any] = field(default_factory=dict)
    """Arguments for the policy that ``stationmaster options NAME --example`` prints."""
