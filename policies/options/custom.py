"""``options``: callables of installed packages in the SDK's protocol, called in a worker, planned as our own options.

What one wrote to its ``job_spec`` is read as a section of a policy is, so it is translated, merged, refused and recorded
by the same code: labels by their keys, patches under our manager, a field that the served line lacks by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import field, lines, values
from plugins.framework.field import FieldError, Path
from policies.cel import EvaluationError
from policies.custom import catalogue
from policies.custom.catalogue import Declared
from policies.custom.declaration import ENTRY, GROUP
from policies.options import sections
from policies.options.base import AS_IS, Facts, Option, Subject
from policies.options.generated import generator
from policies.options.shapes import OptionFault, expressions_in, items, obj, take

if TYPE_CHECKING:
    from plugins.framework.info import Info
    from plugins.framework.lines import Line
    from policies.document import Expression
    from policies.writes import Mode, Write

_METADATA: Final = ("labels", "annotations")
_SPEC: Final[Mapping[str, str]] = {
    "labels": "specLabels",
    "annotations": "specAnnotations",
    "trainer": "trainer",
    "initializer": "initializer",
    "activeDeadlineSeconds": "activeDeadlineSeconds",
    "suspend": "suspend",
    "managedBy": "managedBy",
    "podTemplateOverrides": "podTemplateOverrides",
    "runtimePatches": "runtimePatches",
}
"""Fields of ``spec`` that an option may write -> the keys of policies that say the same."""
_WHY_NOT: Final[Mapping[str, str]] = {
    "metadata.name": "whoever sends a job waits for it under the name that they chose; naming is a rule",
    "metadata.generateName": "the name is the sender's to choose; naming is a rule",
    "spec.runtimeRef": "which runtime a job is for is the user's to say",
    "spec.podSpecOverrides": "Trainer 2.0 takes each job once there, and it is the user's",
}
_STAMPS: Final = frozenset({"manager", "time"})
"""Of an entry of ``runtimePatches``: we write under our own manager."""


@dataclass(frozen=True)
class Custom(Option):
    """One option of an installed package, with its arguments."""

    key: ClassVar[str] = ENTRY
    name: ClassVar[str] = "custom option"
    facts: ClassVar[Facts] = Facts(
        fields=("name", "args", "force"),
        merge="as the fields that it writes: labels by their keys, patches under our manager",
        lines=tuple((name, AS_IS) for name in lines.LINES),
        sdk="any callable (job_spec, trainer, backend)",
        example="options:\n- name: deadline\n  args: {seconds: 3600}\n",
    )
    reads_job: ClassVar[bool] = True
    declared: Declared
    args: Mapping[str, Any]
    force: bool
    mode: Mode
    path: Path

    def expressions(self) -> Iterable[Expression]:
        """None: arguments are values."""
        return ()

    @property
    def keywords(self) -> dict[str, Any]:
        """The arguments as the option takes them: ``maxRetries`` as ``max_retries``."""
        return {snake(name): value for name, value in self.args.items()}

    def inexpressible(self, line: Line) -> list[FieldError]:
        """All of it, on a line that the option is not for."""
        if line.name in self.declared.lines:
            return []
        detail = f"option {self.declared.name} is for Trainer {', '.join(self.declared.lines)}, and this is {line.name}"
        return [field.forbidden(self.path, detail)]

    def plan(self, subject: Subject) -> list[Write]:
        """What it wrote for this job."""
        self.refuse(subject.line)
        wrote = subject.outcome(self.path)
        if isinstance(wrote, EvaluationError):
            raise OptionFault(f"{self.path}: option {self.declared.name} {wrote.message}")
        if type(wrote) is not dict:
            raise self._fault("was not called")
        section = self._section(wrote)
        found, errors = sections.read(self.mode, section, Path(), sections.READERS)
        if errors:
            raise self._fault(f"wrote what cannot stand there: {errors[0]}")
        for option in found:
            for expression in option.expressions():
                raise self._fault(f"wrote an expression at {expression.path}: only values count")
        return [write for option in found for write in option.plan(subject)]

    def trainer(self, info: Info) -> dict[str, Any]:
        """The trainer of the SDK that a job looks like, in the SDK's words (sdk-options 2.4).

        With ``force`` it is never one whose command the SDK made, so that the SDK's own options replace it.
        """
        kind = generator(info)
        own = values.obj(values.at(info.job.raw, "spec", "trainer"))
        image = values.text(own.get("image"))
        if kind and not self.force:
            return {"kind": kind, "num_nodes": info.job.num_nodes}
        if not image:
            return {"kind": "none"}
        given = values.objects(own.get("env"))
        env = {values.text(e.get("name")): values.text(e.get("value")) for e in given}
        return {
            "kind": "CustomTrainerContainer",
            "image": image,
            "num_nodes": info.job.num_nodes,
            "resources_per_node": values.at_obj(own, "resourcesPerNode", "limits") or None,
            "env": env or None,
        }

    def _fault(self, text: str) -> OptionFault:
        return OptionFault(f"{self.path}: option {self.declared.name} {text}")

    def _section(self, wrote: dict[str, Any]) -> dict[str, Any]:
        """What it wrote, as a policy would say it. Raises OptionFault for what is not an option's to write."""
        out: dict[str, Any] = {}
        for part, value in wrote.items():
            if part not in {"metadata", "spec"} and not _is_unset(value):
                raise self._fault(f"wrote {part}: only metadata and spec are an option's to write")
        metadata = self._object(wrote, "metadata")
        for key, value in metadata.items():
            if key not in _METADATA:
                raise self._stranger(f"metadata.{key}")
            out[key] = value
        spec = self._object(wrote, "spec")
        for key, value in spec.items():
            if key not in _SPEC:
                raise self._stranger(f"spec.{key}")
            out[_SPEC[key]] = value
        self._bend(out)
        return {key: value for key, value in out.items() if not _is_unset(value)}

    def _object(self, wrote: dict[str, Any], part: str) -> dict[str, Any]:
        found = wrote.get(part)
        if found is None:
            return {}
        if type(found) is not dict:
            raise self._fault(f"wrote {part}: must be an object, and is {field.show(found)}")
        return {key: value for key, value in found.items() if not _is_unset(value)}

    def _stranger(self, place: str) -> OptionFault:
        why = _WHY_NOT.get(place)
        there = ", ".join((*(f"metadata.{k}" for k in _METADATA), *(f"spec.{k}" for k in _SPEC)))
        return self._fault(f"wrote {place}: {why or f'an option may write {there}'}")

    def _bend(self, section: dict[str, Any]) -> None:
        """The few things that the SDK's options say in other words than policies."""
        trainer = section.get("trainer")
        if type(trainer) is dict:
            trainer = {key: value for key, value in trainer.items() if not _is_unset(value)}
            for key in ("numNodes", "numProcPerNode"):
                if type(trainer.get(key)) is dict:
                    raise self._fault(f"wrote spec.trainer.{key}: must be a value, not a range")
            if "force" in trainer:
                raise self._fault("wrote spec.trainer.force: a policy says force beside args")
            if self.force and trainer.keys() & {"command", "args"}:
                trainer["force"] = True
            section["trainer"] = trainer
        if type(section.get("activeDeadlineSeconds")) is dict:
            raise self._fault("wrote spec.activeDeadlineSeconds: must be a value, not a range")
        patches = section.get("runtimePatches")
        if type(patches) is list:
            section["runtimePatches"] = _said(patches, _STAMPS)
        overrides = section.get("podTemplateOverrides")
        if type(overrides) is list:
            section["podTemplateOverrides"] = _said(overrides, frozenset())


def _said(entries: list[Any], stamps: frozenset[str]) -> list[Any]:
    """Entries without their stamps, and without those that say nothing, as the SDK sends them for empty options."""
    out = []
    for entry in entries:
        if type(entry) is not dict:
            out.append(entry)
            continue
        kept = {k: v for k, v in entry.items() if k not in stamps and not _is_unset(v)}
        if kept.keys() - {"targetJobs"}:
            out.append(kept)
    return out


def _is_unset(value: Any) -> bool:
    return value is None or (type(value) in {dict, list} and not value)


def snake(name: str) -> str:
    """``maxRetries`` as Python has it."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def read(mode: Mode, raw: Any, at: Path, errors: list[FieldError]) -> list[Option]:
    """Read ``options``: installed ones only, with arguments that fit their schema."""
    found = [_read(mode, one, at.index(i), errors) for i, one in enumerate(items(raw, at, errors))]
    return [one for one in found if one is not None]


def _read(mode: Mode, raw: Any, at: Path, errors: list[FieldError]) -> Custom | None:
    found = obj(raw, at, errors, ("name", "args", "force"))
    if found is None:
        return None
    name, force = found.get("name"), found.get("force", False)
    if type(name) is not str or not name:
        errors.append(field.required(at.child("name"), "the name of an installed option"))
        return None
    if type(force) is not bool:
        errors.append(field.type_invalid(at.child("force"), force, "must be true or false"))
    declared = catalogue.declared(name)
    problem = _cannot_be_used(name, declared, mode)
    if declared is None or problem:
        errors.append(field.forbidden(at.child("name"), problem))
        return None
    before = len(errors)
    args = take(declared.args, found.get("args", {}), at.child("args"), errors)
    errors.extend(
        field.forbidden(one.path, "arguments of options are values, not expressions")
        for one in expressions_in(args)
    )
    return None if len(errors) > before else Custom(declared, args, force is True, mode, at)


def _cannot_be_used(name: str, declared: Declared | None, mode: Mode) -> str:
    """Why a policy cannot use an option, with what it can use; empty where it can."""
    if declared is None:
        close = get_close_matches(name, catalogue.installed(), n=1, cutoff=0.6)
        meant = f"did you mean {close[0]}? " if close else ""
        return f"no option {field.show(name)} is installed; {meant}{_usable(mode)}"
    package = declared.installed.package
    if declared.problem:
        return f"option {name} of {package} {declared.problem}; {_usable(mode)}"
    if catalogue.KUBERNETES not in declared.backends:
        backends = ", ".join(declared.backends) or "none"
        return (
            f"option {name} of {package} is for other backends ({backends}), and TrainJobs are of "
            f"{catalogue.KUBERNETES}; {_usable(mode)}"
        )
    if mode not in declared.modes:
        where = " and ".join(declared.modes)
        return f"option {name} of {package} may stand under {where} only; {_usable(mode)}"
    return ""


def _usable(mode: Mode) -> str:
    """What can be used: installed ones, and our own, which are keys of their own."""
    there = [one.name for one in catalogue.all_declared() if one.is_usable and mode in one.modes]
    outside = ", ".join(there) or f"none (entry points of the group {GROUP})"
    return f"installed ones that can be used here: {outside}; keys of their own: {', '.join(sections.READERS)}"
