"""The released SDKs, each in an environment of its own in the cache: ``python -m tests.sdk.environments`` makes them.

They want other Kubernetes clients and models than ours, and than each other.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.gobuild import cache_root, say

VERSIONS: Final = ("0.3.1", "0.4.1", "0.5.0")
"""The last of each generation of the pod options."""

SWITCH: Final = "STATIONMASTER_SDK"

_HOMES: Final = {"0.5.0": "sdk-0.5"}
"""The one that the e2e tests have, too."""


def python(version: str) -> Path:
    """The interpreter that has a version, whether it is there or not."""
    return _home(version) / "bin" / "python"


def is_asked_for(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether these comparisons are to run: each import of an SDK takes seconds, so ``make test`` leaves them out."""
    return environ.get(SWITCH) == "1"


def is_installed(version: str) -> bool:
    """Whether the environment was made to its end."""
    return (_home(version) / "installed").exists()


def install(version: str) -> Path:
    """Make the environment where it is not there; asks PyPI then."""
    home, found = _home(version), python(version)
    if not is_installed(version):
        say(f"installing kubeflow {version} into {home}")
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"kubeflow=={version}"], check=True)
        (home / "installed").touch()
    return found


def _home(version: str) -> Path:
    return cache_root() / _HOMES.get(version, f"sdk-{version}")


if __name__ == "__main__":
    for each in VERSIONS:
        install(each)
