"""What was read of an installation, and what could not be: all that the checks know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from webhook.install.settings import Certificates
from webhook.kube.client import Tried

Object: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Something that could not be asked for."""

    what: str
    why: str
    needs: str
    """What somebody must be allowed to, to ask for it: ``may get deployments in team``."""


One: TypeAlias = Object | Unread | None
"""An object, or that there is none, or that it is not known whether there is."""

Many: TypeAlias = Sequence[Object] | Unread


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Something that our service account must be allowed to do."""

    verb: str
    group: str
    resource: str
    name: str = ""
    namespace: str = ""
    """Empty for all namespaces."""

    def __str__(self) -> str:
        """As a person says it: ``get secrets stationmaster-certs in stationmaster-system``."""
        plural = f"{self.resource}.{self.group}" if self.group else self.resource
        name = f" {self.name}" if self.name else ""
        return f"{self.verb} {plural}{name}" + (f" in {self.namespace}" if self.namespace else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A TrainJob that we refuse, created as a dry run: whoever refuses it has been reached."""

    namespace: str
    labels: Mapping[str, str]
    tried: Tried | Unread


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """An installation at one moment."""

    now: datetime
    namespace: str
    """Ours."""
    certificates: Certificates
    """Whose they are, as the registration says."""
    mutating: Many
    """All mutating webhook configurations: order is among them."""
    validating: Many
    crd: One
    """Of TrainJobs."""
    deployment: One
    pods: Many
    lease: One
    mode: One
    """The ConfigMap with the switch."""
    secret: Mapping[str, bytes] | Unread | None = field(repr=False)
    """Certificates, and no keys."""
    trial: Trial
    policies: Many | None
    """Of both kinds; None where one of these is not installed."""
    rights: Mapping[Right, bool] | Unread
    """Of our service account; False for what it is not allowed."""
