"""Limits over the resolved job, without CEL: resources, nodes, pods, images, labels, runtimes.

`check` gives every way in which a job breaks one limit, each with a name (`Violation.part`) and, where it is a number,
how far it is beyond. Both are what exceptions and updates ask for: a grant lets the violations through that it covers,
and an update is refused only for those that it makes (`worse`). So neither can ever refuse what the rule allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from plugins.framework import field, quantity, values
from plugins.framework.field import FieldError, Path, escape, show
from plugins.framework.quantity import DECIMAL_SI, NANO, Quantity, QuantityError
from policies import amounts, globs, images, sources, tally
from policies.faults import ExpressionFault
from policies.globs import GlobError
from policies.grants import Grant, covers, is_runtime, told
from policies.images import ImageError

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.info import Info, PodSet
    from policies.amounts import Evaluate
    from policies.document import Images, Limit
    from policies.sources import Source

MOST_SETS: Final = 5
"""Pod sets that a message tells the share of."""
_NONE: Final = Quantity(0, DECIMAL_SI)


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
    excepted_by: str = ""
    """Name of the exception that lets it through; "" where none does."""


class Checked(NamedTuple):
    """How a job breaks one limit."""

    found: Sequence[Violation]
    """In every way."""
    new: Sequence[Violation]
    """In which ways the stored job does not, or less."""

    @property
    def broken(self) -> list[Violation]:
        """What the job must answer for."""
        return [violation for violation in self.new if not violation.excepted_by]

    @property
    def exceptions(self) -> list[str]:
        """Who lets the others through, each once."""
        return list(dict.fromkeys(v.excepted_by for v in self.new if v.excepted_by))


KEPT: Final = Checked((), ())
"""A limit that the job keeps."""


class Measure(NamedTuple):
    """What there is of what a limit bounds."""

    kind: str
    """``total``, ``perNode``, ``nodes`` or ``pods``."""
    pod_set: str
    """With ``perNode``: of a pod of which set."""
    there: Quantity
    high: Quantity | None
    low: Quantity | None

    def __str__(self) -> str:
        """Print as ``nodes 4 (at most 8)``, ``perNode[node] 500m (at least 1)``."""
        of = f"[{self.pod_set}]" if self.pod_set else ""
        sides = (("at most", self.high), ("at least", self.low))
        bounds = [f"{word} {quantity.canonical(b)}" for word, b in sides if b is not None]
        return f"{self.kind}{of} {quantity.canonical(self.there)} ({', '.join(bounds)})"


class _Case(msgspec.Struct, frozen=True):
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
    """Every way in which the job breaks the limit, with the grant that covers it, if one does.

    Raises ExpressionFault where a bound of the limit itself has no value, or none that is a number or a quantity; such
    a bound in a grant grants nothing.
    """
    case = _Case(limit, info, ctx, evaluate, grants)
    try:
        found = list(_violations(case))
    except GlobError as error:
        raise ExpressionFault(
            limit.path, f"has a pattern that cannot be used: it {error}"
        ) from error
    if not grants:
        return found
    return [replace(violation, excepted_by=_covered(case, violation)) for violation in found]


def _covered(case: _Case, violation: Violation) -> str:
    """Name of the first exception that grants it."""
    covering = (
        grant.by
        for grant in case.grants
        if covers(grant.limit, violation.part, violation.there, case.evaluate)
    )
    return next(covering, "")


def _violations(case: _Case) -> Iterator[Violation]:
    """Most limits are about one thing."""
    limit = case.limit
    if limit.nodes is not None:
        yield from _nodes(case)
    if limit.pods is not None:
        yield from _pods(case)
    if limit.total is not None or limit.per_node is not None:
        yield from _amounts(case)
    if limit.images is not None:
        yield from _images(case)
    if limit.require_labels or limit.require_annotations:
        yield from _metadata(case)
    if limit.runtimes:
        yield from _runtimes(case)


def measured(limit: Limit, info: Info, *, evaluate: Evaluate) -> Iterator[Measure]:
    """What there is of each amount that the limit bounds, for who asks why; nothing where it cannot be counted."""

    def matches(resource: str) -> bool:
        return globs.glob(limit.resource).matches(resource)

    def measure(kind: str, there: Quantity, pod_set: str = "") -> Measure:
        found = dict(amounts.bounds(limit, kind, evaluate))
        return Measure(kind, pod_set, there, found.get("max"), found.get("min"))

    try:
        if limit.nodes is not None:
            yield measure("nodes", Quantity(tally.nodes(info) * NANO, DECIMAL_SI))
        if limit.pods is not None:
            yield measure("pods", Quantity(tally.pods(info) * NANO, DECIMAL_SI))
        if limit.total is not None:
            yield measure("total", tally.total(info, matches))
        for pod_set in info.pod_sets if limit.per_node is not None else ():
            yield measure("perNode", tally.one_pod(pod_set, matches), pod_set.name)
    except (QuantityError, GlobError, ExpressionFault):
        return


def worse(before: Sequence[Violation], now: Sequence[Violation]) -> list[Violation]:
    """The violations that an update makes, or makes larger; the others were there before it.

    A rule that has become stricter is broken by jobs that were fine when they were made. Nobody must be unable to
    label, suspend or finalize those: only what an update worsens is a reason to refuse it.
    """
    known = {violation.part: violation.excess for violation in before}
    return [v for v in now if v.part not in known or v.excess > known[v.part]]


# Amounts


def _amounts(case: _Case) -> Iterator[Violation]:
    limit = case.limit
    try:
        if limit.total is not None:
            yield from _total(case)
        if limit.per_node is not None:
            yield from _per_node(case)
    except QuantityError as error:
        detail = f"{limit.resource} cannot be counted: the runtime asks for an amount that cannot be read: {error}"
        where = field.forbidden(sources.RUNTIME, _said(case, detail))
        yield Violation(part=("unreadable",), error=where)


def _nodes(case: _Case) -> Iterator[Violation]:
    count = tally.nodes(case.info)
    for beyond in _beyond(case, ("nodes",), Quantity(count * NANO, DECIMAL_SI)):
        what = f"the job has {count} {'node' if count == 1 else 'nodes'}"
        yield _amount(case, beyond, what, sources.of_nodes(case.info, case.ctx))


def _pods(case: _Case) -> Iterator[Violation]:
    count = tally.pods(case.info)
    for beyond in _beyond(case, ("pods",), Quantity(count * NANO, DECIMAL_SI)):
        what = f"the job has {count} {'pod' if count == 1 else 'pods'}"
        if len(case.info.pod_sets) > 1:
            what += f" at one time ({_some([f'{p.name}: {p.pods}' for p in case.info.pod_sets])})"
        yield _amount(case, beyond, what, sources.of_nodes(case.info, case.ctx))


def _total(case: _Case) -> Iterator[Violation]:
    info, name = case.info, case.limit.resource
    if "*" in name or "?" in name:
        there = tally.total(info, case.matches)
    else:  # the common case, worked out once for all limits and the annotation
        there = tally.requests(info).get(name, _NONE)
    for beyond in _beyond(case, ("total",), there):

        def is_too_much(pod_set: PodSet, most: Quantity = beyond.bound) -> bool:
            return tally.one_pod(pod_set, case.matches).nano > most.nano

        source = sources.of_total(info, case.ctx, case.matches, one_is_enough=is_too_much)
        text = (
            f"{name} of all pods that run at one time is {quantity.canonical(there)}{_shares(case)}"
        )
        yield _amount(case, beyond, text, source)


def _shares(case: _Case) -> str:
    each: list[str] = []
    for pod_set in case.info.pod_sets:
        amount = tally.one_pod(pod_set, case.matches)
        if amount.nano:
            pods = "1 pod" if pod_set.pods == 1 else f"{pod_set.pods} pods"
            each.append(f"{pod_set.name}: {pods} with {quantity.canonical(amount)}")
    return f" ({_some(each)})" if each else ""


def _per_node(case: _Case) -> Iterator[Violation]:
    """``max`` holds for every pod, so that none can be hidden; ``min`` for those that train."""
    trains = tally.node_sets(case.info)
    for pod_set in case.info.pod_sets:
        there = tally.one_pod(pod_set, case.matches)
        for beyond in _beyond(case, ("perNode",), there, pod_set.name):
            if beyond.side == "min" and pod_set not in trains:
                continue
            source = sources.of_resources(case.info, case.ctx, pod_set, case.matches)
            text = f"{case.limit.resource} of one pod of job {pod_set.name} is {quantity.canonical(there)}"
            yield _amount(case, beyond, text, source)


class _Beyond(NamedTuple):
    """An amount that is beyond one of the two bounds."""

    part: tuple[str, ...]
    there: Quantity
    bound: Quantity
    excess: int

    @property
    def side(self) -> str:
        return self.part[1]


def _beyond(case: _Case, kind: tuple[str], there: Quantity, *which: str) -> Iterator[_Beyond]:
    for side, bound in amounts.bounds(case.limit, kind[0], case.evaluate):
        excess = there.nano - bound.nano if side == "max" else bound.nano - there.nano
        if excess > 0:
            yield _Beyond((*kind, side, *which), there, bound, excess)


def _amount(case: _Case, beyond: _Beyond, what: str, source: Source) -> Violation:
    """A violation in words, which nobody pays for who is within the bounds."""
    bound = quantity.canonical(beyond.bound)
    wants = f"at most {bound} is allowed" if beyond.side == "max" else f"at least {bound} is needed"
    grants = _some(list(told(case.grants, beyond.part, case.evaluate)))
    text = f"{what}{_from(source)}, and {wants}{f' ({grants})' if grants else ''}"
    error = field.forbidden(source.path, _said(case, text))
    return Violation(part=beyond.part, error=error, there=beyond.there, excess=beyond.excess)


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
    if allowed and not is_runtime(allowed, kind, name):
        detail = f"the job runs on {kind} {show(name)}, and allowed are {_some(allowed)}"
        error = field.forbidden(sources.RUNTIME, _said(case, detail))
        yield Violation(part=("runtimes", kind, name), error=error)


# Words


def _from(source: Source) -> str:
    return f" ({source.text})" if source.text else ""


def _said(case: _Case, text: str) -> str:
    """The text and the policy author's fix."""
    return f"{text}; {escape(case.limit.fix)}" if case.limit.fix else text


def _some(items: Sequence[str]) -> str:
    more = len(items) - MOST_SETS
    shown = ", ".join(items[:MOST_SETS])
    return f"{shown} and {more} more" if more > 0 else shown
