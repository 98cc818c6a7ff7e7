"""Results as JUnit XML, as far as CI servers agree on it: suites, cases, failures, errors, seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape as quoted
from xml.sax.saxutils import quoteattr

from plugins.framework.field import escape

if TYPE_CHECKING:
    from webhook.suites.running import Ran, SuiteRan


def report(suites: Iterable[SuiteRan], problems: Iterable[str]) -> str:
    """One document; what could not be run is an error of its own."""
    suites, problems = list(suites), list(problems)
    ran = [case for suite in suites for case in suite.ran]
    broken = len(problems) + sum(len(suite.problems) for suite in suites)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={_attr('stationmaster test')} {_counts(ran, broken)}>",
    ]
    for suite in suites:
        name = str(suite.suite.source)
        lines.append(f"  <testsuite name={_attr(name)} {_counts(suite.ran, len(suite.problems))}>")
        for case in suite.ran:
            lines += _case(name, case)
        lines += [line for problem in suite.problems for line in _broken(name, problem)]
        lines.append("  </testsuite>")
    if problems:
        lines.append(f'  <testsuite name="reading" {_counts([], len(problems))}>')
        lines += [line for problem in problems for line in _broken("reading", problem)]
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _counts(ran: list[Ran], broken: int) -> str:
    errors = sum(bool(case.error) for case in ran) + broken
    failures = sum(bool(case.missed) for case in ran)
    seconds = sum(case.seconds for case in ran)
    return (
        f'tests="{len(ran) + broken}" failures="{failures}" errors="{errors}" time="{seconds:.3f}"'
    )


def _case(source: str, ran: Ran) -> list[str]:
    head = (
        f"    <testcase classname={_attr(source)} name={_attr(ran.case.name)} file={_attr(source)} "
        f'line="{ran.case.line}" time="{ran.seconds:.3f}"'
    )
    if ran.is_ok:
        return [f"{head}/>"]
    if ran.error:
        inner = f"      <error message={_attr(ran.error)}/>"
    else:
        texts = [f"wanted {m.wanted}\ncame   " + "\n       ".join(m.came) for m in ran.missed]
        first = f"wanted {ran.missed[0].wanted}"
        inner = f"      <failure message={_attr(first)}>{_text(chr(10).join(texts))}</failure>"
    return [f"{head}>", inner, "    </testcase>"]


def _broken(source: str, problem: str) -> list[str]:
    return [
        f"    <testcase classname={_attr(source)} name={_attr(problem)}>",
        f"      <error message={_attr(problem)}/>",
        "    </testcase>",
    ]


def _attr(text: str) -> str:
    """XML has no control characters at all, not even escaped."""
    return quoteattr(escape(text))


def _text(text: str) -> str:
    return quoted("\n".join(map(escape, text.split("\n"))))
