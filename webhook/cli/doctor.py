"""``stationmaster doctor``: whether an installation works, and what to do where it does not."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from plugins.framework.field import escape
from webhook.cli import options
from webhook.cli import output as out
from webhook.cli.command import Examples
from webhook.cli.report import FINE, REFUSED, UNUSABLE, wants_colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.doctor.facts import Facts
    from webhook.doctor.finding import Finding

_COLOURS: Final = {"ok": "32", "warn": "33", "fail": "1;31"}


@click.command(
    cls=Examples,
    examples={
        "The cluster of the current context": "doctor",
        "Another one": "doctor --kubeconfig ~/.kube/staging --context admin",
        "For a script": "doctor -o json",
        "Where TrainJobs may be made in one namespace only": "doctor --try-in team-vision",
    },
)
@options.kubeconfig
@options.context
@click.option(
    "--namespace",
    metavar="NAME",
    help="Where Stationmaster is installed; else what its registration names.",
)
@click.option(
    "--try-in",
    metavar="NAMESPACE",
    default="default",
    show_default=True,
    help="Where to try a TrainJob, as a dry run, to see whether we are asked.",
)
@options.output(("text", "json"))
def command(
    *, kubeconfig: str, context: str | None, namespace: str | None, try_in: str, output: str
) -> int:
    """Check an installation, one line a check, and say what to do.

    It reads, reviews access, and creates a TrainJob as a dry run: nothing is changed. What you may not
    read is a warning that says which right is missing. Use the doctor of the version that is installed.

    Exit codes: 0 nothing failed, 1 something did, 2 the cluster or the registration cannot be read.
    """
    from webhook.doctor.checks import examine  # noqa: PLC0415  # not for `--help`
    from webhook.doctor.facts import Unread  # noqa: PLC0415

    facts = asyncio.run(_read(Path(kubeconfig).expanduser(), context, namespace, try_in))
    found = examine(facts)
    if output == "json":
        checks = [
            {"check": f.check, "level": f.level, "message": f.message, "remedy": f.remedy}
            for f in found
        ]
        out.write_json([{"namespace": facts.namespace, "checks": checks}], as_list=False)
    else:
        out.write(text(found))
    if any(finding.level == "fail" for finding in found):
        return REFUSED
    return UNUSABLE if isinstance(facts.mutating, Unread) else FINE


async def _read(file: Path, context: str | None, namespace: str | None, try_in: str) -> Facts:
    from webhook.doctor import reading  # noqa: PLC0415
    from webhook.kube import client  # noqa: PLC0415

    api = client.Client(client.kubeconfig(file, context))
    try:
        await api.connect()
        return await reading.read(
            api, now=lambda: datetime.now(UTC), namespace=namespace, try_in=try_in
        )
    finally:
        await api.close()


def text(found: Sequence[Finding]) -> str:
    """A line a finding, what to do below it, and how many there were."""
    is_coloured = wants_colour(sys.stdout)
    width = max(len(finding.check) for finding in found)
    lines = []
    for finding in found:
        level = f"{finding.level:4}"
        if is_coloured:
            level = f"\x1b[{_COLOURS[finding.level]}m{level}\x1b[0m"
        lines.append(f"{level}  {finding.check:{width}}  {escape(finding.message)}\n")
        if finding.remedy:
            lines.append(f"{'':4}  {'':{width}}  -> {escape(finding.remedy)}\n")
    return "".join([*lines, _summary(found)])


def _summary(found: Sequence[Finding]) -> str:
    failed, warned = (sum(f.level == level for f in found) for level in ("fail", "warn"))
    if not failed and not warned:
        return "all is well\n"
    return f"{failed} failed, {warned} to look at\n"
