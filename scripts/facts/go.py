"""What the development scripts here have in common: options, calling Go, and data as one row a line."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
TABLES: Final = ROOT / "plugins" / "framework" / "tables"
DATA: Final = ROOT / "tests" / "data"
LINES: Final = ("2.0", "2.1", "2.2", "2.3")
TRAINER: Final = "github.com/kubeflow/trainer/v2"


def parse_comparison(description: str | None, *, count: int) -> argparse.Namespace:
    """The options of a comparison over generated cases; ``count`` is how many where nobody says."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=count, help="cases a line")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--record", type=int, default=0, help="cases a line to keep as test data")
    parser.add_argument("--show", type=int, default=10, help="differences to print")
    return parser.parse_args()


def go(module: str, *args: str) -> str:
    """Run ``go`` in the folder of a module below this one; gives what it prints."""
    command = [shutil.which("go") or "go", *args]
    done = subprocess.run(command, cwd=HERE / module, check=True, capture_output=True, text=True)
    return done.stdout


def build(module: str, binary: Path, *flags: str) -> Path:
    """Compile the main package of a module; gives the binary. The other processes go first."""
    os.nice(5)
    go(module, "build", *flags, "-o", str(binary), ".")
    return binary


def module_folder(line: str) -> Path:
    """The folder where Go keeps the Trainer module of this line; downloads it the first time."""
    flag = f"-modfile=line-{line}.mod"
    go("trainer", "mod", "download", flag, TRAINER)
    return Path(go("trainer", "list", "-m", flag, "-f", "{{.Dir}}", TRAINER).strip())


def ask(command: list[str], rows: Iterable[Any]) -> list[Any]:
    """Give a command one JSON document a line, and read as many back."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run(command, input=text, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def write_rows(path: Path, rows: Iterable[Any]) -> None:
    """Write a JSON list with one row a line, so that a change shows as what changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = ",\n".join(json.dumps(row, separators=(",", ":"), sort_keys=True) for row in rows)
    path.write_text(f"[\n{text}\n]\n")


def keep_or_check(path: Path, table: Any, *, check: bool) -> bool:
    """Write a table, or tell whether the one on disk is the same; says what it did."""
    text = json.dumps(table, separators=(",", ":"), sort_keys=True) + "\n"
    if check:
        same = path.exists() and path.read_text() == text
        print(f"{path.name}: {'as derived' if same else 'differs'}")
        return same
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"{path.name}: {len(text)} bytes")
    return True
