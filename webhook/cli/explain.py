"""``stationmaster explain``: who set which value, what was there before, and why each policy did what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from plugins.framework.draft import ABSENT
from plugins.framework.field import path_of, show
from webhook.cli import options, why
from webhook.cli import output as out
from webhook.cli.command import Examples
from webhook.cli.inputs import TRAIN_JOBS, read_old, read_ours
from webhook.cli.report import REFUSED, Report, subject_of
from webhook.cli.tables import table
from webhook.files import read_tree

if TYPE_CHECKING:
    from pathlib import Path

    from plugins.framework.draft import Change
    from webhook.asked import Asked
    from webhook.offline import Explained
    from webhook.yamlio import Document

_NO_POLICY: Final = "no policy was asked about it\n"


@click.command(
    cls=Examples,
    examples={
        "Who changed which field, and where each value of the pods comes from": (
            "explain -f job.yaml --from cluster/"
        ),
        "Why an environment variable has its value": (
            "explain -f job.yaml --from cluster/ | grep PET_NNODES"
        ),
        "Why a policy refuses a job, or is not about it": (
            "explain -f job.yaml --from cluster/ -o policies"
        ),
        "The same with the values of rules that hold, for the job that is stored": (
            "explain -f new.yaml --old old.yaml --from cluster/ -o policies -v"
        ),
        "All of it for a program": "explain -f job.yaml --from cluster/ -o json",
    },
)
@options.filename
@options.directory
@options.policies
@options.old
@options.asked
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show the values of expressions of rules that hold too, not of the others alone.",
)
@options.output(("table", "policies", "yaml", "json"))
@options.trainer_version
@options.profile
def command(  # noqa: PLR0913  # one argument an option
    *,
    filename: str,
    directory: Path,
    policies: tuple[Path, ...],
    asked: Asked,
    old: str | None,
    verbose: bool,
    output: str,
    trainer_version: str | None,
    profile: Path | None,
) -> int:
    """Show who set each value of TrainJobs, and why each policy did what it did.

    First the fields of the TrainJob that admission changes. Then the policies: whether each is about the
    job and if not, which part of its match is not met; what it wrote; each of its rules with its outcome
    and the values of the expressions behind it; which exception let what through, and why others did not.
    Then every value in the resolved pods with the layer that it came from: the user, the runtime, a patch,
    a plugin. ``-o policies`` shows the policies alone. Works on refused TrainJobs too.
    """
    from webhook import offline  # noqa: PLC0415  # the engine, and not for `--help`

    report = Report.on_stderr()
    engine = offline.load(
        read_tree(directory, *policies), line=trainer_version, profile=profile, asked=asked
    )
    documents = read_ours(filename, TRAIN_JOBS, report)
    stored = read_old(old, report)

    def explain(document: Document) -> Explained:
        before = stored.of(document) if stored else None
        return engine.explain(document, before, all_parts=verbose)

    results = []
    for document, explained in report.judge(documents, explain):
        report.findings(explained.outcome.findings, document)
        if not explained.outcome.allowed:
            report.raise_to(REFUSED)
        results.append((document, explained))
    _write(results, output, as_list=len(documents) > 1)
    return report.code


def _write(results: list[tuple[Document, Explained]], output: str, *, as_list: bool) -> None:
    if output in {"table", "policies"}:
        shown = _tables if output == "table" else _policies
        out.write("\n".join(shown(document, explained) for document, explained in results))
    elif results:
        values = [_as_json(document, explained) for document, explained in results]
        out.write_objects(output, values, as_list=as_list)


def _policies(document: Document, explained: Explained) -> str:
    return (
        f"{subject_of(document)}\n\n{why.text(explained.policies, explained.unread) or _NO_POLICY}"
    )


def _tables(document: Document, explained: Explained) -> str:
    def cell(value: Any) -> str:
        return "-" if value is ABSENT else show(value)

    changes = [
        (str(path_of(row.path)), row.by, cell(row.before), cell(row.after))
        for row in explained.outcome.changes
    ]
    layers = [(row.path, show(row.value), f"{row.layer} {row.by}") for row in explained.layers]
    return "\n".join(
        [
            f"{subject_of(document)}\n"
            + table(("FIELD", "CHANGED BY", "BEFORE", "AFTER"), changes),
            *([why.text(explained.policies, explained.unread)] if explained.policies else ()),
            table(("VALUE OF", "VALUE", "FROM"), layers),
        ]
    )


def _as_json(document: Document, explained: Explained) -> dict[str, Any]:
    return {
        "object": subject_of(document),
        "allowed": explained.outcome.allowed,
        "changes": [_change(row) for row in explained.outcome.changes],
        **(
            {"policies": [why.as_json(each) for each in explained.policies]}
            if explained.policies
            else {}
        ),
        **({"unread": why.unread_as_json(explained.unread)} if explained.unread else {}),
        "layers": [
            {"path": row.path, "value": row.value, "layer": row.layer, "by": row.by}
            for row in explained.layers
        ],
    }


def _change(row: Change) -> dict[str, Any]:
    """A change; what was not there before, or is not after, has no key."""
    change: dict[str, Any] = {"path": str(path_of(row.path)), "by": row.by}
    if row.before is not ABSENT:
        change["before"] = row.before
    if row.after is not ABSENT:
        change["after"] = row.after
    return change
