"""The one switch: whether we enforce, only warn, or keep out of the way.

It is a ConfigMap, thrown with kubectl alone and without a restart::

    kubectl -n stationmaster-system create configmap stationmaster-mode --from-literal=mode=off

What it says decides as follows; ``docs/install.md`` says why to operators.

==================  ======================================================================================
``enforce``         complete and refuse
``warn``            neither: say, and count, what would have been refused or changed
``off``             allow all without a word, and count that
no ConfigMap        ``enforce``: what is installed does what it was installed for, and to delete the
                    switch is to put it back
anything else       the switch stays where it was. Whoever mistypes in an incident has thrown it before,
                    as like as not, and must not have all refused again for a letter that is missing; nor
                    does a slip turn anything off. A replica that starts then has no before, and enforces
not to be read      the same: cut off from the API server, or not allowed to read it, we know no better
==================  ======================================================================================
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from plugins.framework import field, values

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from plugins.framework.draft import Change
    from plugins.framework.field import FieldError
    from webhook.metrics import Recorder

Mode: TypeAlias = Literal["enforce", "warn", "off"]

MODES: Final[Mapping[str, Mode]] = {"enforce": "enforce", "warn": "warn", "off": "off"}
"""As they are written."""

KIND: Final = "ConfigMap"
NAME: Final = "stationmaster-mode"
KEY: Final = "mode"

RIGHT: Final = ", ".join(MODES)

PREFIX: Final = "Stationmaster in warn mode: would"
"""How each warning begins that stands in the place of a deed."""

_REASONS: Final = 100
"""Refusals that are spelled out; fewer fit into the warnings of an answer."""


class Position(Protocol):
    """Where the switch is."""

    @property
    @abstractmethod
    def mode(self) -> Mode:
        """The mode now. Read once for each review."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A switch that nobody can throw: the command line judges, whatever a server would do now."""

    mode: Mode = "enforce"


class Switch:
    """The switch as it was last understood."""

    __slots__ = ("_logger", "_recorder", "_wrong", "mode")

    def __init__(self, *, recorder: Recorder, logger: FilteringBoundLogger) -> None:
        """Enforce, until something else has been read."""
        self.mode: Mode = "enforce"
        self._wrong = ""
        self._recorder = recorder
        self._logger = logger
        recorder.mode(self.mode)

    def read(self, config_map: Mapping[str, Any] | None) -> None:
        """Do as the ConfigMap says; None where there is none."""
        said = "enforce" if config_map is None else values.at(config_map, "data", KEY)
        mode = MODES.get(said.strip().lower()) if type(said) is str else None
        if mode is None:
            self._complain(field.show(said))
        else:
            self._turn(mode)

    def _turn(self, mode: Mode) -> None:
        before, wrong = self.mode, self._wrong
        if mode == before and not wrong:
            return
        self.mode, self._wrong = mode, ""
        self._recorder.mode(mode)
        self._logger.warning("mode is set", mode=mode, before=before)

    def _complain(self, wrong: str) -> None:
        """Once for each thing that is wrong. YAML takes a bare ``off`` for false, so quotes are worth a word."""
        if wrong == self._wrong:
            return
        self._wrong = wrong
        self._recorder.mode(self.mode, not_understood=wrong)
        self._logger.error(
            "mode is not understood and stays as it was",
            configMap=NAME,
            key=KEY,
            read=wrong,
            right=f"{RIGHT}; in YAML in quotes",
            mode=self.mode,
        )


def find(objects: Iterable[Any], namespace: str) -> Mapping[str, Any] | None:
    """The ConfigMap among objects of a folder, which may leave the namespace out."""
    for obj in objects:
        there = values.at(obj, "metadata", "namespace") or namespace
        if (values.at(obj, "kind"), there) == (KIND, namespace) and is_ours(obj):
            found: Mapping[str, Any] = obj
            return found
    return None


def is_ours(obj: Any) -> bool:
    """Whether a ConfigMap of our namespace is the switch."""
    return bool(values.at(obj, "metadata", "name") == NAME)


def would(
    errors: list[FieldError], changes: Iterable[Change], not_now: Exception | None
) -> list[str]:
    """What is said where a thing is not done: a warning for each refusal, or one for all changes."""
    if not_now is not None:
        return [f"{PREFIX} refuse this for the moment: {not_now}"]
    if not errors:
        places = list(dict.fromkeys(str(field.path_of(change.path)) for change in changes))
        return [_fold(f"{PREFIX} write ", places)] if places else []
    out = [f"{PREFIX} refuse this: {error}" for error in errors[:_REASONS]]
    more = len(errors) - len(out)
    return [*out, f"{PREFIX} refuse this for {more} more reasons"] if more else out


def _fold(head: str, places: list[str]) -> str:
    """As many of the places as a warning has room for, and how many more there are."""
    text = head + places[0]
    for i, place in enumerate(places[1:], 1):
        rest = f" and {len(places) - i} more"
        if len(text) + len(place) + 2 + len(rest) > field.LONGEST_WARNING:
            return text + rest
        text += f", {place}"
    return text
