from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import webhook
from tests.webhook.cli.fakes import Engine
from webhook.cli import main


@dataclass
class Ran:
    """What a command line came to."""

    code: int
    out: str
    err: list[str]


Run = Callable[..., Ran]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    fake = Engine()
    monkeypatch.setitem(sys.modules, "webhook.offline", fake)
    monkeypatch.setattr(webhook, "offline", fake, raising=False)
    return fake


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command line in a folder with an empty ``cluster/``; bytes or text come on standard input."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/stationmaster"])
    (tmp_path / "cluster").mkdir()

    def call(*words: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main(words)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err.splitlines())

    return call


def job(name: str = "a", extra: str = "") -> str:
    return (
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n"
        f"metadata: {{name: {name}, namespace: team}}\n{extra}"
    )


def review(name: str = "a", kind: str = "TrainJob") -> str:
    return (
        "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\n"
        f"request: {{uid: u, kind: {{kind: {kind}}}, object: {{kind: {kind}, metadata: {{name: {name}}}}}}}\n"
    )
