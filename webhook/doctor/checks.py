"""All checks, in the order of the report: first what is there, then whether it works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from webhook.doctor import cluster, podgroups, policies, registration, trust, workload
from webhook.doctor.facts import Facts
from webhook.doctor.finding import Finding

Check: TypeAlias = Callable[[Facts], Iterator[Finding]]

CHECKS: Final[tuple[Check, ...]] = (
    cluster.trainer,
    registration.registration,
    registration.order,
    registration.failure_policy,
    cluster.mode,
    workload.deployment,
    workload.versions,
    podgroups.podgroups,
    policies.policies,
    workload.rbac,
    workload.lease,
    trust.certificate,
    trust.ca_bundle,
    cluster.reach,
)


def examine(facts: Facts) -> list[Finding]:
    """What every check finds; one has nothing to add where another has said it."""
    return [finding for check in CHECKS for finding in check(facts)]
