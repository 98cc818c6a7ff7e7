"""What every extension point is given: the request, the cluster as it was, the line, the time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from plugins.framework import applied
from plugins.framework.errors import DeadlineExceeded

if TYPE_CHECKING:
    from plugins.framework.api.admission import AdmissionRequest
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.cluster import Snapshot
    from plugins.framework.info import Info
    from plugins.framework.lines import Line


Evaluate = Callable[[Sequence[Any], float | None], Awaitable[Sequence[Any]]]
"""Questions, and the deadline in the units of the Context's clock -> answers in the same order."""

EPOCH: Final = datetime.fromtimestamp(0, UTC)


def _nothing(_ctx: Context) -> None:
    """There is no stored TrainJob."""


async def nobody(questions: Sequence[Any], deadline: float | None) -> Sequence[Any]:
    """Nobody is there to be asked."""
    del deadline
    raise LookupError(f"there are no workers for {len(questions)} questions")


class Context(msgspec.Struct, kw_only=True, eq=False):
    """The surroundings of one request.

    ``deadline`` is in the units of ``clock`` (monotonic seconds); None where nobody waits.
    """

    request: AdmissionRequest
    cluster: Snapshot
    line: Line
    namespace: str
    clock: Callable[[], float]
    deadline: float | None = None
    written: Mapping[str, str] | None = None
    """JSON Pointers of what the mutating call of a CREATE has written into the object so far (see ``applied``);
    None in all others, where the object's own annotation says it."""
    resolve_stored: Callable[[Context], Info | None] = _nothing
    """How ``before`` works it out."""
    now: datetime = EPOCH
    """The time of day by which things expire."""
    evaluate: Evaluate = nobody
    """Hands questions to the killable workers."""
    round: int = 1
    """Which round of defaults and overrides this is, from 1."""
    again: bool = False
    """Set by a plugin whose defaults or overrides depend on what others write: one more round, if this one wrote."""
    notes: dict[str, Any] = {}
    """What one extension point leaves for a later one, by plugin name."""
    audit: dict[str, str] = {}
    """Audit annotations of the answer, which the API server puts under our webhook's name."""

    _before: Info | Literal["not asked for"] | None = "not asked for"

    def before(self) -> Info | None:
        """On UPDATE: the stored TrainJob, resolved as the new one is, policies and all; worked out once.

        None on CREATE, or where its runtime is gone.
        """
        if self._before == "not asked for":
            self._before = self.resolve_stored(self)
        return self._before

    @property
    def is_create(self) -> bool:
        """Whether the object is new."""
        return self.request.operation == "CREATE"

    @property
    def is_update(self) -> bool:
        """Whether there is an old object."""
        return self.request.operation == "UPDATE"

    def is_ours(self, job: TrainJob, pointer: str) -> bool:
        """Whether admission, not the user, wrote what stands there.

        What a new object's annotation claims is believed only as far as this call has found it true.
        """
        return pointer in (applied.read(job.raw) if self.written is None else self.written)

    def check_deadline(self) -> None:
        """Raise DeadlineExceeded once the time that the caller grants is used up."""
        if self.deadline is not None and self.clock() > self.deadline:
            raise DeadlineExceeded("the time granted by the caller is used up")
