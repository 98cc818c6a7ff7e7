"""The released SDK, run as a user would, by an interpreter of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.e2e.controlplane import ControlPlane
from tests.sdk import environments

SCRIPTS: Final = Path(__file__).parents[1] / "sdk"
VERSION: Final = "0.5.0"
PYTHON_VARIABLE: Final = "STATIONMASTER_SDK_PYTHON"
SESSION_SECONDS: Final = 600


def interpreter() -> Path:
    """An interpreter with the SDK, which wants an older Kubernetes client than ours: installed once."""
    if chosen := os.environ.get(PYTHON_VARIABLE):
        return Path(chosen)
    return environments.install(VERSION)


def run(plane: ControlPlane, script: str, namespace: str, *arguments: str) -> Any:
    """What a script of ``tests/sdk`` prints, for a user who may do what data scientists may."""
    command = [str(interpreter()), str(SCRIPTS / script), str(plane.kubeconfig("alice"))]
    done = subprocess.run(
        [*command, namespace, *arguments],
        capture_output=True,
        text=True,
        timeout=SESSION_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
