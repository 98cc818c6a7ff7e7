"""Imports options of outside packages, in a process that may be killed. Standard library only.

``python -c BOOT OURS PATHS describe NAME...`` prints what options declare, or why they cannot be used; ``... list``
prints which are installed, without importing any.
"""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from policies.custom.declaration import GROUP, CustomOption

BOOT: Final = """
import importlib.util, json, sys
sys.path.extend(path for path in json.loads(sys.argv[2]) if path not in sys.path)
spec = importlib.util.spec_from_file_location("policies", sys.argv[1])
sys.modules["policies"] = ours = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ours)
from {module} import main
main(*sys.argv[3:])
"""
"""Of what is ours only ``policies`` is there, by its file: beside it may stand packages of the server's interpreter, which
are not for another one."""
MOST_MEMORY: Final = 2 * 1024 * 1024 * 1024
"""Bytes of address space of a process with options."""


class Unusable(Exception):
    """An option cannot be loaded; the text says why."""


def points() -> list[EntryPoint]:
    """What packages publish, in the order of names."""
    return sorted(entry_points(group=GROUP), key=lambda p: (p.name, p.value))


def listed(found: Iterable[EntryPoint]) -> list[list[str]]:
    """Name, object and package of each, without importing any."""
    return [[p.name, p.value, _package(p)] for p in found]


def _package(point: EntryPoint) -> str:
    dist = point.dist
    return f"{dist.name} {dist.version}" if dist is not None else "a package without a name"


def load(name: str) -> CustomOption:
    """Import one. Raises Unusable, whatever the package does short of ending the process."""
    found = [point for point in points() if point.name == name]
    if not found:
        raise Unusable("is not installed")
    if len(found) > 1:
        raise Unusable(f"is published twice: by {' and '.join(map(_package, found))}")
    [point] = found
    try:
        declared = point.load()
    except BaseException as error:  # a module may even exit while it is imported
        raise Unusable(f"cannot be imported: {told(error)}") from error
    if not isinstance(declared, CustomOption):
        raise Unusable(f"{point.value} must be a policies.custom.CustomOption")
    if not callable(declared.make):
        raise Unusable("has a make that cannot be called")
    if declared.name != name:
        raise Unusable(f"{point.value} calls itself {declared.name}")
    return declared


def told(error: BaseException) -> str:
    """An exception in one line of a bounded length."""
    try:
        text = " ".join(str(error).split())[:300]
    except BaseException:  # noqa: BLE001  # its own __str__ may raise
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def described(name: str) -> dict[str, Any]:
    """What an option declares, as JSON can have it; else ``problem``."""
    try:
        declared = load(name)
        found = {
            "args": declared.args,
            "summary": declared.summary,
            "modes": list(declared.modes),
            "lines": list(declared.lines),
            "backends": list(declared.backends),
            "example": declared.example,
        }
        json.dumps(found, allow_nan=False)
    except Unusable as unusable:
        return {"problem": str(unusable)}
    except BaseException as error:  # noqa: BLE001  # fields of any types
        return {"problem": f"declares what is not JSON: {told(error)}"}
    return found


def main(what: str, *names: str) -> None:
    """Print the answer as JSON to what was standard output; what a package prints goes nowhere."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    found = listed(points()) if what == "list" else {name: described(name) for name in names}
    with answer:
        json.dump(found, answer)
        answer.flush()
    # Not the usual way out: threads that a package has started would hold it up.
    os._exit(0)
