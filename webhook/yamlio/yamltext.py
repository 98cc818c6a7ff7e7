"""One YAML document to a JSON value, from PyYAML's events.

libyaml cuts the text into events; what they mean is decided here, because PyYAML's own constructor means
other things by them (``010``, ``1:30``, dates, merge keys) and knows neither lines nor bounds. Rules and
order are those of ``decode.go`` in ``go.yaml.in/yaml/v2``, so are the bounds on aliases.

Importing this module costs PyYAML; ``reader`` does so when there is YAML to read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.reader import ReaderError

from plugins.framework import field
from webhook.yamlio import scalars
from webhook.yamlio.document import MAX_BYTES, MAX_DEPTH, TOO_DEEP, Document, bad, repeated

if TYPE_CHECKING:
    from plugins.framework.errors import BadInput

_FEW_DECODES: Final = 400_000
_MANY_DECODES: Final = 4_000_000
"""decode.go, ``alias_ratio_range_low`` and ``_high``: up to the first number of values 99 % may come
from aliases, from the second on 10 %, in between what lies on the line from one to the other."""

# The pure Python loader gives the same events, some ten times slower.
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_part(text: str, source: str, line: int, *, with_lines: bool = False) -> Document | None:
    """The document in a text that holds at most one; None if there is none.

    ``with_lines`` remembers the line of each key and item, which costs some memory.

    Raises:
        BadInput: it cannot be read; the line counts from ``line``.
    """
    try:
        loader = _Loader(text)
        try:
            return _Builder(loader.get_event, source, line, with_lines=with_lines).document()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, source, line) from error
    except ReaderError as error:
        raise _character_error(error, text, source, line) from error


def _syntax_error(error: yaml.MarkedYAMLError, text: str, source: str, line: int) -> BadInput:
    mark = error.problem_mark or error.context_mark
    problem = str(error.problem or error.context or "not YAML")
    if mark is None:
        return bad(source, line, problem)
    if "nesting" in problem:
        return bad(source, line + mark.line, TOO_DEEP)
    if "<document start>" in problem:
        problem = "text behind the end of the document, which kubectl would not read"
        return bad(source, line + mark.line, problem)
    lines = text.split("\n")
    at = lines[mark.line][mark.column : mark.column + 1] if mark.line < len(lines) else ""
    if at == "\t":
        problem += " (a tab: YAML indents with spaces)"
    elif error.context and error.problem:
        problem = f"{error.context}: {problem}"
    return bad(source, line + mark.line, field.escape(problem))


def _character_error(error: ReaderError, text: str, source: str, line: int) -> BadInput:
    position: Any = error.position  # libyaml counts bytes, the Python reader characters
    character: Any = error.character
    before = (
        text[:position]
        if isinstance(character, str)
        else text.encode()[:position].decode("utf-8", "ignore")
    )
    shown = field.show(character if isinstance(character, str) else chr(character))
    return bad(source, line + before.count("\n"), f"the character {shown} may not stand in YAML")


@dataclass(slots=True)
class _Scalar:
    """An anchored scalar, as resolved: as a key it reads differently than as a value."""

    value: scalars.Scalar


class _Open:
    """An anchored collection that is not complete yet: an alias to it contains itself."""


_Anchored: TypeAlias = "_Scalar | _Open | dict[str, Any] | list[Any]"


class _Builder:
    """Builds one value from events; knows the anchors and counts what aliases expand to.

    Events are ``Any`` here: the stubs allow for marks and anchors that are None, and a parser never
    leaves them out.
    """

    def __init__(
        self, next_event: Callable[[], Any], source: str, line: int, *, with_lines: bool
    ) -> None:
        self.next = next_event
        self.source = source
        self.line = line
        self.anchors: dict[str, _Anchored] = {}
        self.decoded = 0
        self.from_aliases = 0
        self.alias_bytes = 0
        self.with_lines = with_lines
        self.lines: dict[int, dict[str, int] | list[int]] = {}
        self.merged: list[Any] = []  # kept alive, so that no other object gets the id of one

    def document(self) -> Document | None:
        """The value of the whole stream."""
        self.next()  # StreamStart
        if not isinstance(self.next(), DocumentStartEvent):
            return None
        root = self.next()
        line = self.line_of(root)
        value = self.node(root, 0)
        self.next()  # DocumentEnd
        self.next()  # StreamEnd: a syntax error if anything is left
        return Document(obj=value, source=self.source, line=line, lines=self.lines)

    def line_of(self, event: Any) -> int:
        return self.line + int(event.start_mark.line)

    def bad(self, event: Any, problem: str) -> BadInput:
        return bad(self.source, self.line_of(event), problem)

    def node(self, event: Any, depth: int) -> Any:
        """The value that begins with this event, ``depth`` collections deep."""
        self.decoded += 1
        kind = type(event)
        if kind is ScalarEvent:
            return self.json(event, self.scalar(event))
        if kind is AliasEvent:
            return self.alias(event, depth)
        if depth >= MAX_DEPTH:
            raise self.bad(event, TOO_DEEP)
        return self.collection(event, depth + 1)

    def collection(self, event: MappingStartEvent | SequenceStartEvent, depth: int) -> Any:
        if event.anchor is None:
            return self.items(event, depth)
        # decode.go registers an anchor where its node begins, so one inside may take its name over.
        open_ = self.anchors[event.anchor] = _Open()
        value = self.items(event, depth)
        if self.anchors[event.anchor] is open_:
            self.anchors[event.anchor] = value
        return value

    def items(self, event: MappingStartEvent | SequenceStartEvent, depth: int) -> Any:
        if isinstance(event, MappingStartEvent):
            return self.mapping(depth)
        sequence: list[Any] = []
        lines: list[int] = []
        while type(item := self.next()) is not SequenceEndEvent:
            lines.append(self.line_of(item))
            sequence.append(self.node(item, depth))
        if self.with_lines:
            self.lines[id(sequence)] = lines
        return sequence

    def mapping(self, depth: int) -> dict[str, Any]:
        """A map: later keys win over merged ones and merged ones over earlier keys, as in decode.go."""
        out: dict[str, Any] = {}
        lines: dict[str, int] = {}
        while type(event := self.next()) is not MappingEndEvent:
            if _is_merge(event):
                self.merge(out, self.next(), depth)
                continue
            key = self.key(event, depth)
            if key in lines:
                raise self.bad(event, repeated(field.show(key), lines[key]))
            lines[key] = self.line_of(event)
            out[key] = self.node(self.next(), depth)
        if self.with_lines:
            self.lines[id(out)] = lines
        return out

    def merge(self, out: dict[str, Any], event: Any, depth: int) -> None:
        """``<<``: a map, an alias of one, or a list of such, in which the earlier take precedence."""
        value = None if type(event) is ScalarEvent else self.node(event, depth)
        self.merged.append(value)
        maps: list[Any] = value if type(event) is SequenceStartEvent else [value]  # type: ignore[assignment]  # then node gives a list
        for item in reversed(maps):
            if not isinstance(item, dict):
                raise self.bad(event, "`<<` wants a map or a list of maps")
            out.update(item)

    def key(self, event: Any, depth: int) -> str:
        """A key as text: numbers and booleans become strings, null and collections may not be keys."""
        self.decoded += 1
        if type(event) is ScalarEvent:
            value = self.scalar(event)
        elif type(event) is AliasEvent and isinstance(anchored := self.target(event), _Scalar):
            value = anchored.value
        else:
            self.node(event, depth)
            raise self.bad(event, "a key must be a string, not a map or a list")
        text = scalars.key_text(value)
        if text is None:
            raise self.bad(event, f"{field.show(value)} cannot be a key: write it in quotes")
        return text

    def scalar(self, event: ScalarEvent) -> scalars.Scalar:
        """What a scalar resolves to; JSON comes after, in ``json``."""
        value: scalars.Scalar = event.value
        if event.tag is not None:
            try:
                value = scalars.resolve_tagged(event.tag, event.value)
            except scalars.TagMismatchError as error:
                raise self.bad(event, f"{field.show(event.value)} is {error}") from error
        elif event.implicit[0]:
            value = scalars.resolve(event.value)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Scalar(value)
        return value

    def json(self, event: Any, value: scalars.Scalar) -> Any:
        """The JSON of a scalar: whole floats are integers, integers past 64 bits floats."""
        if type(value) is float:
            if not math.isfinite(value):
                raise self.bad(event, f"{scalars.format_float(value, bits=64)} has no form in JSON")
            return scalars.number(value)
        if type(value) is int and value not in scalars.INT64:
            return float(value)
        return value

    def target(self, event: Any) -> _Anchored:
        anchored = self.anchors.get(event.anchor)
        if anchored is None:
            raise self.bad(event, f"no anchor {field.show(event.anchor)} before this alias")
        if isinstance(anchored, _Open):
            raise self.bad(event, f"the value of anchor {field.show(event.anchor)} contains itself")
        return anchored

    def alias(self, event: Any, depth: int) -> Any:
        """A copy of what the anchor holds: a change to one place must not show in another."""
        anchored = self.target(event)
        before = self.decoded
        value = self.json(event, anchored.value) if isinstance(anchored, _Scalar) else anchored
        copy = self.copy(event, value, depth)
        self.from_aliases += self.decoded - before
        if self.is_excessive() or self.alias_bytes > MAX_BYTES:
            raise self.bad(event, "aliases expand to too much")
        return copy

    def copy(self, event: Any, value: Any, depth: int) -> Any:
        self.decoded += 1
        if isinstance(value, str):
            self.alias_bytes += len(value)
            return value
        if not isinstance(value, dict | list):
            return value
        if depth >= MAX_DEPTH:
            raise self.bad(event, TOO_DEEP)
        if isinstance(value, list):
            return [self.copy(event, item, depth + 1) for item in value]
        self.decoded += len(value)
        self.alias_bytes += sum(map(len, value))
        return {key: self.copy(event, item, depth + 1) for key, item in value.items()}

    def is_excessive(self) -> bool:
        """decode.go, ``allowedAliasRatio``: small documents may be almost all aliases, large ones not."""
        if self.from_aliases <= 100 or self.decoded <= 1000:
            return False
        over = (self.decoded - _FEW_DECODES) / (_MANY_DECODES - _FEW_DECODES)
        allowed = 0.99 - 0.89 * min(max(over, 0.0), 1.0)
        return self.from_aliases / self.decoded > allowed


def _is_merge(event: Any) -> bool:
    return (
        type(event) is ScalarEvent
        and event.value == "<<"
        and (event.implicit[0] or event.tag == scalars.MERGE_TAG)
    )
