"""``stationmaster explain``: who set which value, and what was there before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from plugins.framework.draft import ABSENT
from plugins.framework.field import path_of, show
from webhook.cli import options
from webhook.cli import output as out
from webhook.cli.command import Examples
from webhook.cli.inputs import TRAIN_JOBS, read_ours
from webhook.cli.report import REFUSED, Report, subject_of
from webhook.cli.tables import table
from webhook.files import read_tree

if TYPE_CHECKING:
    from pathlib import Path

    from plugins.framework.draft import Change
    from webhook.asked import Asked
    from webhook.offline import Explained
    from webhook.yamlio import Document


@click.command(
    cls=Examples,
    examples={
        "Who changed which field, and where each value of the pods comes from": (
            "explain -f job.yaml --from cluster/"
        ),
        "Why an environment variable has its value": (
            "explain -f job.yaml --from cluster/ | grep PET_NNODES"
        ),
        "The same for a program": "explain -f job.yaml --from cluster/ -o json",
    },
)
@options.filename
@options.directory
@options.policies
@options.asked
@options.output(("table", "yaml", "json"))
@options.trainer_version
@options.profile
def command(  # noqa: PLR0913  # one argument an option
    *,
    filename: str,
    directory: Path,
    policies: tuple[Path, ...],
    asked: Asked,
    output: str,
    trainer_version: str | None,
    profile: Path | None,
) -> int:
    """Show who set each value of TrainJobs: the user, the runtime, a patch, a plugin.

    First the fields of the TrainJob that admission changes, then every value in the resolved pods with
    the layer that it came from. Works on refused TrainJobs too.
    """
    from webhook import offline  # noqa: PLC0415  # the engine, and not for `--help`

    report = Report.on_stderr()
    engine = offline.load(
        read_tree(directory, *policies), line=trainer_version, profile=profile, asked=asked
    )
    documents = read_ours(filename, TRAIN_JOBS, report)
    results = []
    for document, explained in report.judge(documents, lambda d: engine.explain(d, None)):
        report.findings(explained.outcome.findings, document)
        if not explained.outcome.allowed:
            report.raise_to(REFUSED)
        results.append((document, explained))
    _write(results, output, as_list=len(documents) > 1)
    return report.code


def _write(results: list[tuple[Document, Explained]], output: str, *, as_list: bool) -> None:
    if output == "table":
        out.write("\n".join(_tables(document, explained) for document, explained in results))
    elif results:
        values = [_as_json(document, explained) for document, explained in results]
        out.write_objects(output, values, as_list=as_list)


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
            table(("VALUE OF", "VALUE", "FROM"), layers),
        ]
    )


def _as_json(document: Document, explained: Explained) -> dict[str, Any]:
    return {
        "object": subject_of(document),
        "allowed": explained.outcome.allowed,
        "changes": [_change(row) for row in explained.outcome.changes],
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
