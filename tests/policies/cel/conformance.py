"""Running cel-spec's tests through the shim.

The shim knows the variables of policies and no other, so a test's own (``x``) are read as parameters (``params.x``).
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from policies.cel import EvaluationError

FILE: Final = Path(__file__).parents[2] / "data/cel/conformance.jsonl"
KNOWN: Final = Path(__file__).parents[2] / "data/cel/known-failures.json"
_STRINGS: Final = (
    r"""[rR]?[bB]?[rR]?(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|`[^`]*`"""
)


class Row(NamedTuple):
    name: str
    expr: str
    data: dict[str, Any]
    wants_error: bool
    value: Any


@lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    return tuple(map(_row, FILE.read_text(encoding="utf-8").splitlines()))


def _row(line: str) -> Row:
    raw = json.loads(line)
    bindings = raw.get("bindings", {})
    return Row(
        raw["name"],
        _renamed(raw["expr"], bindings),
        {"params": _nested(bindings)},
        raw.get("error", False),
        raw.get("value"),
    )


def _renamed(text: str, names: dict[str, Any]) -> str:
    if not names:
        return text
    either = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = rf"({_STRINGS})|(?<![\w.])({either})(?![\w(]|\s*:(?=[^:]*\}}))"
    return re.sub(pattern, lambda m: m[1] or f"params.{m[2]}", text, flags=re.DOTALL)


def _nested(bindings: dict[str, Any]) -> dict[str, Any]:
    """``a.b`` as a field of a."""
    out: dict[str, Any] = {}
    for name, value in bindings.items():
        *above, last = name.split(".")
        place = out
        for step in above:
            place = place.setdefault(step, {})
        place[last] = value
    return out


def passes(row: Row, answer: Any) -> bool:
    if isinstance(answer, EvaluationError):
        return row.wants_error
    return not row.wants_error and same(answer, row.value)


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types: 1 is not 1.0 here, nor true."""
    return type(left) is type(right) and json.dumps(left, sort_keys=True) == json.dumps(
        right, sort_keys=True
    )
