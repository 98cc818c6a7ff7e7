"""What a function of ours is declared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from policies.cel.descriptors import types

DYN: Final = "dyn"
BOOL: Final = "bool"
INT: Final = "int"
DOUBLE: Final = "double"
STRING: Final = "string"
STRINGS: Final = "list<string>"
LIST: Final = "list<dyn>"
QUANTITY: Final = "kubernetes.Quantity"
URL: Final = "kubernetes.URL"
SEMVER: Final = "kubernetes.Semver"
FORMAT: Final = "kubernetes.NamedFormat"
IP: Final = "net.IP"
CIDR: Final = "net.CIDR"

Overload = tuple[tuple[str, ...], str]
"""Types of the parameters (the receiver of a member function first) and of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function.

    The runtime tells overloads apart by the kind of their arguments alone (bool, int, list, message, ...), so two
    that differ in the type of a message or of a list's items share one implementation: ``overloads`` are what the
    checker is told, ``runtime`` what is registered, one for each combination of kinds.

    ``impl`` gets plain Python values, and messages with one field ``text`` for the types of the libraries; it raises
    ValueError where CEL has an error. It is deterministic and linear in the size of its arguments.
    """

    library: str
    name: str
    overloads: tuple[Overload, ...]
    runtime: tuple[Overload, ...]
    impl: Callable[..., Any]
    is_member: bool = False
    is_optional: bool = False
    """Whether the result stands in an optional, which the runtime takes from no Python function: the call is
    wrapped in ``optional.ofNonZeroValue``."""


def value(type_name: str, text: str) -> Any:
    """A value of one of the libraries' types."""
    return types().values[type_name](text=text)


def type_of(message: Any) -> str:
    """The type of such a value."""
    name: str = message.DESCRIPTOR.full_name
    return name
