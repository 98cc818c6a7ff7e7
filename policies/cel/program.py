"""A compiled expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from plugins.framework.field import Path
from policies.cel.activation import Activation, AnyActivation
from policies.cel.reads import ReadPath
from policies.cel.syntax import Node, Tree
from policies.cel.values import EvaluationError, Result, evaluate, to_json, to_native

if TYPE_CHECKING:
    from cel_expr_python import cel

Wants = Literal["bool", "string", "text", "any"]
"""``text`` is a string or null."""


class Given(NamedTuple):
    """What an expression may give where not any value will do."""

    kinds: tuple[str, ...]
    """Names of the engine's types."""
    words: str
    as_types: str
    """The same with the names that types have in CEL."""


GIVEN: Final[Mapping[str, Given]] = {
    "bool": Given(("BOOL",), "true or false", "true or false (bool)"),
    "string": Given(("STRING",), "a text", "a text (string)"),
    "text": Given(("STRING", "NULL"), "a text, or null", "a text (string), or null"),
}
"""By what is wanted of it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """One expression, compiled; evaluation changes nothing in it, so it is shared by all requests."""

    text: str
    path: Path
    wants: Wants
    reads: frozenset[ReadPath]
    """Paths of the data that it reads, those that its variables read included."""
    variables: frozenset[str]
    """The policy's own variables that it reads itself."""
    risks: tuple[str, ...]
    """What in it could take long or much memory; see ``policies.cel.risk``."""
    tree: Tree = field(repr=False)
    types: Mapping[int, Any] = field(repr=False)
    """The static type of each node, as far as it is known."""
    type: cel.Type = field(repr=False)
    """The static type, checked against the typed variables."""
    expression: cel.Expression = field(repr=False)
    roots: frozenset[str] = field(repr=False)
    """The variables whose data it reads."""

    @property
    def is_risky(self) -> bool:
        """Whether it must be evaluated where it can be stopped."""
        return bool(self.risks)

    def evaluate(self, activation: AnyActivation) -> Any | EvaluationError:
        """The value as JSON. Never raises; True only where the expression is true."""
        result = self.run(self.expression, activation)
        if isinstance(result, EvaluationError):
            return result
        given = GIVEN.get(self.wants)
        if given is not None and result.kind not in given.kinds:
            return EvaluationError(
                f"must be {given.words}, is of type {result.kind.lower()}", "type"
            )
        return to_json(result)

    def native(self, activation: AnyActivation) -> Any | EvaluationError:
        """The value as the engine takes it back: for variables."""
        result = self.run(self.expression, activation)
        return result if isinstance(result, EvaluationError) else to_native(result)

    def run(
        self, expression: cel.Expression, activation: AnyActivation
    ) -> Result | EvaluationError:
        """Evaluate this expression, or a part of it, on the data."""
        fault = activation.fault(self.roots)
        if fault is not None:
            return fault
        if isinstance(activation, Activation):
            return evaluate(expression, activation.bound())
        result = evaluate(expression, activation.bound(self.variables))
        if isinstance(result, EvaluationError):
            return activation.error_behind(result, self.variables) or result
        return result

    def source_of(self, node: Node) -> str:
        """The text of a part, printed from the tree."""
        return self.tree.source_of(node)
