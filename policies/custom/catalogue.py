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
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import policies
from plugins.framework import lines
from plugins.framework.errors import ConfigError
from plugins.framework.schema.node import Node
from policies.custom import loading
from policies.custom.arguments import BadSchema, node_of
from policies.writes import Mode

VARIABLE: Final = "STATIONMASTER_OPTIONS_PYTHON"
LOAD_SECONDS: Final = 20.0
"""For the import of one module, beside others': three times what the SDK takes, within the minute of our startup probe."""
KUBERNETES: Final = "Kubernetes"
MODES: Final[tuple[Mode, ...]] = ("defaults", "overrides")

_OURS: Final = str(Path(policies.__file__).resolve())


@dataclass(frozen=True, slots=True)
class Installed:
    """One entry point: its name, the object behind it, the package and its version."""

    name: str
    value: str
    package: str

    @property
    def module(self) -> str:
        """What is imported for it."""
        return self.value.partition(":")[0].strip()


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
    """All of them, by name. Raises ConfigError where the interpreter that is named for them does not answer."""
    rows = _listed(interpreter(), _paths())
    return {name: Installed(name, value, package) for name, value, package in rows}


def declared(name: str) -> Declared | None:
    """What an option declares; None where none of that name is installed."""
    there = installed()
    if name not in there:
        return None
    beside = _beside(there.values())[there[name].module]
    return _declared(beside, interpreter(), _paths())[name]


def all_declared() -> list[Declared]:
    """All of them, imported beside each other; kept, so that nothing waits for an import later. Raises ConfigError."""
    there = installed()
    modules = list(_beside(there.values()).values())
    python, paths = interpreter(), _paths()
    if not modules:
        return []
    known: dict[str, Declared] = {}
    with ThreadPoolExecutor(max_workers=min(len(modules), 16)) as threads:
        for found in threads.map(lambda one: _declared(one, python, paths), modules):
            known |= found
    return [known[name] for name in there]


def _beside(found: Iterable[Installed]) -> dict[str, tuple[Installed, ...]]:
    """Those of one module together: it is imported once for all of them."""
    out: dict[str, tuple[Installed, ...]] = {}
    for one in found:
        out[one.module] = (*out.get(one.module, ()), one)
    return out


def command(module: str, *arguments: str) -> list[str]:
    """How a process of ours is started that has options: the server's packages are in its own interpreter only."""
    boot = loading.BOOT.format(module=module)
    return [interpreter(), "-P", "-c", boot, _OURS, json.dumps(_paths()), *arguments]


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
def _listed(python: str, paths: tuple[str, ...]) -> list[list[str]]:
    """Kept: it is asked for each option of each policy, and looks through all packages."""
    del paths  # what it is kept by
    if python == sys.executable:
        return loading.listed(loading.points())
    try:
        answer = _asked("list")
    except _Unanswered as error:
        answer = str(error)
    if not isinstance(answer, list):
        why = answer if isinstance(answer, str) else "it answers otherwise than Python"
        raise ConfigError(
            f"{VARIABLE} must name a Python of 3.11 or later, and {python} cannot be asked for options: {why}"
        )
    return [[str(cell) for cell in row] for row in answer]


@lru_cache(maxsize=256)
def _declared(
    found: tuple[Installed, ...], python: str, paths: tuple[str, ...]
) -> dict[str, Declared]:
    del python, paths  # what it is kept by
    try:
        answers = _asked("describe", *(one.name for one in found))
    except _Unanswered as error:
        problem = f"cannot be imported: {error}"
        return {one.name: Declared(installed=one, problem=problem) for one in found}
    return {one.name: _read(one, answers[one.name]) for one in found}


class _BadDeclaration(ValueError):
    pass


class _Unanswered(Exception):
    """A process of ``loading`` gave no answer; the text says why."""


def _read(found: Installed, answer: dict[str, Any]) -> Declared:
    if answer.get("problem"):
        return Declared(installed=found, problem=str(answer["problem"]))
    try:
        return _taken(found, answer)
    except (BadSchema, _BadDeclaration) as error:
        return Declared(installed=found, problem=str(error))


def _taken(found: Installed, answer: dict[str, Any]) -> Declared:
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
    """What a process of ``loading`` prints. Raises _Unanswered."""
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
    except subprocess.TimeoutExpired as error:
        raise _Unanswered(f"takes longer than {LOAD_SECONDS:g} s") from error
    except OSError as error:
        raise _Unanswered(error.strerror or str(error)) from error
    except ValueError as error:
        raise _Unanswered("it ended the process") from error
