"""Says how policies and exceptions fare, in their ``status``; never in the path of a request.

The holder of the Lease says whether each is Ready, from its text and those beside it. What only one replica knows that
one says itself: what it counted, that a policy took its workers down, that two policies met. Every write is a JSON
Patch that holds for the version that was read, so what two replicas say at once is said one after the other, and counts
add up: they are of all replicas, since the object was created, but for the last minute of a replica that was killed.

A quarantine that is stored is kept by all replicas until the policy changes, also by those that start later.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.cluster import document_key, keep
from policies import document, standing
from policies.document import POLICY_KINDS
from policies.standing import Standing
from policies.strikes import KILLED
from webhook.kube.allowance import Allowance
from webhook.kube.calls import Failure
from webhook.kube.client import ApiError
from webhook.kube.resources import POLICIES

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from plugins.framework.cluster import Snapshot
    from policies.compile import Compiled, CompiledPolicy, PolicySet
    from policies.counts import Counts, Outcome
    from policies.engine import Engine
    from webhook.kube.calls import Calls
    from webhook.kube.events import Holder
    from webhook.kube.reflector import Surroundings

TURN_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 10.0
"""How often everything is looked at though nothing is new: exceptions end, and conflicts are forgotten."""
COUNT_SECONDS: Final = 60.0
"""How often the counts of one policy are told at most, by each replica."""
CONFLICT_SECONDS: Final = 3600.0
"""For how long a conflict that depends on the job is told after it was seen last."""
FAILED_SECONDS: Final = 10.0
"""Until what could not be written is tried again."""
STALLED_SECONDS: Final = 300.0

BURST: Final = 20
PER_SECOND: Final = 5.0

LONGEST_MESSAGE: Final = 1024
LONGEST_NAME: Final = 230
"""Of an object, in the name of an Event about it."""

TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
COMPONENT: Final = "stationmaster"

Key: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name."""

_PATHS: Final = {resource.kind: resource for resource in POLICIES}


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as the API server has it, as far as its status goes."""

    uid: str
    version: str
    generation: int
    status: dict[str, Any]

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> Stored:
        """Read it off."""
        about = values.obj(obj.get("metadata"))
        generation = about.get("generation")
        return cls(
            uid=values.text(about.get("uid")),
            version=values.text(about.get("resourceVersion")),
            generation=generation if type(generation) is int else 0,
            status=values.obj(obj.get("status")),
        )

    def condition(self, kind: str) -> dict[str, Any]:
        """The condition of a type; empty where there is none."""
        for each in values.objects(self.status.get("conditions")):
            if each.get("type") == kind:
                return each
        return {}

    @property
    def is_quarantined(self) -> bool:
        """Whether a replica has said so of the object as it is."""
        ready = self.condition("Ready")
        return (
            ready.get("reason") == standing.QUARANTINED
            and ready.get("observedGeneration") == self.generation
        )


def kept(obj: dict[str, Any]) -> dict[str, Any]:
    """What is followed of our kinds: what others keep, the version, and the status."""
    out = keep(obj)
    version = values.at(obj, "metadata", "resourceVersion")
    out["metadata"]["resourceVersion"] = version
    out["status"] = values.obj(obj.get("status"))
    return out


class Tap:
    """Hears all there is of one kind."""

    def __init__(self, statuses: Statuses, kind: str) -> None:
        """Tell ``statuses``."""
        self._statuses = statuses
        self._kind = kind

    def swap(self, kept: Sequence[bytes]) -> None:
        """These, in place of all there were."""
        self._statuses.swap(self._kind, map(orjson.loads, kept))

    def put(self, obj: dict[str, Any]) -> None:
        """This one, in place of the one of its name."""
        self._statuses.put(obj)

    def drop(self, namespace: str, name: str) -> None:
        """Forget this one."""
        self._statuses.drop((self._kind, namespace, name))


@dataclass(slots=True)
class _Told:
    """What of our own counts is in the status already."""

    uid: str
    counts: Counter[Outcome]
    at: float


class Statuses:
    """Writes the status of our kinds."""

    def __init__(  # noqa: PLR0913  # its tools, all of them needed
        self,
        calls: Calls,
        engine: Engine,
        *,
        snapshot: Callable[[], Snapshot],
        counts: Counts,
        are_events_written: bool,
        is_off: Callable[[], bool],
        around: Surroundings,
        logger: FilteringBoundLogger,
    ) -> None:
        """Write by ``calls`` of what ``engine`` makes of the ``snapshot``; ``is_off`` says whether to write nothing."""
        self._calls = calls
        self._engine = engine
        self._snapshot = snapshot
        self._counts = counts
        self._strikes = engine.strikes
        self._are_events_written = are_events_written
        self._is_off = is_off
        self._around = around
        self._logger = logger
        self._stored: dict[Key, Stored] = {}
        self._told: dict[Key, _Told] = {}
        self._not_before: dict[Key, float] = {}
        self._allowance = Allowance(burst=BURST, per_second=PER_SECOND, clock=around.clock)
        self._is_news = True
        self._looked_at = around.clock()
        self._turned_at = around.clock()
        self._seen: tuple[object, ...] = ()
        self._problem = ""
        self.taps = {resource.kept_as: Tap(self, resource.kind) for resource in POLICIES}

    # What is stored

    def swap(self, kind: str, objects: Iterable[dict[str, Any]]) -> None:
        """These are all of a kind."""
        others = {key: each for key, each in self._stored.items() if key[0] != kind}
        self._stored = {**others, **{document_key(obj): Stored.of(obj) for obj in objects}}
        self._is_news = True

    def put(self, obj: dict[str, Any]) -> None:
        """This is how one is now."""
        self._stored[document_key(obj)] = Stored.of(obj)
        self._is_news = True

    def drop(self, key: Key) -> None:
        """One is gone."""
        for known in (self._stored, self._told, self._not_before):
            known.pop(key, None)

    # Turning

    def stalled(self) -> str | None:
        """For liveness: whether the loop has stopped to turn."""
        age = self._around.clock() - self._turned_at
        if age < STALLED_SECONDS:
            return None
        return f"nobody has looked after policies for {age:.0f} s"

    async def run(self, holder: Holder) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._turn(holder)
            except Exception as error:  # noqa: BLE001  # no reason to end, whatever is wrong
                self._tell_once(f"internal fault ({type(error).__name__})")
            self._turned_at = self._around.clock()
            await self._around.sleep(TURN_SECONDS)

    async def _turn(self, holder: Holder) -> None:
        policies = self._engine.policies(self._snapshot())
        self._adopt(policies)
        if self._is_off() or not self._is_due(policies, holder):
            return
        for wanted in list(self._wishes(policies, is_holder=holder.is_holder)):
            if not self._allowance.take():
                self._is_news = True  # go on next time
                return
            await self._write(wanted)

    def _is_due(self, policies: PolicySet, holder: Holder) -> bool:
        now = self._around.clock()
        seen = (
            policies,
            holder.is_holder,
            dict(self._strikes.quarantined),
            dict(self._counts.conflicts),
        )
        is_new = self._is_news or seen[1:] != self._seen[1:] or policies is not self._seen[0]
        if not is_new and now - self._looked_at < LOOK_SECONDS:
            return False
        self._is_news, self._seen, self._looked_at = False, seen, now
        return True

    def _adopt(self, policies: PolicySet) -> None:
        """Forget who is gone, and take over what other replicas found out about who is there."""
        keys = {compiled.key: compiled for compiled in policies.policies}
        self._counts.retain(keys)
        self._strikes.retain(map(str, keys))
        for key, compiled in keys.items():
            stored = self._stored.get((key.kind, key.namespace, key.name))
            is_known = self._strikes.is_out(str(key), compiled.digest)
            if stored is None or is_known or not stored.is_quarantined:
                continue
            if stored.generation == compiled.policy.generation:
                self._strikes.quarantine(str(key), compiled.digest)

    # What is to be written

    def _wishes(self, policies: PolicySet, *, is_holder: bool) -> Iterator[_Wish]:
        """What is to be said otherwise: conditions first, as counts can wait."""
        late: list[_Wish] = []
        clock = self._around.clock()
        for key, compiled in policies.documents().items():
            stored = self._stored.get(key)
            if stored is None or self._not_before.get(key, clock) > clock:
                continue
            about = compiled.raw["metadata"]
            if (about.get("uid"), about.get("generation")) != (stored.uid, stored.generation):
                continue  # another one is being compiled
            wish = _Wish(key, stored, self._status(compiled, stored, policies, is_holder=is_holder))
            if values.same(wish.status, stored.status):
                wish = self._with_counts(wish)
                if wish.counted is not None:
                    late.append(wish)
            else:
                yield self._with_counts(wish)
        yield from late

    def _status(
        self, found: Compiled, stored: Stored, policies: PolicySet, *, is_holder: bool
    ) -> dict[str, Any]:
        now = self._around.now()
        said = standing.ready(found, policies, now=now)
        compiled = found.policy
        conditions = values.objects(stored.status.get("conditions"))
        if compiled is not None and not compiled.problems and self._is_quarantined(compiled):
            said = Standing(is_true=False, reason=standing.QUARANTINED, message=_KILLED)
            conditions = _with(conditions, "Ready", said, stored, now)
        elif is_holder:
            conditions = _with(conditions, "Ready", said, stored, now)
        if compiled is not None:
            conflict = self._conflict(compiled)
            if conflict.is_true or (is_holder and not self._is_conflict_fresh(stored, now)):
                conditions = _with(conditions, "Conflict", conflict, stored, now)
        status = {**stored.status, "conditions": conditions} if conditions else dict(stored.status)
        return {**status, "observedGeneration": stored.generation} if is_holder else status

    def _is_quarantined(self, compiled: CompiledPolicy) -> bool:
        return self._strikes.is_out(str(compiled.key), compiled.digest)

    def _conflict(self, compiled: CompiledPolicy) -> Standing:
        """With another policy, whatever the job, or of late for one."""
        certain = standing.conflict(compiled)
        if certain.is_true:
            return certain
        found = self._counts.conflicts.get(compiled.key)
        if found is None or found.generation != compiled.policy.generation:
            return standing.NO_CONFLICT
        if self._around.clock() - found.at >= CONFLICT_SECONDS:
            return standing.NO_CONFLICT
        return Standing(is_true=True, reason="DifferentValues", message=found.text)

    @staticmethod
    def _is_conflict_fresh(stored: Stored, now: datetime) -> bool:
        """Whether another replica may have seen one that we have not."""
        told = stored.condition("Conflict")
        if told.get("status") != "True" or told.get("reason") != "DifferentValues":
            return False
        if told.get("observedGeneration") != stored.generation:
            return False
        at = _moment(told.get("lastTransitionTime"))
        return at is not None and (now - at).total_seconds() < CONFLICT_SECONDS

    def _with_counts(self, wish: _Wish) -> _Wish:
        """Add what we have counted since we last said so, if it is time to."""
        totals = self._counts.totals.get(document.Key(*wish.key))
        told = self._told.get(wish.key)
        clock = self._around.clock()
        if told is None or told.uid != wish.stored.uid:
            # What was counted of another object of that name is none of this one's.
            known: Counter[Outcome] = Counter() if told is None else Counter(totals)
            told = self._told[wish.key] = _Told(wish.stored.uid, known, clock - COUNT_SECONDS)
        if totals is None or clock - told.at < COUNT_SECONDS:
            return wish
        new = {outcome: count - told.counts[outcome] for outcome, count in totals.items()}
        if not any(new.values()):
            return wish
        counts: dict[str, Any] = dict(values.obj(wish.stored.status.get("counts")))
        for outcome, more in new.items():
            counts[outcome] = _number(counts.get(outcome)) + more
        status = {**wish.status, "counts": counts}
        return replace(wish, status=status, counted=Counter(totals))

    # Writing

    async def _write(self, wish: _Wish) -> None:
        key, stored = wish.key, wish.stored
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": stored.version},
            {"op": "add", "path": "/status", "value": wish.status},
        ]
        try:
            obj = values.obj(await self._calls.send("PATCH", f"{_path(key)}/status", patch))
        except Failure as error:
            self._not_before[key] = self._around.clock() + FAILED_SECONDS
            self._is_news = True
            if not isinstance(error, ApiError) or error.status not in {404, 409, 422}:
                self._tell_once(f"cannot write: {_said(error)}")
            return  # who was faster than us is read, and then looked at again
        self._tell_once("")
        if wish.counted is not None:
            self._told[key] = _Told(stored.uid, wish.counted, self._around.clock())
        if key in self._stored and self._stored[key].version == stored.version:
            self._stored[key] = Stored.of(obj)
        await self._tell(wish)

    async def _tell(self, wish: _Wish) -> None:
        """Log what has become of it, and write an Event on what is not in force any more."""
        before, after = (
            wish.stored.condition("Ready"),
            replace(wish.stored, status=wish.status).condition("Ready"),
        )
        kind, namespace, name = wish.key
        told = ("status", "reason", "message")
        if all(before.get(each) == after.get(each) for each in told):
            return
        is_ready, reason, message = (values.text(after.get(each)) for each in told)
        log = self._logger.info if is_ready == "True" else self._logger.warning
        log(
            "policy",
            kind=kind,
            namespace=namespace,
            name=name,
            ready=is_ready,
            reason=reason,
            problem=message,
        )
        if is_ready == "True" or kind not in POLICY_KINDS or not self._are_events_written:
            return
        where = namespace or names.DEFAULT_NAMESPACE
        event = _event(wish, where, reason, message, self._around.now())
        try:
            await self._calls.send("POST", f"/api/v1/namespaces/{where}/events", event)
        except Failure as error:
            if not (isinstance(error, ApiError) and error.status == 409):  # it has been told
                self._tell_once(f"cannot write an Event: {_said(error)}")

    def _tell_once(self, problem: str) -> None:
        if problem and problem != self._problem:
            self._logger.warning("status of policies", problem=problem)
        self._problem = problem


@dataclass(frozen=True, slots=True)
class _Wish:
    """A status to be written in place of the one that is stored."""

    key: Key
    stored: Stored
    status: dict[str, Any]
    counted: Counter[Outcome] | None = None
    """What of our counts is in it."""


_KILLED: Final = f"{KILLED}; it is not used until its expressions or options change"


def _with(
    conditions: Sequence[dict[str, Any]],
    kind: str,
    said: Standing,
    stored: Stored,
    now: datetime,
) -> list[dict[str, Any]]:
    """The conditions with this one in its place; its time is that of the last change of its status."""
    before = stored.condition(kind)
    status = "True" if said.is_true else "False"
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    message = said.message
    condition = {
        "type": kind,
        "status": status,
        "observedGeneration": stored.generation,
        "lastTransitionTime": since or now.astimezone(UTC).strftime(TIME),
        "reason": said.reason,
        "message": message
        if len(message) <= LONGEST_MESSAGE
        else f"{message[: LONGEST_MESSAGE - 3]}...",
    }
    others = [each for each in conditions if each.get("type") != kind]
    return sorted(
        [*others, condition], key=lambda each: values.text(each.get("type")), reverse=True
    )


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _path(key: Key) -> str:
    kind, namespace, name = key
    resource = _PATHS[kind]
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{resource.group}/{resource.version}{place}/{resource.plural}/{name}"


def _event(wish: _Wish, where: str, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """A Warning about an object, in its namespace or, where it has none, in ``default``, as Kubernetes has it."""
    kind, namespace, name = wish.key
    said = f"{wish.stored.uid}\0{reason}\0{message}".encode(errors="replace")
    moment = now.astimezone(UTC).strftime(TIME)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "namespace": where,
            "name": f"{name[:LONGEST_NAME].rstrip('.-')}.{hashlib.sha256(said).hexdigest()[:16]}",
        },
        "involvedObject": {
            "apiVersion": f"{names.POLICY_GROUP}/v1alpha1",
            "kind": kind,
            **({"namespace": namespace} if namespace else {}),
            "name": name,
            "uid": wish.stored.uid,
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": 1,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
    }


def _moment(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(values.text(value))
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _number(value: object) -> int:
    return value if type(value) is int else 0
