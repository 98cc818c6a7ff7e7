from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from plugins.framework import values
from policies.options import OPTIONS
from tests.builders import make_train_job
from tests.folder import Folder, texts
from tests.policies.custom.packages import publish
from tests.policies.test_engine import RUNTIME
from tests.webhook.cli.conftest import Run
from webhook.described import Described, all_described, example

DESCRIBED: dict[str, Described] = {one.name: one for one in all_described()}
ON_LINES = [(name, line) for name, one in DESCRIBED.items() for line in one.usable_lines]

PACKAGE = """
ARGS = {"type": "object", "properties": {"seconds": {"type": "integer"}}}
def make(seconds):
    return lambda job_spec, trainer, backend: job_spec.update(spec={"activeDeadlineSeconds": seconds})
MINE = CustomOption(name="mine", make=make, args=ARGS, summary="Sets a deadline.", lines=("2.2", "2.3"),
                    modes=("overrides",), example={"seconds": 60})
BAD = 5
BARE = CustomOption(name="bare", make=make, args={**ARGS, "required": ["seconds"]})
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, tmp_path / "site", PACKAGE, "mine", "bad")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, tmp_path / "site", PACKAGE, "bare")


def test_every_option_is_listed_with_its_key(run: Run) -> None:
    ran = run("options")
    assert (ran.code, ran.err) == (0, [])
    header, *rows = ran.out.splitlines()
    assert header.split()[:3] == ["NAME", "KEY", "UNDER"]
    assert [row.split()[:2] for row in rows] == [[o.name, o.key] for o in OPTIONS]


@pytest.mark.usefixtures("package")
def test_those_of_packages_are_listed_too_and_what_cannot_be_used_says_why(run: Run) -> None:
    bad, mine = run("options").out.splitlines()[-2:]
    assert bad.split()[:2] == ["bad", "options"]
    assert " ".join(bad.split()).endswith(
        "cannot be used - outside 2.0 outside:BAD must be a policies.custom.CustomOption"
    )
    assert mine.split()[:5] == ["mine", "options", "overrides", "2.2,", "2.3"]
    assert "outside 2.0" in mine


@pytest.mark.usefixtures("package")
def test_programs_get_json(run: Run) -> None:
    found = json.loads(run("options", "-o", "json").out)
    assert [one["name"] for one in found] == [*(o.name for o in OPTIONS), "bad", "mine"]
    one = json.loads(run("options", "mine", "-o", "json").out)
    assert one == found[-1]
    assert one["lines"] == {
        "2.0": "refused",
        "2.1": "refused",
        "2.2": "as it is",
        "2.3": "as it is",
    }
    assert one["fields"] == ["args.seconds"]
    assert (one["package"], one["problem"]) == ("outside 2.0", "")


@pytest.mark.parametrize("word", ["SpecLabels", "speclabels", "specLabels"])
def test_one_is_told_in_full_by_any_of_its_names(run: Run, word: str) -> None:
    ran = run("options", word)
    assert ran.code == 0
    assert ran.out.startswith("SpecLabels: Labels of what the TrainJob becomes: the JobSet")
    rows = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "Trainer 2.0-2.1 as it is" in rows
    assert "SDK 0.2.0 to 0.3.1" in rows
    assert ran.out.endswith("stationmaster options SpecLabels --example\n")


def test_the_sdks_name_leads_to_the_rule(run: Run) -> None:
    assert run("options", "Name").out.startswith("Naming: ")


def test_a_misspelt_one_is_told_what_was_meant(run: Run) -> None:
    ran = run("options", "lables")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == ["Error: there is no option lables; did you mean Labels?"]
    assert run("options", "qqq").err == ["Error: there is no option qqq; `options` lists all"]
    assert run("options", "--example").code == 2


@pytest.mark.usefixtures("package")
def test_what_cannot_be_used_has_no_example(run: Run) -> None:
    ran = run("options", "bad", "--example")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == ["Error: option bad outside:BAD must be a policies.custom.CustomOption"]


@pytest.mark.usefixtures("bare")
def test_an_example_that_no_policy_could_be_has_none_printed(run: Run) -> None:
    ran = run("options", "bare", "--example")
    assert (ran.code, ran.out) == (2, "")
    [said] = ran.err
    assert said == (
        "Error: option bare of outside 2.0 declares no example that is right: options[0].args.seconds: Required value"
    )


@pytest.mark.parametrize(("name", "line"), ON_LINES)
def test_the_example_is_a_policy_that_works_on_each_line(run: Run, name: str, line: str) -> None:
    document = yaml.safe_load(run("options", name, "--example").out)
    assert document == example(DESCRIBED[name])
    assert list(document["spec"]) == [DESCRIBED[name].modes[0]]
    folder = Folder.of(RUNTIME.initializers(), document, line=line)
    assert list(folder.engine.policies.problems()) == []
    job = make_train_job("team-a").initializer("dataset", storageUri="hf://a/b")
    outcome = folder.admit(job)
    assert texts(outcome.findings.errors) == []
    # A rule writes nothing, and auto is what absence means where the field is a number.
    if name != "Naming" and (name, line) not in {
        ("NumProcPerNode", "2.2"),
        ("NumProcPerNode", "2.3"),
    }:
        record = values.at(outcome.after, "metadata", "annotations", "stationmaster.dev/applied")
        assert f"policy/{document['metadata']['name']}" in record


@pytest.mark.usefixtures("package")
def test_the_example_of_a_package_works(run: Run) -> None:
    document = yaml.safe_load(run("options", "mine", "--example").out)
    entry = {"name": "mine", "args": {"seconds": 60}}
    assert document["spec"] == {"overrides": {"options": [entry]}}
    outcome = Folder.of(RUNTIME, document).admit(make_train_job())
    assert outcome.after is not None
    assert outcome.after["spec"]["activeDeadlineSeconds"] == 60


@pytest.mark.parametrize("name", [o.name for o in OPTIONS])
def test_a_line_that_refuses_says_so(name: str) -> None:
    one = DESCRIBED[name]
    for line, text in one.lines:
        if text == "refused":
            outcome = Folder.of(RUNTIME, example(one), line=line).admit(make_train_job())
            assert texts(outcome.findings.errors), "an option is not dropped without a word"
