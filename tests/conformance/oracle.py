"""Asks the Trainer's own code what it would do with TrainJobs.

>>> answers = Oracle("2.3").run([{"id": "a", "trainJob": {...}, "runtime": {...}}])

The programs behind it are in ``oracle/``; what a case and an answer hold is in ``README.md``.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tests.conformance.build import Built, build

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Json: TypeAlias = dict[str, Any]

# A process reads the CRDs and compiles their CEL rules once (0.3 s), so a batch should be worth it,
# and yet small enough that the memory for its output does not matter.
BATCH: Final = 500
BUILDS: Final = 2_000
"""Of a batch whose cases are built more than once."""
LONGEST_SECONDS: Final = 300.0
"""After so long a batch hangs."""


class OracleError(Exception):
    """The oracle itself failed: a bug of it or a case that it cannot read."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """The oracle of one Trainer line; building it, if it must, happens on first use."""

    line: str
    workers: int = field(default=1, kw_only=True)

    def run(self, cases: Iterable[Json]) -> list[Json]:
        """Return one answer per case, in order."""
        return list(self.stream(cases))

    def stream(self, cases: Iterable[Json]) -> Iterator[Json]:
        """Yield one answer per case, in order, batch by batch."""
        built = build(self.line)
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            batches = _batches(cases)
            while group := list(itertools.islice(batches, self.workers * 2)):
                for answers in pool.map(lambda batch: self._ask(built, batch), group):
                    yield from answers

    def shipped_runtimes(self) -> list[Json]:
        """Return the runtimes that the line's Trainer module ships, as written there."""
        built = build(self.line)
        return _parse(self._call(built, ["-runtimes", str(built.runtimes)], ""))

    def version(self) -> Json:
        """Return the line and the versions of the modules that it was built from."""
        return _parse(self._call(build(self.line), ["-version"], ""))[0]

    def _ask(self, built: Built, cases: Sequence[Json]) -> list[Json]:
        text = "".join(json.dumps(case, separators=(",", ":")) + "\n" for case in cases)
        answers = _parse(self._call(built, ["-crds", str(built.crds)], text))
        for case, answer in zip(cases, answers, strict=True):
            if "error" in answer:
                raise OracleError(f"case {case.get('id')!r}: {answer['error']}")
        return answers

    def _call(self, built: Built, flags: Sequence[str], text: str) -> str:
        try:
            done = subprocess.run(
                [str(built.binary), *flags],
                input=text,
                capture_output=True,
                text=True,
                check=False,
                timeout=LONGEST_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise OracleError(f"line {self.line}: no answer in {error.timeout} s") from error
        if done.returncode != 0:
            raise OracleError(
                f"line {self.line}: exit status {done.returncode} after "
                f"{done.stdout.count(chr(10))} answers\n{done.stderr[-4000:]}"
            )
        return done.stdout


def _batches(cases: Iterable[Json]) -> Iterator[list[Json]]:
    batch: list[Json] = []
    for case in cases:
        batch.append(case)
        if len(batch) == BATCH or sum(each.get("tries", 1) for each in batch) >= BUILDS:
            yield batch
            batch = []
    if batch:
        yield batch


def _parse(text: str) -> list[Json]:
    return [json.loads(line) for line in text.splitlines()]
