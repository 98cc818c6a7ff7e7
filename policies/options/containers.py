"""What the SDK asks of containers in overrides, in the same places (ContainerOverride, ContainerPatch)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from plugins.framework import field, values
from plugins.framework.field import FieldError, Path
from policies.document import Expression

SOURCES: Final = ("configMapKeyRef", "secretKeyRef", "fieldRef", "resourceFieldRef")
"""What ``valueFrom`` may hold: the Trainer drops all others on the way to the pod (trainer-semantics 3.7)."""


def problems(containers: Any, at: Path) -> Iterator[FieldError]:
    """What is wrong with a list of containers, beyond what the schema says."""
    for i, container in enumerate(values.items(containers)):
        if type(container) is not dict:
            continue
        here = at.index(i)
        name = container.get("name")
        if type(name) is str and not name.strip():
            yield field.required(here.child("name"), "must be the name of a container")
        yield from env_problems(container.get("env"), here.child("env"))
        yield from _mounts(container.get("volumeMounts"), here.child("volumeMounts"))


def env_problems(env: Any, at: Path) -> Iterator[FieldError]:
    """What is wrong with variables: no name, no value, two of them, or a source that nobody knows."""
    for i, entry in enumerate(values.items(env)):
        if type(entry) is not dict:
            continue
        here = at.index(i)
        if entry.get("name") == "":
            yield field.required(here.child("name"), "must be the name of a variable")
        if "value" not in entry and "valueFrom" not in entry:
            yield field.required(here, "must have value or valueFrom")
        elif "value" in entry and "valueFrom" in entry:
            yield field.forbidden(here.child("valueFrom"), "may not be set beside value")
        source = entry.get("valueFrom")
        if source is None or isinstance(source, Expression):
            continue
        if not any(name in values.obj(source) for name in SOURCES):
            detail = f"must have one of {', '.join(SOURCES)}"
            yield field.required(here.child("valueFrom"), detail)


def _mounts(mounts: Any, at: Path) -> Iterator[FieldError]:
    for i, mount in enumerate(values.items(mounts)):
        if type(mount) is not dict:
            continue
        here = at.index(i)
        if mount.get("name") == "":
            yield field.required(here.child("name"), "must be the name of a volume")
        path = mount.get("mountPath")
        if type(path) is str and not path.startswith("/"):
            yield field.invalid(here.child("mountPath"), path, "must begin with /")
