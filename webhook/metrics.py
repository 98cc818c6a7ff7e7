"""What is counted, under which names, and with which labels.

Labels are closed sets: no namespace, no user, no object's name (kyverno/kyverno#13733: a series per
job name fills the memory until the process is killed). Those are in the log. Policies have series of their own,
but only so many of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Counted
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, exposition
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from plugins.framework.api import names
from webhook.mode import MODES, RIGHT

if TYPE_CHECKING:
    from datetime import datetime

    from prometheus_client.metrics_core import Metric

    from policies.counts import Counts, Outcome
    from webhook.mode import Mode
    from webhook.review import Answer
    from webhook.workers import Event

CONTENT_TYPE: Final = exposition.CONTENT_TYPE_LATEST

SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0),
)
"""From "nothing to do" to the API server's default timeout."""

OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})


class _Reviews(Collector):
    """What is counted in each review: plain numbers, made into metrics when they are asked for.

    The library's own counters lock and check, which costs 20 us a review where a review's code has just
    filled the caches. All reviews are answered on one loop, so there is nothing to lock.
    """

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, str, bool], int] = defaultdict(int)
        self.durations: dict[str, _Durations] = defaultdict(_Durations)

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "stationmaster_admission_requests",
            "Reviews answered; dry runs have series of their own and are in no other metric.",
            labels=["webhook", "operation", "decision", "dry_run"],
        )
        for (*labels, dry_run), count in self.counts.items():
            requests.add_metric([*map(str, labels), str(dry_run).lower()], count)
        yield requests
        seconds = HistogramMetricFamily(
            "stationmaster_admission_duration_seconds",
            "From the first byte of a review to its answer.",
            labels=["webhook"],
        )
        for webhook, durations in self.durations.items():
            seconds.add_metric([webhook], durations.cumulative(), durations.sum)
        yield seconds


MOST_POLICIES: Final = 500
"""Policies with series of their own. Platform engineers name policies, and teams may where they have the right to;
what is past this many is counted together, so that nobody fills the memory."""
OTHERS: Final = "(others)"


class PolicyMetrics(Collector):
    """What policies did, and whether they are sound."""

    def __init__(
        self, counts: Counts, documents: Callable[[], Mapping[tuple[str, bool], int]]
    ) -> None:
        """``documents`` says how many there are, by kind and whether they are sound."""
        self._counts = counts
        self._documents = documents

    def collect(self) -> Iterator[Metric]:
        """Read it off when it is asked for."""
        done = CounterMetricFamily(
            "stationmaster_policy_requests",
            "Requests by policy and what it did; of faults and conflicts, calls. No dry runs.",
            labels=["policy", "outcome"],
        )
        others: Counted[Outcome] = Counted()
        for number, (key, counter) in enumerate(sorted(self._counts.totals.items())):
            if number >= MOST_POLICIES:
                others.update(counter)
                continue
            for outcome, count in counter.items():
                done.add_metric([str(key), outcome], count)
        for outcome, count in others.items():
            done.add_metric([OTHERS, outcome], count)
        yield done
        there = GaugeMetricFamily(
            "stationmaster_policy_documents",
            "Policies and exceptions, by whether they are sound; one that is not does what its failurePolicy says.",
            labels=["kind", "ready"],
        )
        found = self._documents()
        for kind in names.POLICY_DOCUMENTS:
            for is_ready in (True, False):
                labels = [kind, str(is_ready).lower()]
                there.add_metric(labels, found.get((kind, is_ready), 0))
        yield there


class _Durations:
    """A histogram."""

    __slots__ = ("buckets", "sum")

    def __init__(self) -> None:
        self.buckets = [0] * (len(SECONDS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.buckets[bisect_left(SECONDS, seconds)] += 1
        self.sum += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """As Prometheus has it: each bucket counts all that are no longer than its bound."""
        bounds = [*map(str, SECONDS), "+Inf"]
        return list(zip(bounds, accumulate(self.buckets), strict=True))


class Recorder:
    """Counts what happens, where it happens.

    Each recorder has its own registry: nothing is global, and tests see only what they did.
    """

    def __init__(self) -> None:
        """Declare all metrics, at zero."""
        self.registry = registry = CollectorRegistry()
        self._reviews = _Reviews()
        registry.register(self._reviews)
        self._in_flight = Gauge(
            "stationmaster_admission_in_flight", "Reviews being decided.", registry=registry
        )
        self._connections = Gauge(
            "stationmaster_connections", "Open connections to the webhook port.", registry=registry
        )
        self._rejected = Counter(
            "stationmaster_http_requests_rejected",
            "Requests that got no review as an answer: not a review, too large, too many at once.",
            ["reason"],
            registry=registry,
        )
        self._handshakes = Counter(
            "stationmaster_tls_handshakes_failed",
            "Connections that ended before TLS was agreed on.",
            ["reason"],
            registry=registry,
        )
        self._not_after = Gauge(
            "stationmaster_tls_certificate_not_after_seconds",
            "When a certificate ends, as a Unix time.",
            ["which"],
            registry=registry,
        )
        self._workers = Counter(
            "stationmaster_worker_events",
            "What became of expressions and options that were handed to a worker, and workers started.",
            ["outcome"],
            registry=registry,
        )
        self._faults = Counter(
            "stationmaster_plugin_faults",
            "Times that a plugin raised where it should have returned a finding.",
            ["plugin", "point"],
            registry=registry,
        )
        self._objects = Gauge(
            "stationmaster_cache_objects", "Objects held, by kind.", ["kind"], registry=registry
        )
        self._loads = Counter(
            "stationmaster_cache_loads",
            "Times that the folder was read anew.",
            ["result"],
            registry=registry,
        )
        self._mode = Gauge(
            "stationmaster_mode", "1 for the mode that is on.", ["mode"], registry=registry
        )
        self._mode_not_understood = Gauge(
            "stationmaster_mode_not_understood",
            "1 while the switch says what is no mode, and stays as it was.",
            ["read", "right"],
            registry=registry,
        )
        self._events = Counter(
            "stationmaster_events",
            "Events on TrainJobs: created, counted on, not written (failed), given up (dropped).",
            ["result"],
            registry=registry,
        )
        self._info = Gauge("stationmaster_build_info", "Always 1.", ["version"], registry=registry)

    def answered(self, webhook: str, answer: Answer, seconds: float) -> None:
        """Count a review that got its answer; the time of a dry run is not observed."""
        operation = answer.operation if answer.operation in OPERATIONS else "OTHER"
        self._reviews.counts[webhook, operation, answer.decision, answer.dry_run] += 1
        if not answer.dry_run:
            self._reviews.durations[webhook].observe(seconds)

    def rejected(self, reason: str) -> None:
        """Count a request that was turned away before it was a review."""
        self._rejected.labels(reason).inc()

    def handshake_failed(self, reason: str) -> None:
        """Count a connection that never became one."""
        self._handshakes.labels(reason).inc()

    def fault(self, plugin: str, point: str) -> None:
        """Count an exception of a plugin."""
        self._faults.labels(plugin, point).inc()

    def worker(self, event: Event) -> None:
        """Count what became of a question to a worker."""
        self._workers.labels(event.outcome).inc()

    def certificate(self, which: str, not_after: datetime) -> None:
        """Say when ``which`` (``ca`` or ``leaf``) ends."""
        self._not_after.labels(which).set(not_after.timestamp())

    def loaded(self, objects: Mapping[str, int]) -> None:
        """Count a good read of the folder, and say how many objects of each kind it gave."""
        self._loads.labels("ok").inc()
        self._objects.clear()
        for kind, count in objects.items():
            self._objects.labels(kind).set(count)

    def load_failed(self) -> None:
        """Count a read of the folder that left us with the last good one."""
        self._loads.labels("failed").inc()

    def mode(self, mode: Mode, *, not_understood: str = "") -> None:
        """Say which mode is on, and what was read instead of one: a series until it is mended."""
        for each in MODES:
            self._mode.labels(each).set(each == mode)
        self._mode_not_understood.clear()
        if not_understood:
            self._mode_not_understood.labels(not_understood, RIGHT).set(1)

    def event(self, result: str, count: int = 1) -> None:
        """Count Events on TrainJobs by what became of them."""
        self._events.labels(result).inc(count)

    def version(self, version: str) -> None:
        """Say which version runs."""
        self._info.labels(version).set(1)

    def watch(self, *, in_flight: Callable[[], float], connections: Callable[[], float]) -> None:
        """Read these two when the metrics are asked for, so that requests need not keep count."""
        self._in_flight.set_function(in_flight)
        self._connections.set_function(connections)

    def render(self) -> bytes:
        """All of it in Prometheus' text format."""
        return exposition.generate_latest(self.registry)
