"""A policy or an exception that is about to be stored: what is wrong with it, and what is worth knowing.

What cannot be in force is refused, with all mistakes by their fields. What may be meant, and seldom is, is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import lines, values
from plugins.framework.api import names
from plugins.framework.cluster import keep
from plugins.framework.field import Findings, Path
from policies import exceptions, options, reading, rollout
from policies.compile import PolicySet

if TYPE_CHECKING:
    from datetime import datetime

    from plugins.framework.cluster import Documents, Snapshot
    from plugins.framework.lines import Line
    from plugins.framework.runtime import CompiledRuntime
    from policies.compile import Compiled
    from policies.document import Policy, PolicyException, RuntimeMatch

_WILD: Final = frozenset("*?")


def is_let_be(raw: dict[str, Any], old: dict[str, Any] | None) -> bool:
    """Whether nothing is to be judged: it is being deleted, or only metadata or status change."""
    if values.at(raw, "metadata", "deletionTimestamp"):
        return True
    return old is not None and values.same(old.get("spec"), raw.get("spec"))


def compiled(
    raw: dict[str, Any], *, namespace: str, documents: Documents, known: PolicySet
) -> tuple[Compiled, PolicySet]:
    """The document, compiled beside those that are stored, and the set that it would be part of.

    Seconds for the largest: not to be called on the event loop.
    """
    obj = keep(raw)
    kind, about = values.text(obj["kind"]), obj["metadata"]
    if kind != names.POLICY:
        about["namespace"] = namespace
    if not about.get("name"):
        about["generateName"] = values.at(raw, "metadata", "generateName")
    name = values.text(about.get("name") or about.get("generateName"))
    key = (kind, "" if kind == names.POLICY else namespace, name)
    found = PolicySet.of({**documents, key: obj}, known)
    return found.documents()[key], found


def judge(
    document: Compiled,
    beside: PolicySet,
    *,
    cluster: Snapshot,
    line: Line | None,
    now: datetime,
) -> Findings:
    """What to say about a document; ``line`` None where it is not known what the cluster serves."""
    findings = Findings(errors=list(document.problems))
    findings.warn(*reading.read(document.raw).warnings)
    if document.problems:
        return findings
    if document.policy is not None:
        policy = document.policy.policy
        findings.warn(*(f"spec.{text}" for text in rollout.surprises(policy)))
        if line is not None:
            findings.warn(*_inexpressible(policy, line))
        findings.warn(*_missing(policy, cluster, line or lines.NEWEST))
    if document.exception is not None:
        findings.warn(*_idle(document.exception, beside, now=now))
    return findings


def _inexpressible(policy: Policy, line: Line) -> Iterator[str]:
    """What TrainJobs of this cluster have no words for."""
    for option in (*policy.defaults, *policy.overrides):
        for error in option.inexpressible(line):
            yield f"{error}: each job that this policy is about will be a fault of it"


def _missing(policy: Policy, cluster: Snapshot, line: Line) -> Iterator[str]:
    """Jobs and containers that none of the runtimes has that are named in ``match``."""
    named = [each for each in policy.match.runtimes if not _WILD & set(each.name)]
    if len(named) != len(policy.match.runtimes):
        return  # a pattern may mean a runtime of tomorrow
    runtimes = [runtime for each in named for runtime in _named(each, policy, cluster, line)]
    if runtimes:
        for error in options.missing((*policy.defaults, *policy.overrides), runtimes):
            yield str(error)


def _named(
    match: RuntimeMatch, policy: Policy, cluster: Snapshot, line: Line
) -> Iterator[CompiledRuntime]:
    namespaces: Iterable[str] = cluster.namespaces
    if policy.is_namespaced:
        namespaces = (policy.key.namespace,)
    places = {names.CLUSTER_TRAINING_RUNTIME: ("",), names.TRAINING_RUNTIME: namespaces}
    for kind, where in places.items():
        if match.kind not in {None, kind}:
            continue
        for namespace in where:
            found = cluster.runtime(kind, namespace, match.name, line)
            if found is not None:
                yield found


def _idle(exception: PolicyException, beside: PolicySet, *, now: datetime) -> Iterator[str]:
    """Why it will not, or not for as long as it says, loosen what it names."""
    there = {
        (policy.key.kind, policy.key.namespace, policy.key.name): policy.policy
        for policy in beside.policies
    }
    if exception.expires_at <= now:
        yield f"spec.expiresAt: {exceptions.time(exception.expires_at)} is over: it loosens nothing"
    for index, target in enumerate(exception.policies):
        at = Path("spec", "policies").index(index)
        namespace = "" if target.kind == names.POLICY else exception.key.namespace
        policy = there.get((target.kind, namespace, target.name))
        if policy is None:
            yield f"{at}: there is no {target.kind} {target.name}"
            continue
        offered = policy.exceptions.rules
        for rule in sorted(target.rules - offered) or ([""] if not offered else []):
            what = f"{rule}: " if rule else ""
            some = ", ".join(sorted(offered)) or "nothing"
            yield f"{at}: {what}{policy.key} does not offer it to exceptions; it offers {some}"
        end = exceptions.ends(exception, policy, now=now)
        if end < exception.expires_at:
            yield f"{at}: ends at {exceptions.time(end)} already: {policy.key} offers no more"
