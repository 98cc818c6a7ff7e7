"""Every mistake in policies: what is wrong with a document by itself, and beside others.

::

    finding.py     Finding: what is wrong, where, how badly
    feeding.py     policies whose writes change what they, or each other, read
    references.py  what documents name: jobs and containers, runtimes, ConfigMaps, policies, rules
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from plugins.framework.cluster import document_key, is_document
from policies import conflicts, reading, rollout
from policies.compile import CompiledPolicy, PolicySet
from policies.document import POLICY_KINDS, Key, Policy, PolicyException
from policies.linting import feeding, references
from policies.linting.finding import Finding, World

if TYPE_CHECKING:
    from plugins.framework.field import FieldError
    from policies.reading import Read

__all__ = ["Finding", "World", "lint"]

_PLACE: Final = re.compile(r"(?:line (\d+), )?column (\d+): (.*)", re.DOTALL)
_PATH: Final = re.compile(r"(spec[^:\s]*): (.*)", re.DOTALL)


def lint(raws: Sequence[Any], world: World) -> list[Finding]:
    """All that is wrong with these documents, by their order; those of the world are not judged themselves."""
    reads = [reading.read(raw) for raw in raws]
    found = [one for i, read in enumerate(reads) for one in _alone(i, read)]
    at = {
        document_key(raw): i
        for i, raw in enumerate(raws)
        if isinstance(raw, dict) and is_document(raw)
    }
    documents = {**world.documents, **{key: raws[i] for key, i in at.items()}}
    policies = PolicySet.of(documents)
    for compiled in policies.policies:
        i = at.get(_key(compiled))
        if i is not None and not reads[i].errors:
            found += _compiled(i, compiled)
            found += references.of_policy(i, compiled.policy, world)
    found += _beside(policies, at)
    known: dict[Key, Policy | None] = {
        Key(*key): None for key in documents if key[0] in POLICY_KINDS
    }
    known |= {c.key: c.policy for c in policies.policies if not c.own_problems}
    for i, read in enumerate(reads):
        if isinstance(read.document, PolicyException):
            found += references.of_exception(i, read.document, known, world)
        elif read.partial is not None:
            found += references.of_policy(i, read.partial, world)
    return sorted(found, key=lambda one: one.at)


def _alone(i: int, read: Read) -> Iterator[Finding]:
    """What reading says, and the expressions of what could be read beside a mistake."""
    for error in read.errors:
        yield of_error(i, error, "document")
    for warning in read.warnings:
        place, text = _split(warning)
        yield Finding(at=i, path=place, severity="warning", rule="document", message=text)
    if isinstance(read.document, Policy):
        for text in rollout.surprises(read.document):
            yield Finding(
                at=i, path="spec.rollout", severity="warning", rule="rollout", message=text
            )
    elif read.partial is not None:
        said = {error.field for error in read.errors}
        for error in CompiledPolicy(read.partial).own_problems:
            if error.field not in said:
                yield of_error(i, error, "expression")


def _split(warning: str) -> tuple[str, str]:
    match = _PATH.match(warning)
    return (match[1], match[2]) if match is not None else ("", warning)


def _compiled(i: int, compiled: CompiledPolicy) -> Iterator[Finding]:
    for error in compiled.own_problems:
        yield of_error(i, error, "expression")
    for error in compiled.problems[len(compiled.own_problems) :]:
        yield of_error(i, error, "conflict")


def _beside(policies: PolicySet, at: dict[tuple[str, str, str], int]) -> Iterator[Finding]:
    """What is only wrong beside another policy; told at each of the two that is judged."""
    for pair in conflicts.likely(policies.policies):
        i = at.get(_key(pair.first))
        if i is not None:
            yield Finding(
                at=i,
                path=pair.error.field,
                severity="warning",
                rule="conflict",
                message=f"for jobs that both match, neither is written: {pair.error.detail}",
            )
    for feed in feeding.feeds(policies.policies):
        for compiled in dict.fromkeys((feed.first, feed.second)):
            i = at.get(_key(compiled))
            if i is not None:
                yield Finding(
                    at=i,
                    path=feed.path_in(compiled),
                    severity="warning",
                    rule="feedback",
                    message=feed.text(compiled),
                )


def _key(compiled: CompiledPolicy) -> tuple[str, str, str]:
    kind, namespace, name = compiled.key
    return kind, namespace, name


def of_error(i: int, error: FieldError, rule: str) -> Finding:
    """An error as a finding; one about an expression points into it."""
    place = _PLACE.match(error.detail)
    if place is None or type(error.value) is not str:
        return Finding(at=i, path=error.field, severity="error", rule=rule, message=error.body)
    before = error.value.split("\n")[: int(place[1] or 1) - 1]
    return Finding(
        at=i,
        path=error.field,
        severity="error",
        rule=rule,
        message=place[3],
        expression=error.value,
        column=sum(len(line) + 1 for line in before) + int(place[2]),
    )
