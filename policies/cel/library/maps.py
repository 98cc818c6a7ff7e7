"""What ``transformMap`` and ``transformMapEntry`` are made of (``cel-go``, ``ext/comprehensions.go``).

The engine parses the two macros and lacks the function that they call, ``cel.@mapInsert``; calls of that are led here.
"""

from __future__ import annotations

from typing import Any, Final

from policies.cel.library.function import DYN, Function, Overload

MAP_INSERT: Final = "cel.@mapInsert"
"""As the macros call it; nobody can declare a function of that name anew."""
OURS: Final = "stationmaster.mapInsert"
_MAP: Final = "map<dyn, dyn>"


def functions() -> tuple[Function, ...]:
    """The library."""
    overloads: tuple[Overload, ...] = (((_MAP, DYN, DYN), _MAP), ((_MAP, _MAP), _MAP))
    return (
        Function(
            library="two-variable comprehensions",
            name=OURS,
            overloads=overloads,
            runtime=overloads,
            impl=_insert,
        ),
    )


def _insert(into: dict[Any, Any], *added: Any) -> dict[Any, Any]:
    entries = {added[0]: added[1]} if len(added) == 2 else added[0]
    for key in entries:
        if key in into:
            raise ValueError(f"insert failed: key {key!r} already exists")
    return {**into, **entries}
