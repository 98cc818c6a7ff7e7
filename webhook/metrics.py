"""What is counted, under which names, and with which labels.

Labels are closed sets: no namespace, no user, no object's name (kyverno/kyverno#13733: a series per
job name fills the memory until the process is killed). Those are in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, exposition

if TYPE_CHECKING:
    from datetime import datetime

    from webhook.review import Answer

CONTENT_TYPE: Final = exposition.CONTENT_TYPE_LATEST

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""From "nothing to do" to the API server's default timeout."""

OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})


class Recorder:
    """Counts what happens, where it happens.

    Each recorder has its own registry: nothing is global, and tests see only what they did. Child
    objects are kept, since looking one up by its labels costs more than counting (8 us instead of 21).
    """

    def __init__(self) -> None:
        """Declare all metrics, at zero."""
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "stationmaster_admission_requests",
            "Reviews answered; dry runs have series of their own and are in no other metric.",
            ["webhook", "operation", "decision", "dry_run"],
            registry=registry,
        )
        self._seconds = Histogram(
            "stationmaster_admission_duration_seconds",
            "From the first byte of a review to its answer.",
            ["webhook"],
            buckets=SECONDS,
            registry=registry,
        )
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
        self._info = Gauge("stationmaster_build_info", "Always 1.", ["version"], registry=registry)
        self._answers: dict[tuple[str, str, str, bool], Counter] = {}
        self._durations = {
            webhook: self._seconds.labels(webhook) for webhook in ("mutate", "validate")
        }

    def answered(self, webhook: str, answer: Answer, seconds: float) -> None:
        """Count a review that got its answer."""
        key = (webhook, answer.operation, answer.decision, answer.dry_run)
        child = self._answers.get(key)
        if child is None:
            child = self._answer(key)
        child.inc()
        if not answer.dry_run:
            self._durations[webhook].observe(seconds)

    def _answer(self, key: tuple[str, str, str, bool]) -> Counter:
        webhook, operation, decision, dry_run = key
        bounded = operation if operation in OPERATIONS else "OTHER"
        child = self._requests.labels(webhook, bounded, decision, str(dry_run).lower())
        if bounded == operation:
            self._answers[key] = child
        return child

    def rejected(self, reason: str) -> None:
        """Count a request that was turned away before it was a review."""
        self._rejected.labels(reason).inc()

    def handshake_failed(self, reason: str) -> None:
        """Count a connection that never became one."""
        self._handshakes.labels(reason).inc()

    def fault(self, plugin: str, point: str) -> None:
        """Count an exception of a plugin."""
        self._faults.labels(plugin, point).inc()

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
