"""Limits over the resolved job, without CEL: resources, nodes, pods, images, labels, runtimes.

`check` gives every way in which a job breaks one limit, each with a name (`Violation.part`) and, where it is a number,
how far it is beyond. Both are what exceptions and updates ask for: a grant takes away the violations that it covers,
and an update is refused only for those that it makes (`worse`). So neither can ever refuse what the rule allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from plugins.framework import field, quantity, values
from plugins.framework.field import FieldError, Path, escape, show
from plugins.framework.quantity import DECIMAL_SI, NANO, Quantity, QuantityError
from policies import globs, images, sources, tally
from policies.document import Expression
from policies.faults import ExpressionFault
from policies.globs import GlobError
from policies.images import ImageError

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.info import Info, PodSet
    from policies.document import Bounds, Images, Limit
    from policies.sources import Source

Evaluate: TypeAlias = Callable[[Expression], Any]
"""The JSON value of an expression. Raises ExpressionFault."""

MOST_SETS: Final = 5
"""Pod sets that a message tells the share of."""
_NONE: Final = Quantity(0, DECIMAL_SI)
_SIDES: Final = ("max", "min")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One way in which a job breaks a limit."""

    part: tuple[str, ...]
    """What is broken: ``("total", "max")``, ``("perNode", "max", "node")``, ``("images", "allow", "node", ...)``."""
    error: FieldError
    """Field, and in words what there is, the limit, where it comes from, the fix. ``origin`` is for the engine to set."""
    there: Quantity | None = None
    """The amount, where the rule is about one."""
    excess: int = 0
    """How far it is beyond the bound, in nanos (10^-9 units); 0 where there is no more and less."""


class Grant(NamedTuple):
    """A limit that an exception puts in a rule's place, where it is the looser one."""

    by: str
    """Name of the exception."""
    limit: Limit


@dataclass(frozen=True, slots=True)
class _Case:
    """What all checks of one limit read."""

    limit: Limit
    info: Info
    ctx: Context
    evaluate: Evaluate
    grants: Sequence[Grant]

    def matches(self, resource: str) -> bool:
        """Whether the limit is about this resource: its name, or a glob such as ``nvidia.com/mig-*``."""
        return globs.glob(self.limit.resource).matches(resource)


def check(
    limit: Limit,
    info: Info,
    ctx: Context,
    *,
    evaluate: Evaluate,
    grants: Sequence[Grant] = (),
) -> list[Violation]:
    """Every way in which the job breaks the limit, but for those that a grant covers.

    Raises ExpressionFault where a bound of the limit itself has no value, or none that is a number or a quantity; such
    a bound in a grant grants nothing.
    """
    case = _Case(limit, info, ctx, evaluate, grants)
    try:
        found = [*_amounts(case), *_images(case), *_metadata(case), *_runtimes(case)]
    except GlobError as error:
        raise ExpressionFault(
            limit.path, f"has a pattern that cannot be used: it {error}"
        ) from error
    return [v for v in found if not any(_covers(grant.limit, v, case) for grant in grants)]


def worse(before: Sequence[Violation], now: Sequence[Violation]) -> list[Violation]:
    """The violations that an update makes, or makes larger; the others were there before it.

    A rule that has become stricter is broken by jobs that were fine when they were made. Nobody must be unable to
    label, suspend or finalize those: only what an update worsens is a reason to refuse it.
    """
    known = {violation.part: violation.excess for violation in before}
    return [v for v in now if v.part not in known or v.excess > known[v.part]]


# Amounts


def _amounts(case: _Case) -> Iterator[Violation]:
    limit, info = case.limit, case.info
    if limit.nodes is not None:
        source = sources.of_nodes(info, case.ctx)
        yield from _counted(case, "nodes", limit.nodes, count=tally.nodes(info), source=source)
    if limit.pods is not None:
        source = sources.of_nodes(info, case.ctx)
        yield from _counted(case, "pods", limit.pods, count=tally.pods(info), source=source)
    if limit.total is None and limit.per_node is None:
        return
    try:
        if limit.total is not None:
            yield from _total(case, limit.total)
        if limit.per_node is not None:
            yield from _per_node(case, limit.per_node)
    except QuantityError as error:
        detail = f"{limit.resource} cannot be counted: the runtime asks for an amount that cannot be read: {error}"
        where = field.forbidden(sources.RUNTIME, _said(case, detail))
        yield Violation(part=("unreadable",), error=where)


def _counted(
    case: _Case, kind: str, bounds: Bounds, *, count: int, source: Source
) -> Iterator[Violation]:
    there = Quantity(count * NANO, DECIMAL_SI)
    what = f"the job has {count} {kind if count != 1 else kind[:-1]}"
    if kind == "pods" and len(case.info.pod_sets) > 1:
        each = [f"{p.name}: {p.pods}" for p in case.info.pod_sets]
        what += f" at one time ({_some(each)})"
    yield from _beyond(case, (kind,), bounds, there=there, what=what, source=source)


def _total(case: _Case, bounds: Bounds) -> Iterator[Violation]:
    info, name = case.info, case.limit.resource
    if "*" in name or "?" in name:
        there = tally.total(info, case.matches)
    else:  # the common case, worked out once for all limits and the annotation
        there = tally.requests(info).get(name, _NONE)
    each: list[str] = []
    for pod_set in info.pod_sets:
        amount = tally.one_pod(pod_set, case.matches)
        if amount.nano:
            pods = "1 pod" if pod_set.pods == 1 else f"{pod_set.pods} pods"
            each.append(f"{pod_set.name}: {pods} with {quantity.canonical(amount)}")
    shares = f" ({_some(each)})" if each else ""
    what = f"{name} of all pods that run at one time is {quantity.canonical(there)}{shares}"
    for side, bound in _bounds(bounds, case, "total"):

        def is_too_much(pod_set: PodSet, most: Quantity = bound) -> bool:
            return tally.one_pod(pod_set, case.matches).nano > most.nano

        source = sources.of_total(info, case.ctx, case.matches, one_is_enough=is_too_much)
        yield from _beyond_one(case, ("total", side), bound, there=there, what=what, source=source)


def _per_node(case: _Case, bounds: Bounds) -> Iterator[Violation]:
    """``max`` holds for every pod, so that none can be hidden; ``min`` for those that train."""
    trains = tally.node_sets(case.info)
    for side, bound in _bounds(bounds, case, "perNode"):
        for pod_set in case.info.pod_sets if side == "max" else trains:
            there = tally.one_pod(pod_set, case.matches)
            what = f"{case.limit.resource} of one pod of job {pod_set.name} is {quantity.canonical(there)}"
            source = sources.of_resources(case.info, case.ctx, pod_set, case.matches)
            part = ("perNode", side, pod_set.name)
            yield from _beyond_one(case, part, bound, there=there, what=what, source=source)


def _beyond(
    case: _Case,
    part: tuple[str, ...],
    bounds: Bounds,
    *,
    there: Quantity,
    what: str,
    source: Source,
) -> Iterator[Violation]:
    for side, bound in _bounds(bounds, case, *part):
        yield from _beyond_one(case, (*part, side), bound, there=there, what=what, source=source)


def _beyond_one(
    case: _Case,
    part: tuple[str, ...],
    bound: Quantity,
    *,
    there: Quantity,
    what: str,
    source: Source,
) -> Iterator[Violation]:
    is_most = part[1] == "max"
    excess = there.nano - bound.nano if is_most else bound.nano - there.nano
    if excess <= 0:
        return
    allowed = f"{'at most' if is_most else 'at least'} {quantity.canonical(bound)}"
    wants = f"{allowed} is {'allowed' if is_most else 'needed'}"
    text = f"{what}{_from(source)}, and {wants}{_granted(case, part)}"
    error = field.forbidden(source.path, _said(case, text))
    yield Violation(part=part, error=error, there=there, excess=excess)


def _bounds(bounds: Bounds, case: _Case, *steps: str) -> Iterator[tuple[str, Quantity]]:
    for side in _SIDES:
        raw = getattr(bounds, side)
        if raw is not None:
            yield side, _amount(raw, case.evaluate, case.limit.path.child(*steps, side))


def _amount(raw: Any, evaluate: Evaluate, path: Path) -> Quantity:
    """A bound as an exact number. A whole double counts: CEL's arithmetic makes such of JSON's numbers."""
    value = raw
    if isinstance(raw, Expression):
        value, path = evaluate(raw), raw.path
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    try:
        return quantity.parse(value)
    except QuantityError as error:
        raise ExpressionFault(
            path,
            f"gives {show(value)}, and a limit needs a whole number or a quantity such as 16Gi",
        ) from error


# Images


def _images(case: _Case) -> Iterator[Violation]:
    wanted = case.limit.images
    if wanted is None:
        return
    for used in tally.images(case.info):
        for side, text in _image_problems(wanted, used.reference):
            source = sources.of_image(case.info, case.ctx, used)
            what = f"image {show(used.reference)} of {used.role} {show(used.name)} of job {used.pod_set}"
            detail = _said(case, f"{what}{_from(source)} {text}")
            yield Violation(
                part=("images", side, *used), error=field.forbidden(source.path, detail)
            )


def _image_problems(wanted: Images, reference: str) -> Iterator[tuple[str, str]]:
    try:
        image = images.parse(reference)
    except ImageError as error:
        yield "unreadable", f"cannot be read: it {error}"
        return
    if wanted.require_digest and not image.digest:
        yield "digest", "must be named by its digest (@sha256:...), not by a tag that can be moved"
    denied = images.first(wanted.deny, image)
    if denied is not None:
        yield "deny", f"is denied: {denied}"
    elif wanted.allow and images.first(wanted.allow, image) is None:
        yield "allow", f"is read as {image}, and allowed are {_some(wanted.allow)}"


# Labels, annotations, runtimes


def _metadata(case: _Case) -> Iterator[Violation]:
    job = case.info.job
    for part, keys, there in (
        ("labels", case.limit.require_labels, job.labels),
        ("annotations", case.limit.require_annotations, job.annotations),
    ):
        for key in keys:
            if not values.text(there.get(key)):
                noun = part[:-1]
                detail = f"every TrainJob must have the {noun} {key}, with a value"
                error = field.required(Path("metadata", part).key(key), _said(case, detail))
                yield Violation(part=(part, key), error=error)


def _runtimes(case: _Case) -> Iterator[Violation]:
    allowed = case.limit.runtimes
    kind, name = case.info.job.runtime_kind, case.info.job.runtime_name
    if allowed and not _is_runtime(allowed, kind, name):
        detail = f"the job runs on {kind} {show(name)}, and allowed are {_some(allowed)}"
        error = field.forbidden(sources.RUNTIME, _said(case, detail))
        yield Violation(part=("runtimes", kind, name), error=error)


def _is_runtime(patterns: Sequence[str], kind: str, name: str) -> bool:
    """A pattern may begin with a kind and a slash: who may write TrainingRuntimes can give them any name."""
    return (
        globs.first(patterns, name) is not None
        or globs.first([p for p in patterns if "/" in p], f"{kind}/{name}") is not None
    )


# Grants


def _covers(grant: Limit, violation: Violation, case: _Case) -> bool:
    """Whether a granted limit speaks about what is broken, and is not broken itself."""
    try:
        match violation.part:
            case ("total" | "perNode" | "nodes" | "pods" as kind, side, *_):
                bound = _granted_bound(grant, kind, side, case.evaluate)
                return (
                    bound is not None
                    and violation.there is not None
                    and (
                        violation.there.nano <= bound.nano
                        if side == "max"
                        else violation.there.nano >= bound.nano
                    )
                )
            case ("images", side, *_, reference):
                return grant.images is not None and _lets_through(grant.images, side, reference)
            case ("labels" | "annotations" as kind, key):
                kept = grant.require_labels if kind == "labels" else grant.require_annotations
                return _is_about_metadata(grant) and key not in kept
            case ("runtimes", kind, name):
                return _is_runtime(grant.runtimes, kind, name)
            case _:
                return False
    except (ExpressionFault, GlobError):
        # Written by who may write in a namespace: it must not become a fault of the policy, which may be ignored.
        return False


def _granted_bound(grant: Limit, kind: str, side: str, evaluate: Evaluate) -> Quantity | None:
    bounds: Bounds | None = getattr(grant, {"perNode": "per_node"}.get(kind, kind))
    raw = getattr(bounds, side) if bounds is not None else None
    return None if raw is None else _amount(raw, evaluate, grant.path.child(kind, side))


def _lets_through(granted: Images, side: str, reference: str) -> bool:
    """Whether granted images loosen one demand for one image.

    A list of allowed images names what it loosens: neither ``allow`` nor ``deny`` of the rule holds for those, nor its
    demand for a digest unless the grant makes it too. Without that list, a list of denied ones stands in the place of
    the rule's, and ``requireDigest: false`` alone lifts that demand alone.
    """
    if side == "unreadable":
        return False
    image = images.parse(reference)
    if images.first(granted.deny, image) is not None:
        return False
    listed = images.first(granted.allow, image) is not None
    match side:
        case "digest":
            return not granted.require_digest and (listed or not (granted.allow or granted.deny))
        case "deny":
            return listed or (not granted.allow and bool(granted.deny))
        case _:
            return listed


def _is_about_metadata(grant: Limit) -> bool:
    """An empty list of required labels is all that such a grant may hold; any other kind of limit says nothing of them."""
    others = (grant.total, grant.per_node, grant.nodes, grant.pods, grant.images)
    return not grant.runtimes and all(part is None for part in others)


# Words


def _granted(case: _Case, part: tuple[str, ...]) -> str:
    """What exceptions grant, for whoever has one and is beyond that too."""
    told: list[str] = []
    for grant in case.grants:
        try:
            bound = _granted_bound(grant.limit, part[0], part[1], case.evaluate)
        except ExpressionFault:
            continue
        if bound is not None:
            told.append(f"exception {grant.by} grants {quantity.canonical(bound)}")
    return f" ({_some(told)})" if told else ""


def _from(source: Source) -> str:
    return f" ({source.text})" if source.text else ""


def _said(case: _Case, text: str) -> str:
    """The text and the policy author's fix."""
    return f"{text}; {escape(case.limit.fix)}" if case.limit.fix else text


def _some(items: Sequence[str]) -> str:
    more = len(items) - MOST_SETS
    shown = ", ".join(items[:MOST_SETS])
    return f"{shown} and {more} more" if more > 0 else shown
