"""The strategic merge that the Trainer's controller does with overrides, list order included.

The semantics are those of ``k8s.io/apimachinery/pkg/util/strategicpatch``; which lists merge, and by which
key, comes from the Go types (``goform``). Nothing given is changed: what the patch does not touch is shared
with the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from plugins.framework.errors import BuildError

if TYPE_CHECKING:
    from plugins.framework.goform import FieldInfo, GoForms

DIRECTIVE: Final = "$patch"
_ORDER: Final = "$setElementOrder"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"
_GONE: Final = object()


class Merger:
    """Merges patches into objects of the Go types of one Trainer line."""

    __slots__ = ("_forms",)

    def __init__(self, forms: GoForms) -> None:
        """Use the type tables of one line."""
        self._forms = forms

    def merge(
        self, original: dict[str, Any], patch: dict[str, Any], type_name: str
    ) -> dict[str, Any]:
        """``original`` with ``patch`` merged in, both of the Go type ``type_name``.

        Raises BuildError where the merge itself fails (an unknown ``$patch`` directive): the controller
        then fails on every reconcile.
        """
        return self._objects(original, patch, self._forms.strategy(type_name))

    def _objects(
        self, original: dict[str, Any], patch: dict[str, Any], fields: Mapping[str, FieldInfo]
    ) -> dict[str, Any]:
        if DIRECTIVE in patch:
            return _directive(patch)
        out = dict(original)
        for key, value in patch.items():
            if key.startswith("$"):
                name = _meant(key, value, original)
                if name is None:
                    continue
                out[name] = value
                continue
            if value is None:
                out.pop(key, None)
                continue
            info = fields.get(key)
            current = out.get(key)
            if type(value) is not type(current):
                out.pop(key, None)
                if (fresh := _fresh(value)) is not _GONE:
                    out[key] = fresh
            elif type(value) is dict and type(current) is dict:
                out[key] = self._objects(current, value, self._below(info))
            elif type(value) is list and type(current) is list and info is not None and info.merges:
                out[key] = self._lists(current, value, info)
            else:
                out[key] = value
        return out

    def _below(self, info: FieldInfo | None) -> Mapping[str, FieldInfo]:
        return self._forms.strategy(info.elem) if info is not None and info.elem else {}

    def _lists(self, original: list[Any], patch: list[Any], info: FieldInfo) -> list[Any]:
        key = info.merge_key
        if not key:
            return _plain_values(original, patch)
        below = self._below(info)
        position = {item.get(key): i for i, item in reversed(list(enumerate(original)))}
        merged = dict(enumerate(original))
        patched: list[tuple[int, Any]] = []
        seen: dict[Any, int] = {}
        for item in patch:
            name = item.get(key)
            if name in seen:
                at, previous = patched[seen[name]]
                patched[seen[name]] = (at, self._objects(previous, item, below))
                continue
            at = position.get(name, -1)
            value = self._objects(merged[at], item, below) if at >= 0 else item
            seen[name] = len(patched)
            patched.append((at, value))
        touched = {at for at, _ in patched if at >= 0}
        rest = [(i, item) for i, item in enumerate(original) if i not in touched]
        return _interleave(patched, rest)


def _plain_values(original: list[Any], patch: list[Any]) -> list[Any]:
    """Each value once, in the order that `_interleave` gives to items with keys."""
    position = {value: i for i, value in reversed(list(enumerate(original)))}
    patched = {value: position.get(value, -1) for value in patch}
    rest = [(i, value) for value, i in sorted(position.items(), key=itemgetter(1))]
    return _interleave(
        [(at, value) for value, at in patched.items()],
        [(i, value) for i, value in rest if value not in patched],
    )


def _interleave(patched: list[tuple[int, Any]], rest: list[tuple[int, Any]]) -> list[Any]:
    """Merge the patched items with the untouched ones, the patch's order first.

    An untouched item goes before the next patched one only if that one existed before and the untouched one
    stood before it then; so new items tend to come first.
    """
    out: list[Any] = []
    p = r = 0
    while p < len(patched) and r < len(rest):
        was = patched[p][0]
        if was >= 0 and rest[r][0] < was:
            out.append(rest[r][1])
            r += 1
        else:
            out.append(patched[p][1])
            p += 1
    out.extend(value for _, value in patched[p:])
    out.extend(value for _, value in rest[r:])
    return out


def _directive(patch: dict[str, Any]) -> dict[str, Any]:
    word = patch[DIRECTIVE]
    if word == "replace":
        return {k: v for k, v in patch.items() if k != DIRECTIVE}
    if word == "delete":
        return {}
    raise BuildError(f"Unknown patch type found: {word}")


def _meant(key: str, value: Any, original: Mapping[str, Any]) -> str | None:
    """Which key the value is for: a directive orders the merge about, another key with ``$`` is data.

    Directives get here through maps of text alone (labels, a nodeSelector). None of them can be obeyed with a
    text: two are errors, and one is taken for a value of the key that it names, if there is one.
    """
    if key == _RETAIN or key.startswith(_ORDER):
        raise BuildError(f"invalid value of the directive {key} in a patch")
    if not key.startswith(_DELETE_FROM):
        return key
    prefix, slash, name = key.partition("/")
    if prefix != _DELETE_FROM or not slash:
        raise BuildError(f"invalid directive {key} in a patch")
    return name if type(original.get(name)) is type(value) else None


def _fresh(value: Any) -> Any:
    """A value that meets nothing to merge with: objects with ``$patch`` vanish, however deep (``removeDirectives``)."""
    if type(value) is dict:
        if DIRECTIVE in value:
            return _GONE
        return {k: kept for k, v in value.items() if (kept := _fresh(v)) is not _GONE}
    if type(value) is list:
        return [kept for v in value if (kept := _fresh(v)) is not _GONE]
    return value
