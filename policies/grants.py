"""Looser limits that exceptions put in a rule's place, and which violations of the rule they cover.

A grant is never checked by itself. It is asked about violations of the rule, one by one, so that it can take some away
and add none, whatever is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from plugins.framework import quantity
from policies import amounts, globs, images
from policies.faults import ExpressionFault
from policies.globs import GlobError

if TYPE_CHECKING:
    from plugins.framework.quantity import Quantity
    from policies.amounts import Evaluate
    from policies.document import Images, Limit


class Grant(NamedTuple):
    """A limit that an exception puts in a rule's place, where it is the looser one."""

    by: str
    """Name of the exception."""
    limit: Limit


def covers(grant: Limit, part: tuple[str, ...], there: Quantity | None, evaluate: Evaluate) -> bool:
    """Whether a granted limit speaks about what is broken (`limits.Violation.part`), and is not broken itself."""
    try:
        match part:
            case ("total" | "perNode" | "nodes" | "pods" as kind, side, *_):
                bound = amounts.bound(grant, kind, side, evaluate)
                if bound is None or there is None:
                    return False
                return there.nano <= bound.nano if side == "max" else there.nano >= bound.nano
            case ("images", side, *_, reference):
                return grant.images is not None and _lets_through(grant.images, side, reference)
            case ("labels" | "annotations" as kind, key):
                kept = grant.require_labels if kind == "labels" else grant.require_annotations
                return _is_about_metadata(grant) and key not in kept
            case ("runtimes", kind, name):
                return is_runtime(grant.runtimes, kind, name)
            case _:
                return False
    except (ExpressionFault, GlobError):
        # Written by who may write in a namespace: it must not become a fault of the policy, which may be ignored.
        return False


def told(grants: Iterable[Grant], part: tuple[str, ...], evaluate: Evaluate) -> Iterator[str]:
    """What grants say of an amount, for whoever has one and is beyond that too."""
    for grant in grants:
        try:
            bound = amounts.bound(grant.limit, part[0], part[1], evaluate)
        except ExpressionFault:
            continue
        if bound is not None:
            yield f"exception {grant.by} grants {quantity.canonical(bound)}"


def is_runtime(patterns: Sequence[str], kind: str, name: str) -> bool:
    """Whether a runtime is among the patterns. Raises GlobError.

    A pattern may begin with a kind and a slash, ``ClusterTrainingRuntime/torch-*``: who may write TrainingRuntimes in a
    namespace can give them any name.
    """
    with_kind = [pattern for pattern in patterns if "/" in pattern]
    return (
        globs.first(patterns, name) is not None
        or globs.first(with_kind, f"{kind}/{name}") is not None
    )


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
