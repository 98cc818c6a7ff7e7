"""Two clusters, as it is and as it would be, and what each says of one TrainJob after another.

Two questions are asked of each job. *If it were created again*, from what its user asked for: who creates jobs in a
pipeline meets the new rules this way. And *with its next change* while it exists: it is updated by a change that means
nothing (an annotation), which shows what the policies would write anew, and proves for this very job that a stricter
rule does not block it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.api.trainjob import TrainJob
from policies import record
from webhook.assembly import build_pipeline
from webhook.offline import Offline
from webhook.podgroups import Documents
from webhook.simulation.asked import as_asked
from webhook.simulation.compare import Difference, What, compare, compare_pods
from webhook.simulation.judged import Judged, flattened, judged
from webhook.yamlio import Document

if TYPE_CHECKING:
    from plugins.framework.cluster import Snapshot
    from plugins.framework.lines import Line
    from policies.matching import Creator

TOUCHED: Final = "stationmaster.dev/simulated"
"""The annotation of the change that means nothing."""

State = Literal["running", "suspended", "finished", "terminating"]
RuntimeKey = tuple[str, str, str]
"""Kind, namespace ("" of a cluster's) and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One TrainJob for which something would be otherwise."""

    namespace: str
    name: str
    runtime: str
    state: State
    created_again: tuple[Difference, ...]
    next_change: tuple[Difference, ...]


@dataclass(slots=True)
class Tally:
    """Everything counted; of the jobs themselves only so many are kept."""

    most: int
    rows: list[Row] = field(default_factory=list)
    left_out: int = 0
    jobs: int = 0
    states: Counter[State] = field(default_factory=Counter)
    created_again: Counter[tuple[str, str, What]] = field(default_factory=Counter)
    """Jobs by namespace, policy and what would be otherwise."""
    next_change: Counter[tuple[str, str, What]] = field(default_factory=Counter)
    whats: Counter[What] = field(default_factory=Counter)
    """Jobs by what would be otherwise if they were created again; each counts once."""
    later: Counter[What] = field(default_factory=Counter)
    """The same with their next change."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be otherwise."""
        return not self.whats and not self.later

    def add(self, row: Row) -> None:
        """Count a job, and keep it if something is otherwise and there is room."""
        self.jobs += 1
        self.states[row.state] += 1
        for differences, by_policy, by_what in (
            (row.created_again, self.created_again, self.whats),
            (row.next_change, self.next_change, self.later),
        ):
            by_policy.update({(row.namespace, d.by, d.what) for d in differences})
            by_what.update({d.what for d in differences})
        if not row.created_again and not row.next_change:
            return
        if len(self.rows) < self.most:
            self.rows.append(row)
        else:
            self.left_out += 1


class _Answer(NamedTuple):
    judged: Judged
    sent: dict[str, Any]
    """The job after the API server's defaults."""
    admitted: dict[str, Any] | None
    """None where it is refused."""


class Simulator:
    """Judges each job in both clusters."""

    def __init__(  # noqa: PLR0913  # all that it is put together from
        self,
        now: Snapshot,
        then: Snapshot,
        *,
        line: Line | None,
        profile: Path | None,
        runtimes: Collection[RuntimeKey] = (),
        creator: Creator | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Take the cluster as it is and as it would be; ``runtimes`` are those that differ.

        ``creator`` is who created every job; None: what is recorded in each says it, as on UPDATE. Raises ConfigError
        where the profile cannot be used.
        """
        moment = clock()  # the same for all: an exception does not expire between two jobs
        self._creator = creator
        self._runtimes = frozenset(runtimes)
        self._now, self._then = (
            Offline(
                snapshot,
                line,
                build_pipeline(profile),
                Documents((), line),
                lambda: moment,
            )
            for snapshot in (now, then)
        )

    def judge(self, raw: dict[str, Any]) -> Row:
        """What would be otherwise for one stored TrainJob. Raises StationmasterError where it cannot be judged."""
        job = TrainJob(raw)
        return Row(
            namespace=job.namespace or names.DEFAULT_NAMESPACE,
            name=job.name,
            runtime=job.runtime_name,
            state=_state(job),
            created_again=tuple(self._created_again(raw)),
            next_change=tuple(self._next_change(raw)),
        )

    def _created_again(self, raw: dict[str, Any]) -> list[Difference]:
        line = self._then.line_of(raw)
        asked = as_asked(raw, line)
        creator = self._creator or record.read(raw)
        now, then = (
            self._answer(engine, asked, None, creator) for engine in (self._now, self._then)
        )
        found = compare(flattened(then.sent), now.judged, then.judged)
        runtime = self._runtime_of(raw)
        if runtime in self._runtimes and now.admitted is not None and then.admitted is not None:
            title = f"{runtime[0]} {runtime[2]}"
            found += compare_pods(
                _objects(self._now, now.admitted), _objects(self._then, then.admitted), title
            )
        return found

    def _next_change(self, raw: dict[str, Any]) -> list[Difference]:
        stored: dict[str, Any] = values.copy(raw)
        touched: dict[str, Any] = values.copy(raw)
        annotations = values.at_obj(raw, "metadata", "annotations")
        metadata = values.obj(
            touched.get("metadata")
        )  # maybe the one that stands for all that is none
        touched["metadata"] = {**metadata, "annotations": {**annotations, TOUCHED: "true"}}
        now, then = (
            self._answer(engine, touched, stored, None).judged for engine in (self._now, self._then)
        )
        return [d for d in compare(flattened(stored), now, then) if d.what not in _SPOKEN]

    @staticmethod
    def _answer(
        engine: Offline,
        raw: dict[str, Any],
        old: dict[str, Any] | None,
        creator: Creator | None,
    ) -> _Answer:
        outcome, traces = engine.trace(
            _document(raw), None if old is None else _document(old), creator=creator
        )
        return _Answer(
            judged(outcome, traces),
            outcome.before or raw,
            outcome.after if outcome.allowed else None,
        )

    @staticmethod
    def _runtime_of(raw: dict[str, Any]) -> RuntimeKey:
        job = TrainJob(raw)
        own = job.runtime_kind == names.TRAINING_RUNTIME
        namespace = job.namespace or names.DEFAULT_NAMESPACE
        return job.runtime_kind, namespace if own else "", job.runtime_name


_SPOKEN: Final = ("newly warned", "no longer warned")


_OF_PODS: Final = (names.JOB_SET, names.POD_GROUP)


def _document(raw: dict[str, Any]) -> Document:
    kind = {"apiVersion": names.API_VERSION, "kind": names.TRAIN_JOB}
    return Document(obj={**kind, **values.copy(raw)}, source="cluster", line=1)


def _objects(engine: Offline, raw: dict[str, Any]) -> dict[str, Any]:
    """What the Trainer would make, by paths that begin with the kind of object."""
    out: dict[str, Any] = {}
    for obj in engine.objects(raw):
        if obj.get("kind") not in _OF_PODS:  # a copy of the runtime is among the others
            continue
        spec = flattened({"spec": obj.get("spec")})
        out.update({f"{obj['kind']}.{path}": value for path, value in spec.items()})
    return out


def _state(job: TrainJob) -> State:
    if job.is_terminating:
        return "terminating"
    if job.is_finished:
        return "finished"
    return "suspended" if job.is_suspended else "running"
