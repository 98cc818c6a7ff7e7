"""``make conformance``: our prediction against the Trainer's own code, over generated cases of each line.

Exit 0 if nothing differs but what the ledger names. The seed is printed, and can be given again.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from tests.conformance import compare, judge
from tests.conformance.build import LINES
from tests.conformance.generate import cases
from tests.conformance.oracle import Oracle
from tests.conformance.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from plugins.framework.pipeline import Pipeline

Json = dict[str, Any]

BATCH: Final = 500
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
    failed = sum(len(t.unexplained) for t in tallies)
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
        default=10_000,
        help="cases per line that reach a built object (%(default)s)",
    )
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31), help="repeats a run")
    return parser.parse_args(argv)


def run(pipe: Pipeline, line: str, *, seed: int, count: int) -> Tally:
    """Judge cases of a line until ``count`` of them had their built objects compared."""
    oracle = Oracle(line)
    tally = Tally(line=line)
    begun = time.monotonic()
    for batch in _batches(line, seed, oracle):
        _judge_batch(pipe, oracle, batch, tally)
        tally.seconds = time.monotonic() - begun
        print(
            f"conformance {line}: {tally.built} of {count} built and compared, "
            f"{len(tally.unexplained)} unexplained, {tally.seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        if tally.built >= count:
            return tally
    return tally


def _batches(line: str, seed: int, oracle: Oracle) -> Iterator[list[Json]]:
    batch: list[Json] = []
    for case in cases(line, seed, sys.maxsize, oracle.shipped_runtimes()):
        batch.append(case)
        if len(batch) == BATCH:
            yield batch
            batch = []


def _judge_batch(pipe: Pipeline, oracle: Oracle, batch: list[Json], tally: Tally) -> None:
    again: list[tuple[Json, Json]] = []
    pairs: list[tuple[Json, Json, Json]] = []
    for case, answer in zip(batch, oracle.run(batch), strict=True):
        tally.cases += 1
        tally.tags.update(case.get("tags", ()))
        if not _is_judged(case, answer, tally, oracle.line):
            continue
        judged = judge.judge(pipe, oracle.line, case, answer)
        if judged.built == "unexplained":
            again.append((case, answer))
        else:
            _count(tally, case, judged)
        changed = judge.defaulted(pipe, oracle.line, case, answer)
        if changed is not None:
            pairs.append((case, answer, changed))
    _try_orders(pipe, oracle, again, tally)
    _build_again(oracle, pairs, tally)


def _is_judged(case: Json, answer: Json, tally: Tally, line: str) -> bool:
    tally.by_webhook += judge.is_refused_by_webhook(answer)
    tally.panics += bool(answer.get("webhookPanic") or answer.get("buildPanic"))
    tally.note(case, judge.schema_disagreements(line, case, answer))
    if case.get("operation") == "VALIDATE_RUNTIME":
        tally.runtimes += 1
        tally.note(case, judge.runtime_disagreements(line, case, answer))
        return False
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
