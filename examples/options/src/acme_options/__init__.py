"""A deadline that grows with the job: so many seconds for each node, up to a most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from policies.custom import CustomOption


@dataclass
class Deadline:
    """An option in the SDK's own protocol: it could be given to ``TrainerClient.train`` as it is."""

    seconds: int
    seconds_per_node: int = 0
    most: int = 30 * 24 * 3600

    def __call__(self, job_spec: dict[str, Any], trainer: Any, backend: Any) -> None:
        """Set ``spec.activeDeadlineSeconds``."""
        seconds = self.seconds + self.seconds_per_node * _nodes(trainer, backend)
        job_spec.setdefault("spec", {})["activeDeadlineSeconds"] = min(seconds, self.most)


def _nodes(trainer: Any, backend: Any) -> int:
    """What the SDK's trainer says, else the TrainJob, which Stationmaster's backend has and the SDK's has not."""
    job: dict[str, Any] = getattr(backend, "train_job", {})
    in_job = (job.get("spec") or {}).get("trainer") or {}
    return getattr(trainer, "num_nodes", None) or in_job.get("numNodes") or 1


DEADLINE = CustomOption(
    name="deadline",
    make=Deadline,
    summary="Sets activeDeadlineSeconds: seconds, plus secondsPerNode for each node, at most most.",
    args={
        "type": "object",
        "properties": {
            "seconds": {"type": "integer", "minimum": 1},
            "secondsPerNode": {"type": "integer", "minimum": 0},
            "most": {"type": "integer", "minimum": 1},
        },
        "required": ["seconds"],
    },
    lines=("2.2", "2.3"),
    example={"seconds": 3600, "secondsPerNode": 600},
)
