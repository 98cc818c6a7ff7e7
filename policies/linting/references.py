"""What documents name that must be somewhere: jobs and containers, runtimes, ConfigMaps, policies, rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from plugins.framework.api import names
from plugins.framework.field import Path, show
from policies import exceptions, globs, options
from policies.document import NAMESPACED_POLICY, Key
from policies.linting.finding import Finding, Severity, World
from policies.reading.fields import closest, missing

if TYPE_CHECKING:
    from datetime import datetime

    from plugins.framework.runtime import CompiledRuntime
    from policies.document import Policy, PolicyException, RuntimeMatch


def of_policy(i: int, policy: Policy, world: World) -> Iterator[Finding]:
    """What a policy names, as far as the world is known."""
    every = (*policy.defaults, *policy.overrides)
    if world.runtimes is not None:
        matched = list(_matched(policy, world.runtimes))
        for k, wanted in enumerate(policy.match.runtimes):
            is_pattern = not globs.problem(wanted.name)
            if is_pattern and not any(_takes(wanted, runtime) for runtime in world.runtimes):
                yield _finding(
                    i,
                    Path("spec", "match", "runtimes").index(k),
                    "runtime",
                    _no_runtime(wanted, world.runtimes),
                    "warning",
                )
        for error in options.missing(every, matched) if matched else ():
            yield _finding(i, error.path, "target", error.body)
    if world.line is not None:
        for option in every:
            for error in option.inexpressible(world.line):
                yield _finding(i, error.path, "line", error.body)
    yield from _params(i, policy, world)


def _finding(
    i: int, path: Path | str, rule: str, message: str, severity: Severity = "error"
) -> Finding:
    return Finding(at=i, path=str(path), severity=severity, rule=rule, message=message)


def _matched(policy: Policy, runtimes: Sequence[CompiledRuntime]) -> Iterator[CompiledRuntime]:
    for runtime in runtimes:
        wanted = policy.match.runtimes
        if wanted and not any(_takes(one, runtime) for one in wanted):
            continue
        if policy.is_namespaced and runtime.kind == names.TRAINING_RUNTIME:
            namespace = runtime.raw.get("metadata", {}).get("namespace") or names.DEFAULT_NAMESPACE
            if namespace != policy.key.namespace:
                continue
        yield runtime


def _takes(wanted: RuntimeMatch, runtime: CompiledRuntime) -> bool:
    return (wanted.kind is None or wanted.kind == runtime.kind) and globs.glob(wanted.name).matches(
        runtime.name
    )


def _no_runtime(wanted: RuntimeMatch, runtimes: Sequence[CompiledRuntime]) -> str:
    known = sorted({r.name for r in runtimes if wanted.kind is None or wanted.kind == r.kind})
    kind = wanted.kind or "runtime"
    meant = closest(wanted.name, known)
    hint = f"did you mean {show(meant)}?" if meant else f"there are: {', '.join(known) or 'none'}"
    return f"no {kind} is named {show(wanted.name)}; {hint}"


# Params


def _params(i: int, policy: Policy, world: World) -> Iterator[Finding]:
    wanted = policy.params
    if wanted is None or not wanted.name:
        return
    at = Path("spec", "params", "configMapRef")
    namespace = wanted.namespace or (policy.key.namespace if policy.is_namespaced else None)
    found = {
        place: is_labelled
        for place, is_labelled in world.config_maps.items()
        if place[1] == wanted.name and namespace in {None, place[0]}
    }
    bare = sorted(
        f"{place[0]}/{place[1]}" for place, is_labelled in found.items() if not is_labelled
    )
    for name in bare:
        yield _finding(
            i,
            at,
            "params",
            f"ConfigMap {name} has no label {names.PARAMS_LABEL}: only those that have it are read",
        )
    if found or not world.is_cluster:
        return
    is_needed = wanted.default is None and wanted.not_found == "Deny"
    there = sorted({name for where, name in world.config_maps if namespace in {None, where}})
    meant = closest(wanted.name, there)
    hint = f"; did you mean {show(meant)}?" if meant else ""
    where = f"in namespace {namespace}" if namespace else "in any namespace"
    effect = (
        "every job that it matches is refused"
        if is_needed and policy.failure_policy == "Fail"
        else "the policy is passed over"
        if wanted.default is None
        else "only its default counts"
    )
    yield _finding(
        i,
        at,
        "params",
        f"there is no ConfigMap {show(wanted.name)} {where}: {effect}{hint}",
        "error" if is_needed and namespace else "warning",
    )


# Exceptions


def of_exception(
    i: int,
    exception: PolicyException,
    policies: Mapping[Key, Policy | None],
    world: World,
) -> Iterator[Finding]:
    """Policies that are not there, rules that they do not offer, grants that nobody can use, and what has run out.

    ``policies`` has all that are in sight, None for those that are not sound.
    """
    if world.now is not None and exception.expires_at <= world.now:
        text = f"it expired at {exceptions.time(exception.expires_at)}"
        yield _finding(i, Path("spec", "expiresAt"), "exception", text, "warning")
    if not policies and not world.is_cluster:
        return
    found: list[Policy] = []
    is_complete = True
    for k, target in enumerate(exception.policies):
        at = Path("spec", "policies").index(k)
        namespace = exception.key.namespace if target.kind == NAMESPACED_POLICY else ""
        key = Key(target.kind, namespace, target.name)
        policy = policies.get(key)
        if key not in policies:
            there = {other.name for other in policies if other[:2] == key[:2]}
            error = missing(
                at.child("name"), target.name, there, f"of kind {target.kind} there are"
            )
            yield _finding(i, error.path, "exception", error.body)
        if policy is None:
            is_complete = False
            continue
        found.append(policy)
        yield from _rules(i, at, target.rules, policy)
        if world.now is not None:
            yield from _end(i, exception, policy, world.now)
    for rule in exception.grant if is_complete else ():
        yield from _grant(i, rule, found)


def _rules(i: int, at: Path, rules: frozenset[str], policy: Policy) -> Iterator[Finding]:
    offered = policy.exceptions.rules
    every = {limit.name for limit in policy.limits} | {v.name for v in policy.validations}
    if not offered:
        text = f"{policy.key} offers no rules to exceptions (spec.exceptions.rules)"
        yield _finding(i, at, "exception", text)
        return
    for rule in sorted(rules - offered):
        there = ", ".join(sorted(offered))
        if rule in every:
            text = f"{policy.key} does not offer its rule {show(rule)} to exceptions; it offers: {there}"
        else:
            meant = closest(rule, offered)
            hint = f"; did you mean {show(meant)}?" if meant else ""
            text = f"{policy.key} has no rule {show(rule)}; it offers: {there}{hint}"
        yield _finding(i, at.child("rules"), "exception", text)


def _end(i: int, exception: PolicyException, policy: Policy, now: datetime) -> Iterator[Finding]:
    """A document in a file is mostly not created yet: then only how long it will hold is known."""
    longest, end = policy.exceptions.longest, exceptions.ends(exception, policy, now=now)
    if longest is None or not policy.exceptions.rules or end >= exception.expires_at:
        return
    when = "" if exception.created_at is None else f", at {exceptions.time(end)}"
    text = (
        f"for {policy.key} it ends sooner: {longest / timedelta(hours=1):g}h after its creation{when}, the longest "
        "that spec.exceptions.longest offers there"
    )
    yield _finding(i, Path("spec", "expiresAt"), "exception", text, "warning")


def _grant(i: int, rule: str, policies: list[Policy]) -> Iterator[Finding]:
    at = Path("spec", "grant").key(rule)
    limits = {limit.name for policy in policies for limit in policy.limits}
    if rule in limits:
        return
    if any(rule == validation.name for policy in policies for validation in policy.validations):
        text = "grants a value, and the rule has none: leave out the grant to switch the rule off"
        yield _finding(i, at, "exception", text)
    else:
        error = missing(at, rule, limits, "limits of spec.policies")
        yield _finding(i, at, "exception", error.body)
