"""``stationmaster convert``: pod overrides in the words of another line of the Trainer."""

from __future__ import annotations

from typing import Any

import click

from webhook.cli import options
from webhook.cli import output as out
from webhook.cli.command import Examples
from webhook.cli.inputs import ALL_OURS, read_ours, reviewed
from webhook.cli.report import Report


@click.command(
    cls=Examples,
    examples={
        "A TrainJob of Trainer 2.0 for a cluster of today": "convert -f job.yaml --to 2.3",
        "All TrainJobs of a cluster": "convert -f - --to 2.3 -o json < trainjobs.json",
    },
)
@options.filename
@click.option(
    "--to", "target", type=click.Choice(options.LINES), required=True, help="The line to write for."
)
@options.output(("yaml", "json"))
@click.option(
    "--trainer-version",
    type=click.Choice(options.LINES),
    help="Taken for the sake of scripts: the job's own fields say which line it was written for.",
)
def command(*, filename: str, target: str, output: str, trainer_version: str | None) -> int:
    """Say the pod overrides of TrainJobs, and the policies of runtimes, in another Trainer version.

    podSpecOverrides (2.0), podTemplateOverrides (2.1) and runtimePatches (2.2 and later) are turned
    into one another; unknown fields are kept. What the other version cannot say is an error that names
    the path, and nothing is printed for that object.
    """
    from webhook import offline  # noqa: PLC0415  # the engine, and not for `--help`

    del trainer_version
    report = Report.on_stderr()
    documents = read_ours(filename, ALL_OURS, report)
    objects: list[Any] = []
    for document, converted in report.judge(
        documents, lambda d: offline.convert(reviewed(d), target)
    ):
        report.findings(converted.findings, document)
        if not converted.findings.errors:
            objects.append(converted.obj)
    if objects:
        out.write_objects(output, objects, as_list=len(documents) > 1)
    return report.code
