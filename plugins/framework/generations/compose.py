"""Two overrides of one job as one, where that gives the same pod for every template.

A strategic merge is not associative as far as the order of lists goes: items that the template lacks are put first, so whether
``a`` stands before ``b`` after ``[a]`` and then ``[b]`` depends on which of them the template has. It does
not if the items of one override are a part of the other's, in the same order; then that order is kept
(``_interleave`` of ``plugins.framework.merge``: an untouched item is put before the first patched one that it
preceded, and a patched one moves others only by its place in the longer list). Everything else merges per
key, and the later value wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from plugins.framework import field, goform
from plugins.framework.field import Findings
from plugins.framework.generations.marks import SPEC
from plugins.framework.generations.steps import POD_TYPES, Json, Step, by_job
from plugins.framework.goform import FieldInfo, GoForms
from plugins.framework.lines import Line

_NOTHING: Final[Mapping[str, FieldInfo]] = {}


class Inexact(Exception):  # noqa: N818  # not an error: a way that is closed
    """Two overrides that no single one equals; the text names the field."""


def reduced(
    steps: list[Step], most: int, source: Line, target: Line, findings: Findings
) -> list[Step]:
    """The steps, at most ``most`` for a job, neighbours merged where it takes that; errors where it cannot be."""
    shorter = {
        job: _shortened(own, most, source, target, findings)
        for job, own in by_job(steps).items()
        if len(own) > most
    }
    if not shorter:
        return steps
    rest = [step for step in steps if step.job not in shorter]
    merged = [step for own in shorter.values() for step in own]
    return sorted([*rest, *merged], key=lambda step: step.origin[0])


def _shortened(
    steps: list[Step], most: int, source: Line, target: Line, findings: Findings
) -> list[Step]:
    out = steps[:1]
    too_many = len(steps) - most
    stuck: list[tuple[Step, str]] = []
    for step in steps[1:]:
        try:
            if too_many <= 0:
                out.append(step)
                continue
            out[-1] = merged(out[-1], step, source)
            too_many -= 1
        except Inexact as why:
            stuck.append((step, str(why)))
            out.append(step)
    if too_many > 0:
        for step, why in stuck:
            findings.error(field.forbidden(step.path, _refusal(step, most, why, source, target)))
    return out


def _refusal(step: Step, most: int, why: str, source: Line, target: Line) -> str:
    times = "once" if most == 1 else f"{most} times"
    return (
        f"Trainer {target.name} can override a job {times}, and this override of {field.show(step.job)} cannot be "
        f"merged into the one before it in {SPEC.child(source.generation)} without changing {why}: merge them by hand"
    )


def merged(first: Step, second: Step, source: Line) -> Step:
    """One step for two of the same job, the second one later. Raises Inexact."""
    forms = goform.load(source.name)
    return replace(
        first,
        origin=(*first.origin, *second.origin),
        metadata=_typed(first.metadata, second.metadata, "ObjectMeta", forms),
        spec=_typed(first.spec, second.spec, POD_TYPES[source.name], forms),
        extra={**first.extra, **second.extra},
    )


def _typed(first: Json, second: Json, type_name: str, forms: GoForms) -> Json:
    if not first or not second:
        return first or second
    a, b = forms.normalize(first, type_name), forms.normalize(second, type_name)
    return _Composer(forms).objects(first, a, second, b, forms.strategy(type_name))


class _Composer:
    """Composes raw values, led by what Go makes of them: what Go drops, or adds, decides which of two wins."""

    __slots__ = ("_forms",)

    def __init__(self, forms: GoForms) -> None:
        self._forms = forms

    def objects(
        self,
        raw_a: Any,
        a: Json,
        raw_b: Any,
        b: Json,
        fields: Mapping[str, FieldInfo],
        at: str = "",
    ) -> Json:
        """``b`` over ``a``; ``raw_a`` and ``raw_b`` are what was written, and what is returned."""
        _refuse_directives(a, b, at)
        raw_a, raw_b = _or_empty(raw_a), _or_empty(raw_b)
        out = dict(raw_a)
        for key, value in raw_b.items():
            if key not in b and value is not None and (key not in a or key not in fields):
                out[key] = value  # says nothing, or nobody knows what
        for key, value in b.items():
            written = raw_b.get(key)
            below = f"{at}.{key}" if at else key
            if value is None:
                out.pop(
                    key, None
                )  # a null deletes; Go adds it again where the field is not omitted
            elif key not in a:
                out[key] = value if written is None else written
            else:
                info = fields.get(key)
                out[key] = self._both(raw_a.get(key), a[key], written, value, info, below)
        return out

    def _both(self, raw_a: Any, a: Any, raw_b: Any, b: Any, info: FieldInfo | None, at: str) -> Any:
        if type(a) is dict and type(b) is dict:
            fields = self._forms.strategy(info.elem) if info is not None and info.elem else _NOTHING
            return self.objects(raw_a, a, raw_b, b, fields, at)
        if type(a) is list and type(b) is list and info is not None and info.merges:
            return self._lists(raw_a, a, raw_b, b, info, at)
        if a is None and type(b) in {dict, list}:
            raise Inexact(at)
        return b if raw_b is None else raw_b

    def _lists(
        self,
        raw_a: list[Any],
        a: list[Any],
        raw_b: list[Any],
        b: list[Any],
        info: FieldInfo,
        at: str,
    ) -> list[Any]:
        keys_a, keys_b = _keys(a, info.merge_key, at), _keys(b, info.merge_key, at)
        if _is_part(keys_a, keys_b):
            order = keys_b
        elif _is_part(keys_b, keys_a):
            order = keys_a
        else:
            raise Inexact(f"the order of {at}")
        fields = self._forms.strategy(info.elem)
        at_a, at_b = ({key: i for i, key in enumerate(keys)} for keys in (keys_a, keys_b))
        out: list[Any] = []
        for key in order:
            i, j = at_a.get(key), at_b.get(key)
            if i is None or j is None:
                out.append(raw_b[at_b[key]] if i is None else raw_a[i])
            else:
                out.append(self.objects(raw_a[i], a[i], raw_b[j], b[j], fields, f"{at}[{key}]"))
        if info.elem == "VolumeMount":
            _keys(out, "name", at)  # the merge goes by path, the API's list by name
        return out


def _refuse_directives(a: Json, b: Json, at: str) -> None:
    """A key such as ``$patch`` acts when it meets the template, and each override meets another one."""
    for key in (*a, *b):
        if key.startswith("$"):
            raise Inexact(f"what {key} in {at} does")


def _keys(items: Sequence[Any], key: str, at: str) -> list[str]:
    keys = [item.get(key) if type(item) is dict else None for item in items]
    texts = [text for text in keys if type(text) is str]
    if len(texts) < len(items) or len(set(texts)) < len(items):
        raise Inexact(f"the items of {at}")
    return texts


def _is_part(part: list[str], whole: list[str]) -> bool:
    """Whether ``part`` is ``whole`` with some left out."""
    rest = iter(whole)
    return all(key in rest for key in part)


def _or_empty(value: Any) -> Json:
    return value if type(value) is dict else {}
