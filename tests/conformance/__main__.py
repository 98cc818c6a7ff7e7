"""``make conformance``: our prediction against the Trainer's own code, over generated cases of each line.

Exit 0 if nothing differs but what the ledger names, if what a row says is refused later is refused, and if a run
that is large enough exercised everything. The seed is printed, and can be given again.
"""

from __future__ import annotations

import argparse
import itertools
import secrets
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.conformance import compare, judge, later
from tests.conformance.build import LINES, build, build_later
from tests.conformance.generate import cases
from tests.conformance.oracle import Oracle
from tests.conformance.tags import possible
from tests.conformance.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from plugins.framework.pipeline import Pipeline

Json = dict[str, Any]

BATCH: Final = 500
FULL: Final = 10_000
"""Cases per line that a proof needs; so many also meet every tag."""
QUICK: Final = 1_000
TRIES: Final = 64
"""Orders of the Trainer's plugins tried before a difference counts."""
REACHED: Final = 0.8
"""Share of the cases that is expected to reach a built object; more are made until enough have."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the lines that were asked for, and report."""
    options = _parse(argv)
    pipe = compare.pipeline()
    tallies: list[Tally] = []
    for line in options.line or LINES:
        print(f"conformance {line}: seed {options.seed}", flush=True)
        tallies.append(run(pipe, line, seed=options.seed, count=options.count))
    for tally in tallies:
        print("\n".join(tally.lines()))
    failed = sum(t.failed for t in tallies)
    print(f"{sum(t.built for t in tallies)} passed, {failed} failed")
    return 1 if failed else 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument(
        "--line", action="append", choices=LINES, help="a Trainer line; all without it"
    )
    parser.add_argument(
        "--count",
        type=int,
        help=f"cases per line that reach a built object ({FULL}; {QUICK} with --quick)",
    )
    parser.add_argument("--seed", type=int, help="repeats a run; a new one each time without it")
    parser.add_argument(
        "--quick", action="store_true", help="what CI runs: fewer cases, the seed from the commit"
    )
    options = parser.parse_args(argv)
    if options.count is None:
        options.count = QUICK if options.quick else FULL
    if options.seed is None:
        options.seed = _commit_seed() if options.quick else secrets.randbelow(2**31)
    if options.seed is None:
        parser.error("--quick takes the seed from the commit, and git knows none here: give --seed")
    return options


def _commit_seed() -> int | None:
    """The first 31 bits of the commit's name: the same commit is judged by the same cases everywhere."""
    command = ["git", "rev-parse", "HEAD"]
    folder = Path(__file__).parent
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return int(done.stdout[:8], 16) >> 1


def run(pipe: Pipeline, line: str, *, seed: int, count: int) -> Tally:
    """Judge cases of a line until ``count`` of them had their built objects compared."""
    oracle = Oracle(line)
    tally = Tally(line=line)
    with tally.phase("build"):
        build(line)
        build_later()
    tally.known = possible(line, oracle.shipped_runtimes())
    tally.is_full = count >= FULL
    samples = later.Samples()
    begun = time.monotonic()
    for batch, answers in _answered(oracle, seed, count, tally):
        _judge_batch(pipe, oracle, batch, answers, tally, samples)
        print(
            f"conformance {line}: {tally.built} of {count} built and compared, "
            f"{len(tally.unexplained)} unexplained, {time.monotonic() - begun:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    with tally.phase("refused later"):
        tally.proofs = later.prove(oracle, later.Later(), samples.kept)
    return tally


def _answered(
    oracle: Oracle, seed: int, count: int, tally: Tally
) -> Iterator[tuple[list[Json], list[Json]]]:
    """Batches with their answers; the oracle works on one while the one before it is judged."""
    made = cases(oracle.line, seed, sys.maxsize, oracle.shipped_runtimes())
    waiting: list[tuple[list[Json], Future[list[Json]]]] = []
    with ThreadPoolExecutor(max_workers=1) as pool:
        while True:
            under_way = sum(len(batch) for batch, _ in waiting)
            missing = count - tally.built
            more = ceil(missing / REACHED) - under_way
            if more > 0 and len(waiting) < 2:
                with tally.phase("generate"):
                    batch = list(itertools.islice(made, min(BATCH, more)))
                waiting.append((batch, pool.submit(oracle.run, batch)))
            elif waiting and missing > 0:
                batch, answers = waiting.pop(0)
                with tally.phase("wait for the oracle"):
                    answered = answers.result()
                yield batch, answered
            else:
                return


def _judge_batch(
    pipe: Pipeline,
    oracle: Oracle,
    batch: list[Json],
    answers: list[Json],
    tally: Tally,
    samples: later.Samples,
) -> None:
    again: list[tuple[Json, Json]] = []
    pairs: list[tuple[Json, Json, Json]] = []
    with tally.phase("judge"):
        for case, answer in zip(batch, answers, strict=True):
            tally.cases += 1
            tally.tags.update(case.get("tags", ()))
            if not _is_judged(case, answer, tally, oracle.line):
                continue
            if case.get("operation") == "VALIDATE_RUNTIME":
                judged = judge.judge_runtime(pipe, oracle.line, case, answer)
                tally.rows.update(judged.rows)
                tally.note(case, judged.verdict)
                samples.add(judged.rows, case, answer)
                continue
            judged = judge.judge(pipe, oracle.line, case, answer)
            samples.add(judged.rows, case, answer)
            if judged.built == "unexplained":
                again.append((case, answer))
            else:
                _count(tally, case, judged)
            changed = judge.defaulted(pipe, oracle.line, case, answer)
            if changed is not None:
                pairs.append((case, answer, changed))
    with tally.phase("other plugin orders"):
        _try_orders(pipe, oracle, again, tally)
    with tally.phase("with our defaults"):
        _build_again(oracle, pairs, tally)


def _is_judged(case: Json, answer: Json, tally: Tally, line: str) -> bool:
    tally.by_webhook += judge.is_refused_by_webhook(answer)
    tally.panics += bool(answer.get("webhookPanic") or answer.get("buildPanic"))
    tally.note(case, judge.schema_disagreements(line, case, answer))
    if case.get("operation") == "VALIDATE_RUNTIME":
        tally.runtimes += 1
        return True
    if judge.is_refused_by_schema(answer):
        tally.by_schema += 1
        return False
    return True


def _count(tally: Tally, case: Json, judged: judge.Judged) -> None:
    match judged.built:
        case "equal":
            tally.equal += 1
        case "both fail":
            tally.both_fail += 1
        case "intended":
            tally.intended += 1
        case "unexplained":
            tally.note(case, [str(d) for d in judged.differences[:3]])
        case _:
            tally.not_compared += 1
    tally.rows.update(judged.rows)
    tally.note(case, judged.verdict)


def _try_orders(
    pipe: Pipeline, oracle: Oracle, again: list[tuple[Json, Json]], tally: Tally
) -> None:
    """A prediction is right if it equals one outcome of the Trainer's random plugin order."""
    answers = oracle.run([{**case, "tries": TRIES} for case, _ in again])
    for (case, _), answer in zip(again, answers, strict=True):
        _count(tally, case, judge.judge(pipe, oracle.line, case, answer))


def _build_again(oracle: Oracle, pairs: list[tuple[Json, Json, Json]], tally: Tally) -> None:
    """Our defaults must not change what the controller builds."""
    tally.defaulted += len(pairs)
    answers = oracle.run([changed for _, _, changed in pairs])
    for (case, before, changed), after in zip(pairs, answers, strict=True):
        if not judge.compare_defaulted(before, after):
            continue
        first, second = oracle.run([{**case, "tries": TRIES}, {**changed, "tries": TRIES}])
        tally.note(case, (f"defaulted: {text}" for text in judge.compare_defaulted(first, second)))


if __name__ == "__main__":
    sys.exit(main())
