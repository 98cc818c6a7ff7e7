"""Who owns a ``runtimePatches`` entry: a domain-prefixed path that is not ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from plugins.framework import field, values
from plugins.framework.api import names
from plugins.framework.field import FieldError, Path

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context

PATCHES: Final = Path("spec", "runtimePatches")

_HOST: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST: Final = 512
"""Characters looked at and remembered; the CRD allows 253."""
_HOST_MOST: Final = 253
_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_EXAMPLE: Final = 'must be a domain-prefixed path (such as "acme.io/foo")'


def problems(ctx: Context, old: TrainJob | None, new: TrainJob) -> Iterator[FieldError]:
    """The Trainer's rules (IsDomainPrefixedPath), at the entry's own path; and our names are for what policies write."""
    stored = set() if old is None else set(_managers(old))
    for i, manager in enumerate(_managers(new)):
        detail = _problem(manager[:_LONGEST])
        if detail:
            yield field.invalid(PATCHES.index(i).child("manager"), manager, detail)
        elif (
            manager in names.OUR_MANAGERS
            and manager not in stored
            and not ctx.is_ours(new, PATCHES.key(manager).pointer)
        ):
            yield field.forbidden(
                PATCHES.index(i).child("manager"),
                f"{manager} belongs to Stationmaster; use a manager of your own",
            )


def _managers(job: TrainJob) -> list[str]:
    patches = values.items(job.spec.get("runtimePatches"))
    return [values.text(values.obj(patch).get("manager")) for patch in patches]


@lru_cache(maxsize=256)
def _problem(manager: str) -> str:
    host, _, path = manager.partition("/")
    if not host or not path:
        return _EXAMPLE
    if len(host) > _HOST_MOST or not _HOST.fullmatch(host):
        return f"{_EXAMPLE}: the domain {field.show(host)} must be a lowercase RFC 1123 subdomain"
    if not _PATH.fullmatch(path):
        return f"{_EXAMPLE}: Invalid path (must match {_PATH.pattern!r})"
    return ""
