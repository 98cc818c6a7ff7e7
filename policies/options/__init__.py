"""The keys of ``defaults`` and ``overrides``: what the Kubeflow SDK calls options, done by the platform.

One class an option, with the SDK's names and fields; each plans ``Writes`` and writes nothing itself::

    options, errors = read("defaults", {"labels": {"team": "vision"}}, Path("spec", "defaults"))
    [write for option in options for write in option.plan(subject)]

``policies.merging`` decides among the writes of several policies, ``policies.placing`` edits the Draft.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import field
from plugins.framework.field import FieldError, Path
from policies.options import custom, initializer, job, metadata, pods, sections, trainer
from policies.options.base import Facts, Option, Subject, Target
from policies.options.custom import Custom
from policies.options.shapes import NotExpressible, OptionFault

if TYPE_CHECKING:
    from plugins.framework.runtime import CompiledRuntime
    from policies.writes import Mode

__all__ = [
    "KEYS",
    "OPTIONS",
    "Custom",
    "Facts",
    "NotExpressible",
    "Option",
    "OptionFault",
    "Subject",
    "Target",
    "missing",
    "read",
]

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
"""Every option of ours, in the order in which ``read`` gives them."""

READERS: Final = {**sections.READERS, "options": custom.read}

KEYS: Final = tuple(READERS)
"""The keys of ``defaults`` and ``overrides``."""


def read(mode: Mode, raw: Any, path: Path) -> tuple[tuple[Option, ...], list[FieldError]]:
    """Read one of the two sections: its options, and every mistake in it by its path."""
    return sections.read(mode, raw, path, READERS)


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
