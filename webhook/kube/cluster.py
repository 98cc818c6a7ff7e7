"""A real cluster behind the server: logs in, follows, and says when it can be trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector

from plugins.framework import lines
from plugins.framework.api import names
from plugins.framework.interface import WatchExtensionPlugin
from webhook.assembly import platform_policy
from webhook.kube import client, resources
from webhook.kube.events import Mirror
from webhook.kube.failed import FailedJobs
from webhook.kube.live import Live
from webhook.kube.mode import ModeFollower
from webhook.kube.owners import Owners
from webhook.kube.source import Source
from webhook.kube.statuses import Statuses

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from structlog.typing import FilteringBoundLogger

    from plugins.framework.cluster import Snapshot
    from plugins.framework.context import Context
    from plugins.framework.pipeline import Pipeline
    from policies.counts import Counts
    from webhook.config import ServeOptions
    from webhook.kube.calls import Calls
    from webhook.kube.capabilities import Capabilities
    from webhook.kube.client import Login
    from webhook.kube.reflector import Reflector, Sink, Surroundings
    from webhook.metrics import Recorder
    from webhook.mode import Switch
    from webhook.podgroups import Owned, Owner
    from webhook.routes import Check


class Cluster:
    """What ``serve --kubeconfig`` and ``serve --in-cluster`` answer from."""

    def __init__(  # noqa: PLR0913  # what it tells, and by whom it is told
        self,
        options: ServeOptions,
        pipeline: Pipeline,
        *,
        recorder: Recorder,
        logger: FilteringBoundLogger,
        around: Surroundings,
        switch: Switch,
        counts: Counts,
    ) -> None:
        """Prepare. Raises ConfigError where a plugin asks to watch what cannot be."""
        self._options = options
        self._logger = logger
        self._switch = switch
        self._client = client.Client(_login(options), clock=around.clock)
        are_events_written = options.in_cluster and options.events
        failed = FailedJobs()
        policy = platform_policy(pipeline)
        self.statuses: Statuses | None = None
        if policy is not None and options.in_cluster:
            self.statuses = Statuses(
                self._client,
                policy.engine,
                snapshot=lambda: self.snapshot,
                counts=counts,
                are_events_written=options.events,
                is_off=lambda: switch.mode == "off",
                around=around,
                logger=logger,
            )
        taps: dict[str, Sink] = dict(self.statuses.taps) if self.statuses else {}
        if are_events_written:
            taps[names.TRAIN_JOB] = failed
        more = (resources.TRAIN_JOBS.watch,) if are_events_written else ()
        self.source = Source(
            self._client,
            resources.asked_for([*_watches(pipeline), *more]),
            around=around,
            stale_seconds=options.stale_seconds,
            on_change=self._tell,
            on_problem=self._tell_problem,
            taps=taps,
            prepare=None if policy is None else policy.engine.prepare,
        )
        live = Live(self._client, self.source, clock=around.clock, stale=options.stale)
        self.live: Live | None = live
        self.calls: Calls | None = self._client
        self._owners = Owners(
            self._client,
            self.source,
            live,
            clock=around.clock,
            line=lines.named(options.trainer_version),
        )
        self._mode = ModeFollower(
            switch,
            self._client,
            namespace=options.namespace,
            around=around,
            tell=self._tell_problem,
        )
        self.mirror: Mirror | None = None
        if are_events_written:
            self.mirror = Mirror(
                self._client,
                self._client,
                failed,
                exists=self._has_train_job,
                is_off=lambda: switch.mode == "off",
                around=around,
                counter=recorder,
                logger=logger,
                tell=self._tell_problem,
            )
        events = self.mirror.reflectors if self.mirror else ()
        recorder.registry.register(_Caches(self.source, self._mode.reflector, *events))

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as it is known now."""
        return self.source.snapshot

    async def owned(self, ctx: Context, owner: Owner) -> Owned:
        """The TrainJob of a PodGroup, as it is stored now. Raises Unresolved."""
        return await self._owners.owned(ctx, owner)

    def _has_train_job(self, namespace: str, name: str) -> bool | None:
        """None while TrainJobs have not been read."""
        if not self.source.is_synced(resources.TRAIN_JOBS):
            return None
        return self.snapshot.has_train_job(namespace, name)

    def checks(self) -> Mapping[str, Check]:
        """All is read; and, where old knowledge is not to be used, none of it is old."""
        checks = {"caches": self._unless_off(self.source.unsynced), "mode": self._mode.unread}
        if self._options.stale == "fail":
            checks["contact"] = self._unless_off(self.source.stale)
        return checks

    def _unless_off(self, check: Check) -> Check:
        """Switched off, nothing of the cluster is needed to answer, and an answer is what lets objects pass."""
        return lambda: None if self._switch.mode == "off" else check()

    def describe(self) -> dict[str, str]:
        """Which cluster."""
        return {"cluster": self._client.host}

    async def connect(self) -> None:
        """Log in, and see that we really do. Raises ConfigError."""
        await self._client.connect()
        await self._client.self_test()

    async def follow(self) -> None:
        """Take over changes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.source.run())
            group.create_task(self._mode.reflector.run())

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def _tell(self, found: Capabilities) -> None:
        self._logger.info(
            "cluster capabilities",
            trainer=found.line.name if found.line else "unknown",
            generation=found.generation,
            gangs=",".join(found.gangs),
        )

    def _tell_problem(self, title: str, problem: str) -> None:
        if problem:
            self._logger.warning("cannot follow", kind=title, problem=problem)
        else:
            self._logger.info("following again", kind=title)


def _watches(pipeline: Pipeline) -> Iterator[str]:
    """What the plugins of the profile ask to be watched."""
    for name in pipeline.order("watches"):
        plugin = pipeline.plugins[name]
        if isinstance(plugin, WatchExtensionPlugin):
            yield from plugin.watches()


def _login(options: ServeOptions) -> Login:
    if options.kubeconfig is not None:
        return client.kubeconfig(options.kubeconfig, options.context)
    return client.in_cluster()


class _Caches(Collector):
    """The state of the caches, read off when it is asked for."""

    def __init__(self, source: Source, *others: Reflector) -> None:
        self._source = source
        self._reflectors = (*source.reflectors, *others)

    def collect(self) -> Iterator[Metric]:
        synced = _gauge("synced", "1 once a kind has been listed.")
        kept = _gauge("kept_objects", "Objects of a kind that are followed.")
        age = _gauge("last_contact_seconds", "Since the API server said something of a kind.")
        cut = _gauge("cut_off_seconds", "Since when a kind is not watched; 0 while it is.")
        lists = CounterMetricFamily("stationmaster_cache_lists", "Lists begun.", labels=["kind"])
        failures = CounterMetricFamily(
            "stationmaster_cache_failures", "Lists and watches that failed.", labels=["kind"]
        )
        for reflector in self._reflectors:
            label = [reflector.resource.title]
            synced.add_metric(label, float(reflector.synced))
            kept.add_metric(label, reflector.count)
            age.add_metric(label, reflector.last_contact_seconds)
            cut.add_metric(label, reflector.cut_off_seconds)
            lists.add_metric(label, reflector.lists)
            failures.add_metric(label, reflector.failures)
        yield from (synced, kept, age, cut, lists, failures)
        found = self._source.capabilities
        info = InfoMetricFamily("stationmaster_cluster", "What the cluster serves.")
        line = found.line.name if found.line else ""
        info.add_metric([], {"trainer": line, "gangs": ",".join(found.gangs)})
        yield info


def _gauge(name: str, about: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"stationmaster_cache_{name}", about, labels=["kind"])
