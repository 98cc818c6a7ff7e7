"""Walking raw objects by the steps of a Place: names of fields, and items of lists by their keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from plugins.framework import values
from plugins.framework.field import Path, path_of, pointer
from policies.writes import Item, Place, Step

_KEPT: Final = 1024
"""Places whose paths are kept; those of policies are as many as their documents name."""
_FREE: Final = frozenset({"labels", "annotations", "limits", "requests", "nodeSelector"})


def is_free_map(steps: Sequence[Step]) -> bool:
    """Whether the steps lead to a map whose keys are the user's."""
    return bool(steps) and steps[-1] in _FREE


def index_of(holder: Any, item: Item) -> int | None:
    """Where the item stands in the list; None where it does not."""
    for i, one in enumerate(values.items(holder)):
        if type(one) is dict and one.get(item.key) == item.value:
            return i
    return None


def read(raw: Any, steps: Sequence[Step]) -> Any:
    """What stands there, or None."""
    node: Any = raw
    for step in steps:
        if isinstance(step, Item):
            index = index_of(node, step)
            node = None if index is None else node[index]
        elif type(node) is dict:
            node = node.get(step)
        else:
            return None
    return node


def concrete(raw: Any, steps: Sequence[Step]) -> Path | None:
    """The path with indexes for items; None where an item is not there."""
    out: list[str | int] = []
    node: Any = raw
    for step in steps:
        if isinstance(step, Item):
            index = index_of(node, step)
            if index is None:
                return None
            out.append(index)
            node = node[index]
        else:
            out.append(step)
            node = node.get(step) if type(node) is dict else None
    return path_of(out)


def pointer_of(steps: Sequence[Step]) -> str:
    """The pointer under which the record knows a place; items of lists go by their names."""
    return pointer(step.value if isinstance(step, Item) else step for step in steps)


@lru_cache(maxsize=_KEPT)
def pointer_of_place(place: Place) -> str:
    """The same for a place that policies write to, of which there are not many."""
    return pointer_of(place.steps)


@lru_cache(maxsize=_KEPT)
def path_of_place(place: Place) -> Path | None:
    """Where such a place is in any object; None where the object decides, since there is an item of a list on the way."""
    names = [step for step in place.steps if not isinstance(step, Item)]
    if len(names) < len(place.steps):
        return None
    *above, last = names
    return step_down(path_of(above), last, is_key=is_free_map(above))


def step_down(path: Path, name: str, *, is_key: bool) -> Path:
    """A field, or the key of a map whose keys are the user's."""
    return path.key(name) if is_key else path.child(name)


def steps_of(raw: Any, at: str) -> tuple[Step, ...] | None:
    """The steps of a recorded pointer in the object as it is; None where nothing is there."""
    out: list[Step] = []
    node: Any = raw
    for part in at.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        step: Step = Item("name", name) if type(node) is list else name
        out.append(step)
        node = read(node, (step,))
        if node is None:
            return None
    return tuple(out)


def leaves_of(at: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values in a tree of objects that are no objects themselves, by their pointers."""
    if type(value) is dict and value:
        for key, item in value.items():
            yield from leaves_of(at + pointer((key,)), item)
    elif value != {}:
        yield at, value
