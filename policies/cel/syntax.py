"""The syntax tree of an expression, read from what the engine serialises, and found again in its text.

The messages are those of ``cel.expr`` (``syntax.proto`` and ``checked.proto`` of cel-spec), declared here as far as
they are read. What is not declared survives parsing and serialising as unknown fields, so a tree can be given back to
the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

from policies.cel.source import Source

CHECKED: Final = "type.googleapis.com/cel.expr.CheckedExpr"

_STRING: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_BYTES: Final = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
_INT64: Final = descriptor_pb2.FieldDescriptorProto.TYPE_INT64
_UINT64: Final = descriptor_pb2.FieldDescriptorProto.TYPE_UINT64
_INT32: Final = descriptor_pb2.FieldDescriptorProto.TYPE_INT32
_DOUBLE: Final = descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE
_BOOL: Final = descriptor_pb2.FieldDescriptorProto.TYPE_BOOL
_MESSAGE: Final = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_MANY: Final = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
_ONE: Final = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL


class _F(NamedTuple):
    """A field of a message: number, name, type (a number of descriptor.proto, or the name of a message)."""

    number: int
    name: str
    type: int | str
    many: bool = False
    oneof: str = ""


_MESSAGES: Final[Mapping[str, tuple[_F, ...]]] = {
    "Ident": (_F(1, "name", _STRING),),
    "Select": (_F(1, "operand", "Expr"), _F(2, "field", _STRING), _F(3, "test_only", _BOOL)),
    "Call": (
        _F(1, "target", "Expr"),
        _F(2, "function", _STRING),
        _F(3, "args", "Expr", many=True),
    ),
    "CreateList": (
        _F(1, "elements", "Expr", many=True),
        _F(2, "optional_indices", _INT32, many=True),
    ),
    "Entry": (
        _F(1, "id", _INT64),
        _F(2, "field_key", _STRING, oneof="key_kind"),
        _F(3, "map_key", "Expr", oneof="key_kind"),
        _F(4, "value", "Expr"),
        _F(5, "optional_entry", _BOOL),
    ),
    "CreateStruct": (_F(1, "message_name", _STRING), _F(2, "entries", "Entry", many=True)),
    "Comprehension": (
        _F(1, "iter_var", _STRING),
        _F(8, "iter_var2", _STRING),
        _F(2, "iter_range", "Expr"),
        _F(3, "accu_var", _STRING),
        _F(4, "accu_init", "Expr"),
        _F(5, "loop_condition", "Expr"),
        _F(6, "loop_step", "Expr"),
        _F(7, "result", "Expr"),
    ),
    "Constant": (
        _F(1, "null_value", _INT32, oneof="constant_kind"),
        _F(2, "bool_value", _BOOL, oneof="constant_kind"),
        _F(3, "int64_value", _INT64, oneof="constant_kind"),
        _F(4, "uint64_value", _UINT64, oneof="constant_kind"),
        _F(5, "double_value", _DOUBLE, oneof="constant_kind"),
        _F(6, "string_value", _STRING, oneof="constant_kind"),
        _F(7, "bytes_value", _BYTES, oneof="constant_kind"),
    ),
    "Expr": (
        _F(2, "id", _INT64),
        _F(3, "const_expr", "Constant", oneof="expr_kind"),
        _F(4, "ident_expr", "Ident", oneof="expr_kind"),
        _F(5, "select_expr", "Select", oneof="expr_kind"),
        _F(6, "call_expr", "Call", oneof="expr_kind"),
        _F(7, "list_expr", "CreateList", oneof="expr_kind"),
        _F(8, "struct_expr", "CreateStruct", oneof="expr_kind"),
        _F(9, "comprehension_expr", "Comprehension", oneof="expr_kind"),
    ),
    "ListType": (_F(1, "elem_type", "Type"),),
    "MapType": (_F(1, "key_type", "Type"), _F(2, "value_type", "Type")),
    "AbstractType": (_F(1, "name", _STRING), _F(2, "parameter_types", "Type", many=True)),
    "Type": (
        _F(6, "list_type", "ListType", oneof="type_kind"),
        _F(7, "map_type", "MapType", oneof="type_kind"),
        _F(9, "message_type", _STRING, oneof="type_kind"),
        _F(3, "primitive", _INT32, oneof="type_kind"),
        _F(11, "type", "Type", oneof="type_kind"),
        _F(14, "abstract_type", "AbstractType", oneof="type_kind"),
    ),
    # Maps are lists of entries on the wire.
    "TypeEntry": (_F(1, "key", _INT64), _F(2, "value", "Type")),
    "PositionEntry": (_F(1, "key", _INT64), _F(2, "value", _INT32)),
    "SourceInfo": (_F(4, "positions", "PositionEntry", many=True),),
    "CheckedExpr": (
        _F(3, "type_map", "TypeEntry", many=True),
        _F(4, "expr", "Expr"),
        _F(5, "source_info", "SourceInfo"),
    ),
    "ParsedExpr": (_F(2, "expr", "Expr"), _F(3, "source_info", "SourceInfo")),
}
"""The two messages hold the tree under different numbers; nothing else differs for us."""


@lru_cache(maxsize=1)
def _classes() -> Mapping[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="stationmaster/cel_syntax.proto", package="cel.expr", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        oneofs: dict[str, int] = {}
        for spec in fields:
            one = message.field.add(
                name=spec.name, number=spec.number, label=_MANY if spec.many else _ONE
            )
            if isinstance(spec.type, str):
                one.type = _MESSAGE
                one.type_name = f".cel.expr.{spec.type}"
            else:
                one.type = spec.type  # type: ignore[assignment]  # the stubs' enum is an int
            if spec.oneof:
                if spec.oneof not in oneofs:
                    oneofs[spec.oneof] = len(oneofs)
                    message.oneof_decl.add(name=spec.oneof)
                one.oneof_index = oneofs[spec.oneof]
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"cel.expr.{name}"))
        for name in ("CheckedExpr", "ParsedExpr")
    }


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One node. ``raw`` is its message, for making a tree with it as the root."""

    id: int
    raw: Any


@dataclass(frozen=True, slots=True, eq=False)
class Const(Node):
    """A literal: None, bool, int, float, str or bytes."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Ident(Node):
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    """``operand.field``, or ``has(operand.field)``."""

    operand: Node
    field: str
    is_test: bool


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """A function or operator; ``target`` for a member function."""

    function: str
    target: Node | None
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListOf(Node):
    """A list literal; ``optional`` are the indexes of ``?element``."""

    elements: tuple[Node, ...]
    optional: frozenset[int]


class Entry(NamedTuple):
    """One entry of a map literal (``key`` a node) or of a message (``key`` its field)."""

    key: Node | str
    value: Node
    is_optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class Struct(Node):
    """A map literal, or a message where it has a name."""

    name: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension(Node):
    """What the macros become: ``all``, ``exists``, ``map``, ``cel.bind``, ..."""

    iter_var: str
    iter_var2: str
    iter_range: Node
    accu_var: str
    accu_init: Node
    condition: Node
    step: Node
    result: Node

    @property
    def is_bind(self) -> bool:
        """Whether it is ``cel.bind``: no loop, only a name for a value."""
        return type(self.iter_range) is ListOf and not self.iter_range.elements


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree, with the source it came from."""

    text: str
    root: Node
    message: Any
    is_checked: bool
    positions: Mapping[int, int]
    """Offset in code points of each node; of operators, where the operator stands."""
    source: Source
    types: Mapping[int, Any] = field(default_factory=dict)
    """The message of the static type of each node; empty where nothing was checked."""

    def serialized(self, message: Any) -> bytes:
        """A message of the same kind as this tree's, as the engine reads it."""
        kind = "CheckedExpr" if self.is_checked else "ParsedExpr"
        wrapped = any_pb2.Any(
            type_url=f"type.googleapis.com/cel.expr.{kind}", value=message.SerializeToString()
        )
        return wrapped.SerializeToString()

    def source_of(self, node: Node) -> str:
        """The part of the text that became this node."""
        start, end = self.span(node)
        return self.text[start:end]

    def span(self, node: Node) -> tuple[int, int]:
        """Where that part begins and ends."""
        return self.source.span(
            self.positions[one.id] for one in walk(node) if one.id in self.positions
        )


def read(text: str, serialized: bytes) -> Tree:
    """Read what ``Expression.serialize()`` of the engine gives."""
    wrapped = any_pb2.Any.FromString(serialized)
    checked = wrapped.type_url == CHECKED
    message = _classes()["CheckedExpr" if checked else "ParsedExpr"].FromString(wrapped.value)
    source = message.source_info
    return Tree(
        text=text,
        root=_node(message.expr),
        message=message,
        is_checked=checked,
        positions={entry.key: entry.value for entry in source.positions},
        source=Source(text),
        types={entry.key: entry.value for entry in message.type_map} if checked else {},
    )


def read_types(serialized: bytes) -> Mapping[int, Any]:
    """The static types alone, of a tree that was checked."""
    wrapped = any_pb2.Any.FromString(serialized)
    message = _classes()["CheckedExpr"].FromString(wrapped.value)
    return {entry.key: entry.value for entry in message.type_map}


def _node(raw: Any) -> Node:
    """Depth is bounded: the engine's parser takes 32 levels, and macros add a few to each."""
    kind = raw.WhichOneof("expr_kind")
    match kind:
        case "const_expr":
            name = raw.const_expr.WhichOneof("constant_kind")
            value = None if name in (None, "null_value") else getattr(raw.const_expr, name)
            return Const(raw.id, raw, value)
        case "ident_expr":
            return Ident(raw.id, raw, raw.ident_expr.name)
        case "select_expr":
            select = raw.select_expr
            return Select(raw.id, raw, _node(select.operand), select.field, select.test_only)
        case "call_expr":
            call = raw.call_expr
            target = _node(call.target) if call.HasField("target") else None
            return Call(raw.id, raw, call.function, target, tuple(map(_node, call.args)))
        case "list_expr":
            made = raw.list_expr
            elements = tuple(map(_node, made.elements))
            return ListOf(raw.id, raw, elements, frozenset(made.optional_indices))
        case "struct_expr":
            struct = raw.struct_expr
            entries = tuple(_entry(entry) for entry in struct.entries)
            return Struct(raw.id, raw, struct.message_name, entries)
        case "comprehension_expr":
            loop = raw.comprehension_expr
            return Comprehension(
                raw.id,
                raw,
                loop.iter_var,
                loop.iter_var2,
                _node(loop.iter_range),
                loop.accu_var,
                _node(loop.accu_init),
                _node(loop.loop_condition),
                _node(loop.loop_step),
                _node(loop.result),
            )
        case _:
            return Node(raw.id, raw)


def _entry(raw: Any) -> Entry:
    key = raw.field_key if raw.WhichOneof("key_kind") == "field_key" else _node(raw.map_key)
    return Entry(key, _node(raw.value), raw.optional_entry)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below, in the order of evaluation."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.args if node.target is None else (node.target, *node.args)
        case ListOf():
            return node.elements
        case Struct():
            return tuple(
                part
                for entry in node.entries
                for part in (
                    (entry.key, entry.value) if isinstance(entry.key, Node) else (entry.value,)
                )
            )
        case Comprehension():
            return (node.iter_range, node.accu_init, node.condition, node.step, node.result)
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, parents first."""
    stack = [node]
    while stack:
        one = stack.pop()
        yield one
        stack.extend(reversed(children(one)))
