"""What the released SDKs send for each option, captured by a server on loopback that keeps everything as it came."""

from __future__ import annotations

import json
import subprocess
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from tests.builders import Json
from tests.sdk import bodies, environments
from tests.sdk.kubeapi import Cluster, served

SESSION: Final = Path(__file__).with_name("options_session.py")
LINES: Final = {"0.3.1": ("2.1",), "0.4.1": ("2.2", "2.3"), "0.5.0": ("2.2", "2.3")}
"""SDK -> the lines of the Trainer whose fields it sends."""
TRAINERS: Final = ("container", "function", "none")


@dataclass
class Recorder(Cluster):
    """Keeps what is sent, as it is sent."""

    def create(self, namespace: str, body: Json) -> tuple[int, Json]:
        """Create a TrainJob."""
        body["metadata"]["namespace"] = namespace
        self.jobs[body["metadata"]["name"]] = deepcopy(body)
        return 201, body


@dataclass(frozen=True)
class Sent:
    """What an SDK sent: jobs by their names, and the names that it gave."""

    jobs: dict[str, Json]
    said: dict[str, str | None]


@lru_cache(maxsize=len(LINES))
def sent(version: str) -> Sent:
    """Has a version of the SDK send all jobs, once."""
    cluster = Recorder(bodies.runtimes(LINES[version][-1]))
    with served(cluster) as url:
        command = [str(environments.python(version)), str(SESSION), url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return Sent(cluster.jobs, json.loads(done.stdout))


def base(found: Sent, case: str, trainer: str) -> Json:
    """The job without the option, under the name of the one with it."""
    job = deepcopy(found.jobs[f"base-{trainer}"])
    job["metadata"]["name"] = f"{case}-{trainer}"
    return job
