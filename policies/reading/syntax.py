"""The syntax of names, moments and spans of time in policy documents.

Each ``not_...`` function says why a text is none, or "" where it is one.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

from plugins.framework.schema.syntax import not_qualified_name, size
from policies.reading.bounds import LONGEST_DURATION, LONGEST_NAME

DURATION: Final = r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$"
"""Go's (``time.ParseDuration``) without a sign."""
IDENTIFIER: Final = r"^[_a-zA-Z][_a-zA-Z0-9]*$"
RULE: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
AUDIT_KEY: Final = r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"

_RULE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "namespace",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
"""Words that CEL keeps (cel-spec, langdef)."""
_AUDIT_KEY: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h)", re.ASCII)
_MICROSECONDS: Final = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "ms": Fraction(1000),
    "s": Fraction(1_000_000),
    "m": Fraction(60_000_000),
    "h": Fraction(3_600_000_000),
}
_MOMENT: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})T((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:(\.\d{1,6})\d{0,3})?"
    r"(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)


def not_rule_name(name: str) -> str:
    """Rules are named in messages, metrics and exceptions: a DNS label."""
    if size(name) > LONGEST_NAME:
        return f"must be no more than {LONGEST_NAME} bytes"
    if not _RULE.fullmatch(name):
        return "must consist of lower case letters, digits and '-', with no '-' at either end"
    return ""


def not_condition_name(name: str) -> str:
    """As in ValidatingAdmissionPolicy, a qualified name."""
    return "; ".join(not_qualified_name(name))


def not_variable_name(name: str) -> str:
    """As in ValidatingAdmissionPolicy, an identifier of CEL: it is read as ``variables.NAME``."""
    if size(name) > LONGEST_NAME:
        return f"must be no more than {LONGEST_NAME} bytes"
    if not _IDENTIFIER.fullmatch(name):
        return "must be an identifier of CEL: letters, digits and _, not beginning with a digit"
    return "is a word that CEL keeps for itself" if name in _RESERVED else ""


def not_audit_key(name: str) -> str:
    """As in ValidatingAdmissionPolicy, the name part of a qualified name."""
    if size(name) > LONGEST_NAME:
        return f"must be no more than {LONGEST_NAME} bytes"
    if not _AUDIT_KEY.fullmatch(name):
        return (
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with"
            " an alphanumeric character"
        )
    return ""


def duration(text: str) -> timedelta | None:
    """A span of time as Go writes it (``720h``, ``1h30m``), in whole microseconds; None if it is none."""
    if len(text) > LONGEST_DURATION:
        return None
    at, total = 0, Fraction(0)
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return None
        total += Fraction(part[1]) * _MICROSECONDS[part[2]]
        at = part.end()
    try:
        return timedelta(microseconds=int(total)) if text else None
    except OverflowError:
        return timedelta.max


def moment(text: str) -> datetime | None:
    """A moment by RFC 3339 (``2027-03-31T00:00:00Z``), in UTC and to the microsecond; None if it is none."""
    parts = _MOMENT.fullmatch(text)
    if parts is None:
        return None
    day, time, fraction, zone = parts.groups()
    try:
        found = datetime.fromisoformat(
            f"{day}T{time}{(fraction or '.').ljust(7, '0')}{'+00:00' if zone == 'Z' else zone}"
        )
        return found.astimezone(UTC)
    except (ValueError, OverflowError):  # no such day; before the year 1 or after 9999
        return None
