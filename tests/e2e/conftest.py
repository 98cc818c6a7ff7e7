"""The control plane of the e2e tests, and the switch that they run by.

They run where ``--e2e`` is given (``pytest tests/e2e --e2e``) or ``STATIONMASTER_E2E=1`` is set, and are
skipped else: the first run compiles Kubernetes.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.labels import ADMISSION, KUEUE
from tests.e2e.load import Outcome
from tests.e2e.report import KEY, Report
from tests.e2e.standalone import Standalone, policies

SWITCH: Final = "STATIONMASTER_E2E"
HERE: Final = Path(__file__).parent

MakeNamespace = Callable[..., str]
Tell = Callable[[str, str, Outcome], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--e2e", action="store_true", help="run the tests against a real API server")
    parser.addoption(
        "--cost",
        choices=("quick", "full"),
        default="quick",
        help="e2e: how long to measure what users pay",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "e2e: needs a real API server; runs with --e2e only")
    config.stash[KEY] = Report()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of ``-n`` hands over what it has measured: the terminal is another process's."""
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["report"] = session.config.stash[KEY].tables


@pytest.hookimpl(optionalhook=True)  # xdist's
def pytest_testnodedown(node: Any) -> None:
    """Take it; nothing from a worker that crashed."""
    node.config.stash[KEY].merge(getattr(node, "workeroutput", {}).get("report", {}))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in config.stash[KEY].lines():
        terminalreporter.write_line(line)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--e2e", default=False) or os.environ.get(SWITCH) == "1":
        return
    skip = pytest.mark.skip(
        reason=f"needs a real API server: pytest tests/e2e --e2e, or {SWITCH}=1"
    )
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Report:
    """What is printed at the end of the run."""
    return pytestconfig.stash[KEY]


@pytest.fixture
def tell(report: Report) -> Tell:
    """Put what became of a load under a fault into the table: the fault, its proof, the outcome."""

    def tell(fault: str, proof: str, outcome: Outcome) -> None:
        report.add("Faults under load, counted at the client", outcome.row(fault, proof))

    return tell


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane for all tests that do not break it: Kueue acts in its own namespaces only."""
    with ControlPlane(tmp_path_factory.mktemp("plane")) as plane:
        plane.start_jobset()
        plane.start_trainer()
        plane.start_kueue(selector=KUEUE)
        plane.install_runtimes()
        yield plane


@pytest.fixture(scope="session")
def standalone(
    plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Standalone]:
    """Stationmaster from a folder with the shipped runtimes and some policies, registered for its own namespaces."""
    folder = tmp_path_factory.mktemp("standalone")
    objects = [*plane.shipped_runtimes(), *policies()]
    flags = ("--trainer-version=2.3", "--log-level=debug")
    with Standalone.start(plane, folder, objects, selector=ADMISSION, flags=flags) as running:
        yield running


@pytest.fixture
def make_namespace(plane: ControlPlane) -> Iterator[MakeNamespace]:
    """Make namespaces; they are deleted after the test, with all in them."""
    made: list[str] = []

    def make(*labels: Mapping[str, str], prefix: str = "t") -> str:
        merged = {key: value for each in labels for key, value in each.items()}
        made.append(plane.namespace(f"{prefix}-{secrets.token_hex(4)}", merged))
        return made[-1]

    yield make
    for name in made:
        plane.admin.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@pytest.fixture
def namespace(make_namespace: MakeNamespace) -> str:
    """A namespace in which neither Kueue nor Stationmaster acts."""
    return make_namespace()
