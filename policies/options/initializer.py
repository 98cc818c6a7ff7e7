"""``spec.initializer``: variables and the Secret of the dataset's and the model's initializer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import field, lines, values
from plugins.framework.field import FieldError, Path
from policies.document import Expression
from policies.options.base import AS_IS, Facts, Option, Subject
from policies.options.containers import env_problems
from policies.options.shapes import Leaf, expressions_in, leaves, node_at, obj, settle, take
from policies.writes import Place, Write

if TYPE_CHECKING:
    from policies.writes import Mode

KINDS: Final = ("dataset", "model")
FIELDS: Final = ("env", "secretRef")


@dataclass(frozen=True)
class Initializer(Option):
    """Variables and the Secret with credentials, for jobs that have such an initializer."""

    key: ClassVar[str] = "initializer"
    name: ClassVar[str] = "Initializer"
    facts: ClassVar[Facts] = Facts(
        fields=("dataset.env", "dataset.secretRef", "model.env", "model.secretRef"),
        merge="per variable, each whole; the Secret replaces. Nothing for a job without such an initializer",
        lines=tuple((name, AS_IS) for name in lines.LINES),
        example="initializer:\n  dataset:\n    secretRef: {name: dataset-credentials}\n",
    )
    given: tuple[tuple[str, dict[str, Any], Path], ...]
    """Kind, its fields as in the document, where they stand."""

    @cached_property
    def leaves(self) -> dict[str, tuple[Leaf, ...]]:
        """The pieces that are decided by themselves, for each kind."""
        out = {}
        for kind, value, path in self.given:
            steps = ("spec", "initializer", kind)
            out[kind] = tuple(leaves(node_at(lines.NEWEST.name, *steps), value, path, steps))
        return out

    def expressions(self) -> Iterable[Expression]:
        """Those in the values."""
        return [e for _, value, _ in self.given for e in expressions_in(value)]

    def plan(self, subject: Subject) -> list[Write]:
        """A write for each piece, where the job or its runtime has the initializer."""
        return list(self._plan(subject))

    def _plan(self, subject: Subject) -> Iterator[Write]:
        info = subject.info
        for kind, found in self.leaves.items():
            in_job = type(info.job.initializer.get(kind)) is dict
            if not in_job and info.runtime.job(f"{kind}-initializer") is None:
                continue
            for leaf in found:
                for settled in settle(leaf, subject.evaluate):
                    yield Write(Place(None, settled.steps), settled.value)


def read(_mode: Mode, raw: Any, at: Path, errors: list[FieldError]) -> list[Option]:
    """Read ``initializer``."""
    found = obj(raw, at, errors, KINDS)
    if not found:
        if found is not None:
            errors.append(field.required(at, "must have dataset, model or both"))
        return []
    out = []
    for kind in KINDS:
        if kind not in found:
            continue
        here = at.child(kind)
        own = obj(found[kind], here, errors, FIELDS)
        if own is None:
            continue
        if not own:
            errors.append(field.required(here, "must have env, secretRef or both"))
        given = {key: own[key] for key in FIELDS if key in own}
        value = take(node_at(lines.NEWEST.name, "spec", "initializer", kind), given, here, errors)
        errors.extend(env_problems(value.get("env"), here.child("env")))
        if "secretRef" in given and not values.obj(value.get("secretRef")).get("name"):
            errors.append(field.required(here.child("secretRef", "name")))
        out.append((kind, value, here))
    return [Initializer(tuple(out))] if out else []
