"""Keeps the certificates: every replica serves what the Secret holds, the Lease's holder looks after it.

``certs.rotation`` decides; here its actions are carried out, one after the other, until there is
nothing to do. A round takes a few GETs and is repeated every few seconds. Nothing is watched: to watch
one Secret takes the right to list them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from cryptography import x509

from certs import bundle, keypair, rotation, stored
from certs.rotation import Action, Observed, Publish, Settings, Step, Write
from webhook.kube.calls import Failure
from webhook.kube.injector import UNREAD

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from certs.keypair import KeyPair
    from webhook.kube.arming import Arming
    from webhook.kube.injector import Injector, Published
    from webhook.kube.lease import Clock, Elector
    from webhook.kube.secret import Found, SecretStore
    from webhook.kube.tie import Tie

MOST_GOODBYES: Final = 3
"""Tries to leave nothing behind that fails closed, where somebody else writes at the same time; there is no next round."""

MOST_ACTIONS: Final = 10
"""In one round. A rotation takes six, the wait included."""

STALLED_SECONDS: Final = 300.0
"""Without a step done. A step makes six calls at most, of 30 s at most: slow is not stalled."""

SOONEST_SECONDS: Final = 1.0
"""Whoever wakes us may do so at the pace of a stranger's handshakes."""


class Counter(Protocol):
    """What is counted; the recorder does it."""

    def certificate(self, which: str, not_after: datetime) -> None:
        """When ``which`` (``ca`` or ``leaf``) ends."""


class Keeper:
    """Looks after the certificates of one replica."""

    def __init__(  # noqa: PLR0913  # its tools, all of them needed
        self,
        *,
        secret: SecretStore,
        injector: Injector,
        elector: Elector,
        settings: Settings,
        front: keypair.Front,
        counter: Counter,
        logger: FilteringBoundLogger,
        clock: Clock,
        verifier_time: Callable[[], datetime | None],
        tie: Tie,
        arming: Arming,
    ) -> None:
        """Serve by ``front``; ``verifier_time`` is the API server's clock, from its last ``Date``."""
        self._secret = secret
        self._injector = injector
        self._elector = elector
        self._settings = settings
        self._front = front
        self._counter = counter
        self._logger = logger
        self._clock = clock
        self._verifier_time = verifier_time
        self._tie = tie
        self._arming = arming
        self._pair: KeyPair | None = None
        self._problems: tuple[str, ...] = ("nothing has been read yet",)
        self._turned_at = self._looked_at = clock.monotonic()
        self._woken = asyncio.Event()

    # --- what others may ask ------------------------------------------------------------------

    @property
    def problems(self) -> tuple[str, ...]:
        """What was wrong in the last round, as sentences; a metric, ``doctor`` and the log want them."""
        return self._problems

    def unready(self) -> str | None:
        """For readiness: why nothing can be served.

        A renewal that fails is no reason while the present pair is valid: to take all replicas out is worse.
        """
        if self._pair is None:
            return "no certificate: " + "; ".join(self._problems)
        if not self._pair.is_valid(self._clock.now()):
            return (
                f"the certificate is not valid now, but until {self._pair.not_after:%Y-%m-%d %H:%M}"
            )
        return None

    def stalled(self) -> str | None:
        """For liveness: whether the loop has stopped to turn."""
        age = self._clock.monotonic() - self._turned_at
        if age < STALLED_SECONDS:
            return None
        return f"nobody has looked after the certificates for {age:.0f} s"

    def wake(self) -> None:
        """Something was seen that a round may mend: look now, unless that was done just now."""
        if self._clock.monotonic() - self._looked_at >= SOONEST_SECONDS:
            self._woken.set()

    # --- the loop -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look()
            await self._pause()

    async def _pause(self) -> None:
        """Until the next round is due, or somebody wakes us."""
        self._woken.clear()
        self._looked_at = self._clock.monotonic()
        due = asyncio.ensure_future(self._clock.sleep(self._settings.check.total_seconds()))
        woken = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait((due, woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            due.cancel()
            woken.cancel()
            await asyncio.gather(due, woken, return_exceptions=True)

    async def look(self) -> None:
        """One round."""
        problems: list[str] = []
        try:
            if self._elector.is_holder:
                problems += await self._look_after()
            self._turn()
            problems += self._serve((await self._secret.read()).data)
            if self._elector.is_holder:
                problems += await self._arming.look(await self._injector.read(), self._trusts)
                self._turn()
                problems += await self._tie.look()
        except Failure as error:
            problems.append(str(error) or type(error).__name__)
        self._turn()
        if self._elector.last_problem:
            problems.append(f"lease: {self._elector.last_problem}")
        self._report(tuple(dict.fromkeys(problems)))

    def _turn(self) -> None:
        """Something is done."""
        self._turned_at = self._clock.monotonic()

    async def leave(self) -> None:
        """On the way out: fail closed no longer where nobody is left to answer.

        Also without the Lease: its holder may have crashed a moment ago, so that nobody can take it yet, and nobody
        comes who could later. Where nobody is Ready it is right whoever does it, and twice is once.
        """
        problems: tuple[str, ...] = ()
        for _ in range(MOST_GOODBYES):
            published = await self._injector.read()
            problems = await self._arming.look(published, self._trusts, leaving=True)
            if not problems:
                break
        self._report(problems)

    def _trusts(self, trusted: bytes) -> bool:
        """Whether whoever trusts this bundle takes what we serve."""
        if self._pair is None or self.unready():
            return False
        leaf = x509.load_pem_x509_certificate(self._pair.certificate)
        authorities = bundle.valid(bundle.parse(trusted).authorities, self._clock.now())
        return bundle.issuer_of(leaf, authorities) is not None

    async def _look_after(self) -> list[str]:
        """What the holder does."""
        problems: list[str] = []
        for _ in range(MOST_ACTIONS):
            self._turn()
            published = await self._injector.read()
            found = await self._secret.read()  # after the configurations: see certs.injection
            step = self._decide(published, found)
            problems = [*published.problems, *step.problems]
            if step.action is None or not await self._elector.confirm():
                break
            failed = await self._carry_out(step.action, published, found)
            if failed:
                return [*problems, *failed]
        return problems

    def _decide(self, published: Published, found: Found) -> Step:
        observed = Observed(
            secret=found.data,
            published=published.bundles,
            verifier_time=self._verifier_time(),
        )
        return rotation.decide(observed, self._clock.now(), self._settings)

    async def _carry_out(
        self, action: Action, published: Published, found: Found
    ) -> tuple[str, ...]:
        match action:
            case Write():
                is_written = await self._secret.write(action.data, found)
                self._logger.info(
                    "certificates", step=action.reason, why=action.why, conflict=not is_written
                )
                return ()
            case Publish():
                failed = await self._injector.publish(action.bundle, action.places, published)
                self._logger.info("certificates", step="publish", places=list(action.places))
                unread = [place for place in action.places if place.endswith(f"/{UNREAD}")]
                # Why is among the problems already; to go on now would be to go round in a circle.
                return failed or tuple(f"{place}: waits until it can be read" for place in unread)

    def _serve(self, data: dict[str, bytes] | None) -> list[str]:
        """Take over what the Secret holds; else go on with the last good pair."""
        pair, problem = rotation.serving(data, self._clock.now())
        if pair is None:
            return [problem or "no certificate"]
        if pair != self._pair:
            try:
                self._front.use(keypair.server_context(pair))
            except ssl.SSLError as error:
                return [f"{stored.LEAF} cannot be used: {error.reason}"]
            self._pair = pair
            self._counter.certificate("leaf", pair.not_after)
            self._logger.info("certificate taken over", notAfter=pair.not_after.isoformat())
        authorities = bundle.valid(
            bundle.parse((data or {})[stored.CA]).authorities, self._clock.now()
        )
        if authorities:
            # Old ones are dropped when nothing needs them, so their end is no alarm.
            newest = max(each.not_valid_after_utc for each in authorities)
            self._counter.certificate("ca", newest)
        return []

    def _report(self, problems: tuple[str, ...]) -> None:
        if problems != self._problems and problems:
            self._logger.warning("certificates need attention", problems=list(problems))
        self._problems = problems
