"""``stationmaster render``: what the Trainer would create."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli import options
from webhook.cli import output as out
from webhook.cli.command import Examples
from webhook.cli.inputs import TRAIN_JOBS, read_ours
from webhook.cli.report import REFUSED, Report, subject_of
from webhook.cli.tables import resources, table
from webhook.files import read_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webhook.asked import Asked
    from webhook.offline import Rendered
    from webhook.yamlio import Document


@click.command(
    cls=Examples,
    examples={
        "The JobSet and all else that the Trainer would create": "render -f job.yaml --from cluster/",
        "The same once admission has completed the TrainJob": (
            "render -f job.yaml --from cluster/ --admitted"
        ),
        "How many pods, and what they ask for": "render -f job.yaml --from cluster/ -o table",
        "What Trainer 2.1 makes of it": "render -f job.yaml --from cluster/ --trainer-version 2.1",
    },
)
@options.filename
@options.directory
@options.policies
@click.option("--admitted", is_flag=True, help="Render the TrainJobs as admit would leave them.")
@options.asked
@options.output(("yaml", "json", "table"))
@options.trainer_version
@options.profile
@options.pod_groups
def command(  # noqa: PLR0913  # one argument an option
    *,
    filename: str,
    directory: Path,
    policies: tuple[Path, ...],
    asked: Asked,
    admitted: bool,
    output: str,
    trainer_version: str | None,
    profile: Path | None,
    pod_groups: bool,
) -> int:
    """Show what the Trainer would create for TrainJobs: JobSets, PodGroups, ConfigMaps, Secrets.

    A TrainJob that admission refuses is shown too, as the Trainer would build it, with the findings on
    stderr; nothing is shown where the Trainer itself would fail.
    """
    from webhook import offline  # noqa: PLC0415  # the engine, and not for `--help`

    report = Report.on_stderr()
    engine = offline.load(
        read_tree(directory, *policies),
        line=trainer_version,
        profile=profile,
        pod_groups=pod_groups,
        asked=asked,
    )
    documents = read_ours(filename, TRAIN_JOBS, report)
    results = []
    for document, rendered in report.judge(
        documents, lambda d: engine.render(d, admitted=admitted)
    ):
        report.findings(rendered.findings, document)
        if rendered.objects:
            results.append((document, rendered))
        else:
            report.raise_to(REFUSED)
    _write(results, output)
    return report.code


def _write(results: list[tuple[Document, Rendered]], output: str) -> None:
    if output == "table":
        out.write("\n".join([_table(document, r) for document, r in results if r.pod_sets]))
        return
    objects = [obj for _, rendered in results for obj in rendered.objects]
    if objects or output == "json":
        out.write_objects(output, objects, as_list=True)


def _table(document: Document, rendered: Rendered) -> str:
    columns = ("POD SET", "ANCESTOR", ">COUNT", "REQUESTS PER POD", "TOTAL")
    return f"{subject_of(document)}\n{table(columns, _rows(rendered))}"


def _rows(rendered: Rendered) -> Iterator[tuple[str, ...]]:
    for row in rendered.pod_sets:
        yield (
            row.name,
            row.ancestor or "-",
            str(row.count),
            resources(row.per_pod) or "-",
            resources(row.total) or "-",
        )
    yield "at once", "", str(rendered.members), "", resources(rendered.resources) or "-"
