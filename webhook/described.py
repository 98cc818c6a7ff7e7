"""What there is to say about every option: ours, and those of installed packages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import yaml

from plugins.framework.api import names
from plugins.framework.errors import ConfigError
from plugins.framework.field import Path
from policies.custom import catalogue
from policies.custom.declaration import ENTRY
from policies.document import API_VERSION
from policies.options import OPTIONS, Custom, Option, read
from policies.options.base import AS_IS, REFUSED
from policies.writes import Mode

_ALIASES: Final = {"Naming": ("Name",), "RuntimePatch": ("RuntimePatches",)}
"""The SDK's words for what has another name here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One option, as it is listed."""

    name: str
    key: str
    """Where a policy says it: ``labels``, ``trainer.command``; ``options`` for those of packages."""
    summary: str = ""
    fields: tuple[str, ...]
    merge: str
    lines: tuple[tuple[str, str], ...]
    """For each line of the Trainer what becomes of it."""
    modes: tuple[Mode, ...]
    backends: tuple[str, ...]
    trainers: tuple[str, ...] = ()
    sdk: str = ""
    package: str = ""
    problem: str = ""
    """Why it cannot be used here; empty where it can."""
    section: dict[str, Any]
    """What stands under ``defaults`` or ``overrides`` of an example."""

    @property
    def usable_lines(self) -> list[str]:
        """The lines on which it does something."""
        return [line for line, text in self.lines if text != REFUSED]

    @property
    def words(self) -> tuple[str, ...]:
        """What it may be asked for by."""
        own = () if self.key == ENTRY else (self.key,)
        return (self.name, *own, *_ALIASES.get(self.name, ()))

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.name,
            "key": self.key,
            "summary": self.summary,
            "fields": list(self.fields),
            "merge": self.merge,
            "lines": dict(self.lines),
            "modes": list(self.modes),
            "backends": list(self.backends),
            "trainers": list(self.trainers),
            "sdk": self.sdk,
            "package": self.package,
            "problem": self.problem,
        }


def all_described() -> list[Described]:
    """Ours in the order of policies, then those of packages by name."""
    ours = [_ours(option) for option in OPTIONS]
    return [*ours, *(_outside(one) for one in catalogue.all_declared())]


def _ours(option: type[Option]) -> Described:
    facts = option.facts
    summary, _, _ = (option.__doc__ or "").strip().partition("\n")
    return Described(
        name=option.name,
        key=option.key,
        summary=summary.replace("``", ""),
        fields=facts.fields,
        merge=facts.merge,
        lines=facts.lines,
        modes=facts.modes,
        backends=facts.backends,
        trainers=facts.trainers,
        sdk=facts.sdk,
        section=yaml.safe_load(facts.example),
    )


def _outside(one: catalogue.Declared) -> Described:
    lines = tuple((line, AS_IS if line in one.lines else REFUSED) for line, _ in Custom.facts.lines)
    problem = one.problem
    if not problem and not one.is_usable:
        problem = f"is for other backends than {catalogue.KUBERNETES}"
    entry = {"name": one.name, **({"args": one.example} if one.example else {})}
    return Described(
        name=one.name,
        key=ENTRY,
        summary=one.summary,
        fields=tuple(f"args.{name}" for name in one.args.properties),
        merge=Custom.facts.merge,
        lines=lines,
        modes=one.modes,
        backends=one.backends,
        package=one.installed.package,
        problem=problem,
        section={ENTRY: [entry]},
    )


def example(one: Described) -> dict[str, Any]:
    """A whole policy that uses it. Raises ConfigError where a package declares no arguments that would do."""
    mode = one.modes[0]
    _, errors = read(mode, one.section, Path())
    if errors:
        text = "; ".join(map(str, errors))
        raise ConfigError(
            f"option {one.name} of {one.package} declares no example that is right: {text}"
        )
    name = re.sub("[^a-z0-9]+", "-", one.name.lower()).strip("-")
    return {
        "apiVersion": API_VERSION,
        "kind": names.POLICY,
        "metadata": {"name": f"example-{name}"},
        "spec": {mode: one.section},
    }
