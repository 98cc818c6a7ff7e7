"""Protobuf types that the engine is told of: values of Kubernetes' libraries, and the shapes of the variables.

The engine checks field names and types of expressions only for protobuf messages. Evaluation runs on plain JSON; the
messages of the variables are for the checker alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from policies.cel.shapes import Shape, variables

PACKAGE: Final = "stationmaster"
TEXT: Final = "text"
"""The one field of the messages that stand for values of Kubernetes' libraries."""
VALUES: Final = (
    "kubernetes.Quantity",
    "kubernetes.URL",
    "kubernetes.Semver",
    "kubernetes.NamedFormat",
    "net.IP",
    "net.CIDR",
)
_WELL_KNOWN: Final = (any_pb2, struct_pb2, timestamp_pb2, duration_pb2, wrappers_pb2, empty_pb2)
_F: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final[Mapping[str, Any]] = {
    "string": _F.TYPE_STRING,
    "int": _F.TYPE_INT64,
    "bool": _F.TYPE_BOOL,
    "double": _F.TYPE_DOUBLE,
}


@dataclass(frozen=True, slots=True)
class Types:
    """The pool that the engine looks types up in, and what is in it."""

    pool: descriptor_pool.DescriptorPool
    variables: Mapping[str, str]
    """Variable -> its type, as the engine spells types."""
    fields: Mapping[str, tuple[str, ...]]
    """Message (``stationmaster.TrainJobSpec``) -> names of its fields."""
    titles: Mapping[str, str]
    """Message -> where it stands, for messages: ``object.spec``."""
    values: Mapping[str, Any]
    """Message of a library -> its class."""


@dataclass(slots=True)
class _Builder:
    file: descriptor_pb2.FileDescriptorProto
    names: dict[int, str] = field(default_factory=dict)
    """Identity of a shape -> its message: shapes are shared, and messages with them."""
    kept: list[Shape] = field(default_factory=list)
    fields: dict[str, tuple[str, ...]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)

    def message(self, shape: Shape, title: str) -> str:
        """The name of the message of an object with known fields."""
        if id(shape) in self.names:
            return self.names[id(shape)]
        name = f"T{len(self.names)}"
        self.names[id(shape)] = name
        self.kept.append(shape)
        self.fields[f"{PACKAGE}.{name}"] = tuple(shape.fields)
        self.titles[f"{PACKAGE}.{name}"] = title
        message = self.file.message_type.add(name=name)
        for number, (key, child) in enumerate(shape.fields.items(), start=1):
            self._field(message, key, number, child, f"{title}.{key}")
        return name

    def _field(
        self,
        message: descriptor_pb2.DescriptorProto,
        key: str,
        number: int,
        shape: Shape,
        title: str,
    ) -> None:
        one = message.field.add(name=key, number=number, label=_F.LABEL_OPTIONAL, json_name=key)
        if (
            shape.kind == "list"
            and shape.items is not None
            and shape.items.kind not in ("list", "map")
        ):
            one.label = _F.LABEL_REPEATED
            self._type(one, shape.items, f"{title}[]")
        elif (
            shape.kind == "map"
            and shape.items is not None
            and shape.items.kind not in ("list", "map")
        ):
            # protoc's own name for it; the engine refuses any other.
            entry = message.nested_type.add(name=f"{key[:1].upper()}{key[1:]}Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=_F.TYPE_STRING, label=_F.LABEL_OPTIONAL)
            value = entry.field.add(name="value", number=2, label=_F.LABEL_OPTIONAL)
            self._type(value, shape.items, f"{title}[]")
            one.label = _F.LABEL_REPEATED
            one.type = _F.TYPE_MESSAGE
            one.type_name = f".{PACKAGE}.{message.name}.{entry.name}"
        else:
            self._type(one, shape, title)

    def _type(self, one: descriptor_pb2.FieldDescriptorProto, shape: Shape, title: str) -> None:
        if shape.kind in _SCALARS:
            one.type = _SCALARS[shape.kind]
        else:
            one.type = _F.TYPE_MESSAGE
            one.type_name = (
                f".{PACKAGE}.{self.message(shape, title)}"
                if shape.kind == "object"
                else ".google.protobuf.Value"
            )

    def spelled(self, shape: Shape, title: str) -> str:
        """A type as the engine spells it."""
        match shape.kind:
            case "object":
                return f"{PACKAGE}.{self.message(shape, title)}"
            case "list":
                return f"list<{self.spelled(shape.items or Shape('dyn'), f'{title}[]')}>"
            case "map":
                return f"map<string, {self.spelled(shape.items or Shape('dyn'), f'{title}[]')}>"
            case _:
                return shape.kind


@lru_cache(maxsize=1)
def types() -> Types:
    """All types, made when first asked for (some 10 ms)."""
    pool = descriptor_pool.DescriptorPool()
    for module in _WELL_KNOWN:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for file in _value_files():
        pool.AddSerializedFile(file.SerializeToString())
    builder = _Builder(
        descriptor_pb2.FileDescriptorProto(
            name="stationmaster/variables.proto",
            package=PACKAGE,
            syntax="proto3",
            dependency=["google/protobuf/struct.proto"],
        )
    )
    spelled = {name: builder.spelled(shape, name) for name, shape in variables().items()}
    pool.AddSerializedFile(builder.file.SerializeToString())
    return Types(
        pool=pool,
        variables=spelled,
        fields=builder.fields,
        titles=builder.titles,
        values={
            name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
            for name in VALUES
        },
    )


def _value_files() -> Iterator[descriptor_pb2.FileDescriptorProto]:
    for package in sorted({name.partition(".")[0] for name in VALUES}):
        file = descriptor_pb2.FileDescriptorProto(
            name=f"stationmaster/{package}.proto", package=package, syntax="proto3"
        )
        for name in VALUES:
            if name.startswith(f"{package}."):
                message = file.message_type.add(name=name.partition(".")[2])
                message.field.add(name=TEXT, number=1, type=_F.TYPE_STRING, label=_F.LABEL_OPTIONAL)
        yield file
