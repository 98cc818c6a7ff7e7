"""How a document fares: whether it is in force, and if not, why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from plugins.framework.api import names
from plugins.framework.field import FieldError, Path
from policies import exceptions

if TYPE_CHECKING:
    from datetime import datetime

    from policies.compile import Compiled, CompiledPolicy, PolicySet
    from policies.document import ExceptionTarget, Policy, PolicyException

QUARANTINED: Final = "Quarantined"
"""The reason of a policy that took its worker down twice: it stays so until it changes, also for other replicas."""


class Standing(NamedTuple):
    """A condition, without its time."""

    is_true: bool
    reason: str
    message: str = ""


IN_FORCE: Final = Standing(is_true=True, reason="InForce")
NO_CONFLICT: Final = Standing(is_true=False, reason="NoConflict")


def ready(document: Compiled, beside: PolicySet, *, now: datetime) -> Standing:
    """Whether a document is in force, as far as its text and those beside it say."""
    if document.unread:
        return Standing(is_true=False, reason="Invalid", message=first(document.unread))
    if document.exception is not None:
        return _exception(document.exception, beside, now=now)
    policy = document.policy
    if policy is None or not policy.problems:
        return IN_FORCE
    reason = "NotCompiled" if policy.own_problems else "Conflict"
    return Standing(is_true=False, reason=reason, message=first(policy.problems))


def conflict(policy: CompiledPolicy) -> Standing:
    """Whether it is refused for another of the same priority, whatever the job."""
    found = policy.problems[len(policy.own_problems) :]
    return (
        Standing(is_true=True, reason="SamePriority", message=first(found))
        if found
        else NO_CONFLICT
    )


def count(policies: PolicySet, quarantined: Mapping[str, str]) -> Counter[tuple[str, bool]]:
    """How many documents of each kind there are, and are sound or not; an exception that is over is sound."""
    found: Counter[tuple[str, bool]] = Counter()
    for (kind, _, _), document in policies.documents().items():
        policy = document.policy
        is_out = policy is not None and quarantined.get(str(policy.key)) == policy.digest
        found[kind, not document.problems and not is_out] += 1
    return found


def first(problems: tuple[FieldError, ...]) -> str:
    """The first problem, and how many more there are."""
    more = len(problems) - 1
    return f"{problems[0]}{f' (and {more} more)' if more else ''}"


def idle(exception: PolicyException, beside: PolicySet, *, now: datetime) -> Iterator[str]:
    """Why it will not, or not for as long as it says, loosen what it names."""
    if exception.expires_at <= now:
        yield f"spec.expiresAt: {exceptions.time(exception.expires_at)} is over: it loosens nothing"
    for at, target in _targets(exception):
        policy = _policy(target, exception, beside)
        if policy is None:
            yield f"{at}: there is no {target.kind} {target.name}"
            continue
        offered = policy.exceptions.rules
        some = ", ".join(sorted(offered)) or "nothing"
        for rule in sorted(target.rules - offered):
            yield f"{at}: {rule}: {policy.key} does not offer it to exceptions; it offers {some}"
        if not offered and not target.rules:
            yield f"{at}: {policy.key} offers nothing to exceptions"
        end = exceptions.ends(exception, policy, now=now)
        if offered and end < exception.expires_at:
            yield f"{at}: ends at {exceptions.time(end)} already: {policy.key} offers no more"


def _exception(exception: PolicyException, beside: PolicySet, *, now: datetime) -> Standing:
    """Active while it loosens anything; it may end for one policy before it does for another."""
    ends: list[datetime] = []
    for _, target in _targets(exception):
        policy = _policy(target, exception, beside)
        offered = frozenset[str]() if policy is None else policy.exceptions.rules
        if policy is not None and (target.rules & offered if target.rules else offered):
            ends.append(exceptions.ends(exception, policy, now=now))
    notes = "; ".join(idle(exception, beside, now=now))
    if any(end > now for end in ends):
        return Standing(is_true=True, reason="Active", message=notes)
    over = max(ends) if ends else exception.expires_at
    if over <= now:
        message = f"it ended at {exceptions.time(over)}"
        return Standing(is_true=False, reason="Expired", message=message)
    return Standing(is_true=False, reason="NothingLoosened", message=notes)


def _targets(exception: PolicyException) -> Iterator[tuple[Path, ExceptionTarget]]:
    at = Path("spec", "policies")
    return ((at.index(i), target) for i, target in enumerate(exception.policies))


def _policy(
    target: ExceptionTarget, exception: PolicyException, beside: PolicySet
) -> Policy | None:
    """What it is about; a namespaced policy is one of its own namespace."""
    namespace = "" if target.kind == names.POLICY else exception.key.namespace
    found = beside.documents().get((target.kind, namespace, target.name))
    return None if found is None or found.policy is None else found.policy.policy
