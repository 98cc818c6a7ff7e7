"""``stationmaster test``: run the tests of policies."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import click

from plugins.framework.errors import ConfigError
from plugins.framework.field import escape
from webhook.cli import options
from webhook.cli import output as out
from webhook.cli.command import Examples
from webhook.cli.report import FINE, REFUSED, UNUSABLE, Report, wants_colour
from webhook.cli.tables import table
from webhook.files import signature

if TYPE_CHECKING:
    from webhook.files import Signature
    from webhook.suites.coverage import Coverage
    from webhook.suites.document import Case, Suite
    from webhook.suites.running import Ran, SuiteRan

POLL_SECONDS: Final = 0.5
_T = TypeVar("_T")
States: TypeAlias = "dict[Path, Signature | str]"
_COLOURS: Final = {"ok": "32", "FAILED": "1;31", "ERROR": "1;31"}


@click.command(
    cls=Examples,
    examples={
        "All tests of a folder": "test policies/",
        "Those that have to do with GPUs": "test policies/ -k gpu",
        "Which rules no case makes hold, or break": "test policies/ --coverage",
        "Again whenever a file changes": "test policies/ --watch",
        "For CI": "test policies/ --junit results.xml --coverage-min 100",
    },
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=options.PATH)
@click.option(
    "-k",
    "word",
    metavar="WORD",
    default="",
    help="Only the cases with this in their file or name.",
)
@options.path("--junit", about="Write the results as JUnit XML, too.")
@click.option("--coverage", is_flag=True, help="Show which rules no case makes hold, or break.")
@click.option(
    "--coverage-min",
    type=click.IntRange(0, 100),
    metavar="PERCENT",
    help="Fail where fewer of the rules are both held and broken by cases; implies --coverage.",
)
@click.option("--watch", is_flag=True, help="Run again whenever a file changes; Ctrl-C ends.")
@options.profile
def command(  # noqa: PLR0913  # one argument an option
    *,
    paths: tuple[Path, ...],
    word: str,
    junit: Path | None,
    coverage: bool,
    coverage_min: int | None,
    watch: bool,
    profile: Path | None,
) -> int:
    """Run the tests of policies: the files named *_test.yaml in each PATH.

    A test names a TrainJob, the policies and the folder that stands for the cluster, and says what must
    come of it: allowed, refused with which text, warned of what, patched to which values. The format is in
    docs/policies/testing.md; the shortest test there is:

    \b
      apiVersion: stationmaster.dev/v1alpha1
      kind: PolicyTest
      from: [../cluster]
      policies: [my-policy.yaml]
      cases:
      - name: a job without a team is refused
        trainJob: {spec: {runtimeRef: {name: torch-distributed}}}
        want: {refused: ["[my-policy/team]"]}

    Exit codes: 0 all came as wanted, 1 something did not, 2 something could not be run.
    """  # noqa: D301  # the character by which click leaves a paragraph as it is
    session = _Session(paths, word, junit, coverage, coverage_min, profile)
    if not watch:
        return session.run()[0]
    return follow(session.run, session.look, time.sleep)


def follow(
    run: Callable[[], tuple[int, _T]], look: Callable[[], _T], sleep: Callable[[float], None]
) -> int:
    """Run, and again whenever what ``look`` sees has changed and settled; the last code, at Ctrl-C.

    ``run`` gives its code, and what ``look`` would have seen before it read.
    """
    code = FINE
    try:
        code, seen = run()
        while True:
            sleep(POLL_SECONDS)
            now = look()
            if now == seen:
                continue
            while now != seen:  # editors write piece by piece
                seen = now
                sleep(POLL_SECONDS)
                now = look()
            out.write("\n")
            code, seen = run()
    except KeyboardInterrupt:
        out.write("\n")
    return code


class _Session:
    """The same run, again and again."""

    def __init__(  # what the command line says
        self,
        paths: tuple[Path, ...],
        word: str,
        junit: Path | None,
        coverage: bool,  # noqa: FBT001  # a flag of the command line
        coverage_min: int | None,
        profile: Path | None,
    ) -> None:
        self._paths = paths
        self._word = word.lower()
        self._junit = junit
        self._coverage = coverage or coverage_min is not None
        self._coverage_min = coverage_min
        self._profile = profile
        self._followed: tuple[Path, ...] = paths

    def look(self) -> States:
        """The state of every file that counts; one that cannot be read has a state, too."""
        return {path: _state(path) for path in self._followed}

    def run(self) -> tuple[int, States]:
        """Run once; with the state of what was read, as it was before that."""
        from webhook.suites import coverage, junit, reading, running  # noqa: PLC0415  # not for `--help`

        report = Report.on_stderr()
        self._followed = self._paths
        before = self.look()
        found = reading.read_all(self._paths)
        for problem in found.problems:
            report.failure(problem)
        self._follow(found.suites)
        seen = {**self.look(), **before}
        chosen = {id(suite): self._chosen(suite) for suite in found.suites}
        ran = [
            running.run(suite, chosen[id(suite)], self._profile, time.perf_counter)
            for suite in found.suites
            if chosen[id(suite)]
        ]
        for suite in ran:
            _show(suite, report)
        if not ran and not found.problems:
            report.failure(
                f"no case has {self._word!r} in its file or name"
                if found.suites
                else f"no file named *_test.yaml in {', '.join(map(str, self._paths))}"
            )
        measured = coverage.measure(ran) if self._coverage else None
        _summarize(ran, measured)
        self._judge(ran, measured, report)
        if self._junit is not None:
            text = junit.report(ran, found.problems)
            try:
                self._junit.write_text(text, encoding="utf-8")
            except OSError as error:
                report.failure(f"{self._junit}: {error.strerror}")
        out.flush()
        return report.code, seen

    def _chosen(self, suite: Suite) -> list[Case]:
        word = self._word
        return [c for c in suite.cases if word in f"{suite.source} {c.name}".lower()]

    def _follow(self, suites: Iterable[Suite]) -> None:
        """Beside what was named: what the tests name, and the files of their jobs, which lie beside them."""
        paths = dict.fromkeys(self._paths)
        for suite in suites:
            paths |= dict.fromkeys((suite.source.parent, *suite.cluster, *suite.policies))
        self._followed = tuple(paths)

    def _judge(self, ran: list[SuiteRan], measured: Coverage | None, report: Report) -> None:
        if any(case.error for suite in ran for case in suite.ran):
            report.raise_to(UNUSABLE)
        if any(case.missed for suite in ran for case in suite.ran):
            report.raise_to(REFUSED)
        least = self._coverage_min
        if measured is None or not least or not ran:
            return
        if not measured.rules:
            report.refusal(f"no rule is under test, and --coverage-min wants {least} % of them")
        elif measured.percent < least:
            report.refusal(
                f"{measured.percent} % of the rules go both ways in the cases, and --coverage-min wants {least} %"
            )


def _state(path: Path) -> Signature | str:
    try:
        return signature(path)
    except ConfigError as error:
        return str(error)


def _show(suite: SuiteRan, report: Report) -> None:
    out.write(f"{suite.suite.source}\n")
    for problem in suite.problems:
        report.failure(problem)
    for ran in suite.ran:
        word = "ERROR" if ran.error else "ok" if ran.is_ok else "FAILED"
        where = "" if ran.is_ok else f" ({suite.suite.source}:{ran.case.line})"
        out.write(f"  {_coloured(word)}{' ' * (8 - len(word))}{escape(ran.case.name)}{where}\n")
        for line in _details(ran):
            out.write(f"            {line}\n")


def _details(ran: Ran) -> Iterable[str]:
    if ran.error:
        yield from ran.error.splitlines()
    for missed in ran.missed:
        yield f"wanted {missed.wanted}"
        first, *rest = missed.came
        yield f"came   {first}"
        yield from (f"       {line}" for line in rest)


def _coloured(word: str) -> str:
    return f"\x1b[{_COLOURS[word]}m{word}\x1b[0m" if wants_colour(sys.stdout) else word


def _summarize(suites: list[SuiteRan], measured: Coverage | None) -> None:
    ran = [case for suite in suites for case in suite.ran]
    if measured is not None and measured.rules:
        rows = [
            (str(rule.key), rule.name, *rule.cells)
            for rule in sorted(measured.rules.values(), key=lambda r: r.key)
        ]
        out.write("\n" + table(("POLICY", "RULE", "CASES", "MISSING"), rows) + "\n")
        covered = sum(rule.is_covered for rule in measured.rules.values())
        out.write(
            f"{covered} of {len(measured.rules)} rules go both ways in the cases ({measured.percent} %)\n"
        )
    elif measured is not None and ran:
        out.write("\nno rule is under test\n")
    if ran:
        failed, broken = sum(bool(r.missed) for r in ran), sum(bool(r.error) for r in ran)
        parts = [f"{len(ran) - failed - broken} ok"]
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{broken} could not be judged"] if broken else []
        noun = "case" if len(ran) == 1 else "cases"
        out.write(f"{len(ran)} {noun}: {', '.join(parts)}\n")
