"""Policies, exceptions and resolved jobs in few words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from plugins.framework.api.admission import UserInfo
from plugins.framework.context import Context
from plugins.framework.field import Path
from plugins.framework.info import Info
from policies.document import (
    NAMESPACED_POLICY,
    POLICY,
    Bounds,
    ExceptionTarget,
    Expression,
    Key,
    Limit,
    Offer,
    Policy,
    PolicyException,
)
from policies.faults import ExpressionFault
from tests.builders import NAMESPACE, Builder, Json, MakeRuntime, MakeTrainJob
from tests.plugins.kit import cluster_of, default_pipeline, make_context, run, stored

NOW = datetime(2027, 1, 1, tzinfo=UTC)
AT = Path("spec", "limits").index(0)
ALICE = UserInfo(username="alice@example.com", groups=("research", "system:authenticated"))


def policy(name: str = "rules", *, namespace: str = "", **fields: Any) -> Policy:
    """A policy; with a namespace a namespaced one."""
    kind = NAMESPACED_POLICY if namespace else POLICY
    return Policy(key=Key(kind, namespace, name), **fields)


def limit(name: str = "rule", **fields: Any) -> Limit:
    """A limit."""
    return Limit(name=name, path=AT, **fields)


def most(value: Any) -> Bounds:
    """At most this."""
    return Bounds(max=value)


def least(value: Any) -> Bounds:
    """At least this."""
    return Bounds(min=value)


def expression(text: str) -> Expression:
    """An expression; `value_of` gives what its text says as a Python literal."""
    return Expression(text, AT.child("total", "max", "expression"))


def offers(*rules: str, **fields: Any) -> Offer:
    """What exceptions may loosen."""
    return Offer(rules=frozenset(rules), **fields)


def exception(
    name: str = "let",
    *rules: str,
    of: str = "rules",
    namespace: str = NAMESPACE,
    **fields: Any,
) -> PolicyException:
    """An exception for rules of the policy ``rules``, from 2026-12-01 until 2027-03-01."""
    target = ExceptionTarget(name=of, rules=frozenset(rules))
    whole: dict[str, Any] = {
        "policies": (target,),
        "created_at": datetime(2026, 12, 1, tzinfo=UTC),
        "expires_at": datetime(2027, 3, 1, tzinfo=UTC),
        **fields,
    }
    return PolicyException(key=Key("PolicyException", namespace, name), **whole)


def no_value(expression: Expression) -> Any:
    """Every expression fails."""
    raise ExpressionFault(expression.path, f"no value: {expression.text}")


def mutated(
    job: MakeTrainJob, runtime: MakeRuntime, *others: Builder | Json, line: str = "2.3"
) -> tuple[Info, Context]:
    """A TrainJob as the validating call sees it: completed by the mutating one, and resolved."""
    cluster = cluster_of(runtime, *others, line=line)
    raw = stored(job, line)
    ctx = make_context(cluster, line=line, obj=raw)
    result = run(default_pipeline().mutate(ctx, raw))
    assert result.info is not None
    ctx = msgspec.structs.replace(ctx, written=None)
    info = default_pipeline().resolve(ctx, raw)
    assert info is not None
    return info, ctx
