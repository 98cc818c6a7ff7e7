"""What all options have in common: what they are asked, and what they say about themselves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

import msgspec

from policies.options.shapes import NotExpressible

if TYPE_CHECKING:
    from plugins.framework.field import FieldError, Path
    from plugins.framework.info import Info
    from plugins.framework.lines import Line
    from policies.document import Expression
    from policies.writes import Mode, Write

KUBERNETES: Final = ("Kubernetes",)
"""The SDK's backends whose jobs are TrainJobs; the local ones never reach a server."""
ANY_TRAINER: Final = ("CustomTrainer", "CustomTrainerContainer", "BuiltinTrainer", "none")
OWN_COMMAND: Final = ("CustomTrainerContainer", "none")
BOTH_MODES: Final[tuple[Mode, ...]] = ("defaults", "overrides")

AS_IS: Final = "as it is"
REFUSED: Final = "refused"


def _silent(_text: str) -> None:
    """Nobody wants to hear it."""


def _no_outcome(path: Path) -> Any:
    """Nobody has called an option. Raises LookupError."""
    raise LookupError(f"the option at {path} has not been called")


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The job that an option is applied to, resolved as it is in this round."""

    resolved: Callable[[], Info]
    line: Line
    mode: Mode
    evaluate: Callable[[Expression], Any]
    """The JSON value of an expression of the same policy. Raises ExpressionFault."""
    outcome: Callable[[Path], Any] = _no_outcome
    """What the option of an outside package that stands there wrote for this job, or an EvaluationError."""
    note: Callable[[str], None] = _silent
    """Is told what an option leaves alone, and why."""

    @property
    def info(self) -> Info:
        """The job; resolved now, where nobody has asked yet."""
        return self.resolved()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What ``stationmaster options`` tells about an option."""

    fields: tuple[str, ...]
    """As in documents."""
    merge: str
    """What becomes of what others wrote."""
    lines: tuple[tuple[str, str], ...]
    """For each line of the Trainer: ``as it is``, how it is translated, or ``refused``."""
    modes: tuple[Mode, ...] = BOTH_MODES
    backends: tuple[str, ...] = KUBERNETES
    trainers: tuple[str, ...] = ANY_TRAINER
    sdk: str = ""
    """The SDK's releases that have the option; empty where it is ours alone."""
    example: str
    """What stands under ``defaults`` or ``overrides``, as YAML."""


class Target(NamedTuple):
    """What an option expects in a runtime: a job, and a container of it where ``container`` is not empty."""

    job: str
    """Empty: any job."""
    kind: str
    """``containers`` or ``initContainers``; empty where only the job is meant."""
    container: str
    path: Path


class Option(Protocol):
    """One key of ``defaults`` or ``overrides``, read from a document."""

    key: ClassVar[str]
    """As in documents: ``podTemplateOverrides``."""
    name: ClassVar[str]
    """As in the SDK: ``PodTemplateOverrides``."""
    facts: ClassVar[Facts]
    judges: ClassVar[bool] = False
    """Whether ``check`` says anything."""
    reads_job: ClassVar[bool] = False
    """Whether what it wants may depend on the job beyond its expressions: then others' writes count."""

    @abstractmethod
    def expressions(self) -> Iterable[Expression]:
        """Every expression in it, in document order."""

    @abstractmethod
    def plan(self, subject: Subject) -> list[Write]:
        """What it wants of this job.

        Raises NotExpressible where the served generation has no words for it, OptionFault where an expression
        gave what its place cannot hold.
        """

    def inexpressible(self, line: Line) -> list[FieldError]:
        """What the TrainJob of a line has no words for, each at its place in the document."""
        del line
        return []

    def targets(self) -> Iterable[Target]:
        """The jobs and containers that it names; where a runtime lacks one, that part is left out."""
        return ()

    def check(self, subject: Subject) -> list[FieldError]:
        """What is wrong with the job itself (``naming``): advice under defaults, a refusal under overrides."""
        del subject
        return []

    def refuse(self, line: Line) -> None:
        """Raise NotExpressible where ``inexpressible`` finds anything."""
        errors = self.inexpressible(line)
        if errors:
            raise NotExpressible(errors)
