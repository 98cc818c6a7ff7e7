"""Pieces of a TrainJob in a policy document: read by the TrainJob's own schema, with expressions in place of values.

The newest line's schema says what fields there are, so that a misspelt one is named with what was meant, and a wrong
type with what is right. A line's own schema then says what that line has no words for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeGuard

from plugins.framework import field, lines, schema, values
from plugins.framework.api import names
from plugins.framework.errors import Fault
from plugins.framework.field import FieldError, Path
from plugins.framework.schema.check import Checker, json_type
from plugins.framework.schema.lists import duplicates
from plugins.framework.schema.node import OPEN_API_TYPES, Node
from policies.document import Expression
from policies.writes import Item, Step

EXPRESSION: Final = "expression"

_NESTED: Final = frozenset({"containers", "initContainers", "replicatedJobs"})
"""Lists whose items are merged field by field; items of other keyed lists are one value each."""
_JOINED: Final = "tolerations"
"""The one atomic list of pods that policies join instead of replacing."""


class OptionFault(Fault):
    """An expression of a policy gave a value that its place cannot hold; a fault of the policy, not of the job."""


class NotExpressible(Fault):
    """The served generation of the TrainJob has no words for what an option wants."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        """Take the errors that say it, each at its place in the policy's document."""
        self.errors = tuple(errors)
        super().__init__("; ".join(map(str, self.errors)))


class Leaf(NamedTuple):
    """One value of an option: where it goes below the option's root, and what may stand there."""

    steps: tuple[Step, ...]
    value: Any
    node: Node
    path: Path
    """Where it stands in the document."""

    @property
    def is_joined(self) -> bool:
        """Whether it is written as a union."""
        return self.steps[-1] == _JOINED


def node_at(line: str, *steps: str) -> Node:
    """The schema of a place in a TrainJob; ``[]`` steps into a list's items. Raises KeyError where there is none."""
    node = schema.load(line).root(names.TRAIN_JOB)
    for step in steps:
        below = node.items if step == "[]" else node.properties.get(step)
        if below is None:
            raise KeyError(step)
        node = below
    return node


JOB_TEMPLATE: Final = (
    "spec",
    "runtimePatches",
    "[]",
    "trainingRuntimeSpec",
    "template",
    "spec",
    "replicatedJobs",
    "[]",
    "template",
)
POD_TEMPLATE: Final = (*JOB_TEMPLATE, "spec", "template")


@lru_cache(maxsize=64)
def pod_template_node(line: str) -> Node | None:
    """The pod template that overrides of a line may set; None for 2.0, which has no room for a second owner."""
    match lines.LINES[line].generation:
        case "runtimePatches":
            return node_at(line, *POD_TEMPLATE)
        case "podTemplateOverrides":
            return node_at(line, "spec", "podTemplateOverrides", "[]")
        case _:
            return None


# Reading


def is_expression(raw: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a value is ``{expression: ...}``."""
    return type(raw) is dict and len(raw) == 1 and EXPRESSION in raw


def expression(raw: dict[str, Any], at: Path, errors: list[FieldError]) -> Expression | None:
    """The expression; an error where it is no text."""
    text = raw[EXPRESSION]
    here = at.child(EXPRESSION)
    if type(text) is not str:
        errors.append(field.type_invalid(here, text, "must be a CEL expression, as a string"))
        return None
    if not text.strip():
        errors.append(field.required(here, "must be a CEL expression"))
        return None
    return Expression(text, here)


def unknown(path: Path, key: str, known: Iterable[str]) -> FieldError:
    """A field that does not exist, with what was meant, or else all that do."""
    there = sorted(known)
    close = get_close_matches(key, there, n=1, cutoff=0.6)
    folded = {name.lower(): name for name in there}
    meant = folded.get(key.lower().replace("_", "").replace("-", "")) or (close[0] if close else "")
    detail = f"did you mean {meant}?" if meant else f"fields here: {', '.join(there)}"
    return field.forbidden(path.child(key), f"no such field; {detail}")


def obj(
    raw: Any, at: Path, errors: list[FieldError], known: Iterable[str] | None = None
) -> dict[str, Any] | None:
    """The value as an object, of known fields only where they are given; else an error and None."""
    if type(raw) is not dict:
        errors.append(field.type_invalid(at, raw, "must be an object"))
        return None
    if known is not None:
        there = tuple(known)
        errors.extend(unknown(at, key, there) for key in raw if key not in there)
    return raw


def items(raw: Any, at: Path, errors: list[FieldError]) -> list[Any]:
    """The value as a list with something in it; else an error and nothing."""
    if type(raw) is not list:
        errors.append(field.type_invalid(at, raw, "must be a list"))
        return []
    if not raw:
        errors.append(field.required(at, "must have at least one item"))
    return raw


def take(node: Node, raw: Any, at: Path, errors: list[FieldError]) -> Any:
    """A value by its schema, with Expressions for ``{expression: ...}``; every mistake goes to ``errors``.

    A map of strings is never an expression as a whole: its keys are the user's.
    """
    if is_expression(raw) and not _is_free_map(node):
        return expression(raw, at, errors)
    if node.kind == "o":
        return _take_object(node, raw, at, errors)
    if node.kind == "a":
        return _take_list(node, raw, at, errors)
    _check(node, raw, at, errors)
    return raw


def _is_free_map(node: Node) -> bool:
    return node.kind == "o" and node.values is not None and not node.properties


def _take_object(node: Node, raw: Any, at: Path, errors: list[FieldError]) -> Any:
    if type(raw) is not dict:
        wanted = OPEN_API_TYPES[node.kind]
        errors.append(field.type_invalid(at, raw, f"must be an {wanted}, not {json_type(raw)}"))
        return {}
    out: dict[str, Any] = {}
    for key, value in raw.items():
        below = node.properties.get(key)
        if below is not None:
            out[key] = take(below, value, at.child(key), errors)
        elif node.values is None:
            errors.append(unknown(at, key, node.properties))
        elif key.startswith("$"):
            detail = "merge directives are not allowed: the Trainer would act on them"
            errors.append(field.forbidden(at.key(key), detail))
        else:
            out[key] = take(node.values, value, at.key(key), errors)
    errors.extend(field.required(at.child(name)) for name in node.required if name not in raw)
    return out


def _take_list(node: Node, raw: Any, at: Path, errors: list[FieldError]) -> Any:
    if type(raw) is not list or node.items is None:
        errors.append(field.type_invalid(at, raw, f"must be a list, not {json_type(raw)}"))
        return []
    out = [take(node.items, item, at.index(i), errors) for i, item in enumerate(raw)]
    if node.max_items is not None and len(raw) > node.max_items:
        errors.append(field.too_many(at, len(raw), node.max_items))
    if node.list_keys:
        errors.extend(_unnamed(node.list_keys, out, at))
        plain = [item if type(item) is dict else {} for item in out]
        named = [{k: v for k, v in item.items() if k in (node.list_keys or ())} for item in plain]
        for i, item in enumerate(named):
            if item and any(values.same(item, other) for other in named[:i]):
                key = next(iter(item))
                errors.append(field.duplicate(at.index(i).child(key), item[key]))
    return out


def _unnamed(keys: tuple[str, ...], out: list[Any], at: Path) -> Iterator[FieldError]:
    """Items are told apart by their keys, so these must be known when the policy is read."""
    for i, item in enumerate(out):
        if isinstance(item, Expression):
            detail = "an item is known by its name: write the expression for the whole list, or for the item's fields"
            yield field.forbidden(at.index(i), detail)
            continue
        for key in keys:
            if type(item) is dict and isinstance(item.get(key), Expression):
                detail = f"must be written out: items are told apart by their {key}"
                yield field.forbidden(at.index(i).child(key), detail)


def _check(node: Node, raw: Any, at: Path, errors: list[FieldError]) -> None:
    checker = Checker(strict=True)
    checker.check(node, raw, at)
    errors.extend(checker.errors)


def expressions_in(value: Any) -> Iterator[Expression]:
    """Every expression in a value, in document order."""
    if isinstance(value, Expression):
        yield value
    elif type(value) is dict:
        for item in value.values():
            yield from expressions_in(item)
    elif type(value) is list:
        for item in value:
            yield from expressions_in(item)


# Flattening


def leaves(node: Node, value: Any, path: Path, steps: tuple[Step, ...] = ()) -> Iterator[Leaf]:
    """The finest pieces of a value that are decided by themselves: a scalar, a key of a map, an item of a list.

    A list without keys is one piece; so is an item of a keyed list, but for containers.
    """
    if type(value) is dict and node.kind == "o":
        for key, item in value.items():
            below = node.properties.get(key) or node.values
            if below is not None:
                at = path.child(key) if key in node.properties else path.key(key)
                yield from leaves(below, item, at, (*steps, key))
        return
    if type(value) is list and node.items is not None and node.list_keys:
        nested = bool(steps) and steps[-1] in _NESTED
        for i, item in enumerate(value):
            yield from _item(node.items, item, path.index(i), (steps, node.list_keys[0], nested))
        return
    if steps and not _is_unset(value):
        yield Leaf(steps, value, node, path)


def _item(
    node: Node, item: Any, path: Path, place: tuple[tuple[Step, ...], str, bool]
) -> Iterator[Leaf]:
    steps, key, nested = place
    if type(item) is not dict or type(item.get(key)) is not str:
        return  # read already, and an error then
    at = (*steps, Item(key, item[key]))
    if not nested:
        yield Leaf(at, item, node, path)
        return
    rest = {name: value for name, value in item.items() if name != key}
    yield from leaves(node, rest, path, at)


def _is_unset(value: Any) -> bool:
    """What patches cannot write (the Trainer leaves empty values out of the merge)."""
    return value is None or (type(value) in {list, dict, str} and not value)


def settle(leaf: Leaf, evaluate: Callable[[Expression], Any]) -> Iterator[Leaf]:
    """The leaf with its expressions worked out, split further where one gave an object or a keyed list.

    A null means: nothing here. Raises OptionFault where the value does not fit its place.
    """
    if not any(True for _ in expressions_in(leaf.value)):
        yield leaf
        return
    value = _worked_out(leaf.value, evaluate)
    if value is None:
        return
    checker = Checker(strict=True)
    checker.check(leaf.node, value, leaf.path)
    errors = checker.errors + [e.under(leaf.path) for e in duplicates(leaf.node, value)]
    if errors:
        raise OptionFault(f"an expression gave a value that cannot stand there: {errors[0]}")
    if values.has_directives(value):
        raise OptionFault(f"{leaf.path}: an expression gave a merge directive, a key with $")
    if isinstance(leaf.steps[-1], Item):
        yield leaf._replace(value=value)
    else:
        yield from leaves(leaf.node, value, leaf.path, leaf.steps)


def _worked_out(value: Any, evaluate: Callable[[Expression], Any]) -> Any:
    if isinstance(value, Expression):
        return evaluate(value)
    if type(value) is dict:
        return {key: _worked_out(item, evaluate) for key, item in value.items()}
    if type(value) is list:
        return [_worked_out(item, evaluate) for item in value]
    return value


def is_known(node: Node | None, steps: Iterable[Step], value: Any) -> bool:
    """Whether a line's schema has the place, and all fields of the value there."""
    for step in steps:
        if node is None:
            return False
        node = node.items if isinstance(step, Item) else node.properties.get(step) or node.values
    return node is not None and _knows(node, value)


def _knows(node: Node, value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(
            (below := node.properties.get(key) or node.values) is not None and _knows(below, item)
            for key, item in value.items()
        )
    if type(value) is list:
        return node.items is not None and all(_knows(node.items, item) for item in value)
    return True
