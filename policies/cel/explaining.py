"""The values of an expression's parts, for ``explain``.

The engine gives the value of any part: a tree with that part as its root is loaded and evaluated on the same data. Parts
inside of a loop have no value of their own, since the loop's variable has many.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from policies.cel import engine, rewriting
from policies.cel.activation import AnyActivation
from policies.cel.program import Program
from policies.cel.syntax import Call, Comprehension, Const, Ident, Node, Select, children
from policies.cel.values import EvaluationError, to_json

MOST_PARTS: Final = 64
"""Parts that are shown; each costs some 40 us to load."""


class Part(NamedTuple):
    """One part: its text, where it begins (from 0), how deep it stands, and its value or why it has none."""

    text: str
    offset: int
    level: int
    value: Any


def explain(program: Program, activation: AnyActivation) -> list[Part]:
    """The whole expression first, then its parts as they are read, at most 64.

    Left out: literals, names of whole variables, what stands in loops, and optionals, which have no JSON; a chain of
    fields is one part. Never raises.
    """
    parts: list[Part] = []
    for node, text, start, level in _named(program):
        value = _value(program, node, activation)
        if isinstance(value, EvaluationError) and value.reason == "type" and level:
            continue
        parts.append(Part(text, start, level, value))
        if len(parts) == MOST_PARTS:
            break
    return parts


def texts(program: Program) -> list[Part]:
    """The same parts without their values, for who has them evaluated elsewhere: each text is an expression."""
    found = islice(_named(program), MOST_PARTS)
    return [Part(text, start, level, None) for _, text, start, level in found]


def _named(program: Program) -> Iterator[tuple[Node, str, int, int]]:
    """Each part that is shown, its text, where it begins and how deep it stands."""
    seen: set[str] = set()
    for node, level in _parts(program.tree.root, 0):
        start, end = program.tree.span(node)
        text = program.text[start:end]
        if text not in seen:
            seen.add(text)
            yield node, text, start, level


def _parts(node: Node, level: int) -> Iterator[tuple[Node, int]]:
    if isinstance(node, Const):
        return
    if isinstance(node, Ident):
        if not level:
            yield node, level
        return
    yield node, level
    if isinstance(node, Comprehension):
        yield from _parts(node.accu_init if node.is_bind else node.iter_range, level + 1)
        return
    if _is_chain(node):
        return
    for child in children(node):
        yield from _parts(child, level + 1)


def _is_chain(node: Node) -> bool:
    """A variable and fields, with constant keys: nothing in it that is not seen from its value."""
    while True:
        match node:
            case Ident():
                return True
            case Select():
                node = node.operand
            case Call(function="_[_]" | "_[?_]" | "_?._", args=(base, Const())):
                node = base
            case Call(function="orValue", target=Node() as target, args=(Const(),)):
                node = target
            case _:
                return False


def _value(program: Program, node: Node, activation: AnyActivation) -> Any:
    if node is program.tree.root:
        found = program.run(program.expression, activation)
        return found if isinstance(found, EvaluationError) else to_json(found)
    try:
        expression = engine.evaluation().deserialize(
            rewriting.rewritten(program.tree, program.types, node)
        )
    except (RuntimeError, ValueError) as error:
        return EvaluationError(str(error))
    found = program.run(expression, activation)
    return found if isinstance(found, EvaluationError) else to_json(found)
