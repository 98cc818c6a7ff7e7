"""What in an expression could take long, or much memory: such a one is evaluated where it can be stopped.

The engine bounds the steps of loops (10,000 in an evaluation), but neither bytes nor the work within a step: texts
that double in a chain of ``map`` take gigabytes, a regex over 100 KB in each step takes seconds. What is allowed in
process is therefore listed, and all else is a risk:

- outside of loops: anything linear in its argument, a bounded number of times; no regex, no function that makes a text
  many times as long as what it was given, nothing quadratic;
- in a loop: what takes no longer for longer data, and linear functions of the item itself, or of a part of it, so that
  all steps together cost no more than one pass over the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from policies.cel.library import functions
from policies.cel.library.maps import MAP_INSERT
from policies.cel.syntax import (
    Call,
    Comprehension,
    Const,
    Ident,
    ListOf,
    Node,
    Select,
    Struct,
    children,
)

MOST_JOINS: Final = 32
"""``+`` on texts and lists outside of loops."""
MOST_LINEAR: Final = 64
"""Linear functions outside of loops; at 1 MiB of data each takes about a millisecond."""
MOST_PARTS: Final = 64
"""Mentions of lists and maps of the data: comparing two of 1 MiB takes some 20 ms."""
MOST_PYTHON_IN_LOOPS: Final = 4
"""Calls of our own functions within loops: some 10 us each, 10,000 times."""

_REGEX: Final = frozenset({"matches", "find", "findAll"})
_GROWING: Final = frozenset({"format", "replace", "join", "split", "lists.range", "strings.quote"})
_QUADRATIC: Final = frozenset({MAP_INSERT, "distinct", "flatten", "sort", "@sortByAssociatedKeys"})
_MACROS: Final = {MAP_INSERT: "transformMap", "@sortByAssociatedKeys": "sortBy"}
_SETS: Final = frozenset({"sets.contains", "sets.equivalent", "sets.intersects"})
_EQUALITY: Final = frozenset({"_==_", "_!=_"})
_CHEAP: Final = frozenset(
    [
        "!_",
        "-_",
        "_&&_",
        "_||_",
        "_?_:_",
        "_<_",
        "_<=_",
        "_>_",
        "_>=_",
        "_-_",
        "_*_",
        "_/_",
        "_%_",
        "_[_]",
        "_[?_]",
        "_?._",
        "@not_strictly_false",
        "__not_strictly_false__",
        "startsWith",
        "endsWith",
        "orValue",
        "or",
        "value",
        "hasValue",
        "optional.of",
        "optional.none",
        "optional.ofNonZeroValue",
        "dyn",
        "type",
        "int",
        "uint",
        "double",
        "bool",
        "duration",
        "timestamp",
        "first",
        "last",
        "getFullYear",
        "getMonth",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
        "cel.@block",
    ]
)
_SCALARS: Final = frozenset({1, 2, 3, 4})
"""bool, int64, uint64, double, as ``Type.PrimitiveType`` numbers them."""
_STRING: Final = 5


def risks_of(root: Node, types: Mapping[int, Any]) -> tuple[str, ...]:
    """Why it may not run in process; empty where it may. ``types``: static types of the nodes, as far as known."""
    walk = _Walk(types=types, ours=frozenset(function.name for function in functions()))
    found = dict.fromkeys(walk.risks(root, _Loops()))
    if walk.joins > MOST_JOINS:
        found[f"more than {MOST_JOINS} times + on texts or lists"] = None
    if walk.linear > MOST_LINEAR:
        found[f"more than {MOST_LINEAR} functions over whole texts or lists"] = None
    if walk.parts > MOST_PARTS:
        found[f"more than {MOST_PARTS} mentions of whole lists or maps"] = None
    if walk.python > MOST_PYTHON_IN_LOOPS:
        found[f"more than {MOST_PYTHON_IN_LOOPS} functions of Kubernetes' libraries in loops"] = (
            None
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Loops:
    """The loops around a node."""

    depth: int = 0
    local: frozenset[str] = frozenset()
    """Variables such that all their values together are no more than the data."""
    items: frozenset[str] = frozenset()
    """All variables of loops."""
    accumulators: frozenset[str] = frozenset()
    bound: Mapping[str, str] = field(default_factory=dict)
    """Name that ``cel.bind`` gave -> the name that its value is a part of."""
    computed: frozenset[str] = frozenset()
    """Names of values that are no part of the data, and may have been made of others: these can double."""


@dataclass(slots=True)
class _Walk:
    types: Mapping[int, Any]
    ours: frozenset[str]
    joins: int = 0
    linear: int = 0
    python: int = 0
    parts: int = 0

    def risks(self, node: Node, loops: _Loops) -> Iterator[str]:
        if isinstance(node, Comprehension):
            yield from self._comprehension(node, loops)
            return
        if isinstance(node, Call):
            yield from self._call(node, loops)
        elif isinstance(node, ListOf | Struct) and self._doubles(node, loops):
            yield "a list or map that holds what was computed more than once"
        if self._origin(node, loops):
            self.parts += not self._is_scalar(node)
            yield from self._indexes(node, loops)
            return
        for child in children(node):
            yield from self.risks(child, loops)

    def _comprehension(self, node: Comprehension, loops: _Loops) -> Iterator[str]:
        yield from self.risks(node.iter_range, loops)
        yield from self.risks(node.accu_init, loops)
        if node.is_bind:
            yield from self.risks(node.result, self._with_bind(node, loops))
            return
        origin = self._origin(node.iter_range, loops)
        is_local = loops.depth == 0 or origin in loops.local
        is_computed = not origin or origin in loops.computed
        names = frozenset({node.iter_var, node.iter_var2} - {""})
        inner = _Loops(
            depth=loops.depth + 1,
            local=names if is_local else frozenset(),
            items=loops.items | names,
            accumulators=loops.accumulators | {node.accu_var},
            bound={k: v for k, v in loops.bound.items() if k not in names},
            computed=(loops.computed | names) if is_computed else loops.computed - names,
        )
        yield from self.risks(node.condition, inner)
        yield from self.risks(node.step, inner)
        yield from self.risks(node.result, loops)

    def _with_bind(self, node: Comprehension, loops: _Loops) -> _Loops:
        origin, name = self._origin(node.accu_init, loops), node.accu_var
        bound = {key: value for key, value in loops.bound.items() if key != name}
        if origin:
            return replace(loops, bound={**bound, name: origin}, computed=loops.computed - {name})
        small = self._is_small(node.accu_init)
        computed = loops.computed - {name} if small else loops.computed | {name}
        return replace(loops, bound=bound, computed=computed, local=loops.local - {name})

    def _doubles(self, node: Node, loops: _Loops) -> bool:
        return sum(1 for _ in self._computed_parts(node, loops)) > 1

    def _computed_parts(self, node: Node, loops: _Loops) -> Iterator[Node]:
        """Mentions below a literal of what was computed, and has a size."""
        for child in children(node):
            origin = self._origin(child, loops)
            if not origin:
                yield from self._computed_parts(child, loops)
            elif origin in loops.computed and not self._is_scalar(child):
                yield child

    def _indexes(self, node: Node, loops: _Loops) -> Iterator[str]:
        """What stands in the brackets of a chain of fields."""
        while not isinstance(node, Ident):
            if isinstance(node, Call):
                for arg in node.args[1:] if node.target is None else node.args:
                    yield from self.risks(arg, loops)
            node = children(node)[0]

    def _is_scalar(self, node: Node) -> bool:
        return self._primitive(node) != 0

    def _call(self, node: Call, loops: _Loops) -> Iterator[str]:
        name = node.function
        if name in _REGEX or name.startswith("regex."):
            yield f"a regular expression ({name})"
        elif name in _GROWING:
            yield f"{name}(), which can make a text or list many times as long"
        elif name in _QUADRATIC:
            shown = _MACROS.get(name, name)
            yield f"{shown}(), which takes long for long lists"
        elif name in _SETS and not any(isinstance(arg, ListOf) for arg in node.args):
            yield f"{name}() of two lists of any length"
        elif name == "_+_":
            yield from self._plus(node, loops)
        elif name in _EQUALITY:
            if loops.depth and not any(self._is_quick(arg, loops) for arg in node.args):
                yield "a comparison of whole objects in a loop"
        elif name in self.ours and loops.depth:
            self.python += 1
            yield from self._linear(node, loops)
        elif name not in _CHEAP and not name.startswith("math."):
            yield from self._linear(node, loops)

    def _plus(self, node: Call, loops: _Loops) -> Iterator[str]:
        if all(self._primitive(arg) in _SCALARS for arg in node.args):
            return
        left = node.args[0]
        if isinstance(left, Ident) and left.name in loops.accumulators:
            right = node.args[-1]
            if isinstance(right, ListOf):
                return  # what the macros map and filter are made of
        if loops.depth:
            yield "+ in a loop"
        elif any(self._origin(arg, loops) in loops.computed for arg in node.args):
            yield "+ on what was computed before"
        else:
            self.joins += 1

    def _linear(self, node: Call, loops: _Loops) -> Iterator[str]:
        if not loops.depth:
            self.linear += 1
            return
        for child in children(node):
            # What is computed is judged where it is computed.
            if self._is_small(child) or self._origin(child, loops) in loops.local | {""}:
                continue
            yield f"{node.function.lstrip('@')}() in a loop, of something that is no part of the item"
            return

    def _origin(self, node: Node, loops: _Loops) -> str:
        """The variable that the value is a part of; empty if it is computed."""
        while True:
            match node:
                case Ident():
                    return loops.bound.get(node.name, node.name)
                case Select():
                    node = node.operand
                case Call() if node.function in ("_[_]", "_[?_]", "_?._"):
                    node = node.args[0]
                case Call() if node.function == "orValue" and node.target is not None:
                    if not all(map(self._is_small, node.args)):
                        return ""
                    node = node.target
                case _:
                    return ""

    def _is_small(self, node: Node) -> bool:
        """A literal, or a value of a type that has no size."""
        if isinstance(node, Const):
            return True
        if isinstance(node, ListOf | Struct):
            return all(map(self._is_small, children(node)))
        return self._primitive(node) in _SCALARS

    def _is_quick(self, node: Node, loops: _Loops) -> bool:
        """Whether a comparison with it is: texts of the items of a loop are no longer than the data all together."""
        if self._is_small(node):
            return True
        return self._primitive(node) == _STRING and self._origin(node, loops) in loops.items

    def _primitive(self, node: Node) -> int:
        if isinstance(node, Const):
            return {bool: 1, int: 2, float: 4, str: _STRING}.get(type(node.value), 0)
        type_ = self.types.get(node.id)
        if type_ is None or type_.WhichOneof("type_kind") != "primitive":
            return 0
        return int(type_.primitive)
