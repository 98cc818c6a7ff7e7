"""The fields of ``spec.trainer``: TrainerCommand and TrainerArgs as in the SDK, and those that no SDK option reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import field, lines, values
from plugins.framework.field import FieldError, Path
from plugins.framework.resources import amount_problems
from policies.document import Expression
from policies.options import numbers
from policies.options.base import AS_IS, OWN_COMMAND, Facts, Option, Subject
from policies.options.containers import env_problems
from policies.options.generated import generator
from policies.options.shapes import (
    Leaf,
    OptionFault,
    expressions_in,
    leaves,
    node_at,
    obj,
    settle,
    take,
)
from policies.writes import Place, Write

if TYPE_CHECKING:
    from plugins.framework.lines import Line
    from policies.writes import Mode

TRAINER: Final = ("spec", "trainer")
FIELDS: Final = (
    "image",
    "command",
    "args",
    "env",
    "numNodes",
    "numProcPerNode",
    "resourcesPerNode",
    "force",
)
AUTO: Final = "auto"
WORDS: Final = (AUTO, "cpu", "gpu")
_EVERY: Final = tuple((name, AS_IS) for name in lines.LINES)
_WHOLE: Final = "replaces the whole"


@dataclass(frozen=True)
class _TrainerField(Option):
    """One field of ``spec.trainer``, read by its schema; ``value`` is as in the document."""

    field: ClassVar[str]
    value: Any
    path: Path

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The pieces that are decided by themselves."""
        node = node_at(lines.NEWEST.name, *TRAINER, self.field)
        return tuple(leaves(node, self.value, self.path, (*TRAINER, self.field)))

    def expressions(self) -> Iterable[Expression]:
        """Those in the value."""
        return list(expressions_in(self.value))

    def plan(self, subject: Subject) -> list[Write]:
        """A write for each piece."""
        return [
            Write(Place(None, settled.steps), settled.value)
            for leaf in self.leaves
            for settled in settle(leaf, subject.evaluate)
        ]


@dataclass(frozen=True)
class _OwnCommand(_TrainerField):
    """Command or args, which jobs whose command the SDK made must keep."""

    force: bool = False

    def plan(self, subject: Subject) -> list[Write]:
        """The words; nothing where the SDK made the command, unless forced."""
        made_by = "" if self.force else generator(subject.info)
        if made_by:
            if subject.mode == "defaults" and subject.info.job.words(self.field):
                return []  # the user's own stays anyhow
            subject.note(
                f"spec.trainer.{self.field} is left alone: the SDK's {made_by} made the command (force: true insists)"
            )
            return []
        return super().plan(subject)


class TrainerCommand(_OwnCommand):
    """``spec.trainer.command``."""

    key: ClassVar[str] = "trainer.command"
    name: ClassVar[str] = "TrainerCommand"
    field: ClassVar[str] = "command"
    facts: ClassVar[Facts] = Facts(
        fields=("command", "force"),
        merge=_WHOLE,
        lines=_EVERY,
        trainers=OWN_COMMAND,
        sdk=">=0.2.0",
        example="trainer:\n  command: [torchrun]\n",
    )

    @property
    def command(self) -> Any:
        """As in the SDK."""
        return self.value


class TrainerArgs(_OwnCommand):
    """``spec.trainer.args``."""

    key: ClassVar[str] = "trainer.args"
    name: ClassVar[str] = "TrainerArgs"
    field: ClassVar[str] = "args"
    facts: ClassVar[Facts] = Facts(
        fields=("args", "force"),
        merge=_WHOLE,
        lines=_EVERY,
        trainers=OWN_COMMAND,
        sdk=">=0.2.0",
        example="trainer:\n  args: [train.py, --epochs=3]\n",
    )

    @property
    def args(self) -> Any:
        """As in the SDK."""
        return self.value


class TrainerImage(_TrainerField):
    """``spec.trainer.image``."""

    key: ClassVar[str] = "trainer.image"
    name: ClassVar[str] = "TrainerImage"
    field: ClassVar[str] = "image"
    facts: ClassVar[Facts] = Facts(
        fields=("image",),
        merge=_WHOLE,
        lines=_EVERY,
        example="trainer:\n  image: registry.example.com/train:1\n",
    )


class TrainerEnv(_TrainerField):
    """``spec.trainer.env``: the variables of container ``node``."""

    key: ClassVar[str] = "trainer.env"
    name: ClassVar[str] = "TrainerEnv"
    field: ClassVar[str] = "env"
    facts: ClassVar[Facts] = Facts(
        fields=("env",),
        merge="per variable, each whole",
        lines=_EVERY,
        example="trainer:\n  env:\n  - {name: NCCL_DEBUG, value: WARN}\n",
    )


class ResourcesPerNode(_TrainerField):
    """``spec.trainer.resourcesPerNode``."""

    key: ClassVar[str] = "trainer.resourcesPerNode"
    name: ClassVar[str] = "ResourcesPerNode"
    field: ClassVar[str] = "resourcesPerNode"
    facts: ClassVar[Facts] = Facts(
        fields=("limits", "requests", "claims"),
        merge="per resource name; where the user has none, with the runtime's others, which would be lost otherwise",
        lines=_EVERY,
        example="trainer:\n  resourcesPerNode:\n    limits: {cpu: 8, memory: 64Gi}\n",
    )

    def plan(self, subject: Subject) -> list[Write]:
        """A write for each resource; OptionFault for what only an expression can have brought."""
        writes = super().plan(subject)
        for write in writes if self.expressions() else ():
            match write.place.steps[len(TRAINER) + 1 :]:
                case (str() as kind, str() as name):
                    for error in _amounts({kind: {name: write.value}}, self.path):
                        raise OptionFault(f"{error.field}: {error.body}")
                case _:
                    pass
        return writes


@dataclass(frozen=True)
class NumNodes(Option):
    """``spec.trainer.numNodes``: a value, or a range."""

    key: ClassVar[str] = "trainer.numNodes"
    name: ClassVar[str] = "NumNodes"
    facts: ClassVar[Facts] = Facts(
        fields=("numNodes",),
        merge="a value replaces; ranges of all policies combine, and hold for the runtime's number too",
        lines=_EVERY,
        example="trainer:\n  numNodes: 2\n",
    )
    num_nodes: numbers.Wish

    def expressions(self) -> Iterable[Expression]:
        """Those among the value and bounds."""
        return numbers.expressions(self.num_nodes)

    def plan(self, subject: Subject) -> list[Write]:
        """The value, or the bounds."""
        place = Place(None, (*TRAINER, "numNodes"))
        return numbers.plan(self.num_nodes, place, subject, numbers.NODES)


@dataclass(frozen=True)
class NumProcPerNode(Option):
    """``spec.trainer.numProcPerNode``: a number, a range, or a word (auto, cpu, gpu) as far as the line has words."""

    key: ClassVar[str] = "trainer.numProcPerNode"
    name: ClassVar[str] = "NumProcPerNode"
    facts: ClassVar[Facts] = Facts(
        fields=("numProcPerNode",),
        merge="a value replaces; ranges of all policies combine, where the job has a number",
        lines=(
            ("2.0", AS_IS),
            ("2.1", AS_IS),
            (
                "2.2",
                "numbers; auto as a default is what absence means there; other words are refused",
            ),
            (
                "2.3",
                "numbers; auto as a default is what absence means there; other words are refused",
            ),
        ),
        example="trainer:\n  numProcPerNode: auto\n",
    )
    num_proc_per_node: numbers.Wish | str
    mode: Mode
    path: Path

    def expressions(self) -> Iterable[Expression]:
        """Those among the value and bounds."""
        wish = self.num_proc_per_node
        return [] if isinstance(wish, str) else numbers.expressions(wish)

    def inexpressible(self, line: Line) -> list[FieldError]:
        """Words, where the field is a number; only as a default ``auto`` can be had by writing nothing."""
        word = self.num_proc_per_node
        if line.proc_per_node_text or not isinstance(word, str):
            return []
        if word == AUTO and self.mode == "defaults":
            return []
        detail = f"Trainer {line.name} takes numbers only"
        return [field.invalid(self.path, word, detail)]

    def plan(self, subject: Subject) -> list[Write]:
        """The number, the bounds or the word."""
        self.refuse(subject.line)
        place = Place(None, (*TRAINER, "numProcPerNode"))
        wish = self.num_proc_per_node
        if isinstance(wish, str):
            return [Write(place, wish)] if subject.line.proc_per_node_text else []
        return numbers.plan(wish, place, subject, numbers.PROCESSES)


_BY_SCHEMA: Final[dict[str, type[_TrainerField]]] = {
    "image": TrainerImage,
    "command": TrainerCommand,
    "args": TrainerArgs,
    "env": TrainerEnv,
    "resourcesPerNode": ResourcesPerNode,
}


def read(mode: Mode, raw: Any, at: Path, errors: list[FieldError]) -> list[Option]:
    """The options of one ``trainer`` section, in the order of ``FIELDS``."""
    found = obj(raw, at, errors, FIELDS)
    if found is None:
        return []
    force = found.get("force", False)
    if type(force) is not bool:
        errors.append(field.type_invalid(at.child("force"), force, "must be true or false"))
    elif force and not found.keys() & {"command", "args"}:
        errors.append(
            field.forbidden(at.child("force"), "is about command and args, and neither is here")
        )
    out: list[Option] = []
    for name in FIELDS:
        if name not in found or name == "force":
            continue
        here = at.child(name)
        if name == "numNodes":
            wish = numbers.read(mode, found[name], here, errors, numbers.NODES)
            out += [NumNodes(wish)] if wish else []
        elif name == "numProcPerNode":
            out += _processes(mode, found[name], here, errors)
        else:
            value = take(node_at(lines.NEWEST.name, *TRAINER, name), found[name], here, errors)
            option = _BY_SCHEMA[name]
            errors.extend(_CHECKS[name](value, here) if name in _CHECKS else ())
            out.append(
                option(value, here, force is True)
                if issubclass(option, _OwnCommand)
                else option(value, here)
            )
    return out


def _processes(mode: Mode, raw: Any, at: Path, errors: list[FieldError]) -> list[Option]:
    if type(raw) is str:
        if raw not in WORDS:
            errors.append(field.not_supported(at, raw, WORDS))
            return []
        return [NumProcPerNode(raw, mode, at)]
    wish = numbers.read(mode, raw, at, errors, numbers.PROCESSES)
    return [NumProcPerNode(wish, mode, at)] if wish else []


def _not_empty(value: Any, at: Path) -> Iterable[FieldError]:
    if not isinstance(value, Expression) and not value:
        yield field.required(at, "must not be empty: leave the field out to write nothing")


def _resources(value: Any, at: Path) -> Iterable[FieldError]:
    yield from _not_empty(value, at)
    if not isinstance(value, dict):
        return
    if value.get("claims"):
        yield field.forbidden(at.child("claims"), "the Trainer loses claims of resourcesPerNode")
    plain = {
        key: {name: v for name, v in values.obj(amounts).items() if not isinstance(v, Expression)}
        for key, amounts in value.items()
    }
    yield from _amounts(plain, at)


def _amounts(resources: dict[str, Any], at: Path) -> Iterable[FieldError]:
    """Amounts that no pod may ask for, whatever they are merged with."""
    for problem in amount_problems(resources):
        yield field.invalid(Path(*at, *problem.path), problem.value, problem.detail)


_CHECKS: Final[dict[str, Callable[[Any, Path], Iterable[FieldError]]]] = {
    "image": _not_empty,
    "command": _not_empty,
    "args": _not_empty,
    "env": env_problems,
    "resourcesPerNode": _resources,
}
