"""When our registration fails closed: armed once enough replicas serve, disarmed where none is left.

A webhook that fails closed while nobody answers stops every new TrainJob: during the first installation, and
after the last replica has gone. So the manifests register with ``Ignore`` and say by an annotation how many
Ready replicas ``Fail`` takes; ``decide`` names the policy that an entry should have, and Arming writes it.

Between the two numbers nothing changes: armed at that many, disarmed at none. One replica that is left after a
node was drained goes on failing closed, and a rolling update touches nothing.

Who puts the manifest's ``Ignore`` back (helm, kubectl, a GitOps tool) finds it armed again in the next round.
Who does so each time is not fought: after a few times within an hour it stays as it was put, and we say so.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from webhook.kube.calls import Calls, Failure, find, is_conflict
from webhook.kube.client import ApiError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from webhook.kube.injector import Configuration, Published

ANNOTATION: Final = "stationmaster.dev/fail-with-replicas"
"""Of a webhook configuration: how many Ready replicas it takes to fail closed. Without it nothing is armed or
disarmed: the manifests' policy stays."""

NUMBER: Final = re.compile(r"[1-9][0-9]{0,5}")

UNSERVED_SECONDS: Final = 60.0
"""For how long no replica is Ready before that counts: all may be restarted at once, and be back in seconds."""

MOST_ARMINGS: Final = 5
ARMINGS_SECONDS: Final = 3600.0
"""Nobody upgrades five times an hour; a tool that puts back what it finds changed does so every few minutes."""

Policy: TypeAlias = Literal["Fail", "Ignore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """What the Deployment says."""

    wanted: int
    ready: int
    """Without those that are being deleted, which the ReplicaSet's controller does not count."""

    @classmethod
    def of(cls, deployment: Mapping[str, Any] | None) -> Replicas:
        """None stands for one that does not exist."""
        if deployment is None or "deletionTimestamp" in deployment["metadata"]:
            return cls(wanted=0, ready=0)
        ready = (deployment.get("status") or {}).get("readyReplicas") or 0
        return cls(wanted=deployment["spec"].get("replicas", 1), ready=ready)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was found of one entry, and of who serves it."""

    policy: str
    enough: str | None
    """What the annotation says."""

    is_trusted: bool
    """Whether the entry's ``caBundle`` trusts what is served."""

    replicas: Replicas
    unserved_seconds: float
    """Since when none is Ready."""

    armings: int
    """How often it was armed of late."""

    leaving: bool
    """Whether this replica ends now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which policy to write, if another, and what a person should know."""

    policy: Policy | None = None
    why: str = ""
    problem: str = ""


def decide(observed: Observed) -> Decision:
    """What should be done about one entry."""
    if observed.enough is None:
        return Decision()
    if not NUMBER.fullmatch(observed.enough):
        return Decision(
            problem=f"annotation {ANNOTATION}: must be a number of replicas from 1 on:"
            f" {observed.enough!r}"
        )
    if observed.policy == "Fail":
        why = _why_disarm(observed)
        return Decision(policy="Ignore", why=why) if why else Decision()
    return _arm(observed, int(observed.enough))


def _why_disarm(observed: Observed) -> str:
    if observed.replicas.wanted == 0:
        return "no replica is wanted"
    if observed.replicas.ready:
        return ""
    if observed.leaving:
        return "the last replica leaves"
    if observed.unserved_seconds >= UNSERVED_SECONDS:
        return f"no replica has been Ready for {observed.unserved_seconds:.0f} s"
    return ""


def _arm(observed: Observed, enough: int) -> Decision:
    replicas = observed.replicas
    is_served = replicas.wanted > 0 and replicas.ready >= enough and observed.is_trusted
    if not is_served or observed.leaving:
        return Decision()
    if observed.armings >= MOST_ARMINGS:
        return Decision(
            problem=f"failurePolicy stays Ignore, as it was changed back {observed.armings} times within an"
            " hour: replicas that come and go, or a tool that restores the manifest's (docs/install.md)"
        )
    return Decision(policy="Fail", why=f"{replicas.ready} replicas are Ready")


def patch(configuration: Mapping[str, Any], webhook: str, policy: Policy) -> list[dict[str, Any]]:
    """A JSON Patch that gives this entry the policy, if all is still as it was read."""
    version = configuration["metadata"]["resourceVersion"]
    operations = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
    for index, each in enumerate(configuration["webhooks"]):
        if each["name"] == webhook:
            path = f"/webhooks/{index}"
            operations += [
                {"op": "test", "path": f"{path}/name", "value": webhook},
                {"op": "add", "path": f"{path}/failurePolicy", "value": policy},
            ]
    return operations


class Arming:
    """Carries it out; to be asked for by the Lease's holder, and by whoever leaves."""

    def __init__(
        self,
        calls: Calls,
        *,
        webhook: str,
        deployment: str,
        monotonic: Callable[[], float],
        may_write: Callable[[], Awaitable[bool]],
        logger: FilteringBoundLogger,
    ) -> None:
        """For the entries named ``webhook``, served by the replicas of the Deployment at this path."""
        self._calls = calls
        self._webhook = webhook
        self._deployment = deployment
        self._monotonic = monotonic
        self._may_write = may_write
        self._logger = logger
        self._looked_at = self._served_at = monotonic()
        self._armed_at: defaultdict[str, deque[float]] = defaultdict(
            lambda: deque(maxlen=MOST_ARMINGS)
        )

    async def look(
        self, published: Published, trusts: Callable[[bytes], bool], *, leaving: bool = False
    ) -> tuple[str, ...]:
        """Arm and disarm what was ``published``; what went wrong."""
        try:
            deployment = await find(self._calls, self._deployment)
        except Failure as error:
            return (f"{self._deployment}: {error}",)
        replicas = Replicas.of(deployment)
        self._note(is_served=replicas.ready > 0)
        problems: list[str] = []
        for configuration, observed in self._observed(published, replicas, trusts, leaving=leaving):
            decision = decide(observed)
            problem = decision.problem
            if decision.policy is not None:
                problem = await self._carry_out(
                    decision, decision.policy, configuration, published, leaving=leaving
                )
            if problem:
                problems.append(f"{configuration.place(self._webhook)}: {problem}")
        return tuple(problems)

    def _note(self, *, is_served: bool) -> None:
        """Since when nobody serves; what was while another replica looked is not known, and does not count."""
        now = self._monotonic()
        if is_served or now - self._looked_at >= UNSERVED_SECONDS:
            self._served_at = now
        self._looked_at = now

    def _observed(
        self,
        published: Published,
        replicas: Replicas,
        trusts: Callable[[bytes], bool],
        *,
        leaving: bool,
    ) -> Iterator[tuple[Configuration, Observed]]:
        now = self._monotonic()
        for configuration, obj in published.objects.items():
            place = configuration.place(self._webhook)
            policies = {
                each["name"]: each.get("failurePolicy", "Fail")  # as the API server takes it
                for each in obj.get("webhooks") or ()
            }
            if self._webhook in policies:
                armed = [each for each in self._armed_at[place] if now - each < ARMINGS_SECONDS]
                yield (
                    configuration,
                    Observed(
                        policy=policies[self._webhook],
                        enough=(obj["metadata"].get("annotations") or {}).get(ANNOTATION),
                        is_trusted=trusts(published.bundles[place]),
                        replicas=replicas,
                        unserved_seconds=now - self._served_at,
                        armings=len(armed),
                        leaving=leaving,
                    ),
                )

    async def _carry_out(
        self,
        decision: Decision,
        policy: Policy,
        configuration: Configuration,
        published: Published,
        *,
        leaving: bool,
    ) -> str:
        """What went wrong, if anything; who was faster than us is looked at in the next round, if there is one."""
        place = configuration.place(self._webhook)
        try:
            if not leaving and not await self._may_write():
                return ""
            operations = patch(published.objects[configuration], self._webhook, policy)
            await self._calls.send("PATCH", configuration.path, operations)
        except Failure as error:
            is_late = isinstance(error, ApiError) and is_conflict(error)
            return "" if is_late and not leaving else str(error)
        if policy == "Fail":
            self._armed_at[place].append(self._monotonic())
        self._logger.info("failure policy", webhook=place, policy=policy, why=decision.why)
        return ""
