"""The check of policies: each is in force, or it is said which is not, why, and what to do.

A policy that is not Ready passes every other check: the webhook is there, and refuses whatever the policy is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from plugins.framework import values
from plugins.framework.api import names
from policies.reading.syntax import moment
from webhook.doctor.facts import Facts, Object, Unread
from webhook.doctor.finding import Finding, fail, ok, unread, warn
from webhook.doctor.installed import again
from webhook.files import title_of
from webhook.kube.shared import SERVICE

POLICIES: Final = "policies"
KINDS: Final = (names.POLICY, names.NAMESPACED_POLICY)
MOST_NAMED: Final = 10

JUDGED: Final = timedelta(seconds=60)
"""After which a new policy has its conditions: the Lease's holder writes a few a second."""

_LINT: Final = "stationmaster lint FILE says all that is wrong with it, with the line"
_PRIORITY: Final = "give one of the two another priority, or let both write the same value"
_REMEDIES: Final = {
    "Invalid": _LINT,
    "NotCompiled": _LINT,
    "Conflict": _PRIORITY,
    "Quarantined": "change its expressions or options: it stays out until they change",
}
"""What to do, by the reason of the condition (``policies/standing.py``)."""

_FAILED: Final = (
    "each TrainJob that it is about hears of it as its actions say (failurePolicy Fail)"
)
_IGNORED: Final = "TrainJobs pass it by (failurePolicy Ignore)"


def policies(facts: Facts) -> Iterator[Finding]:
    """Every policy is Ready, and none has met another that wants something else."""
    found = facts.policies
    if isinstance(found, Unread):
        yield unread(POLICIES, found)
        return
    if found is None:
        yield warn(
            POLICIES,
            f"none can be in force: {' or '.join(KINDS)} is not a kind of this cluster",
            f"{again(facts)} brings it",
        )
        return
    told = sorted(
        (finding for policy in found for finding in _of(facts, policy)),
        key=lambda finding: (finding.level, finding.message),
    )
    yield from told[:MOST_NAMED]
    if more := told[MOST_NAMED:]:
        level = fail if any(finding.level == "fail" for finding in more) else warn
        yield level(POLICIES, f"and {len(more)} more", "kubectl get tjp; kubectl get ntjp -A")
    if not told:
        yield ok(POLICIES, _all_well(len(found)))


def _all_well(count: int) -> str:
    return f"{count} of {count} are Ready" if count else "there are none"


def _of(facts: Facts, policy: Object) -> Iterator[Finding]:
    """What is wrong with one."""
    title = title_of(policy)
    ready, conflict = (_condition(policy, kind) for kind in ("Ready", "Conflict"))
    status = values.text(ready.get("status"))
    if not _is_current(policy, ready):
        if not _is_new(policy, facts.now):
            yield warn(
                POLICIES,
                f"{title}: nobody has said yet whether it is Ready"
                + (": its status is about an older text" if ready else ""),
                "the Lease's holder says it: see the checks of lease and rbac;"
                f" kubectl --namespace {facts.namespace} logs deployment/{SERVICE}",
            )
    elif status != "True":
        reason = values.text(ready.get("reason"))
        why = values.text(ready.get("message"))
        is_ignored = values.at(policy, "spec", "failurePolicy") == "Ignore"
        yield (warn if is_ignored else fail)(
            POLICIES,
            f"{title} is not Ready, {reason}: {why}; {_IGNORED if is_ignored else _FAILED}",
            _REMEDIES.get(reason, f"kubectl {_place(policy)} --output yaml shows its status"),
        )
    elif values.text(conflict.get("status")) == "True" and _is_current(policy, conflict):
        why = values.text(conflict.get("message"))
        yield warn(
            POLICIES,
            f"{title} has met another policy, and neither value was written: {why}",
            _PRIORITY,
        )


def _place(policy: Object) -> str:
    """The words behind ``kubectl`` that get it."""
    metadata = values.obj(policy.get("metadata"))
    namespace = values.text(metadata.get("namespace"))
    within = f"--namespace {namespace} " if namespace else ""
    return f"{within}get {values.text(policy.get('kind')).lower()} {metadata.get('name')}"


def _condition(policy: Object, kind: str) -> Object:
    conditions = values.objects(values.at(policy, "status", "conditions"))
    return next((each for each in conditions if each.get("type") == kind), {})


def _is_current(policy: Object, condition: Object) -> bool:
    """Whether it is about the policy as it is stored now."""
    generation = values.at(policy, "metadata", "generation")
    return bool(condition) and condition.get("observedGeneration") == generation


def _is_new(policy: Object, now: datetime) -> bool:
    made = moment(values.text(values.at(policy, "metadata", "creationTimestamp")))
    return made is not None and now - made < JUDGED
