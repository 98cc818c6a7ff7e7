"""The keys of ``defaults`` and ``overrides``: what the Kubeflow SDK calls options, done by the platform.

One class an option, with the SDK's names and fields; each plans ``Writes`` and writes nothing itself::

    options, errors = read("defaults", {"labels": {"team": "vision"}}, Path("spec", "defaults"))
    [write for option in options for write in option.plan(subject)]

``policies.merging`` decides among the writes of several policies, ``policies.placing`` edits the Draft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import field
from plugins.framework.field import FieldError, Path
from policies.options import initializer, job, metadata, pods, trainer
from policies.options.base import Facts, Option, Subject, Target
from policies.options.shapes import NotExpressible, OptionFault, obj

if TYPE_CHECKING:
    from plugins.framework.runtime import CompiledRuntime
    from policies.writes import Mode

__all__ = [
    "KEYS",
    "OPTIONS",
    "Facts",
    "NotExpressible",
    "Option",
    "OptionFault",
    "Subject",
    "Target",
    "missing",
    "read",
]

Reader = Callable[["Mode", Any, Path, list[FieldError]], list[Option]]

OPTIONS: Final[tuple[type[Option], ...]] = (
    metadata.Labels,
    metadata.Annotations,
    metadata.SpecLabels,
    metadata.SpecAnnotations,
    trainer.TrainerImage,
    trainer.TrainerCommand,
    trainer.TrainerArgs,
    trainer.TrainerEnv,
    trainer.NumNodes,
    trainer.NumProcPerNode,
    trainer.ResourcesPerNode,
    initializer.Initializer,
    job.ActiveDeadlineSeconds,
    job.Suspend,
    job.ManagedBy,
    job.Naming,
    pods.PodTemplateOverrides,
    pods.RuntimePatches,
)
"""Every option, in the order in which ``read`` gives them."""

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

KEYS: Final = tuple(READERS)
"""The keys of ``defaults`` and ``overrides``."""


def read(mode: Mode, raw: Any, path: Path) -> tuple[tuple[Option, ...], list[FieldError]]:
    """Read one of the two sections: its options, and every mistake in it by its path."""
    errors: list[FieldError] = []
    found = obj(raw, path, errors, KEYS) or {}
    out: list[Option] = []
    for key, reader in READERS.items():
        if key in found:
            out.extend(reader(mode, found[key], path.child(key), errors))
    return tuple(out), errors


def missing(options: Iterable[Option], runtimes: Iterable[CompiledRuntime]) -> list[FieldError]:
    """Jobs and containers that options name and that no runtime in sight has, with those that there are.

    A policy may be for many runtimes: a target that only some of them have is no mistake.
    """
    there = list(runtimes)
    out: list[FieldError] = []
    for option in options:
        for target in option.targets():
            error = _missing(target, there)
            if error is not None and error not in out:
                out.append(error)
    return out


def _missing(target: Target, runtimes: list[CompiledRuntime]) -> FieldError | None:
    jobs = [one for runtime in runtimes for one in runtime.jobs]
    meant = [one for one in jobs if not target.job or one.name == target.job]
    if not target.container:
        if meant:
            return None
        names = ", ".join(sorted({one.name for one in jobs})) or "none"
        return field.not_found(target.path, target.job, f"jobs of the runtimes: {names}")
    if not meant:
        return None  # said of the job already
    known = {
        name
        for one in meant
        for name in (one.names if target.kind == "containers" else one.init_names)
    }
    if target.container in known:
        return None
    of = f"of job {target.job}" if target.job else "of the runtimes"
    detail = f"{target.kind} {of}: {', '.join(sorted(known)) or 'none'}"
    return field.not_found(target.path, target.container, detail)
