"""Two overrides of one job as one, where that gives the same pod for every template.

A strategic merge is not associative as far as the order of lists goes: items that the template lacks are put first, so whether
``a`` stands before ``b`` after ``[a]`` and then ``[b]`` depends on which of them the template has. It does
not if the items of one override are a part of the other's, in the same order; then that order is kept
(``_interleave`` of ``plugins.framework.merge``: an untouched item is put before the first patched one that it
preceded, and a patched one moves others only by its place in the longer list). Everything else merges per
key, and the later value wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from plugins.framework import field, goform, values
from plugins.framework.field import Findings
from plugins.framework.generations.marks import SPEC
from plugins.framework.generations.steps import POD_TYPES, Json, Step, by_job
from plugins.framework.goform import FieldInfo, GoForms
from plugins.framework.lines import Line

_NOTHING: Final[Mapping[str, FieldInfo]] = {}


def reduced(
    steps: list[Step], most: int, source: Line, target: Line, findings: Findings
) -> list[Step]:
    """The steps, at most ``most`` for a job, neighbours merged where it takes that; errors where it cannot be."""
    shorter = {
        job: _shortened(own, most, source, target, findings)
        for job, own in by_job(steps).items()
        if len(own) > most
    }
    kept = {(step.job, step.origin[0]): step for own in shorter.values() for step in own}
    keys = [(step.job, step.origin[0]) for step in steps]
    return [
        kept.get(key, step)
        for key, step in zip(keys, steps, strict=True)
        if step.job not in shorter or key in kept
    ]


def _shortened(
    steps: list[Step], most: int, source: Line, target: Line, findings: Findings
) -> list[Step]:
    out = steps[:1]
    too_many = len(steps) - most
    stuck: list[tuple[Step, str]] = []
    for step in steps[1:]:
        both = merged(out[-1], step, source) if too_many > 0 else step
        if isinstance(both, Step) and both is not step:
            out[-1] = both
            too_many -= 1
            continue
        if isinstance(both, str):
            stuck.append((step, both))
        out.append(step)
    if too_many > 0:
        for step, why in stuck:
            findings.error(field.forbidden(step.path, _refusal(step, most, why, source, target)))
    return out


def _refusal(step: Step, most: int, why: str, source: Line, target: Line) -> str:
    times = "once" if most == 1 else f"{most} times"
    return (
        f"Trainer {target.name} can override a job {times}, and this override of {field.show(step.job)} "
        f"cannot be merged into the one before it in {SPEC.child(source.generation)} without changing {why}: "
        "merge them by hand"
    )


def merged(first: Step, second: Step, source: Line) -> Step | str:
    """One step for two of the same job, the second one later; or what would be changed by that."""
    composer = _Composer(goform.load(source.name))
    try:
        return replace(
            first,
            origin=(*first.origin, *second.origin),
            metadata=composer.typed(first.metadata, second.metadata, "ObjectMeta", "ObjectMeta"),
            spec=composer.typed(first.spec, second.spec, POD_TYPES[source.name], "PodSpec"),
            extra={**first.extra, **second.extra},
        )
    except _Inexact as why:
        return str(why)


class _Inexact(Exception):
    """Two overrides that no single one equals; the text says what would differ."""


class _Value(NamedTuple):
    """A value as it was written, and as Go writes it: what Go drops or adds decides which of two wins."""

    raw: Any
    go: Any


class _Composer:
    """Composes values of one line. What comes out is as it was written."""

    __slots__ = ("_forms",)

    def __init__(self, forms: GoForms) -> None:
        self._forms = forms

    def typed(self, first: Json, second: Json, type_name: str, into: str) -> Json:
        """``second`` over ``first``; Go reads both as ``type_name`` and merges them into an ``into``."""
        if not first or not second:
            return first or second
        a, b = _without_nulls(first), _without_nulls(second)
        before = _Value(a, self._forms.normalize(a, type_name))
        after = _Value(b, self._forms.normalize(b, type_name))
        return self._objects(before, after, self._forms.strategy(into), "")

    def _objects(self, a: _Value, b: _Value, fields: Mapping[str, FieldInfo], at: str) -> Json:
        _refuse_directives(a.go, b.go, at)
        raw_a, raw_b = values.obj(a.raw), values.obj(b.raw)
        # What says nothing, or nobody knows, gives way to what says something.
        silent = {
            key: value
            for key, value in raw_b.items()
            if key not in b.go and (key not in a.go or key not in fields)
        }
        out = {**raw_a, **silent}
        for key, value in b.go.items():
            if value is None:
                # A null deletes, and Go writes it for a field that is absent.
                out.pop(key, None)
            elif key not in a.go:
                out[key] = raw_b.get(key, value)
            else:
                info = fields.get(key)
                below = f"{at}.{key}" if at else key
                before = _Value(raw_a.get(key), a.go[key])
                out[key] = self._both(before, _Value(raw_b.get(key), value), info, below)
        return out

    def _both(self, a: _Value, b: _Value, info: FieldInfo | None, at: str) -> Any:
        if type(a.go) is dict and type(b.go) is dict:
            fields = self._forms.strategy(info.elem) if info is not None and info.elem else _NOTHING
            return self._objects(a, b, fields, at)
        if type(a.go) is list and type(b.go) is list and info is not None and info.merges:
            return self._lists(a, b, info, at)
        if a.go is None and type(b.go) in {dict, list}:
            raise _Inexact(at)
        return b.go if b.raw is None else b.raw

    def _lists(self, a: _Value, b: _Value, info: FieldInfo, at: str) -> list[Any]:
        items_a, items_b = _items(a, info.merge_key, at), _items(b, info.merge_key, at)
        order = _common_order(list(items_a), list(items_b))
        if order is None:
            raise _Inexact(f"the order of {at}")
        fields = self._forms.strategy(info.elem)
        out: list[Any] = []
        for key in order:
            before, after = items_a.get(key), items_b.get(key)
            if before is not None and after is not None:
                out.append(self._objects(before, after, fields, f"{at}[{key}]"))
            else:
                only = after if before is None else before
                out.append(None if only is None else only.raw)
        if info.elem == "VolumeMount":
            # The merge goes by path, but the API's list by name.
            _items(_Value(out, out), "name", at)
        return out


def _refuse_directives(a: Json, b: Json, at: str) -> None:
    """A key such as ``$patch`` acts when it meets the template, and each override meets another one."""
    for key in (*a, *b):
        if key.startswith("$"):
            raise _Inexact(f"what {key} in {at} does")


def _items(value: _Value, key: str, at: str) -> dict[str, _Value]:
    """The items of a list by their key, in order."""
    out: dict[str, _Value] = {}
    for raw, go in zip(value.raw, value.go, strict=True):
        name = go.get(key) if type(go) is dict else None
        if type(name) is not str or name in out:
            raise _Inexact(f"the items of {at}")
        out[name] = _Value(raw, go)
    return out


def _common_order(a: list[str], b: list[str]) -> list[str] | None:
    if _is_part(a, b):
        return b
    return a if _is_part(b, a) else None


def _is_part(part: list[str], whole: list[str]) -> bool:
    """Whether ``part`` is ``whole`` with some left out."""
    rest = iter(whole)
    return all(key in rest for key in part)


def _without_nulls(value: Any) -> Any:
    """The value as the API server stores it, which drops every null in a map."""
    if type(value) is dict:
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if type(value) is list else value
