"""Cases to what was wanted and what came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.cluster import document_key
from plugins.framework.draft import ABSENT
from plugins.framework.errors import StationmasterError
from plugins.framework.field import escape, show
from policies.document import Key
from webhook import offline
from webhook.files import kind_of, read_tree
from webhook.suites import places
from webhook.yamlio import Document

if TYPE_CHECKING:
    from policies.compile import CompiledPolicy
    from webhook.offline import Offline, Outcome
    from webhook.suites.document import Case, Suite, Want

MOST_SHOWN = 10
"""Errors or warnings of a job that are shown where another one was wanted."""


@dataclass(frozen=True, slots=True)
class Missed:
    """One thing that was wanted, and what came instead, a line each."""

    wanted: str
    came: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Ran:
    """One case, run."""

    case: Case
    missed: list[Missed] = field(default_factory=list)
    error: str = ""
    """Why it could not be judged."""
    held: dict[tuple[Key, str], set[bool]] = field(default_factory=dict)
    """Limits and validations that were judged: whether the job keeps them."""
    fired: set[tuple[Key, str]] = field(default_factory=set)
    """Options that wrote."""
    seconds: float = 0.0

    @property
    def is_ok(self) -> bool:
        """Whether all came as it was wanted."""
        return not self.missed and not self.error


@dataclass(slots=True, kw_only=True)
class SuiteRan:
    """One PolicyTest, run."""

    suite: Suite
    ran: list[Ran] = field(default_factory=list)
    policies: tuple[CompiledPolicy, ...] = ()
    """Those under test."""
    problems: list[str] = field(default_factory=list)
    """Why it could not be run: a folder that cannot be read, a policy that is not sound."""


def run(
    suite: Suite, chosen: Iterable[Case], profile: Path | None, clock: Callable[[], float]
) -> SuiteRan:
    """Run the chosen cases of a suite; ``clock`` gives seconds."""
    out = SuiteRan(suite=suite)
    try:
        documents = read_tree(*suite.cluster, *suite.policies)
        tested = _tested(suite, documents)
        documents += [Document(obj=obj, source=str(suite.source), line=1) for obj in suite.objects]
        engines = _Engines(documents, profile)
        engine = engines.of(None)
    except StationmasterError as error:
        out.problems += str(error).splitlines()
        return out
    out.problems += _unsound(engine, documents, tested)
    if out.problems:
        return out
    out.policies = tuple(c for c in engine.policies.policies if c.key in tested)
    for case in chosen:
        began = clock()
        ran = _run(case, engines)
        ran.seconds = clock() - began
        out.ran.append(ran)
    return out


class _Engines:
    """One engine for each line that cases ask for."""

    def __init__(self, documents: list[Document], profile: Path | None) -> None:
        self._documents = documents
        self._profile = profile
        self._known: dict[str | None, Offline] = {}

    def of(self, line: str | None) -> Offline:
        if line not in self._known:
            self._known[line] = offline.load(self._documents, line=line, profile=self._profile)
        return self._known[line]


def _tested(suite: Suite, documents: list[Document]) -> set[Key]:
    """The keys of the policies under test, and of their exceptions."""
    named = read_tree(*suite.policies) if suite.policies else documents
    return {Key(*document_key(d.obj)) for d in named if kind_of(d.obj) in names.POLICY_DOCUMENTS}


def _unsound(engine: Offline, documents: list[Document], tested: set[Key]) -> Iterator[str]:
    where = {document_key(d.obj): d for d in documents if kind_of(d.obj) in names.POLICY_DOCUMENTS}
    for key, found in engine.policies.problems():
        if Key(*key) in tested:
            place = where[key].where if key in where else ""
            first, *others = found
            more = f" (and {len(others)} more)" if others else ""
            yield f"{place}: {key[0]} {Key(*key)} is not sound: {first}{more}; `stationmaster lint` says all"


def _run(case: Case, engines: _Engines) -> Ran:
    ran = Ran(case=case)
    place = f"case {case.name}"
    try:
        outcome, traces = engines.of(case.trainer_version).trace(
            Document(obj=values.copy(case.job), source=place, line=case.line),
            None
            if case.old is None
            else Document(obj=values.copy(case.old), source=place, line=case.line),
            asked=case.asked,
        )
    except StationmasterError as error:
        ran.error = str(error)
        return ran
    ran.missed += _misses(case.want, outcome)
    for trace in traces:
        for rule, holds in trace.held.items():
            ran.held.setdefault(rule, set()).add(holds)
        ran.fired |= trace.fired()
    return ran


def _misses(want: Want, outcome: Outcome) -> Iterator[Missed]:
    errors = [escape(str(error)) for error in outcome.findings.errors]
    warnings = [escape(warning) for warning in outcome.findings.warnings]
    if want.is_refusal is False and not outcome.allowed:
        yield Missed("the job to be allowed", _some("it was refused", errors))
        return
    if want.is_refusal and outcome.allowed:
        yield Missed(_refusal(want), _some("it was allowed", warnings))
    elif want.is_refusal:
        yield from _errors(want, errors)
    yield from _warnings(want, warnings)
    if outcome.allowed:
        for path, value in want.patched.items():
            yield from _value(path, value, outcome.after, path)
        for path in want.absent:
            there = places.value_at(outcome.after, path)
            if there is not ABSENT:
                yield Missed(f"nothing at {path}", (show(there),))
        yield from _pods(want, outcome)
    yield from _audit(want, outcome)


def _refusal(want: Want) -> str:
    texts = (*(want.refused or ()), *(want.refused_only or ()))
    return f"a refusal with {', '.join(map(show, texts))}" if texts else "the job to be refused"


def _some(head: str, lines: list[str]) -> tuple[str, ...]:
    """A line, and below it the first of many."""
    more = len(lines) - MOST_SHOWN
    also = (f"and {more} more",) if more > 0 else ()
    return (f"{head}:" if lines else head, *(f"- {line}" for line in lines[:MOST_SHOWN]), *also)


def _errors(want: Want, errors: list[str]) -> Iterator[Missed]:
    for text in (*(want.refused or ()), *(want.refused_only or ())):
        if not any(text in error for error in errors):
            yield Missed(f"an error with {show(text)}", _some("it was refused with", errors))
    if want.refused_only is not None:
        known = want.refused_only
        others = [error for error in errors if not any(text in error for text in known)]
        if others:
            texts = ", ".join(map(show, known))
            yield Missed(f"no error but those with {texts}", _some("there were also", others))


def _warnings(want: Want, warnings: list[str]) -> Iterator[Missed]:
    if want.warned == () and warnings:
        yield Missed("no warning", _some("it was warned of", warnings))
    for text in want.warned or ():
        if not any(text in warning for warning in warnings):
            came = _some("the warnings were", warnings) if warnings else ("there was no warning",)
            yield Missed(f"a warning with {show(text)}", came)


def _value(path: str, wanted: Any, obj: Any, label: str) -> Iterator[Missed]:
    there = places.value_at(obj, path)
    if there is ABSENT or not values.same(there, wanted):
        came = "nothing is there" if there is ABSENT else show(there)
        yield Missed(f"{label} to be {show(wanted)}", (came,))


def _pods(want: Want, outcome: Outcome) -> Iterator[Missed]:
    if not want.pods:
        return
    info = next((call.info for call in reversed(outcome.calls) if call.info is not None), None)
    if info is None:
        yield Missed("pods", ("the runtime of the job does not exist, so it has none",))
        return
    for name, wanted in want.pods.items():
        pod_set = info.by_name(name)
        if pod_set is None:
            there = ", ".join(one.name for one in info.pod_sets)
            yield Missed(f"pods of {name}", (f"the job's pod sets are {there}",))
            continue
        template = {"metadata": pod_set.metadata, "spec": pod_set.spec}
        for path, value in wanted.items():
            yield from _value(path, value, template, f"{path} of the pods of {name}")


def _audit(want: Want, outcome: Outcome) -> Iterator[Missed]:
    found: dict[str, str] = {}
    for call in outcome.calls:
        found |= call.audit
    for key, text in want.audit.items():
        if key not in found:
            there = ", ".join(sorted(found)) or "none"
            yield Missed(f"an audit annotation {key}", (f"there are: {there}",))
        elif text not in found[key]:
            yield Missed(f"the audit annotation {key} with {show(text)}", (show(found[key]),))
