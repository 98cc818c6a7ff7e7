"""Compiling an expression: limits, types, names that were meant, and what the engine must never be given."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import field
from plugins.framework.field import FieldError
from policies.cel import engine, optionals, rewriting
from policies.cel.descriptors import PACKAGE, types
from policies.cel.engine import Compiled, Issue
from policies.cel.library import regex
from policies.cel.library.maps import MAP_INSERT
from policies.cel.program import GIVEN, Program, Wants
from policies.cel.reads import minimal, reads_of
from policies.cel.risk import risks_of
from policies.cel.shapes import NAMES, VARIABLES
from policies.cel.syntax import (
    Call,
    Const,
    Ident,
    Node,
    Select,
    Struct,
    Tree,
    read,
    read_types,
    walk,
)
from policies.cel.values import EvaluationError, evaluate
from policies.document import Expression

if TYPE_CHECKING:
    from cel_expr_python import cel

LONGEST: Final = 4096
"""Characters of an expression."""
MOST_EXPRESSIONS: Final = 64
"""Expressions of a policy."""
LONGEST_EXPANDED: Final = 4 * LONGEST
"""Characters that an expression may have once its macros are expanded. ``optMap`` and ``optFlatMap`` double what they
are called on, while it is parsed; a chain of thirty takes all memory there is. So two are too many for 4,096
characters, and six for 256."""

_OPTIONAL_MACRO: Final = re.compile(r"opt(?:Flat)?Map")
_REGEX_ARGUMENT: Final[Mapping[str, int]] = {
    "matches": 0,
    "find": 0,
    "findAll": 0,
    "regex.extract": 1,
    "regex.extractAll": 1,
    "regex.replace": 1,
}
"""Which argument is the pattern, not counting the receiver."""
_NUMBERS: Final = r"(?:int|uint|double)"
_MIXED_NUMBERS: Final = re.compile(
    rf"found no matching overload for '(?:_<_|_<=_|_>_|_>=_|_==_|_!=_|@in)' applied to "
    rf"'\({_NUMBERS}, (?:list\()?{_NUMBERS}\)?\)'"
)
"""The checker knows no comparison of an int with a double; Kubernetes has them, and so has the runtime."""
_OVERLOAD: Final = re.compile(r"found no matching overload for '([^']+)' applied to '(.*)'")
_UNDEFINED: Final = re.compile(r"undefined field '([^']*)' not found in struct '([^']*)'")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']*)'")
_OF_MESSAGE: Final = re.compile(rf"\b{PACKAGE}\.T\d+")
_FOLLOWS: Final = "'*error*'"
_READERS: Final = frozenset({"quantity", "semver", "ip", "cidr", "url", "duration", "timestamp"})
"""Functions that read a text, and fail for one that is none of theirs."""
_DYNAMIC: Final = "DYN"
"""The type of what is known only when it is there."""


def compile(  # noqa: A001 - as in re.compile: always read with the package before it
    expression: Expression,
    *,
    wants: Wants,
    variables: Mapping[str, Program] | None = None,
) -> Program | list[FieldError]:
    """Compile one expression, or say all that is wrong with it.

    ``variables`` are the policy's own that come before this one, already compiled. Every error has the path of the
    expression and begins with the column. Never raises, whatever the text.
    """
    own = variables or {}
    errors = list(_outside(expression))
    if errors:
        return errors
    found = engine.compile_in(engine.evaluation(), expression.text)
    if isinstance(found, list):
        hard = [issue for issue in found if not _is_for_runtime(issue)]
        if hard:
            return _errors(expression, hard, own)
        found = engine.compile_in(engine.evaluation(), expression.text, checked=False)
        if isinstance(found, list):
            return _errors(expression, found, own)
    return _Compiler(expression, wants, own).finish(found)


def too_many(expressions: Sequence[Expression]) -> list[FieldError]:
    """The error of a policy with more than 64 expressions, at the first that is too many."""
    if len(expressions) <= MOST_EXPRESSIONS:
        return []
    extra = expressions[MOST_EXPRESSIONS]
    return [
        field.forbidden(
            extra.path,
            f"a policy has at most {MOST_EXPRESSIONS} expressions, and this has {len(expressions)}",
        )
    ]


def _outside(expression: Expression) -> Iterator[FieldError]:
    """What can be told without the parser, and must be: the parser itself is the victim."""
    text, path = expression.text, expression.path
    if not text.strip():
        yield field.required(path, "must be an expression in CEL")
    elif len(text) > LONGEST:
        yield field.FieldError(
            type=field.ErrorType.TOO_LONG,
            path=path,
            value=text,
            detail=f"may not be more than {LONGEST} characters",
        )
    elif "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        yield field.invalid(path, text, "must not have NUL characters or halves of surrogate pairs")
    elif len(text) << len(_OPTIONAL_MACRO.findall(text)) > LONGEST_EXPANDED:
        yield field.invalid(
            path,
            text,
            "must have fewer calls of optMap and optFlatMap: each doubles what it is called on",
        )


@dataclass(slots=True)
class _Compiler:
    """What comes after the parser."""

    expression: Expression
    wants: Wants
    own: Mapping[str, Program]

    def finish(self, compiled: Compiled) -> Program | list[FieldError]:
        tree = read(self.expression.text, compiled.expression.serialize())
        errors = [*self._literals(tree), *self._variables(tree)]
        if errors:
            return errors
        used = _own_variables(tree.root)
        typed = engine.compile_in(
            engine.checking({name: self.own[name].type for name in sorted(used)}),
            self.expression.text,
        )
        if isinstance(typed, list):
            hard = [issue for issue in typed if not _is_tolerated(issue)]
            if hard:
                return _errors(self.expression, hard, self.own, tree)
            type_, node_types = compiled.type, tree.types
        else:
            type_ = typed.type
            node_types = read_types(typed.expression.serialize())
        errors = [*self._result(tree, type_, node_types), *self._optionals(tree, node_types)]
        if errors:
            return errors
        return self._program(tree, compiled, type_, node_types, used)

    def _program(
        self,
        tree: Tree,
        compiled: Compiled,
        type_: cel.Type,
        node_types: Mapping[int, Any],
        used: frozenset[str],
    ) -> Program:
        expression = compiled.expression
        if rewriting.is_needed(tree.root, node_types):
            expression = engine.evaluation().deserialize(rewriting.rewritten(tree, node_types))
        direct = reads_of(tree.root)
        reads = minimal(
            {path for path in direct if path[0] != VARIABLES}.union(
                *(self.own[name].reads for name in used)
            )
        )
        return Program(
            text=self.expression.text,
            path=self.expression.path,
            wants=self.wants,
            reads=reads,
            variables=used,
            risks=risks_of(tree.root, node_types),
            tree=tree,
            types=node_types,
            type=type_,
            expression=expression,
            roots=frozenset(path[0] for path in reads),
        )

    def _invalid(self, node: Node, tree: Tree, detail: str) -> FieldError:
        return _at(self.expression, tree.span(node)[0] + 1, detail)

    def _literals(self, tree: Tree) -> Iterator[FieldError]:
        """Literals that the engine would change or that cost too much, and patterns that are none."""
        for node in walk(tree.root):
            match node:
                case Const(value=str() as text) if "\0" in text:
                    yield self._invalid(node, tree, "must not have a NUL character in a text")
                case Struct(name=name) if name:
                    yield self._invalid(node, tree, f"must not make messages, and {name} is one")
                case Call() if node.function in _REGEX_ARGUMENT:
                    yield from self._pattern(node, tree)
                case Call(function=name, target=None, args=(Const(value=str()),)) if (
                    name in _READERS
                ):
                    yield from self._read(node, tree)
                case Call(function="lists.range", args=(Const(),)):
                    pass
                case Call(function="lists.range"):
                    yield self._invalid(node, tree, "lists.range() must have a literal")
                case _:
                    pass

    def _read(self, node: Call, tree: Tree) -> Iterator[FieldError]:
        """A literal that its function can read in no request, as Kubernetes' validators have it of some (``cel.ASTValidators``)."""
        found = engine.compile_in(engine.evaluation(), tree.source_of(node))
        if isinstance(found, list):
            return  # wrong in another way, which is told
        value = evaluate(found.expression, engine.evaluation().Activation({}))
        if isinstance(value, EvaluationError):
            yield self._invalid(node, tree, value.message)

    def _pattern(self, node: Call, tree: Tree) -> Iterator[FieldError]:
        index = _REGEX_ARGUMENT[node.function] + (
            1 if node.target is None and not node.function.startswith("regex.") else 0
        )
        pattern = node.args[index] if index < len(node.args) else None
        if not isinstance(pattern, Const) or type(pattern.value) is not str:
            yield self._invalid(
                node, tree, f"the pattern of {node.function}() must be a literal, not computed"
            )
            return
        problem = regex.problem(pattern.value)
        if problem:
            yield self._invalid(pattern, tree, problem)

    def _variables(self, tree: Tree) -> Iterator[FieldError]:
        selected = {
            node.operand.id
            for node in walk(tree.root)
            if isinstance(node, Select) and isinstance(node.operand, Ident)
        }
        for node in walk(tree.root):
            if isinstance(node, Ident) and node.name == VARIABLES and node.id not in selected:
                yield self._invalid(
                    node, tree, "must name one of the policy's variables: variables.x"
                )
            elif isinstance(node, Select) and _is_own(node) and node.field not in self.own:
                yield self._invalid(
                    node,
                    tree,
                    f'there is no variable "{node.field}" before this expression'
                    + _meant(node.field, self.own, of="variables."),
                )

    def _result(
        self, tree: Tree, type_: cel.Type, node_types: Mapping[int, Any]
    ) -> Iterator[FieldError]:
        if optionals.is_held(node_types.get(tree.root.id)):
            yield self._invalid(
                tree.root,
                tree,
                "the result must not be, or hold, an optional: end with orValue(...)",
            )
            return
        name = type_.name().partition("<")[0]
        given = GIVEN.get(self.wants)
        if given is not None and name not in {*given.kinds, _DYNAMIC}:
            yield self._invalid(
                tree.root, tree, f"must give {given.as_types}, and gives {_type_name(type_)}"
            )
        elif name == "TYPE":
            yield self._invalid(tree.root, tree, "must give a value, and gives a type")

    def _optionals(self, tree: Tree, node_types: Mapping[int, Any]) -> Iterator[FieldError]:
        node = optionals.hidden(tree.root, node_types)
        if node is not None:
            yield self._invalid(
                node, tree, "must not be given an optional: open it with orValue(...) first"
            )


def _own_variables(root: Node) -> frozenset[str]:
    return frozenset(
        node.field for node in walk(root) if isinstance(node, Select) and _is_own(node)
    )


def _is_own(node: Select) -> bool:
    return isinstance(node.operand, Ident) and node.operand.name == VARIABLES


def _is_for_runtime(issue: Issue) -> bool:
    """What the checker lacks and the runtime has, or is given when the tree is rewritten."""
    return _MIXED_NUMBERS.search(issue.text) is not None or MAP_INSERT in issue.text


def _is_tolerated(issue: Issue) -> bool:
    """What only the typed check has against it, and evaluation on JSON takes.

    Kubernetes sees TrainJobs as plain maps: ``'trainer' in object.spec``, ``object.spec['trainer']`` and
    ``size(object.spec)`` are right. What follows from an earlier error is no error of its own.
    """
    if _is_for_runtime(issue) or _FOLLOWS in issue.text:
        return True
    overload = _OVERLOAD.search(issue.text)
    if overload is not None:
        return _OF_MESSAGE.search(overload[2]) is not None
    return "cannot be the range of a comprehension" in issue.text and bool(
        _OF_MESSAGE.search(issue.text)
    )


def _errors(
    expression: Expression,
    issues: Iterable[Issue],
    own: Mapping[str, Program],
    tree: Tree | None = None,
) -> list[FieldError]:
    """Issues of the engine as errors, one a place, in the order of the text."""
    found: dict[tuple[int, str], FieldError] = {}
    for issue in issues:
        if _FOLLOWS in issue.text:
            continue
        column = _offset(expression.text, issue) + 1 if issue.line else 0
        words = _words(issue.text, own, _operand(tree, column))
        found.setdefault((column, words), _at(expression, column, words))
    return [found[key] for key in sorted(found)] or [_at(expression, 0, "is no expression in CEL")]


def _offset(text: str, issue: Issue) -> int:
    """The place in the whole text; the engine counts columns from the beginning of a line."""
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: issue.line - 1]) + max(issue.column - 1, 0)


def _at(expression: Expression, column: int, words: str) -> FieldError:
    """``at 1:13: ...``, or ``at 13`` where there is one line only."""
    before = expression.text[: max(column - 1, 0)]
    if not column:
        place = ""
    elif "\n" in expression.text:
        place = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}: "
    else:
        place = f"column {column}: "
    return field.invalid(expression.path, expression.text, f"{place}{words}")


def caret(expression: str, column: int) -> str:
    """Two lines for a terminal: the line of the text, and a caret under the column (from 1, over the whole text)."""
    start = expression.rfind("\n", 0, max(column - 1, 0)) + 1
    end = expression.find("\n", start)
    line = expression[start : len(expression) if end < 0 else end]
    return f"{line}\n{' ' * (column - 1 - start)}^"


def _operand(tree: Tree | None, column: int) -> str:
    """The text before the dot that stands there."""
    if tree is not None:
        for node in walk(tree.root):
            if tree.positions.get(node.id) != column - 1:
                continue
            if isinstance(node, Select):
                return tree.source_of(node.operand)
            if isinstance(node, Call) and node.function == "_?._":
                return tree.source_of(node.args[0])
    return ""


def _words(text: str, own: Mapping[str, Program], operand: str) -> str:
    """What the engine says, in names that the author knows, with what was meant."""
    undefined = _UNDEFINED.search(text)
    if undefined is not None:
        name, message = undefined.groups()
        known = types().fields.get(message, ())
        where = operand or types().titles.get(message, message)
        return f'{where} has no field "{name}"{_meant(name, known)}'
    undeclared = _UNDECLARED.search(text)
    if undeclared is not None:
        name = undeclared[1]
        known = (
            *NAMES,
            *engine.function_names(),
            *engine.standard(),
            *(f"variables.{v}" for v in own),
        )
        return f'"{name}" is neither a variable nor a function{_meant(name, known)}'
    overload = _OVERLOAD.search(text)
    if overload is not None:
        return f"{_operator(overload[1])} does not take {_spoken(overload[2])}"
    if "recursion limit" in text.lower() or "recursion depth" in text.lower():
        return "is nested deeper than 32 levels"
    if "node count exceeded" in text or "bad_alloc" in text:
        return "is too large"
    return _spoken(text)


def _operator(name: str) -> str:
    return name.strip("_@").replace("_", " ").replace("? :", "?:") or name


def _spoken(text: str) -> str:
    """Names of our messages as the places that they stand for."""
    titles = types().titles
    return _OF_MESSAGE.sub(lambda match: titles.get(match[0], match[0]), text)


def _type_name(type_: cel.Type) -> str:
    return _spoken(type_.name().lower() if "." not in type_.name() else type_.name())


def _meant(name: str, known: Iterable[str], of: str = "") -> str:
    """``: did you mean "numNodes"?``, or what there is where nothing is alike and it is little."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if not close:
        lower = {one.lower(): one for one in names}
        close = [lower[one] for one in difflib.get_close_matches(name.lower(), list(lower), n=1)]
    if close:
        return f': did you mean "{of}{close[0]}"?'
    if names and len(names) <= 12:
        return f"; it has: {', '.join(f'{of}{one}' for one in names)}"
    return ""
