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
from plugins.framework.generations.steps import POD_TYPES, Json, Step, by_job
from plugins.framework.goform import FieldInfo
from plugins.framework.lines import Line

MOST_MERGED: Final = 256
"""Overrides of one job that are merged away. Each merge copies what it changes, so a job of 8 MiB with as many as
fit would take hours; with this many it takes seconds, and nobody writes 256 overrides of one job by hand."""
_NOTHING: Final[Mapping[str, FieldInfo]] = {}


def reduced(
    steps: list[Step], most: int, source: Line, target: Line, findings: Findings
) -> list[Step]:
    """The steps, at most ``most`` for a job, neighbours merged where it takes that; errors where it cannot be."""
    composer = _Composer(source)
    shorter: dict[str, list[Step]] = {}
    for job, own in by_job(steps).items():
        if len(own) > most:
            shorter[job], stuck = _shortened(own, most, composer)
            for step, why in stuck:
                detail = _refusal(step, most, why, target)
                findings.error(field.forbidden(step.path, detail))
    kept = {(step.job, step.origin[0]): step for own in shorter.values() for step in own}
    keys = [(step.job, step.origin[0]) for step in steps]
    return [
        kept.get(key, step)
        for key, step in zip(keys, steps, strict=True)
        if step.job not in shorter or key in kept
    ]


def merged(first: Step, second: Step, source: Line) -> Step | str:
    """One step for two of the same job, the second one later; or what would be changed by that."""
    composer = _Composer(source)
    both = composer.merged(composer.opened(first), composer.opened(second))
    return both if isinstance(both, str) else both.closed()


def _shortened(
    steps: list[Step], most: int, composer: _Composer
) -> tuple[list[Step], list[tuple[Step, str]]]:
    """At most ``most`` steps, or the steps that could not be merged into the one before, with the reason."""
    surplus = len(steps) - most
    if surplus > MOST_MERGED:
        step = steps[most + MOST_MERGED]
        return steps, [(step, f"no more than {MOST_MERGED} overrides are merged: use fewer")]
    out = [composer.opened(steps[0])]
    stuck: list[tuple[Step, str]] = []
    for step in steps[1:]:
        part = composer.opened(step)
        both = composer.merged(out[-1], part) if surplus > 0 else ""
        if isinstance(both, _Part):
            out[-1] = both
            surplus -= 1
            continue
        if both:
            why = f"merging this override into the one before it would change {both}"
            stuck.append((step, f"{why}: merge them by hand"))
        out.append(part)
    return [part.closed() for part in out], stuck if surplus > 0 else []


def _refusal(step: Step, most: int, why: str, target: Line) -> str:
    times = "once" if most == 1 else f"{most} times"
    return f"Trainer {target.name} can override job {field.show(step.job)} {times}, and {why}"


class _Inexact(Exception):
    """Two overrides that no single one equals; the text says what would differ."""


class _Value(NamedTuple):
    """A value as it was written, and as Go writes it: what Go drops or adds decides which of two wins."""

    raw: Any
    go: Any
    directives: bool = False
    """Whether there may be any in it."""


class _Part(NamedTuple):
    """One step, or several that became one."""

    step: Step
    metadata: _Value
    spec: _Value

    def closed(self) -> Step:
        return replace(self.step, metadata=self.metadata.raw, spec=self.spec.raw)


class _Composer:
    """Composes values of one line. What comes out is as it was written."""

    __slots__ = ("_forms", "_pod_type")

    def __init__(self, source: Line) -> None:
        self._forms = goform.load(source.name)
        self._pod_type = POD_TYPES[source.name]

    def opened(self, step: Step) -> _Part:
        return _Part(
            step,
            self._typed(step.metadata, "ObjectMeta"),
            self._typed(step.spec, self._pod_type),
        )

    def merged(self, first: _Part, second: _Part) -> _Part | str:
        step = replace(
            first.step,
            origin=(*first.step.origin, *second.step.origin),
            extra={**first.step.extra, **second.step.extra},
        )
        try:
            return _Part(
                step,
                self._into("ObjectMeta", first.metadata, second.metadata),
                self._into("PodSpec", first.spec, second.spec),
            )
        except _Inexact as why:
            return str(why)

    def _typed(self, value: Json, type_name: str) -> _Value:
        raw = _without_nulls(value)
        return _Value(raw, self._forms.normalize(raw, type_name), values.has_directives(raw))

    def _into(self, type_name: str, a: _Value, b: _Value) -> _Value:
        """``b`` over ``a``; the merge is into an object of this type, which knows how lists merge."""
        if not a.raw or not b.raw:
            return a if a.raw else b
        return self._objects(a, b, self._forms.strategy(type_name), "")

    def _objects(self, a: _Value, b: _Value, fields: Mapping[str, FieldInfo], at: str) -> _Value:
        directives = a.directives or b.directives
        if directives:
            _refuse_directives(a.go, b.go, at)
        raw_a, raw_b = values.obj(a.raw), values.obj(b.raw)
        # What says nothing, or nobody knows, gives way to what says something.
        silent = {
            key: value
            for key, value in raw_b.items()
            if key not in b.go and (key not in a.go or key not in fields)
        }
        raw, go = {**raw_a, **silent}, dict(a.go)
        for key, value in b.go.items():
            later = _Value(raw_b.get(key), value, b.directives)
            if value is None:
                # A null deletes, and Go writes it for a field that is absent.
                raw.pop(key, None)
                go[key] = None
                continue
            if key in a.go:
                earlier = _Value(raw_a.get(key), a.go[key], a.directives)
                later = self._both(earlier, later, fields.get(key), f"{at}.{key}" if at else key)
            raw[key], go[key] = (value if later.raw is None else later.raw), later.go
        return _Value(raw, go, directives)

    def _both(self, a: _Value, b: _Value, info: FieldInfo | None, at: str) -> _Value:
        if type(a.go) is dict and type(b.go) is dict:
            fields = self._forms.strategy(info.elem) if info is not None and info.elem else _NOTHING
            return self._objects(a, b, fields, at)
        if type(a.go) is list and type(b.go) is list and info is not None and info.merges:
            return self._lists(a, b, info, at)
        if a.go is None and type(b.go) in {dict, list}:
            raise _Inexact(at)
        return b

    def _lists(self, a: _Value, b: _Value, info: FieldInfo, at: str) -> _Value:
        items_a, items_b = _items(a, info.merge_key, at), _items(b, info.merge_key, at)
        order = _common_order(list(items_a), list(items_b))
        if order is None:
            raise _Inexact(f"the order of {at}")
        fields = self._forms.strategy(info.elem)
        out: list[_Value] = []
        for key in order:
            if key in items_a and key in items_b:
                out.append(self._objects(items_a[key], items_b[key], fields, f"{at}[{key}]"))
            else:
                out.append(items_b[key] if key in items_b else items_a[key])
        both = _Value([v.raw for v in out], [v.go for v in out], a.directives or b.directives)
        if info.elem == "VolumeMount":
            # The merge goes by path, but the API's list by name.
            _items(both, "name", at)
        return both


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
        out[name] = _Value(raw, go, value.directives)
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
