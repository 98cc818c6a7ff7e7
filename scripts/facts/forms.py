"""Derive ``plugins/framework/tables/goform.json`` from the Go types that the Trainer is compiled with.

Run ``python -m scripts.facts.forms``; it needs Go. ``--check`` compares only. ``trainer/main.go`` reads the types by
reflection, once a line.

The table is ``{"types": {...}, "lines": {line: {...}}}``: the types that are the same in all lines, and what each
line has besides. A type is ``{field: [form, omit, patchStrategy, patchMergeKey]}``, with empty ends left out. The
letters of a form are explained in ``plugins/framework/goform.py``, which reads them.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from scripts.facts.go import LINES, TABLES, go, keep_or_check

LETTERS: Final = {
    "string": "s",
    "bytes": "s",
    "bool": "b",
    "int": "i",
    "float": "f",
    "quantity": "q",
    "int-or-string": "x",
    "time": "t",
    "raw": "r",
}


def go_types(line: str) -> dict[str, Any]:
    """The types of one line, as the Go command prints them."""
    printed = json.loads(go("trainer", "run", f"-modfile=line-{line}.mod", "."))
    return {name: {f["n"]: _field(f) for f in fields} for name, fields in printed.items()}


def _field(raw: dict[str, Any]) -> list[str]:
    out = [_form(raw["f"]), raw.get("o", ""), raw.get("s", ""), raw.get("k", "")]
    while not out[-1]:
        out.pop()
    return out


def _form(raw: dict[str, Any]) -> str:
    pointer = "*" if raw.get("p") else ""
    if raw["k"] == "struct":
        return f"{pointer}={raw['t']}"
    if raw["k"] in {"list", "map"}:
        return pointer + {"list": "[", "map": "{"}[raw["k"]] + _form(raw["e"])
    return pointer + LETTERS[raw["k"]]


def table() -> dict[str, Any]:
    """The whole table."""
    lines = {line: go_types(line) for line in LINES}
    first = lines[LINES[0]]
    common = {
        name: form
        for name, form in first.items()
        if all(types.get(name) == form for types in lines.values())
    }
    return {
        "types": common,
        "lines": {
            line: {name: form for name, form in types.items() if name not in common}
            for line, types in lines.items()
        },
    }


def main() -> int:
    """Write the table, or compare it with the one on disk."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    return 0 if keep_or_check(TABLES / "goform.json", table(), check=check) else 1


if __name__ == "__main__":
    sys.exit(main())
