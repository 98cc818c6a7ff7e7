"""Which parts of the variables an expression reads, and cutting data down to them.

A path is the name of a variable and steps below it: a key, or ``*`` for every item of a list (or the whole of a map).
``podSets.all(p, p.spec.hostNetwork)`` reads ``("podSets", "*", "spec", "hostNetwork")``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

from policies.cel.shapes import VARIABLES
from policies.cel.syntax import Call, Comprehension, Const, Ident, Node, Select, children

ReadPath: TypeAlias = tuple[str, ...]
Trie: TypeAlias = "Mapping[str, Trie | None]"
"""Steps below a place; None: all that is there."""

ITEMS: Final = "*"
PRESENCE: Final = "\0"
"""Last step of a path of which only counts whether something is there, and whether it is null. No key has a NUL."""
_NONE: Final[frozenset[ReadPath]] = frozenset()
_ONLY_PRESENCE: Final = frozenset({PRESENCE})
_EQUALITY: Final = frozenset({"_==_", "_!=_"})
_INDEX: Final = frozenset({"_[_]", "_[?_]", "_?._"})
_SAME: Final = frozenset(
    {"orValue", "or", "value", "dyn", "optional.of", "optional.ofNonZeroValue"}
)
"""Functions whose result is one of what they were given."""


def reads_of(root: Node) -> frozenset[ReadPath]:
    """All paths, none of them below another. Paths below ``variables`` name the policy's own variables."""
    reader = _Reader()
    reader.consume(root, {})
    return minimal(reader.found)


def minimal(paths: Iterable[ReadPath]) -> frozenset[ReadPath]:
    """Without paths that lie below another."""
    every = set(paths)
    return frozenset(
        path for path in every if not any(path[:i] in every for i in range(1, len(path)))
    )


_Scope: TypeAlias = Mapping[str, frozenset[ReadPath]]


@dataclass(slots=True)
class _Reader:
    found: set[ReadPath] = field(default_factory=set)

    def consume(self, node: Node, scope: _Scope) -> None:
        """The value of the node is looked at as a whole."""
        self.found |= self.places(node, scope)

    def places(self, node: Node, scope: _Scope) -> frozenset[ReadPath]:
        """Where the value of the node may stand; nowhere if it is computed."""
        match node:
            case Ident():
                return scope[node.name] if node.name in scope else frozenset({(node.name,)})
            case Select():
                below = frozenset((*path, node.field) for path in self.places(node.operand, scope))
                if node.is_test:
                    self._present(below)
                    return _NONE
                return below
            case Call():
                return self._call(node, scope)
            case Comprehension():
                return self._comprehension(node, scope)
            case _:
                for child in children(node):
                    self.consume(child, scope)
                return _NONE

    def _call(self, node: Call, scope: _Scope) -> frozenset[ReadPath]:
        if node.function in _INDEX and len(node.args) == 2:
            base, index = node.args
            step = ITEMS
            if type(index) is Const and type(index.value) is str:
                step = index.value
            else:
                self.consume(index, scope)
            return frozenset((*path, step) for path in self.places(base, scope))
        if node.function in _SAME:
            return frozenset().union(*(self.places(child, scope) for child in children(node)))
        if node.function == "_?_:_" and len(node.args) == 3:
            condition, yes, no = node.args
            self.consume(condition, scope)
            return self.places(yes, scope) | self.places(no, scope)
        if node.function in _EQUALITY and any(map(_is_null, node.args)):
            for arg in node.args:
                self._present(self.places(arg, scope))
            return _NONE
        if node.function == "@in" and _is_text(node.args[0]):
            key = str(node.args[0].value)  # type: ignore[attr-defined]  # a Const, by _is_text
            self._present(frozenset((*path, key) for path in self.places(node.args[1], scope)))
            return _NONE
        for child in children(node):
            self.consume(child, scope)
        return _NONE

    def _present(self, places: frozenset[ReadPath]) -> None:
        self.found |= {(*path, PRESENCE) for path in places}

    def _comprehension(self, node: Comprehension, scope: _Scope) -> frozenset[ReadPath]:
        if node.is_bind:
            bound = {**scope, node.accu_var: self.places(node.accu_init, scope)}
            return self.places(node.result, bound)
        ranges = self.places(node.iter_range, scope)
        items = frozenset((*path, ITEMS) for path in ranges)
        self.consume(node.accu_init, scope)
        inner = {**scope, node.accu_var: _NONE, node.iter_var: items}
        if node.iter_var2:
            inner |= {node.iter_var: _NONE, node.iter_var2: items}
        for part in (node.condition, node.step):
            self.consume(part, inner)
        for path in items:
            # How many there are counts, even where the body looks at none of them.
            if not any(read[: len(path)] == path for read in self.found):
                self.found.add(path)
        return self.places(node.result, {**scope, node.accu_var: _NONE})


def _is_null(node: Node) -> bool:
    return type(node) is Const and node.value is None


def _is_text(node: Node) -> bool:
    return type(node) is Const and type(node.value) is str


@lru_cache(maxsize=1024)
def trie(paths: frozenset[ReadPath]) -> Trie:
    """Paths as a tree, by variable."""
    root: dict[str, Any] = {}
    for path in sorted(paths, key=len):
        node = root
        for step in path[:-1]:
            node = node.setdefault(step, {})
            if node is None:
                break
        else:
            node[path[-1]] = None
    return root


def cut(value: Any, below: Trie | None) -> Any:
    """What of a JSON value lies on the paths: missing stays missing, and an expression cannot tell the difference.

    Nothing is copied below the end of a path. ``below`` is one of the values of ``trie``.
    """
    if below is None:
        return value
    if below.keys() == _ONLY_PRESENCE:
        return {} if type(value) is dict else [] if type(value) is list else value
    if type(value) is dict:
        if ITEMS in below:
            return value
        return {name: cut(value[name], under) for name, under in below.items() if name in value}
    if type(value) is list and ITEMS in below:
        under = below[ITEMS]
        return value if under is None else [cut(item, under) for item in value]
    return value


def cut_all(data: Mapping[str, Any], paths: frozenset[ReadPath]) -> dict[str, Any]:
    """``cut`` for all variables; those that are not read are left out."""
    return {
        name: cut(data[name], below)
        for name, below in trie(paths).items()
        if name in data and name != VARIABLES
    }
