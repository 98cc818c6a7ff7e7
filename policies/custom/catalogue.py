"""Which options are installed and what they declare, without importing any of them into the server.

Names come from the packages' metadata; a declaration from a process that imports the package, has so many seconds for
it and is killed then (the SDK alone takes 4 to 6 s and 85 MiB). What came of it is kept for as long as the same
packages are found.

The options live in the server's interpreter, or in that which ``STATIONMASTER_OPTIONS_PYTHON`` names: the SDK wants
another Kubernetes client than ours. The variable is read here, since whatever reads a policy must agree on it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import policies
from plugins.framework import lines
from plugins.framework.schema.node import Node
from policies.custom import loading
from policies.custom.arguments import BadSchema, node_of
from policies.writes import Mode

VARIABLE: Final = "STATIONMASTER_OPTIONS_PYTHON"
LOAD_SECONDS: Final = 20.0
"""For one option's import, beside others': three times what the SDK takes, within the minute of our startup probe."""
KUBERNETES: Final = "Kubernetes"
MODES: Final[tuple[Mode, ...]] = ("defaults", "overrides")

_ROOT: Final = str(Path(policies.__file__).resolve().parent.parent)


@dataclass(frozen=True, slots=True)
class Installed:
    """One entry point: its name, the object behind it, the package and its version."""

    name: str
    value: str
    package: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What an installed option says of itself; with a ``problem`` it cannot be used."""

    installed: Installed
    problem: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    args: Node = field(default_factory=lambda: Node("o"))
    summary: str = ""
    modes: tuple[Mode, ...] = MODES
    lines: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    example: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As policies name it."""
        return self.installed.name

    @property
    def is_usable(self) -> bool:
        """Whether a policy can use it here."""
        return not self.problem and KUBERNETES in self.backends


def interpreter() -> str:
    """The one that has the options."""
    return os.environ.get(VARIABLE) or sys.executable


def installed() -> dict[str, Installed]:
    """All of them, by name."""
    python = interpreter()
    rows = loading.listed(loading.points()) if python == sys.executable else _listed(python)[0]
    return {name: Installed(name, value, package) for name, value, package in rows}


def problem() -> str:
    """Why nobody knows which are installed: the interpreter that is named is none; "" where that is known."""
    python = interpreter()
    why = "" if python == sys.executable else _listed(python)[1]
    return f"{VARIABLE} names {python}, which {why}" if why else ""


def declared(name: str) -> Declared | None:
    """What an option declares; None where none of that name is installed."""
    found = installed().get(name)
    return None if found is None else _declared(found, interpreter(), _paths())


def all_declared() -> list[Declared]:
    """All of them, imported beside each other; kept, so that nothing waits for an import later."""
    found = list(installed().values())
    python, paths = interpreter(), _paths()
    if not found:
        return []
    with ThreadPoolExecutor(max_workers=min(len(found), 8)) as threads:
        return list(threads.map(lambda one: _declared(one, python, paths), found))


def command(module: str, *arguments: str) -> list[str]:
    """How a process of ours is started that has options: without the environment, and with the server's packages."""
    boot = loading.BOOT.format(module=module)
    return [interpreter(), "-P", "-c", boot, _ROOT, json.dumps(_paths()), *arguments]


def worker_command() -> list[str]:
    """How a worker is started that calls them: with those that can be loaded, for an import may also hang."""
    usable = [one.name for one in all_declared() if one.is_usable]
    return command("policies.custom.worker", str(loading.MOST_MEMORY), *usable)


def _paths() -> tuple[str, ...]:
    """Where the server finds packages; only for its own interpreter."""
    if interpreter() != sys.executable:
        return ()
    return tuple(path for path in sys.path if Path(path).is_absolute())


@lru_cache(maxsize=8)
def _listed(python: str) -> tuple[list[list[str]], str]:
    """The rows, and what kept the interpreter from giving some."""
    del python  # by it; the command asks the same
    answer = _asked("list")
    if not isinstance(answer, list):
        return [], str(answer)
    rows = (row for row in answer if isinstance(row, list) and len(row) == 3)
    return [[str(cell) for cell in row] for row in rows], ""


@lru_cache(maxsize=256)
def _declared(found: Installed, python: str, paths: tuple[str, ...]) -> Declared:
    del python, paths  # what it is kept by
    answer = _asked("describe", found.name)
    if isinstance(answer, str):
        return Declared(installed=found, problem=answer)
    try:
        return _read(found, answer)
    except (BadSchema, _BadDeclaration) as error:
        return Declared(installed=found, problem=str(error))


class _BadDeclaration(ValueError):
    pass


def _read(found: Installed, answer: Any) -> Declared:
    if type(answer) is not dict or answer.get("problem"):
        problem = answer.get("problem") if type(answer) is dict else "declares nothing"
        return Declared(installed=found, problem=str(problem))
    schema = answer["args"]
    args = node_of(schema)
    if args.kind != "o":
        raise BadSchema("args.type: must be object")
    if type(answer["example"]) is not dict:
        raise _BadDeclaration("example: must be an object")
    known: tuple[tuple[str, Iterable[str]], ...] = (("modes", MODES), ("lines", lines.LINES))
    for key, there in known:
        if not answer[key] or not set(answer[key]) <= set(there):
            raise _BadDeclaration(f"{key}: must be of {', '.join(there)}")
    if not all(type(one) is str for one in answer["backends"]):
        raise _BadDeclaration("backends: must be names")
    return Declared(
        installed=found,
        schema=schema,
        args=args,
        summary=str(answer["summary"]),
        modes=tuple(answer["modes"]),
        lines=tuple(answer["lines"]),
        backends=tuple(answer["backends"]),
        example=answer["example"],
    )


def _asked(*arguments: str) -> Any:
    """What a process of ``loading`` prints; a text says why it did not."""
    try:
        done = subprocess.run(  # noqa: S603  # our own interpreter and module
            command("policies.custom.loading", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            timeout=LOAD_SECONDS,
            check=False,
        )
        return json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return f"{_cannot(arguments)}: takes longer than {LOAD_SECONDS:g} s"
    except OSError as error:
        return f"{_cannot(arguments)}: {error.strerror}"
    except ValueError:
        return f"{_cannot(arguments)}: it ended the process"


def _cannot(arguments: Sequence[str]) -> str:
    return "cannot be asked" if arguments == ("list",) else "cannot be imported"
