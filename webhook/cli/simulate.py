"""``stationmaster simulate``: what other policies, or another runtime, would do to the TrainJobs that exist."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from plugins.framework.api.admission import UserInfo
from plugins.framework.errors import StationmasterError
from webhook.cli import options
from webhook.cli import output as out
from webhook.cli.command import Examples
from webhook.cli.inputs import read_policies, read_runtimes
from webhook.cli.report import REFUSED, Report, subject_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from plugins.framework.cluster import Snapshot
    from plugins.framework.lines import Line
    from webhook.simulation.listing import Page
    from webhook.simulation.replacing import Replaced
    from webhook.simulation.simulator import Simulator, Tally
    from webhook.yamlio import Document

MOST: Final = 1000
"""TrainJobs that are shown one by one, unless somebody asks for more."""


@click.command(
    cls=Examples,
    examples={
        "What a changed set of policies does to all TrainJobs of the cluster": (
            "simulate -p policies/ --cluster"
        ),
        "What applying one file would do, with all other policies as they are": (
            "simulate -p gpu-rules.yaml --apply --cluster"
        ),
        "What a new image of a runtime does to stored TrainJobs": (
            "simulate --runtime torch-distributed.yaml --cluster --context staging"
        ),
        "In a pipeline, against a folder: fails where something would be otherwise": (
            "simulate -p policies/ --from cluster/ -o json"
        ),
    },
)
@click.option(
    "-p",
    "--policies",
    metavar="FILE|DIR",
    type=options.PATH,
    multiple=True,
    help="The new policies, exceptions and params. May be given several times.",
)
@click.option(
    "--apply",
    "keeps_others",
    is_flag=True,
    help="Keep policies that NEW does not hold, as kubectl apply does. Without it NEW is the whole set: TrainJobPolicies "
    "that are not in it are gone, and so are NamespacedTrainJobPolicies and PolicyExceptions where it holds any.",
)
@options.path(
    "--runtime",
    "runtimes",
    about="A changed runtime, in the place of the stored one of its name. May be given several times.",
    multiple=True,
)
@options.path(
    "--from",
    "directory",
    what="DIR",
    about="A folder of YAML that stands for the cluster: TrainJobs, runtimes, namespaces, policies.",
)
@click.option(
    "--cluster",
    "is_live",
    is_flag=True,
    help="The cluster of the kubeconfig. It is only read: TrainJobs 100 at a time, at most 5 calls a second.",
)
@options.kubeconfig
@options.context
@click.option(
    "-n", "--namespace", metavar="NAME", default="", help="The TrainJobs of this namespace alone."
)
@options.user("Who creates the TrainJobs, for the subjects of policies.")
@options.groups
@click.option(
    "--most",
    type=click.IntRange(min=0),
    default=MOST,
    show_default=True,
    metavar="N",
    help="How many TrainJobs to show one by one; all are counted.",
)
@options.output(("table", "json"))
@options.trainer_version
@options.profile
def command(  # noqa: PLR0913  # one argument an option
    *,
    policies: tuple[Path, ...],
    keeps_others: bool,
    runtimes: tuple[Path, ...],
    directory: Path | None,
    is_live: bool,
    kubeconfig: str,
    context: str | None,
    namespace: str,
    user: str,
    groups: tuple[str, ...],
    most: int,
    output: str,
    trainer_version: str | None,
    profile: Path | None,
) -> int:
    """Show what would change for all TrainJobs that exist, if these policies or runtimes were in place.

    Each TrainJob is judged twice, by what is there now and by what would be, and only what differs is
    shown, by namespace and policy. Two questions are asked. IF CREATED AGAIN: what happens to whoever
    creates the same TrainJob anew, as a nightly pipeline does. WITH ITS NEXT CHANGE: what happens to the
    TrainJob that exists. A stricter rule never blocks that; labels that policies set may change.

    Nothing is written, neither to the cluster nor to a file. Who created a stored TrainJob is known only
    as far as its own record says it; --user and --groups say it of all of them.

    Exit codes: 0 nothing would change, 1 something would, 2 something could not be read or judged.
    """
    if (directory is None) == (not is_live):
        raise click.UsageError("one of --from DIR and --cluster is needed")
    if not policies and not runtimes:
        raise click.UsageError("nothing to try: -p FILE|DIR or --runtime FILE is needed")
    report = Report.on_stderr()
    change = _Change(policies, keeps_others, runtimes, trainer_version, profile)
    who = UserInfo(username=user, groups=groups) if user or groups else None
    with _source(directory, Path(kubeconfig).expanduser(), context, namespace) as source:
        prepared = change.prepare(source.snapshot, report)
        if report.code:
            return report.code
        from webhook.cli.progress import progress  # noqa: PLC0415
        from webhook.simulation.simulator import Tally  # noqa: PLC0415

        simulator = prepared.simulator(who)
        if who is None:
            _tell_unknown(prepared.asks_who, report)
        tally, done = Tally(most), 0
        with progress() as step:
            for page in source.pages:
                of = None if page.left is None else done + len(page.items) + page.left
                for raw in page.items:
                    _judge(simulator, raw, tally, report)
                    done += 1
                    step(done, of)
    from webhook.cli import simulated  # noqa: PLC0415

    if output == "json":
        out.write_json(
            [simulated.as_json(tally, prepared.policies, prepared.runtimes)], as_list=False
        )
    else:
        out.write(
            simulated.text(
                tally, prepared.policies, prepared.runtimes, keeps_pods=prepared.keeps_pods
            )
        )
    if not tally.is_empty:
        report.raise_to(REFUSED)
    return report.code


def _judge(simulator: Simulator, raw: dict[str, Any], tally: Tally, report: Report) -> None:
    from webhook.files import title_of  # noqa: PLC0415

    try:
        tally.add(simulator.judge(raw))
    except StationmasterError as error:
        report.failure(f"cannot be judged: {error}", title_of({**raw, "kind": "TrainJob"}))


def _tell_unknown(asks_who: Sequence[str], report: Report) -> None:
    for title in asks_who:
        report.warning(
            "asks who created a TrainJob, and what is stored says that only of policies that were there at the "
            "time: it is taken to be about none of them; --user and --groups say who it was",
            title,
        )


# The change


@dataclass(frozen=True, slots=True)
class _Prepared:
    now: Snapshot
    then: Snapshot
    line: Line | None
    profile: Path | None
    policies: Replaced
    runtimes: Replaced
    keys: frozenset[tuple[str, str, str]]
    """Of the runtimes."""
    asks_who: list[str]

    @property
    def keeps_pods(self) -> bool | None:
        """Whether TrainJobs keep the runtime that they were created with; None where no runtime changes."""
        from plugins.framework import lines  # noqa: PLC0415

        if not self.keys:
            return None
        return (self.line or self.now.crd_line or lines.NEWEST).snapshot

    def simulator(self, who: Any) -> Simulator:
        from webhook.simulation.simulator import Simulator  # noqa: PLC0415

        return Simulator(
            self.now,
            self.then,
            line=self.line,
            profile=self.profile,
            runtimes=self.keys,
            creator=who,
        )


@dataclass(frozen=True, slots=True)
class _Change:
    """What is tried."""

    policies: tuple[Path, ...]
    keeps_others: bool
    runtimes: tuple[Path, ...]
    trainer_version: str | None
    profile: Path | None

    def prepare(self, now: Snapshot, report: Report) -> _Prepared:
        """The cluster as it would be; what is wrong with the new documents is reported as failures."""
        from plugins.framework import lines  # noqa: PLC0415
        from webhook.simulation import replacing  # noqa: PLC0415

        line = lines.named(self.trainer_version)
        then, policies, runtimes = now, replacing.Replaced(), replacing.Replaced()
        documents = read_policies(self.policies)
        if self.policies:
            if not documents:
                _tell_nothing(report, self.policies, keeps_others=self.keeps_others)
            new = [document.obj for document in documents]
            then, policies = replacing.replace_policies(now, new, keeps_others=self.keeps_others)
            for place, error in replacing.problems(then, new):
                _tell_problem(report, documents[place], error)
        asks_who = replacing.who_created(then, now)
        keys = set()
        for document in read_runtimes(self.runtimes):
            for_line = line or now.crd_line or lines.NEWEST
            then, errors = replacing.replace_runtime(then, document.obj, for_line)
            for error in errors:
                _tell_problem(report, document, error)
            key = replacing.runtime_key(document.obj)
            if not errors:
                runtimes.add(key, now.runtime(*key, for_line), then.runtime(*key, for_line))
            keys.add(key)
        return _Prepared(
            now, then, line, self.profile, policies, runtimes, frozenset(keys), asks_who
        )


def _tell_nothing(report: Report, paths: Sequence[Path], *, keeps_others: bool) -> None:
    where = f"no policies in {', '.join(map(str, paths))}"
    if keeps_others:
        report.failure(f"{where}: there is nothing to apply")
    else:
        report.warning(f"{where}: this is what it would be like without any TrainJobPolicy")


def _tell_problem(report: Report, document: Document, error: Any) -> None:
    line = document.line_of(error.field)
    report.failure(f"{error} ({document.source}:{line})", subject_of(document))


# Where TrainJobs come from


@dataclass(frozen=True, slots=True)
class _Source:
    snapshot: Snapshot
    pages: Iterable[Page]


@contextmanager
def _source(
    directory: Path | None, kubeconfig: Path, context: str | None, namespace: str
) -> Iterator[_Source]:
    if directory is not None:
        yield _of_folder(directory, namespace)
        return
    with asyncio.Runner() as runner:
        yield from _of_cluster(runner, kubeconfig, context, namespace)


def _of_folder(directory: Path, namespace: str) -> _Source:
    from plugins.framework import values  # noqa: PLC0415
    from plugins.framework.api import names  # noqa: PLC0415
    from webhook import offline  # noqa: PLC0415
    from webhook.files import kind_of, read_tree  # noqa: PLC0415
    from webhook.simulation.listing import PAGE, Page  # noqa: PLC0415

    documents = read_tree(directory)
    jobs = [
        d.obj
        for d in documents
        if kind_of(d.obj) == names.TRAIN_JOB
        and namespace
        in {"", values.text(values.at(d.obj, "metadata", "namespace")) or names.DEFAULT_NAMESPACE}
    ]
    pages = (
        Page(jobs[at : at + PAGE], max(len(jobs) - at - PAGE, 0))
        for at in range(0, len(jobs), PAGE)
    )
    return _Source(offline.snapshot_of(documents), pages)


def _of_cluster(
    runner: asyncio.Runner, kubeconfig: Path, context: str | None, namespace: str
) -> Iterator[_Source]:
    from webhook.cli.progress import say  # noqa: PLC0415
    from webhook.kube import client  # noqa: PLC0415
    from webhook.simulation import listing, live  # noqa: PLC0415

    api = client.Client(client.kubeconfig(kubeconfig, context))
    try:
        runner.run(api.connect())
        lists = listing.Lists(api=api, clock=time.monotonic, sleep=asyncio.sleep)
        snapshot = runner.run(live.surroundings(lists, say))
        yield _Source(snapshot, live.in_turn(runner, live.train_jobs(lists, namespace)))
    finally:
        runner.run(api.close())
