"""The command line: ``stationmaster``, and ``kubectl stationmaster`` as its plugin.

::

    __init__.py  main: the group, exit codes; imports click and nothing else of weight
    command.py   a command whose help ends in examples
    options.py   the options that several commands have
    report.py    what goes to stderr, and the exit code that grows with it
    inputs.py    which documents of FILE and --old are for us
    output.py    what goes to stdout: YAML, JSON, patches, diffs
    tables.py    tables, by rich (imported when one is printed)
    page.py      paragraphs, folded at the terminal's edge
    why.py       what explain shows of policies
    progress.py  how far a long command is
    simulated.py what simulate shows
    serve.py  admit.py  render.py  explain.py  test.py  lint.py  simulate.py  library.py  catalogue.py (options)
    convert.py  manifests.py  doctor.py
                 one command each, imported when it is run

Exit codes: 0 allowed or fine, 1 refused or findings, 2 what could not be judged at all. All documents are judged,
the highest code wins.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import click

from webhook.cli.command import Examples

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED: Final = 130
"""128 + SIGINT, as shells say it."""

BROKEN_PIPE: Final = 141
"""128 + SIGPIPE: whoever read our output went away, so nobody learns from it whether all was allowed."""

COMMANDS: Final = {
    "serve": "Answer AdmissionReviews over TLS, for a folder or a cluster.",
    "admit": "Show what admission makes of a TrainJob, or why it is refused.",
    "render": "Show what the Trainer would create for a TrainJob.",
    "explain": "Show where each value comes from, and why policies decide.",
    "test": "Run the tests of policies.",
    "lint": "Find the mistakes in policies, and say what was meant.",
    "simulate": "Show what other policies would do to the TrainJobs that exist.",
    "library": "List the policies that come with it, or print one.",
    "options": "List what policies can write, and how.",
    "convert": "Say the pod overrides of a TrainJob in another Trainer version.",
    "manifests": "Print the manifests that install it into a cluster.",
    "doctor": "Check an installation, and say what to do.",
}
"""The commands in the order in which one meets them; their modules are imported when they are run."""

MODULES: Final = {"options": "catalogue"}
"""Commands whose module has another name: ``options`` is that of options of the command line."""


def module_of(name: str) -> str:
    """The module of a command."""
    return f"webhook.cli.{MODULES.get(name, name)}"


class _Group(Examples, click.Group):
    """Loads a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002  # click's signature
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(module_of(cmd_name)).command
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002  # click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            code = super().invoke(ctx)
            from webhook.cli import output  # noqa: PLC0415  # not for `--help`

            output.flush()
        except BrokenPipeError:
            return BROKEN_PIPE
        return code


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples={
        "Serve the runtimes of a folder": "serve --from examples/cluster",
        "Complete a TrainJob, or hear all that is wrong with it": (
            "admit -f job.yaml --from examples/cluster"
        ),
        "See the JobSet that the Trainer would create": "render -f job.yaml --from examples/cluster",
    },
)
@click.version_option(package_name="stationmaster", message="%(prog)s %(version)s")
def cli() -> None:
    """Complete Kubeflow TrainJobs at admission, and refuse what would fail later.

    Exit codes: 0 allowed or fine, 1 refused or with findings, 2 for wrong usage and for input that
    cannot be read. stdout carries what -o asks for, stderr all else.
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line, and say with which code to exit."""
    _open_what_is_closed()
    try:
        code = cli.main(args=args, prog_name=prog_name(sys.argv[0]), standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  # a crash must not exit with 1, which means "refused"
        return _report(error)
    return int(code or 0)


def _open_what_is_closed() -> None:
    """Python has None for a stdout that the shell closed (``>&-``): what is written there goes nowhere."""
    if sys.stdout is None or sys.stderr is None:
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # until the process ends
        sys.stdout = sys.stdout or nowhere
        sys.stderr = sys.stderr or nowhere


def prog_name(argv0: str) -> str:
    """What the user typed: kubectl runs plugins by their file name, ``kubectl-stationmaster``."""
    name = PurePath(argv0).stem
    return name.replace("-", " ", 1) if name.startswith("kubectl-") else "stationmaster"


def _report(error: Exception) -> int:
    from plugins.framework.errors import StationmasterError  # noqa: PLC0415  # not for `--help`
    from webhook.cli.report import Report  # noqa: PLC0415

    if isinstance(error, StationmasterError):
        report = Report.on_stderr()
        for line in str(error).splitlines():
            report.failure(line)
        return report.code
    import traceback  # noqa: PLC0415

    traceback.print_exception(error)
    return 2
