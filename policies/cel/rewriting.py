"""Trees that the engine cannot evaluate as they stand, or would evaluate differently on every replica.

- No Python function can return an optional: where Kubernetes' libraries do (``format.named``, ``validate``), ours
  return the bare value, and the call is wrapped in ``optional.ofNonZeroValue``.
- ``cel.@mapInsert``, which ``transformMap`` is made of, exists by name only: such calls are led to a function of ours.
- The order in which a map is iterated differs from process to process (its hash depends on where the process was
  loaded). So a loop over what may be a map runs over its sorted keys instead: ``m.map(k, k)`` gives the same list
  everywhere, and the first error is the same error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from policies.cel.library import functions
from policies.cel.library.maps import MAP_INSERT, OURS
from policies.cel.syntax import Call, Comprehension, Node, Tree, walk

_RANGE: Final = "@range"
_KEY: Final = "@key"
_KEYS: Final = "@keys"
_UNUSED: Final = "#unused"


@lru_cache(maxsize=1)
def _wrapped() -> frozenset[str]:
    return frozenset(function.name for function in functions() if function.is_optional)


def is_needed(root: Node, types: Mapping[int, Any]) -> bool:
    """Whether the engine must be given another tree."""
    return any(
        (isinstance(node, Call) and (node.function in _wrapped() or node.function == MAP_INSERT))
        or (isinstance(node, Comprehension) and not node.is_bind and not _is_list(node, types))
        for node in walk(root)
    )


def _is_list(node: Comprehension, types: Mapping[int, Any]) -> bool:
    type_ = types.get(node.iter_range.id)
    return type_ is not None and type_.WhichOneof("type_kind") == "list_type"


def rewritten(tree: Tree, types: Mapping[int, Any], root: Node | None = None) -> bytes:
    """The tree, or the part of it below ``root``, as the engine is to evaluate it; serialised."""
    message = type(tree.message)()
    message.CopyFrom(tree.message)
    message.expr.CopyFrom((root or tree.root).raw)
    lists = frozenset(
        node.id
        for node in walk(tree.root)
        if isinstance(node, Comprehension) and (node.is_bind or _is_list(node, types))
    )
    last = max(node.id for node in walk(tree.root))
    _Rewriter(type(message.expr), lists, last).visit(message.expr)
    return tree.serialized(message)


@dataclass(slots=True)
class _Rewriter:
    make: Any
    """The class of the messages of nodes."""
    lists: frozenset[int]
    """Loops over what is known to be a list."""
    last: int
    """The highest number of a node."""

    def visit(self, raw: Any) -> None:
        """Any message of the tree, from the leaves up."""
        for descriptor, value in raw.ListFields():
            if descriptor.message_type is not None:
                for part in value if descriptor.is_repeated else (value,):
                    self.visit(part)
        if raw.DESCRIPTOR.name != "Expr":
            return
        kind = raw.WhichOneof("expr_kind")
        if kind == "call_expr" and raw.call_expr.function in _wrapped():
            self._replace(raw, self._call("optional.ofNonZeroValue", self._copy(raw)))
        elif kind == "call_expr" and raw.call_expr.function == MAP_INSERT:
            raw.call_expr.function = OURS
        elif kind == "comprehension_expr" and raw.id not in self.lists:
            self._order(raw)

    def _order(self, raw: Any) -> None:
        loop = raw.comprehension_expr
        if not loop.iter_var2:
            ordered = self._bind(_RANGE, self._copy(loop.iter_range), self._items())
            loop.iter_range.CopyFrom(ordered)
            return
        if loop.accu_init.WhichOneof("expr_kind") != "list_expr":
            return  # all, exists and transformMap give the same in any order
        # Two variables: the keys of a map, or the indexes of a list; the second is looked up.
        range_ = self._copy(loop.iter_range)
        value, loop.iter_var2 = loop.iter_var2, ""
        for part in (loop.loop_condition, loop.loop_step):
            item = self._call("_[_]", self._ident(_RANGE), self._ident(loop.iter_var))
            part.CopyFrom(self._bind(value, item, self._copy(part)))
        loop.iter_range.CopyFrom(self._keys())
        self._replace(raw, self._bind(_RANGE, range_, self._copy(raw)))

    def _items(self) -> Any:
        """``type(r) == map ? r.map(k, k).sort() : r``."""
        return self._call("_?_:_", self._is_map(), self._sorted_keys(), self._ident(_RANGE))

    def _keys(self) -> Any:
        """``type(r) == map ? r.map(k, k).sort() : lists.range(size(r))``."""
        indexes = self._call("lists.range", self._call("size", self._ident(_RANGE)))
        return self._call("_?_:_", self._is_map(), self._sorted_keys(), indexes)

    def _is_map(self) -> Any:
        return self._call("_==_", self._call("type", self._ident(_RANGE)), self._ident("map"))

    def _sorted_keys(self) -> Any:
        keys = self._node()
        loop = keys.comprehension_expr
        loop.iter_var, loop.accu_var = _KEY, _KEYS
        loop.iter_range.CopyFrom(self._ident(_RANGE))
        loop.accu_init.CopyFrom(self._list())
        loop.loop_condition.CopyFrom(self._bool(value=True))
        step = self._call("_+_", self._ident(_KEYS), self._list(self._ident(_KEY)))
        loop.loop_step.CopyFrom(step)
        loop.result.CopyFrom(self._ident(_KEYS))
        sort = self._node()
        sort.call_expr.function = "sort"
        sort.call_expr.target.CopyFrom(keys)
        return sort

    def _bind(self, name: str, value: Any, body: Any) -> Any:
        """``cel.bind(name, value, body)``."""
        made = self._node()
        loop = made.comprehension_expr
        loop.iter_var, loop.accu_var = _UNUSED, name
        loop.iter_range.CopyFrom(self._list())
        loop.accu_init.CopyFrom(value)
        loop.loop_condition.CopyFrom(self._bool(value=False))
        loop.loop_step.CopyFrom(self._ident(name))
        loop.result.CopyFrom(body)
        return made

    def _call(self, function: str, *args: Any) -> Any:
        made = self._node()
        made.call_expr.function = function
        made.call_expr.args.extend(args)
        return made

    def _list(self, *elements: Any) -> Any:
        made = self._node()
        made.list_expr.elements.extend(elements)
        made.list_expr.SetInParent()
        return made

    def _ident(self, name: str) -> Any:
        made = self._node()
        made.ident_expr.name = name
        return made

    def _bool(self, *, value: bool) -> Any:
        made = self._node()
        made.const_expr.bool_value = value
        return made

    def _node(self) -> Any:
        self.last += 1
        return self.make(id=self.last)

    def _copy(self, raw: Any) -> Any:
        """Under a number of its own: what takes its place keeps the old one."""
        made = self.make()
        made.CopyFrom(raw)
        self.last += 1
        made.id = self.last
        return made

    @staticmethod
    def _replace(raw: Any, by: Any) -> None:
        number = raw.id
        raw.CopyFrom(by)
        raw.id = number
