from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest

from plugins.framework.errors import ConfigError, PluginFault
from tests.webhook.cli.conftest import Run, job
from tests.webhook.cli.fakes import Engine, Outcome
from webhook import cli
from webhook.cli.command import Examples
from webhook.yamlio import Document

ROOT = Path(__file__).parents[3]


def python(*words: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **kwargs)  # type: ignore[call-overload,no-any-return]  # options of the caller


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_the_commands_and_teaches_by_examples(run: Run, flag: str) -> None:
    ran = run(flag)
    assert ran.code == 0
    width = max(map(len, cli.COMMANDS)) + 1
    for name, summary in cli.COMMANDS.items():
        assert f"  {name:{width}} {summary}\n" in ran.out
    assert (
        "  # Serve the runtimes of a folder\n  stationmaster serve --from examples/cluster\n"
        in ran.out
    )


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_each_command_explains_itself(run: Run, name: str) -> None:
    ran = run(name, "--help")
    assert ran.code == 0
    assert f"Usage: stationmaster {name} [OPTIONS]" in ran.out
    assert f"\n  stationmaster {name} " in ran.out.partition("Examples:")[2]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_examples_of_the_help_parse(name: str) -> None:
    command: Examples = importlib.import_module(cli.module_of(name)).command
    for line in command.examples.values():
        words = line.split(" < ")[0].split(" > ")[0].split(" | ")[0].split()
        assert words[0] == name
        with command.make_context(name, words[1:]):
            pass


def test_kubectl_names_its_plugin_as_it_is_typed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-stationmaster"])
    ran = run("admit", "--help")
    assert "Usage: kubectl stationmaster admit [OPTIONS]" in ran.out
    assert "\n  kubectl stationmaster admit -f job.yaml" in ran.out


PROGRAMS = {
    "/usr/bin/stationmaster": "stationmaster",
    "kubectl-stationmaster": "kubectl stationmaster",
    "kubectl-stationmaster.exe": "kubectl stationmaster",
    "/site-packages/webhook/cli/__main__.py": "stationmaster",
    "": "stationmaster",
}


@pytest.mark.parametrize(("argv0", "want"), PROGRAMS.items())
def test_the_name_of_the_program(argv0: str, want: str) -> None:
    assert cli.prog_name(argv0) == want


def test_the_version_is_that_of_the_package(run: Run) -> None:
    ran = run("--version")
    assert (ran.code, ran.out) == (0, f"stationmaster {metadata.version('stationmaster')}\n")


USAGE: dict[str, Sequence[str]] = {
    "no command": (),
    "an unknown command": ("admti",),
    "a missing option": ("admit", "--from", "cluster"),
    "an unknown option": ("admit", "--frmo", "cluster"),
    "an unknown line": ("render", "-f", "-", "--from", "cluster", "--trainer-version", "1.9"),
    "an unknown output": ("admit", "-f", "-", "--from", "cluster", "-o", "table"),
    "a missing file": ("admit", "-f", "nowhere.yaml", "--from", "cluster"),
    "a missing folder": ("admit", "-f", "-", "--from", "nowhere"),
}


@pytest.mark.parametrize("words", USAGE.values(), ids=USAGE)
def test_wrong_usage_exits_with_2(run: Run, engine: Engine, words: Sequence[str]) -> None:
    assert engine.loaded is None
    ran = run(*words, stdin=job())
    assert (ran.code, ran.out if words else "") == (2, "")
    assert ran.err if words else True


def test_a_folder_that_cannot_be_used_is_told_line_by_line(run: Run, engine: Engine) -> None:
    del engine
    Path("cluster/a.yaml").write_text("a: [")
    Path("cluster/b.yaml").write_text("a: 1\na: 2")
    ran = run("admit", "-f", "-", "--from", "cluster", stdin=job())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == [
        "Error: cluster/a.yaml:2: while parsing a flow node: did not find expected node content",
        'Error: cluster/b.yaml:2: key "a" is repeated: it is set on line 1 already',
    ]


def test_a_fault_of_ours_exits_with_2_and_does_not_hide_other_documents(
    run: Run, engine: Engine
) -> None:
    def admit(document: Document, _old: Document | None) -> Outcome:
        if document.obj["metadata"]["name"] == "a":
            raise PluginFault("Torch", "validate", ValueError("secret"))
        return Outcome(after=document.obj)

    engine.on_admit = admit
    ran = run("admit", "-f", "-", "--from", "cluster", stdin=job("a") + "---\n" + job("b"))
    assert ran.code == 2
    assert ran.err == ["Error: TrainJob team/a: plugin Torch failed in validate: ValueError"]
    assert "name: b" in ran.out


def test_a_crash_does_not_look_like_a_refusal(run: Run, engine: Engine) -> None:
    def crash(_document: Document, _old: Document | None) -> Outcome:
        raise ZeroDivisionError

    engine.on_admit = crash
    ran = run("admit", "-f", "-", "--from", "cluster", stdin=job())
    assert (ran.code, ran.err[0], ran.err[-1]) == (
        2,
        "Traceback (most recent call last):",
        "ZeroDivisionError",
    )


def test_an_interrupt_ends_quietly(run: Run, engine: Engine) -> None:
    def interrupt(_document: Document, _old: Document | None) -> Outcome:
        raise KeyboardInterrupt

    engine.on_admit = interrupt
    ran = run("admit", "-f", "-", "--from", "cluster", stdin=job())
    assert (ran.code, ran.out, "".join(ran.err)) == (130, "", "")


def test_messages_cannot_move_the_cursor(run: Run, engine: Engine) -> None:
    def refuse(_document: Document, _old: Document | None) -> Outcome:
        raise ConfigError("bad\x1b[2Jthing")

    engine.on_admit = refuse
    ran = run("admit", "-f", "-", "--from", "cluster", stdin=job())
    assert ran.err == ["Error: TrainJob team/a: bad\\u001b[2Jthing"]


def test_a_reader_that_goes_away_is_no_error() -> None:
    """``stationmaster ... | head -1``: what is written after head has gone must not end in a traceback."""
    script = (
        "import os, sys; from webhook.cli import cli, main, output as out\n"
        "cli.get_command = lambda ctx, name: __import__('click').Command(\n"
        "    name, callback=lambda: out.write('x' * 1_000_000))\n"
        "sys.exit(main(['render']))"
    )
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (ran.returncode, ran.stderr) == (141, "")


def test_a_full_disk_is_said_in_a_line() -> None:
    with Path("/dev/full").open("w") as full:
        for command in ("library", "test"):  # the latter writes as it goes
            ran = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "webhook.cli",
                    command,
                    *(["examples"] * (command == "test")),
                ],
                cwd=ROOT,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            assert (ran.returncode, ran.stderr) == (
                2,
                "Error: standard output: No space left on device\n",
            )


def test_a_closed_stdout_takes_nothing_and_is_no_error() -> None:
    command = f"exec {sys.executable} -m webhook.cli library >&-"
    ran = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_help_imports_nothing_of_weight() -> None:
    ran = python(
        "-X", "importtime", "-c", "from webhook.cli import main; raise SystemExit(main(['--help']))"
    )
    assert ran.returncode == 0
    imported = {line.rsplit("|", 1)[1].strip() for line in ran.stderr.splitlines() if "|" in line}
    ours = {
        name
        for name in imported
        if name.split(".")[0] in {"webhook", "plugins", "policies", "certs"}
    }
    assert ours == {"webhook", "webhook.cli", "webhook.cli.command"}
    assert not imported & {
        "orjson",
        "yaml",
        "rich",
        "aiohttp",
        "asyncio",
        "cryptography",
        "kubernetes",
    }


def test_what_runs_policies_is_imported_only_where_there_are_some() -> None:
    job, cluster = "examples/trainjobs/torch-defaults.yaml", ("--from", "examples/cluster")

    def imported(*options: str) -> set[str]:
        ran = python(
            "-X", "importtime", "-m", "webhook.cli", "admit", "-f", job, *cluster, *options
        )
        assert "kind: TrainJob" in ran.stdout
        return {line.rsplit("|", 1)[1].strip() for line in ran.stderr.splitlines() if "|" in line}

    engine = {"cel_expr_python", "google.protobuf", "policies.engine", "webhook.workers"}
    assert not imported() & (engine | {"importlib.metadata"})
    assert imported("-p", "examples/policies/own-images.yaml") >= engine - {"webhook.workers"}


def test_the_package_runs_as_a_module() -> None:
    ran = python("-m", "webhook.cli", "--version")
    assert (ran.returncode, ran.stdout) == (
        0,
        f"stationmaster {metadata.version('stationmaster')}\n",
    )
