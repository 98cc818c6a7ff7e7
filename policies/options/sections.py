"""Reads ``defaults``, ``overrides``, and what an option of an outside package wrote: a section, key by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from plugins.framework.field import FieldError, Path
from policies.options import initializer, job, metadata, pods, trainer
from policies.options.base import Option
from policies.options.shapes import obj

if TYPE_CHECKING:
    from policies.writes import Mode

Reader = Callable[["Mode", Any, Path, list[FieldError]], list[Option]]

READERS: Final[Mapping[str, Reader]] = {
    "labels": metadata.reader(metadata.Labels),
    "annotations": metadata.reader(metadata.Annotations),
    "specLabels": metadata.reader(metadata.SpecLabels),
    "specAnnotations": metadata.reader(metadata.SpecAnnotations),
    "trainer": trainer.read,
    "initializer": initializer.read,
    "activeDeadlineSeconds": job.read_deadline,
    "suspend": job.on_create(job.Suspend),
    "managedBy": job.on_create(job.ManagedBy),
    "naming": job.read_naming,
    "podTemplateOverrides": pods.read_overrides,
    "runtimePatches": pods.read_patches,
}
"""Those of our own options, by their keys."""


def read(
    mode: Mode, raw: Any, path: Path, readers: Mapping[str, Reader]
) -> tuple[tuple[Option, ...], list[FieldError]]:
    """The options of a section, in the order of ``readers``, and every mistake in it by its path."""
    errors: list[FieldError] = []
    found = obj(raw, path, errors, tuple(readers)) or {}
    out: list[Option] = []
    for key, reader in readers.items():
        if key in found:
            out.extend(reader(mode, found[key], path.child(key), errors))
    return tuple(out), errors
