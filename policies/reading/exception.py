"""``spec`` of a PolicyException."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from plugins.framework import field as words
from plugins.framework.schema.syntax import not_subdomain
from policies import globs
from policies.document import (
    POLICY,
    POLICY_KINDS,
    ExceptionTarget,
    Key,
    Limit,
    PolicyException,
    Selector,
)
from policies.reading.bounds import (
    LONGEST_NAME,
    LONGEST_OBJECT_NAME,
    LONGEST_OWNER,
    LONGEST_TEXT,
    MOST_GLOBS,
    MOST_POLICIES,
    MOST_RULES,
)
from policies.reading.fields import Fields, missing
from policies.reading.match import selector
from policies.reading.rules import GRANT, grant
from policies.reading.syntax import moment, not_rule_name

SPEC: Final = ("policies", "match", "grant", "owner", "reason", "expiresAt")
_TARGET: Final = ("kind", "name", "rules")
_MATCH: Final = ("names", "requestedBy", "objectSelector")
_MOMENT: Final = 'must be a moment by RFC 3339, such as "2027-03-31T00:00:00Z"'


def exception(spec: Fields, key: Key, metadata: Mapping[str, Any]) -> PolicyException:
    """Read all of ``spec``; only to be used where no error was noted."""
    targets = _targets(spec)
    names, requested_by, object_selector = _match(spec)
    granted = _grant(spec, targets)
    owner = spec.line("owner", LONGEST_OWNER)
    reason = spec.line("reason", LONGEST_TEXT)
    for name in ("owner", "reason"):
        if name not in spec:
            spec.notes.warn(
                spec.at(name), "is not set: who asks for an exception, and why, is worth knowing"
            )
    created = metadata.get("creationTimestamp")
    created_at = moment(created) if type(created) is str else None
    return PolicyException(
        key=key,
        policies=targets,
        names=names,
        requested_by=requested_by,
        object_selector=object_selector,
        grant=granted,
        owner=owner,
        reason=reason,
        created_at=created_at,
        expires_at=_expiry(spec),
    )


def _targets(spec: Fields) -> tuple[ExceptionTarget, ...]:
    spec.require("policies", "the policies whose rules it loosens")
    if spec.raw.get("policies") == []:
        spec.notes.error(words.required(spec.at("policies"), "must have at least one item"))
    found: dict[tuple[str, str], ExceptionTarget] = {}
    for fields in spec.objects("policies", _TARGET, MOST_POLICIES):
        target = _target(fields)
        if (target.kind, target.name) in found and target.name:
            spec.notes.error(
                words.duplicate(fields.path, {"kind": target.kind, "name": target.name})
            )
        found[target.kind, target.name] = target
    return tuple(found.values())


def _target(fields: Fields) -> ExceptionTarget:
    kind = fields.choice("kind", POLICY_KINDS, POLICY)
    fields.require("name", "the name of a policy")
    name = fields.text("name", LONGEST_OBJECT_NAME)
    for problem in not_subdomain(name) if name else ():
        fields.invalid("name", problem)
    rules = fields.located("rules", MOST_RULES, LONGEST_NAME)
    for rule, path in rules.items():
        if problem := not_rule_name(rule):
            fields.notes.error(words.invalid(path, rule, problem))
    return ExceptionTarget(name=name, kind=kind, rules=frozenset(rules))


def _match(spec: Fields) -> tuple[tuple[str, ...], tuple[str, ...], Selector]:
    fields = spec.object("match", _MATCH)
    if fields is None or not any(fields.raw.values()):
        if "match" not in spec or fields is not None:
            spec.notes.warn(
                spec.at("match"), "is not set: all TrainJobs of the namespace are meant"
            )
        return (), (), Selector()
    return (
        fields.globs("names", MOST_GLOBS, globs.problem),
        fields.globs("requestedBy", MOST_GLOBS, globs.problem),
        selector(fields, "objectSelector"),
    )


def _grant(spec: Fields, targets: tuple[ExceptionTarget, ...]) -> dict[str, Limit]:
    found: dict[str, Limit] = {}
    listed = {rule for target in targets for rule in target.rules}
    is_complete = all(target.rules for target in targets)
    for rule, path, raw in spec.keyed("grant", MOST_RULES):
        if spec.notes.is_full:
            break
        if problem := not_rule_name(rule):
            spec.notes.error(words.invalid(path, rule, problem))
        elif is_complete and listed and rule not in listed:
            spec.notes.error(missing(path, rule, listed, "rules of spec.policies"))
        fields = spec.notes.open(raw, path, GRANT)
        if fields is not None:
            found[rule] = grant(fields, rule)
    return found


def _expiry(spec: Fields) -> datetime:
    """The beginning of time where there is none: what was never read right has run out."""
    never = datetime.min.replace(tzinfo=UTC)
    if not spec.require("expiresAt", f"every exception ends; {_MOMENT}"):
        return never
    text = spec.text("expiresAt", LONGEST_OBJECT_NAME)
    found = moment(text) if text else never
    if found is None:
        spec.invalid("expiresAt", _MOMENT)
        return never
    return found
