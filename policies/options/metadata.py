"""Labels and annotations, of the TrainJob and of its JobSet: decided key by key, so that two policies never lose one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import field, labels
from plugins.framework.api import names
from plugins.framework.field import FieldError, Path
from policies.document import Expression
from policies.options.base import AS_IS, Facts, Option, Subject
from policies.options.shapes import OptionFault, expression, is_expression, obj
from policies.writes import Place, Write

if TYPE_CHECKING:
    from policies.writes import Level, Mode

Map = tuple[tuple[str, str | Expression], ...]
"""A map of strings with its keys in order."""

_PER_KEY: Final = "per key; a key that nobody names is left alone"
_ALL_AS_IS: Final = tuple((line, AS_IS) for line in ("2.0", "2.1", "2.2", "2.3"))
_JOBSET: Final = (
    ("2.0", AS_IS),
    ("2.1", AS_IS),
    ("2.2", "metadata of the JobSet in our entry of runtimePatches"),
    ("2.3", "metadata of the JobSet in our entry of runtimePatches"),
)


def read_map(raw: Any, at: Path, errors: list[FieldError], kind: str) -> Map:
    """A map of ``labels`` or ``annotations``; what is wrong with a key or a value goes to ``errors``."""
    found = obj(raw, at, errors)
    out: list[tuple[str, str | Expression]] = []
    for key, value in (found or {}).items():
        here = at.key(key)
        if key in names.OUR_ANNOTATIONS and kind == "annotations":
            errors.append(field.forbidden(here, "Stationmaster writes this annotation itself"))
        if is_expression(value):
            one = expression(value, here, errors)
            if one is not None:
                out.append((key, one))
                errors.extend(_syntax(at, kind, key, None))
        elif type(value) is not str:
            errors.append(field.type_invalid(here, value, "must be a string, or {expression: ...}"))
        else:
            out.append((key, value))
            errors.extend(_syntax(at, kind, key, value))
    return tuple(out)


def _syntax(at: Path, kind: str, key: str, value: str | None) -> Iterator[FieldError]:
    for error in labels.problems(Path(), {kind: {key: value}}):
        place = error.path
        below = place[1:] if isinstance(place, Path) else ()
        yield field.invalid(Path(*at, *below), error.value, error.detail)


def worked_out(kind: str, key: str, value: str | Expression, subject: Subject) -> str | None:
    """The text of one entry; None where its expression gives null. Raises OptionFault for what is no such text."""
    if isinstance(value, str):
        return value
    found = subject.evaluate(value)
    if found is None:
        return None
    if type(found) is not str:
        raise OptionFault(f"{value.path}: must give a string, and gave {field.show(found)}")
    for error in labels.problems(Path(), {kind: {key: found}}):
        raise OptionFault(f"{value.path}: gave {field.show(found)}: {error.detail}")
    return found


@dataclass(frozen=True)
class _Metadata(Option):
    """One map of strings, written key by key."""

    kind: ClassVar[str]
    of_jobset: ClassVar[bool]
    entries: Map

    def expressions(self) -> Iterable[Expression]:
        """Those among the values."""
        return [value for _, value in self.entries if isinstance(value, Expression)]

    def plan(self, subject: Subject) -> list[Write]:
        """One write for each key."""
        root = ("metadata", self.kind)
        level: Level = ""
        if self.of_jobset:
            if subject.line.spec_metadata:
                root = ("spec", self.kind)
            else:
                level = "JobSet"
        out = []
        for key, value in self.entries:
            text = worked_out(self.kind, key, value, subject)
            if text is not None:
                out.append(Write(Place(None, (*root, key), level), text))
        return out


class Labels(_Metadata):
    """Labels of the TrainJob."""

    key: ClassVar[str] = "labels"
    name: ClassVar[str] = "Labels"
    kind: ClassVar[str] = "labels"
    of_jobset: ClassVar[bool] = False
    facts: ClassVar[Facts] = Facts(
        fields=("labels",),
        merge=_PER_KEY,
        lines=_ALL_AS_IS,
        sdk=">=0.2.0",
        example="labels:\n  kueue.x-k8s.io/queue-name: default-queue\n",
    )

    @property
    def labels(self) -> dict[str, str | Expression]:
        """By their keys, as in the SDK."""
        return dict(self.entries)


class Annotations(_Metadata):
    """Annotations of the TrainJob."""

    key: ClassVar[str] = "annotations"
    name: ClassVar[str] = "Annotations"
    kind: ClassVar[str] = "annotations"
    of_jobset: ClassVar[bool] = False
    facts: ClassVar[Facts] = Facts(
        fields=("annotations",),
        merge=_PER_KEY,
        lines=_ALL_AS_IS,
        sdk=">=0.2.0",
        example="annotations:\n  example.com/contact: ml-platform\n",
    )

    @property
    def annotations(self) -> dict[str, str | Expression]:
        """By their keys, as in the SDK."""
        return dict(self.entries)


class SpecLabels(_Metadata):
    """Labels of what the TrainJob becomes: the JobSet (``spec.labels`` until Trainer 2.1)."""

    key: ClassVar[str] = "specLabels"
    name: ClassVar[str] = "SpecLabels"
    kind: ClassVar[str] = "labels"
    of_jobset: ClassVar[bool] = True
    facts: ClassVar[Facts] = Facts(
        fields=("labels",),
        merge=_PER_KEY,
        lines=_JOBSET,
        sdk="0.2.0 to 0.3.1",
        example="specLabels:\n  example.com/cost-centre: research\n",
    )

    @property
    def labels(self) -> dict[str, str | Expression]:
        """By their keys, as in the SDK."""
        return dict(self.entries)


class SpecAnnotations(_Metadata):
    """Annotations of what the TrainJob becomes: the JobSet (``spec.annotations`` until Trainer 2.1)."""

    key: ClassVar[str] = "specAnnotations"
    name: ClassVar[str] = "SpecAnnotations"
    kind: ClassVar[str] = "annotations"
    of_jobset: ClassVar[bool] = True
    facts: ClassVar[Facts] = Facts(
        fields=("annotations",),
        merge=_PER_KEY,
        lines=_JOBSET,
        sdk="0.2.0 to 0.3.1",
        example="specAnnotations:\n  example.com/scrape: 'true'\n",
    )

    @property
    def annotations(self) -> dict[str, str | Expression]:
        """By their keys, as in the SDK."""
        return dict(self.entries)


def reader(option: type[_Metadata]) -> Any:
    """Reads one of these from a document."""

    def read(_mode: Mode, raw: Any, at: Path, errors: list[FieldError]) -> list[Option]:
        entries = read_map(raw, at, errors, option.kind)
        return [option(entries)] if entries else []

    return read
