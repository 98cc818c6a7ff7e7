"""Which rules of the policies under test no case makes hold, or break."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.document import Key, Policy
    from webhook.suites.running import SuiteRan


@dataclass(slots=True)
class Rule:
    """One limit, validation, default or override, and how many cases went which way."""

    key: Key
    name: str
    """``limits.gpus``, ``validations.team``, ``defaults.labels``."""
    is_written: bool
    """Whether it is a default or an override: those write or let be; the others are kept or broken."""
    yes: int = 0
    """Cases whose job keeps it, or to which it writes."""
    no: int = 0
    """Cases whose job breaks it, or that it lets be."""

    @property
    def is_covered(self) -> bool:
        """Whether cases went both ways."""
        return bool(self.yes and self.no)

    @property
    def cells(self) -> tuple[str, str]:
        """Both counts in words, and what no case shows."""
        yes, no = ("write", "let be") if self.is_written else ("kept", "broken")
        missing = [
            text
            for count, text in (
                (self.yes, "no case has it written" if self.is_written else "no case keeps it"),
                (self.no, "every case has it written" if self.is_written else "no case breaks it"),
            )
            if not count
        ]
        if not self.yes and not self.no:
            missing = ["no case comes to it"]
        return f"{self.yes} {yes}, {self.no} {no}", "; ".join(missing)


@dataclass(slots=True)
class Coverage:
    """All rules of all policies under test."""

    rules: dict[tuple[Key, str], Rule] = field(default_factory=dict)

    @property
    def percent(self) -> int:
        """Rules that cases went both ways about, of all; rounded down, and 100 where there is none."""
        if not self.rules:
            return 100
        return 100 * sum(rule.is_covered for rule in self.rules.values()) // len(self.rules)


def measure(suites: Iterable[SuiteRan]) -> Coverage:
    """Count. A policy that several suites test counts the cases of all of them."""
    out = Coverage()
    for suite in suites:
        for compiled in suite.policies:
            for name, short, is_written in _rules(compiled.policy):
                rule = out.rules.setdefault(
                    (compiled.key, name), Rule(compiled.key, name, is_written)
                )
                for ran in suite.ran:
                    _count(rule, (compiled.key, short), ran.held, ran.fired)
    return out


def _count(
    rule: Rule,
    at: tuple[Key, str],
    held: dict[tuple[Key, str], set[bool]],
    fired: set[tuple[Key, str]],
) -> None:
    if rule.is_written:
        rule.yes += at in fired
        rule.no += at not in fired
    elif at in held:
        rule.no += False in held[at]
        rule.yes += False not in held[at]


def _rules(policy: Policy) -> Iterator[tuple[str, str, bool]]:
    """Of each rule its full name, the name that runs know it by, and whether it writes."""
    for mode, options in (("defaults", policy.defaults), ("overrides", policy.overrides)):
        for option in options:
            name = f"{mode}.{option.key}"
            yield name, name, True
    for limit in policy.limits:
        yield f"limits.{limit.name}", limit.name, False
    for validation in policy.validations:
        yield f"validations.{validation.name}", validation.name, False
