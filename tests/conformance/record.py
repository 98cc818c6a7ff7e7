"""Records a corpus with the oracle's answers, so that fidelity can be checked without Go.

``python -m tests.conformance.record --line 2.3 --seed 1 --count 500`` writes
``tests/golden/conformance/2.3.jsonl.gz``: a line that tells what was recorded, then one line
``{"case": …, "answer": …}`` per case. The same oracle and seed give the same cases; where the
Trainer's plugins may run in several orders, all outcomes that were seen are in ``variants``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.conformance.build import LINES
from tests.conformance.generate import cases
from tests.conformance.oracle import Oracle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.conformance.dice import Json

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "conformance"
# Causes of variants combine (env order, two PodGroups, several kinds of GPU), and a combination
# comes in few of the orders.
TRIES: Final = 64


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
    """Write a corpus and return how many of its cases reached built objects."""
    oracle = Oracle(line, workers=workers)
    made = list(cases(line, seed, count, oracle.shipped_runtimes()))
    path.parent.mkdir(parents=True, exist_ok=True)
    built = 0
    # No name and no time in the header: the same content gives the same bytes.
    with (
        path.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
    ):
        head = {"line": line, "seed": seed, "count": count, **oracle.version()}
        packed.write(_encoded(head))
        answers = oracle.stream({**case, "tries": TRIES} for case in made)
        for number, (case, answer) in enumerate(zip(made, answers, strict=True), start=1):
            built += "objects" in answer
            settled = _settled(answer) if "variants" in answer else answer
            packed.write(_encoded({"case": case, "answer": settled}))
            if number % 500 == 0:
                sys.stderr.write(f"record {line}: {number} of {count}\n")
    return built


def _settled(answer: Json) -> Json:
    """Take out what the random order of the Trainer's plugins decides, so that bytes can be compared.

    Objects and webhook errors are sorted; variants too, and they are left out if there is but one.
    """
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
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--workers", type=int, default=1, help="oracle processes at a time")
    parser.add_argument("--folder", type=Path, default=GOLDEN, help="where the files go")
    args = parser.parse_args(argv)
    for line in args.line or LINES:
        path = args.folder / f"{line}.jsonl.gz"
        built = record(line, seed=args.seed, count=args.count, path=path, workers=args.workers)
        size = path.stat().st_size / 1024
        sys.stdout.write(f"{path}: {args.count} cases, {built} built, {size:.0f} KiB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
