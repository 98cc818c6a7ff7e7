"""What ``serve`` can be told, with the defaults written once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

LogFormat: TypeAlias = Literal["json", "text"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
StalePolicy: TypeAlias = Literal["serve", "fail"]
Address: TypeAlias = tuple[str, int]
"""Host and port; port 0 lets the system choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Everything that ``stationmaster serve`` takes from its command line."""

    directory: Path | None = None
    """The folder of YAML that stands for the cluster. Exactly one of this and the next two is given."""

    policies: tuple[Path, ...] = ()
    """More files and folders that are followed beside the directory."""

    kubeconfig: Path | None = None
    """The cluster that this file names, as the user that it names."""

    in_cluster: bool = False
    """The cluster that we run in, as the service account of our pod."""

    context: str | None = None
    """Which context of the kubeconfig; without it, its current one."""

    namespace: str = "stationmaster-system"
    """Ours: where the ConfigMap is that switches the mode."""

    stale_seconds: float = 60.0
    """How long we may be cut off from the API server before answers say so."""

    stale: StalePolicy = "serve"
    """What becomes of new TrainJobs after that: judged by what was known, with a warning, or refused."""

    listen: Address = ("127.0.0.1", 9443)
    """Where AdmissionReviews arrive, over TLS."""

    health_listen: Address = ("127.0.0.1", 8081)
    """Where probes and metrics are asked for, in plain HTTP."""

    profile: Path | None = None
    """Which plugins run, in which order, with which args; without one, the built-in profile."""

    trainer_version: str | None = None
    """Whose semantics to predict; without it, what the folder shows."""

    pod_groups: bool = False
    """Whether PodGroups are corrected where the Trainer makes them, if they are sent to us."""

    events: bool = True
    """Whether, in a cluster, the holder of the Lease tells on TrainJobs what failed and the SDK cannot see."""

    cert_dir: Path | None = None
    """Where to leave the CA certificate of our own; without it, a folder of this user for running programs."""

    cert_files: Path | None = None
    """A folder with ``tls.crt`` and ``tls.key`` that somebody else renews. Without it: in a cluster the
    certificate that all replicas share, elsewhere one of our own, made at start."""

    log_format: LogFormat = "json"
    log_level: LogLevel = "info"

    poll_seconds: float = 1.0
    """How often to look whether the folder has changed."""

    drain_seconds: float = 2.0
    """How long after SIGTERM to go on answering, each time with ``Connection: close``, before we stop
    listening. API servers keep using open connections to a pod that is leaving (kubernetes#127335)."""
