"""What becomes of an object when Go reads it into a type and writes it again, and how its lists merge.

The Trainer's controller holds templates and patches in Go types. Reading drops what a type does not know;
writing drops the empty values of fields marked ``omitempty``, and adds those of fields that are not. A strategic merge
works on what is left, and finds in the types which lists it merges, and by which key::

    forms = goform.load("2.3")
    forms.normalize(spec, "JobSetSpec")        # json.Marshal(json.Unmarshal(spec)), as new as it must be
    forms.strategy("PodSpec")["containers"]    # FieldInfo(kind="slice", elem="Container", merge_key="name", ...)
    forms.types                                # the names of all types

``normalize`` shares with its argument whatever does not change, and returns the argument itself if nothing does. It
never raises: a value that Go would refuse to read into its field (a string for a number, a text that is no
quantity) stays as it is, since whoever asks has met ``schema`` first.

The facts are in ``tables/goform.json``, derived from the Go types by ``scripts/facts/forms.py``. A type is there a
map of fields to ``[form, omit, patchStrategy, patchMergeKey]``. A form is read from left to right: ``*`` pointer,
``[`` list of, ``{`` map of, then ``=Type`` or a letter: ``s`` string, ``b`` bool, ``i`` integer, ``f`` float, ``q`` quantity,
``x`` integer or string, ``t`` time, ``r`` raw JSON. Omit is ``e`` (omitempty), ``z`` (omitzero) or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import orjson

Kind: TypeAlias = Literal[
    "string",
    "bool",
    "int",
    "float",
    "quantity",
    "int-or-string",
    "time",
    "raw",
    "struct",
    "map",
    "slice",
]
Write: TypeAlias = Callable[[Any], Any]

_KINDS: Final[Mapping[str, Kind]] = {
    "s": "string",
    "b": "bool",
    "i": "int",
    "f": "float",
    "q": "quantity",
    "x": "int-or-string",
    "t": "time",
    "r": "raw",
    "=": "struct",
    "[": "slice",
    "{": "map",
}
_TABLE: Final = Path(__file__).resolve().parent / "tables" / "goform.json"
_ZEROS: Final[Mapping[Kind, Any]] = {
    "string": "",
    "bool": False,
    "int": 0,
    "float": 0,
    "quantity": "0",
    "int-or-string": 0,
}
_GONE: Final[Any] = object()
"""What a field writes that is left out."""
_RFC3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,]\d+)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldInfo:
    """One field of a Go struct, under its JSON name."""

    kind: Kind
    pointer: bool = False
    elem: str = ""
    """The struct type in this field, or in the list or map that it is; empty if there is none."""
    form: str
    """The whole type, in the letters of the table."""
    omit: str = ""
    patch_strategy: str = ""
    merge_key: str = ""

    @property
    def merges(self) -> bool:
        """Whether a strategic merge merges this list instead of replacing it."""
        return "merge" in self.patch_strategy.split(",")


def _read_field(raw: list[str]) -> FieldInfo:
    form, omit, strategy, key = (*raw, "", "", "")[:4]
    bare = form.lstrip("*")
    return FieldInfo(
        kind=_KINDS[bare[0]],
        pointer=form.startswith("*"),
        elem=form.partition("=")[2],
        form=form,
        omit=omit,
        patch_strategy=strategy,
        merge_key=key,
    )


class GoForms:
    """The types of one line. Types are read and compiled when first used."""

    __slots__ = ("_raw", "_strategies", "_writers")

    def __init__(self, raw: Mapping[str, Mapping[str, list[str]]]) -> None:
        """Take the types of a line from the table."""
        self._raw = raw
        self._strategies: dict[str, Mapping[str, FieldInfo]] = {}
        self._writers: dict[str, Write] = {}

    @property
    def types(self) -> tuple[str, ...]:
        """The names of all types."""
        return tuple(self._raw)

    def strategy(self, type_name: str) -> Mapping[str, FieldInfo]:
        """The fields of a struct type. KeyError for a type that this line does not have."""
        found = self._strategies.get(type_name)
        if found is None:
            found = {name: _read_field(raw) for name, raw in self._raw[type_name].items()}
            self._strategies[type_name] = found
        return found

    def normalize(self, obj: Any, type_name: str) -> Any:
        """What ``json.Unmarshal`` into the type and ``json.Marshal`` make of ``obj``."""
        return self._writer(type_name)(obj)

    def _writer(self, type_name: str) -> Write:
        found = self._writers.get(type_name)
        if found is None:
            fields = self.strategy(type_name)
            writers = {name: self._field(info) for name, info in fields.items()}
            # What an absent field adds: decided by writing an absent value once.
            always = tuple((n, w) for n, w in writers.items() if w(None) is not _GONE)
            found = _struct(writers, always)
            self._writers[type_name] = found
        return found

    def _field(self, info: FieldInfo) -> Write:
        if info.pointer:
            # A pointer to a zero value is not empty.
            write = self._value(info.form[1:])
            nothing = _GONE if info.omit else None
            return lambda value: nothing if value is None else write(value)
        if info.kind in {"slice", "map"}:
            return self._container(info)
        write = self._value(info.form)
        if info.omit == "e" and info.kind in {"string", "bool", "int", "float"}:
            return lambda value: _GONE if not value and type(value) in _EMPTY else write(value)
        if info.omit == "z":
            return self._unless_zero(info, write)
        # omitempty does not omit structs, nor quantities and times, which are structs.
        return write

    def _container(self, info: FieldInfo) -> Write:
        write = self._value(info.form)
        if info.omit:
            return lambda value: _GONE if not value and type(value) in _NO_ITEMS else write(value)
        return lambda value: None if value is None else write(value)

    def _unless_zero(self, info: FieldInfo, write: Write) -> Write:
        if info.kind == "struct":
            return lambda value: _GONE if self._is_zero(value, info.elem) else write(value)
        return lambda value: _GONE if not value or write(value) is None else write(value)

    def _is_zero(self, value: Any, type_name: str) -> bool:
        """Whether Go holds nothing but zero values after reading this; a pointer or a list that is there is something."""
        if type(value) is not dict:
            return value is None
        fields = self.strategy(type_name)
        for name, item in value.items():
            info = fields.get(name)
            if info is None or item is None:
                continue
            if info.pointer or info.kind in {"slice", "map"}:
                return False
            if info.kind == "struct":
                if not self._is_zero(item, info.elem):
                    return False
            elif item and item != _ZEROS.get(info.kind):
                return False
        return True

    def _value(self, form: str) -> Write:
        """How a value of this form is written, where ``None`` stands for one that is not there."""
        letter, rest = form[0], form[1:]
        if letter == "=":
            return self._lazy(rest)
        if letter == "[":
            return _list(self._element(rest))
        if letter == "{":
            return _map(self._element(rest))
        if letter == "q":
            return write_quantity
        if letter == "t":
            return write_time
        if letter == "r":
            return _same
        zero = _ZEROS[_KINDS[letter]]
        if letter == "i":
            return lambda value: zero if value is None else _whole(value)
        return lambda value: zero if value is None else value

    def _element(self, form: str) -> Write:
        if not form.startswith("*"):
            return self._value(form)
        write = self._value(form[1:])
        return lambda value: None if value is None else write(value)

    def _lazy(self, type_name: str) -> Write:
        write: Write | None = None

        def later(value: Any) -> Any:
            nonlocal write
            if write is None:
                write = self._writer(type_name)
            return write(value)

        return later


_EMPTY: Final = frozenset({type(None), str, bool, int, float})
_NO_ITEMS: Final = frozenset({type(None), list, dict})


def _same(value: Any) -> Any:
    return value


def _whole(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else value


def write_quantity(value: Any) -> Any:
    """A quantity as Go prints it, or as it is if it is none."""
    if value is None:
        return "0"
    if type(value) is int:
        value = str(value)
    if type(value) is not str:
        return value
    text = _quantity(value)
    return value if text == value else text


@lru_cache(maxsize=4096)
def _quantity(text: str) -> str:
    from plugins.framework import quantity  # noqa: PLC0415  # most objects have none, and --help needs nothing of it

    try:
        read = quantity.parse(text)
    except quantity.QuantityError:
        return text
    return text if quantity.is_kept(text) else quantity.canonical(read)


def write_time(value: Any) -> Any:
    """A time as ``metav1.Time`` prints it: UTC, whole seconds; null for the zero time."""
    if value is None:
        return None
    match = _RFC3339.match(value) if type(value) is str else None
    if match is None:
        return value
    if match[2] == "Z":
        text = f"{match[1]}Z"
        return None if text == "0001-01-01T00:00:00Z" else value if text == value else text
    try:
        moment = datetime.fromisoformat(match[1] + match[2]).astimezone(UTC)
    except (ValueError, OverflowError):
        return value
    return f"{moment.replace(tzinfo=None).isoformat()}Z"


def _struct(writers: Mapping[str, Write], always: tuple[tuple[str, Write], ...]) -> Write:
    writer_of = writers.get

    def write(value: Any) -> Any:
        if type(value) is not dict:
            if value is not None:
                return value
            value = {}
        out: dict[str, Any] = {}
        same = True
        for name, item in value.items():
            writer = writer_of(name)
            new = _GONE if writer is None else writer(item)
            if new is not _GONE:
                out[name] = new
            if new is not item:
                same = False
        for name, writer in always:
            if name not in value:
                out[name] = writer(None)
                same = False
        return value if same else out

    return write


def _list(element: Write) -> Write:
    def write(value: Any) -> Any:
        if type(value) is not list:
            return value
        out = [element(item) for item in value]
        return value if all(map(_is, out, value)) else out

    return write


def _map(element: Write) -> Write:
    def write(value: Any) -> Any:
        if type(value) is not dict:
            return value
        out = {name: element(item) for name, item in value.items()}
        return value if all(map(_is, out.values(), value.values())) else out

    return write


def _is(a: Any, b: Any) -> bool:
    return a is b


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    table: dict[str, Any] = orjson.loads(_TABLE.read_bytes())
    return table


@lru_cache(maxsize=8)
def load(line: str) -> GoForms:
    """The types of one line (``2.0`` to ``2.3``), read when first asked for."""
    table = _table()
    if line not in table["lines"]:
        message = f"no Go types for the line {line!r}; there are: {', '.join(table['lines'])}"
        raise ValueError(message)
    return GoForms(table["types"] | table["lines"][line])
