"""The keys of ``defaults`` and ``overrides``: what the Kubeflow SDK calls options, done by the platform.

One class an option, with the SDK's names and fields; each plans ``Writes`` and writes nothing itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from plugins.framework.field import type_invalid

if TYPE_CHECKING:
    from plugins.framework.field import FieldError, Path
    from plugins.framework.info import Info
    from plugins.framework.lines import Line
    from policies.document import Expression
    from policies.writes import Mode, Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The job that an option is applied to, resolved as it is in this round."""

    info: Info
    line: Line
    mode: Mode
    evaluate: Callable[[Expression], Any]
    """The JSON value of an expression of the same policy. Raises ExpressionFault."""


class Option(Protocol):
    """One key of ``defaults`` or ``overrides``, read from a document."""

    key: ClassVar[str]
    """As in documents: ``podTemplateOverrides``."""
    name: ClassVar[str]
    """As in the SDK: ``PodTemplateOverrides``."""

    @abstractmethod
    def expressions(self) -> Iterable[Expression]:
        """Every expression in it, in document order."""

    @abstractmethod
    def plan(self, subject: Subject) -> list[Write]:
        """What it wants of this job. Raises NotExpressible where the served generation has no words for it."""


def read(mode: Mode, raw: Any, path: Path) -> tuple[tuple[Option, ...], list[FieldError]]:
    """Placeholder: the options' own reading takes this place."""
    del mode
    return (), [
        type_invalid(path.child(name), raw[name], "must be an object")
        for name in ("labels", "annotations", "specLabels", "specAnnotations")
        if raw.get(name) is not None and type(raw[name]) is not dict
    ]
