"""The image without a container engine: its build steps in a scratch folder, its file by a linter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from webhook.install.settings import Settings, manifests

ROOT = Path(__file__).parent.parent
PACKAGES = {"webhook", "policies", "plugins", "certs"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's application folder; with its libraries in CI, else with those of this environment."""
    out = tmp_path_factory.mktemp("image") / "app"
    script = ROOT / "scripts/build_image_root.py"
    quick = [] if os.environ.get("CI") else ["--no-deps"]
    subprocess.run([sys.executable, script, "--out", out, *quick], check=True, cwd=out.parent)
    return out


def start(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run as in the container: nothing of the caller's environment, and no working directory of ours."""
    environment = {"PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    if not os.environ.get("CI"):
        environment["PYTHONPATH"] = sysconfig.get_path("purelib")
    return subprocess.run(
        [str(root / "bin/stationmaster"), *arguments],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_image_starts(root: Path) -> None:
    done = start(root, "--help")

    assert (done.returncode, done.stderr) == (0, "")
    assert "serve" in done.stdout


@pytest.mark.slow
def test_the_image_needs_nothing_of_the_checkout(root: Path) -> None:
    job, cluster = ROOT / "examples/trainjobs/torch.yaml", ROOT / "examples/cluster"

    done = start(root, "admit", "-f", str(job), "--from", str(cluster))

    assert (done.returncode, done.stderr) == (0, "")
    assert "kind: TrainJob" in done.stdout


@pytest.mark.slow
def test_the_image_carries_the_manifests_of_its_version(root: Path) -> None:
    done = start(root, "manifests", "-o", "json")

    assert (done.returncode, done.stderr) == (0, "")
    printed = {(obj["kind"], obj["metadata"]["name"]) for obj in json.loads(done.stdout)["items"]}
    ours = manifests(Settings())
    assert printed == {(obj["kind"], obj["metadata"]["name"]) for obj in ours}


@pytest.mark.slow
def test_the_image_holds_our_packages_compiled_and_no_tests(root: Path) -> None:
    (site,) = root.glob("lib/python*/site-packages")
    names = {entry.name for entry in site.iterdir()}

    assert names >= PACKAGES
    assert not names & {"tests", "benchmarks", "scripts", "pip"}
    assert list((site / "webhook/__pycache__").glob("app.*.pyc"))


def test_no_other_distribution_claims_our_names() -> None:
    claimed = packages_distributions()

    owners = {owner for name in PACKAGES for owner in claimed.get(name, ())}
    assert owners <= {"stationmaster"}
