"""What PolicyExceptions loosen of a policy's rules for one job, and why some do not.

Two people have a say. The platform says in the policy which rules may be loosened at all and for how long
(``exceptions``); who may write in a namespace says for which jobs of it, until when, and to what. Neither alone
loosens anything. An exception can take violations away and can never add one: see `limits.check`.

How long: until ``expiresAt``, and with ``longest`` no later than that long after the exception was made. A document
from a file that has no ``creationTimestamp`` counts as made now, which is what the API server would make of it; to a
server of files, which may run for months, it is as old as its file (``webhook/wiring.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugins.framework import values
from plugins.framework.field import show
from policies import globs
from policies.globs import GlobError
from policies.grants import Grant
from policies.matching import Creator, Labels, selector_misses, subjects_miss
from policies.naming import SUFFIX, prefix_of
from policies.record import Record

if TYPE_CHECKING:
    from datetime import datetime

    from plugins.framework.api.admission import UserInfo
    from policies.document import ExceptionTarget, Key, Policy, PolicyException


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The job, as far as exceptions ask."""

    namespace: str
    names: tuple[str, ...]
    """What its name may be called, as `names_of` gives them."""
    labels: Labels
    """Of the current round."""
    creator: Creator


@dataclass(slots=True, kw_only=True)
class Loosened:
    """What exceptions make of one rule."""

    off: str = ""
    """Name of the exception that switches the rule off; "" where none does."""
    grants: tuple[Grant, ...] = ()
    """Looser limits in its place; the loosest counts, and one stricter than the rule changes nothing."""


class Note(NamedTuple):
    """Why an exception does not loosen what it names."""

    exception: Key
    rule: str
    """"" where it is about all of them."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loosening:
    """What all exceptions together make of one policy."""

    rules: Mapping[str, Loosened] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


NOTHING: Final = Loosening()


def loosen(
    policy: Policy, exceptions: Iterable[PolicyException], subject: Subject, *, now: datetime
) -> Loosening:
    """Which rules of a policy are off or looser for a job, at a moment.

    Exceptions that do not name the policy are passed over in silence; those that do and have no effect are noted.
    """
    rules: dict[str, Loosened] = {}
    notes: list[Note] = []
    for exception in sorted(exceptions, key=lambda e: e.key):
        for target in exception.policies:
            if not _is_about(target, exception, policy):
                continue
            try:
                reasons = list(_misses(exception, policy, subject, now=now))
            except GlobError as error:
                reasons = [f"it has a pattern that cannot be used: it {error}"]
            notes += [Note(exception.key, "", reason) for reason in reasons]
            if not reasons:
                _loosen(rules, notes, policy, exception, target)
    return Loosening(rules=rules, notes=tuple(notes)) if rules or notes else NOTHING


def names_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """What a job may be called in ``names``: its name, and the prefix that its name was made from.

    At admission a job with ``generateName`` has no name yet; it will be the prefix and five characters. (Both texts are
    the user's choice, so nothing is proved by either.)
    """
    name, prefix = values.text(metadata.get("name")), prefix_of(metadata)
    if not prefix:
        return (name,) if name else ()
    return (name, prefix) if name else (prefix, prefix + "0" * SUFFIX)


def requests_it(exception: PolicyException, creator: Creator) -> bool:
    """Whether the job was created by one of ``requestedBy``; on CREATE that is recorded (`record`)."""
    return not _creator_miss(exception, creator)


def record_of(
    policies: Iterable[Policy], exceptions: Iterable[PolicyException], user: UserInfo
) -> Record:
    """What to write down on CREATE of who creates the job: which of these policies and exceptions mean that user.

    Only those that ask: the others need no memory. Exceptions are those of the job's namespace.
    """
    return Record(
        policies=frozenset(
            str(policy.key)
            for policy in policies
            if policy.match.subjects is not None
            and not subjects_miss(policy.match.subjects, policy.key, user)
        ),
        exceptions=frozenset(
            exception.key.name
            for exception in exceptions
            if exception.requested_by and requests_it(exception, user)
        ),
    )


def ends(exception: PolicyException, policy: Policy, *, now: datetime) -> datetime:
    """From when on an exception has no effect on a policy any more."""
    longest = policy.exceptions.longest
    if longest is None:
        return exception.expires_at
    made = now if exception.created_at is None else exception.created_at
    try:
        return min(exception.expires_at, made + longest)
    except OverflowError:  # past the year 9999
        return exception.expires_at


def _is_about(target: ExceptionTarget, exception: PolicyException, policy: Policy) -> bool:
    """A namespaced policy can be loosened from its own namespace only."""
    key = policy.key
    if (target.kind, target.name) != (key.kind, key.name):
        return False
    return not policy.is_namespaced or key.namespace == exception.key.namespace


def _misses(
    exception: PolicyException, policy: Policy, subject: Subject, *, now: datetime
) -> Iterator[str]:
    """Why an exception does not hold for a job."""
    if exception.key.namespace != subject.namespace:
        yield f"it is of namespace {exception.key.namespace}, the job of {subject.namespace}"
    end = ends(exception, policy, now=now)
    if now >= end:
        reason = f"it expired at {time(end)}"
        if end != exception.expires_at:
            reason += f", the longest after its creation that {policy.key} offers"
        yield reason
    if exception.names and not any(globs.first(exception.names, n) for n in subject.names):
        called = show(subject.names[0]) if subject.names else "nothing"
        yield f"it is for jobs named {', '.join(exception.names[:10])}, and this one is named {called}"
    for reason in selector_misses(exception.object_selector, subject.labels):
        yield f"its objectSelector {reason} on the TrainJob"
    reason = _creator_miss(exception, subject.creator)
    if reason:
        yield reason


def _creator_miss(exception: PolicyException, creator: Creator) -> str:
    if not exception.requested_by:
        return ""
    if isinstance(creator, Record):
        if exception.key.name in creator.exceptions:
            return ""
        return "the job's record does not say that one of its requestedBy created it"
    if globs.first(exception.requested_by, creator.username) is not None:
        return ""
    wanted = ", ".join(exception.requested_by[:10])
    return (
        f"it is for jobs created by {wanted}, and this one was created by {show(creator.username)}"
    )


def _loosen(
    rules: dict[str, Loosened],
    notes: list[Note],
    policy: Policy,
    exception: PolicyException,
    target: ExceptionTarget,
) -> None:
    """Take in what an exception that holds names of a policy, as far as that offers it."""
    offered = policy.exceptions.rules
    for rule in sorted(target.rules - offered):
        there = ", ".join(sorted(offered)) or "none"
        notes.append(
            Note(exception.key, rule, f"{policy.key} does not offer it; it offers {there}")
        )
    limits = {limit.name for limit in policy.limits}
    for rule in sorted((target.rules or offered) & offered):
        granted = exception.grant.get(rule)
        if granted is None:
            loosened = rules.setdefault(rule, Loosened())
            loosened.off = loosened.off or exception.key.name
        elif rule in limits:
            loosened = rules.setdefault(rule, Loosened())
            loosened.grants = (*loosened.grants, Grant(exception.key.name, granted))
        else:
            reason = "it grants a value, and the rule has none: leave out the grant to switch the rule off"
            notes.append(Note(exception.key, rule, reason))


def time(moment: datetime) -> str:
    """A moment as documents have it."""
    return moment.isoformat().replace("+00:00", "Z")
