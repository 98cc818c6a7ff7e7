"""What a webhook is asked: ``admission.k8s.io/v1`` AdmissionRequest, as plugins read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class UserInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. For an object made by a controller this is the controller's service account."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One question. ``object`` is None on DELETE, ``old_object`` on CREATE.

    A Struct, since one is made for each review: a frozen dataclass of so many fields takes ten times as long.

    ``uid`` identifies this call, not the user's request: a reinvocation has another one.
    """

    uid: str
    operation: str
    group: str
    resource: str
    kind: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: UserInfo = UserInfo()
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    dry_run: bool = False
    may_have_directives: bool = True
    """False where the bytes of the review show that no key begins with ``$``."""
