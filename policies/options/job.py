"""Options about the job as a whole: how long it may run, whether it starts suspended, who runs it, how it is named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import orjson

from plugins.framework import field, lines, values
from plugins.framework.api import names
from plugins.framework.field import FieldError, Path
from policies.document import Expression
from policies.naming import prefix_of
from policies.options import numbers
from policies.options.base import AS_IS, REFUSED, Facts, Option, Subject
from policies.options.shapes import OptionFault, expression, is_expression, obj
from policies.writes import Place, Write

if TYPE_CHECKING:
    from plugins.framework.lines import Line
    from policies.writes import Mode

DEADLINE: Final = ("spec", "activeDeadlineSeconds")
CONTROLLERS: Final = ("trainer.kubeflow.org/trainjob-controller", names.MULTIKUEUE)
_EVERY: Final = tuple((name, AS_IS) for name in lines.LINES)
_ARRIVES: Final = (
    "the CRD's default arrives before us, so a job without it cannot be told from one that says so: set it under "
    "overrides"
)
_PREFIX: Final = re.compile(r"[a-z]([-a-z0-9]*)")
_LONGEST_PATTERN: Final = 512


@dataclass(frozen=True)
class ActiveDeadlineSeconds(Option):
    """``spec.activeDeadlineSeconds``, counted from the start of the job: a value, or a range."""

    key: ClassVar[str] = "activeDeadlineSeconds"
    name: ClassVar[str] = "ActiveDeadlineSeconds"
    facts: ClassVar[Facts] = Facts(
        fields=("seconds",),
        merge="a value replaces; ranges of all policies combine; a job without a deadline gets the max",
        lines=(("2.0", REFUSED), ("2.1", REFUSED), ("2.2", AS_IS), ("2.3", AS_IS)),
        sdk=">=0.5.0",
        example="activeDeadlineSeconds: 86400\n",
    )
    seconds: numbers.Wish
    path: Path

    def expressions(self) -> Iterable[Expression]:
        """Those among the value and bounds."""
        return numbers.expressions(self.seconds)

    def inexpressible(self, line: Line) -> list[FieldError]:
        """All of it, before Trainer 2.2."""
        if line.deadline:
            return []
        detail = (
            f"the TrainJob of Trainer {line.name} has no activeDeadlineSeconds; it came with 2.2"
        )
        return [field.forbidden(self.path, detail)]

    def plan(self, subject: Subject) -> list[Write]:
        """The value, or the bounds."""
        self.refuse(subject.line)
        return numbers.plan(self.seconds, Place(None, DEADLINE), subject, numbers.SECONDS)


def read_deadline(mode: Mode, raw: Any, at: Path, errors: list[FieldError]) -> list[Option]:
    """Read ``activeDeadlineSeconds``."""
    wish = numbers.read(mode, raw, at, errors, numbers.SECONDS)
    return [ActiveDeadlineSeconds(wish, at)] if wish else []


@dataclass(frozen=True)
class _OnCreate(Option):
    """A field that the CRD defaults, forced when a job is created."""

    field: ClassVar[str]
    value: Any
    path: Path

    def expressions(self) -> Iterable[Expression]:
        """The value, if it is one."""
        return [self.value] if isinstance(self.value, Expression) else []

    def plan(self, subject: Subject) -> list[Write]:
        """The value."""
        value = self.value
        if isinstance(value, Expression):
            value = subject.evaluate(value)
            problem = "" if value is None else _problem(self.field, value)
            if problem:
                raise OptionFault(f"{self.value.path}: gave {field.show(value)}: {problem}")
        return [] if value is None else [Write(Place(None, ("spec", self.field)), value)]


def _problem(name: str, value: Any) -> str:
    if name == "suspend":
        return "" if type(value) is bool else "must be true or false"
    there = " or ".join(CONTROLLERS)
    return "" if type(value) is str and value in CONTROLLERS else f"must be {there}"


class Suspend(_OnCreate):
    """``spec.suspend``, when a job is created."""

    key: ClassVar[str] = "suspend"
    name: ClassVar[str] = "Suspend"
    field: ClassVar[str] = "suspend"
    facts: ClassVar[Facts] = Facts(
        fields=("suspend",),
        merge="replaces, when a job is created; whoever may update the job can resume it",
        lines=_EVERY,
        modes=("overrides",),
        example="suspend: true\n",
    )


class ManagedBy(_OnCreate):
    """``spec.managedBy``, when a job is created."""

    key: ClassVar[str] = "managedBy"
    name: ClassVar[str] = "ManagedBy"
    field: ClassVar[str] = "managedBy"
    facts: ClassVar[Facts] = Facts(
        fields=("managedBy",),
        merge="replaces, when a job is created; immutable afterwards",
        lines=_EVERY,
        modes=("overrides",),
        example="managedBy: kueue.x-k8s.io/multikueue\n",
    )


def on_create(option: type[_OnCreate]) -> Any:
    """Reads one of these from a document."""

    def read(mode: Mode, raw: Any, at: Path, errors: list[FieldError]) -> list[Option]:
        if mode == "defaults":
            errors.append(field.forbidden(at, _ARRIVES))
            return []
        if is_expression(raw):
            one = expression(raw, at, errors)
            return [] if one is None else [option(one, at)]
        problem = _problem(option.field, raw)
        if problem:
            errors.append(field.invalid(at, raw, problem))
            return []
        return [option(raw, at)]

    return read


@dataclass(frozen=True)
class Naming(Option):
    """How jobs are to be named. A rule, and never a rename: the caller keeps the name that it chose.

    ``Name`` of the SDK sets a name on the client, which then waits for that very name. On the server a changed name
    would lose the job for its owner, and for ``generateName`` there is no name yet.
    """

    key: ClassVar[str] = "naming"
    name: ClassVar[str] = "Naming"
    judges: ClassVar[bool] = True
    facts: ClassVar[Facts] = Facts(
        fields=("pattern", "generateNamePrefix"),
        merge="a rule that is checked: every policy's must hold. Advice under defaults, refused under overrides",
        lines=_EVERY,
        sdk=">=0.2.0, as Name, which sets it on the client",
        example="naming:\n  pattern: '[a-z]+-[a-z0-9-]+'\n  generateNamePrefix: team-\n",
    )
    pattern: Expression | None
    """CEL that matches the whole name against the document's pattern: RE2, which no pattern can hang."""
    wanted: str
    generate_name_prefix: str | Expression | None
    path: Path

    def expressions(self) -> Iterable[Expression]:
        """The match, and the prefix if it is one."""
        both = (self.pattern, self.generate_name_prefix)
        return [one for one in both if isinstance(one, Expression)]

    def plan(self, subject: Subject) -> list[Write]:
        """Nothing: the name is the caller's."""
        del subject
        return []

    def check(self, subject: Subject) -> list[FieldError]:
        """The name against the pattern; ``generateName``, where the name is made from it, against the prefix.

        Whether a made name fits the pattern would be luck, so the pattern counts only where there is no prefix to hold.
        """
        metadata = subject.info.job.metadata
        given = prefix_of(metadata)
        prefix = self._prefix(subject) if given else ""
        if prefix:
            detail = f"must begin with {prefix}"
            fits = given.startswith(prefix)
            return [] if fits else [field.invalid(Path("metadata", "generateName"), given, detail)]
        name = values.text(metadata.get("name"))
        if not name or self.pattern is None or subject.evaluate(self.pattern) is True:
            return []
        detail = f"must match the pattern {field.show(self.wanted)}"
        return [field.invalid(Path("metadata", "name"), name, detail)]

    def _prefix(self, subject: Subject) -> str:
        """That which the document wants; empty for none."""
        prefix = self.generate_name_prefix
        if isinstance(prefix, Expression):
            prefix = subject.evaluate(prefix)
        if prefix is not None and type(prefix) is not str:
            raise OptionFault("naming.generateNamePrefix must give a string")
        return prefix or ""


def read_naming(_mode: Mode, raw: Any, at: Path, errors: list[FieldError]) -> list[Option]:
    """Read ``naming``."""
    found = obj(raw, at, errors, ("pattern", "generateNamePrefix"))
    if found is None:
        return []
    if not found:
        errors.append(field.required(at, "must have pattern, generateNamePrefix or both"))
        return []
    pattern = (
        _read_pattern(found["pattern"], at.child("pattern"), errors) if "pattern" in found else None
    )
    prefix = found.get("generateNamePrefix")
    here = at.child("generateNamePrefix")
    if is_expression(prefix):
        prefix = expression(prefix, here, errors)
    elif "generateNamePrefix" in found and (
        type(prefix) is not str or not _PREFIX.fullmatch(prefix)
    ):
        detail = "must begin with a lower-case letter, and go on with those, digits and -"
        errors.append(field.invalid(here, prefix, detail))
        prefix = None
    if pattern is None and prefix is None:
        return []
    return [Naming(pattern, values.text(found.get("pattern")), prefix, at)]


def _read_pattern(raw: Any, at: Path, errors: list[FieldError]) -> Expression | None:
    if type(raw) is not str or not raw:
        errors.append(
            field.type_invalid(at, raw, "must be a regular expression (RE2), written out")
        )
        return None
    if len(raw) > _LONGEST_PATTERN:
        errors.append(field.too_long(at, "", _LONGEST_PATTERN))
        return None
    if not raw.isprintable():
        errors.append(field.invalid(at, raw, "must have no control characters"))
        return None
    literal = orjson.dumps(f"^(?:{raw})$").decode()
    return Expression(f"object.metadata.name.matches({literal})", at)
