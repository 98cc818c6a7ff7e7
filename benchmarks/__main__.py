"""Runs all measurements and prints them as ratios: ``make bench``, ``make bench ARGS=--quick``.

Machines differ and neighbours interfere, so nothing here is a number to compare between machines: every
round measures the yardstick next to us, and the ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import orjson

from benchmarks import process, review
from benchmarks.load import Result
from benchmarks.process import Server

ROOT: Final = Path(__file__).parent.parent
MANY: Final = 5000
PACED_RATE: Final = 100.0
MATCHING: Final = 5
POLICIES: Final = {
    "none": (0, 0),
    "1, matching": (1, 0),
    "5, all matching": (MATCHING, 0),
    "20, 5 matching": (MATCHING, 15),
    "200, 5 matching": (MATCHING, 195),
    "1,000, none matching": (0, 1000),
}
"""How many policies, of which how many match the job: label required, numNodes limit, registry allow-list, queue default,
runtime allow-list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How long to measure."""

    rounds: int
    pairs: int
    connections: int
    paced_pairs: int
    starts: int


FULL: Final = Size(rounds=9, pairs=2000, connections=4, paced_pairs=150, starts=11)
QUICK: Final = Size(rounds=3, pairs=400, connections=4, paced_pairs=50, starts=3)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--quick", action="store_true", help="a look, not a measurement")
    size = QUICK if parser.parse_args().quick else FULL
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}")
    with tempfile.TemporaryDirectory() as folder:
        servers(Path(folder), size)
        starts(Path(folder), size)
    return 0


def servers(folder: Path, size: Size) -> None:
    """The pair over TLS, on the yardstick and on us, with few and with many runtimes."""
    one, many, five = folder / "one", folder / "many", folder / "five"
    review.write_cluster(one, 1)
    review.write_cluster(many, MANY)
    review.write_cluster(five, 1)
    review.write_policies(five, MATCHING, 0)
    body = len(review.create_review("mnist", review.runtime_name(0)))
    print(
        f"\nmutate + validate over TLS, a review of {body} bytes, {size.rounds} interleaved rounds"
    )
    with ExitStack() as stack:
        progress("starting the servers")
        subjects = [
            (stack.enter_context(process.bare(folder / "bare")), 1),
            (stack.enter_context(process.stationmaster("1 runtime", one, folder / "s1")), 1),
            (
                stack.enter_context(process.stationmaster(f"{MANY} runtimes", many, folder / "s2")),
                MANY,
            ),
            (
                stack.enter_context(
                    process.stationmaster(f"{MATCHING} policies", five, folder / "s3")
                ),
                1,
            ),
        ]
        fast = rounds(subjects, size.rounds, size.pairs, size.connections, rate=0.0)
        paced = rounds(subjects, size.rounds, size.paced_pairs, 1, rate=PACED_RATE)
    table(f"at full speed, {size.connections} connections", fast)
    table(f"paced, {PACED_RATE:.0f} calls a second", paced)
    inside(folder, fast["bare aiohttp"], size.rounds)


def rounds(
    subjects: Sequence[tuple[Server, int]], count: int, pairs: int, connections: int, *, rate: float
) -> dict[str, list[Result]]:
    """Measure all subjects in turn, again and again."""
    results: dict[str, list[Result]] = {server.name: [] for server, _ in subjects}
    for number in range(count):
        progress(f"{'paced' if rate else 'full speed'}: round {number + 1} of {count}")
        for server, runtimes in subjects:
            results[server.name].append(load(server, runtimes, pairs, connections, rate))
    progress("")
    return results


def load(server: Server, runtimes: int, pairs: int, connections: int, rate: float) -> Result:
    """One round of one subject."""
    command = [
        *(sys.executable, "-m", "benchmarks.load", "--ca", str(server.ca)),
        *("--port", str(server.port), "--pid", str(server.pid), "--runtimes", str(runtimes)),
        *("--pairs", str(pairs), "--connections", str(connections), "--rate", str(rate)),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    return Result(**orjson.loads(done.stdout))


def table(title: str, results: dict[str, list[Result]]) -> None:
    """Medians, and ratios to the first row by round."""
    base = next(iter(results.values()))
    print(f"\n{title}")
    print(f"  {'':16}{'CPU us/pair':>12}{'x bare':>8}{'p50 ms':>9}{'p99 ms':>9}{'calls/s':>9}")
    for name, rows in results.items():
        ratio = median(row.cpu_us / other.cpu_us for row, other in zip(rows, base, strict=True))
        print(
            f"  {name:16}{median(r.cpu_us for r in rows):12.0f}{ratio:8.2f}"
            f"{median(r.p50_ms for r in rows):9.2f}{median(r.p99_ms for r in rows):9.2f}"
            f"{median(r.calls_per_second for r in rows):9.0f}"
        )
    few, many = list(results.values())[1:3]
    for what in ("p50_ms", "p99_ms"):
        ratio = median(getattr(m, what) / getattr(f, what) for f, m in zip(few, many, strict=True))
        print(f"  {what[:3]} with {MANY} runtimes: {ratio:.2f} times that with one")


def inside(folder: Path, base: Sequence[Result], batches: int) -> None:
    """The pair in process, with more and more policies."""
    clusters = {}
    for name, (matching, others) in POLICIES.items():
        clusters[name] = folder / f"policies-{matching}-{others}"
        review.write_cluster(clusters[name], 1)
        review.write_policies(clusters[name], matching, others)
    command = [sys.executable, "-m", "benchmarks.inside", str(batches * 2)]
    command += [str(cluster) for cluster in clusters.values()]
    progress("in process")
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    progress("")
    costs = [[float(cost) for cost in line.split()] for line in done.stdout.splitlines()]
    bare = median(row.cpu_us for row in base)
    print("\nthe pair in process, without a server")
    print(f"  {'policies':26}{'CPU us/pair':>12}{'x bare':>8}{'x none':>8}")
    for i, name in enumerate(clusters):
        cost = median(row[i] for row in costs)
        ratio = median(row[i] / row[0] for row in costs)
        print(f"  {name:26}{cost:12.0f}{cost / bare:8.2f}{ratio:8.2f}")


def starts(folder: Path, size: Size) -> None:
    """How long a command takes to begin."""
    job = folder / "job.json"
    job.write_bytes(orjson.dumps(review.train_job("mnist", review.runtime_name(0))))
    program = [sys.executable, "-m", "webhook.cli"]
    commands = {
        "bare interpreter": [sys.executable, "-c", "pass"],
        "--help": [*program, "--help"],
        "admit, one job": [*program, "admit", "-f", str(job), "--from", str(folder / "one")],
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(size.starts):
        progress(f"starts: round {number + 1} of {size.starts}")
        for name, command in commands.items():
            took[name].append(timed(command))
    progress("")
    base = took["bare interpreter"]
    print(f"\nstart of a process, {size.starts} interleaved rounds, medians")
    print(f"  {'':18}{'seconds':>9}{'beyond bare':>13}{'CPU seconds':>13}{'beyond bare':>13}")
    for name, rows in took.items():
        beyond = [
            median(row[i] - other[i] for row, other in zip(rows, base, strict=True)) for i in (0, 1)
        ]
        wall, cpu = (median(row[i] for row in rows) for i in (0, 1))
        print(f"  {name:18}{wall:9.3f}{beyond[0]:13.3f}{cpu:13.3f}{beyond[1]:13.3f}")


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds by the clock and of CPU; the second is what a machine without neighbours would take."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT) as process_:
        _, status, usage = os.wait4(process_.pid, 0)
        process_.returncode = os.waitstatus_to_exitcode(status)
    if process_.returncode:
        raise RuntimeError(f"{command} failed")
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def progress(text: str) -> None:
    """What is being done, where somebody watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
