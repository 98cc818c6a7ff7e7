"""Faults of policies: what a policy does wrong where its rules cannot decide. Its ``failurePolicy`` says what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugins.framework.errors import Fault

if TYPE_CHECKING:
    from plugins.framework.field import Path


class ExpressionFault(Fault):
    """An expression gave no value, or none of the type that its place needs."""

    def __init__(self, path: Path, message: str) -> None:
        """Name the place in the policy's document, and what is wrong: lower case, with the value where it helps."""
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message

    def __reduce__(self) -> tuple[type[ExpressionFault], tuple[Path, str]]:
        """Copy and pickle as what it was made of: it comes out of worker processes."""
        return type(self), (self.path, self.message)
