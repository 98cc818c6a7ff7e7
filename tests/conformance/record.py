"""Records a corpus with the oracle's answers, so that fidelity can be checked without Go.

``python -m tests.conformance.record`` writes ``tests/golden/conformance/2.3.jsonl.gz`` and the like: a
line that tells what was recorded, then one line ``{"case": …, "answer": …}`` per case. After the first
cases of a seed come those, from further on, without which a row of the ledger would have too few. The
same sources and seed give the same bytes; where the Trainer's plugins may run in several orders, all
outcomes that were seen are in ``variants``.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.conformance import compare, judge, ledger
from tests.conformance.build import LINES
from tests.conformance.generate import cases
from tests.conformance.oracle import Oracle
from tests.gobuild import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.conformance.dice import Json

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "conformance"
# Causes of variants combine (env order, two PodGroups, several kinds of GPU), and a combination
# comes in few of the orders.
TRIES: Final = 64
SEED: Final = 20261130
COUNT: Final = 370
"""Cases that are taken as they come."""
EACH: Final = 2
"""Cases that each row of the ledger has at least."""
BATCH: Final = 200
FURTHEST: Final = 10_000
"""Where the search for them ends: so many cases meet every row."""


class RecordError(Exception):
    """There are rows that no case brings up."""


def golden_path(line: str) -> Path:
    """Return where a line's recorded corpus lies."""
    return GOLDEN / f"{line}.jsonl.gz"


def recorded(path: Path) -> Iterator[tuple[Json, Json]]:
    """Yield the recorded cases, each with its answer."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            entry = json.loads(line)
            yield entry["case"], entry["answer"]


def record(line: str, *, seed: int, count: int, path: Path, workers: int = 1) -> int:
    """Write a corpus and return how many cases it has."""
    oracle = Oracle(line, workers=workers)
    entries: list[tuple[Json, Json]] = []
    for entry in _chosen(oracle, seed, count):
        entries.append(entry)
        if len(entries) % 100 == 0:
            say(f"record {line}: {len(entries)} cases")
    path.parent.mkdir(parents=True, exist_ok=True)
    # No name and no time in the header: the same content gives the same bytes.
    with (
        path.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
    ):
        head = {"line": line, "seed": seed, "count": len(entries), **oracle.version()}
        packed.write(_encoded(head))
        for case, answer in entries:
            packed.write(_encoded({"case": case, "answer": answer}))
    return len(entries)


def _chosen(oracle: Oracle, seed: int, count: int) -> Iterator[tuple[Json, Json]]:
    """The first cases, and later ones until each row has enough."""
    pipe = compare.pipeline()
    made = cases(oracle.line, seed, FURTHEST, oracle.shipped_runtimes())
    first = list(itertools.islice(made, count))
    missing = Counter(dict.fromkeys(ledger.rows_of(oracle.line), EACH))
    for case, answer in _answered(oracle, first):
        missing.subtract(judge.rows(pipe, oracle.line, case, answer))
        yield case, answer
    while +missing and (batch := list(itertools.islice(made, BATCH))):
        wanted: list[Json] = []
        for case, answer in zip(batch, oracle.run(batch), strict=True):
            rows = judge.rows(pipe, oracle.line, case, answer)
            if any(missing[row] > 0 for row in rows):
                missing.subtract(rows)
                wanted.append(case)
        yield from _answered(oracle, wanted)
    if +missing:
        raise RecordError(f"line {oracle.line}: too few cases of {', '.join(+missing)}")


def _answered(oracle: Oracle, chosen: Sequence[Json]) -> Iterator[tuple[Json, Json]]:
    answers = oracle.stream({**case, "tries": TRIES} for case in chosen)
    yield from ((c, _settled(a)) for c, a in zip(chosen, answers, strict=True))


def _settled(answer: Json) -> Json:
    """Take out what the random order of the Trainer's plugins decides, so that bytes can be compared.

    Objects and webhook errors are sorted; variants too, and they are left out if there is but one.
    """
    if "variants" not in answer:
        return answer
    variants = sorted((_sorted(variant) for variant in answer["variants"]), key=_text)
    settled: Json = {name: answer[name] for name in answer if name not in _RANDOM}
    settled |= variants[0]
    if len(variants) > 1:
        settled["variants"] = variants
    if "webhookErrors" in answer:
        settled["webhookErrors"] = sorted(answer["webhookErrors"], key=_text)
    return settled


def _sorted(outcome: Json) -> Json:
    if "objects" not in outcome:
        return outcome
    return {**outcome, "objects": sorted(outcome["objects"], key=_text)}


_RANDOM: Final = ("objects", "buildError", "buildPanic", "variants", "webhookErrors")


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _encoded(value: Json) -> bytes:
    return _text(value).encode() + b"\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Record the lines that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--line", action="append", choices=LINES, help="may be repeated")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT, help="before what rows lack")
    parser.add_argument("--workers", type=int, default=1, help="oracle processes at a time")
    parser.add_argument("--folder", type=Path, default=GOLDEN, help="where the files go")
    args = parser.parse_args(argv)
    for line in args.line or LINES:
        path = args.folder / f"{line}.jsonl.gz"
        count = record(line, seed=args.seed, count=args.count, path=path, workers=args.workers)
        sys.stdout.write(f"{path}: {count} cases, {path.stat().st_size / 1024:.0f} KiB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
