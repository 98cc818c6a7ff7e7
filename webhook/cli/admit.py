"""``stationmaster admit``: mutate, then validate, as the webhook would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from webhook.cli import options
from webhook.cli import output as out
from webhook.cli.command import Examples
from webhook.cli.inputs import ALL_OURS, read_old, read_ours
from webhook.cli.report import REFUSED, Report
from webhook.files import read_tree

if TYPE_CHECKING:
    from pathlib import Path

    from webhook.asked import Asked
    from webhook.offline import Outcome
    from webhook.yamlio import Document


@click.command(
    cls=Examples,
    examples={
        "The completed TrainJob, or all that is wrong with it": "admit -f job.yaml --from cluster/",
        "Only what would be changed": "admit -f job.yaml --from cluster/ -o diff",
        "What an update of a stored TrainJob would meet": (
            "admit -f new.yaml --old old.yaml --from cluster/"
        ),
        "With a policy that is not in force yet, as somebody else": (
            "admit -f job.yaml --from cluster/ -p new-policy.yaml --user ann@example.com --groups vision"
        ),
        "Whether it still passes once an exception has expired": (
            "admit -f job.yaml --from cluster/ --now 2027-04-01T00:00:00Z"
        ),
        "Answer a recorded AdmissionReview": "admit -f - --from cluster/ -o review < review.json",
        "Create it only if it is admitted": (
            "admit -f job.yaml --from cluster/ > admitted.yaml && kubectl create -f admitted.yaml"
        ),
    },
)
@options.filename
@options.directory
@options.policies
@options.old
@options.asked
@options.output(("yaml", "json", "patch", "diff", "review"))
@options.trainer_version
@options.profile
@options.pod_groups
def command(  # noqa: PLR0913  # one argument an option
    *,
    filename: str,
    directory: Path,
    policies: tuple[Path, ...],
    asked: Asked,
    old: str | None,
    output: str,
    trainer_version: str | None,
    profile: Path | None,
    pod_groups: bool,
) -> int:
    """Show what admission makes of TrainJobs and runtimes, or why they are refused.

    FILE may hold TrainJobs, TrainingRuntimes, ClusterTrainingRuntimes, or AdmissionReviews of them, and,
    with --podgroups, of the PodGroups of TrainJobs that are in DIR.
    They first meet what the API server would do to them (pruning, defaults, types, CEL rules), then
    the plugins and the policies. A refused object is not printed; all that is wrong with it goes to stderr.
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
    documents = read_ours(filename, ALL_OURS, report, any_review=True)
    stored = read_old(old, report)

    def admit(document: Document) -> Outcome:
        return engine.admit(document, stored.of(document) if stored else None)

    outcomes = []
    for document, outcome in report.judge(documents, admit):
        outcomes.append(outcome)
        _tell(outcome, document, report, is_in_review=output == "review")
    _write(outcomes, output, as_list=len(documents) > 1)
    return report.code


def _tell(outcome: Outcome, document: Document, report: Report, *, is_in_review: bool) -> None:
    if not is_in_review:
        report.findings(outcome.findings, document)
    if not outcome.allowed:
        report.raise_to(REFUSED)


def _write(outcomes: list[Outcome], output: str, *, as_list: bool) -> None:
    match output:
        case "patch":
            for outcome in outcomes:
                out.write(out.to_json(outcome.patch if outcome.allowed else []))
        case "diff":
            for outcome in outcomes:
                if outcome.after is not None:
                    out.write_diff(_title(outcome), outcome.before, outcome.after)
        case "review":
            for outcome in outcomes:
                out.write(out.to_json(outcome.review, pretty=True))
        case _:
            admitted: list[Any] = [o.after for o in outcomes if o.allowed and o.after is not None]
            if admitted:
                out.write_objects(output, admitted, as_list=as_list)


def _title(outcome: Outcome) -> str:
    name = f"{outcome.namespace}/{outcome.name}" if outcome.namespace else outcome.name
    return f"{outcome.kind} {name}"
