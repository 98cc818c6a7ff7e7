"""The programs behind `make run` and `make check`."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import check_docs

ROOT = Path(__file__).parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    ports = ("--port", str(free_port()), "--health-port", str(free_port()))
    return subprocess.run(
        [sys.executable, "-m", "scripts.demo", "--once", *ports, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.slow
def test_make_run_shows_the_patch_and_the_completed_job() -> None:
    done = demo()

    assert done.returncode == 0, done.stderr
    assert "add     /spec/trainer" in done.stdout
    assert "kind: TrainJob" in done.stdout
    assert "validating webhook: allowed" in done.stdout


@pytest.mark.slow
def test_a_refused_job_shows_why() -> None:
    done = demo("--job", str(ROOT / "examples/trainjobs/refused.yaml"))

    assert done.returncode == 1, done.stderr
    assert "mutating webhook: refused" in done.stdout


def page(root: Path, text: str) -> list[str]:
    (root / "page.md").write_text(text)
    return list(check_docs.broken_links(root))


GOOD = {
    "to a file": "[a](other.md)",
    "to a folder": "[a](folder)",
    "to a heading here": "# One two\n[a](#one-two)",
    "to a heading there": "[a](other.md#a-b-c)",
    "with a title": '[a](other.md "title")',
    "out of the project": "[a](https://example.com/x)",
    "in a block of code": "```\n[a](nowhere.md)\n```",
}
BAD = {
    "to no file": "[a](nowhere.md)",
    "to no heading": "[a](other.md#x)",
    "to a heading in code": "```\n# x\n```\n[a](#x)",
    "an image": "![a](nowhere.png)",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "other.md").write_text("## A `b`, c\n")
    return tmp_path


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_links_that_lead_somewhere(root: Path, text: str) -> None:
    assert page(root, text) == []


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_links_that_lead_nowhere(root: Path, text: str) -> None:
    (problem,) = page(root, text)

    assert problem.startswith("page.md: broken link: ")
