"""One line of the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from webhook.doctor.facts import Unread

Level: TypeAlias = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check found; ``remedy`` says what to do, and is empty only where nothing is to be done."""

    check: str
    level: Level
    message: str
    remedy: str = ""


def ok(check: str, message: str) -> Finding:
    """As it should be."""
    return Finding(check=check, level="ok", message=message)


def warn(check: str, message: str, remedy: str) -> Finding:
    """It works, and somebody should look; or it could not be seen whether it does."""
    return Finding(check=check, level="warn", message=message, remedy=remedy)


def fail(check: str, message: str, remedy: str) -> Finding:
    """It does not do what it was installed for."""
    return Finding(check=check, level="fail", message=message, remedy=remedy)


def unread(check: str, found: Unread) -> Finding:
    """Nothing can be said."""
    return warn(check, f"cannot be told: {found.what}: {found.why}", f"ask as who {found.needs}")
