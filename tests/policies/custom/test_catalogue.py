"""Which options there are, in the server's interpreter and in another one."""

from __future__ import annotations

import venv
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import policies
from plugins.framework.errors import ConfigError
from policies.custom import catalogue, loading
from policies.reading import read
from tests.builders import make_train_job
from tests.policies.custom.packages import install, publish
from tests.policies.test_engine import admit, at, policy, refusals

OPTION = "ONE = CustomOption(name='one', make=print)\nTWO = CustomOption(name='two', make=print)\n"


@pytest.fixture
def another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packages of another interpreter, which is named for options."""
    home = tmp_path / "other"
    venv.EnvBuilder(symlinks=True).create(home)
    monkeypatch.setenv(catalogue.VARIABLE, str(home / "bin" / "python"))
    [site] = home.glob("lib/python3*/site-packages")
    return site


def test_options_are_found_in_the_interpreter_that_is_named(another: Path) -> None:
    install(another, OPTION, {"one": "ONE"})
    [one] = catalogue.all_declared()
    assert (one.name, one.installed.package, one.problem) == ("one", "outside 2.0", "")


def test_options_are_called_by_an_interpreter_that_has_nothing_else(another: Path) -> None:
    """What loads and calls them needs the standard library alone."""
    source = "ONE = CustomOption(name='one', make=lambda: lambda job_spec, *_: job_spec.update(\n"
    source += "    metadata={'labels': {'of': str(__import__('sys').prefix)[-5:]}}))\n"
    install(another, source, {"one": "ONE"})
    outcome = admit(make_train_job(), policy("p", overrides={"options": [{"name": "one"}]}))
    assert refusals(outcome) == []
    assert at(outcome, "metadata", "labels") == {"of": "other"}


def test_packages_are_looked_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred policies with options are read in a row, and nobody is answered meanwhile."""
    publish(monkeypatch, tmp_path / "site", OPTION, "one", "two")
    looked: list[list[EntryPoint]] = []
    points = loading.points

    def looking() -> list[EntryPoint]:
        looked.append(points())
        return looked[-1]

    monkeypatch.setattr(loading, "points", looking)
    document = policy("p", overrides={"options": [{"name": "one"}, {"name": "two"}]})
    for _ in range(3):
        assert read(document).errors == []
    assert len(looked) == 1


def test_what_is_installed_beside_the_server_is_not_for_another_interpreter(
    another: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an installation the folder that holds ``policies`` holds all packages of the server."""
    beside = tmp_path / "server"
    install(beside, OPTION, {"two": "TWO"})
    (beside / "policies").symlink_to(Path(policies.__file__).parent)
    monkeypatch.setattr(catalogue, "_OURS", str(beside / "policies" / "__init__.py"))
    install(another, OPTION, {"one": "ONE"}, package="theirs")
    assert list(catalogue.installed()) == ["one"]


def test_another_interpreter_may_have_policies_of_its_own(another: Path) -> None:
    (another / "policies").mkdir()
    (another / "policies" / "__init__.py").write_text("raise ImportError('not these')")
    install(another, OPTION, {"one": "ONE"})
    [one] = catalogue.all_declared()
    assert one.is_usable, one.problem


SILENT: dict[str, tuple[str, str]] = {
    "is not there": ("", "No such file or directory"),
    "says nothing": ("#!/bin/sh\nexit 0\n", "it ended the process"),
    "is no Python": ("#!/bin/sh\necho '{}'\n", "it answers otherwise than Python"),
}


@pytest.mark.parametrize("case", SILENT)
def test_an_interpreter_that_does_not_answer_is_told_by_its_name(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all options of a cluster would be missing, and nobody would be told why."""
    program, why = SILENT[case]
    python = tmp_path / "python"
    if program:
        python.write_text(program)
        python.chmod(0o755)
    monkeypatch.setenv(catalogue.VARIABLE, str(python))
    with pytest.raises(ConfigError) as caught:
        catalogue.installed()
    assert str(caught.value) == (
        f"STATIONMASTER_OPTIONS_PYTHON must name a Python of 3.11 or later, and {python} cannot be asked for "
        f"options: {why}"
    )


def test_a_module_is_imported_once_for_all_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An SDK takes seconds of the processor; once for each of ten options, none would be there in time."""
    counted = tmp_path / "imports"
    source = f"open({str(counted)!r}, 'a').write('x')\nBAD = 5\n{OPTION}"
    publish(monkeypatch, tmp_path / "site", source, "one", "two", "bad")
    publish(monkeypatch, tmp_path / "dead", "import os; os._exit(1)", "dead", package="another")
    found = {one.name: one.problem for one in catalogue.all_declared()}
    assert found == {
        "bad": "outside:BAD must be a policies.custom.CustomOption",
        "dead": "cannot be imported: it ended the process",
        "one": "",
        "two": "",
    }
    assert catalogue.declared("one") is not None
    assert counted.read_text() == "x"
