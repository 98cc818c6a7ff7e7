"""Values by the paths that people write: ``spec.trainer.env[NCCL_DEBUG].value``, or a JSON Pointer."""

from __future__ import annotations

import re
from typing import Any, Final

from plugins.framework.draft import ABSENT

_STEP: Final = re.compile(r"\[([^\]]+)\]|(?:^|\.)([^.\[\]]+)")
_INDEX: Final = re.compile(r"0|[1-9][0-9]*", re.ASCII)


def steps_of(path: str) -> tuple[str, ...]:
    """The steps of a path. Raises ValueError, saying what is wrong, for what is none."""
    if path.startswith("/"):
        return tuple(step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/"))
    found: list[str] = []
    end = 0
    while end < len(path):
        match = _STEP.match(path, end)
        if match is None:
            raise ValueError(
                "must be a path such as spec.trainer.env[0].name, or a JSON Pointer such as /spec/trainer"
            )
        found.append(match[1] if match[1] is not None else match[2])
        end = match.end()
    return tuple(found)


def value_at(value: Any, path: str) -> Any:
    """What stands there; ABSENT where nothing does. Items of lists go by their index or their ``name``."""
    for step in steps_of(path):
        if type(value) is dict:
            value = value.get(step, ABSENT)
        elif type(value) is list:
            value = _item(value, step)
        else:
            return ABSENT
    return value


def _item(items: list[Any], step: str) -> Any:
    if _INDEX.fullmatch(step) and len(step) < len(str(len(items))) + 1:
        return items[int(step)] if int(step) < len(items) else ABSENT
    named = (item for item in items if type(item) is dict and item.get("name") == step)
    return next(named, ABSENT)
