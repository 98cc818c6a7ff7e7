"""The certificates that all replicas share, put together: what a listener needs instead of ``Standalone``."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from certs.keypair import Front
from certs.rotation import Settings
from webhook.kube import lease
from webhook.kube.arming import Arming
from webhook.kube.certificates import Keeper
from webhook.kube.injector import Configuration, Injector
from webhook.kube.secret import SecretStore
from webhook.kube.tie import Tie

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from webhook.kube.calls import Calls
    from webhook.kube.lease import Clock, Elector
    from webhook.metrics import Recorder

# As the manifests in deploy/ have them; tests/deploy compares.
SERVICE: Final = "stationmaster"
SECRET: Final = "stationmaster-certs"  # noqa: S105  # a name
LEASE: Final = "stationmaster"
CONFIGURATIONS: Final = (
    Configuration("mutating", "00-stationmaster"),
    Configuration("validating", "stationmaster"),
)

DEPLOYMENT: Final = "stationmaster"
WEBHOOK: Final = "trainjobs.stationmaster.dev"
"""The entry of both configurations that fails closed."""


def names_of(namespace: str) -> tuple[str, ...]:
    """What the API server calls, and what people may."""
    host = f"{SERVICE}.{namespace}.svc"
    return (host, f"{host}.cluster.local", f"{SERVICE}.{namespace}")


class Shared:
    """Serves the pair of the Secret, and takes part in looking after it."""

    def __init__(
        self,
        calls: Calls,
        *,
        namespace: str,
        elector: Elector,
        clock: Clock,
        recorder: Recorder,
        logger: FilteringBoundLogger,
    ) -> None:
        """For this namespace; what is shared is written by whom the ``elector`` elects."""
        front = Front()
        self.context = front.context
        self._elector = elector
        self._keeper = Keeper(
            secret=SecretStore(calls, namespace=namespace, name=SECRET),
            injector=Injector(calls, CONFIGURATIONS),
            elector=self._elector,
            settings=Settings(names=names_of(namespace)),
            front=front,
            counter=recorder,
            logger=logger,
            clock=clock,
            verifier_time=calls.server_time,
            tie=Tie(calls, CONFIGURATIONS, namespace=namespace),
            arming=Arming(
                calls,
                webhook=WEBHOOK,
                deployment=f"/apis/apps/v1/namespaces/{namespace}/deployments/{DEPLOYMENT}",
                monotonic=clock.monotonic,
                may_write=self._elector.confirm,
                logger=logger,
            ),
        )

    def wake(self) -> None:
        """Somebody did not trust us: a ``caBundle`` may have been written over, so look now."""
        self._keeper.wake()

    def problem(self) -> str | None:
        """For readiness: why nothing can be served."""
        return self._keeper.unready()

    def stalled(self) -> str | None:
        """For liveness: which of the loops has stopped to turn."""
        return self._keeper.stalled() or self._elector.problem()

    async def keep_valid(self) -> None:
        """Take part until cancelled, and let another replica take over at once."""
        try:
            # First, so that a first installation need not wait for the second round.
            await self._elector.attempt()
            async with asyncio.TaskGroup() as loops:
                loops.create_task(self._elector.run())
                loops.create_task(self._keeper.run())
        finally:
            await self.leave()  # once more: we may have been counted among the Ready still
            await self._elector.give_back()

    async def leave(self) -> None:
        """Say good-bye while reviews are still answered, so that nothing fails closed for lack of us."""
        with suppress(TimeoutError):
            async with asyncio.timeout(lease.GOODBYE_SECONDS):
                await self._keeper.leave()
