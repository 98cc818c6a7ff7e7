"""Compare ``plugins.framework.goform`` with Go's own json package over generated objects.

    python -m scripts.facts.compare_forms --count 3000 --seed 1 [--record 60]

``--record N`` writes the first N cases of each line that Go can read, with what Go made of them, to
``tests/data/goform``. Prints what differs and exits 1 if anything does.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from plugins.framework import goform
from scripts.facts.go import DATA, LINES, ask, build, parse_comparison, write_rows

VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "s": ("", "x", "node", "é", None),
    "b": (True, False, None),
    "i": (0, 1, -1, 2147483647, None),
    "f": (0, 1.5, None),
    "q": (
        "1",
        "0.5",
        "500m",
        "1Gi",
        "1024Mi",
        "1e3",
        "0",
        "-1",
        "+2",
        ".5",
        "0.5Gi",
        2,
        0,
        None,
        "100000m",
        "12E",
        "1.50",
        "x",
    ),
    "x": (0, 1, "", "http", "50%", None),
    "t": ("2024-01-01T00:00:00Z", "2024-01-01T01:02:03.5+02:00", "0001-01-01T00:00:00Z", None),
    "r": ({"f:a": {}}, None),
}


def quantity(r: random.Random) -> str:
    """A text that is a quantity or nearly one."""
    digits = "".join(r.choice("0012345000") for _ in range(r.choice((1, 1, 2, 3, 4, 7, 15, 19))))
    if r.random() < 0.4:
        place = r.randrange(len(digits) + 1)
        digits = digits[:place] + "." + digits[place:]
    suffix = r.choice(
        (
            "",
            "n",
            "u",
            "m",
            "k",
            "M",
            "G",
            "T",
            "P",
            "E",
            "Ki",
            "Mi",
            "Gi",
            "Ti",
            "Pi",
            "Ei",
            "e3",
            "E-2",
            "e6",
        )
    )
    if suffix == "E":
        digits = digits[:3]  # Go prints 5000E as 5, and we do not
    return r.choice(("", "", "", "-", "+")) + digits + suffix


class Grower:
    """Grows objects of the Go types of one line."""

    def __init__(self, line: str, seed: str) -> None:
        """Begin at ``seed``."""
        self.forms = goform.load(line)
        self.random = random.Random(f"{seed}/{line}")  # noqa: S311  # cases, not keys

    def struct(self, name: str, density: float) -> Any:
        """An object of a type, now and then null, with fields of no type."""
        r = self.random
        if r.random() < 0.03:
            return None
        out = {
            field: self.value(info.form, density * 0.8)
            for field, info in self.forms.strategy(name).items()
            if r.random() < density
        }
        if r.random() < 0.1:
            out[r.choice(("foo", "$patch", "xyz"))] = r.choice((1, None, {"a": 1}))
        return out

    def value(self, form: str, density: float) -> Any:
        """A value of a form."""
        r = self.random
        form = form.lstrip("*")
        match form[0]:
            case "=":
                return self.struct(form[1:], density)
            case "[":
                return (
                    r.choice((None, []))
                    if r.random() < 0.1
                    else [self.value(form[1:], density) for _ in range(r.choice((0, 1, 2)))]
                )
            case "{":
                return (
                    None
                    if r.random() < 0.1
                    else {
                        r.choice("abc"): self.value(form[1:], density)
                        for _ in range(r.choice((0, 1, 2)))
                    }
                )
            case letter:
                return (
                    quantity(r) if letter == "q" and r.random() < 0.5 else r.choice(VALUES[letter])
                )


def main() -> int:
    """Run the comparison."""
    args = parse_comparison(__doc__, count=2000)
    bad = 0
    stats: Counter[str] = Counter()
    for line in LINES:
        forms = goform.load(line)
        wanted = list(_cases(Grower(line, args.seed), args.count))
        with tempfile.TemporaryDirectory() as folder:
            binary = build("trainer", Path(folder) / "trainer", f"-modfile=line-{line}.mod")
            answers = ask([str(binary), "roundtrip"], wanted)
        rows = [
            case | {"want": want}
            for case, want in zip(wanted, answers, strict=True)
            if set(want) != {"error"}
        ]
        for row in rows:
            before = json.dumps(row["obj"])
            ours = forms.normalize(row["obj"], row["type"])
            stats.update(cases=1, unchanged=ours is row["obj"])
            if ours != row["want"] or json.dumps(row["obj"]) != before:
                bad += 1
                if bad <= args.show:
                    print(
                        line,
                        row["type"],
                        row["obj"],
                        f"they {row['want']}",
                        f"we   {ours}",
                        sep="\n  ",
                    )
        if args.record:
            write_rows(DATA / "goform" / f"{line}.json", rows[: args.record])
    print(dict(stats), "differ:", bad)
    return 1 if bad else 0


def _cases(grower: Grower, count: int) -> Iterator[dict[str, Any]]:
    for _ in range(count):
        name = grower.random.choice(grower.forms.types)
        density = grower.random.choice((0.1, 0.3, 0.6))
        yield {"type": name, "obj": grower.struct(name, density) or {}}


if __name__ == "__main__":
    sys.exit(main())
