"""What a webhook is asked: ``admission.k8s.io/v1`` AdmissionRequest, as plugins read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInfo:
    """Who asks. For an object made by a controller this is the controller's service account."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """One question. ``object`` is None on DELETE, ``old_object`` on CREATE.

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
    options: Mapping[str, Any] = field(default_factory=dict)
    dry_run: bool = False
    may_have_directives: bool = True
    """False where the bytes of the review show that no key begins with ``$``."""
