"""The example of a package: installed as pip would, used by its policy, and runs in the SDK's protocol."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import Json, make_train_job
from tests.policies.custom.packages import EXAMPLE
from tests.policies.test_engine import admit, at, refusals


def _has_hatchling() -> bool:
    try:
        return bool(version("hatchling"))
    except PackageNotFoundError:
        return False


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of site-packages with the example; by pip where its build backend is at hand, without a network."""
    site = tmp_path / "site"
    if _has_hatchling():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
        words = ["--no-build-isolation", "--target", str(site), str(EXAMPLE)]
        subprocess.run([*pip, *words], check=True, capture_output=True)
    else:
        _as_pip_would(site)
    monkeypatch.syspath_prepend(site)
    return site


def _as_pip_would(site: Path) -> None:
    import tomllib  # noqa: PLC0415  # only here

    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = site / f"acme_options-{project['version']}.dist-info"
    info.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head)
    text = ""
    for group, points in project["entry-points"].items():
        text += f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items())
    (info / "entry_points.txt").write_text(text)
    (site / "acme_options").symlink_to(EXAMPLE / "src" / "acme_options")


@pytest.fixture
def document(installed: Path) -> Json:
    assert installed.is_dir()
    found: Json = yaml.safe_load((EXAMPLE / "policy.yaml").read_text())
    return found


DEADLINES: dict[str, tuple[Any, int]] = {
    "the SDK's trainer tells the nodes": (make_train_job().trainer(image="i", numNodes=3), 5400),
    "the job does, where there is no such trainer": (make_train_job().trainer(numNodes=4), 6000),
    "neither does": (make_train_job(), 4200),
}


@pytest.mark.parametrize("case", DEADLINES)
def test_the_deadline_grows_with_the_job(document: Json, case: str) -> None:
    job, seconds = DEADLINES[case]
    outcome = admit(job, document)
    assert refusals(outcome) == []
    assert at(outcome, "spec", "activeDeadlineSeconds") == seconds
    record = at(outcome, "metadata", "annotations", "stationmaster.dev/applied")
    assert '"/spec/activeDeadlineSeconds":"policy/deadline' in record


def test_a_user_keeps_a_deadline_of_their_own(document: Json) -> None:
    job = make_train_job()
    raw = job.obj
    raw["spec"]["activeDeadlineSeconds"] = 60
    assert at(admit(raw, document), "spec", "activeDeadlineSeconds") == 60


def test_an_older_line_is_told_that_it_has_no_such_field(document: Json) -> None:
    [error] = refusals(admit(make_train_job(), document, line="2.1"))
    assert "option deadline is for Trainer 2.2, 2.3, and this is 2.1" in error


def test_it_is_an_option_of_the_sdks_protocol() -> None:
    """So it may be given to ``TrainerClient.train`` as it is."""
    file = EXAMPLE / "src" / "acme_options" / "__init__.py"
    spec = importlib.util.spec_from_file_location("acme_options_example", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    job_spec: Json = {}
    module.Deadline(seconds=60)(job_spec, None, object())
    assert job_spec == {"spec": {"activeDeadlineSeconds": 60}}
