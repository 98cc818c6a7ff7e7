"""What a document from a file does not say: who sends it, into what kind of namespace, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from plugins.framework.api.admission import UserInfo

NOBODY = UserInfo()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The surroundings of a request that only a cluster would know."""

    user: UserInfo = NOBODY
    """Who sends it; an AdmissionReview that names somebody has its own."""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of its namespace, before those that the namespace has in the folder."""
    now: datetime | None = None
    """The time of day; None: that of the clock."""
    objects: tuple[dict[str, Any], ...] = ()
    """More objects of the cluster, in place of those of the same name."""
