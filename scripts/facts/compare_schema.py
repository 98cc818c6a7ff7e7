"""Compare ``plugins.framework.schema`` with the API server's own code over generated objects.

    python -m scripts.facts.compare_schema --count 2000 --seed 1 [--record 40]

Builds ``apiserver/`` with Go first. ``--record N`` writes the first N cases of each line, with the API server's
answers, to ``tests/data/schema``. Prints what differs and exits 1 if anything does.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

from plugins.framework.schema.shape import as_int
from scripts.facts.cases import cases
from scripts.facts.go import (
    DATA,
    LINES,
    ask,
    build,
    module_folder,
    parse_comparison,
    write_rows,
)
from tests.plugins.framework.test_schema import differences

LONGEST_RECORD: Final = 4000
"""Characters of a case that is kept as test data."""


def as_sent(value: Any) -> Any:
    """What kubectl sends: its JSON prints a float with an integral value without a point."""
    if isinstance(value, dict):
        return {name: as_sent(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_sent(item) for item in value]
    return as_int(value) if isinstance(value, float) else value


def main() -> int:
    """Run the comparison."""
    args = parse_comparison(__doc__, count=1000)
    bad = 0
    stats: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        binary = build("apiserver", Path(folder) / "apiserver")
        crds = [f"{line}={module_folder(line) / 'manifests' / 'base' / 'crds'}" for line in LINES]
        for line in LINES:
            wanted = list(cases(line, args.count, args.seed))
            answers = ask([str(binary), *crds], map(as_sent, wanted))
            rows = [case | {"want": want} for case, want in zip(wanted, answers, strict=True)]
            for row in rows:
                stats.update(_facts(row))
                found = differences(row)
                bad += bool(found)
                if found and bad <= args.show:
                    print(line, row["kind"], "update" if "old" in row else "create")
                    print(*found, sep="\n  ")
            if args.record:
                small = [row for row in rows if len(json.dumps(row)) < LONGEST_RECORD]
                write_rows(DATA / "schema" / f"{line}.json", small[: args.record])
    print(dict(stats), "differ:", bad)
    return 1 if bad else 0


def _facts(row: dict[str, Any]) -> dict[str, int]:
    return {
        "cases": 1,
        "updates": int("old" in row),
        "accepted": int(not row["want"]["errors"]),
        "errors": len(row["want"]["errors"]),
    }


if __name__ == "__main__":
    sys.exit(main())
