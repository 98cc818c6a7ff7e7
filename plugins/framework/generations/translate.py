"""Copies values from one line to another, and finds what the other line has no place for.

What a line knows are the fields of its Go types (``goform``), from which its CRDs are generated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from plugins.framework import field, goform, values
from plugins.framework.field import Findings, Path
from plugins.framework.generations.marks import ALL, spoken
from plugins.framework.goform import FieldInfo
from plugins.framework.lines import Line

Types: TypeAlias = Mapping[str, str]
"""The Go type of one place, by line; without the lines that have no such place."""

IN_RUNTIME: Final = "set it in the template of the runtime, or leave it out"


def same_type(name: str) -> Types:
    """A type that has the same name in all lines."""
    return dict.fromkeys(ALL, name)


class Translator:
    """Copies from line to line, and adds what there is to say to ``findings``."""

    __slots__ = ("_advice", "_source", "_target", "findings")

    def __init__(self, source: Line, target: Line, findings: Findings, advice: str) -> None:
        """``advice`` says what to do about a field that the target does not have."""
        self._source = source.name
        self._target = target.name
        self._advice = advice
        self.findings = findings

    def copy(
        self, value: Any, path: Path, types: Types, *, skip: frozenset[Path] = frozenset()
    ) -> Any:
        """A copy of an object of these types; places in ``skip`` are copied as they are."""
        if type(value) is not dict:
            if value is not None:
                self.findings.error(field.type_invalid(path, value, "must be an object"))
            return values.copy(value)
        out: dict[str, Any] = {}
        for key, item in value.items():
            here = path.child(key)
            known = {line: info for line in types if (info := _fields(line, types[line]).get(key))}
            before, after = known.get(self._source), known.get(self._target)
            if item is None or here in skip or (before is None and after is None):
                out[key] = values.copy(item)
            elif before is None:
                self.leave_out(here)
            elif after is None:
                self._lose(here, item, known)
            else:
                elem = {line: info.elem for line, info in known.items() if info.elem}
                out[key] = self._field(item, here, before, elem, skip)
        return out

    def leave_out(self, path: Path) -> None:
        """Warn of a field that the source ignores and the target would obey."""
        self.findings.warn(
            f"{path}: left out, since Trainer {self._source} ignores it here and Trainer {self._target} would not"
        )

    def _lose(self, path: Path, value: Any, known: Mapping[str, FieldInfo]) -> None:
        if not says(known[self._source], value):
            return
        have = tuple(line for line in ALL if line in known)
        verb = "has" if len(have) == 1 else "have"
        lack = f"Trainer {self._target} has no such field ({spoken(have)} {verb})"
        self.findings.error(field.forbidden(path, f"{lack}: {self._advice}"))

    def _field(
        self, value: Any, path: Path, info: FieldInfo, elem: Types, skip: frozenset[Path]
    ) -> Any:
        kind = info.kind
        if kind == "slice":
            if type(value) is not list:
                self.findings.error(field.type_invalid(path, value, "must be a list"))
            elif elem:
                return [
                    self.copy(item, path.index(i), elem, skip=skip) for i, item in enumerate(value)
                ]
        elif kind == "struct":
            return self.copy(value, path, elem, skip=skip)
        elif kind == "map":
            # No type has a map of structs.
            if type(value) is not dict:
                self.findings.error(field.type_invalid(path, value, "must be an object"))
        elif kind != "raw" and type(value) in {dict, list}:
            self.findings.error(field.type_invalid(path, value, f"must be a {kind}"))
        return values.copy(value)


def says(info: FieldInfo, value: Any) -> bool:
    """Whether this value of a field reaches the merge; the empty ones of ``omitempty`` do not (semantics 3.3)."""
    if info.pointer:
        return value is not None
    return bool(value)


def _fields(line: str, type_name: str) -> Mapping[str, FieldInfo]:
    return goform.load(line).strategy(type_name)


def object_at(findings: Findings, path: Path, value: Any) -> dict[str, Any]:
    """The object at this path, empty if there is none; anything else is an error."""
    if value is not None and type(value) is not dict:
        findings.error(field.type_invalid(path, value, "must be an object"))
    return values.obj(value)


def list_at(findings: Findings, path: Path, value: Any) -> list[Any]:
    """The list at this path, empty if there is none; anything else is an error."""
    if value is not None and type(value) is not list:
        findings.error(field.type_invalid(path, value, "must be a list"))
    return values.items(value)
